/* SPDX-License-Identifier: MIT */
/* Has the library find or make the kernels of a prewarm's problems (prewarm_work.h). */
#include "command/progress.h"
#include "prewarm/prewarm_work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64
/* Where nothing is compiled, threads wait for a disk and a remote, so that more than there are CPUs
 * are of use. The library has at most 256 questions to a remote pending, and leaves out more; an op
 * has up to nine kernels, each of which is asked for by two keys then. */
#define FETCH_THREADS 12

/* Problems that threads take one after another. */
struct line {
    struct prewarm *w;
    quern_ctx *ctx;
    const char *doing;
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

/* False: another machine makes a kernel of the problem. */
static bool make(quern_ctx *ctx, struct prewarm_problem *p)
{
    for (size_t i = 0; !p->status && i < p->m.count; i++) {
        quern_op *op = NULL;
        quern_status status =
            quern_op_create_range(ctx, &p->problem, p->m.ranges[i].lo, p->m.ranges[i].hi, &op);
        if (status == QUERN_E_NOT_READY)
            return false;
        if (!status)
            status = keep_kernels(p, op);
        if (status)
            prewarm_keep_error(p, status);
        quern_op_release(op);
    }
    return true;
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
        struct prewarm_problem *const p = &w->problems[i];
        if (p->made)
            continue;
        p->made = make(line->ctx, p);
        pthread_mutex_lock(&line->lock);
        line->done += p->made;
        progress_draw(line->doing, line->done, w->count, p->layers);
        pthread_mutex_unlock(&line->lock);
    }
}

/* How many threads make kernels at once. Compiles take place in the workers; these threads only
 * keep them busy. */
static size_t threads_for(const struct prewarm *w, quern_ctx *ctx)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t jobs = (size_t)w->common.library.jobs;

    if (quern_can_compile(ctx) != QUERN_OK)
        return jobs && jobs < FETCH_THREADS ? jobs : FETCH_THREADS;
    return jobs ? jobs : cpus > 0 ? (size_t)cpus : 1;
}

/* Has the library fetch at once what the remote has. */
static void fetch_all(const struct prewarm *w, const struct prewarm_target *t, quern_ctx *ctx)
{
    size_t count = 0, room = 0;

    for (size_t i = t->first; i < t->end; i++)
        room += w->problems[i].status ? 0 : w->problems[i].m.count;
    struct quern_layer *const layers = room ? calloc(room, sizeof *layers) : NULL;
    for (size_t i = t->first; layers && i < t->end; i++) {
        const struct prewarm_problem *const p = &w->problems[i];
        for (size_t j = 0; !p->status && j < p->m.count; j++)
            layers[count++] = (struct quern_layer){
                .problem = p->problem, .m_lo = p->m.ranges[j].lo, .m_hi = p->m.ranges[j].hi};
    }
    quern_prefetch(ctx, layers, count);
    free(layers);
}

/* Makes what is not made yet. */
static void make_round(struct line *line, const struct prewarm_target *t)
{
    pthread_t threads[THREADS_MAX];
    size_t started = 0, wanted = threads_for(line->w, line->ctx);

    line->next = t->first;
    if (wanted > t->end - t->first)
        wanted = t->end - t->first;
    if (wanted > THREADS_MAX)
        wanted = THREADS_MAX;
    while (started + 1 < wanted && !pthread_create(&threads[started], NULL, work, line))
        started++;
    work(line);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* First all that no other machine makes meanwhile, then the rest. */
static void make_all(struct prewarm *w, const struct prewarm_target *t, quern_ctx *ctx,
                     const char *doing)
{
    struct line line = {.w = w,
                        .ctx = ctx,
                        .doing = doing,
                        .end = t->end,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .done = t->first};

    progress_draw(doing, t->first, w->count, "");
    if (w->pulls)
        fetch_all(w, t, ctx);
    quern_set_claims(ctx, QUERN_CLAIMS_LEAVE);
    make_round(&line, t);
    quern_set_claims(ctx, QUERN_CLAIMS_WAIT);
    if (line.done < t->end) /* else there is nothing to start threads for */
        make_round(&line, t);
    progress_clear();
}

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

static int make_target(struct prewarm *w, const struct prewarm_target *t, const char *doing)
{
    uint64_t counters[QUERN_STAT_COUNT];
    quern_ctx *ctx;

    const int status = open_storing_context(&w->common, t->text, &ctx);
    if (status)
        return status;
    make_all(w, t, ctx, doing);
    quern_remote_settle(ctx);
    if (!quern_stats(ctx, counters, QUERN_STAT_COUNT))
        for (size_t i = 0; i < QUERN_STAT_COUNT; i++)
            w->counters[i] += counters[i];
    quern_close(ctx);
    return EXIT_OK;
}

int prewarm_make(struct prewarm *w, const char *doing)
{
    int status = EXIT_OK;

    w->common.library.log = keep_warning;
    w->common.library.log_user = w;
    for (size_t t = 0; !status && t < w->target_count; t++)
        status = make_target(w, &w->targets[t], doing);
    return status;
}
