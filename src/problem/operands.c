/* SPDX-License-Identifier: MIT */
/* Which operands a problem has, and their shapes: the "Operands" table of docs/formats.md. */
#include "problem/problem.h"

#include <quern/tool.h>

struct list {
    struct quern_operand *operands;
    size_t count;
};

static void add(struct list *list, const char *name, const char *dtype, unsigned element,
                enum quern_sim_access access, int rank, int64_t d0, int64_t d1, int64_t d2)
{
    struct quern_operand *const o = &list->operands[list->count++];

    *o = (struct quern_operand){
        .name = name, .dtype = dtype, .rank = rank, .shape = {d0, d1, d2}, .access = access};
    /* dimensions are at most 2^30 and m at most 2^31, so the product fits */
    o->bytes = element;
    for (int i = 0; i < rank; i++)
        o->bytes *= (uint64_t)o->shape[i];
}

static void add_weights(struct list *list, const struct quern_problem *p)
{
    const int64_t n = p->n, k = p->k;

    switch (p->layout) {
    case QUERN_LAYOUT_BNB:
    case QUERN_LAYOUT_TILEN:
        add(list, "b", "u8", 1, QUERN_SIM_READ, 2, n, k / 2, 0);
        break;
    case QUERN_LAYOUT_K8:
    case QUERN_LAYOUT_EXL:
        add(list, "b", "i32", 4, QUERN_SIM_READ, 2, n, k / 8, 0);
        break;
    case QUERN_LAYOUT_CK:
        add(list, "b", "i32", 4, QUERN_SIM_READ, 3, k / 32, n, 4);
        break;
    case QUERN_LAYOUT_GPTQ:
        add(list, "b", "i32", 4, QUERN_SIM_READ, 2, k / 8, n, 0);
        break;
    case QUERN_LAYOUT_AWQ:
        add(list, "b", "i32", 4, QUERN_SIM_READ, 2, k, n / 8, 0);
        break;
    case QUERN_LAYOUT_DENSE:
        if (p->wq == QUERN_W_NONE)
            add(list, "b", dtype_name(p->a), dtype_bytes(p->a), QUERN_SIM_READ, 2, n, k, 0);
        else
            add(list, "b", weight_name(p->wq), 1, QUERN_SIM_READ, 2, n, k, 0);
        break;
    }
}

static enum quern_dtype scale_dtype(enum quern_scale scale)
{
    return scale == QUERN_SCALE_F16    ? QUERN_F16
           : scale == QUERN_SCALE_BF16 ? QUERN_BF16
                                       : QUERN_F32;
}

static void add_scales(struct list *list, const struct quern_problem *p)
{
    const int64_t groups = problem_has_group(p) ? p->k / problem_group(p) : 0;
    const enum quern_dtype t = scale_dtype(p->scale);

    switch (p->wq) {
    case QUERN_W_NF4:
    case QUERN_W_FP4:
        if (p->scale == QUERN_SCALE_NESTED) {
            add(list, "scales", "f32", 4, QUERN_SIM_READ, 1, (p->n * groups + 255) / 256, 0, 0);
            add(list, "absmax8", "u8", 1, QUERN_SIM_READ, 1, p->n * groups, 0, 0);
            add(list, "code", "f32", 4, QUERN_SIM_READ, 1, 256, 0, 0);
            add(list, "offset", "f32", 4, QUERN_SIM_READ, 1, 1, 0, 0);
        } else {
            add(list, "scales", "f32", 4, QUERN_SIM_READ, 1, p->n * groups, 0, 0);
        }
        break;
    case QUERN_W_MXFP4:
        add(list, "scales", "u8", 1, QUERN_SIM_READ, 2, p->n, groups, 0);
        break;
    case QUERN_W_INT4:
        add(list, "scales", dtype_name(t), dtype_bytes(t), QUERN_SIM_READ, 2, p->n, groups, 0);
        if (p->zero == QUERN_ZERO_U8)
            add(list, "zeros", "u8", 1, QUERN_SIM_READ, 2, p->n, groups, 0);
        else if (p->zero == QUERN_ZERO_SCALED)
            add(list, "zeros", dtype_name(t), dtype_bytes(t), QUERN_SIM_READ, 2, p->n, groups, 0);
        break;
    case QUERN_W_FP8:
    case QUERN_W_FP8FNUZ:
        if (p->a == QUERN_DT_FP8 || p->a == QUERN_DT_FP8FNUZ)
            add(list, "a_scale", "f32", 4, QUERN_SIM_READ, 1, 1, 0, 0);
        add(list, "b_scale", "f32", 4, QUERN_SIM_READ, 1, 1, 0, 0);
        break;
    case QUERN_W_NONE:
        break;
    }
}

quern_status quern_problem_operands(const struct quern_problem *problem, int64_t m,
                                    struct quern_operand *operands, size_t *count)
{
    struct quern_problem p;
    struct list list = {.operands = operands};

    FAIL_IF(!operands || !count, QUERN_E_ARGUMENT, "%s is null", operands ? "count" : "operands");
    TRY(problem_normalise(problem, &p));
    FAIL_IF(m < 1 || m > INT32_MAX, QUERN_E_ARGUMENT, "m=%lld is out of range; expected 1 to %d",
            (long long)m, INT32_MAX);
    if (problem_has_activation(&p))
        add(&list, "a", dtype_name(p.a), dtype_bytes(p.a), QUERN_SIM_READ, 2, m, p.k, 0);
    add_weights(&list, &p);
    add_scales(&list, &p);
    if (p.bias)
        add(&list, "bias", dtype_name(p.c), dtype_bytes(p.c), QUERN_SIM_READ, 1, p.n, 0, 0);
    add(&list, "c", dtype_name(p.c), dtype_bytes(p.c), QUERN_SIM_WRITE, 2,
        p.op == QUERN_OP_DEQUANT ? p.n : m, p.op == QUERN_OP_DEQUANT ? p.k : p.n, 0);
    *count = list.count;
    return QUERN_OK;
}
