/* SPDX-License-Identifier: MIT */
/* What `quern explain` says of the kernels of every family that multiplies. */
#include "plan/explain.h"

#include "plan/base.h"
#include "plan/family.h"
#include "plan/field.h"
#include "target/rates.h"

#include <inttypes.h>
#include <stdio.h>

/* The ending of a noun behind a count. */
static const char *more_than_one(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* One word of the shape and what it means. */
static void explain_field(void *user, const struct plan *p, const struct plan_field *f)
{
    struct str *const out = user;
    char word[64];

    if (!f->word)
        return;
    snprintf(word, sizeof word, "%s=%" PRId64, f->word, field_value(f, p));
    str_addf(out, "             %-14s %s\n", word, f->meaning);
}

void explain_shape(const struct plan *p, struct str *out)
{
    char words[PLAN_SHAPE_MAX];

    plan_shape(p, words);
    str_addf(out, "  shape      %s\n", words);
    field_each(p, explain_field, out);
}

/* The end of the first line, and the shape. */
static void explain_family(const struct plan *p, struct str *out)
{
    str_addf(out, ", family %s on %s (%s)\n", p->family->name, p->target->name, p->target->part);
    explain_shape(p, out);
}

void explain_begin_any(const struct plan *p, struct str *out)
{
    str_addf(out, "%s: any M", p->symbol);
    explain_family(p, out);
}

void explain_begin(const struct plan *p, struct str *out)
{
    str_addf(out, "%s: M = %d", p->symbol, p->m_lo);
    if (plan_units(p) == PLAN_UNITS_TILES && !p->block_rows)
        str_add(out, " and more");
    else if (p->m_hi != p->m_lo)
        str_addf(out, " to %d", p->m_hi);
    explain_family(p, out);
    if (p->block_rows)
        str_addf(out,
                 "  blocks     of %d rows of one expert, in slices of %d; what follows is of %d "
                 "slices side by side\n",
                 p->block_rows, p->m_tile, p->together);
    if (plan_is_base(p)) {
        const struct quern_problem q = base_nominal(&p->problem);
        str_addf(out,
                 "  layer      a base kernel: n, k, group, bias and rounding are arguments; what "
                 "follows is of n=%" PRId64 " k=%" PRId64 "\n",
                 q.n, q.k);
    }
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
        return "four at a time, on the diagonals of 4x4x4 matrix instructions";
    case PRODUCTS_WMMA11:
    case PRODUCTS_WMMA12:
    case PRODUCTS_MFMA16:
        return "tiles of 16 by 16 rows, 16 along K, by matrix instructions";
    case PRODUCTS_MFMA32:
        return "tiles of 16 by 16 rows, 32 along K, by matrix instructions";
    case PRODUCTS_MFMA_TALL8:
        return "tiles of 32 by 32 rows, 8 along K, by matrix instructions";
    case PRODUCTS_MFMA_TALL16:
        return "tiles of 32 by 32 rows, 16 along K, by matrix instructions";
    case PRODUCTS_MMA:
        return "tiles of 16 by 8 rows, 16 along K, by matrix instructions";
    case PRODUCTS_DOT4:
        return "four at a time, by dot products of 8-bit floats";
    }
    return "";
}

void explain_products(const struct plan *p, const char *text, struct str *out)
{
    str_addf(out, "  products   %s\n", text ? text : products_text(p));
}

void explain_resources(const struct plan *p, const char *lds, struct str *out)
{
    const struct plan_estimate *const e = &p->estimate;
    const int rows = p->rows_per_workgroup;

    str_addf(out,
             "  grid       %" PRId64 " workgroup%s of %d row%s fill%s %u compute units to %u %%\n",
             e->workgroups, more_than_one(e->workgroups), rows, more_than_one(rows),
             e->workgroups == 1 ? "s" : "", p->target->cus, e->busy_percent);
    str_add(out, "  resources  ");
    if (lds)
        str_addf(out, "%" PRIu32 " bytes of LDS (%s)", p->lds_bytes, lds);
    else
        str_add(out, "no LDS");
    str_addf(out,
             ", about %u VGPRs, %u waves per SIMD fit; %" PRId64
             " bytes of weights in flight in a compute unit\n",
             e->vgprs, e->waves_per_simd, e->bytes_in_flight);
}

void explain_pairing(const struct plan *p, enum plan_pairing pairing, struct str *out)
{
    str_addf(out, "  pairs      %s\n",
             p->problem.layout != QUERN_LAYOUT_K8 ? "lie in the words as A has them"
             : pairing == PAIRING_OF_A            ? "of A are brought into the words' order"
                                                  : "of W are brought into A's order");
}

/* Bytes of a row of W as it is stored. */
static int64_t row_bytes(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;

    return problem_has_group(q) ? q->k / 2 : q->k * dtype_bytes(problem_weight_type(q));
}

static void explain_camping(const struct plan *p, struct str *out)
{
    if (p->phase)
        str_addf(out,
                 "  camping    rows of W are %" PRId64 " bytes apart, a multiple of 512: %s start "
                 "at different steps along K\n",
                 row_bytes(p), p->phase == PHASE_OF_WAVES ? "waves" : "workgroups");
    if (p->skewed)
        str_addf(out,
                 "  camping    %" PRId64 " workgroups are a multiple of 256: the grid has an empty "
                 "one more\n",
                 p->estimate.workgroups);
}

void explain_end(const struct plan *p, struct str *out)
{
    const struct plan_estimate *const e = &p->estimate;
    const struct target *const t = p->target;
    const double kernel = target_microseconds(t, (double)e->kernel_cycles);
    const double memory = target_microseconds(t, (double)e->memory_cycles);
    const double slots =
        (double)e->slots * p->wave_size / ((double)p->problem.n * (double)p->problem.k);
    const unsigned sustained = target_sustained_percent(t);
    enum plan_bound bound;

    plan_busy_cycles(p, e->kernel_cycles, e->memory_cycles, e->vmem_cycles, &bound);
    str_addf(
        out,
        "  model      %.2f issue slots per weight; %.1f us in the fullest compute unit, %.1f us "
        "of memory at %.0f GB/s, %.1f at the %u %% of it that streams get",
        slots, kernel, memory, t->bandwidth_gbs, memory * 100 / sustained, sustained);
    if (e->vmem_cycles)
        str_addf(out, ", %.1f us of its path to the cache",
                 target_microseconds(t, (double)e->vmem_cycles));
    str_addf(out, ": bound by %s\n", plan_bound_name(bound));
    explain_camping(p, out);
    str_addf(out, "  weights    read %s\n",
             p->weights_once ? "once, non-temporally"
                             : "through the caches: slices of A share them");
    if (p->choice)
        str_addf(out, "  tuning     %s\n",
                 p->choice == CHOICE_MEASURED
                     ? "this shape was measured to be the fastest, says the tuning table"
                 : p->choice == CHOICE_STALE
                     ? "the tuning table's shape is no candidate of this version: the model chose"
                     : "the scan refused the code of a better shape");
    model_explain_rejected(p, out);
}

void explain_plain(const struct plan *p, const char *lds, struct str *out)
{
    explain_begin(p, out);
    explain_products(p, NULL, out);
    explain_resources(p, lds, out);
    explain_end(p, out);
}

void explain_end_align(const struct plan *p, struct str *out)
{
    const int64_t most = problem_rows_max(&p->problem);
    const double one = target_microseconds(p->target, (double)p->family->rows_cycles(p, 1));
    const double all = target_microseconds(p->target, (double)p->family->rows_cycles(p, most));

    str_addf(
        out,
        "  model      %.1f us for one token, %.1f us for the most that a launch takes, %" PRId64
        ": bound by issue and latency\n",
        one, all, most);
}
