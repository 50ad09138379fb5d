/* SPDX-License-Identifier: MIT */
/* The nominal layer of base kernels, and what follows from the layer at hand: base.h. */
#include "plan/base.h"

#include "plan/family.h"

#include <inttypes.h>

/* A middling projection of the models that this is for. Rows of this length camp, so the shape is
 * one that spreads its loads. */
#define NOMINAL_N 16384
#define NOMINAL_K 4096
/* The group that bitsandbytes takes for 4-bit formats, and the one of most int4 checkpoints. */
#define NOMINAL_GROUP_TABLE 64
#define NOMINAL_GROUP_INT4  128

struct quern_problem base_nominal(const struct quern_problem *problem)
{
    struct quern_problem q = *problem;

    q.n = NOMINAL_N;
    q.k = NOMINAL_K;
    q.bias = problem_has_activation(problem);
    q.round = QUERN_ROUND_RNE;
    if (weight_is_table(q.wq))
        q.group = NOMINAL_GROUP_TABLE;
    else if (q.wq == QUERN_W_INT4)
        q.group = NOMINAL_GROUP_INT4;
    return q;
}

void base_bind(struct plan *plan, const struct quern_problem *problem)
{
    plan->problem = *problem;
    plan->row_groups = model_ceil_div(problem->n, plan->rows_per_workgroup);
}

uint32_t base_block_shift(const struct quern_problem *problem)
{
    const uint64_t group = (uint64_t)problem_group(problem);

    return !group || group & (group - 1) ? 31 : (uint32_t)__builtin_ctzll(group);
}

bool base_takes(const struct quern_problem *problem, const struct family *family)
{
    const struct quern_problem nominal = base_nominal(problem);

    /* matrix units sum over whole groups of the nominal layer */
    return family->base_rows &&
           (family->units == PLAN_UNITS_VECTOR ||
            (problem_has_group(problem) && problem_group(problem) % problem_group(&nominal) == 0 &&
             problem->k >= BASE_K_LEAST));
}

quern_status base_accepts(const struct quern_problem *q, const struct target *target,
                          const struct family *family)
{
    FAIL_IF(!family->base_rows || (family->units == PLAN_UNITS_MATRIX && !problem_has_group(q)),
            QUERN_E_DECLINED, "wq=%s has no base kernels on %s in this version", weight_name(q->wq),
            target->name);
    FAIL_IF(q->act, QUERN_E_DECLINED,
            "base kernels store the product itself: act=%s has kernels made to order only",
            act_name(q->act));
    FAIL_IF(q->scale == QUERN_SCALE_BLOCK128, QUERN_E_DECLINED,
            "scale=block128 has kernels made to order only");
    FAIL_IF(q->exact, QUERN_E_DECLINED, "base kernels make no promise: leave exact out");
    FAIL_IF(q->n < family->base_rows, QUERN_E_DECLINED,
            "n=%" PRId64 "; base kernels of wq=%s take %d or more", q->n, weight_name(q->wq),
            family->base_rows);
    if (family->units == PLAN_UNITS_MATRIX) { /* whose spans are of the nominal layer's groups */
        const int group = base_nominal(q).group;
        FAIL_IF(problem_group(q) % group, QUERN_E_DECLINED,
                "group=%" PRId64 "; base kernels of wq=%s on %s take multiples of %d",
                problem_group(q), weight_name(q->wq), target->name, group);
    }
    FAIL_IF(q->k % BASE_K_GRAIN, QUERN_E_DECLINED,
            "k=%" PRId64 "; base kernels take multiples of %d", q->k, BASE_K_GRAIN);
    return QUERN_OK;
}
