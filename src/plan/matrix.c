/* SPDX-License-Identifier: MIT */
/* What families on matrix units count alike, and the rows that their tables share: matrix.h. */
#include "plan/matrix.h"

#include "target/rates.h"

#define LINE_BYTES 128 /* of the cache nearest to a compute unit, on CDNA 3 */
#define WAVES_MAX  16  /* of a workgroup: each needs 1 KiB for sums at the end */

/* Weights of a group, fewer of which step_vmem does not count. */
#define GROUP_COUNTED 64

/* A shape whose workgroups ask for more than so many times as many bytes of A as of weights is
 * taken only when no other shape fills the part. */
#define A_SHARE_MAX 2

enum plan_products matrix_products(const struct target *t)
{
    return t->capabilities & CAP_WMMA_256B      ? PRODUCTS_WMMA11
           : t->capabilities & CAP_WMMA_128B    ? PRODUCTS_WMMA12
           : t->capabilities & CAP_MFMA_WIDE_K  ? PRODUCTS_MFMA32
           : t->capabilities & CAP_MFMA_BF16_1K ? PRODUCTS_MFMA16
                                                : 0;
}

enum plan_products matrix_products_tall(const struct target *t)
{
    return t->capabilities & CAP_MFMA_WIDE_K    ? PRODUCTS_MFMA_TALL16
           : t->capabilities & CAP_MFMA_BF16_1K ? PRODUCTS_MFMA_TALL8
                                                : 0;
}

int matrix_cycles(const struct plan *p)
{
    return (int)target_matrix_cycles(p->target, matrix_form(p->products).text);
}

bool matrix_doubled(const struct plan *p)
{
    return matrix_form(p->products).k_lanes == 1;
}

bool matrix_staged(const struct plan *p)
{
    return p->matrix.staging == STAGING_CODES || p->matrix.staging == STAGING_WEIGHTS;
}

bool matrix_scaled(const struct plan *p)
{
    return p->matrix.staging == STAGING_WEIGHTS || p->matrix.staging == STAGING_SCALED;
}

int matrix_tiles_of_w(const struct plan *p)
{
    return p->matrix.rows / MATRIX_TILE;
}

int matrix_tiles_of_a(const struct plan *p)
{
    return (int)model_ceil_div(p->m_tile, MATRIX_TILE);
}

int matrix_abreast(const struct plan *p)
{
    return matrix_tiles_of_a(p) * MATRIX_TILE / p->m_tile;
}

/* A row's loads are shared by the lanes that give it to the instruction, each with another part of
 * K. Through LDS all lanes that hold the row share them, also those that the instruction wants the
 * same weights from. */
int matrix_unit(const struct plan *p)
{
    return p->matrix.chunk * (matrix_staged(p)
                                  ? (int)p->wave_size / MATRIX_TILE
                                  : matrix_form(p->products).k_lanes / matrix_abreast(p));
}

int matrix_part(const struct plan *p)
{
    return matrix_unit(p) * p->matrix.units;
}

int matrix_step(const struct plan *p)
{
    return matrix_part(p) * matrix_abreast(p);
}

bool matrix_whole_spans(const struct plan *p)
{
    const int64_t unit = matrix_unit(p), part = matrix_part(p), block = problem_group(&p->problem);

    return block % unit == 0 && (part % block == 0 || block % part == 0);
}

int matrix_span(const struct plan *p)
{
    const int64_t unit = matrix_unit(p), part = matrix_part(p), block = problem_group(&p->problem);

    return (int)(!matrix_whole_spans(p) ? unit : block < part ? block : part);
}

int matrix_spans(const struct plan *p)
{
    return matrix_part(p) / matrix_span(p);
}

int matrix_lane_weights(const struct plan *p)
{
    return matrix_step(p) / matrix_form(p->products).k_lanes;
}

/* By packed f32 instructions on gfx9. On RDNA most are issued in pairs; on gfx12 with four tiles of
 * A fewer are, as the compiler cannot place a copy of the scale well (spread_scale in
 * templates/prelude/tiles.hip). */
int matrix_scaling_slots(const struct plan *p)
{
    const struct matrix_form f = matrix_form(p->products);

    return f.values == 4 ? 2 : f.k_lanes == 1 || matrix_tiles_of_a(p) < 4 ? 5 : 6;
}

int matrix_operand_vgprs(const struct plan *p)
{
    const int n = matrix_tiles_of_w(p), m = matrix_tiles_of_a(p);
    const struct matrix_form f = matrix_form(p->products);
    const int batch = f.k_of_lane > 8 ? f.k_of_lane / 2 : 4;
    const int ring = m > 1 || batch > 4 ? 2 : 4; /* batches of A, as in the template */
    /* further registers that the compiler was seen to take, more for longer steps */
    const int more = m > 1 && f.values == 8
                         ? 2 * m * (p->matrix.units - 1 + (p->matrix.staging == STAGING_CODES))
                         : 0;

    return p->matrix.units * n * p->matrix.chunk / 8 + ring * m * batch + 2 * n * batch +
           (matrix_scaled(p) ? 1 : 2) * m * n * f.values + 2 * m + more;
}

/* A unit's rows, each 16 bytes further from the next than it is long, so that they do not meet in
 * the same banks. */
int64_t matrix_staged_bytes(const struct plan *p)
{
    return matrix_staged(p) ? (int64_t)p->matrix.rows * (matrix_unit(p) / 8 + 1) * 16 : 0;
}

int matrix_products_of_step(const struct plan *p)
{
    const int n = matrix_tiles_of_w(p) + (p->matrix.code_offset == CODE_OFFSET_BY_MATRIX);

    return matrix_lane_weights(p) / matrix_form(p->products).k_of_lane * n * matrix_tiles_of_a(p);
}

/* Instructions of a wave before and after its steps: addresses, sums of waves, store. */
static uint32_t setup_slots(const struct plan *p)
{
    const int n = matrix_tiles_of_w(p), m = matrix_tiles_of_a(p);
    const int results = (int)model_ceil_div(MATRIX_TILE * MATRIX_TILE / matrix_abreast(p),
                                            p->matrix.split_k * (int)p->wave_size);
    const int parts = p->matrix.split_k * matrix_abreast(p);
    const int tile = matrix_form(p->products).values + 4 + results * (16 + 3 * parts / 2);

    return (uint32_t)(60 + 12 * n + 8 * m + m * n * tile);
}

/* Sets what depends on the tiles and on how many waves share a row: the phase, and the counts. */
static void count(struct plan *p, const struct matrix_counts *shape, struct model_counts *counts)
{
    const int n = matrix_tiles_of_w(p), m = matrix_tiles_of_a(p);
    const int64_t trips = model_ceil_div(counts->row_steps, p->matrix.split_k);
    /* blocks of ck never camp */
    const int64_t stride = p->problem.layout == QUERN_LAYOUT_CK ? 1 : p->problem.k / 2;

    p->phase = model_phase(p, stride, trips, false) ? PHASE_OF_GROUPS : PHASE_NONE;
    const int step =
        shape->body + (trips > 1 ? 14 + 3 * m + 3 * n : 4 + 3 * m) + (p->phase ? 3 : 0);
    counts->split_k = p->matrix.split_k;
    counts->step_slots = (uint32_t)step;
    counts->setup_slots = setup_slots(p);
    counts->trips = trips;
    counts->row_slots = counts->row_steps * step;
}

/* Whether a workgroup has enough rows of W for what it asks for of A: A_SHARE_MAX. */
static bool shares_a(const struct plan *p)
{
    const int64_t a = (int64_t)p->m_tile * dtype_bytes(p->problem.a) * p->problem.k;

    return a <= A_SHARE_MAX * p->rows_per_workgroup * p->problem.k / 2;
}

/*
 * Cycles for which the loads of a step hold the path to the cache: of weights and of A, four
 * neighbouring lanes to a row, and of scales, which lie a line apart. A lane's pieces of A are 16
 * bytes and as far from its neighbour's as its weights are, so that with long chunks each load
 * touches several lines of every row. A kernel of one tile of rows is not counted: it serves fewer
 * rows as well, for which it touches fewer lines. Nor are groups of 32, most of whose loads are of
 * scales, which this counts too roughly to choose by.
 */
static int64_t step_vmem(const struct plan *p, int scale_loads)
{
    const struct target *const t = p->target;
    const int64_t unit = matrix_unit(p), pieces = p->matrix.chunk / 8, rows = MATRIX_TILE;
    const int n = matrix_tiles_of_w(p), m = matrix_tiles_of_a(p);

    if (!target_knows_vmem(t) || m == 1 || !scale_loads ||
        problem_group(&p->problem) < GROUP_COUNTED)
        return 0;
    const uint64_t w =
        target_vmem_cycles(t, 1, (uint64_t)(rows * model_ceil_div(unit / 2, LINE_BYTES)),
                           p->wave_size * (uint64_t)p->matrix.chunk / 2);
    const uint64_t a = target_vmem_cycles(
        t, 1, (uint64_t)(rows * model_ceil_div(unit * 2, LINE_BYTES)), p->wave_size * 16);
    return p->matrix.units * (n * (int64_t)w + m * pieces * (int64_t)a) + n * scale_loads * rows;
}

void matrix_try_waves(struct plan *p, const struct matrix_counts *shape, matrix_share_fn share,
                      struct model_ranking *ranking)
{
    struct model_counts one = {.wave_rows = p->matrix.rows,
                               .vgprs = shape->vgprs,
                               .step_matrix =
                                   (uint32_t)(matrix_products_of_step(p) * shape->cycles),
                               .row_steps = p->problem.k / matrix_step(p),
                               .step_vmem = step_vmem(p, shape->loads),
                               .row_grain = MATRIX_TILE,
                               .flight_bytes = (int64_t)p->matrix.rows * matrix_step(p) / 2,
                               .memory_cycles = model_memory_cycles(p, shape->weight_bytes)};

    for (int split = 1; split <= WAVES_MAX && split <= one.row_steps; split *= 2) {
        p->matrix.split_k = split;
        count(p, shape, &one);
        if (model_beaten(p, &one, ranking))
            continue;
        for (int groups = 1; groups * split <= WAVES_MAX; groups++) {
            struct model_counts counts = one;
            p->waves = groups * split;
            if (model_hopeless(p, &counts, ranking) || !share(p, &counts) ||
                !model_estimate(p, &counts))
                continue;
            p->waves_asked = (int)p->estimate.waves_per_simd;
            p->estimate.streams = shares_a(p);
            model_put(ranking, p);
        }
    }
}

/* ---- Rows of a family's table ---------------------------------------------------------------- */

static int64_t span(const struct plan *p)
{
    return matrix_span(p);
}

const struct plan_field matrix_fields[] = {
    {FIELD_AT(FIELD_NUMBER, "ROWS", matrix.rows, "rows of W that a wave works on"), .word = "rows"},
    {FIELD_AT(FIELD_NUMBER, "SPLIT_K", matrix.split_k, "waves that share those rows along K"),
     .word = "split_k"},
    {FIELD_AT(FIELD_NUMBER, "CHUNK", matrix.chunk, "weights of a row for one lane in one load"),
     .word = "chunk"},
    {FIELD_AT(FIELD_NUMBER, "UNITS", matrix.units, "loads of a step for each 16 rows"),
     .word = "units", .was = "ring"},
    {FIELD_OF(FIELD_NUMBER, "SPAN", span, "weights of a row that are summed unscaled")},
    {0},
};

const char *matrix_template(const struct plan *p)
{
    switch (p->products) {
    case PRODUCTS_WMMA11:
        return "prelude/wmma11";
    case PRODUCTS_WMMA12:
        return "prelude/wmma12";
    case PRODUCTS_MFMA32:
        return "prelude/mfma32";
    case PRODUCTS_MFMA_TALL8:
        return "prelude/mfma_tall8";
    case PRODUCTS_MFMA_TALL16:
        return "prelude/mfma_tall16";
    default:
        return "prelude/mfma16";
    }
}

int matrix_one_tile(const struct plan *p)
{
    (void)p;
    return MATRIX_TILE;
}
