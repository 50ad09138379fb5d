/* SPDX-License-Identifier: MIT */
/* Ops that base kernels serve: until they have kernels of their own, or for want of a compiler. */
#include "dispatch/dispatch.h"

#include <string.h>

/* After no tier had a base kernel: records why, in the place of "no tier has the kernel". */
static quern_status tell_why(quern_ctx *ctx, quern_status status)
{
    struct str why = {0};

    if (status != QUERN_E_WOULD_COMPILE)
        return status;
    base_tell(&ctx->base, &why);
    error_set(status, __FILE__, FAIL_AT("no tier"), "%s",
              str_text(&why) + strspn(str_text(&why), "; "));
    str_free(&why);
    return status;
}

quern_status op_load_base(quern_op *op, int64_t m_max)
{
    quern_ctx *const ctx = op->ctx;
    struct quern_problem problem = op->spelling.problem;
    struct plan_set plans;
    quern_op *base;

    problem.kernels = QUERN_KERNELS_BASE;
    TRY(plan_make_up_to(&problem, ctx->planned, NULL, &ctx->settings.force, m_max, &plans));
    TRY(op_find_or_add(ctx, &problem, &base));
    TRY(tell_why(ctx, op_grow(base, &plans, m_max, JIT_LOOK)));
    atomic_store(&op->base, base);
    return QUERN_OK;
}

void op_raise(_Atomic int64_t *rows, int64_t m_max)
{
    int64_t was = atomic_load(rows);

    while (was < m_max && !atomic_compare_exchange_weak(rows, &was, m_max))
        ;
}

void op_keeps_base(const quern_op *op, quern_status status)
{
    const unsigned bit = 1u << ((unsigned)status & 31);

    if (!(atomic_fetch_or(&op->ctx->base_said, bit) & bit))
        log_line(&op->ctx->log, QUERN_LOG_WARN,
                 "base kernels go on serving %s: %s (said once for this reason)", op->text,
                 quern_last_error()->message);
}

quern_status op_fall_back(quern_op *op, int64_t m_max, quern_status status)
{
    struct error_record why;

    if (status != QUERN_E_TOOLCHAIN || op->spelling.problem.kernels ||
        op->ctx->settings.base == QUERN_BASE_OFF)
        return status;
    error_save(&why);
    const bool serves = op_load_base(op, m_max) == QUERN_OK;
    error_restore(&why);
    if (!serves)
        return status;
    op_raise(&op->stuck, m_max);
    op_keeps_base(op, status);
    return QUERN_OK;
}

quern_op *op_on_base(quern_ctx *ctx, const struct quern_problem *normal, int64_t m_max, bool based,
                     enum quern_jit jit)
{
    quern_op *const op = op_found(ctx, normal);

    return op && ((based && atomic_load(&op->based) >= m_max) ||
                  (jit_compiles(jit) && atomic_load(&op->stuck) >= m_max))
               ? op
               : NULL;
}
