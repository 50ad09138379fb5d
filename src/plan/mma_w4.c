/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family mma_w4. The counts follow the template
 * (templates/family/mma_w4.hip) and were fitted to code that hipRTC 6.4.3 made of it;
 * cost_model.c makes a choice of them.
 */
#include "plan/base.h"
#include "plan/explain.h"
#include "plan/family.h"
#include "plan/matrix.h"

#define TABLE_BYTES 32768 /* 256 pairs of codes, 128 bytes of copies each */
#define TABLE_SLOTS 5120  /* lane operations that build it: instructions times lanes */
#define CHUNK_MAX   32    /* weights in one load of a lane */
#define UNITS_MAX   8     /* loads of a step, for each tile */
#define BODY_MAX    520   /* instructions in a step: more compile too slowly */

static bool takes(const struct quern_problem *q, const struct target *t)
{
    return problem_has_activation(q) && problem_has_group(q) && q->wq != QUERN_W_INT4 &&
           q->a != QUERN_F32 && matrix_products(t) && problem_pairs_near(q);
}

/* ---- Estimate -------------------------------------------------------------------------------- */

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
    const int n = matrix_tiles_of_w(p), m = matrix_tiles_of_a(p), spans = matrix_spans(p);
    const int weights = p->matrix.units * p->matrix.chunk; /* that a lane looks up in each tile */
    const int pieces = matrix_lane_weights(p) / 8; /* of 16 bytes, of A or of values from LDS */
    int slots = weights * n;                       /* an address and an LDS load for each pair */

    if (matrix_staged(p))
        slots += (weights / 8 + pieces) * n;
    slots += matrix_products_of_step(p) + pieces * m + n * (p->matrix.units + spans);
    return slots + spans * n * (m * matrix_scaling_slots(p) + scale_slots(p));
}

static uint32_t vgprs(const struct plan *p)
{
    const int n = matrix_tiles_of_w(p);
    const bool nested = p->problem.scale == QUERN_SCALE_NESTED;

    return (uint32_t)(matrix_operand_vgprs(p) + (nested ? 4 : 2) * matrix_spans(p) * n +
                      (nested ? 9 : 3) * n + 16);
}

static struct matrix_counts shape_of(const struct plan *p, int cycles)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t scale_bytes = q->scale == QUERN_SCALE_F32 ? 4 : 1;

    return (struct matrix_counts){.body = body_slots(p),
                                  .vgprs = vgprs(p),
                                  .cycles = cycles,
                                  .loads = matrix_spans(p),
                                  .weight_bytes = q->n * q->k / 2 +
                                                  q->n * (q->k / problem_group(q)) * scale_bytes};
}

/* LDS has the table, and behind it the waves' weights on their way to the matrix unit. */
static bool share(struct plan *p, struct model_counts *counts)
{
    counts->shared_slots = TABLE_SLOTS / p->wave_size;
    p->lds_bytes = (uint32_t)(TABLE_BYTES + p->waves * matrix_staged_bytes(p));
    return p->lds_bytes <= p->target->lds_bytes;
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* Whether groups fit the steps (matrix_whole_spans), and the shape does not take too many registers
 * or instructions. */
static bool fits(const struct plan *p, const struct matrix_counts *shape)
{
    return matrix_whole_spans(p) && shape->vgprs <= MATRIX_VGPRS_MAX &&
           (p->matrix.units == 1 || shape->body <= BODY_MAX);
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;

    p.products = matrix_products(p.target);
    p.wave_size = p.target->wave_size;
    p.matrix.staging = matrix_doubled(&p) ? STAGING_CODES : STAGING_NONE;
    p.matrix.chunk = CHUNK_MAX;
    while (matrix_unit(&p) > problem_group(&p.problem))
        p.matrix.chunk /= 2;
    const int cycles = matrix_cycles(&p);
    for (int tiles = 4; tiles; tiles /= 2)
        for (p.matrix.units = UNITS_MAX; p.matrix.units; p.matrix.units--) {
            p.matrix.rows = tiles * MATRIX_TILE;
            if (p.problem.k % matrix_step(&p) ||
                (plan_is_base(&p) && matrix_step(&p) > BASE_K_LEAST))
                continue;
            const struct matrix_counts shape = shape_of(&p, cycles);
            if (fits(&p, &shape))
                matrix_try_waves(&p, &shape, share, ranking);
        }
}

/* ---- What is said of a kernel ---------------------------------------------------------------- */

static void explain(const struct plan *p, struct str *out)
{
    explain_plain(p,
                  matrix_staged(p) ? "table of all pairs of codes, weights on their way"
                                   : "table of all pairs of codes",
                  out);
}

static int64_t table_entry(const struct plan *p)
{
    return field_table_entry(p->lds_bytes - p->waves * matrix_staged_bytes(p));
}

static const struct plan_field formats[] = {
    {FIELD_WORD("A_TYPE", field_a_type, "elements of A")},
    {FIELD_WORD("PRODUCTS", field_matrix, "how pairs are multiplied")},
    {FIELD_OF(FIELD_NUMBER, "ENTRY_BYTES", table_entry, "of LDS for each pair of codes")},
    {FIELD_IF(FIELD_BOOL, "STAGED", matrix_staged, "whether W goes through LDS")},
    {0},
};

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "WAVES_PER_SIMD", waves_asked, "that registers must leave room for")},
    {FIELD_AT(FIELD_NUMBER, "PHASES", phase, "1: groups start apart along K")},
    {0},
};

static const struct plan_fields fields[] = {
    {layer_fields},  {weight_fields}, {formats},     {tile_fields},
    {matrix_fields}, {shape},         {grid_fields}, {0}};

static const struct plan_template templates[] = {{"prelude/prelude"},
                                                 {"prelude/layer"},
                                                 {.choose = template_of_rows},
                                                 {"prelude/glu", .when = field_has_act},
                                                 {.choose = matrix_template},
                                                 {"prelude/tiles"},
                                                 {.choose = template_of_codes},
                                                 {.choose = template_of_scale},
                                                 {"decode/pair_table"},
                                                 {"family/mma_w4"},
                                                 {0}};

/* Plans' m_tile is a multiple of 16. */
const struct family family_mma_w4 = {
    .name = "mma_w4",
    .units = PLAN_UNITS_MATRIX,
    .takes = takes,
    .candidates = candidates,
    .fewest_rows = matrix_one_tile,
    .base_rows = 1,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .predequant = SWITCH_OFF,
};
