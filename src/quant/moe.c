/* SPDX-License-Identifier: MIT */
/*
 * Mixtures of experts on the CPU: putting choices into blocks, op=moe's product in double, and its
 * operands for a test. What slots, blocks and choices are says quern.h at struct quern_args.
 */
#include "quant/quant.h"

#include "base/os.h"

#include <math.h>
#include <string.h>

/* ---- Blocks ---------------------------------------------------------------------------------- */

static bool is_expert(const struct quern_problem *p, int32_t id)
{
    return id >= 0 && id < p->experts;
}

/* Counts the choices of each expert, and lays these out one behind the other, so that the time is
 * that of the choices, however many experts there are. */
void quant_moe_align(const struct quern_problem *p, int64_t m, const int32_t *topk_ids,
                     int32_t *rows, int32_t *experts, int32_t *rows_used)
{
    const int64_t choices = problem_results(p, m), slots = problem_slots(p, m);
    int64_t next[PROBLEM_EXPERTS_MAX] = {0}; /* of an expert: its choices, then its next slot */
    int64_t used = 0;

    for (int64_t i = 0; i < slots; i++)
        rows[i] = (int32_t)choices;
    for (int64_t i = 0; i < slots / p->block_rows; i++)
        experts[i] = -1;
    for (int64_t i = 0; i < choices; i++)
        if (is_expert(p, topk_ids[i]))
            next[topk_ids[i]]++;
    for (int32_t e = 0; e < p->experts; e++) {
        const int64_t end = used + next[e];
        next[e] = used;
        for (; used < end; used += p->block_rows)
            experts[used / p->block_rows] = e;
    }
    for (int64_t i = 0; i < choices; i++)
        if (is_expert(p, topk_ids[i]))
            rows[next[topk_ids[i]]++] = (int32_t)i;
    *rows_used = (int32_t)used;
}

quern_status quern_moe_slots(const struct quern_problem *problem, int64_t m, int64_t *slots)
{
    struct quern_problem p;

    FAIL_IF(!slots, QUERN_E_ARGUMENT, "slots is null");
    TRY(problem_normalise(problem, &p));
    FAIL_IF(!problem_has_experts(&p) || !p.block_rows, QUERN_E_ARGUMENT,
            "only op=moe with block_rows, and op=moe_align, have slots; quern_op_block_rows gives "
            "block_rows");
    TRY(problem_check_rows(&p, m));
    *slots = problem_slots(&p, m);
    return QUERN_OK;
}

quern_status quern_moe_align(const struct quern_problem *problem, int64_t m,
                             const int32_t *topk_ids, int32_t *rows, int32_t *experts,
                             int32_t *rows_used)
{
    struct quern_problem p;
    int64_t slots;

    FAIL_IF(!topk_ids || !rows || !experts || !rows_used, QUERN_E_ARGUMENT, "%s is null",
            !topk_ids  ? "topk_ids"
            : !rows    ? "rows"
            : !experts ? "experts"
                       : "rows_used");
    TRY(quern_moe_slots(problem, m, &slots));
    TRY(problem_normalise(problem, &p));
    quant_moe_align(&p, m, topk_ids, rows, experts, rows_used);
    return QUERN_OK;
}

/* ---- One expert ------------------------------------------------------------------------------ */

/* The operands of one expert's op=gemm among those of all. Its A and C are the caller's to set. */
static union operand_pointers expert_operands(const struct quern_problem *one,
                                              const union operand_pointers *all, int64_t expert)
{
    union operand_pointers own = {0};
    struct quern_operand o;

    for (int i = 0; i < OPERAND_COUNT; i++) {
        if (!all->at[i] || !operand_describe(one, (enum operand)i, 1, &o))
            continue;
        const bool shared = i == OPERAND_A || i == OPERAND_A_SCALE || i == OPERAND_CODE;
        own.at[i] = (char *)all->at[i] + (shared ? 0 : (uint64_t)expert * o.bytes);
    }
    return own;
}

/* ---- Reference ------------------------------------------------------------------------------- */

struct mixture {
    const struct quern_problem *problem;
    struct quern_problem one; /* an expert's op=gemm, whose reference is `of_expert` */
    quant_reference_fn *of_expert;
    const union operand_pointers *in;
    int64_t choices, slots, columns;
    uint32_t *named; /* room for the choices of one expert */
    uint8_t *a;      /* and for their rows of A, */
    float *a_scale;  /* with the scales of those, where they have some */
    size_t a_blocks; /* as many in a row */
    double *y;       /* and their results */
    double *to;      /* the results of all, [choices, columns] */
};

/* Collects the choices that the used blocks of an expert name; -1: of those elsewhere. */
static size_t collect(const struct mixture *x, int32_t expert)
{
    const uint32_t used = *(const uint32_t *)x->in->rows_used;
    const int32_t *const experts = x->in->experts;
    const uint32_t *const rows = x->in->rows;
    size_t count = 0;

    for (int64_t slot = 0; slot < x->slots && (uint64_t)slot < used; slot++)
        if (experts[slot / x->problem->block_rows] == expert && rows[slot] < (uint64_t)x->choices &&
            count < (size_t)x->choices)
            x->named[count++] = rows[slot];
    return count;
}

static quern_status multiply_expert(const struct mixture *x, int32_t expert)
{
    const size_t row_bytes = (size_t)x->problem->k * dtype_bytes(x->problem->a);
    const size_t count = collect(x, expert), columns = (size_t)x->columns;
    const float *const routing = x->in->routing;

    if (!count)
        return QUERN_OK;
    union operand_pointers own = expert_operands(&x->one, x->in, expert < 0 ? 0 : expert);
    for (size_t i = 0; i < count; i++)
        memcpy(x->a + i * row_bytes,
               (const char *)x->in->a + x->named[i] / (size_t)x->problem->top_k * row_bytes,
               row_bytes);
    for (size_t i = 0; i < count && x->a_blocks; i++)
        memcpy(x->a_scale + i * x->a_blocks,
               (const float *)x->in->a_scale +
                   x->named[i] / (size_t)x->problem->top_k * x->a_blocks,
               x->a_blocks * sizeof *x->a_scale);
    own.a = x->a;
    if (x->a_blocks)
        own.a_scale = x->a_scale;
    own.c = NULL;
    if (expert >= 0)
        TRY(x->of_expert(&x->one, &own, (int64_t)count, x->y));
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; n < columns; n++)
            x->to[x->named[i] * columns + n] =
                expert < 0 ? 0
                           : x->y[i * columns + n] * (routing ? (double)routing[x->named[i]] : 1);
    return QUERN_OK;
}

static quern_status multiply_all(const struct mixture *x)
{
    FAIL_IF(!x->named || !x->a || !x->y || !x->a_scale, QUERN_E_MEMORY,
            "no memory for the rows of %lld choices", (long long)x->choices);
    for (int32_t e = -1; e < x->problem->experts; e++)
        TRY(multiply_expert(x, e));
    return QUERN_OK;
}

quern_status quant_reference_moe(const struct quern_problem *p, const union operand_pointers *in,
                                 int64_t m, double *y, quant_reference_fn *of_expert)
{
    struct mixture x = {.problem = p,
                        .of_expert = of_expert,
                        .one = problem_of_expert(p),
                        .in = in,
                        .choices = problem_results(p, m),
                        .slots = problem_slots(p, m),
                        .columns = problem_columns(p),
                        .to = y};
    const size_t choices = (size_t)x.choices;

    FAIL_IF(!in->rows || !in->experts || !in->rows_used, QUERN_E_ARGUMENT,
            "operands rows, experts and rows_used are needed");
    for (size_t i = 0; i < choices * (size_t)x.columns; i++)
        y[i] = NAN;
    x.named = os.malloc(choices * sizeof *x.named);
    x.a = os.malloc(choices * (size_t)p->k * dtype_bytes(p->a));
    if (in->a_scale && p->scale == QUERN_SCALE_BLOCK128)
        x.a_blocks = (size_t)problem_scale_blocks(p->k);
    x.a_scale = os.malloc((choices * x.a_blocks + 1) * sizeof *x.a_scale);
    x.y = os.malloc(choices * (size_t)x.columns * sizeof *x.y);
    const quern_status status = multiply_all(&x);
    os.free(x.named);
    os.free(x.a);
    os.free(x.a_scale);
    os.free(x.y);
    return status;
}

/* ---- Operands for a test --------------------------------------------------------------------- */

/* One in so many choices of op=moe_align is no expert's. */
#define NOBODY_ONE_IN 16

/* Chooses top_k experts for each of m tokens, all different where there are so many. */
static void choose_experts(const struct quern_problem *p, int64_t m, uint64_t seed, int32_t *ids)
{
    uint64_t drawn = 0;

    for (int64_t t = 0; t < m; t++)
        for (int32_t j = 0; j < p->top_k; j++) {
            int32_t *const of_token = ids + t * p->top_k;
            int32_t id = (int32_t)(quant_random_at(seed, drawn++) % (uint64_t)p->experts);
            for (int32_t i = 0; i < j && p->top_k <= p->experts; i++)
                if (of_token[i] == id) { /* the next one, and compare from the beginning */
                    id = (id + 1) % p->experts;
                    i = -1;
                }
            of_token[j] = id;
        }
}

void quant_random_ids(const struct quern_problem *p, int64_t m, uint64_t seed, int32_t *ids)
{
    static const int32_t nobody[] = {-1, INT32_MIN, INT32_MAX, PROBLEM_EXPERTS_MAX};

    choose_experts(p, m, seed, ids);
    for (int64_t i = 0; i < problem_results(p, m); i++) {
        const uint64_t drawn = quant_random_at(~seed, (uint64_t)i);
        if (drawn % NOBODY_ONE_IN == 0)
            ids[i] = nobody[drawn / NOBODY_ONE_IN % (sizeof nobody / sizeof *nobody)];
    }
}

quern_status quant_random_moe(const struct quern_problem *p, int64_t m, uint64_t seed,
                              const union operand_pointers *out, quant_random_fn *of_expert)
{
    const struct quern_problem one = problem_of_expert(p);
    const int64_t choices = problem_results(p, m);

    for (int64_t e = 0; e < p->experts; e++) {
        union operand_pointers own = expert_operands(&one, out, e);
        if (e)
            own.a = own.a_scale = own.code = NULL;
        TRY(of_expert(&one, m, quant_random_at(seed, (uint64_t)e), &own));
        /* what has one value for a layer differs from expert to expert: a kernel that takes another
         * expert's is seen */
        const float factor =
            (float)(quant_random_at(~seed, (uint64_t)choices + (uint64_t)e) >> 40) * 0x1p-24f +
            0.5f;
        if (own.offset)
            *(float *)own.offset *= factor;
        if (own.b_scale && one.scale == QUERN_SCALE_TENSOR)
            *(float *)own.b_scale *= factor;
    }
    for (int64_t i = 0; i < choices && out->routing; i++)
        ((float *)out->routing)[i] =
            (float)(quant_random_at(~seed, (uint64_t)i) >> 40) * 0x1p-24f + 0.25f;
    if (!out->rows || !out->experts || !out->rows_used)
        return QUERN_OK;
    int32_t *const ids = os.malloc((size_t)choices * sizeof *ids);
    FAIL_IF(!ids, QUERN_E_MEMORY, "no memory for %lld choices", (long long)choices);
    choose_experts(p, m, seed ^ 1, ids);
    quant_moe_align(p, m, ids, out->rows, out->experts, out->rows_used);
    os.free(ids);
    return QUERN_OK;
}
