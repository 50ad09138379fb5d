/* SPDX-License-Identifier: MIT */
/* quern bundle check, inspect and diff (bundle_look.h). */
#include "prewarm/bundle_look.h"
#include "command/table.h"
#include "files/json_file.h"
#include "files/layer_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- check ----------------------------------------------------------------------------------- */

/* Rows of kernels that the bundle lacks. */
struct lacking {
    struct m_set rows;
    int64_t most; /* of those that were asked for */
    bool more;    /* there are more than the set has room for */
};

/* Asks for the kernels of a problem's rows where nothing may be compiled. */
static void ask(quern_ctx *ctx, struct prewarm_problem *p)
{
    for (size_t i = 0; !p->status && i < p->m.count; i++) {
        quern_op *op = NULL;
        const quern_status status =
            quern_op_create_range(ctx, &p->problem, p->m.ranges[i].lo, p->m.ranges[i].hi, &op);
        if (status)
            prewarm_keep_error(p, status);
        else
            p->kernel_count += quern_op_kernel_count(op);
        quern_op_release(op);
    }
}

/* Notes the rows of a kernel that the bundle lacks, as far as they were asked for. */
static void take_event(void *user, const struct quern_event *e)
{
    struct lacking *const l = user;
    struct m_set rows = {.count = 1, .ranges = {{e->m_lo, e->m_hi}}};

    if (e->kind != QUERN_EVENT_END || !e->status)
        return;
    if (rows.ranges[0].hi > l->most)
        rows.ranges[0].hi = l->most;
    if (rows.ranges[0].hi >= rows.ranges[0].lo && !options_m_add(&l->rows, &rows))
        l->more = true;
}

static int ask_all(struct prewarm *w, const char *bundle, struct lacking *lacking)
{
    struct common own = w->common;
    int status = EXIT_OK;

    own.library.event = take_event;
    own.library.event_user = lacking;
    own.library.bundle_path = bundle;
    own.library.cache_mode = QUERN_CACHE_OFF;
    own.library.jit = QUERN_JIT_OFF;
    for (size_t t = 0; !status && t < w->target_count; t++) {
        quern_ctx *ctx;
        status = open_making_context(&own, w->targets[t].text, &ctx);
        for (size_t i = w->targets[t].first; !status && i < w->targets[t].end; i++)
            ask(ctx, &w->problems[i]);
        if (!status)
            quern_close(ctx);
    }
    return status;
}

static json_t *lack_json(const struct prewarm *w, const struct prewarm_problem *p)
{
    return json_make("{s:s, s:s, s:s, s:s, s:s}", "target", w->targets[p->target].info.name,
                     "layers", p->layers, "problem", p->text, "status",
                     quern_status_name(p->status), "error", p->error);
}

static int print_lacks(const struct prewarm *w, const char *bundle, size_t lacking)
{
    struct table t = {0};
    json_t *const lacks = json_array();

    table_header(&t, "<lacks|<target|<problem");
    for (size_t i = 0; i < w->count; i++) {
        const struct prewarm_problem *const p = &w->problems[i];
        if (!p->status)
            continue;
        json_array_append_new(lacks, lack_json(w, p));
        table_cell(&t, "%s", p->layers[0] ? p->layers : "problem");
        table_cell(&t, "%s", w->targets[p->target].info.name);
        table_cell(&t, "%s", p->text);
    }
    int status = EXIT_OK;
    if (w->common.json)
        status = json_print(json_make("{s:s, s:b, s:I, s:o}", "file", bundle, "covers", !lacking,
                                      "problems", (json_int_t)w->count, "lacks", lacks));
    else {
        json_decref(lacks);
        if (lacking && !table_print(&t, 0))
            status = fail("out of memory");
    }
    table_free(&t);
    return status;
}

/* ---- inspect --------------------------------------------------------------------------------- */

struct kernel {
    char key[33];
    uint64_t bytes;
    bool damaged;
    struct layer_words words;
};

/* The kernels of a bundle, by key, as it gives them. */
struct kernels {
    size_t count, room;
    struct kernel *of;
    struct quern_bundle_info info;
    quern_bundle *bundle;
};

static int add_kernel(void *user, const struct quern_cache_entry *entry)
{
    struct kernels *const k = user;

    if (k->count == k->room) {
        const size_t room = k->room ? 2 * k->room : 64;
        struct kernel *const grown = realloc(k->of, room * sizeof *grown);
        if (!grown)
            return 1;
        k->of = grown;
        k->room = room;
    }
    struct kernel *const kernel = &k->of[k->count++];
    snprintf(kernel->key, sizeof kernel->key, "%s", entry->key);
    kernel->bytes = entry->bytes;
    kernel->damaged = entry->status != QUERN_OK;
    layer_words_of(entry->key_text, &kernel->words);
    return 0;
}

static int read_kernels(const char *path, struct kernels *k)
{
    *k = (struct kernels){.info = QUERN_INIT(struct quern_bundle_info)};
    quern_status e = quern_bundle_open_file(path, &k->bundle);
    if (!e)
        e = quern_bundle_info(k->bundle, &k->info);
    if (!e)
        e = quern_bundle_walk(k->bundle, 1, add_kernel, k);
    return e ? fail_status(e, path) : EXIT_OK;
}

static void free_kernels(struct kernels *k)
{
    free(k->of);
    quern_bundle_close(k->bundle);
}

static int by_layer(const void *a, const void *b)
{
    const struct kernel *const x = a, *const y = b;
    const int order = layer_words_compare(&x->words, &y->words);

    return order ? order : strcmp(x->key, y->key);
}

/* Adds a layer's line: kernels `first` to `end` - 1, of one target and problem. */
static void add_layer(const struct kernels *k, size_t first, size_t end, struct table *t,
                      json_t *list)
{
    const struct layer_words *const words = &k->of[first].words;
    uint64_t bytes = 0;
    char m[512] = "";

    for (size_t i = first; i < end; i++) {
        const size_t used = strlen(m);
        bytes += k->of[i].bytes;
        /* kernels of two compilers serve the same rows */
        if (i == first || strcmp(k->of[i].words.m, k->of[i - 1].words.m) != 0)
            snprintf(m + used, sizeof m - used, "%s%s", used ? "," : "", k->of[i].words.m);
    }
    json_array_append_new(list, json_make("{s:s, s:s, s:s, s:I, s:I}", "target", words->target,
                                          "problem", words->problem, "m", m, "kernels",
                                          (json_int_t)(end - first), "bytes", (json_int_t)bytes));
    table_cell(t, "%s", words->target);
    table_cell(t, "%zu", end - first);
    table_cell(t, "%llu", (unsigned long long)bytes);
    table_cell(t, "%s", m);
    table_cell(t, "%s", words->problem[0] ? words->problem : "of no problem, or damaged");
}

static void print_text(const char *what, const char *text)
{
    if (text[0])
        printf("\n%s:\n%s%s", what, text, text[strlen(text) - 1] == '\n' ? "" : "\n");
}

int bundle_inspect(const struct common *common, const char *path)
{
    struct table t = {0};
    struct kernels k;
    json_t *const list = json_array();
    size_t layers = 0;

    int status = read_kernels(path, &k);
    if (!status && k.count)
        qsort(k.of, k.count, sizeof *k.of, by_layer);
    table_header(&t, "<target|kernels|bytes|<M|<problem");
    for (size_t i = 0, end; !status && i < k.count; i = end, layers++) {
        const struct layer_words *const words = &k.of[i].words;
        for (end = i + 1; end < k.count && !strcmp(k.of[end].words.target, words->target) &&
                          !strcmp(k.of[end].words.problem, words->problem);)
            end++;
        add_layer(&k, i, end, &t, list);
    }
    if (!status && common->json) {
        status = json_print(json_make("{s:s, s:I, s:I, s:I, s:b, s:s, s:s, s:O}", "file", path,
                                      "entries", (json_int_t)k.count, "bytes",
                                      (json_int_t)k.info.bytes, "serial", (json_int_t)k.info.serial,
                                      "signed", k.info.has_signature, "manifest", k.info.manifest,
                                      "tuning", k.info.tuning, "layers", list));
    } else if (!status) {
        printf("%s: %zu layer%s, %zu kernel%s, %llu bytes, serial %llu, %s\n", shown_line(path),
               layers, layers == 1 ? "" : "s", k.count, k.count == 1 ? "" : "s",
               (unsigned long long)k.info.bytes, (unsigned long long)k.info.serial,
               k.info.has_signature ? "signed" : "not signed");
        if (layers && !table_print(&t, 0))
            status = fail("out of memory");
        print_text("manifest", k.info.manifest);
        print_text("tables", k.info.tuning);
        status = status ? status : finish_output();
    }
    json_decref(list);
    table_free(&t);
    free_kernels(&k);
    return status;
}

/* ---- what check says ------------------------------------------------------------------------- */

static void print_rows(FILE *out, const struct m_set *m)
{
    for (size_t i = 0; i < m->count; i++)
        fprintf(out, m->ranges[i].lo == m->ranges[i].hi ? "%s%lld" : "%s%lld-%lld", i ? "," : "",
                (long long)m->ranges[i].lo, (long long)m->ranges[i].hi);
}

/* A word of a command line, as a shell takes it; one with a quote in it is left to the reader. */
static void print_word(FILE *out, const char *option, const char *word)
{
    const char *const quote = strpbrk(word, " \"$*?&|;<>()") ? "'" : "";

    fprintf(out, " %s%s%s%s", option, quote, word, quote);
}

/* The command that makes what was asked for. */
static void print_remedy(FILE *out, const struct prewarm *w, const struct prewarm_origin *from)
{
    fprintf(out, "quern prewarm");
    if (w->common.target)
        print_word(out, "--target ", w->common.target);
    for (size_t i = 0; i < from->models.count; i++)
        print_word(out, "--model ", from->models.at[i]);
    if (from->manifest)
        print_word(out, "--manifest ", from->manifest);
    for (size_t i = 0; i < PREWARM_WORDS; i++)
        if (from->values[i]) {
            fprintf(out, " --%s", prewarm_words[i]);
            print_word(out, "", from->values[i]);
        }
    if (from->experts)
        fprintf(out, " --experts %s", from->experts == PREWARM_EXPERTS_MOE ? "moe" : "gemm");
    if (from->tp)
        print_word(out, "--tp ", from->tp);
    fprintf(out, " --m ");
    print_rows(out, &w->m_set);
    for (int i = 0; i < w->common.argument_count; i++)
        print_word(out, "", w->common.arguments[i]);
}

/* How many kernels the bundle has, by target; nothing where it cannot be read, or has none. */
static void print_holdings(FILE *out, const char *path)
{
    struct kernels k;
    bool any = false;

    if (read_kernels(path, &k) == EXIT_OK && k.count) {
        qsort(k.of, k.count, sizeof *k.of, by_layer);
        for (size_t i = 0, end; i < k.count; i = end, any = true) {
            for (end = i + 1;
                 end < k.count && !strcmp(k.of[end].words.target, k.of[i].words.target);)
                end++;
            fprintf(out, "%s%zu for %s", any ? ", " : "; it has kernels: ", end - i,
                    k.of[i].words.target);
        }
    }
    free_kernels(&k);
}

/* The last line about what is lacking: of which rows, what the bundle has, and what makes it. The
 * whole error of a layer is shown where the bundle itself is not used. */
static int fail_lacking(const struct prewarm *w, const struct prewarm_origin *from,
                        const char *bundle, const struct lacking *l, size_t lacking,
                        const struct prewarm_problem *first)
{
    const char *const layers = w->count == 1 ? "layer" : "layers";
    char *text = NULL;
    size_t size;

    FILE *const out = l->rows.count && !strstr(first->error, " is not used: ")
                          ? open_memstream(&text, &size)
                          : NULL;
    if (!out)
        return fail("%s lacks %zu of %zu %s; %s: %s", bundle, lacking, w->count, layers,
                    first->layers[0] ? first->layers : first->text, first->error);
    print_rows(out, &l->rows);
    fprintf(out, "%s)", l->more ? ",…" : "");
    print_holdings(out, bundle);
    fprintf(out, "; made by: ");
    print_remedy(out, w, from);
    fclose(out);
    const int status =
        fail("%s lacks %zu of %zu %s (M %s", bundle, lacking, w->count, layers, text ? text : "?)");
    free(text);
    return status;
}

int bundle_check(struct prewarm *w, struct prewarm_origin *from, const char *bundle)
{
    const struct prewarm_problem *first = NULL;
    size_t lacking = 0, kernels = 0;
    struct lacking rows = {0};

    int status = prewarm_collect(w, from);
    for (size_t i = 0; i < w->count; i++)
        if (m_most(&w->problems[i].m) > rows.most)
            rows.most = m_most(&w->problems[i].m);
    if (!status)
        status = ask_all(w, bundle, &rows);
    if (status)
        return status;
    for (size_t i = 0; i < w->count; i++) {
        kernels += w->problems[i].kernel_count;
        lacking += w->problems[i].status != QUERN_OK;
        if (w->problems[i].status && !first)
            first = &w->problems[i];
    }
    status = print_lacks(w, bundle, lacking);
    if (!status && !w->common.json && !lacking) {
        printf("%s covers %s%zu layer%s on %zu target%s, with %zu kernel%s\n", shown_line(bundle),
               w->count == 1 ? "" : "all ", w->count, w->count == 1 ? "" : "s", w->target_count,
               w->target_count == 1 ? "" : "s", kernels, kernels == 1 ? "" : "s");
        status = finish_output();
    }
    if (status || !lacking)
        return status;
    return fail_lacking(w, from, bundle, &rows, lacking, first);
}

/* ---- diff ------------------------------------------------------------------------------------ */

/* A kernel that only one of them has, or that is damaged in one. */
static void add_difference(struct table *t, json_t *list, const char *sign, const struct kernel *k)
{
    json_array_append_new(list, json_make("{s:s, s:s, s:s, s:s, s:s, s:s}", "in", sign, "key",
                                          k->key, "target", k->words.target, "m", k->words.m,
                                          "problem", k->words.problem, "kernel", k->words.kernel));
    table_cell(t, "%s", sign);
    table_cell(t, "%s", k->words.target[0] ? k->words.target : k->key);
    table_cell(t, "%s", k->words.m);
    table_cell(t, "%s", k->words.kernel);
    table_cell(t, "%s", k->words.problem);
}

/* Goes through both in the order of keys; returns how many kernels differ. */
static size_t compare(const struct kernels *a, const struct kernels *b, struct table *t,
                      json_t *list)
{
    size_t i = 0, j = 0, differ = 0;

    while (i < a->count || j < b->count) {
        const int order = i == a->count   ? 1
                          : j == b->count ? -1
                                          : strcmp(a->of[i].key, b->of[j].key);
        if (!order && a->of[i].damaged == b->of[j].damaged) {
            i++;
            j++;
            continue;
        }
        differ++;
        if (order < 0 || (!order && b->of[j].damaged))
            add_difference(t, list, "first", &a->of[i]);
        else
            add_difference(t, list, "second", &b->of[j]);
        i += order <= 0;
        j += order >= 0;
    }
    return differ;
}

int bundle_diff(const struct common *common, const char *one, const char *other)
{
    struct kernels a, b = {0};
    struct table t = {0};
    json_t *const list = json_array();

    int status = read_kernels(one, &a);
    if (!status)
        status = read_kernels(other, &b);
    table_header(&t, "<only in|<target|M|<kernel|<problem");
    const size_t differ = status ? 0 : compare(&a, &b, &t, list);
    const bool beside = !status && (strcmp(a.info.manifest, b.info.manifest) != 0 ||
                                    strcmp(a.info.tuning, b.info.tuning) != 0);
    if (!status && common->json) {
        status = json_print(json_make("{s:s, s:s, s:O, s:b, s:I, s:I}", "first", one, "second",
                                      other, "differences", list, "other_text", beside,
                                      "first_serial", (json_int_t)a.info.serial, "second_serial",
                                      (json_int_t)b.info.serial));
    } else if (!status && !differ) {
        printf("%s and %s have the same %zu kernel%s\n", shown_line(one), shown_line(other),
               a.count, a.count == 1 ? "" : "s");
        status = finish_output();
    } else if (!status) {
        status = table_print(&t, 0) ? finish_output() : fail("out of memory");
    }
    if (!status && beside)
        note("their manifests or tables differ");
    if (!status && differ)
        status = fail("%zu kernels are in one of %s and %s only", differ, one, other);
    json_decref(list);
    table_free(&t);
    free_kernels(&a);
    free_kernels(&b);
    return status ? status : beside ? EXIT_FAILED : EXIT_OK;
}
