/* SPDX-License-Identifier: MIT */
/* What the families for NVIDIA share: nvidia.h. */
#include "plan/nvidia.h"

#include "plan/family.h"

#include <inttypes.h>

bool nvidia_has_table(const struct quern_problem *q)
{
    return problem_has_group(q) && q->wq != QUERN_W_INT4;
}

quern_status nvidia_accepts(const struct quern_problem *q, const struct target *t)
{
    const enum quern_layout layout = q->wq == QUERN_W_MXFP4 ? QUERN_LAYOUT_K8 : QUERN_LAYOUT_BNB;

    FAIL_IF(q->layout != layout, QUERN_E_DECLINED,
            "only layout=%s has kernels for wq=%s on %s in this version", layout_name(layout),
            weight_name(q->wq), t->name);
    FAIL_IF(q->round != QUERN_ROUND_RNE, QUERN_E_DECLINED,
            "round=trunc has no kernel on %s, whose kernels round to nearest (round=rne)", t->name);
    FAIL_IF(problem_group(q) % 32, QUERN_E_DECLINED,
            "group=%" PRId64 " has no kernel on %s; a multiple of 32 has", problem_group(q),
            t->name);
    return QUERN_OK;
}

int64_t nvidia_codes_bytes(const struct quern_problem *q)
{
    return q->scale == QUERN_SCALE_NESTED ? 1024 : 0;
}

int64_t nvidia_values_bytes(const struct quern_problem *q)
{
    return 16 * 32 * 4 + nvidia_codes_bytes(q);
}

static int64_t is_nested(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_NESTED;
}

static int64_t is_e8m0(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_E8M0;
}

static bool multiplies(const struct plan *p)
{
    return p->problem.op == QUERN_OP_GEMM;
}

const struct plan_field nvidia_fields[] = {
    {FIELD_WORD("A_TYPE", field_a_type, "elements of A"), .when = multiplies},
    {FIELD_OF(FIELD_FLAG, "SCALE_IS_NESTED", is_nested, "whether scales are quantised again")},
    {FIELD_OF(FIELD_FLAG, "SCALE_IS_E8M0", is_e8m0, "whether they are powers of two")},
    {0},
};

const struct plan_field nvidia_grid_fields[] = {
    {FIELD_AT(FIELD_NUMBER, "SHARED_BYTES", lds_bytes, "of a workgroup")},
    {FIELD_AT(FIELD_BOOL, "SLICES_FIRST", slices_first, "whether slices of A are workgroup id x"),
     .when = multiplies},
    {0},
};
