/* SPDX-License-Identifier: MIT */
/*
 * The table of a context's ops, by every spelling of their problems that was met. Readers take no
 * lock; an op leaves the table only when the context closes.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <errno.h>

quern_status op_new(quern_ctx *ctx, const struct quern_problem *normal, quern_op **out)
{
    quern_op *const op = os.calloc(1, sizeof *op);

    FAIL_IF(!op, QUERN_E_MEMORY, "out of memory for an op");
    op->ctx = ctx;
    op->references = 1; /* of the table, or of who makes an op that is in none */
    ctx_hold(ctx);
    op->spelling = (struct spelling){.problem = *normal, .op = op, .own = true};
    op->operands = operands_of(normal);
    problem_text(normal, op->text);
    *out = op;
    return QUERN_OK;
}

quern_op *op_found(quern_ctx *ctx, const struct quern_problem *problem)
{
    const uint64_t hash = problem_hash(problem);
    const struct spelling *at =
        atomic_load_explicit(&ctx->table[hash & (OP_BUCKETS - 1)], memory_order_acquire);

    while (at && !problem_equal(&at->problem, problem))
        at = atomic_load_explicit(&at->next, memory_order_acquire);
    return at ? at->op : NULL;
}

/* Adds a spelling to its bucket. The caller holds the lock. */
static void insert(quern_ctx *ctx, struct spelling *spelling)
{
    const uint64_t hash = problem_hash(&spelling->problem);
    _Atomic(struct spelling *) *const bucket = &ctx->table[hash & (OP_BUCKETS - 1)];

    atomic_store(&spelling->next, atomic_load(bucket));
    atomic_store(bucket, spelling);
}

quern_status op_find_or_add(quern_ctx *ctx, const struct quern_problem *normal, quern_op **out)
{
    quern_status status = QUERN_OK;

    if ((*out = op_found(ctx, normal)))
        return QUERN_OK;
    lock_take(&ctx->table_lock);
    if (!(*out = op_found(ctx, normal)) && (status = op_new(ctx, normal, out)) == QUERN_OK) {
        (*out)->in_table = true;
        insert(ctx, &(*out)->spelling);
    }
    lock_give(&ctx->table_lock);
    return status;
}

/* Puts an op into the table under one more spelling; does nothing without memory. An op has as many
 * spellings as there are sets of defaults to leave out, a few hundred at most. */
static void add_spelling(quern_op *op, const struct quern_problem *problem)
{
    quern_ctx *const ctx = op->ctx;

    lock_take(&ctx->table_lock);
    struct spelling *const spelling =
        op_found(ctx, problem) ? NULL : os.calloc(1, sizeof *spelling);
    if (spelling) {
        spelling->problem = *problem;
        spelling->op = op;
        insert(ctx, spelling);
    }
    lock_give(&ctx->table_lock);
}

/* Counts a hit in the part of the count that is this thread's: threads that raised the same one
 * would wait for each other. */
static void count_hit(quern_ctx *ctx)
{
    const uint64_t own = (uint64_t)(uintptr_t)&errno; /* an address in each thread */
    struct tally *const t = &ctx->hit_memory[own * UINT64_C(0x9e3779b97f4a7c15) >> 60];

    _Static_assert(TALLIES == 1 << (64 - 60), "the shift gives an index");
    atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
}

quern_op *op_known(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max)
{
    quern_op *const op = op_found(ctx, problem);

    if (!op || !op_covers(op, m_max))
        return NULL;
    count_hit(ctx);
    return op;
}

quern_status op_known_normal(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max,
                             struct quern_problem *normal, quern_op **op)
{
    TRY(problem_normalise(problem, normal));
    if ((*op = op_known(ctx, normal, m_max)))
        add_spelling(*op, problem);
    return QUERN_OK;
}
