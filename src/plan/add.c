/* SPDX-License-Identifier: MIT */
/* Adding one kernel to a set of plans: its name, its shape, the limits of its launches (add.h). */
#include "plan/add.h"

#include "plan/base.h"
#include "plan/family.h"

#include <inttypes.h>
#include <stdio.h>

/* The name of each kernel that a host may have of op=moe and op=moe_align differs from those of
 * other layers, so that a profiler's lines can be told apart. The longest, of op=moe with
 * every number at its largest, has 78 characters. */
static quern_status name_kernel(struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const bool multiplies = problem_has_activation(q);
    const char *const weight = weight_name(q->wq);
    const char *const type = dtype_name(multiplies ? q->a : q->c);
    const char *const nested = q->scale == QUERN_SCALE_NESTED ? "_nested" : "";
    char op[24] = "", group[40] = "", experts[48] = "", rows[16] = "";
    int length;

    if (q->op != QUERN_OP_GEMM)
        snprintf(op, sizeof op, "%s_", op_name(q->op));
    if (problem_has_experts(q))
        snprintf(experts, sizeof experts, "_e%d_t%d_b%d", q->experts, q->top_k,
                 q->op == QUERN_OP_MOE ? p->block_rows : q->block_rows);
    if (multiplies)
        snprintf(rows, sizeof rows, "_m%d", p->m_tile);
    if (problem_has_group(q))
        snprintf(group, sizeof group, "_g%" PRId64 "%s", problem_group(q), nested);
    else if (q->scale == QUERN_SCALE_BLOCK128)
        snprintf(group, sizeof group, "_block128");

    if (!problem_has_weights(q))
        length = snprintf(p->symbol, sizeof p->symbol, "quern_%s%s", op_name(q->op), experts);
    else if (plan_is_base(p))
        length = snprintf(p->symbol, sizeof p->symbol, "quern_%s%s%s_%s_base%s", op, weight, nested,
                          type, rows);
    else
        length =
            snprintf(p->symbol, sizeof p->symbol, "quern_%s%s_%s_n%" PRId64 "_k%" PRId64 "%s%s%s",
                     op, weight, type, q->n, q->k, group, experts, rows);
    FAIL_IF(length < 0 || (size_t)length >= sizeof p->symbol, QUERN_E_INTERNAL,
            "the name of a kernel has %d characters; %zu fit", length, sizeof p->symbol - 1);
    return QUERN_OK;
}

quern_status plan_limit(struct plan *p)
{
    const int64_t x = (int64_t)UINT32_MAX / ((int64_t)p->waves * p->wave_size);
    const int64_t groups = p->resident ? p->estimate.workgroups : p->row_groups + p->skewed;

    p->slices_max = p->slices_first ? x : PLAN_GRID_Y_MAX;
    FAIL_IF(groups > (p->slices_first ? PLAN_GRID_Y_MAX : x), QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " takes %" PRId64
            " workgroups; a launch has fewer than 2^32 work-items along an axis",
            p->problem.n, p->problem.k, groups);
    return QUERN_OK;
}

quern_status plan_one(const struct plan *base, int m_tile, bool last, struct plan *p)
{
    *p = *base;
    p->m_lo = 1;
    p->m_hi = p->m_tile = m_tile;
    /* the largest serves larger M in slices, which read them again; which of the base kernels that
     * is depends on the layer */
    p->weights_once = !last && !plan_is_base(p);
    TRY(name_kernel(p));
    TRY(model_choose(NULL, p));
    return plan_limit(p);
}

quern_status plan_add(struct plan_set *set, const struct plan *base, int m_tile, bool last)
{
    struct plan *const p = &set->plans[set->count];

    TRY(plan_one(base, m_tile, last, p));
    p->m_lo = set->count ? p[-1].m_hi + 1 : 1;
    set->count++;
    return QUERN_OK;
}
