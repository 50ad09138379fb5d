/* SPDX-License-Identifier: MIT */
/* Ops as the caller sees them: created, ready, released, and what is told of their kernels. */
#include "dispatch/dispatch.h"

#include "base/extensible.h"
#include "base/os.h"

#include <inttypes.h>
#include <stdio.h>

quern_status check_verified(const quern_ctx *ctx)
{
    FAIL_IF(!ctx->id.target->judge && !ctx->settings.allow_unverified, QUERN_E_DECLINED,
            "nothing here runs %s without a GPU, so its kernels are unverified; allow_unverified "
            "(of the "
            "command: --allow-unverified) uses them all the same",
            ctx->id.target->name);
    return QUERN_OK;
}

static void op_free(quern_op *op)
{
    background_end(op);
    op_blas_free(op);
    op_free_kernels(op);
    os.free(op);
}

/* Ends a reference to an op. With the last one the op's own to its context ends; an op of the table
 * is freed with that, as others may refer to it. */
static void op_drop(quern_op *op)
{
    quern_ctx *const ctx = op->ctx;

    if (atomic_fetch_sub(&op->references, 1) != 1)
        return;
    if (!op->in_table)
        op_free(op);
    ctx_drop(ctx);
}

void op_table_close(quern_ctx *ctx)
{
    /* all threads end before any reference does: they add ops to the table */
    for (int ended = 0; ended < 2; ended++)
        for (size_t i = 0; i < OP_BUCKETS; i++)
            for (struct spelling *at = atomic_load(&ctx->table[i]); at;
                 at = atomic_load(&at->next)) {
                if (at->own && !ended)
                    background_end(at->op);
                else if (at->own)
                    op_drop(at->op);
            }
}

void op_table_free(quern_ctx *ctx)
{
    for (size_t i = 0; i < OP_BUCKETS; i++)
        for (struct spelling *at = atomic_load(&ctx->table[i]); at;) {
            struct spelling *const next = atomic_load(&at->next);
            if (at->own)
                op_free(at->op); /* the spelling is a member of its op */
            else
                os.free(at);
            at = next;
        }
}

/* Gives the host an op of the table, with a reference. */
static quern_status give(quern_op *op, quern_op **out)
{
    atomic_fetch_add_explicit(&op->references, 1, memory_order_relaxed);
    *out = op;
    return QUERN_OK;
}

/* ---- Creating -------------------------------------------------------------------------------- */

#define ALL_FLAGS (QUERN_OP_NO_COMPILE | QUERN_OP_NO_WAIT | QUERN_OP_BASE | QUERN_OP_BASE_ONLY)

quern_status quern_op_create(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max,
                             quern_op **out)
{
    return quern_op_create_flags(ctx, problem, m_max, 0, out);
}

/* Has base kernels serve until those made to order are there, which a thread of the library makes.
 */
static quern_status create_on_base(quern_ctx *ctx, const struct quern_problem *normal,
                                   int64_t m_max, enum quern_jit jit, quern_op **out)
{
    struct plan_set plans;
    quern_op *op;

    TRY(op_plan(ctx, normal, m_max, &plans, &op));
    TRY(op_load_base(op, m_max));
    (void)background_start(op, &plans, m_max, jit); /* base kernels serve whether or not it can */
    op_raise(&op->based, m_max);
    return give(op, out);
}

/* After base kernels did not serve, as `base` says, and the op's own kernels may not be compiled
 * either: puts the former reason in front of the latter, which ends with a remedy. */
static quern_status tell_base(const char *base, quern_status status)
{
    FAIL_IF(status == QUERN_E_WOULD_COMPILE, status, "base kernels do not serve: %s; %s", base,
            quern_last_error()->message);
    return status;
}

/* Makes the kernels of an op, at once or in the background. */
static quern_status make_own(quern_op *op, const struct plan_set *plans, int64_t m_max,
                             unsigned flags, enum quern_jit jit)
{
    return flags & QUERN_OP_NO_WAIT ? background_start(op, plans, m_max, jit)
                                    : op_fall_back(op, m_max, op_make(op, plans, m_max, jit));
}

/* Makes an op that does not have every kernel for 1…m_max. */
static quern_status make_op(quern_ctx *ctx, const struct quern_problem *normal, int64_t m_max,
                            unsigned flags, enum quern_jit jit, quern_op **out)
{
    const bool based =
        !normal->kernels && (flags & QUERN_OP_BASE || ctx->settings.base == QUERN_BASE_ON);
    struct plan_set plans;
    char base
        [301]; /* why base kernels do not serve: no whole error record, which is 6 KB of stack */
    quern_op *op;

    if ((op = op_on_base(ctx, normal, m_max, based, jit)))
        return give(op, out);
    TRY(check_verified(ctx));
    if (based && create_on_base(ctx, normal, m_max, jit, out) == QUERN_OK)
        return QUERN_OK;
    if (based)
        snprintf(base, sizeof base, "%s", quern_last_error()->message);
    TRY(op_plan(ctx, normal, m_max, &plans, &op));
    const quern_status status = make_own(op, &plans, m_max, flags, jit);
    if (status != QUERN_OK)
        return based ? tell_base(base, status) : status;
    return give(op, out);
}

quern_status quern_op_create_flags(quern_ctx *ctx, const struct quern_problem *problem,
                                   int64_t m_max, unsigned flags, quern_op **out)
{
    struct quern_problem own, normal;
    const struct quern_problem *given;

    FAIL_IF(!ctx || !out, QUERN_E_ARGUMENT, "%s is null", ctx ? "op" : "ctx");
    FAIL_IF(m_max < 1, QUERN_E_ARGUMENT, "m_max is %" PRId64 "; expected at least 1", m_max);
    FAIL_IF(flags & ~(unsigned)ALL_FLAGS, QUERN_E_ARGUMENT,
            "flags are %u; expected any of QUERN_OP_NO_COMPILE, QUERN_OP_NO_WAIT, QUERN_OP_BASE, "
            "QUERN_OP_BASE_ONLY",
            flags);
    const enum quern_jit jit = flags & QUERN_OP_NO_COMPILE && jit_compiles(ctx->settings.jit)
                                   ? JIT_NO_COMPILE
                                   : ctx->settings.jit;
    TRY(problem_view(problem, &own, &given));
    if (flags & QUERN_OP_BASE_ONLY) {
        TRY(problem_normalise(given, &own));
        own.kernels = QUERN_KERNELS_BASE;
        given = &own;
    }
    quern_op *op = op_known(ctx, given, m_max);
    if (!op)
        TRY(op_known_normal(ctx, given, m_max, &normal, &op));
    if (!op)
        return make_op(ctx, &normal, m_max, flags, jit, out);
    op_blas_prepare(op, NULL, m_max, jit);
    return give(op, out);
}

quern_status quern_op_ready(quern_op *op)
{
    FAIL_IF(!op, QUERN_E_ARGUMENT, "op is null");
    TRY(op_check_open(op));
    return background_state(op);
}

unsigned quern_op_generation(const quern_op *op)
{
    unsigned generation = 0;

    for (const struct kernel_set *s = op ? atomic_load(&op->kernels) : NULL; s; s = s->older)
        generation++;
    return generation;
}

quern_status quern_op_create_on(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max,
                                void *stream, quern_op **out)
{
    struct quern_problem own, normal;
    const struct quern_problem *given;
    bool capturing = false;
    quern_op *op;

    FAIL_IF(!ctx || !out, QUERN_E_ARGUMENT, "%s is null", ctx ? "op" : "ctx");
    FAIL_IF(m_max < 1, QUERN_E_ARGUMENT, "m_max is %" PRId64 "; expected at least 1", m_max);
    TRY(problem_view(problem, &own, &given));
    op = op_known(ctx, given, m_max);
    if (!op)
        TRY(op_known_normal(ctx, given, m_max, &normal, &op));
    if (op)
        return give(op, out);
    if (ctx->device)
        TRY(ctx->device->functions->capturing(ctx->device, stream, &capturing));
    op = capturing ? op_found(ctx, &normal) : NULL;
    quern_op *const base = op ? atomic_load(&op->base) : NULL;
    if (base && op_covers(base, m_max)) /* there is something to launch, and nothing is loaded */
        return give(op, out);
    FAIL_IF(capturing, QUERN_E_WOULD_COMPILE,
            "the stream is being captured, and not every kernel for 1 to %" PRId64
            " rows is loaded; create the op before the capture begins",
            m_max);
    return quern_op_create(ctx, problem, m_max, out);
}

quern_status op_of_plans(quern_ctx *ctx, const struct plan_set *plans,
                         const struct op_wanted *wanted, quern_op **out)
{
    quern_op *op;

    TRY(op_new(ctx, &plans->plans[wanted->first].problem, &op));
    const quern_status status = op_add_kernels(op, plans, wanted, ctx->settings.jit);
    if (status != QUERN_OK) {
        op_drop(op);
        return status;
    }
    *out = op;
    return QUERN_OK;
}

struct op_wanted op_range(const struct plan_set *plans, int64_t m_lo, int64_t m_hi)
{
    size_t first = 0, last = plans->count - 1;

    while (last && plans->plans[last].m_lo > m_hi)
        last--;
    /* M beyond the largest kernel is served by slices of it and a rest, and so is M of tiles: the
     * rest may need any smaller kernel */
    const struct plan *const largest = &plans->plans[last];
    const bool mixed = !largest->block_rows &&
                       (last + 1 == plans->count || plan_units(largest) == PLAN_UNITS_TILES);
    const bool beyond = mixed && m_hi > largest->m_tile;
    while (!beyond && first < last && plans->plans[first].m_hi < m_lo)
        first++;
    return (struct op_wanted){first, last - first + 1, m_lo, m_hi};
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
    problem_text(&normal, text);
    TRY(plan_make_up_to(&normal, ctx->planned, ctx->tuning, &ctx->settings.force, m_hi, &plans));
    const struct op_wanted wanted = op_range(&plans, m_lo, m_hi);
    record_op(ctx, text, m_lo, m_hi);
    return op_of_plans(ctx, &plans, &wanted, out);
}

void quern_op_release(quern_op *op)
{
    if (op)
        op_drop(op);
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
    const struct extensible *const type = EXTENSIBLE(quern_kernel_info, QUERN_KERNEL_INFO_SIZE_MIN);
    struct quern_kernel_info own;

    FAIL_IF(!op, QUERN_E_ARGUMENT, "op is null");
    TRY(extensible_check(type, info));
    FAIL_IF(index >= quern_op_kernel_count(op), QUERN_E_ARGUMENT,
            "kernel %zu of an op that has %zu kernels", index, quern_op_kernel_count(op));
    kernel_info(op->ctx, atomic_load(&op->kernels)->kernels[index],
                index + 1 == quern_op_kernel_count(op), &own);
    extensible_write(type, &own, info);
    return QUERN_OK;
}
