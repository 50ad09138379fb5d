/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family simt_skinny. The counts follow the template
 * (templates/family/simt_skinny.hip) and were fitted to code that hipRTC 6.4.3 made of it; model.c
 * makes a choice of them.
 */
#include "plan/simt_skinny.h"

#include "target/rates.h"

#include <inttypes.h>

#define ITEMS_MAX   1024 /* work-items of a workgroup */
#define VALUES_MAX  32   /* sums per lane that the template's reduction can fold */
#define SIZE_MAX_NK ((int64_t)1 << 27)
#define LOAD_BYTES  16 /* of a lane */
#define LOADS_MAX   16 /* of weights that a lane waits for: more take registers, and longer code */
#define LDS_LEAST   16

#define BUSY_PERCENT 85 /* as in model.c */

/* With one row of A a layer should be as fast as its weights arrive: enough bytes of them asked for
 * by a compute unit to last this long, or half of all it reads. */
#define IN_FLIGHT_NS 600

/* Instructions for each fp8 weight in software and one row of A: conversion and product, loads. */
#define SOFTWARE_HALF   3.8
#define SOFTWARE_SINGLE 5.3 /* where products are of f32 */

/* How the target meets the problem's fp8, if it has any. */
static enum plan_fp8 fp8_of(const struct quern_problem *p, const struct target *t)
{
    const bool own_fnuz = t->capabilities & CAP_FP8_FNUZ;

    if (p->wq == QUERN_W_NONE)
        return 0;
    if (!(t->capabilities & CAP_FP8_CVT))
        return FP8_SOFTWARE;
    return own_fnuz == (p->wq == QUERN_W_FP8FNUZ) ? FP8_NATIVE
           : own_fnuz                             ? FP8_HALVED
                                                  : FP8_SOFTWARE;
}

quern_status simt_skinny_accepts(const struct quern_problem *p, const struct target *t)
{
    const double room = target_lanes_per_cycle(t) * t->cus * t->clock_ghz / t->bandwidth_gbs;
    const double takes = p->a == QUERN_BF16 ? SOFTWARE_SINGLE : SOFTWARE_HALF;

    FAIL_IF(p->round != QUERN_ROUND_RNE, QUERN_E_DECLINED,
            "round=trunc has no kernel for wq=%s, whose results are rounded to nearest (round=rne)",
            weight_name(p->wq));
    FAIL_IF(p->n > SIZE_MAX_NK || p->k > SIZE_MAX_NK, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " is beyond this version's largest, %" PRId64 " each", p->n,
            p->k, SIZE_MAX_NK);
    FAIL_IF(fp8_of(p, t) == FP8_SOFTWARE && takes > room, QUERN_E_DECLINED,
            "%s has no instruction for wq=%s; software takes %.1f for a weight, and the %s has "
            "time for %.1f while one arrives: use wq=none",
            t->name, weight_name(p->wq), takes, t->part, room);
    return QUERN_OK;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static int weight_bytes(const struct quern_problem *q)
{
    return (int)dtype_bytes(problem_weight_type(q));
}

/* Instructions that make `count` fp8 values ready to be multiplied. */
static int fp8_slots(const struct plan *p, int count)
{
    const bool f32 = p->products == PRODUCTS_PACKED || p->products == PRODUCTS_PLAIN;
    const int conversions = f32 ? count / 2 : 0;

    if (p->chunk == 1)
        return 4 * count;
    return p->fp8 == FP8_NATIVE   ? conversions
           : p->fp8 == FP8_HALVED ? conversions + 6 * count / 4
                                  : 2 * count + 3 * count / 4 + (f32 ? count : 0);
}

/* Weights of a slot: of a row, side by side in the lanes of a wave. */
static int64_t slot_of(const struct plan *p)
{
    return (int64_t)p->wave_size / p->row_lanes * p->chunk;
}

static int64_t slots_of(const struct plan *p)
{
    return model_ceil_div(p->problem.k, slot_of(p));
}

static int64_t trips_of(const struct plan *p)
{
    return model_ceil_div(slots_of(p), p->split_k);
}

/* Whether all of a matrix instruction's result is used, not its diagonal alone. */
static bool is_matrices(const struct plan *p)
{
    return p->products == PRODUCTS_MATRIX && p->row_lanes > 1;
}

/* Rows of A that a lane loads. */
static int columns_of(const struct plan *p)
{
    return is_matrices(p) ? (int)model_ceil_div(p->m_tile, p->row_lanes) : p->m_tile;
}

/* Sums that a lane is left with after the reduction. */
static int results_of(const struct plan *p)
{
    return !is_matrices(p) ? 1 : p->rows_per_wave * columns_of(p) * (p->row_lanes == 4 ? 1 : 4);
}

/* Registers that a slot of one row of W, or of A, is loaded to. */
static int registers_of(const struct plan *p, int bytes)
{
    return p->chunk == 1 ? 1 : p->chunk * bytes / 4;
}

/* Of a slot: products of all rows of W with all of A, what widens their operands, and the loads. */
static int slot_slots(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int r = p->rows_per_wave, columns = columns_of(p), wb = weight_bytes(q);
    const int ab = (int)dtype_bytes(q->a);
    const bool f32 = p->products == PRODUCTS_PACKED || p->products == PRODUCTS_PLAIN;
    const int narrow = f32 ? p->chunk : 0; /* what widens 16 bits, unless the product does */
    /* v_dual_dot2acc_f32_f16 is of the gfx11 instruction set alone; about a half of what can be
     * dual-issued finds a partner in another register bank */
    const bool dual =
        p->target->capabilities & CAP_VOPD && p->chunk > 1 &&
        (p->products == PRODUCTS_PLAIN || (q->a == QUERN_F16 && p->target->generation == 11));
    int products = p->chunk * r * columns;
    int slots = r + columns * (p->chunk * ab > LOAD_BYTES ? 2 : 1); /* loads */

    products = p->chunk == 1 || p->products == PRODUCTS_PLAIN ? products
               : p->products == PRODUCTS_MATRIX               ? products * wb / 8
               : p->products == PRODUCTS_DOT4                 ? products / 4
                                                              : products / 2;
    slots += dual ? products * 3 / 4 : products;
    slots += wb == 1 ? r * fp8_slots(p, p->chunk) : wb == 2 ? r * narrow : 0;
    slots += ab == 1 ? columns * fp8_slots(p, p->chunk) : ab == 2 ? columns * narrow : 0;
    return slots;
}

/* Beside its slots, a round of the ring has its addresses and the loop. */
static int round_slots(const struct plan *p)
{
    const bool two_types = weight_bytes(&p->problem) != (int)dtype_bytes(p->problem.a);

    return 5 + two_types + (p->row_lanes > 1 ? 4 * columns_of(p) : 0) + (p->phase ? 3 : 0);
}

/* Instructions of a wave before and after its slots: addresses, reduction, store. */
static uint32_t setup_slots(const struct plan *p)
{
    const int r = p->rows_per_wave, columns = columns_of(p), results = results_of(p);
    int slots = 40 + 6 * r + 10 * columns;

    slots += is_matrices(p) ? (p->row_lanes == 4 ? 24 : 8) * results
                            : (p->wave_size == 64 ? 4 : 2) * r * columns + 20;
    slots += p->split_k > 1 ? 12 + 3 * results : 0;
    slots += p->problem.k % slot_of(p) ? (r + columns) * registers_of(p, 2) : 0;
    return (uint32_t)slots;
}

static uint32_t vgprs(const struct plan *p)
{
    const int r = p->rows_per_wave, columns = columns_of(p);
    const int sum = p->products == PRODUCTS_MATRIX ? 4 : p->products == PRODUCTS_PACKED ? 2 : 1;
    const int loads = r * registers_of(p, weight_bytes(&p->problem)) +
                      columns * registers_of(p, (int)dtype_bytes(p->problem.a));
    const bool widens = p->products == PRODUCTS_PACKED || p->products == PRODUCTS_PLAIN;

    return (uint32_t)(p->ring * loads + sum * r * columns + (widens ? 2 * (r + columns) : 0) +
                      (p->fp8 ? 3 * (r + columns) : 0) + (p->row_lanes > 1 ? 4 * columns : 0) + 16);
}

/* Bytes of weights that a compute unit should have asked for at any time. */
static double flight_asked(const struct plan *p)
{
    const struct target *const t = p->target;
    const double half =
        (double)p->problem.n * (double)p->problem.k * weight_bytes(&p->problem) / 2 / t->cus;
    const double asked = t->bandwidth_gbs * IN_FLIGHT_NS / t->cus;

    return asked < half ? asked : half;
}

/* Whether all slots of all waves lie within K, and all rounds of the ring are whole. */
static bool whole(const struct plan *p)
{
    return p->problem.k % slot_of(p) == 0 && slots_of(p) % p->split_k == 0 &&
           trips_of(p) % p->ring == 0;
}

static bool estimate(struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t row_bytes = q->k * weight_bytes(q);
    const uint32_t partial = (uint32_t)(p->waves * results_of(p)) * p->wave_size * 4;

    p->lds_bytes = p->split_k > 1 ? partial : LDS_LEAST;
    p->phase = whole(p) ? model_phase(p, row_bytes, trips_of(p) / p->ring) : PHASE_NONE;
    const int64_t rounds = model_ceil_div(trips_of(p), p->ring);
    const int64_t wave_slots = trips_of(p) * slot_slots(p) + rounds * round_slots(p);
    struct model_counts counts = {.vgprs = vgprs(p),
                                  .step_slots =
                                      (uint32_t)(p->ring * slot_slots(p) + round_slots(p)),
                                  .setup_slots = setup_slots(p),
                                  .trips = rounds,
                                  .row_slots = p->split_k * wave_slots,
                                  .weight_bytes = q->n * row_bytes,
                                  .flight_bytes = (int64_t)p->rows_per_wave * p->wave_size *
                                                  p->chunk * weight_bytes(q) * p->ring};
    if (!model_estimate(p, &counts))
        return false;
    if ((double)p->estimate.bytes_in_flight < flight_asked(p)) {
        p->estimate.streams = p->m_tile > 1; /* asked of M = 1 alone */
        return true;
    }
    /* the wave waits for no latency but the first; what then remains is memory's own time */
    counts.step_slots *= (uint32_t)counts.trips;
    counts.trips = 1;
    return model_estimate(p, &counts);
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* Weights of a load: as many as 16 bytes have; one where rows do not start at multiples of 4. */
static int vector_of(const struct quern_problem *q)
{
    const int vector = LOAD_BYTES / weight_bytes(q);

    return plan_row_align(q) < 4 || q->k * weight_bytes(q) % 4 || q->k < vector ? 1 : vector;
}

/* Whether rows fall on the same few memory channels, which was reported for RDNA, and readers can
 * start apart along K if all of their slots are whole. */
static bool camps(const struct plan *p)
{
    return p->target->generation > 9 && p->problem.k % slot_of(p) == 0 &&
           p->problem.k * weight_bytes(&p->problem) % 512 == 0;
}

/* Whether the grid fills the part as well as model.c asks, or as the smallest groups of rows can:
 * those of several lanes may be too large for that. */
static bool fine_enough(const struct plan *p)
{
    const int64_t groups = model_ceil_div(p->problem.n, p->row_lanes);
    const unsigned finest = target_fill(p->target, (uint64_t)groups).percent;

    return p->estimate.busy_percent >= (finest < BUSY_PERCENT ? finest : BUSY_PERCENT);
}

/* Tries all numbers of waves for a plan whose other fields are set. */
static void try_waves(struct plan *p, struct model_ranking *ranking)
{
    static const int splits[] = {1, 2, 4, 8, 16};

    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++)
        for (int groups = 1; groups * splits[s] * (int)p->wave_size <= ITEMS_MAX; groups++) {
            p->split_k = splits[s];
            p->waves = groups * splits[s];
            if (p->split_k <= slots_of(p) && p->ring <= trips_of(p) && (whole(p) || !camps(p)) &&
                estimate(p) && fine_enough(p))
                model_put(ranking, p);
        }
}

static void try_shapes(struct plan *p, struct model_ranking *ranking)
{
    static const int rows[] = {8, 4, 2, 1}, rings[] = {4, 2, 1};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
            p->rows_per_wave = rows[r];
            p->ring = rings[i];
            const int loads = p->rows_per_wave * p->ring, sums = p->rows_per_wave * columns_of(p);
            if (sums > VALUES_MAX || loads > LOADS_MAX || p->ring * columns_of(p) > LOADS_MAX ||
                (p->rows_per_wave > 1 && p->rows_per_wave * p->row_lanes > p->problem.n))
                continue;
            /* software conversions make longer code */
            if (p->fp8 == FP8_SOFTWARE && (loads > LOADS_MAX / 2 || sums * p->ring > VALUES_MAX))
                continue;
            try_waves(p, ranking);
        }
}

/* How the vector units multiply. */
static enum plan_products vector_products(const struct plan *p)
{
    const unsigned has = p->target->capabilities;
    const bool both = p->fp8 && dtype_bytes(p->problem.a) == 1;

    if (!p->fp8)
        return model_products(&p->problem, p->target);
    if (p->fp8 == FP8_NATIVE && both && has & CAP_DOT4_F32_FP8)
        return PRODUCTS_DOT4;
    if (p->fp8 == FP8_SOFTWARE && p->problem.a != QUERN_BF16 && has & CAP_DOT2_F32_F16)
        return PRODUCTS_DOT2;
    return has & CAP_PK_FMA_F32 ? PRODUCTS_PACKED : PRODUCTS_PLAIN;
}

/* Whether there are matrix instructions for the problem's types. */
static bool multiplies_matrices(const struct plan *p)
{
    const unsigned has = p->target->capabilities;

    if (p->chunk == 1)
        return false;
    if (p->fp8)
        return p->fp8 != FP8_SOFTWARE && dtype_bytes(p->problem.a) == 1 && has & CAP_MFMA_FP8;
    return (p->problem.a == QUERN_F16 && has & CAP_MFMA) ||
           (p->problem.a == QUERN_BF16 && has & CAP_MFMA_BF16_1K);
}

/* Whether a matrix instruction for fp8, which takes sixteen rows of W, is better in any case, also
 * when such groups of rows leave compute units idle: the alternative has much to do. */
static bool sixteen_rows_fit(const struct plan *p)
{
    return p->problem.n >= 16 && (p->fp8 == FP8_HALVED || p->m_tile > 1);
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    const struct quern_problem *const q = &base->problem;
    struct plan p = *base;

    p.wave_size = p.target->wave_size;
    p.chunk = vector_of(q);
    p.row_lanes = 1;
    p.fp8 = fp8_of(q, p.target);
    p.products = p.chunk == 1 ? PRODUCTS_PLAIN : vector_products(&p);
    const bool matrices = multiplies_matrices(&p);
    if (!matrices || !p.fp8 || !sixteen_rows_fit(&p))
        try_shapes(&p, ranking);
    if (!matrices)
        return;
    p.products = PRODUCTS_MATRIX;
    if (!p.fp8) /* the diagonal alone; of fp8 there is no small instruction */
        try_shapes(&p, ranking);
    p.row_lanes = p.fp8 ? 16 : 4;
    try_shapes(&p, ranking);
}

static bool alike(const struct plan *p, const struct plan *q)
{
    return p->rows_per_wave == q->rows_per_wave && p->products == q->products &&
           p->split_k == q->split_k && p->ring == q->ring;
}

static void shape(const struct plan *p, struct str *out)
{
    str_addf(out, "%d waves, %d rows, ring of %d, split %d%s", p->waves,
             p->rows_per_wave * p->row_lanes, p->ring, p->split_k,
             p->products == PRODUCTS_MATRIX ? ", matrix" : "");
}

const struct model_family simt_skinny = {candidates, alike, shape};
