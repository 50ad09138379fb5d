/* SPDX-License-Identifier: MIT */
/* What `quern prewarm` prints at its end: tables or JSON, and what went wrong (prewarm_work.h). */
#include "measure/counts.h"
#include "command/table.h"
#include "files/json_file.h"
#include "prewarm/prewarm_work.h"

#include <stdio.h>
#include <string.h>

struct totals {
    size_t kernels, compiled, cached, runs, runs_ok, failed, impossible; /* failed: these too */
};

static struct totals totals_of(const struct prewarm *w)
{
    struct totals t = {0};

    for (size_t i = 0; i < w->count; i++) {
        const struct prewarm_problem *p = &w->problems[i];
        t.kernels += p->kernel_count;
        for (size_t j = 0; j < p->kernel_count; j++)
            t.cached += p->kernels[j].cached;
        t.runs += p->run_count;
        for (size_t j = 0; j < p->run_count; j++)
            t.runs_ok += !p->runs[j].status;
        t.failed += p->status != QUERN_OK;
        t.impossible += prewarm_is_impossible(p);
    }
    t.compiled = t.kernels - t.cached;
    return t;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* Whether every problem of a target has the word `word`, of `length` bytes. */
static bool common_word(const struct prewarm *w, const struct prewarm_target *t, const char *word,
                        size_t length)
{
    /* n and k name the row even when there is one row */
    if (!strncmp(word, "n=", 2) || !strncmp(word, "k=", 2))
        return false;
    for (size_t i = t->first; i < t->end; i++) {
        const char *at = w->problems[i].text;
        if (!w->problems[i].kernel_count) /* it has no row */
            continue;
        while ((at = strstr(at, word)) && !(at[length] == ' ' || !at[length]))
            at++;
        if (!at)
            return false;
    }
    return true;
}

/* The words of a problem that all of its target have (`common`), or those that not all have. */
static void words_of(const struct prewarm *w, const struct prewarm_problem *p, bool common,
                     char out[QUERN_TEXT_MAX])
{
    char text[QUERN_TEXT_MAX], *rest = NULL;

    strcpy(text, p->text);
    out[0] = 0;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (common_word(w, &w->targets[p->target], word, strlen(word)) == common) {
            strcat(out, out[0] ? " " : "");
            strcat(out, word);
        }
}

static void add_runs(struct table *t, const struct prewarm_problem *p, size_t kernel)
{
    char m[64] = "", weight[64] = "", error[64] = "";

    /* a kernel that was run at two M has both, in order */
    for (size_t i = 0; i < p->run_count; i++) {
        const struct prewarm_run *r = &p->runs[i];
        const size_t at[] = {strlen(m), strlen(weight), strlen(error)};
        if (r->kernel != kernel)
            continue;
        const char *bar = m[0] ? " / " : "";
        snprintf(m + at[0], sizeof m - at[0], "%s%lld", bar, (long long)r->m);
        if (r->status && r->status != QUERN_E_VERIFY)
            snprintf(weight + at[1], sizeof weight - at[1], "%sfailed", bar);
        else if (!r->result.counts.instructions) /* run by what counts none: the CPU */
            snprintf(weight + at[1], sizeof weight - at[1], "%s-", bar);
        else
            snprintf(weight + at[1], sizeof weight - at[1], "%s%.2f", bar, prewarm_per_weight(r));
        snprintf(error + at[2], sizeof error - at[2], r->status ? "%sfailed" : "%s%.1e", bar,
                 r->result.max_error);
    }
    table_cell(t, "%s", m[0] ? m : "-");
    table_cell(t, "%s", weight[0] ? weight : "-");
    table_cell(t, "%s", error[0] ? error : "-");
}

static void add_kernel(struct table *t, const struct prewarm *w, const struct prewarm_problem *p,
                       size_t i)
{
    const struct prewarm_kernel *k = &p->kernels[i];
    char own[QUERN_TEXT_MAX];

    words_of(w, p, false, own);
    if (w->model_count)
        table_cell(t, "%s", i ? "" : p->layers);
    table_cell(t, "%s", i ? "" : own);
    if (k->and_more)
        table_cell(t, "%lld+", (long long)k->m_lo);
    else if (k->m_lo == k->m_hi)
        table_cell(t, "%lld", (long long)k->m_lo);
    else
        table_cell(t, "%lld-%lld", (long long)k->m_lo, (long long)k->m_hi);
    table_cell(t, "%s", k->symbol);
    if (k->cached)
        table_cell(t, "cached");
    else
        table_cell(t, "%.0f", k->compile_ms);
    table_cell(t, "%zu", k->object_bytes);
    table_cell(t, "%u", k->resources.vgprs);
    table_cell(t, "%u", k->resources.lds_bytes);
    table_cell(t, "%u", k->resources.waves_per_simd);
    if (w->verify)
        add_runs(t, p, i);
}

/* Whether a problem's rows are the choices of tokens, not tokens: down of a model's experts. */
static bool any_of_choices(const struct prewarm *w, const struct prewarm_target *target)
{
    for (size_t i = target->first; i < target->end; i++) {
        const struct prewarm_problem *const p = &w->problems[i];
        if (w->model_count && p->kernel_count && p->problem.op == QUERN_OP_MOE &&
            p->problem.top_k == 1)
            return true;
    }
    return false;
}

static bool print_table(const struct prewarm *w, const struct prewarm_target *target)
{
    struct table t = {0};
    char header[256], shared[QUERN_TEXT_MAX];

    snprintf(
        header, sizeof header, "%s<problem|M|<kernel|compile ms|object B|VGPR|LDS B|waves/SIMD%s",
        w->model_count ? "<layer|" : "", w->verify ? "|run at M|instr/weight|max rel error" : "");
    table_header(&t, header);
    for (size_t i = target->first; i < target->end; i++)
        for (size_t j = 0; j < w->problems[i].kernel_count; j++)
            add_kernel(&t, w, &w->problems[i], j);
    size_t made = target->first;
    while (made + 1 < target->end && !w->problems[made].kernel_count)
        made++;
    words_of(w, &w->problems[made], true, shared);
    printf("%s%s%s for %s (%s)\nevery problem: %s\n\n", target->first ? "\n" : "",
           shown_line(w->models), w->model_count ? "" : "problems", target->info.name,
           target->info.family, shared);
    const bool printed = table_print(&t, 0);
    table_free(&t);
    if (printed && any_of_choices(w, target))
        printf("M of expert down counts the rows of its A: one for each expert of a token\n");
    return printed;
}

/* Where the kernels came from that were not compiled, by the look-ups that each tier answered. */
static void name_sources(const struct prewarm *w, char out[128])
{
    static const struct {
        enum quern_stat hits;
        const char *name;
    } tiers[] = {{QUERN_STAT_HIT_DISK, "the cache"},
                 {QUERN_STAT_HIT_BUNDLE, "bundles"},
                 {QUERN_STAT_HIT_REMOTE, "the remote cache"},
                 {QUERN_STAT_HIT_BASE, "the library's base kernels"}};

    out[0] = 0;
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        if (w->counters[tiers[i].hits]) {
            const size_t used = strlen(out);
            snprintf(out + used, 128 - used, "%s%s", used ? " and " : "", tiers[i].name);
        }
    if (!out[0])
        strcpy(out, tiers[0].name);
}

static void print_closing(const struct prewarm *w)
{
    const struct totals t = totals_of(w);
    char sources[128];

    name_sources(w, sources);
    const bool hits = t.kernels && t.cached == t.kernels && !strcmp(sources, "the cache");
    printf("\n%zu kernel%s: %zu compiled, %zu from %s%s, in %.2f s", t.kernels,
           t.kernels == 1 ? "" : "s", t.compiled, t.cached, sources,
           hits ? " (all cache hits)" : "", w->make_seconds);
    if (t.runs)
        printf("; verified %zu of %zu runs without a GPU in %.1f s", t.runs_ok, t.runs,
               w->verify_seconds);
    const size_t failed = t.failed - t.impossible;
    if (failed)
        printf("; %zu problem%s failed", failed, failed == 1 ? "" : "s");
    if (t.impossible)
        printf("; %zu problem%s cannot be made", t.impossible, t.impossible == 1 ? "" : "s");
    printf("\n");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *run_json(const struct prewarm_problem *p, const struct prewarm_run *r)
{
    json_t *json = json_make("{s:I, s:s, s:b, s:f}", "m", (json_int_t)r->m, "kernel",
                             p->kernels[r->kernel].symbol, "ok", r->status == QUERN_OK, "tolerance",
                             r->result.tolerance);

    if (r->result.counts.instructions) {
        json_object_set_new(json, "instructions_per_weight", json_real(prewarm_per_weight(r)));
        json_object_set_new(json, "seconds", json_real(r->result.seconds));
        json_object_set_new(json, "counts", counts_json(&r->result.counts));
    }
    /* the error is infinite if nothing was compared. JSON has no infinity: json_real returns null
     */
    json_t *error = json_real(r->result.max_error);
    json_object_set_new(json, "max_error", error ? error : json_null());
    return json;
}

static json_t *kernel_json(const struct prewarm_kernel *k)
{
    return json_make("{s:s, s:[I, I], s:b, s:b, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}",
                     "kernel", k->symbol, "m", (json_int_t)k->m_lo, (json_int_t)k->m_hi, "and_more",
                     k->and_more, "cached", k->cached, "compile_ms", k->compile_ms, "object_bytes",
                     (json_int_t)k->object_bytes, "vgpr", (json_int_t)k->resources.vgprs, "sgpr",
                     (json_int_t)k->resources.sgprs, "lds", (json_int_t)k->resources.lds_bytes,
                     "scratch", (json_int_t)k->resources.scratch_bytes, "waves_per_simd",
                     (json_int_t)k->resources.waves_per_simd, "source_key", k->source_key,
                     "entry_key", k->entry_key);
}

static json_t *problem_json(const struct prewarm *w, const struct prewarm_problem *p)
{
    json_t *kernels = json_array(), *runs = json_array();

    for (size_t i = 0; i < p->kernel_count; i++)
        json_array_append_new(kernels, kernel_json(&p->kernels[i]));
    for (size_t i = 0; i < p->run_count; i++)
        json_array_append_new(runs, run_json(p, &p->runs[i]));
    json_t *json =
        json_make("{s:s, s:s, s:s, s:o, s:o}", "target", w->targets[p->target].info.name, "layers",
                  p->layers, "problem", p->text, "kernels", kernels, "verified", runs);
    if (p->status) {
        json_t *text = json_words(p->error);
        json_object_set_new(json, "status", json_words(quern_status_name(p->status)));
        json_object_set_new(json, "error", text ? text : json_null());
        if (p->nearest_split)
            json_object_set_new(json, "nearest_split", json_integer(p->nearest_split));
    }
    return json;
}

json_t *prewarm_counters_json(const struct prewarm *w)
{
    json_t *json = json_object();

    for (int i = 0; i < QUERN_STAT_COUNT; i++)
        json_object_set_new(json, quern_stat_name((enum quern_stat)i),
                            json_integer((json_int_t)w->counters[i]));
    return json;
}

static bool print_counters(const struct prewarm *w)
{
    struct table t = {0};

    table_header(&t, "<counter|value|<counts");
    for (int i = 0; i < QUERN_STAT_COUNT; i++) {
        table_cell(&t, "%s", quern_stat_name((enum quern_stat)i));
        table_cell(&t, "%llu", (unsigned long long)w->counters[i]);
        table_cell(&t, "%s", quern_stat_meaning((enum quern_stat)i));
    }
    const bool printed = table_print(&t, 0);
    table_free(&t);
    return printed;
}

static json_t *report_json(const struct prewarm *w)
{
    const struct totals t = totals_of(w);
    json_t *problems = json_array(), *targets = json_array();

    for (size_t i = 0; i < w->count; i++)
        json_array_append_new(problems, problem_json(w, &w->problems[i]));
    for (size_t i = 0; i < w->target_count; i++)
        json_array_append_new(targets, json_words(w->targets[i].info.name));
    return json_make(
        "{s:i, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:f, s:f}",
        "quern_prewarm", 1, "model", w->models, "target",
        w->target_count == 1 ? json_words(w->targets[0].info.name) : json_null(), "targets",
        targets, "problems", problems, "kernels", (json_int_t)t.kernels, "compiled",
        (json_int_t)t.compiled, "cached", (json_int_t)t.cached, "not_stored",
        (json_int_t)w->counters[QUERN_STAT_PUT_FAILED], "runs", (json_int_t)t.runs, "runs_ok",
        (json_int_t)t.runs_ok, "failed", (json_int_t)(t.failed - t.impossible), "impossible",
        (json_int_t)t.impossible, "counters", prewarm_counters_json(w), "make_seconds",
        w->make_seconds, "verify_seconds", w->verify_seconds);
}

int prewarm_report(const struct prewarm *w)
{
    if (w->common.json)
        return json_print(report_json(w));
    for (size_t t = 0; t < w->target_count; t++)
        if (w->targets[t].first < w->targets[t].end && !print_table(w, &w->targets[t]))
            return fail("out of memory");
    print_closing(w);
    if (w->show_counters && !print_counters(w))
        return fail("out of memory");
    return finish_output();
}

/* ---- The closing lines ----------------------------------------------------------------------- */

/* Names a problem, and those behind it that were left out for the same reason. */
static void describe(const struct prewarm *w, const struct prewarm_problem *p, char text[1024])
{
    const bool which = w->target_count > 1;
    int n = 0;

    for (const struct prewarm_problem *q = p; q < w->problems + w->count && n < 1000; q++)
        if (q == p || (prewarm_is_impossible(q) && !strcmp(q->error, p->error)))
            n += snprintf(text + n, 1024 - (size_t)n, "%s%.300s%s%s", n ? ", " : "",
                          q->layers[0] ? q->layers : q->text, which ? " for " : "",
                          which ? w->targets[q->target].info.name : "");
}

/* The last line about problems that failed; returns the exit status. Problems that cannot be are no
 * failure of the work that is done for the others. */
static int conclude_failed(const struct prewarm *w, const struct prewarm_problem *first,
                           size_t failed, bool any_failed)
{
    char text[1024];

    describe(w, first, text);
    if (any_failed)
        return fail("%zu of %zu problems failed; %s: %s", failed, w->count, text, first->error);
    if (!w->skip_impossible)
        return impossible("%zu of %zu problems cannot be made; %s: %s", failed, w->count, text,
                          first->error);
    note("%zu of %zu problems cannot be made and are skipped; %s: %s", failed, w->count, text,
         first->error);
    return EXIT_OK;
}

void prewarm_note_warnings(const struct prewarm *w)
{
    for (size_t i = 0; i < w->warning_count && i < WARNINGS_MAX; i++)
        note("warning: %s", w->warnings[i]);
    if (w->warning_count > WARNINGS_MAX)
        note("%zu more warnings; --log info shows all", w->warning_count - WARNINGS_MAX);
}

int prewarm_conclude(const struct prewarm *w)
{
    size_t failed = 0;
    const struct prewarm_problem *first = NULL;
    bool any_failed = false;
    char text[1024];

    for (size_t i = 0; i < w->count; i++) {
        const struct prewarm_problem *const p = &w->problems[i];
        if (!p->status)
            continue;
        failed++;
        /* the last line is about what failed, if anything did */
        if (!first || (!any_failed && !prewarm_is_impossible(p)))
            first = p;
        any_failed |= !prewarm_is_impossible(p);
    }
    /* with --json each problem has its reason in the report */
    for (size_t i = 0; i < w->count && !w->common.json; i++) {
        const struct prewarm_problem *const p = &w->problems[i];
        size_t same = 0;
        if (!p->status)
            continue;
        while (strcmp(w->problems[same].error, p->error) != 0)
            same++;
        if (same == i && prewarm_is_impossible(p) && strcmp(p->error, first->error) != 0) {
            describe(w, p, text);
            note("%s: %s", text, p->error);
        }
    }
    const int status = first ? conclude_failed(w, first, failed, any_failed) : EXIT_OK;
    if (status)
        return status;
    const uint64_t put_failed = w->counters[QUERN_STAT_PUT_FAILED];
    if (put_failed)
        return fail("%llu kernel%s could not be stored: %s; make room there, or name another "
                    "directory with --cache-dir",
                    (unsigned long long)put_failed, put_failed == 1 ? "" : "s",
                    w->warning_count ? w->warnings[0] : "the cache is not writable");
    prewarm_note_warnings(w);
    return EXIT_OK;
}
