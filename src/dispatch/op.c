/* SPDX-License-Identifier: MIT */
/* Ops: the table of a context, and the kernels an op holds. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* ---- Making kernels -------------------------------------------------------------------------- */

/* Kernels of one op that are compiled at the same time. */
struct batch {
    quern_ctx *ctx;
    enum quern_jit jit;
    size_t count; /* of those that were not found */
    struct work {
        struct kernel *kernel;
        struct making making;
        quern_status status;
        struct error_record error;
    } *work; /* null until there is one; room for PLAN_KERNELS_MAX */
};

static void finish_one(void *user, size_t i)
{
    struct batch *const batch = user;
    struct work *const w = &batch->work[i];

    w->status = kernel_finish(batch->ctx, batch->jit, w->kernel, &w->making);
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

/* Finds a kernel, or adds it to what is to be compiled. */
static quern_status seek_one(struct batch *batch, const struct plan *plan, struct kernel **kernel)
{
    struct making making;

    *kernel = os.calloc(1, sizeof **kernel);
    FAIL_IF(!*kernel, QUERN_E_MEMORY, "out of memory for a kernel");
    TRY(kernel_seek(batch->ctx, plan, batch->jit, *kernel, &making));
    if ((*kernel)->bytes)
        return kernel_finish(batch->ctx, batch->jit, *kernel, &making);
    if (!batch->work)
        batch->work = os.calloc(PLAN_KERNELS_MAX, sizeof *batch->work);
    if (!batch->work) {
        kernel_abandon(batch->ctx, *kernel, &making);
        FAIL(QUERN_E_MEMORY, "out of memory for kernels to compile");
    }
    batch->work[batch->count].kernel = *kernel;
    batch->work[batch->count++].making = making;
    return QUERN_OK;
}

/* Makes and loads `count` kernels into kernels[]; all or nothing. What is found is not worth a
 * thread. */
static quern_status make_kernels(quern_ctx *ctx, const struct plan *plans, size_t count,
                                 enum quern_jit jit, struct kernel **kernels)
{
    struct batch batch = {.ctx = ctx, .jit = jit};
    quern_status status = QUERN_OK;

    for (size_t i = 0; i < count && status == QUERN_OK; i++)
        status = seek_one(&batch, &plans[i], &kernels[i]);
    if (status == QUERN_OK) {
        parallel_for(batch.count, ctx->settings.jobs, finish_one, &batch);
        for (size_t i = 0; i < batch.count && status == QUERN_OK; i++)
            if (batch.work[i].status != QUERN_OK)
                status = error_restore(&batch.work[i].error);
    } else { /* those that were to be compiled are not */
        for (size_t i = 0; i < batch.count; i++)
            kernel_abandon(ctx, batch.work[i].kernel, &batch.work[i].making);
    }
    for (size_t i = 0; i < count && status == QUERN_OK; i++)
        status = kernel_load(ctx, jit, kernels[i]);
    os.free(batch.work);
    if (status != QUERN_OK)
        free_kernels(ctx, kernels, count);
    return status;
}

quern_status check_verified(const quern_ctx *ctx)
{
    FAIL_IF(!ctx->id.target->verified && !ctx->settings.allow_unverified, QUERN_E_DECLINED,
            "no software GPU here runs %s, so its kernels are unverified; allow_unverified (of the "
            "command: --allow-unverified) uses them all the same",
            ctx->id.target->name);
    return QUERN_OK;
}

/* Publishes a set whose first kernels are those the op has and whose others are in `made`. */
static quern_status publish(quern_op *op, const struct plan_set *plans, size_t first, size_t count,
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
        set->plans.plans[i] = i < kept ? old->plans.plans[i] : plans->plans[first + i - kept];
    set->older = old;
    atomic_store(&op->kernels, set);
    const int last = set->plans.plans[kept + count - 1].m_hi;
    /* the largest kernel does any number of rows, in slices */
    atomic_store(&op->covers, last < set->plans.m_max ? last : INT64_MAX);
    return QUERN_OK;
}

/* Adds kernels first…first+count-1 of `plans` to the op. */
static quern_status add_kernels(quern_op *op, const struct plan_set *plans, size_t first,
                                size_t count, enum quern_jit jit)
{
    struct kernel *made[PLAN_KERNELS_MAX] = {0};

    TRY(make_kernels(op->ctx, plans->plans + first, count, jit, made));
    const quern_status status = publish(op, plans, first, count, made);
    if (status != QUERN_OK)
        free_kernels(op->ctx, made, count);
    return status;
}

/* Makes sure that the op has the kernels for 1…m_max. */
static quern_status grow(quern_op *op, const struct plan_set *plans, int64_t m_max,
                         enum quern_jit jit)
{
    quern_status status = QUERN_OK;
    size_t want = 0;

    while (want < plans->count && plans->plans[want].m_lo <= m_max)
        want++;
    lock_take(&op->growing);
    const struct kernel_set *const set = atomic_load(&op->kernels);
    const size_t have = set ? set->plans.count : 0;
    if (have < want)
        status = add_kernels(op, plans, have, want - have, jit);
    lock_give(&op->growing);
    return status;
}

/* ---- The op itself --------------------------------------------------------------------------- */

static quern_status op_new(quern_ctx *ctx, const struct quern_problem *normal, quern_op **out)
{
    quern_op *const op = os.calloc(1, sizeof *op);

    FAIL_IF(!op, QUERN_E_MEMORY, "out of memory for an op");
    op->ctx = ctx;
    op->spelling = (struct spelling){.problem = *normal, .op = op, .own = true};
    const quern_status status = quern_problem_text(normal, op->text, sizeof op->text);
    if (status != QUERN_OK) {
        os.free(op);
        return status;
    }
    *out = op;
    return QUERN_OK;
}

static void op_free(quern_op *op)
{
    background_end(op);
    op_blas_free(op);
    struct kernel_set *set = atomic_load(&op->kernels);

    if (set) /* the newest set holds every kernel */
        free_kernels(op->ctx, set->kernels, set->plans.count);
    while (set) {
        struct kernel_set *const older = set->older;
        os.free(set);
        set = older;
    }
    os.free(op);
}

/* ---- The table: readers take no lock; nothing leaves it until the context closes --------------
 */

/* The op that is known by this very spelling. What is found was normalised once, so the problem
 * need not be sound. */
static quern_op *find(quern_ctx *ctx, const struct quern_problem *problem)
{
    const uint64_t hash = problem_hash(problem);
    const struct spelling *at =
        atomic_load_explicit(&ctx->table[hash & (OP_BUCKETS - 1)], memory_order_acquire);

    while (at && !problem_equal(&at->problem, problem))
        at = atomic_load_explicit(&at->next, memory_order_acquire);
    return at ? at->op : NULL;
}

/* The lock is held. */
static void insert(quern_ctx *ctx, struct spelling *spelling)
{
    const uint64_t hash = problem_hash(&spelling->problem);
    _Atomic(struct spelling *) *const bucket = &ctx->table[hash & (OP_BUCKETS - 1)];

    atomic_store(&spelling->next, atomic_load(bucket));
    atomic_store(bucket, spelling);
}

static quern_status find_or_add(quern_ctx *ctx, const struct quern_problem *normal, quern_op **out)
{
    quern_status status = QUERN_OK;

    if ((*out = find(ctx, normal)))
        return QUERN_OK;
    lock_take(&ctx->table_lock);
    if (!(*out = find(ctx, normal)) && (status = op_new(ctx, normal, out)) == QUERN_OK) {
        (*out)->in_table = true;
        insert(ctx, &(*out)->spelling);
    }
    lock_give(&ctx->table_lock);
    return status;
}

/* Makes an op known by one more spelling. Without memory it stays as it is. There are as many for
 * an op as there are sets of its words that may be left out, a few hundred at most. */
static void add_spelling(quern_op *op, const struct quern_problem *problem)
{
    quern_ctx *const ctx = op->ctx;

    lock_take(&ctx->table_lock);
    struct spelling *const spelling = find(ctx, problem) ? NULL : os.calloc(1, sizeof *spelling);
    if (spelling) {
        spelling->problem = *problem;
        spelling->op = op;
        insert(ctx, spelling);
    }
    lock_give(&ctx->table_lock);
}

void op_table_free(quern_ctx *ctx)
{
    for (size_t i = 0; i < OP_BUCKETS; i++)
        for (struct spelling *at = atomic_load(&ctx->table[i]); at;) {
            struct spelling *const next = atomic_load(&at->next);
            if (at->own)
                op_free(at->op); /* which it is part of */
            else
                os.free(at);
            at = next;
        }
}

/* ---- Public ---------------------------------------------------------------------------------- */

bool op_covers(const quern_op *op, int64_t m_max)
{
    return atomic_load_explicit(&op->covers, memory_order_acquire) >= m_max;
}

quern_status op_grow(quern_op *op, int64_t m_max, enum quern_jit jit)
{
    struct plan_set plans;

    TRY(plan_make_up_to(&op->spelling.problem, op->ctx->id.target, op->ctx->tuning,
                        &op->ctx->settings.force, m_max, &plans));
    TRY(grow(op, &plans, m_max, jit));
    op_blas_prepare(op, &plans, m_max, jit);
    return QUERN_OK;
}

/* Counts in the part that is this thread's: threads that raise one count wait for each other. */
static void count_hit(quern_ctx *ctx)
{
    const uint64_t own = (uint64_t)(uintptr_t)&errno; /* an address in each thread */
    struct tally *const t = &ctx->hit_memory[own * UINT64_C(0x9e3779b97f4a7c15) >> 60];

    _Static_assert(TALLIES == 1 << (64 - 60), "the shift gives an index");
    atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
}

/* The op of a problem, as it is spelt, if it has every kernel for 1…m_max already. */
static quern_op *take_known(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max)
{
    quern_op *const op = problem && problem->size == sizeof *problem ? find(ctx, problem) : NULL;

    if (!op || !op_covers(op, m_max))
        return NULL;
    count_hit(ctx);
    return op;
}

/* The same, of a problem that must be sound; *normal is it with its defaults. */
static quern_status take_normal(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max,
                                struct quern_problem *normal, quern_op **op)
{
    TRY(problem_normalise(problem, normal));
    if ((*op = take_known(ctx, normal, m_max)))
        add_spelling(*op, problem);
    return QUERN_OK;
}

quern_status quern_op_create(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max,
                             quern_op **out)
{
    return quern_op_create_flags(ctx, problem, m_max, 0, out);
}

quern_status quern_op_create_flags(quern_ctx *ctx, const struct quern_problem *problem,
                                   int64_t m_max, unsigned flags, quern_op **out)
{
    struct quern_problem normal;
    struct plan_set plans;
    quern_op *op;

    FAIL_IF(!ctx || !out, QUERN_E_ARGUMENT, "%s is null", ctx ? "op" : "ctx");
    FAIL_IF(m_max < 1, QUERN_E_ARGUMENT, "m_max is %" PRId64 "; expected at least 1", m_max);
    FAIL_IF(flags & ~(unsigned)(QUERN_OP_NO_COMPILE | QUERN_OP_NO_WAIT), QUERN_E_ARGUMENT,
            "flags are %u; expected QUERN_OP_NO_COMPILE, QUERN_OP_NO_WAIT or both", flags);
    const enum quern_jit jit = flags & QUERN_OP_NO_COMPILE ? QUERN_JIT_OFF : ctx->settings.jit;
    op = take_known(ctx, problem, m_max);
    if (!op)
        TRY(take_normal(ctx, problem, m_max, &normal, &op));
    if (op) {
        op_blas_prepare(op, NULL, m_max, jit);
        *out = op;
        return QUERN_OK;
    }
    TRY(check_verified(ctx));
    TRY(plan_make_up_to(&normal, ctx->id.target, ctx->tuning, &ctx->settings.force, m_max, &plans));
    TRY(find_or_add(ctx, &normal, &op));
    record_op(ctx, op->text, 1, m_max);
    if (flags & QUERN_OP_NO_WAIT) {
        TRY(background_start(op, m_max, jit));
    } else {
        TRY(grow(op, &plans, m_max, jit));
        op_blas_prepare(op, &plans, m_max, jit);
    }
    *out = op;
    return QUERN_OK;
}

quern_status quern_op_ready(quern_op *op)
{
    FAIL_IF(!op, QUERN_E_ARGUMENT, "op is null");
    return background_state(op);
}

quern_status quern_op_create_on(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max,
                                void *stream, quern_op **out)
{
    struct quern_problem normal;
    bool capturing = false;
    quern_op *op;

    FAIL_IF(!ctx || !out, QUERN_E_ARGUMENT, "%s is null", ctx ? "op" : "ctx");
    FAIL_IF(m_max < 1, QUERN_E_ARGUMENT, "m_max is %" PRId64 "; expected at least 1", m_max);
    op = take_known(ctx, problem, m_max);
    if (!op)
        TRY(take_normal(ctx, problem, m_max, &normal, &op));
    if (op) {
        *out = op;
        return QUERN_OK;
    }
    if (ctx->device)
        TRY(ctx->device->functions->capturing(ctx->device, stream, &capturing));
    FAIL_IF(capturing, QUERN_E_WOULD_COMPILE,
            "the stream is being captured, and not every kernel for 1 to %" PRId64
            " rows is loaded; create the op before the capture begins",
            m_max);
    return quern_op_create(ctx, problem, m_max, out);
}

quern_status op_of_plans(quern_ctx *ctx, const struct plan_set *plans, size_t first, size_t count,
                         quern_op **out)
{
    quern_op *op;

    TRY(op_new(ctx, &plans->plans[first].problem, &op));
    const quern_status status = add_kernels(op, plans, first, count, ctx->settings.jit);
    if (status != QUERN_OK) {
        op_free(op);
        return status;
    }
    atomic_store(&op->references, 1);
    *out = op;
    return QUERN_OK;
}

quern_status quern_op_create_range(quern_ctx *ctx, const struct quern_problem *problem,
                                   int64_t m_lo, int64_t m_hi, quern_op **out)
{
    struct quern_problem normal;
    struct plan_set plans;
    char text[QUERN_TEXT_MAX];

    FAIL_IF(!ctx || !out, QUERN_E_ARGUMENT, "%s is null", ctx ? "op" : "ctx");
    FAIL_IF(m_lo < 1 || m_hi < m_lo, QUERN_E_ARGUMENT,
            "the range of M is %" PRId64 " to %" PRId64 "; expected 1 or more, in order", m_lo,
            m_hi);
    TRY(problem_normalise(problem, &normal));
    TRY(check_verified(ctx));
    TRY(quern_problem_text(&normal, text, sizeof text));
    TRY(plan_make_up_to(&normal, ctx->id.target, ctx->tuning, &ctx->settings.force, m_hi, &plans));
    size_t first = 0, last = plans.count - 1;
    while (last && plans.plans[last].m_lo > m_hi)
        last--;
    /* slices of the largest kernel, or of tiles, and a rest: every smaller one may be needed */
    const struct plan *const largest = &plans.plans[last];
    const bool mixed = last + 1 == plans.count || largest->family == FAMILY_MMA_TILE;
    const bool beyond = mixed && m_hi > largest->m_tile;
    while (!beyond && first < last && plans.plans[first].m_hi < m_lo)
        first++;
    record_op(ctx, text, m_lo, m_hi);
    return op_of_plans(ctx, &plans, first, last - first + 1, out);
}

void quern_op_release(quern_op *op)
{
    if (op && !op->in_table && atomic_fetch_sub(&op->references, 1) == 1)
        op_free(op);
}

quern_ctx *quern_op_ctx(const quern_op *op)
{
    return op ? op->ctx : NULL;
}

size_t quern_op_kernel_count(const quern_op *op)
{
    const struct kernel_set *const set = op ? atomic_load(&op->kernels) : NULL;

    return set ? set->plans.count : 0;
}

quern_status quern_op_kernel(const quern_op *op, size_t index, struct quern_kernel_info *info)
{
    FAIL_IF(!op || !info, QUERN_E_ARGUMENT, "%s is null", op ? "info" : "op");
    FAIL_IF(info->size != sizeof *info, QUERN_E_ARGUMENT, "info.size is %zu; expected %zu",
            info->size, sizeof *info);
    FAIL_IF(index >= quern_op_kernel_count(op), QUERN_E_ARGUMENT,
            "kernel %zu of an op that has %zu kernels", index, quern_op_kernel_count(op));
    const struct kernel *const k = atomic_load(&op->kernels)->kernels[index];
    *info = (struct quern_kernel_info){
        .size = sizeof *info,
        .symbol = k->plan.symbol,
        .m_lo = k->plan.m_lo,
        .m_hi = k->plan.m_hi,
        .object = k->bytes,
        .object_bytes = k->size,
        .resources = kernel_resources(k->in_object, op->ctx->id.target),
        .cached = k->cached,
        .compile_ms = k->compile_ms,
        .verified = op->ctx->id.target->verified,
    };
    hex_from_bytes(info->source_key, k->source_key.bytes, sizeof k->source_key.bytes);
    hex_from_bytes(info->entry_key, k->entry_key.bytes, sizeof k->entry_key.bytes);
    return QUERN_OK;
}
