/* SPDX-License-Identifier: MIT */
/* What `quern explain` says of a plan. */
#include "plan/dequant.h"
#include "plan/family.h"
#include "plan/matrix.h"
#include "target/rates.h"

#include <inttypes.h>
#include <string.h>

static double microseconds(const struct plan *p, int64_t cycles)
{
    return target_microseconds(p->target, (double)cycles);
}

/* What makes a word's plural. */
static const char *more_than_one(int64_t count)
{
    return count == 1 ? "" : "s";
}

static const char *products_text(const struct plan *p)
{
    switch (p->products) {
    case PRODUCTS_DOT2:
        return plan_dual_dot2(p) ? "two at a time, by 16-bit dot products that are issued in pairs"
                                 : "two at a time, by 16-bit dot products";
    case PRODUCTS_PACKED:
        return "two at a time, packed f32";
    case PRODUCTS_PLAIN:
        return "one at a time, f32";
    case PRODUCTS_MATRIX:
        if (p->row_lanes == 8 && p->family == FAMILY_SIMT_SKINNY)
            return "of eight rows of W with eight of A, by 16x16x32 matrix instructions";
        if (plan_squares(p))
            return "of four rows of W with four of A, by 4x4x4 matrix instructions";
        return "four at a time, on the diagonals of 4x4x4 matrix instructions";
    case PRODUCTS_WMMA11:
    case PRODUCTS_WMMA12:
        return "tiles of 16 by 16 rows, 16 along K, by matrix instructions";
    case PRODUCTS_MFMA16:
        return "tiles of 16 by 16 rows, 16 along K, by matrix instructions";
    case PRODUCTS_MFMA32:
        return "tiles of 16 by 16 rows, 32 along K, by matrix instructions";
    case PRODUCTS_MFMA_TALL8:
        return "tiles of 32 by 32 rows, 8 along K, by matrix instructions";
    case PRODUCTS_MFMA_TALL16:
        return "tiles of 32 by 32 rows, 16 along K, by matrix instructions";
    case PRODUCTS_DOT4:
        return "four at a time, by dot products of 8-bit floats";
    }
    return "";
}

/* How the processor meets fp8, and what it is when it is multiplied. */
static void fp8_explain(const struct plan *p, struct str *out)
{
    const char *const made = plan_of_f32(p) ? "f32" : p->problem.a == QUERN_BF16 ? "bf16" : "f16";

    str_addf(out, "  fp8        %s",
             p->fp8 == FP8_NATIVE   ? "known to the processor"
             : p->fp8 == FP8_HALVED ? "OCP's; turned into FNUZ, which the processor knows"
                                    : "not known to the processor; made f16 by shifts");
    if (!plan_of_bytes(p) && (p->fp8 != FP8_SOFTWARE || strcmp(made, "f16")))
        str_addf(out, ", %s %s", p->fp8 == FP8_SOFTWARE ? "then" : "and made", made);
    str_add(out, "\n");
}

/* What makes the kernel's LDS. */
static const char *lds_text(const struct plan *p)
{
    const bool table = p->family == FAMILY_SIMT_W4 || p->family == FAMILY_MMA_W4;

    return table && matrix_staged(p)      ? "table of all pairs of codes, weights on their way"
           : table                        ? "table of all pairs of codes"
           : p->family == FAMILY_MMA_TILE ? "two steps of A and W"
           : p->shared_sums               ? "sums of A"
           : p->stage                     ? "a part of A"
           : matrix_staged(p)             ? "weights on their way"
           : p->bias == BIAS_SHARED       ? "sums of A, sums of waves"
                                          : "sums of waves";
}

/* Whether it has any: a plan of one wave for each row counts a few bytes that it does not use. */
static bool has_lds(const struct plan *p)
{
    return p->family != FAMILY_SIMT_SKINNY || p->stage || p->split_k > 1;
}

static bool is_mma(const struct plan *p)
{
    return p->family == FAMILY_MMA_W4 || p->family == FAMILY_MMA_INT4;
}

/* Of a row of packed weights. */
static int64_t row_bytes(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;

    return problem_has_group(q) ? q->k / 2 : q->k * dtype_bytes(problem_weight_type(q));
}

static void shape_explain(const struct plan *p, struct str *out)
{
    if (p->family == FAMILY_MMA_TILE) {
        const int n_waves = p->waves / p->split_k;
        str_addf(out,
                 "  shape      tiles of %d rows of A and %d of W, %d along K; %d by %d waves of %u "
                 "lanes with %d by %d each%s\n",
                 p->m_tile, n_waves * p->rows_per_wave, p->chunk, p->split_k, n_waves, p->wave_size,
                 p->m_tile / p->split_k, p->rows_per_wave,
                 p->ahead ? "; operands are loaded ahead of barriers" : "");
        return;
    }
    const int rows = p->rows_per_wave * (p->row_lanes ? p->row_lanes : 1);
    const int weights = p->chunk * (is_mma(p) ? p->ring : 1);
    str_addf(out,
             "  shape      %d wave%s of %u lanes; a wave has %d row%s of W and %d weight%s of each "
             "per lane and step; %d %s a row\n",
             p->waves, more_than_one(p->waves), p->wave_size, rows, more_than_one(rows), weights,
             more_than_one(weights), p->split_k, p->split_k > 1 ? "waves share" : "wave has");
}

static void decode_explain(const struct plan *p, struct str *out)
{
    const struct plan_estimate *const e = &p->estimate;
    const struct target *const t = p->target;
    const struct decode_family *const family = decode_family_by(p->family);
    const double kernel = microseconds(p, e->kernel_cycles);
    const double memory = microseconds(p, e->memory_cycles);
    const double slots =
        (double)e->slots * p->wave_size / ((double)p->problem.n * (double)p->problem.k);

    str_addf(out, "%s: M = %d", p->symbol, p->m_lo);
    if (p->family == FAMILY_MMA_TILE)
        str_add(out, " and more");
    else if (p->m_hi != p->m_lo)
        str_addf(out, " to %d", p->m_hi);
    str_addf(out, ", family %s on %s (%s)\n", family->name, t->name, t->part);
    shape_explain(p, out);
    if (p->tail)
        str_addf(out, "  tail       the last step of a row has %d weights per lane\n", p->tail);
    str_addf(out, "  products   %s\n", products_text(p));
    const int64_t rows = plan_rows_per_workgroup(p);
    str_addf(out,
             "  grid       %" PRId64 " workgroup%s of %" PRId64
             " row%s fill%s %u compute units to %u %%\n",
             e->workgroups, more_than_one(e->workgroups), rows, more_than_one(rows),
             e->workgroups == 1 ? "s" : "", t->cus, e->busy_percent);
    str_add(out, "  resources  ");
    if (has_lds(p))
        str_addf(out, "%" PRIu32 " bytes of LDS (%s)", p->lds_bytes, lds_text(p));
    else
        str_add(out, "no LDS");
    str_addf(out,
             ", about %u VGPRs, %u waves per SIMD fit; %" PRId64
             " bytes of weights in flight in a compute unit\n",
             e->vgprs, e->waves_per_simd, e->bytes_in_flight);
    if (p->fp8)
        fp8_explain(p, out);
    if (p->ring)
        str_addf(out, "  ring       a lane has asked for %d chunk%s of each row at any time\n",
                 p->ring, p->ring == 1 ? "" : "s");
    if (p->stage)
        str_addf(out, "  A          in LDS, %d chunks of each row and wave at a time\n", p->stage);
    if (p->resident)
        str_addf(out,
                 "  walk       %d workgroup%s for each compute unit of the device at hand; on this "
                 "part each walks over up to %" PRId64 " groups of rows\n",
                 p->resident, more_than_one(p->resident), e->walk);
    if (p->pairing)
        str_addf(out, "  pairs      %s\n",
                 p->problem.layout != QUERN_LAYOUT_K8 ? "lie in the words as A has them"
                 : p->pairing == PAIRING_OF_A         ? "of A are brought into the words' order"
                                                      : "of W are brought into A's order");
    if (p->family == FAMILY_MMA_INT4)
        str_addf(out, "  predequant %s\n",
                 p->staging == STAGING_WEIGHTS ? "on: weights go through LDS in the type of A"
                 : p->staging == STAGING_CODES && p->force.predequant == SWITCH_ON
                     ? "on: codes go through LDS in the type of A, unscaled, as nothing may be cut"
                 : p->staging == STAGING_CODES  ? "off: codes go through LDS, unscaled"
                 : p->staging == STAGING_SCALED ? "off: weights are decoded and scaled in registers"
                                                : "off: codes are decoded in registers");
    str_addf(
        out,
        "  model      %.2f issue slots per weight; %.1f us in the fullest compute unit, %.1f us "
        "of memory at %.0f GB/s: bound by %s\n",
        slots, kernel, memory, t->bandwidth_gbs, kernel > memory ? "issue and latency" : "memory");
    if (p->phase)
        str_addf(out,
                 "  camping    rows of W are %" PRId64 " bytes apart, a multiple of 512: %s start "
                 "at different steps along K\n",
                 row_bytes(p), p->phase == PHASE_OF_WAVES ? "waves" : "workgroups");
    if (p->skewed)
        str_addf(out,
                 "  camping    %" PRId64 " workgroups are a multiple of 256: the grid has an empty "
                 "one more\n",
                 e->workgroups);
    str_addf(out, "  weights    read %s\n",
             p->weights_once ? "once, non-temporally"
                             : "through the caches: slices of A share them");
    if (p->choice)
        str_addf(out, "  tuning     %s\n",
                 p->choice == CHOICE_MEASURED
                     ? "this shape was measured to be the fastest, says the tuning table"
                     : "the tuning table's shape is no candidate of this version: the model chose");
    model_explain_rejected(family->model, p, out);
}

void plan_explain(const struct plan *p, struct str *out)
{
    if (p->family == FAMILY_DEQUANT)
        dequant_explain(p, out);
    else
        decode_explain(p, out);
}
