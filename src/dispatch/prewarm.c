/* SPDX-License-Identifier: MIT */
/* Makes and stores the kernels of many problems on all workers; loads none of them. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "base/thread.h"

#include <inttypes.h>
#include <string.h>

/* One kernel to make. */
struct job {
    struct plan plan;
    char text[QUERN_TEXT_MAX];
    bool done;
};

struct prewarm {
    quern_ctx *ctx;
    struct job *jobs;
    size_t count;
    int64_t m_max;
    quern_progress_fn progress;
    void *user;
    enum kernel_claims claims;
    pthread_mutex_t lock; /* of all below; also lets one thread report at a time */
    size_t done;
    bool cancelled;
    size_t failed_job; /* lowest index that failed, so that the result does not depend on timing */
    struct error_record failure;
};

static void report(struct prewarm *w, const struct job *job, const struct kernel *k,
                   quern_status status)
{
    const struct quern_progress progress = {
        .size = sizeof progress,
        .done = ++w->done,
        .total = w->count,
        .problem = job->text,
        .kernel = job->plan.symbol,
        .m_lo = job->plan.m_lo,
        .m_hi = job->plan.m_hi,
        .cached = k->cached,
        .compile_ms = k->compile_ms,
        .status = status,
    };
    if (w->progress && w->progress(w->user, &progress))
        w->cancelled = true;
}

static quern_status make(const struct prewarm *w, const struct plan *plan, struct kernel *k)
{
    const enum quern_jit jit = w->ctx->settings.jit;
    struct kernel_search search;

    TRY(kernel_search(w->ctx, plan, jit, k, &search));
    search.m_lo = 1;
    search.m_hi = w->m_max;
    search.claims = w->claims;
    return kernel_complete(w->ctx, jit, k, &search);
}

static void make_job(void *user, size_t i)
{
    struct prewarm *const w = user;
    struct kernel k = {0};

    pthread_mutex_lock(&w->lock);
    const bool cancelled = w->cancelled;
    pthread_mutex_unlock(&w->lock);
    if (cancelled || w->jobs[i].done)
        return;
    const quern_status status = make(w, &w->jobs[i].plan, &k);
    if (status == QUERN_E_NOT_READY && w->claims == CLAIMS_LEAVE)
        return;
    w->jobs[i].done = true;
    pthread_mutex_lock(&w->lock);
    if (status != QUERN_OK && i < w->failed_job) {
        w->failed_job = i;
        error_save(&w->failure);
    }
    report(w, &w->jobs[i], &k, status);
    pthread_mutex_unlock(&w->lock);
    kernel_free(w->ctx, &k);
}

/* Plans every problem; a problem that cannot be planned fails the call before anything is compiled.
 */
static quern_status plan_jobs(struct prewarm *w, const struct quern_problem *problems, size_t count,
                              int64_t m_max)
{
    for (size_t i = 0; i < count; i++) {
        struct quern_problem normal;
        struct plan_set plans;

        TRY(problem_normalise_at(problems, i, &normal));
        TRY(plan_make_up_to(&normal, w->ctx->planned, w->ctx->tuning, &w->ctx->settings.force,
                            m_max, &plans));
        char text[QUERN_TEXT_MAX];
        problem_text(&normal, text);
        record_op(w->ctx, text, 1, m_max);
        for (size_t j = 0; j < plans.count && plans.plans[j].m_lo <= m_max; j++) {
            struct job *const job = &w->jobs[w->count++];
            job->plan = plans.plans[j];
            memcpy(job->text, text, sizeof text);
        }
    }
    return QUERN_OK;
}

/* Makes all kernels but those that other machines make meanwhile, and then waits for these. */
static quern_status run_jobs(struct prewarm *w)
{
    w->claims = CLAIMS_LEAVE;
    parallel_for(w->count, w->ctx->settings.jobs, make_job, w);
    w->claims = CLAIMS_WAIT;
    parallel_for(w->count, w->ctx->settings.jobs, make_job, w);
    if (w->failed_job != SIZE_MAX)
        return error_restore(&w->failure);
    FAIL_IF(w->cancelled, QUERN_E_CANCELLED, "cancelled after %zu of %zu kernels", w->done,
            w->count);
    return QUERN_OK;
}

quern_status quern_prewarm(quern_ctx *ctx, const struct quern_problem *problems, size_t count,
                           int64_t m_max, quern_progress_fn progress, void *user)
{
    struct prewarm w = {
        .ctx = ctx, .m_max = m_max, .progress = progress, .user = user, .failed_job = SIZE_MAX};

    FAIL_IF(!ctx || (!problems && count), QUERN_E_ARGUMENT, "%s is null", ctx ? "problems" : "ctx");
    FAIL_IF(m_max < 1, QUERN_E_ARGUMENT, "m_max is %" PRId64 "; expected at least 1", m_max);
    FAIL_IF(count > SIZE_MAX / PLAN_KERNELS_MAX / sizeof(struct job), QUERN_E_ARGUMENT,
            "%zu problems are too many", count);
    if (!count)
        return QUERN_OK;
    w.jobs = os.calloc(count * PLAN_KERNELS_MAX, sizeof *w.jobs);
    FAIL_IF(!w.jobs, QUERN_E_MEMORY, "out of memory for %zu problems", count);
    pthread_mutex_init(&w.lock, NULL);
    quern_status status = plan_jobs(&w, problems, count, m_max);
    if (status == QUERN_OK)
        status = run_jobs(&w);
    pthread_mutex_destroy(&w.lock);
    os.free(w.jobs);
    return status;
}
