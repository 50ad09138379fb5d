/* SPDX-License-Identifier: MIT */
/*
 * Candidates and instruction counts of the family mma_tile. The counts follow the template
 * (templates/family/mma_tile.hip) and were fitted to code that hipRTC 6.4.3 made of it. Times are
 * computed here and not in cost_model.c: what bounds these kernels is the matrix unit, and how a
 * grid of tiles fills the part depends on the rows of A.
 */
#include "plan/mma_tile.h"

#include "plan/matrix.h"
#include "target/rates.h"

#define PIECE      8   /* values in 16 bytes */
#define VGPRS_MAX  236 /* estimated, so that nothing is spilled */
#define LOOP_SLOTS 20  /* instructions of a step for addresses, scales and the loop */
#define EDGE_SLOTS 160 /* instructions of a wave before its steps, but for those of scales */

struct shape {
    int items, m_tiles, n_tiles, n_tile; /* tiles of a wave, rows of W of a workgroup */
    int a_pieces, words;                 /* that a work-item brings in a step */
    int fragment_pieces, fragments;
    struct matrix_form form;
};

static struct shape shape_of(const struct plan *p)
{
    const struct matrix_form form = matrix_form(p->products);
    const int n_tile = p->waves / p->split_k * p->rows_per_wave;
    const int items = p->waves * (int)p->wave_size;
    const int fragment_pieces = form.k_of_lane > PIECE ? form.k_of_lane / PIECE : 1;

    return (struct shape){.items = items,
                          .m_tiles = p->m_tile / p->split_k / form.side,
                          .n_tiles = p->rows_per_wave / form.side,
                          .n_tile = n_tile,
                          .a_pieces = p->m_tile * p->chunk / PIECE / items,
                          .words = n_tile * p->chunk / PIECE / items,
                          .fragment_pieces = fragment_pieces,
                          .fragments = p->chunk / PIECE / (form.k_lanes * fragment_pieces),
                          .form = form};
}

bool mma_tile_accepts(const struct quern_problem *p, const struct target *t)
{
    /* offsets of rows in a tile are 32 bits */
    return p->op == QUERN_OP_GEMM && problem_has_group(p) && p->a != QUERN_F32 &&
           matrix_products(t) && p->k % 32 == 0 && problem_group(p) % 32 == 0 &&
           p->k <= PLAN_TILE_LDA_MAX;
}

/* ---- Estimate -------------------------------------------------------------------------------- */

/* Instructions that decode and scale a word of eight weights. */
static int word_slots(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const bool f16 = q->a == QUERN_F16, k8 = q->layout == QUERN_LAYOUT_K8;
    const bool dots = p->target->capabilities & CAP_DOT2_BF16_BF16;

    if (q->wq == QUERN_W_INT4)
        return f16 ? k8 ? 16 : 13 : dots ? 19 : 27;
    const int codes = f16 && q->wq != QUERN_W_NF4 ? 19 : 25;
    return codes + (f16 ? 4 : dots ? 8 : 24);
}

static int products_of_step(const struct plan *p, const struct shape *s)
{
    return s->m_tiles * s->n_tiles * p->chunk / (s->form.k_lanes * s->form.k_of_lane);
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
    const int pieces = p->ahead ? 2 * (s.m_tiles + s.n_tiles) : s.n_tiles + 2;
    const int more = p->ahead && s.form.k_lanes == 1 ? 24 : 0; /* as it was found */
    const bool nested = p->problem.scale == QUERN_SCALE_NESTED;

    return (uint32_t)(s.m_tiles * s.n_tiles * s.form.values + pieces * s.fragment_pieces * 4 +
                      s.a_pieces * 5 + s.words + (nested ? 12 : 4) + (p->wave_size == 64 ? 8 : 0) +
                      more + 16);
}

/* Passes of LDS in a step of a workgroup: none of its accesses has conflicts. */
static int64_t lds_passes(const struct plan *p)
{
    const struct shape s = shape_of(p);
    const int loads = (s.m_tiles + s.n_tiles) * s.fragment_pieces * s.fragments;
    const int read = (int)(p->target->lds_banks / 4), written = 8; /* lanes of a pass */

    return s.items * (int64_t)loads / read + s.items * (int64_t)(s.a_pieces + s.words) / written;
}

/* What mma_tile_cycles needs. Products and other instructions of waves take turns on RDNA; on gfx9
 * one wave's products run beside the other's instructions. */
static void estimate_cycles(struct plan *p)
{
    const struct target *const t = p->target;
    const struct shape s = shape_of(p);
    struct plan_estimate *const e = &p->estimate;
    const int64_t issue = target_issue_cycles(t), steps = p->problem.k / p->chunk;
    const int64_t matrix = steps * products_of_step(p, &s) * target_matrix_cycles(t, s.form.text);
    const int64_t setup = setup_slots(p) * issue, slots = setup + steps * step_slots(p) * issue;

    e->together =
        (int)target_workgroups_per_cu(t, e->vgprs, p->lds_bytes, p->wave_size, (unsigned)p->waves);
    e->wave_cycles = !target_matrix_pipe(t)
                         ? slots - steps * products_of_step(p, &s) * issue + matrix
                     : slots > matrix ? slots
                                      : matrix;
    e->lds_cycles = steps * lds_passes(p);
    e->edge_cycles = target_matrix_pipe(t) ? setup : 0;
    e->drain_cycles = p->ahead ? 0 : steps * TARGET_LDS_CYCLES;
}

/* A compute unit that holds several workgroups has others to run while one starts or ends. */
int64_t mma_tile_cycles(const struct plan *p, int64_t workgroups)
{
    const struct plan_estimate *const e = &p->estimate;
    const int64_t simds = p->target->simds;
    const int64_t together = workgroups < e->together ? workgroups : e->together;
    const int64_t rounds = e->together > 1 ? 1 : workgroups, each = workgroups / rounds;
    const bool alone = workgroups % e->together == (e->together > 1); /* in the last round */
    const int64_t waves = model_ceil_div(each * p->waves, simds) * e->wave_cycles;
    const int64_t lds = each * e->lds_cycles;

    return rounds * (target_latency_cycles(p->target) +
                     model_ceil_div(together * p->waves, simds) * e->edge_cycles +
                     (alone ? e->drain_cycles : 0) + (waves > lds ? waves : lds));
}

static bool estimate(struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const struct target *const t = p->target;
    const struct shape s = shape_of(p);
    struct plan_estimate *const e = &p->estimate;
    const int64_t slices = p->meant_for / p->m_tile;
    const int64_t waves = model_ceil_div(q->n, s.n_tile) * p->waves;
    const int64_t steps = q->k / p->chunk;

    p->lds_bytes = (uint32_t)(2 * (p->m_tile + s.n_tile) * p->chunk * 2);
    e->vgprs = vgprs(p);
    if (e->vgprs > VGPRS_MAX || p->lds_bytes > t->lds_bytes)
        return false;
    e->waves_per_simd =
        target_waves_per_simd(t, e->vgprs, p->lds_bytes, p->wave_size, (unsigned)p->waves);
    if (e->waves_per_simd * t->simds < (unsigned)p->waves)
        return false;
    /* two at least, that accumulators of gfx9 are not moved about between two files of registers;
     * where LDS has room for one the compiler does not heed that */
    if (target_matrix_pipe(t) && e->waves_per_simd < 2)
        return false;
    p->waves_asked = p->waves / (int)t->simds > 2 ? p->waves / (int)t->simds : 2;
    e->workgroups = model_ceil_div(q->n, s.n_tile);
    e->step_slots = (uint32_t)step_slots(p);
    e->setup_slots = (uint32_t)setup_slots(p);
    e->slots = waves * (steps * e->step_slots + e->setup_slots);
    estimate_cycles(p);
    e->kernel_cycles = plan_cycles(p, slices) / slices;
    /* an eighth of it is that of a quarter of the rows: of equals the finer grid is better */
    e->busy_cycles =
        (7 * e->kernel_cycles + plan_cycles(p, slices / 4) / (slices / 4)) / 8 * t->cus * t->simds;
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
    const int pieces = p->chunk / PIECE;

    return s.m_tiles && p->m_tile == s.m_tiles * s.form.side * p->split_k && s.a_pieces &&
           s.words && p->m_tile * pieces % s.items == 0 && s.n_tile * pieces % s.items == 0 &&
           s.items % (s.form.side / 2 * pieces) == 0 && pieces % s.words == 0 && s.words <= 4 &&
           s.fragments && p->problem.k % p->chunk == 0;
}

static void add_candidates(struct plan p, enum plan_products products,
                           struct model_ranking *ranking)
{
    p.products = products;
    p.wave_size = p.target->wave_size;
    p.staging = STAGING_WEIGHTS;
    for (p.chunk = 32; p.chunk <= 64; p.chunk *= 2)
        for (p.waves = 4; p.waves <= 8; p.waves *= 2)
            for (p.split_k = 1; p.split_k <= p.waves; p.split_k *= 2)
                for (p.rows_per_wave = 32; p.rows_per_wave <= 128; p.rows_per_wave *= 2)
                    for (int ahead = 0; ahead < 2; ahead++) {
                        p.ahead = ahead;
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

static bool alike(const struct plan *p, const struct plan *q)
{
    return p->products == q->products && p->rows_per_wave == q->rows_per_wave &&
           p->chunk == q->chunk && p->split_k == q->split_k && p->waves == q->waves &&
           p->ahead == q->ahead;
}

static void shape(const struct plan *p, struct str *out)
{
    str_addf(out, "%d waves, %d of them along M, %d rows of W each, %d along K%s%s", p->waves,
             p->split_k, p->rows_per_wave, p->chunk, p->ahead ? ", operands ahead" : "",
             matrix_form(p->products).side > MATRIX_TILE ? ", results of 32 by 32" : "");
}

const struct model_family mma_tile = {candidates, alike, shape};
