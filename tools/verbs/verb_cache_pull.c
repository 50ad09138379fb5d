/* SPDX-License-Identifier: MIT */
/*
 * quern cache pull: brings the kernels of a manifest's layers from a remote cache into this
 * machine's. It is a prewarm that may not compile, with the place as its remote, so that the
 * library's tiers search, check and store as they do for a host; what became of each kernel is
 * taken from the library's events.
 */
#include "verbs/verb_cache_pull.h"

#include "command/table.h"
#include "files/json_file.h"
#include "files/shared_files.h"
#include "prewarm/prewarm_work.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long an entry may take to come: longer than ops give a remote, as who pulls has time, but a
 * server that says nothing shall not hold a script for long. */
#define PULL_PATIENCE_MS 60000

struct pulled {
    char key[33], source_key[33];
    char target[32], kernel[128], problem[QUERN_TEXT_MAX];
    int64_t m_lo, m_hi;
};

struct pull {
    const char *place;
    void *seen; /* every kernel (struct pulled), a tree by key */
    size_t present, fetched, missing_count, missing_room;
    const struct pulled **missing; /* in the tree */
    bool failed;                   /* out of memory */
};

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct pulled *)a)->key, ((const struct pulled *)b)->key);
}

static int compare_missing(const void *a, const void *b)
{
    const struct pulled *const x = *(const struct pulled *const *)a;
    const struct pulled *const y = *(const struct pulled *const *)b;
    const int by_target = strcmp(x->target, y->target);
    const int by_problem = by_target ? by_target : strcmp(x->problem, y->problem);

    return by_problem ? by_problem : x->m_lo < y->m_lo ? -1 : x->m_lo > y->m_lo;
}

static void add_missing(struct pull *p, const struct pulled *kernel)
{
    if (p->missing_count == p->missing_room) {
        const size_t room = p->missing_room ? 2 * p->missing_room : 64;
        const struct pulled **const grown = realloc(p->missing, room * sizeof *grown);
        if (!grown) {
            p->failed = true;
            return;
        }
        p->missing = grown;
        p->missing_room = room;
    }
    p->missing[p->missing_count++] = kernel;
}

/* Takes an event of the library. A kernel that several layers or several ranges of rows need is
 * counted once, as what it was when it was first asked for. */
static void take_event(void *user, const struct quern_event *e)
{
    struct pull *const p = user;

    if (e->kind != QUERN_EVENT_END || p->failed)
        return;
    struct pulled *const kernel = calloc(1, sizeof *kernel);
    if (!kernel) {
        p->failed = true;
        return;
    }
    *kernel = (struct pulled){.m_lo = e->m_lo, .m_hi = e->m_hi};
    snprintf(kernel->key, sizeof kernel->key, "%s", e->key);
    snprintf(kernel->source_key, sizeof kernel->source_key, "%s", e->source_key);
    snprintf(kernel->target, sizeof kernel->target, "%s", e->target);
    snprintf(kernel->kernel, sizeof kernel->kernel, "%s", e->kernel);
    snprintf(kernel->problem, sizeof kernel->problem, "%s", e->problem);
    void *const node = tsearch(kernel, &p->seen, compare_keys);
    if (!node || *(struct pulled **)node != kernel) { /* out of memory, or it was there */
        p->failed = !node;
        free(kernel);
        return;
    }
    if (e->status)
        add_missing(p, kernel);
    else if (e->tier == QUERN_TIER_REMOTE)
        p->fetched++;
    else
        p->present++;
}

/* ---- Report ---------------------------------------------------------------------------------- */

static json_t *missing_json(const struct pull *p)
{
    json_t *const rows = json_array();

    for (size_t i = 0; i < p->missing_count; i++) {
        const struct pulled *const k = p->missing[i];
        json_array_append_new(
            rows, json_make("{s:s, s:s, s:[I, I], s:s, s:s, s:s}", "target", k->target, "problem",
                            k->problem, "m", (json_int_t)k->m_lo, (json_int_t)k->m_hi, "kernel",
                            k->kernel, "entry_key", k->key, "source_key", k->source_key));
    }
    return rows;
}

static int print_json(const struct pull *p, const struct prewarm *w)
{
    const size_t kernels = p->present + p->fetched + p->missing_count;

    return json_print(json_make("{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "quern_pull", 1,
                                "place", p->place, "kernels", (json_int_t)kernels, "present",
                                (json_int_t)p->present, "fetched", (json_int_t)p->fetched,
                                "missing", (json_int_t)p->missing_count, "not_stored",
                                (json_int_t)w->counters[QUERN_STAT_PUT_FAILED], "missing_kernels",
                                missing_json(p), "counters", prewarm_counters_json(w)));
}

static int print_text(const struct pull *p)
{
    const size_t kernels = p->present + p->fetched + p->missing_count;
    struct table t = {0};

    table_header(&t, "<missing for|M|<kernel|<entry key|<problem");
    for (size_t i = 0; i < p->missing_count; i++) {
        const struct pulled *const k = p->missing[i];
        table_cell(&t, "%s", k->target);
        if (k->m_lo == k->m_hi)
            table_cell(&t, "%lld", (long long)k->m_lo);
        else
            table_cell(&t, "%lld-%lld", (long long)k->m_lo, (long long)k->m_hi);
        table_cell(&t, "%s", k->kernel);
        table_cell(&t, "%s", k->key);
        table_cell(&t, "%s", k->problem);
    }
    const bool printed = !p->missing_count || table_print(&t, 0);
    table_free(&t);
    if (!printed)
        return fail("out of memory");
    printf("%s%zu kernel%s: %zu there already, %zu fetched from %s, %zu missing\n",
           p->missing_count ? "\n" : "", kernels, kernels == 1 ? "" : "s", p->present, p->fetched,
           shown_line(p->place), p->missing_count);
    return finish_output();
}

/* ---- The work -------------------------------------------------------------------------------- */

/* The library takes a directory by its absolute path alone. */
static int find_place(const char *given, char **place)
{
    *place = shared_is_url(given) ? strdup(given) : realpath(given, NULL);
    return *place ? EXIT_OK : fail("%s: %s", given, strerror(errno));
}

/* What is pulled is to be in the directory afterwards, so that a cache which is only read, or none,
 * makes no sense. */
static int check_mode(const struct common *common)
{
    const char *const variable = secure_getenv("QUERN_CACHE_MODE");
    const int given = common->library.cache_mode;
    const bool writes =
        given ? given == QUERN_CACHE_RW : !variable || !*variable || !strcmp(variable, "rw");

    return writes ? EXIT_OK
                  : misuse("pull writes to the cache directory: --cache-mode (QUERN_CACHE_MODE) "
                           "must be rw");
}

static bool is_set(const char *variable)
{
    const char *const value = secure_getenv(variable);

    return value && *value;
}

/* The library's own refusal speaks of QUERN_REMOTE, which who pulls does not set. */
static int check_keys(void)
{
    const char *const trust = secure_getenv("QUERN_REMOTE_TRUST");

    return is_set("QUERN_REMOTE_KEYS") || (trust && !strcmp(trust, "transport"))
               ? EXIT_OK
               : misuse("whose entries? name the file of the public keys that sign them in "
                        "QUERN_REMOTE_KEYS");
}

static int pull(struct prewarm *w, struct pull *p)
{
    struct quern_options *const o = &w->common.library;

    o->remote = p->place;
    o->remote_grace_ms = PULL_PATIENCE_MS;
    o->jit = QUERN_JIT_OFF;
    o->base = QUERN_BASE_OFF; /* a base kernel that serves a layer would hide what it misses */
    o->event = take_event;
    o->event_user = p;
    int status = prewarm_make(w, "fetching");
    if (status)
        return status;
    if (p->failed)
        return fail("out of memory");
    if (p->missing_count) /* else there is no array, which qsort may not be given */
        qsort(p->missing, p->missing_count, sizeof *p->missing, compare_missing);
    status = w->common.json ? print_json(p, w) : print_text(p);
    if (p->missing_count) /* why, if the remote is to blame; else they are said at the end */
        prewarm_note_warnings(w);
    const int verdict = prewarm_conclude(w);
    return verdict ? verdict : status;
}

int cache_pull(const struct common *common, const char *manifest)
{
    static struct prewarm w; /* large */
    const char *const named = manifest ? manifest : secure_getenv("QUERN_MANIFEST");
    struct prewarm_origin from = {.manifest = named};
    struct pull p = {0};
    char *place = NULL;

    if (!named || !*named)
        return misuse("which kernels? give --manifest FILE, the layers that QUERN_RECORD noted of "
                      "a run (QUERN_MANIFEST)");
    int status = check_mode(common);
    if (!status)
        status = check_keys();
    if (!status)
        status = find_place(common->arguments[1], &place);
    if (status)
        return status;
    p.place = place;
    w.common = *common;
    w.common.argument_count = 0;
    status = prewarm_collect(&w, &from);
    if (!status)
        status = pull(&w, &p);
    tdestroy(p.seen, free);
    free(p.missing);
    prewarm_free(&w);
    free(place);
    return status;
}
