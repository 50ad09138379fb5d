/* SPDX-License-Identifier: MIT */
/* From how many rows of A on the vendor's library is modelled to be faster: blas_choice.h. */
#include "plan/blas_choice.h"

#include "target/rates.h"

#include <inttypes.h>

/* The library is taken to reach so many per cent of the matrix units' peak with a full grid, and of
 * memory's where that bounds it; the third is for the kernel that writes the weights. cuBLASLt on
 * an H100 had 66, 73 to 79 and 83 to 89 (tests/hw/layers_cuda.py many, 2026-11-27). For hipBLASLt
 * they are assumptions. */
#define BLAS_PERCENT          60
#define BLAS_MEMORY_PERCENT   75
#define DECODE_MEMORY_PERCENT 85
/* What two kernels cost beside their own times: the second's launch, and the compute units that
 * idle while the first ends. None was seen on the H100. */
#define SWITCH_US 1.0

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double blas_cycles(const struct plan_blas *b, const struct plan *p, int64_t rows)
{
    const struct quern_problem *const q = &p->problem;
    const struct target *const t = p->target;
    const double n = (double)q->n, k = (double)q->k, m = (double)rows;
    const double product =
        larger(n * k * m / ((double)target_matrix_products(t) * t->cus) * 100 / BLAS_PERCENT,
               target_memory_cycles(t, 2 * (n * k + m * (n + k))) * 100 / BLAS_MEMORY_PERCENT);
    const struct plan_estimate *const e = &b->weights.estimate;
    const double decode =
        larger((double)e->kernel_cycles, (double)e->memory_cycles * 100 / DECODE_MEMORY_PERCENT);

    return product + (b->dequant ? decode + SWITCH_US * 1e3 * t->clock_ghz : 0);
}

/* The problem of dequantising a layer's weights to A's type; false if they are not quantised. */
static bool dequant_of(const struct quern_problem *q, struct quern_problem *dequant)
{
    *dequant = (struct quern_problem){.size = sizeof *dequant,
                                      .op = QUERN_OP_DEQUANT,
                                      .wq = q->wq,
                                      .group = q->group,
                                      .scale = q->scale,
                                      .zero = q->zero,
                                      .c = q->a,
                                      .n = q->n,
                                      .k = q->k,
                                      .layout = q->layout,
                                      .round = q->round};
    return q->wq != QUERN_W_NONE;
}

struct plan_blas plan_blas_choose(const struct plan_set *set)
{
    const struct plan *const p = &set->plans[set->count - 1];
    const struct quern_problem *const q = &p->problem;
    struct quern_problem raw, dequant;
    struct plan_set weights;
    struct plan_blas b = {0};

    if (q->op != QUERN_OP_GEMM || (q->a != QUERN_F16 && q->a != QUERN_BF16) || q->c != q->a ||
        q->bias || q->act || p->m_hi < set->m_max || !target_matrix_products(p->target) ||
        q->exact & QUERN_EXACT_BATCH_INVARIANT ||
        (q->exact & QUERN_EXACT_PRECISE && q->wq != QUERN_W_NONE))
        return b; /* the library promises nothing, and reads weights that are rounded to 16 bits */
    if ((b.dequant = dequant_of(q, &raw))) {
        if (problem_normalise(&raw, &dequant) != QUERN_OK ||
            plan_make(&dequant, p->target, &weights) != QUERN_OK)
            return (struct plan_blas){0};
        b.weights = weights.plans[0];
        b.weight_bytes = q->n * q->k * dtype_bytes(q->a);
    }
    for (int64_t rows = PLAN_BLAS_LEAST; rows <= PLAN_BLAS_ROWS && !b.from; rows *= 2) {
        struct plan_slice slices[2];
        const double own = (double)plan_slices_cycles(slices, plan_slices(set, rows, slices));
        const double other = blas_cycles(&b, p, rows);
        if (rows <= p->m_tile || other >= own)
            continue;
        b.from = rows;
        b.own_us = target_microseconds(p->target, own);
        b.blas_us = target_microseconds(p->target, other);
    }
    return b;
}

void plan_blas_explain(const struct plan_blas *b, int64_t m, struct str *out)
{
    if (!b->from || m < b->from)
        return;
    str_addf(out,
             "  library    with workspace, where there is hipBLASLt or the process has cuBLASLt: ");
    if (b->dequant)
        str_addf(out, "%s writes %" PRId64 " bytes of 16-bit weights, then ", b->weights.symbol,
                 b->weight_bytes);
    str_addf(out, "products of");
    int64_t rest = m;
    for (int64_t rows = PLAN_BLAS_ROWS; rows >= b->from; rows /= 2)
        if (rest >= rows) {
            if (rest >= 2 * rows)
                str_addf(out, " %" PRId64 " times", rest / rows);
            str_addf(out, " %" PRId64, rows);
            rest %= rows;
        }
    str_addf(out,
             " rows%s (cuBLASLt: of all at once); from %" PRId64
             " rows on it is modelled faster (%.0f us, not %.0f)\n",
             rest ? ", the rest as above" : "", b->from, b->blas_us, b->own_us);
}
