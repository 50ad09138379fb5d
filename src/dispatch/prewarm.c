/* SPDX-License-Identifier: MIT */
/*
 * Makes and stores the kernels of many layers on all workers, and loads none of them. The threads
 * share one line of jobs, a kernel each, and go through it twice at once. In front they look for a
 * job's kernel, which asks a remote cache and does not wait for its answer. Up to AHEAD jobs behind
 * that they complete the kernel, from the answer or by the compiler. So a remote answers for many
 * kernels at a time, and who can compile never waits for it longer than an op would.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "base/thread.h"

#include <inttypes.h>
#include <string.h>

/* So many kernels are looked for before the first of them is completed, where a tier may be far
 * away. Each has a question pending then, and the remote's tier leaves out what is beyond its
 * QUESTIONS_MAX, as if it did not have the kernel. */
#define AHEAD 96

/* A search for one kernel, from its first question until the kernel is stored. */
struct flight {
    struct flight *next, **link; /* of all that are under way */
    struct hash128 key;          /* the kernel's entry key, which outlives the kernel */
    struct kernel kernel;
    struct kernel_search search;
};

enum job_state {
    JOB_OPEN,    /* nobody has looked for its kernel in this round */
    JOB_LOOKING, /* a thread does */
    JOB_LOOKED,  /* its search can be completed, whether a tier has the kernel or not */
    JOB_LEFT     /* not in this round: it is done, or left to the next */
};

/* One kernel to make. */
struct job {
    size_t layer;
    struct plan plan;
    int64_t m_lo, m_hi; /* the rows that kernels of its layer are wanted for */
    bool is_last;       /* of the kernels of its layer */
    bool done;          /* made, or failed */
    enum job_state state;
    struct flight *flight; /* of JOB_LOOKED */
};

struct making {
    quern_ctx *ctx;
    struct job *jobs;
    size_t count;
    quern_made_fn made; /* null: nobody is told */
    void *user;
    enum claims claims; /* of this round */
    enum quern_jit jit; /* likewise */
    size_t ahead;
    pthread_mutex_t lock;  /* of all below and of the jobs; also lets one thread report at a time */
    pthread_cond_t looked; /* a job is JOB_LOOKING no more */
    size_t next_look, next_complete; /* indices of jobs, the second never above the first */
    size_t done;
    bool cancelled;
    struct flight *flights;
    struct flight *fetched[STORE_TOGETHER]; /* came from afar, and are to be stored together */
    size_t fetched_count;
};

/* ---- One job --------------------------------------------------------------------------------- */

/* Tells of a job that has ended; `k` is null if it failed. The caller has the lock. */
static void report(struct making *w, struct job *job, const struct kernel *k, quern_status status)
{
    struct quern_kernel_info info;
    char text[QUERN_TEXT_MAX];

    problem_text(&job->plan.problem, text);
    if (k)
        kernel_info(w->ctx, k, job->is_last, &info);
    const struct quern_progress progress = {
        .size = sizeof progress,
        .done = ++w->done,
        .total = w->count,
        .problem = text,
        .kernel = k ? k->plan.symbol : job->plan.symbol,
        .m_lo = job->plan.m_lo,
        .m_hi = job->plan.m_hi,
        .cached = k && k->cached,
        .compile_ms = k ? k->compile_ms : 0,
        .status = status,
    };
    job->done = true;
    if (w->made && w->made(w->user, job->layer, &progress, k ? &info : NULL))
        w->cancelled = true;
}

/* Whether a kernel is under way already: found or made twice at once, it would be twice the work.
 * The caller has the lock. */
static bool is_double(const struct making *w, const struct hash128 *key)
{
    const struct flight *f = w->flights;

    while (f && memcmp(f->key.bytes, key->bytes, sizeof key->bytes) != 0)
        f = f->next;
    return f;
}

/* Enters a search among those that are under way. The caller has the lock. */
static void take_off(struct making *w, struct job *job, struct flight *f)
{
    f->next = w->flights;
    f->link = &w->flights;
    if (f->next)
        f->next->link = &f->next;
    w->flights = f;
    job->flight = f;
}

/* Takes a search out again. The caller has the lock, and frees the search afterwards. */
static void land(struct flight *f)
{
    *f->link = f->next;
    if (f->next)
        f->next->link = f->link;
}

/* Looks for a job's kernel. One that is under way for an earlier job is left to the next round,
 * which finds it in the cache; the round that waits for other machines is the last and leaves none.
 */
static void look(struct making *w, struct job *job)
{
    struct flight *f = os.calloc(1, sizeof *f);
    quern_status status =
        f ? kernel_search(w->ctx, &job->plan, w->jit, &f->kernel, &f->search)
          : error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("!f"), "out of memory for a kernel");

    if (status == QUERN_OK) {
        f->key = f->kernel.entry_key;
        f->search.m_lo = job->m_lo;
        f->search.m_hi = job->m_hi;
        f->search.claims = w->claims;
        f->search.keeps = true;
    }
    pthread_mutex_lock(&w->lock);
    const bool left =
        status == QUERN_OK && !f->kernel.bytes && w->claims != CLAIMS_WAIT && is_double(w, &f->key);
    const bool looked = status == QUERN_OK && !left;
    job->state = looked ? JOB_LOOKED : JOB_LEFT;
    if (looked)
        take_off(w, job, f); /* from here on it is that of whoever completes the job */
    else if (!left)
        report(w, job, NULL, status);
    pthread_cond_broadcast(&w->looked);
    pthread_mutex_unlock(&w->lock);
    if (left)
        kernel_abandon(w->ctx, &f->kernel, &f->search);
    if (!looked)
        os.free(f);
}

static void free_flight(struct making *w, struct flight *f)
{
    kernel_free(w->ctx, &f->kernel);
    os.free(f);
}

/* Puts kernels that came from afar into the near tiers, and frees them. */
static void store(struct making *w, struct flight *const *fetched, size_t count)
{
    struct store_put puts[STORE_TOGETHER];

    for (size_t i = 0; i < count; i++) {
        const struct store_record *const r = &fetched[i]->search.fetched;
        puts[i] =
            (struct store_put){.key = hash128_of(r->key_text, r->key_text_bytes), .record = r};
    }
    tiers_put(w->ctx, puts, count, true);
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < count; i++)
        land(fetched[i]);
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < count; i++)
        free_flight(w, fetched[i]);
}

/* Fetches or compiles the kernel of a job that was looked for. */
static void complete(struct making *w, struct job *job, bool cancelled)
{
    struct flight *const f = job->flight, *full[STORE_TOGETHER];
    quern_status status = QUERN_E_CANCELLED;
    size_t count = 0;

    job->flight = NULL;
    if (cancelled)
        kernel_abandon(w->ctx, &f->kernel, &f->search);
    else
        status = kernel_complete(w->ctx, w->jit, &f->kernel, &f->search);
    const bool left = (status == QUERN_E_NOT_READY && w->claims == CLAIMS_LEAVE) ||
                      (status == QUERN_E_WOULD_COMPILE && w->jit == JIT_LOOK);
    pthread_mutex_lock(&w->lock);
    if (!cancelled && !left)
        report(w, job, status == QUERN_OK ? &f->kernel : NULL, status);
    const bool fetched = status == QUERN_OK && f->search.fetched.key_text;
    if (fetched)
        w->fetched[w->fetched_count++] = f;
    else
        land(f);
    if (w->fetched_count == STORE_TOGETHER) {
        count = w->fetched_count;
        memcpy(full, w->fetched, sizeof full);
        w->fetched_count = 0;
    }
    pthread_mutex_unlock(&w->lock);
    if (!fetched)
        free_flight(w, f);
    if (count)
        store(w, full, count);
}

/* ---- All jobs -------------------------------------------------------------------------------- */

/* Does what is next, of one job; false: nothing is left to do. */
static bool step(struct making *w)
{
    struct job *to_look = NULL, *to_complete = NULL;

    pthread_mutex_lock(&w->lock);
    while (!to_look && !to_complete && w->next_complete < w->count) {
        struct job *const first = &w->jobs[w->next_complete];
        if (w->next_look < w->count && w->next_look < w->next_complete + w->ahead) {
            struct job *const job = &w->jobs[w->next_look++];
            to_look = job->done || w->cancelled ? NULL : job;
            job->state = to_look ? JOB_LOOKING : JOB_LEFT;
        } else if (first->state == JOB_LOOKING) {
            pthread_cond_wait(&w->looked, &w->lock);
        } else {
            to_complete = first->state == JOB_LOOKED ? first : NULL;
            w->next_complete++;
        }
    }
    const bool cancelled = w->cancelled;
    pthread_mutex_unlock(&w->lock);
    if (to_look)
        look(w, to_look);
    else if (to_complete)
        complete(w, to_complete, cancelled);
    return to_look || to_complete;
}

static void work(void *user, size_t thread)
{
    (void)thread;
    while (step(user))
        ;
}

/* Makes every job that is not done, but leaves kernels that other machines make, if it may. */
static void make_round(struct making *w, enum claims claims)
{
    const size_t jobs = w->ctx->settings.jobs, threads = jobs < w->count ? jobs : w->count;

    w->claims = claims;
    w->next_look = w->next_complete = 0;
    for (size_t i = 0; i < w->count; i++)
        w->jobs[i].state = JOB_OPEN;
    parallel_for(threads, (int)threads, work, w);
    store(w, w->fetched, w->fetched_count);
    w->fetched_count = 0;
}

static void make_all(struct making *w)
{
    const enum quern_jit jit = w->ctx->settings.jit;
    const bool compiles = quern_can_compile(w->ctx) == QUERN_OK;
    bool far = false;

    for (size_t i = 0; i < w->ctx->tier_count; i++)
        far = far || w->ctx->tiers[i].far;
    w->ahead = far ? AHEAD : w->ctx->settings.jobs;
    /* where nothing can be compiled, what a remote does not give is asked for once more */
    w->jit = far && !compiles ? JIT_LOOK : jit;
    make_round(w, CLAIMS_LEAVE);
    w->jit = jit;
    if (w->done < w->count && !w->cancelled) /* else there is nothing to start threads for */
        make_round(w, CLAIMS_WAIT);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Adds the jobs of layer `number`, a problem in its normal form, for m_lo…m_hi rows. */
static quern_status plan_rows(struct making *w, size_t number, const struct quern_problem *normal,
                              int64_t m_lo, int64_t m_hi)
{
    struct plan_set plans;
    char text[QUERN_TEXT_MAX];

    TRY(plan_make_up_to(normal, w->ctx->planned, w->ctx->tuning, &w->ctx->settings.force, m_hi,
                        &plans));
    const struct op_wanted wanted = op_range(&plans, m_lo, m_hi);
    for (size_t i = 0; i < wanted.count; i++)
        w->jobs[w->count++] = (struct job){.layer = number,
                                           .plan = plans.plans[wanted.first + i],
                                           .m_lo = m_lo,
                                           .m_hi = m_hi,
                                           .is_last = i + 1 == wanted.count};
    problem_text(normal, text);
    record_op(w->ctx, text, m_lo, m_hi);
    return QUERN_OK;
}

static quern_status plan_layer(struct making *w, size_t number, const struct quern_layer *layer)
{
    struct quern_problem normal;

    FAIL_IF(layer->m_lo < 1 || layer->m_hi < layer->m_lo, QUERN_E_ARGUMENT,
            "the range of M is %" PRId64 " to %" PRId64 "; expected 1 or more, in order",
            layer->m_lo, layer->m_hi);
    TRY(problem_normalise(&layer->problem, &normal));
    TRY(check_verified(w->ctx));
    return plan_rows(w, number, &normal, layer->m_lo, layer->m_hi);
}

/* Tells of a layer that has no kernels. */
static void report_layer(struct making *w, size_t number, quern_status status)
{
    const struct quern_progress progress = {
        .size = sizeof progress, .problem = "", .kernel = "", .status = status};

    if (w->made && w->made(w->user, number, &progress, NULL))
        w->cancelled = true;
}

/* Room for the jobs of so many layers. */
static quern_status start(struct making *w, size_t count)
{
    FAIL_IF(count > SIZE_MAX / PLAN_KERNELS_MAX / sizeof(struct job), QUERN_E_ARGUMENT,
            "%zu layers are too many", count);
    w->jobs = os.calloc(count * PLAN_KERNELS_MAX, sizeof *w->jobs);
    FAIL_IF(!w->jobs, QUERN_E_MEMORY, "out of memory for %zu layers", count);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->looked, NULL);
    return QUERN_OK;
}

static quern_status end(struct making *w)
{
    pthread_cond_destroy(&w->looked);
    pthread_mutex_destroy(&w->lock);
    os.free(w->jobs);
    FAIL_IF(w->cancelled, QUERN_E_CANCELLED, "cancelled after %zu of %zu kernels", w->done,
            w->count);
    return QUERN_OK;
}

quern_status quern_make(quern_ctx *ctx, const struct quern_layer *layers, size_t count,
                        quern_made_fn made, void *user)
{
    struct making w = {.ctx = ctx, .made = made, .user = user};

    FAIL_IF(!ctx || (!layers && count), QUERN_E_ARGUMENT, "%s is null", ctx ? "layers" : "ctx");
    if (!count)
        return QUERN_OK;
    TRY(start(&w, count));
    for (size_t i = 0; i < count; i++) {
        const quern_status status = plan_layer(&w, i, &layers[i]);
        if (status != QUERN_OK)
            report_layer(&w, i, status);
    }
    make_all(&w);
    return end(&w);
}

/* ---- quern_prewarm --------------------------------------------------------------------------- */

struct prewarm {
    quern_progress_fn progress; /* null: none */
    void *user;
    /* The first kernel that failed, in the order of layers and rows, so that the result does not
     * depend on timing. */
    bool failed;
    size_t layer;
    int64_t m_lo;
    struct error_record failure;
};

static int take_made(void *user, size_t layer, const struct quern_progress *progress,
                     const struct quern_kernel_info *info)
{
    struct prewarm *const p = user;

    (void)info;
    if (progress->status != QUERN_OK &&
        (!p->failed || layer < p->layer || (layer == p->layer && progress->m_lo < p->m_lo))) {
        p->failed = true;
        p->layer = layer;
        p->m_lo = progress->m_lo;
        error_save(&p->failure);
    }
    return p->progress ? p->progress(p->user, progress) : 0;
}

/* Plans every problem; one that cannot be planned fails the call before anything is compiled. */
static quern_status plan_problems(struct making *w, const struct quern_problem *problems,
                                  size_t count, int64_t m_max)
{
    for (size_t i = 0; i < count; i++) {
        struct quern_problem normal;
        TRY(problem_normalise_at(problems, i, &normal));
        TRY(plan_rows(w, i, &normal, 1, m_max));
    }
    return QUERN_OK;
}

quern_status quern_prewarm(quern_ctx *ctx, const struct quern_problem *problems, size_t count,
                           int64_t m_max, quern_progress_fn progress, void *user)
{
    struct prewarm p = {.progress = progress, .user = user};
    struct making w = {.ctx = ctx, .made = take_made, .user = &p};

    FAIL_IF(!ctx || (!problems && count), QUERN_E_ARGUMENT, "%s is null", ctx ? "problems" : "ctx");
    FAIL_IF(m_max < 1, QUERN_E_ARGUMENT, "m_max is %" PRId64 "; expected at least 1", m_max);
    if (!count)
        return QUERN_OK;
    TRY(start(&w, count));
    const quern_status planned = plan_problems(&w, problems, count, m_max);
    if (planned == QUERN_OK)
        make_all(&w);
    const quern_status ended = end(&w);
    return p.failed ? error_restore(&p.failure) : planned != QUERN_OK ? planned : ended;
}
