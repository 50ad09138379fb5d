/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family mma_tile. The counts follow the template
 * (templates/family/mma_tile.hip) and were fitted to code that hipRTC 6.4.3 made of it. Times are
 * computed here and not in cost_model.c: what bounds these kernels is the matrix unit, and how a
 * grid of tiles fills the part depends on the rows of A.
 */
#include "plan/explain.h"
#include "plan/family.h"
#include "plan/matrix.h"
#include "target/rates.h"

#define PIECE      8   /* values in 16 bytes */
#define VGPRS_MAX  236 /* estimated, so that nothing is spilled */
#define LOOP_SLOTS 20  /* instructions of a step for addresses, scales and the loop */
#define EDGE_SLOTS 160 /* instructions of a wave before its steps, but for those of scales */

struct shape {
    /* work-items of a workgroup; tiles of A and of W that a wave multiplies, each with each; rows
     * of W of a workgroup */
    int items, m_tiles, n_tiles, n_tile;
    /* pieces of A, and words of W, that a work-item loads in a step */
    int a_pieces, words;
    /* pieces in a lane's operand; operands of a tile in a step */
    int fragment_pieces, fragments;
    struct matrix_form form;
};

static struct shape shape_of(const struct plan *p)
{
    const struct matrix_form form = matrix_form(p->products);
    const int n_tile = p->waves / p->tile.m_waves * p->tile.rows;
    const int items = p->waves * (int)p->wave_size;
    const int fragment_pieces = form.k_of_lane > PIECE ? form.k_of_lane / PIECE : 1;

    return (struct shape){.items = items,
                          .m_tiles = p->m_tile / p->tile.m_waves / form.side,
                          .n_tiles = p->tile.rows / form.side,
                          .n_tile = n_tile,
                          .a_pieces = p->m_tile * p->tile.step / PIECE / items,
                          .words = n_tile * p->tile.step / PIECE / items,
                          .fragment_pieces = fragment_pieces,
                          .fragments = p->tile.step / PIECE / (form.k_lanes * fragment_pieces),
                          .form = form};
}

static bool takes(const struct quern_problem *q, const struct target *t)
{
    /* the limit of K is that of lda: offsets of rows in a tile are 32 bits */
    return problem_has_activation(q) && problem_has_group(q) && q->a != QUERN_F32 &&
           matrix_products(t) && q->k % 32 == 0 && problem_group(q) % 32 == 0 &&
           q->k <= PLAN_TILE_LDA_MAX && problem_pairs_near(q);
}

/* ---- Estimate -------------------------------------------------------------------------------- */

/* Instructions that decode and scale a word of eight weights. */
static int word_slots(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const bool f16 = q->a == QUERN_F16, k8 = q->layout == QUERN_LAYOUT_K8;

    if (q->wq == QUERN_W_INT4)
        return !f16 ? 17 : k8 ? 16 : 13;
    return (codes_have_upper_bytes_only(q->wq) ? 19 : 25) + (f16 ? 4 : 12);
}

static int products_of_step(const struct plan *p, const struct shape *s)
{
    return s->m_tiles * s->n_tiles * p->tile.step / (s->form.k_lanes * s->form.k_of_lane);
}

/* Instructions of a wave in a step. */
static int step_slots(const struct plan *p)
{
    const struct shape s = shape_of(p);
    const int loads = (s.m_tiles + s.n_tiles) * s.fragment_pieces * s.fragments;

    return products_of_step(p, &s) + loads + 2 * s.a_pieces + s.words * (2 + word_slots(p)) +
           LOOP_SLOTS;
}

/* Instructions of a wave outside of its steps. */
static int setup_slots(const struct plan *p)
{
    const struct shape s = shape_of(p);
    const int results = s.m_tiles * s.n_tiles * s.form.values;
    const int blocks = (int)(p->problem.k / problem_group(&p->problem));
    const int scales = p->problem.a == QUERN_F16 ? blocks * s.n_tile / s.items * 6 : 0;

    return EDGE_SLOTS + scales + step_slots(p) / 2 + results * (s.form.k_lanes == 1 ? 5 : 3);
}

static uint32_t vgprs(const struct plan *p)
{
    const struct shape s = shape_of(p);
    const int pieces = p->tile.ahead ? 2 * (s.m_tiles + s.n_tiles) : s.n_tiles + 2;
    /* further registers that the compiler was seen to take */
    const int more = p->tile.ahead && s.form.k_lanes == 1 ? 24 : 0;
    const bool nested = p->problem.scale == QUERN_SCALE_NESTED;

    return (uint32_t)(s.m_tiles * s.n_tiles * s.form.values + pieces * s.fragment_pieces * 4 +
                      s.a_pieces * (p->block_rows ? 6 : 5) + s.words + (nested ? 12 : 4) +
                      (p->wave_size == 64 ? 8 : 0) + more + 16);
}

/* Passes of LDS in a step of a workgroup, none of whose accesses has bank conflicts. */
static int64_t lds_passes(const struct plan *p)
{
    const struct shape s = shape_of(p);
    const int loads = (s.m_tiles + s.n_tiles) * s.fragment_pieces * s.fragments;
    const int read = (int)(p->target->lds_banks / 4), written = 8; /* lanes of a pass */

    return s.items * (int64_t)loads / read + s.items * (int64_t)(s.a_pieces + s.words) / written;
}

/* Sets the shape's cycles, of which cycles() makes a launch's time. On RDNA products and other
 * instructions of a SIMD's waves take turns; on gfx9 one wave's products run beside another's
 * instructions. */
static void estimate_cycles(struct plan *p)
{
    const struct target *const t = p->target;
    const struct shape of = shape_of(p);
    struct mma_tile_shape *const s = &p->tile;
    const int64_t issue = target_issue_cycles(t), steps = p->problem.k / p->tile.step;
    const int64_t matrix = steps * products_of_step(p, &of) * target_matrix_cycles(t, of.form.text);
    const int64_t setup = setup_slots(p) * issue, slots = setup + steps * step_slots(p) * issue;

    s->together = (int)target_workgroups_per_cu(t, p->estimate.vgprs, p->lds_bytes, p->wave_size,
                                                (unsigned)p->waves);
    s->wave_cycles = !target_matrix_pipe(t)
                         ? slots - steps * products_of_step(p, &of) * issue + matrix
                     : slots > matrix ? slots
                                      : matrix;
    s->lds_cycles = steps * lds_passes(p);
    s->edge_cycles = target_matrix_pipe(t) ? setup : 0;
    s->drain_cycles = p->tile.ahead ? 0 : steps * TARGET_LDS_CYCLES;
}

/* Of struct family. A compute unit that holds only one workgroup at a time pays each one's start
 * and end; one that holds several has others to run meanwhile, so it pays once. */
static int64_t cycles(const struct plan *p, int64_t workgroups)
{
    const struct mma_tile_shape *const s = &p->tile;
    const int64_t simds = p->target->simds;
    const int64_t together = workgroups < s->together ? workgroups : s->together;
    const int64_t rounds = s->together > 1 ? 1 : workgroups, each = workgroups / rounds;
    const bool alone = workgroups % s->together == (s->together > 1); /* in the last round */
    const int64_t waves = model_ceil_div(each * p->waves, simds) * s->wave_cycles;
    const int64_t lds = each * s->lds_cycles;

    return rounds * (target_latency_cycles(p->target) +
                     model_ceil_div(together * p->waves, simds) * s->edge_cycles +
                     (alone ? s->drain_cycles : 0) + (waves > lds ? waves : lds));
}

static bool estimate(struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const struct target *const t = p->target;
    const struct shape s = shape_of(p);
    struct plan_estimate *const e = &p->estimate;
    const int64_t slices = p->meant_for / p->m_tile, few = slices > 4 ? slices / 4 : 1;
    const int64_t waves = model_ceil_div(q->n, s.n_tile) * p->waves;
    const int64_t steps = q->k / p->tile.step;

    p->lds_bytes = (uint32_t)(2 * (p->m_tile + s.n_tile) * p->tile.step * 2);
    e->vgprs = vgprs(p);
    if (e->vgprs > VGPRS_MAX || p->lds_bytes > t->lds_bytes)
        return false;
    e->waves_per_simd =
        target_waves_per_simd(t, e->vgprs, p->lds_bytes, p->wave_size, (unsigned)p->waves);
    if (e->waves_per_simd * t->simds < (unsigned)p->waves)
        return false;
    /* gfx9 needs room for two waves in a SIMD: with registers for one wave the compiler moves sums
     * between the two register files. It is asked for two (waves_asked), but does not heed that
     * where LDS has room for one only; so such shapes are left out */
    if (target_matrix_pipe(t) && e->waves_per_simd < 2)
        return false;
    p->waves_asked = p->waves / (int)t->simds > 2 ? p->waves / (int)t->simds : 2;
    p->rows_per_workgroup = s.n_tile;
    e->workgroups = p->row_groups = model_ceil_div(q->n, s.n_tile);
    e->step_slots = (uint32_t)step_slots(p);
    e->setup_slots = (uint32_t)setup_slots(p);
    e->slots = waves * (steps * e->step_slots + e->setup_slots);
    estimate_cycles(p);
    e->kernel_cycles = plan_cycles(p, slices) / slices;
    /* the work at a quarter of the rows counts for an eighth: of shapes that are equal at meant_for
     * rows, the finer grid wins */
    e->busy_cycles = (7 * e->kernel_cycles + plan_cycles(p, few) / few) / 8 * t->cus * t->simds;
    e->busy_percent = target_fill(t, (uint64_t)(e->workgroups * slices)).percent;
    const int64_t scale_bytes = q->scale == QUERN_SCALE_F32 ? 4 : 1;
    const int64_t bytes = q->n * q->k / 2 + q->n * (q->k / problem_group(q)) * scale_bytes +
                          p->m_tile * (q->k * dtype_bytes(q->a) + q->n * dtype_bytes(q->c));
    e->memory_cycles = (int64_t)target_memory_cycles(t, (double)bytes);
    e->bytes_in_flight = (int64_t)s.items * s.words * 4;
    e->streams = e->fills = true;
    p->slices_first = e->workgroups <= PLAN_GRID_Y_MAX;
    return true;
}

/* ---- Candidates and choice ------------------------------------------------------------------- */

/* Whether work-items share a step evenly, as the template asks. */
static bool fits(const struct plan *p)
{
    const struct shape s = shape_of(p);
    const int pieces = p->tile.step / PIECE;

    return s.m_tiles && p->m_tile == s.m_tiles * s.form.side * p->tile.m_waves && s.a_pieces &&
           s.words && p->m_tile * pieces % s.items == 0 && s.n_tile * pieces % s.items == 0 &&
           s.items % (s.form.side / 2 * pieces) == 0 && pieces % s.words == 0 && s.words <= 4 &&
           s.fragments && p->problem.k % p->tile.step == 0;
}

static void add_candidates(struct plan p, enum plan_products products,
                           struct model_ranking *ranking)
{
    p.products = products;
    p.wave_size = p.target->wave_size;
    for (p.tile.step = 32; p.tile.step <= 64; p.tile.step *= 2)
        for (p.waves = 4; p.waves <= 8; p.waves *= 2)
            for (p.tile.m_waves = 1; p.tile.m_waves <= p.waves; p.tile.m_waves *= 2)
                for (p.tile.rows = 32; p.tile.rows <= 128; p.tile.rows *= 2)
                    for (int ahead = 0; ahead < 2; ahead++) {
                        p.tile.ahead = ahead;
                        if (fits(&p) && estimate(&p))
                            model_put(ranking, &p);
                    }
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    const enum plan_products tall = matrix_products_tall(base->target);

    add_candidates(*base, matrix_products(base->target), ranking);
    if (tall)
        add_candidates(*base, tall, ranking);
}

/* ---- What is said of a kernel ---------------------------------------------------------------- */

static void explain(const struct plan *p, struct str *out)
{
    explain_plain(p, "two steps of A and W", out);
}

static const char *products(const struct plan *p)
{
    (void)p;
    return "DOT2";
}

static const char *pairing(const struct plan *p)
{
    (void)p;
    return field_pairing(PAIRING_OF_W);
}

static int64_t dies(const struct plan *p)
{
    /* blocks come in the order of experts, neighbours of one expert share W as they are */
    return p->block_rows ? 1 : p->target->dies;
}

static int64_t no(const struct plan *p)
{
    (void)p;
    return 0;
}

static const struct plan_field of_int4[] = {
    {FIELD_WORD("PRODUCTS", products, "what codes are made for")},
    {FIELD_WORD("PAIRING", pairing, "what is reordered where pairs differ")},
    {0},
};

static const struct plan_field of_table[] = {
    {FIELD_OF(FIELD_BOOL, "WORD_BLOCKS", no, "whether b is [K/32,N] blocks of 4")},
    {FIELD_WORD("A_TYPE", field_a_type, "elements of A")},
    {FIELD_OF(FIELD_BOOL, "TRUNCATE", no, "whether f32 becomes bf16 by cutting")},
    {0},
};

static const struct plan_field rows[] = {
    {FIELD_AT(FIELD_NUMBER, "M_WAVES", tile.m_waves,
              "waves with the same rows of W, each with its own of A"),
     .word = "m_waves", .was = "split_k"},
    {FIELD_AT(FIELD_NUMBER, "ROWS", tile.rows, "rows of W that a wave works on"), .word = "rows"},
    {FIELD_AT(FIELD_NUMBER, "STEP", tile.step, "along K, between two barriers"), .word = "step",
     .was = "chunk"},
    {FIELD_AT(FIELD_BOOL, "AHEAD", tile.ahead, "whether operands are loaded ahead of the barrier"),
     .word = "ahead"},
    {FIELD_AT(FIELD_NUMBER, "WAVES_PER_SIMD", waves_asked, "that registers must leave room for")},
    {FIELD_OF(FIELD_NUMBER, "DIES", dies, "that workgroups are dealt out to in turn")},
    {FIELD_AT(FIELD_BOOL, "SLICES_FIRST", slices_first, "whether slices of A are workgroup id x")},
    {0},
};

static const struct plan_fields fields[] = {{layer_fields},
                                            {int4_fields, .when = field_is_int4},
                                            {of_int4, .when = field_is_int4},
                                            {weight_fields, .when = field_has_table},
                                            {of_table, .when = field_has_table},
                                            {tile_fields},
                                            {rows},
                                            {0}};

static const struct plan_template templates[] = {
    {"prelude/prelude"},
    {"prelude/layer"},
    {.choose = template_of_rows},
    {"prelude/glu", .when = field_has_act},
    {.choose = matrix_template},
    {"prelude/int4"},
    {"prelude/round"},
    {"prelude/mix"},
    {"decode/int4", .when = field_is_int4},
    {"decode/int4_mix", .when = field_is_int4},
    {"decode/scale_group", .when = field_is_int4},
    {"decode/tile_int4", .when = field_is_int4},
    {.choose = template_of_codes, .when = field_has_table},
    {.choose = template_of_scale, .when = field_has_table},
    {"decode/plane_table", .when = field_has_table},
    {"decode/tile_table", .when = field_has_table},
    {"decode/tile_scale"},
    {"family/mma_tile"},
    {0}};

const struct family family_mma_tile = {
    .name = "mma_tile",
    .units = PLAN_UNITS_TILES,
    .takes = takes,
    .candidates = candidates,
    .cycles = cycles,
    .fewest_rows = matrix_one_tile,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .predequant = SWITCH_ON,
};
