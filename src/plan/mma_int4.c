/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family mma_int4. The counts follow the template
 * (templates/family/mma_int4.hip) and were fitted to code that hipRTC 6.4.3 made of it; model.c
 * makes a choice of them.
 */
#include "plan/mma_int4.h"

#include "plan/matrix.h"
#include "target/rates.h"

#define TILE      MATRIX_TILE
#define UNITS_MAX 8     /* loads of a step, for each tile */
#define VGPRS_MAX 240   /* estimated, so that nothing is spilled */
#define WAVES_MAX 16    /* of a workgroup */
#define SUM_BYTES 1024  /* of LDS, for sums of a wave at the least */
#define LDS_MOST  32768 /* so that two workgroups share a compute unit */
#define BODY_MAX  720   /* instructions in a step, for the sake of compile time */

/* Bytes that all workgroups ask for of A, times as many as of weights, above which a shape is
 * only taken when none other fills the part. */
#define A_SHARE_MAX 2

/* Weights of a row in the smallest load of a wave: eight for a lane, or what an instruction takes.
 */
static int least_unit(const struct matrix_form *f)
{
    return f->k_lanes * (f->k_of_lane > 8 ? f->k_of_lane : 8);
}

bool mma_int4_accepts(const struct quern_problem *p, const struct target *t)
{
    const struct matrix_form f = matrix_form(matrix_products(t));

    return p->op == QUERN_OP_GEMM && p->wq == QUERN_W_INT4 && p->a != QUERN_F32 &&
           matrix_products(t) && p->k % least_unit(&f) == 0;
}

/* ---- Estimate -------------------------------------------------------------------------------- */

static bool has_zeros(const struct plan *p)
{
    return p->problem.zero != QUERN_ZERO_NONE;
}

/* Lanes that share a row of W in a load: where they go through LDS, all that hold it. */
static int load_lanes(const struct plan *p)
{
    return p->staging ? (int)p->wave_size / TILE : matrix_form(p->products).k_lanes;
}

static int unit_of(const struct plan *p)
{
    return p->chunk * load_lanes(p);
}

static int64_t steps_of(const struct plan *p)
{
    return p->problem.k / (unit_of(p) * p->ring);
}

static int64_t trips_of(const struct plan *p)
{
    return model_ceil_div(steps_of(p), p->split_k);
}

/* Scales of a row that a lane loads in a step. */
static int spans_of(const struct plan *p)
{
    const int64_t step = unit_of(p) * p->ring, block = problem_group(&p->problem);

    if (p->staging == STAGING_WEIGHTS)
        return p->ring;
    return block < step ? (int)(step / block) : 1;
}

/* Weights of a row that a lane gives to instructions in a step. */
static int weights_of_lane(const struct plan *p)
{
    return p->ring * unit_of(p) / matrix_form(p->products).k_lanes;
}

/* Matrix instructions of a step. */
static int products_of_step(const struct plan *p)
{
    const int n = p->rows_per_wave / TILE + (p->bias == BIAS_BY_MATRIX);
    const int m = p->m_tile / TILE;

    return weights_of_lane(p) / matrix_form(p->products).k_of_lane * n * m;
}

/* Instructions of a step that make the plain sums of A in parts. */
static int part_slots(const struct plan *p)
{
    const struct matrix_form f = matrix_form(p->products);
    const int span = f.k_lanes / 2 * 3 + 1 + f.values / 4; /* of parts, a tile */

    return p->m_tile / TILE * (weights_of_lane(p) / 2 + spans_of(p) * span);
}

/* Instructions that turn a word of eight codes into four pairs for the matrix unit, or for LDS. */
static int decode_slots(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const bool bytes = q->layout == QUERN_LAYOUT_K8 && p->pairing == PAIRING_OF_W;

    if (q->a == QUERN_F16) {
        const bool packed = q->scale == QUERN_SCALE_F16 && q->zero != QUERN_ZERO_SCALED;
        return (bytes ? 8 : 5) + 4 + (p->staging != STAGING_WEIGHTS ? 0 : packed ? 4 : 8);
    }
    if (p->bias)
        return bytes ? 9 : 7;
    if (p->staging != STAGING_WEIGHTS)
        return 3 + 8 + (matrix_form(p->products).values == 4 ? 4 : 6) + 4;
    const bool one = q->round == QUERN_ROUND_TRUNC || p->target->capabilities & CAP_CVT_PK_BF16;
    return 3 + 8 + 8 + (one ? 4 : 20);
}

/* Instructions of a step, but for those of the loop. */
static int body_slots(const struct plan *p)
{
    const int n = p->rows_per_wave / TILE, m = p->m_tile / TILE, spans = spans_of(p);
    const int words = p->ring * p->chunk / 8; /* that a lane decodes of each tile */
    const int pieces = weights_of_lane(p) / 8; /* of 16 bytes, of A or of decoded weights */
    const bool paired = p->problem.layout == QUERN_LAYOUT_K8 && p->pairing == PAIRING_OF_A;
    /* packed f32 on gfx9; the dual issue of RDNA finds partners for half of few */
    const int values = matrix_form(p->products).values;
    const int scaling = (values == 4 ? 2 : m == 1 ? 6 : 7) * (p->bias ? 2 : 1);
    int slots = words * n * decode_slots(p) + products_of_step(p);

    slots += pieces * m * (paired ? 5 : 1);
    slots += n * (p->ring + spans * (1 + has_zeros(p)));
    slots += n * spans * ((p->problem.scale != QUERN_SCALE_F32) + 3 * has_zeros(p));
    if (p->staging)
        slots += n * (words + pieces);
    if (p->staging == STAGING_WEIGHTS)
        return slots + n * 2 * spans;
    if (p->bias == BIAS_BY_PARTS)
        slots += part_slots(p);
    return slots + n * spans * ((p->bias != 0) + m * scaling);
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
    const int sums = p->staging == STAGING_WEIGHTS ? 1 : 2;
    const int plain = p->bias == BIAS_BY_MATRIX  ? m * f.values + f.k_of_lane / 2
                      : p->bias == BIAS_BY_PARTS ? m + f.values + f.k_of_lane / 2
                                                 : 0;
    const int more = m > 1 && f.values == 8 ? 2 * m * (p->ring - 1) : 0;

    return (uint32_t)(p->ring * n * p->chunk / 8 + ring * m * batch + 2 * n * batch +
                      sums * m * n * f.values + plain + 2 * (1 + has_zeros(p)) * spans_of(p) * n +
                      5 * n + 2 * m + more + 20);
}

static uint32_t lds_bytes(const struct plan *p)
{
    const int rows = p->staging ? p->rows_per_wave * (unit_of(p) / 8 + 1) * 16 : 0;
    const int sums = p->bias == BIAS_BY_PARTS ? p->m_tile / TILE * (int)p->wave_size * 4 : 0;

    return (uint32_t)(p->waves * (rows + sums > SUM_BYTES ? rows + sums : SUM_BYTES));
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
    const int64_t scale_bytes = q->scale == QUERN_SCALE_F32 ? 4 : 2;
    const int64_t zero_bytes = q->zero == QUERN_ZERO_U8       ? 1
                               : q->zero == QUERN_ZERO_SCALED ? scale_bytes
                                                              : 0;
    const int64_t steps = steps_of(p), trips = trips_of(p);
    /* blocks of ck never camp */
    const int64_t stride = q->layout == QUERN_LAYOUT_CK ? 1 : q->k / 2;

    p->phase = model_phase(p, stride, trips) ? PHASE_OF_GROUPS : PHASE_NONE;
    const uint32_t step = step_slots(p);
    *counts = (struct model_counts){
        .vgprs = vgprs(p),
        .step_slots = step,
        .step_matrix = (uint32_t)(products_of_step(p) * cycles),
        .setup_slots = setup_slots(p),
        .trips = trips,
        .row_steps = steps,
        .row_slots = steps * step,
        .row_grain = TILE,
        .flight_bytes = (int64_t)p->rows_per_wave * unit_of(p) * p->ring / 2,
        .memory_cycles = model_memory_cycles(
            p, q->n * q->k / 2 + q->n * (q->k / problem_group(q)) * (scale_bytes + zero_bytes))};
}

static bool estimate(struct plan *p, const struct model_counts *counts)
{
    p->lds_bytes = lds_bytes(p);
    if (p->lds_bytes > LDS_MOST || !model_estimate(p, counts))
        return false;
    p->waves_asked = (int)p->estimate.waves_per_simd;
    p->estimate.streams = shares(p);
    return true;
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* Whether steps of so many units divide K, and a lane's weights, or those of a span, share a scale.
 */
static bool fits(const struct plan *p)
{
    const int64_t step = unit_of(p) * p->ring, block = problem_group(&p->problem);
    const bool whole = p->staging == STAGING_WEIGHTS ? block % p->chunk == 0
                                     : block % unit_of(p) == 0 &&
                                           (step % block == 0 || block % step == 0);

    return p->problem.k % step == 0 && whole && vgprs(p) <= VGPRS_MAX &&
           (p->ring == 1 || body_slots(p) <= BODY_MAX);
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

static void try_tiles(struct plan *p, int cycles, struct model_ranking *ranking)
{
    for (int tiles = 4; tiles; tiles /= 2)
        for (p->ring = UNITS_MAX; p->ring; p->ring--) {
            struct plan other = *p;
            p->rows_per_wave = other.rows_per_wave = tiles * TILE;
            other.pairing = PAIRING_OF_W;
            /* only words in the order of k leave a choice of pairs: what takes less */
            if (p->problem.layout == QUERN_LAYOUT_K8 && body_slots(&other) < body_slots(p))
                p->pairing = PAIRING_OF_W;
            if (fits(p))
                try_waves(p, cycles, ranking);
            p->pairing = PAIRING_OF_A;
        }
}

/*
 * Scaled zero points always need the plain sum of A, but in whole weights; else f16 never does. In
 * bf16 it takes more instructions to do without: not up to 32 rows of A, unless the matrix unit
 * would have far more to do than the vector unit (of gfx90a).
 */
static bool bias_fits(const struct plan *p)
{
    const bool scaled = p->problem.zero == QUERN_ZERO_SCALED, f16 = p->problem.a == QUERN_F16;
    const bool dots =
        p->target->capabilities & (f16 ? CAP_DOT2_F32_F16 : CAP_DOT2_F32_BF16);
    const bool slow = target_matrix_cycles(p->target, matrix_form(p->products).text) >= 32 &&
                      target_matrix_pipe(p->target);

    if (p->bias)
        return p->staging != STAGING_WEIGHTS && (!f16 || scaled) &&
               (p->bias == BIAS_BY_MATRIX || dots);
    if (p->force.predequant == SWITCH_ON)
        return true;
    return (f16 || p->m_tile >= (slow ? 32 : 64)) && (!scaled || p->staging == STAGING_WEIGHTS);
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    static const int chunks[] = {32, 16, 8};
    struct plan p = *base;

    p.products = matrix_products(p.target);
    p.wave_size = p.target->wave_size;
    p.pairing = PAIRING_OF_A;
    const int cycles = (int)target_matrix_cycles(p.target, matrix_form(p.products).text);
    const enum plan_switch weights = p.force.predequant;
    const int least = weights == SWITCH_ON ? STAGING_WEIGHTS : STAGING_NONE;
    const int most = weights == SWITCH_OFF ? STAGING_CODES : STAGING_WEIGHTS;
    for (int staging = least; staging <= most; staging++)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            p.staging = (enum plan_staging)staging;
            p.chunk = chunks[c];
            /* codes alone gain where lanes would decode the same; an instruction takes as many of
             * a lane */
            if ((staging == STAGING_CODES && matrix_form(p.products).k_lanes > 1) ||
                (!staging && p.chunk < matrix_form(p.products).k_of_lane))
                continue;
            for (int bias = BIAS_OF_CODES; bias <= BIAS_BY_PARTS; bias++) {
                p.bias = (enum plan_bias)bias;
                if (bias_fits(&p))
                    try_tiles(&p, cycles, ranking);
            }
        }
}

static bool alike(const struct plan *p, const struct plan *q)
{
    return p->rows_per_wave == q->rows_per_wave && p->ring == q->ring && p->chunk == q->chunk &&
           p->split_k == q->split_k && p->staging == q->staging && p->bias == q->bias;
}

static void shape(const struct plan *p, struct str *out)
{
    str_addf(out, "%d waves, %d rows, %d weights, split %d%s%s", p->waves, p->rows_per_wave,
             p->chunk * p->ring, p->split_k,
             p->staging == STAGING_CODES     ? ", codes in LDS"
             : p->staging == STAGING_WEIGHTS ? ", pre-dequantised"
                                             : "",
             p->bias == BIAS_BY_PARTS    ? ", A summed in parts"
             : p->bias == BIAS_BY_MATRIX ? ", A summed by matrices"
                                         : "");
}

const struct model_family mma_int4 = {candidates, alike, shape};
