/* SPDX-License-Identifier: MIT */
/*
 * quern prewarm: fills the cache with the kernels of a model's layers, and proves that they are
 * right by loading them back from it and running them on the software GPU.
 */
#include "prewarm/prewarm_work.h"
#include "command/progress.h"

#include "measure/counts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64
/* The seed of random operands. Any will do, but always the same, so that a failure shows again. */
#define VERIFY_SEED 20

/* ---- Making ---------------------------------------------------------------------------------- */

/* Problems that threads take one after another. */
struct line {
    struct prewarm *w;
    quern_ctx *ctx;
    size_t end;
    pthread_mutex_t lock; /* of the rest */
    size_t next, done;
};

void prewarm_keep_error(struct prewarm_problem *p, quern_status status)
{
    const struct quern_error *e = quern_last_error();

    p->status = status;
    snprintf(p->error, sizeof p->error, "%s%s%s",
             e->message[0] ? e->message : quern_status_name(status), e->log[0] ? ": " : "", e->log);
}

/* Adds to a problem's kernels those of an op that it does not have yet. */
static quern_status keep_kernels(struct prewarm_problem *p, const quern_op *op)
{
    for (size_t i = 0; i < quern_op_kernel_count(op); i++) {
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        const quern_status status = quern_op_kernel(op, i, &info);
        size_t j = 0;
        if (status)
            return status;
        while (j < p->kernel_count && strcmp(p->kernels[j].entry_key, info.entry_key))
            j++;
        if (j < p->kernel_count || j == PREWARM_KERNELS_MAX)
            continue;
        struct prewarm_kernel *k = &p->kernels[p->kernel_count++];
        *k = (struct prewarm_kernel){.m_lo = info.m_lo,
                                     .and_more = info.and_more,
                                     .m_hi = info.m_hi,
                                     .cached = info.cached,
                                     .compile_ms = info.compile_ms,
                                     .object_bytes = info.object_bytes,
                                     .resources = info.resources};
        snprintf(k->symbol, sizeof k->symbol, "%s", info.symbol);
        memcpy(k->source_key, info.source_key, sizeof k->source_key);
        memcpy(k->entry_key, info.entry_key, sizeof k->entry_key);
    }
    return QUERN_OK;
}

static void make(quern_ctx *ctx, struct prewarm_problem *p)
{
    for (size_t i = 0; !p->status && i < p->m.count; i++) {
        quern_op *op = NULL;
        quern_status status =
            quern_op_create_range(ctx, &p->problem, p->m.ranges[i].lo, p->m.ranges[i].hi, &op);
        if (!status)
            status = keep_kernels(p, op);
        if (status)
            prewarm_keep_error(p, status);
        quern_op_release(op);
    }
}

static void *work(void *user)
{
    struct line *line = user;
    struct prewarm *w = line->w;

    for (;;) {
        pthread_mutex_lock(&line->lock);
        const size_t i = line->next++;
        pthread_mutex_unlock(&line->lock);
        if (i >= line->end)
            return NULL;
        make(line->ctx, &w->problems[i]);
        pthread_mutex_lock(&line->lock);
        progress_draw("compiling", ++line->done, w->count, w->problems[i].layers);
        pthread_mutex_unlock(&line->lock);
    }
}

/* Compiles take place in the workers; these threads only keep them busy. */
static void make_all(struct prewarm *w, const struct prewarm_target *t, quern_ctx *ctx)
{
    struct line line = {.w = w,
                        .ctx = ctx,
                        .end = t->end,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .next = t->first,
                        .done = t->first};
    pthread_t threads[THREADS_MAX];
    size_t started = 0;
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = (size_t)(w->common.library.jobs ? w->common.library.jobs : cpus > 0 ? cpus : 1);

    if (wanted > t->end - t->first)
        wanted = t->end - t->first;
    if (wanted > THREADS_MAX)
        wanted = THREADS_MAX;
    progress_draw("compiling", t->first, w->count, "");
    while (started + 1 < wanted && !pthread_create(&threads[started], NULL, work, &line))
        started++;
    work(&line);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    progress_clear();
}

/* ---- Verifying ------------------------------------------------------------------------------- */

/* The most rows that quern_verify takes. Down of a model's experts may have more; its kernels are
 * run with so many then, which they serve as well. */
#define VERIFY_ROWS_MAX 65536

static int64_t at_most(int64_t m)
{
    return m < VERIFY_ROWS_MAX ? m : VERIFY_ROWS_MAX;
}

/* The largest M that was asked for among those that a kernel serves; 0: there is none. */
static int64_t largest_wanted(const struct prewarm_problem *p, const struct prewarm_kernel *k)
{
    int64_t largest = 0;

    for (size_t i = 0; i < p->m.count; i++) {
        const int64_t hi = p->m.ranges[i].hi < k->m_hi ? p->m.ranges[i].hi : k->m_hi;
        if (hi >= p->m.ranges[i].lo && hi >= k->m_lo && hi > largest)
            largest = hi;
    }
    return largest;
}

static void add_run(struct prewarm_problem *p, int64_t m)
{
    size_t kernel = 0;

    for (size_t i = 0; i < p->run_count; i++)
        if (p->runs[i].m == m)
            return;
    while (kernel + 1 < p->kernel_count && p->kernels[kernel].m_hi < m)
        kernel++;
    if (p->run_count < PREWARM_RUNS_MAX)
        p->runs[p->run_count++] = (struct prewarm_run){.m = m, .kernel = kernel};
}

static bool is_run(const struct prewarm_problem *p, size_t kernel)
{
    for (size_t i = 0; i < p->run_count; i++)
        if (p->runs[i].kernel == kernel)
            return true;
    return false;
}

/* Chooses the M that are verified: the smallest that was asked for, and the largest of those that
 * fit one slice. With --verify all, for every kernel the largest M asked for that it serves; and
 * for a kernel that only serves the rest which slices of another leave, the largest M that it would
 * serve alone. */
static void choose_runs(const struct prewarm *w, struct prewarm_problem *p)
{
    const bool all = w->verify == PREWARM_VERIFY_ALL;

    if (!p->kernel_count)
        return;
    add_run(p, at_most(p->m.ranges[0].lo));
    for (size_t i = all ? 0 : p->kernel_count - 1; i < p->kernel_count; i++) {
        const int64_t m = largest_wanted(p, &p->kernels[i]);
        if (m)
            add_run(p, at_most(m));
        else if (all && !is_run(p, i))
            add_run(p, at_most(p->kernels[i].m_hi));
    }
}

/* Runs one M of a problem on an op whose kernels were loaded from the store. */
static void verify_run(quern_ctx *ctx, struct prewarm_problem *p, struct prewarm_run *r)
{
    quern_op *op = NULL;

    r->result = (struct quern_verification)QUERN_INIT(struct quern_verification);
    r->status = quern_op_create_range(ctx, &p->problem, r->m, r->m, &op);
    if (!r->status)
        r->status = quern_verify(op, r->m, VERIFY_SEED, QUERN_CHECK_FAST, &r->result);
    if (r->status)
        prewarm_keep_error(p, r->status);
    quern_op_release(op);
}

/* Opens a context that may not compile, so that the kernels that are verified are those of the
 * store. Only where there is no store is everything compiled once more. */
static int open_verifier(const struct prewarm *w, const char *target, quern_ctx **ctx)
{
    struct quern_cache_info cache = QUERN_INIT(struct quern_cache_info);
    struct common common = w->common;

    common.library.jit = QUERN_JIT_OFF;
    const int status = open_making_context(&common, target, ctx);
    if (status || quern_cache_info(*ctx, &cache) || cache.directory[0])
        return status;
    quern_close(*ctx);
    common.library.jit = QUERN_JIT_ON;
    return open_making_context(&common, target, ctx);
}

/* Verifies the problems of one target; *done and `total` count the runs of all targets. */
static int verify_target(struct prewarm *w, const struct prewarm_target *t, size_t *done,
                         size_t total)
{
    quern_ctx *ctx;

    const int status = open_verifier(w, t->info.name, &ctx);
    if (status)
        return status;
    for (size_t i = t->first; i < t->end; i++) {
        struct prewarm_problem *p = &w->problems[i];
        for (size_t j = 0; j < p->run_count; j++) {
            char what[600];
            snprintf(what, sizeof what, "%s M=%lld", p->layers, (long long)p->runs[j].m);
            progress_draw("verifying", (*done)++, total, what);
            verify_run(ctx, p, &p->runs[j]);
        }
    }
    progress_clear();
    quern_close(ctx);
    return EXIT_OK;
}

static int verify_all(struct prewarm *w)
{
    size_t total = 0, done = 0;
    int status = EXIT_OK;

    for (size_t i = 0; i < w->count; i++) {
        choose_runs(w, &w->problems[i]);
        total += w->problems[i].run_count;
    }
    for (size_t t = 0; !status && t < w->target_count; t++)
        if (w->targets[t].first < w->targets[t].end)
            status = verify_target(w, &w->targets[t], &done, total);
    return status;
}

double prewarm_per_weight(const struct prewarm_run *r)
{
    return counts_per(&r->result.counts, counts_issue_slots(&r->result.counts),
                      (double)r->result.weights);
}

/* ---- The verb -------------------------------------------------------------------------------- */

/* Takes the library's log. A full disk makes every put fail for the same reason: so warnings are
 * kept for one line at the end, and shown as they come only when more than warnings were asked for.
 */
static void keep_warning(void *user, enum quern_log_level level, const char *text)
{
    struct prewarm *w = user;

    if (level == QUERN_LOG_WARN && w->warning_count++ < WARNINGS_MAX)
        snprintf(w->warnings[w->warning_count - 1], sizeof w->warnings[0], "%s", text);
    if (level != QUERN_LOG_WARN || w->common.library.log_level > QUERN_LOG_WARN)
        note("%s", text);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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

/* Says what a list of rows with gaps is not: enough for a host, whose ops are for every M up to
 * their largest. */
static void note_gaps(const struct m_set *m)
{
    if (m->count > 1 || (m->count && m->ranges[0].lo > 1))
        note("only kernels for the rows of --m are made; a host that creates an op for up to %lld "
             "rows needs those of --m 1-%lld",
             (long long)m_most(m), (long long)m_most(m));
}

/* Prints one line for each reason why problems were left out, then one for the first failure;
 * returns the exit status. */
static int conclude(const struct prewarm *w)
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
    for (size_t i = 0; i < w->count; i++) {
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
    for (size_t i = 0; i < w->warning_count && i < WARNINGS_MAX; i++)
        note("warning: %s", w->warnings[i]);
    if (w->warning_count > WARNINGS_MAX)
        note("%zu more warnings; --log info shows all", w->warning_count - WARNINGS_MAX);
    return EXIT_OK;
}

static int make_target(struct prewarm *w, const struct prewarm_target *t)
{
    uint64_t counters[QUERN_STAT_COUNT];
    quern_ctx *ctx;

    const int status = open_storing_context(&w->common, t->text, &ctx);
    if (status)
        return status;
    make_all(w, t, ctx);
    quern_remote_settle(ctx);
    if (!quern_stats(ctx, counters, QUERN_STAT_COUNT))
        for (size_t i = 0; i < QUERN_STAT_COUNT; i++)
            w->counters[i] += counters[i];
    quern_close(ctx);
    return EXIT_OK;
}

static int prewarm(struct prewarm *w)
{
    int status = EXIT_OK;

    w->common.library.log = keep_warning;
    w->common.library.log_user = w;
    const double start = now();
    for (size_t t = 0; !status && t < w->target_count; t++)
        status = make_target(w, &w->targets[t]);
    if (status)
        return status;
    w->make_seconds = now() - start;
    if (w->verify && !w->counters[QUERN_STAT_PUT_FAILED]) {
        const double from = now();
        if ((status = verify_all(w)))
            return status;
        w->verify_seconds = now() - from;
    }
    bool any = w->common.json || w->show_counters;
    for (size_t i = 0; !any && i < w->count; i++)
        any = w->problems[i].kernel_count > 0;
    status = any ? prewarm_report(w) : EXIT_OK;
    note_gaps(&w->m_set);
    const int verdict = conclude(w);
    return verdict ? verdict : status;
}

int verb_prewarm(int argc, char **argv)
{
    static const struct usage usage = {
        "--target GFX[,GFX…] [--m LIST] --model FILE… [--wq W] [--a TYPE]\n"
        "       (or PROBLEM..., or --manifest FILE, which says its targets)",
        "Plans, compiles and stores the kernels of every linear layer of a model, or of the\n"
        "PROBLEMs given, on all cores. Needs no GPU. Prints a table of what was made.\n"};
    static struct prewarm w; /* large */
    struct prewarm_origin from = {0};
    const struct flag flags[] = {
        PREWARM_MODEL_FLAGS(&from),
        {"manifest", FLAG_TEXT, &from.manifest, "FILE",
         "layers that QUERN_RECORD noted of a run (QUERN_MANIFEST)"},
        {"base", FLAG_CHOICE, &from.base, "usual|all",
         "base kernels: those that 'make base' ships, or all that there are", "usual|all", true},
        {"shard", FLAG_TEXT, &from.shard, "I/N",
         "the Ith of N parts of the work; auto: as a job array says"},
        {"m", FLAG_M, &w.m_set, "LIST", "rows to make kernels for, e.g. 1-8 (all)"},
        {"verify", FLAG_CHOICE, &w.verify, "all|ends",
         "load back and run: every kernel, or the smallest and largest M", "all|ends", true},
        {"skip-impossible", FLAG_YES, &w.skip_impossible, NULL,
         "exit with 0, not 3, when all but what cannot be made was made"},
        {"counters", FLAG_YES, &w.show_counters, NULL,
         "print how often each tier and the compiler was used"},
        {0},
    };

    int status = options_parse(&w.common, argc, argv, &usage, flags);
    if (status < 0 && !(status = prewarm_collect(&w, &from)))
        status = prewarm(&w);
    free(w.problems);
    return status;
}
