/* SPDX-License-Identifier: MIT */
/*
 * The kernels that an op holds: found or made several at a time, loaded, and published as one set,
 * so that a launch on another thread sees all of them or none.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "base/thread.h"

/* Kernels of one op that are compiled at the same time. */
struct batch {
    quern_ctx *ctx;
    const struct op_wanted *wanted;
    enum quern_jit jit;
    size_t count; /* kernels in `work` */
    struct work {
        struct kernel *kernel;
        struct kernel_search search;
        quern_status status;
        struct error_record error;
    } *work; /* null until there is one; room for PLAN_KERNELS_MAX */
};

/* Finishes a kernel of a batch, counted from its end. Kernels for more rows, which stand there,
 * take longer to compile: begun last, one would keep one worker busy and the others waiting. */
static void finish_one(void *user, size_t i)
{
    struct batch *const batch = user;
    struct work *const w = &batch->work[batch->count - 1 - i];

    w->status = kernel_complete(batch->ctx, batch->jit, w->kernel, &w->search);
    if (w->status != QUERN_OK)
        error_save(&w->error);
}

static void free_kernels(quern_ctx *ctx, struct kernel **kernels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kernels[i]) {
            kernel_free(ctx, kernels[i]);
            os.free(kernels[i]);
            kernels[i] = NULL;
        }
}

/* Searches for a kernel; adds it to the batch to be compiled if no tier has it. */
static quern_status search_one(struct batch *batch, const struct plan *plan, struct kernel **kernel)
{
    struct kernel_search search;

    *kernel = os.calloc(1, sizeof **kernel);
    FAIL_IF(!*kernel, QUERN_E_MEMORY, "out of memory for a kernel");
    TRY(kernel_search(batch->ctx, plan, batch->jit, *kernel, &search));
    search.m_lo = batch->wanted->m_lo;
    search.m_hi = batch->wanted->m_hi;
    if ((*kernel)->bytes)
        return kernel_complete(batch->ctx, batch->jit, *kernel, &search);
    if (!batch->work)
        batch->work = os.calloc(PLAN_KERNELS_MAX, sizeof *batch->work);
    if (!batch->work) {
        kernel_abandon(batch->ctx, *kernel, &search);
        FAIL(QUERN_E_MEMORY, "out of memory for kernels to compile");
    }
    batch->work[batch->count].kernel = *kernel;
    batch->work[batch->count++].search = search;
    return QUERN_OK;
}

/* Makes and loads kernels into kernels[]; all or nothing. Only those that have to be compiled get
 * threads. */
static quern_status make_kernels(quern_ctx *ctx, const struct plan_set *set,
                                 const struct op_wanted *wanted, enum quern_jit jit,
                                 struct kernel **kernels)
{
    struct batch batch = {.ctx = ctx, .wanted = wanted, .jit = jit};
    const struct plan *const plans = set->plans + wanted->first;
    const size_t count = wanted->count;
    quern_status status = QUERN_OK;

    for (size_t i = 0; i < count && status == QUERN_OK; i++)
        status = search_one(&batch, &plans[i], &kernels[i]);
    if (status == QUERN_OK) {
        parallel_for(batch.count, ctx->settings.jobs, finish_one, &batch);
        for (size_t i = 0; i < batch.count && status == QUERN_OK; i++)
            if (batch.work[i].status != QUERN_OK)
                status = error_restore(&batch.work[i].error);
    } else { /* a search failed: the others of the batch are given up */
        for (size_t i = 0; i < batch.count; i++)
            kernel_abandon(ctx, batch.work[i].kernel, &batch.work[i].search);
    }
    for (size_t i = 0; i < count && status == QUERN_OK; i++)
        status = kernel_load(ctx, jit, kernels[i]);
    os.free(batch.work);
    if (status != QUERN_OK)
        free_kernels(ctx, kernels, count);
    return status;
}

/* Publishes a set whose first kernels are those the op has and whose others are in `made`. */
static quern_status publish(quern_op *op, const struct plan_set *plans, size_t count,
                            struct kernel **made)
{
    struct kernel_set *const old = atomic_load(&op->kernels);
    struct kernel_set *const set = os.calloc(1, sizeof *set);

    FAIL_IF(!set, QUERN_E_MEMORY, "out of memory for the kernels of an op");
    const size_t kept = old ? old->plans.count : 0;
    set->plans.count = kept + count;
    set->plans.m_max = plans->m_max;
    for (size_t i = 0; i < kept; i++)
        set->kernels[i] = old->kernels[i];
    for (size_t i = 0; i < count; i++)
        set->kernels[kept + i] = made[i];
    for (size_t i = 0; i < kept + count; i++)
        set->plans.plans[i] = set->kernels[i]->plan;
    plan_cover(&set->plans);
    set->older = old;
    atomic_store(&op->kernels, set);
    const int last = set->plans.plans[kept + count - 1].m_hi;
    /* with the problem's largest kernel the op serves any M, in slices */
    atomic_store(&op->covers, last < set->plans.m_max ? last : INT64_MAX);
    return QUERN_OK;
}

quern_status op_add_kernels(quern_op *op, const struct plan_set *plans,
                            const struct op_wanted *wanted, enum quern_jit jit)
{
    struct kernel *made[PLAN_KERNELS_MAX] = {0};

    TRY(make_kernels(op->ctx, plans, wanted, jit, made));
    const quern_status status = publish(op, plans, wanted->count, made);
    if (status != QUERN_OK)
        free_kernels(op->ctx, made, wanted->count);
    return status;
}

quern_status op_grow(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit)
{
    quern_status status = QUERN_OK;
    size_t want = 0;

    while (want < plans->count && plans->plans[want].m_lo <= m_max)
        want++;
    lock_take(&op->growing);
    const struct kernel_set *const set = atomic_load(&op->kernels);
    const size_t have = set ? set->plans.count : 0;
    if (have < want)
        status = op_add_kernels(
            op, plans, &(struct op_wanted){have, want - have, .m_lo = 1, .m_hi = m_max}, jit);
    lock_give(&op->growing);
    return status;
}

void op_free_kernels(quern_op *op)
{
    struct kernel_set *set = atomic_load(&op->kernels);

    if (set) /* the newest set holds every kernel */
        free_kernels(op->ctx, set->kernels, set->plans.count);
    while (set) {
        struct kernel_set *const older = set->older;
        os.free(set);
        set = older;
    }
}

quern_status op_plan(quern_ctx *ctx, const struct quern_problem *normal, int64_t m_max,
                     struct plan_set *plans, quern_op **op)
{
    TRY(plan_make_up_to(normal, ctx->planned, ctx->tuning, &ctx->settings.force, m_max, plans));
    TRY(op_find_or_add(ctx, normal, op));
    record_op(ctx, (*op)->text, 1, m_max);
    return QUERN_OK;
}
