/* SPDX-License-Identifier: MIT */
/*
 * quern prewarm: fills the cache with the kernels of a model's layers, and proves that they are
 * right by loading them back from it and running them on the software GPU.
 */
#include "prewarm/prewarm_work.h"
#include "command/progress.h"

#include "measure/counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The seed of random operands. Any will do, but always the same, so that a failure shows again. */
#define VERIFY_SEED 20

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
    struct prewarm_run *const grown = realloc(p->runs, (p->run_count + 1) * sizeof *grown);
    if (!grown) {
        prewarm_out_of_memory(p);
        return;
    }
    p->runs = grown;
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

    if (p->status || !p->kernel_count)
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

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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

static int prewarm(struct prewarm *w)
{
    const double start = now();
    int status = prewarm_make(w, "compiling");
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
    const int verdict = prewarm_conclude(w);
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
    prewarm_free(&w);
    return status;
}
