/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family mma_w4. The counts follow the template
 * (templates/family/mma_w4.hip) and were fitted to code that hipRTC 6.4.3 made of it; model.c makes
 * a choice of them.
 */
#include "plan/mma_w4.h"

#include "plan/matrix.h"
#include "target/rates.h"

#define TABLE_BYTES 32768 /* 256 pairs of codes, 128 bytes of copies each */
#define TABLE_SLOTS 5120  /* instructions that build it times lanes, all waves together */
#define TILE        MATRIX_TILE
#define CHUNK_MAX   32  /* weights in one load of a lane */
#define UNITS_MAX   8   /* loads of a step, for each tile */
#define VGPRS_MAX   240 /* estimated, so that nothing is spilled */
#define WAVES_MAX   16  /* of a workgroup: each needs 1 KiB for sums where the table was */
#define BODY_MAX    520 /* instructions in a step, for the sake of compile time */

/* Bytes that all workgroups ask for of A, times as many as of weights, above which a shape is
 * only taken when none other fills the part. */
#define A_SHARE_MAX 2

bool mma_w4_accepts(const struct quern_problem *p, const struct target *t)
{
    return p->op == QUERN_OP_GEMM && problem_has_group(p) && p->wq != QUERN_W_INT4 &&
           p->a != QUERN_F32 && matrix_products(t);
}

/* ---- Estimate -------------------------------------------------------------------------------- */

static int unit_of(const struct plan *p)
{
    return p->chunk * matrix_form(p->products).k_lanes;
}

static int64_t steps_of(const struct plan *p)
{
    return p->problem.k / (unit_of(p) * p->ring);
}

static int64_t trips_of(const struct plan *p)
{
    return model_ceil_div(steps_of(p), p->split_k);
}

/* Blocks of a row that a step meets. */
static int spans_of(const struct plan *p)
{
    const int64_t step = unit_of(p) * p->ring, block = problem_group(&p->problem);

    return block < step ? (int)(step / block) : 1;
}

/* Matrix instructions of a step. */
static int products_of_step(const struct plan *p)
{
    return p->ring * p->chunk / matrix_form(p->products).k_of_lane * (p->rows_per_wave / TILE) *
           (p->m_tile / TILE);
}

/* Instructions that make a scale of what was loaded, beyond those of a plain absmax. */
static int scale_slots(const struct plan *p)
{
    return p->problem.scale == QUERN_SCALE_E8M0     ? 3
           : p->problem.scale == QUERN_SCALE_NESTED ? 6
                                                    : 0;
}

/* Instructions of a step, but for those of the loop. */
static int body_slots(const struct plan *p)
{
    const int n = p->rows_per_wave / TILE, m = p->m_tile / TILE, spans = spans_of(p);
    const int weights = p->ring * p->chunk; /* of a lane in each tile */
    const int values = matrix_form(p->products).values;
    /* packed f32 on gfx9; the dual issue of RDNA finds partners for half of few */
    const int scaling = values == 4 ? 2 : m == 1 ? 5 : 7;
    int slots = weights * n; /* an address and an LDS load for each pair */

    slots += products_of_step(p) + weights / 8 * m; /* and loads of A */
    slots += n * (p->ring + spans);                 /* loads of weights and scales */
    slots += spans * m * n * scaling;
    return slots + spans * n * scale_slots(p);
}

static uint32_t step_slots(const struct plan *p)
{
    const int n = p->rows_per_wave / TILE, m = p->m_tile / TILE;
    const int loop = trips_of(p) > 1 ? 14 + 3 * m + 3 * n : 4 + 3 * m;

    return (uint32_t)(body_slots(p) + loop + (p->phase ? 3 : 0));
}

/* Instructions of a wave before and after its steps: addresses, sums of waves, store. */
static uint32_t setup_slots(const struct plan *p)
{
    const int n = p->rows_per_wave / TILE, m = p->m_tile / TILE;
    const int values = matrix_form(p->products).values;
    const int results = (int)model_ceil_div(TILE * TILE, p->split_k * (int)p->wave_size);

    const int tile = values + 4 + results * (16 + 3 * p->split_k / 2);

    return (uint32_t)(60 + 12 * n + 8 * m + m * n * tile);
}

static uint32_t vgprs(const struct plan *p)
{
    const int n = p->rows_per_wave / TILE, m = p->m_tile / TILE;
    const struct matrix_form f = matrix_form(p->products);
    const int batch = f.k_of_lane > 8 ? f.k_of_lane / 2 : 4;
    const int ring = m > 1 || batch > 4 ? 2 : 4; /* batches of A, as in the template */
    const bool nested = p->problem.scale == QUERN_SCALE_NESTED;
    /* what the compiler holds besides, the more the longer the step */
    const int more = m > 1 && f.values == 8 ? 2 * m * (p->ring - 1) : 0;

    return (uint32_t)(p->ring * n * p->chunk / 8 + ring * m * batch + 2 * n * batch +
                      2 * m * n * f.values + (nested ? 4 : 2) * spans_of(p) * n +
                      (nested ? 9 : 3) * n + 2 * m + more + 16);
}

/* Whether rows of W enough share what is asked for of A. */
static bool shares(const struct plan *p)
{
    const int64_t a = (int64_t)p->m_tile * dtype_bytes(p->problem.a) * p->problem.k;

    return a <= A_SHARE_MAX * plan_rows_per_workgroup(p) * p->problem.k / 2;
}

/* What does not depend on how many waves a workgroup has; `cycles` of a matrix instruction. */
static void count(struct plan *p, int cycles, struct model_counts *counts)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t scale_bytes = q->scale == QUERN_SCALE_F32 ? 4 : 1;
    const int64_t steps = steps_of(p), trips = trips_of(p);

    p->phase = model_phase(p, q->k / 2, trips) ? PHASE_OF_GROUPS : PHASE_NONE;
    const uint32_t step = step_slots(p);
    *counts = (struct model_counts){
        .vgprs = vgprs(p),
        .step_slots = step,
        .step_matrix = (uint32_t)(products_of_step(p) * cycles),
        .setup_slots = setup_slots(p),
        .shared_slots = TABLE_SLOTS / p->wave_size,
        .trips = trips,
        .row_steps = steps,
        .row_slots = steps * step,
        .row_grain = TILE,
        .flight_bytes = (int64_t)p->rows_per_wave * unit_of(p) * p->ring / 2,
        .memory_cycles = model_memory_cycles(
            p, q->n * q->k / 2 + q->n * (q->k / problem_group(q)) * scale_bytes)};
}

static bool estimate(struct plan *p, const struct model_counts *counts)
{
    if (!model_estimate(p, counts))
        return false;
    p->waves_asked = (int)p->estimate.waves_per_simd;
    p->estimate.streams = shares(p);
    return true;
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* Whether steps of so many units divide K, and blocks lie in steps or steps in blocks. */
static bool fits(const struct plan *p)
{
    const int64_t step = unit_of(p) * p->ring, block = problem_group(&p->problem);

    return p->problem.k % step == 0 && (step % block == 0 || block % step == 0) &&
           vgprs(p) <= VGPRS_MAX && (p->ring == 1 || body_slots(p) <= BODY_MAX);
}

static void try_waves(struct plan *p, int cycles, struct model_ranking *ranking)
{
    const int64_t steps = steps_of(p);
    struct model_counts counts;

    for (int split = 1; split <= WAVES_MAX && split <= steps; split *= 2) {
        p->split_k = split;
        count(p, cycles, &counts);
        for (int groups = 1; groups * split <= WAVES_MAX; groups++) {
            p->waves = groups * split;
            if (!model_hopeless(p, TILE, ranking) && estimate(p, &counts))
                model_put(ranking, p);
        }
    }
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;

    p.products = matrix_products(p.target);
    p.wave_size = p.target->wave_size;
    p.lds_bytes = TABLE_BYTES;
    const int64_t k_lanes = matrix_form(p.products).k_lanes;
    p.chunk = model_at_most(CHUNK_MAX, (int)(problem_group(&p.problem) / k_lanes));
    const int cycles = (int)target_matrix_cycles(p.target, matrix_form(p.products).text);
    for (int tiles = 4; tiles; tiles /= 2)
        for (p.ring = UNITS_MAX; p.ring; p.ring--) {
            p.rows_per_wave = tiles * TILE;
            if (fits(&p))
                try_waves(&p, cycles, ranking);
        }
}

static bool alike(const struct plan *p, const struct plan *q)
{
    return p->rows_per_wave == q->rows_per_wave && p->ring == q->ring && p->split_k == q->split_k;
}

static void shape(const struct plan *p, struct str *out)
{
    str_addf(out, "%d waves, %d rows, %d weights, split %d", p->waves, p->rows_per_wave,
             p->chunk * p->ring, p->split_k);
}

const struct model_family mma_w4 = {candidates, alike, shape};
