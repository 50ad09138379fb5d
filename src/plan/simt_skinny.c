/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family simt_skinny. The counts follow the template
 * (templates/family/simt_skinny.hip) and were fitted to code that hipRTC 6.4.3 made of it; model.c
 * makes a choice of them.
 */
#include "plan/simt_skinny.h"

#include <inttypes.h>

#define ITEMS_MAX   1024 /* work-items of a workgroup */
#define VALUES_MAX  32   /* sums per lane that the template's reduction can fold */
#define SIZE_MAX_NK ((int64_t)1 << 27)
#define LOAD_BYTES  16 /* of a lane */
#define LOADS_MAX   16 /* of weights that a lane waits for: more take registers, and longer code */
#define LDS_LEAST   16

/* With one row of A a layer should be as fast as its weights arrive: enough bytes of them asked for
 * by a compute unit to last this long, or half of all it reads. */
#define IN_FLIGHT_NS 600

quern_status simt_skinny_accepts(const struct quern_problem *p, const struct target *t)
{
    (void)t;
    FAIL_IF(p->wq != QUERN_W_NONE, QUERN_E_DECLINED, "wq=%s has no kernel in this version",
            weight_name(p->wq));
    FAIL_IF(p->round != QUERN_ROUND_RNE, QUERN_E_DECLINED,
            "round=trunc has no kernel for wq=%s, whose results are rounded to nearest (round=rne)",
            weight_name(p->wq));
    FAIL_IF(p->n > SIZE_MAX_NK || p->k > SIZE_MAX_NK, QUERN_E_DECLINED,
            "n=%" PRId64 " k=%" PRId64 " is beyond this version's largest, %" PRId64 " each", p->n,
            p->k, SIZE_MAX_NK);
    return QUERN_OK;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static int weight_bytes(const struct quern_problem *q)
{
    return (int)dtype_bytes(q->a);
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
    return is_matrices(p) ? p->rows_per_wave * columns_of(p) : 1;
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
    const bool widens = p->products == PRODUCTS_PACKED || p->products == PRODUCTS_PLAIN;
    /* v_dual_dot2acc_f32_f16 is of the gfx11 instruction set alone; about a half of what can be
     * dual-issued finds a partner in another register bank */
    const bool dual =
        p->target->capabilities & CAP_VOPD && p->chunk > 1 &&
        (p->products == PRODUCTS_PLAIN || (q->a == QUERN_F16 && p->target->generation == 11));
    int products = p->chunk * r * columns;
    int slots = r + columns * (p->chunk * ab > LOAD_BYTES ? 2 : 1); /* loads */

    products = p->chunk == 1                    ? products
               : p->products == PRODUCTS_PLAIN  ? products
               : p->products == PRODUCTS_MATRIX ? products * wb / 8
                                                : products / 2;
    slots += dual ? products * 3 / 4 : products;
    slots += widens && q->a != QUERN_F32 ? p->chunk * (r + columns) : 0;
    slots += 3 + (p->row_lanes > 1 ? 3 * columns : 0); /* addresses */
    slots += p->phase ? 2 : 0;
    return slots;
}

static uint32_t round_slots(const struct plan *p)
{
    return (uint32_t)(p->ring * slot_slots(p) + 3);
}

/* Instructions of a wave before and after its slots: addresses, reduction, store. */
static uint32_t setup_slots(const struct plan *p)
{
    const int r = p->rows_per_wave, columns = columns_of(p), results = results_of(p);
    int slots = 40 + 6 * r + 10 * columns;

    slots += is_matrices(p) ? 36 * results : (p->wave_size == 64 ? 4 : 2) * r * columns + 20;
    slots += p->split_k > 1 ? 12 + (2 + p->split_k) * results : 0;
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
                      (p->row_lanes > 1 ? 4 * columns : 0) + 16);
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
    struct model_counts counts = {.vgprs = vgprs(p),
                                  .step_slots = round_slots(p),
                                  .setup_slots = setup_slots(p),
                                  .trips = model_ceil_div(trips_of(p), p->ring),
                                  .row_slots =
                                      trips_of(p) * p->split_k * slot_slots(p) +
                                      3 * p->split_k * model_ceil_div(trips_of(p), p->ring),
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

/* Tries all numbers of waves for a plan whose other fields are set. */
static void try_waves(struct plan *p, struct model_ranking *ranking)
{
    static const int splits[] = {1, 2, 4, 8, 16};

    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++)
        for (int groups = 1; groups * splits[s] * (int)p->wave_size <= ITEMS_MAX; groups++) {
            p->split_k = splits[s];
            p->waves = groups * splits[s];
            if (p->split_k <= slots_of(p) && p->ring <= trips_of(p) && (whole(p) || !camps(p)) &&
                estimate(p))
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
            if (p->rows_per_wave * columns_of(p) <= VALUES_MAX &&
                p->rows_per_wave * p->ring <= LOADS_MAX &&
                (p->rows_per_wave == 1 || p->rows_per_wave * p->row_lanes <= p->problem.n))
                try_waves(p, ranking);
        }
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    const struct quern_problem *const q = &base->problem;
    const unsigned has = base->target->capabilities;
    struct plan p = *base;

    p.wave_size = p.target->wave_size;
    p.chunk = vector_of(q);
    p.row_lanes = 1;
    p.products = p.chunk == 1 ? PRODUCTS_PLAIN : model_products(q, p.target);
    try_shapes(&p, ranking);
    if (p.chunk > 1 &&
        ((q->a == QUERN_F16 && has & CAP_MFMA) || (q->a == QUERN_BF16 && has & CAP_MFMA_BF16_1K))) {
        p.products = PRODUCTS_MATRIX;
        try_shapes(&p, ranking);
        p.row_lanes = 4;
        try_shapes(&p, ranking);
    }
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
