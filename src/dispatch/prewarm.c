/* SPDX-License-Identifier: MIT */
/* Makes and stores the kernels of many problems on all workers, or only fetches those that a remote
 * cache has; loads none of them. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "base/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* So many kernels are looked for before the first of them is made, so that a remote cache answers
 * for all of them together. Each has up to two questions pending, and the remote's tier leaves out
 * what is beyond 256 (QUESTIONS_MAX), as if it did not have the kernel. */
#define WINDOW 96

/* One kernel to make. */
struct job {
    struct plan plan;
    char text[QUERN_TEXT_MAX];
    bool done;
};

/* One of a window. */
struct wanted {
    struct hash128 key; /* the kernel's entry key, which outlives the kernel */
    struct kernel kernel;
    struct kernel_search search;
    bool searched;
};

/* Jobs that are made together. */
struct window {
    size_t first, count;
    struct wanted *wanted;
};

struct prewarm {
    quern_ctx *ctx;
    struct job *jobs;
    size_t count;
    int64_t m_max;
    quern_progress_fn progress; /* null: none */
    void *user;
    enum quern_jit jit; /* whether what no tier has is compiled */
    enum quern_claims claims;
    /* Of two windows one is made, by as many threads as there may be jobs, while one more thread
     * stores what the other fetched. */
    struct window windows[2], *making, *storing;
    pthread_mutex_t lock; /* of all below; also lets one thread report at a time */
    size_t done;
    bool cancelled;
    size_t failed_job; /* lowest index that failed, so that the result does not depend on timing */
    struct error_record failure;
};

/* Tells of a job that has ended. */
static void report(struct prewarm *w, size_t i, const struct kernel *k, quern_status status)
{
    struct job *const job = &w->jobs[i];

    pthread_mutex_lock(&w->lock);
    if (status != QUERN_OK && i < w->failed_job) {
        w->failed_job = i;
        error_save(&w->failure);
    }
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
    pthread_mutex_unlock(&w->lock);
    job->done = true;
}

static bool is_cancelled(struct prewarm *w)
{
    pthread_mutex_lock(&w->lock);
    const bool cancelled = w->cancelled;
    pthread_mutex_unlock(&w->lock);
    return cancelled;
}

static void search_job(void *user, size_t i)
{
    struct prewarm *const w = user;
    struct wanted *const wanted = &w->making->wanted[i];
    const size_t number = w->making->first + i;

    *wanted = (struct wanted){0};
    if (w->jobs[number].done || is_cancelled(w))
        return;
    const quern_status status = kernel_search(w->ctx, &w->jobs[number].plan, w->ctx->settings.jit,
                                              &wanted->kernel, &wanted->search);
    if (status != QUERN_OK) {
        report(w, number, &wanted->kernel, status);
        return;
    }
    wanted->searched = true;
    wanted->key = wanted->kernel.entry_key;
    wanted->search.m_lo = 1;
    wanted->search.m_hi = w->m_max;
    wanted->search.claims = w->claims;
    wanted->search.keeps = true;
}

static bool is_same(const struct wanted *a, const struct wanted *b)
{
    return !memcmp(a->key.bytes, b->key.bytes, sizeof a->key.bytes);
}

/* Whether a far tier gave the kernel, which is then still to be stored. */
static bool is_fetched(const struct wanted *wanted)
{
    return wanted->searched && wanted->search.fetched.key_text;
}

/* Leaves a job to the next round, which finds the kernel in the cache, if it would be made or
 * fetched twice: an earlier job of the window needs it too, or the window before has fetched it and
 * may not have stored it yet. The round that waits for other machines is the last and leaves none.
 */
static void leave_double(struct prewarm *w, size_t i)
{
    const struct wanted *const all = w->making->wanted, *const before = w->storing->wanted;
    struct wanted *const wanted = &w->making->wanted[i];
    bool is_double = false;

    if (!wanted->searched || wanted->kernel.bytes || w->claims == QUERN_CLAIMS_WAIT)
        return;
    for (size_t j = 0; j < i; j++)
        is_double = is_double || (all[j].searched && is_same(&all[j], wanted));
    for (size_t j = 0; j < w->storing->count; j++)
        is_double = is_double || (is_fetched(&before[j]) && is_same(&before[j], wanted));
    if (is_double) {
        kernel_abandon(w->ctx, &wanted->kernel, &wanted->search);
        wanted->searched = false;
    }
}

static void make_job(void *user, size_t i)
{
    struct prewarm *const w = user;
    struct wanted *const wanted = &w->making->wanted[i];

    if (!wanted->searched)
        return;
    if (is_cancelled(w)) {
        kernel_abandon(w->ctx, &wanted->kernel, &wanted->search);
        wanted->searched = false;
        return;
    }
    const quern_status status = kernel_complete(w->ctx, w->jit, &wanted->kernel, &wanted->search);
    wanted->searched = status == QUERN_OK;
    if (status != QUERN_E_NOT_READY || w->claims != QUERN_CLAIMS_LEAVE)
        report(w, w->making->first + i, &wanted->kernel, status);
}

/* Fetches or compiles the kernels of a window. */
static void make_window(struct prewarm *w)
{
    const unsigned jobs = w->ctx->settings.jobs;

    parallel_for(w->making->count, jobs, search_job, w);
    for (size_t i = 0; i < w->making->count; i++)
        leave_double(w, i);
    parallel_for(w->making->count, jobs, make_job, w);
}

/* Kernels on their way into the near tiers. */
struct batch {
    quern_ctx *ctx;
    struct store_put puts[WINDOW];
    size_t count;
};

/* Stores as many of a batch as the store has reach the disk together: part `i` of it. */
static void store_some(void *user, size_t i)
{
    struct batch *const b = user;
    const size_t first = i * STORE_TOGETHER, left = b->count - first;

    tiers_put(b->ctx, b->puts + first, left < STORE_TOGETHER ? left : STORE_TOGETHER, true);
}

/* Keeps what came from afar, on as many threads as there may be jobs, and frees all kernels of a
 * window. */
static void store_window(struct prewarm *w)
{
    struct wanted *const all = w->storing->wanted;
    struct batch b = {.ctx = w->ctx};

    for (size_t i = 0; i < w->storing->count; i++) {
        const struct store_record *const r = &all[i].search.fetched;
        if (is_fetched(&all[i]))
            b.puts[b.count++] =
                (struct store_put){.key = hash128_of(r->key_text, r->key_text_bytes), .record = r};
    }
    parallel_for((b.count + STORE_TOGETHER - 1) / STORE_TOGETHER, w->ctx->settings.jobs, store_some,
                 &b);
    for (size_t i = 0; i < w->storing->count; i++)
        if (all[i].searched)
            kernel_free(w->ctx, &all[i].kernel);
}

/* The two halves of a turn. They share what leave_double reads of the window that is stored, which
 * store_window does not write: its count, and of each kernel the key and whether it was fetched. */
static void take_turn(void *user, size_t half)
{
    if (half == 0)
        store_window(user);
    else
        make_window(user);
}

/* Makes every job that is not done, but leaves kernels that other machines make, if it may. */
static void make_round(struct prewarm *w, enum quern_claims claims)
{
    w->claims = claims;
    w->making = &w->windows[0];
    w->storing = &w->windows[1];
    w->storing->count = 0;
    for (size_t first = 0; first < w->count; first += WINDOW) {
        w->making->first = first;
        w->making->count = w->count - first < WINDOW ? w->count - first : WINDOW;
        parallel_for(2, w->ctx->settings.jobs > 1 ? 2 : 1, take_turn, w);
        struct window *const made = w->making;
        w->making = w->storing;
        w->storing = made;
    }
    store_window(w); /* the last */
}

/* Adds the jobs of a problem, in its normal form, for m_lo…m_hi rows. */
static quern_status plan_rows(struct prewarm *w, const struct quern_problem *normal, int64_t m_lo,
                              int64_t m_hi, const char *text)
{
    struct plan_set plans;

    TRY(plan_make_up_to(normal, w->ctx->planned, w->ctx->tuning, &w->ctx->settings.force, m_hi,
                        &plans));
    const struct op_wanted wanted = op_range(&plans, m_lo, m_hi);
    for (size_t i = 0; i < wanted.count; i++) {
        struct job *const job = &w->jobs[w->count++];
        job->plan = plans.plans[wanted.first + i];
        snprintf(job->text, sizeof job->text, "%s", text);
    }
    return QUERN_OK;
}

/* Plans every problem; a problem that cannot be planned fails the call before anything is compiled.
 */
static quern_status plan_jobs(struct prewarm *w, const struct quern_problem *problems, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct quern_problem normal;
        char text[QUERN_TEXT_MAX];

        TRY(problem_normalise_at(problems, i, &normal));
        problem_text(&normal, text);
        TRY(plan_rows(w, &normal, 1, w->m_max, text));
        record_op(w->ctx, text, 1, w->m_max);
    }
    return QUERN_OK;
}

static quern_status make_room(struct prewarm *w)
{
    const size_t room = w->count < WINDOW ? w->count : WINDOW;

    w->windows[0].wanted = os.calloc(2 * room, sizeof *w->windows[0].wanted);
    FAIL_IF(!w->windows[0].wanted, QUERN_E_MEMORY, "out of memory for %zu kernels", 2 * room);
    w->windows[1].wanted = w->windows[0].wanted + room;
    return QUERN_OK;
}

static quern_status run_jobs(struct prewarm *w)
{
    TRY(make_room(w));
    make_round(w, QUERN_CLAIMS_LEAVE);
    make_round(w, QUERN_CLAIMS_WAIT);
    os.free(w->windows[0].wanted);
    if (w->failed_job != SIZE_MAX)
        return error_restore(&w->failure);
    FAIL_IF(w->cancelled, QUERN_E_CANCELLED, "cancelled after %zu of %zu kernels", w->done,
            w->count);
    return QUERN_OK;
}

/* Room for the jobs of so many problems. */
static quern_status start(struct prewarm *w, size_t count)
{
    FAIL_IF(count > SIZE_MAX / PLAN_KERNELS_MAX / sizeof(struct job), QUERN_E_ARGUMENT,
            "%zu problems are too many", count);
    w->jobs = os.calloc(count * PLAN_KERNELS_MAX, sizeof *w->jobs);
    FAIL_IF(!w->jobs, QUERN_E_MEMORY, "out of memory for %zu problems", count);
    pthread_mutex_init(&w->lock, NULL);
    return QUERN_OK;
}

static void end(struct prewarm *w)
{
    pthread_mutex_destroy(&w->lock);
    os.free(w->jobs);
}

quern_status quern_prewarm(quern_ctx *ctx, const struct quern_problem *problems, size_t count,
                           int64_t m_max, quern_progress_fn progress, void *user)
{
    struct prewarm w = {
        .ctx = ctx, .m_max = m_max, .progress = progress, .user = user, .failed_job = SIZE_MAX};

    FAIL_IF(!ctx || (!problems && count), QUERN_E_ARGUMENT, "%s is null", ctx ? "problems" : "ctx");
    FAIL_IF(m_max < 1, QUERN_E_ARGUMENT, "m_max is %" PRId64 "; expected at least 1", m_max);
    if (!count)
        return QUERN_OK;
    w.jit = ctx->settings.jit;
    TRY(start(&w, count));
    quern_status status = plan_jobs(&w, problems, count);
    if (status == QUERN_OK)
        status = run_jobs(&w);
    end(&w);
    return status;
}

void quern_prefetch(quern_ctx *ctx, const struct quern_layer *layers, size_t count)
{
    struct prewarm w = {.ctx = ctx, .jit = JIT_LOOK, .failed_job = SIZE_MAX};

    if (!ctx || !ctx->remote || ctx->settings.cache_mode != QUERN_CACHE_RW || !count ||
        start(&w, count) != QUERN_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        struct quern_problem normal;
        /* of one that cannot be planned the op says why */
        if (problem_normalise(&layers[i].problem, &normal) == QUERN_OK)
            (void)plan_rows(&w, &normal, layers[i].m_lo, layers[i].m_hi, "");
    }
    if (w.count && make_room(&w) == QUERN_OK) {
        make_round(&w, QUERN_CLAIMS_OF_OPS);
        os.free(w.windows[0].wanted);
    }
    end(&w);
}
