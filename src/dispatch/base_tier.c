/* SPDX-License-Identifier: MIT */
/*
 * The base kernels that come with the library, as a tier: of each target a bundle in
 * libexec/quern/base, which is taken if it is the one that this library was built with
 * (base_shipped). It is looked for when the first kernel is asked for that no other tier has, so
 * that a host whose kernels are all there never opens it.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "base/place.h"

#include <stdio.h>
#include <string.h>

/* Why a bundle that is there does not serve, with the reason, and the remedy. */
#define DAMAGED "the file is damaged (%.200s): run make base and make install again"

/* Finds the bundle where the worker is that the host names, else where the library's files are. */
static bool find(const struct base_bundle *b, char path[PLACE_MAX], char *tried, size_t size)
{
    const char *const slash = b->worker_path ? strrchr(b->worker_path, '/') : NULL;
    char name[64];

    snprintf(name, sizeof name, "base/%s.qkb", b->shipped->target);
    return (slash &&
            place_join(path, "%.*s/%s", (int)(slash - b->worker_path), b->worker_path, name) &&
            place_exists(path)) ||
           place_of_helper(name, path, tried, size);
}

/* Opens the bundle. It is refused, which is counted, unless its head has the digest that is built
 * in; its owner does not matter then. */
static void open_it(struct base_bundle *b)
{
    char path[PLACE_MAX], tried[3 * PLACE_MAX] = "";
    struct bundle *file = NULL;

    if (!find(b, path, tried, sizeof tried)) {
        str_addf(&b->why, "; there are no base kernels for %s at %s", b->shipped->target, tried);
        return;
    }
    quern_status status = bundle_open_any(path, &file);
    if (status == QUERN_OK)
        status = bundle_prove(file, b->shipped->digest);
    if (status == QUERN_OK) {
        b->file = file;
        return;
    }
    bundle_close(file);
    counter_add(b->counters, QUERN_STAT_BASE_DAMAGED, 1);
    log_line(b->log, QUERN_LOG_WARN, "base kernels in %s are not used: " DAMAGED, path,
             quern_last_error()->message);
    str_addf(&b->why, "; base kernels in %.200s are not used: " DAMAGED, path,
             quern_last_error()->message);
}

/* The bundle, or null; looked for once. */
static const struct bundle *opened(struct base_bundle *b)
{
    if (!atomic_load_explicit(&b->looked, memory_order_acquire)) {
        lock_take(&b->lock);
        if (!atomic_load(&b->looked))
            open_it(b);
        atomic_store_explicit(&b->looked, true, memory_order_release);
        lock_give(&b->lock);
    }
    return b->file;
}

static enum tier_answer get(void *self, struct tier_get *g, struct store_entry *entry)
{
    struct base_bundle *const b = self;
    const struct bundle *const file = opened(b);

    if (!file)
        return TIER_MISS;
    const quern_status status = bundle_get(file, g->want, g->by_source, entry);
    if (status == QUERN_OK && entry->buffer) {
        counter_add(b->counters, QUERN_STAT_HIT_BASE, 1);
        return TIER_HIT;
    }
    if (status != QUERN_OK && counter_add(b->counters, QUERN_STAT_BASE_DAMAGED, 1) == 0)
        log_line(b->log, QUERN_LOG_WARN, "a base kernel is not used: %s (said once)",
                 quern_last_error()->message);
    return TIER_MISS;
}

static void close_base(void *self)
{
    struct base_bundle *const b = self;

    bundle_close(b->file);
    b->file = NULL;
    str_free(&b->why);
}

void base_tell(struct base_bundle *b, struct str *out)
{
    if (!b->shipped)
        str_add(out, b->none);
    else if (!opened(b))
        str_add(out, str_text(&b->why));
    else
        str_add(out, "; the base kernels that came with the library do not have it");
}

struct tier base_tier(struct base_bundle *b)
{
    return (struct tier){.name = "the library's base kernels",
                         .id = QUERN_TIER_BASE,
                         .source_first = true,
                         .self = b,
                         .get = b->shipped ? get : NULL,
                         .close = close_base};
}
