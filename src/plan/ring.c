/* SPDX-License-Identifier: MIT */
/*
 * Candidates of the family ring, products of few rows on NVIDIA's matrix units. What follows from a
 * shape is ring_shape.c's, and how long its kernel takes ring_time.c's.
 */
#include "plan/ring.h"

#include "plan/base.h"
#include "plan/explain.h"
#include "plan/family.h"
#include "plan/nvidia.h"

#include <inttypes.h>

#define WAVES_MAX   20    /* of a block: with more a launch gives a lane fewer than 96 registers */
#define SUMS_MAX    256   /* of 128 bytes each, in the table's free half */
#define KEPT_BYTES  49152 /* most, of sums of chunks before */
#define COLUMNS_MAX 512   /* of a consumer in a chunk, with several rows of A, */
#define COLUMNS_ONE 1280  /* and with one, whose values take an eighth of the registers */
#define ROW_WARPS   4     /* most */
#define SUMMERS_MAX 4
/* A shape is tried with every number of stages if it seems to take less than so much of the time of
 * the one that it would replace. */
#define PROMISE_PERCENT 108

static bool takes(const struct quern_problem *q, const struct target *t)
{
    return problem_has_activation(q) && q->a != QUERN_F32 && t->capabilities & CAP_BULK &&
           t->capabilities & CAP_MMA_16816;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

/* As many units as a block's scale may serve at once. The last block of a row may be smaller than
 * others where they are blocks of 128. */
static int span_of(const struct plan *p)
{
    const bool scales = nvidia_has_scales(p);
    const int64_t block = nvidia_in_blocks_of_128(p) ? PROBLEM_BLOCK : problem_group(&p->problem);
    int span = scales && !ring_one_row(p) ? p->ring.units : 1;

    while (p->ring.units % span ||
           (scales && (block % (span * p->ring.unit) || p->problem.k % (span * p->ring.unit))))
        span--;
    return span;
}

/* A batch of tiles that is taken through a chunk before the next. */
static int batch_of(const struct plan *p)
{
    const int64_t walk = ring_walk(p), most = KEPT_BYTES / ring_kept_bytes(p);

    return !ring_keeps_sums(p) ? 1 : (int)(walk < most ? walk : most);
}

/* Sets a number of stages, and what follows from it. */
static void set_stages(struct plan *p, int64_t other, int stages)
{
    p->ring.stages = stages;
    p->lds_bytes = nvidia_shared_bytes(p, other + stages * p->ring.stage_bytes);
    ring_estimate(p);
}

/* Whether any number of stages may be among the best shapes that there are, as two numbers of them
 * tell: the most that fit, which is best where memory is waited for, and three, or two, which is
 * best where loads of A are. That no other number is much better than both is a guess: of 3,956
 * random kernels none had another choice with all numbers tried (2026-11-29, before stages came in
 * portions). A wrong guess costs a slightly slower kernel. */
static bool stages_promise(struct plan *p, int64_t other, int most,
                           const struct model_ranking *ranking)
{
    const struct plan *const last = &ranking->best[ranking->count - 1];

    set_stages(p, other, most);
    if (model_faster(p, last, PROMISE_PERCENT))
        return true;
    set_stages(p, other, most > 3 ? 3 : 2);
    return model_faster(p, last, PROMISE_PERCENT);
}

/* Every number of stages that fits, for a shape that is set but for these. */
static void try_stages(struct plan *p, struct model_ranking *ranking)
{
    const int64_t other = ring_other_bytes(p);
    const int64_t fit = (p->target->lds_bytes - other) / p->ring.stage_bytes;
    const int most = fit < RING_STAGES_MAX ? (int)fit : RING_STAGES_MAX;

    if (most < 2 || (ranking->count == ranking->room && !stages_promise(p, other, most, ranking)))
        return;
    for (int stages = 2; stages <= most; stages++) {
        set_stages(p, other, stages);
        model_put(ranking, p);
    }
}

/* Every number of portions, for waves and units that are set. */
static void try_portions(struct plan *p, struct model_ranking *ranking)
{
    p->ring.batch = batch_of(p);
    p->walk_max = (int)ring_walk_max(p);
    p->ring.sum_buffers = 2 * ring_sums(p) <= SUMS_MAX ? 2 : 1;
    if (p->ring.sum_buffers * ring_sums(p) > SUMS_MAX || !p->ring.batch || !ring_cluster_fits(p) ||
        ring_registers(p) > ring_registers_max(p))
        return;

    for (p->ring.portions = 1; p->ring.portions <= RING_PORTIONS_MAX; p->ring.portions *= 2)
        if (ring_portions_fit(p))
            try_stages(p, ranking);
}

/* Columns of which each of four lanes has a quarter: 16 bytes of W where weights are numbers. */
static int unit_of(const struct quern_problem *q)
{
    return nvidia_weight_bits(q) == 16 || (problem_has_group(q) && problem_group(q) % 64) ? 32 : 64;
}

/* Every number of warps that add sums, for consumers that are set. One more costs no registers
 * while the four parts of a multiprocessor have not all as many warps. */
static void try_summers(struct plan *p, struct model_ranking *ranking)
{
    p->rows_per_workgroup = (int)ring_stage_rows(p);
    p->row_groups = model_ceil_div(p->problem.n, p->rows_per_workgroup);
    ring_lay_out(p);
    const int others = ring_consumers(p) + p->ring.producers;

    for (int add = 1; add <= SUMMERS_MAX && others + add <= WAVES_MAX; add++) {
        p->waves = others + add;
        if (p->waves % RING_PARTS == 0 || add == SUMMERS_MAX)
            try_portions(p, ranking);
    }
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;

    p.products = PRODUCTS_MMA;
    p.wave_size = p.target->wave_size;
    p.resident = 1;
    p.lds_at_launch = true;
    p.slices_first = true;
    p.ring.unit = unit_of(&p.problem);
    p.ring.row_bytes = nvidia_weight_bytes(&p.problem) / p.problem.n;
    p.estimate.memory_cycles = model_memory_cycles(&p, nvidia_weight_bytes(&p.problem));
    const int columns = ring_one_row(&p) ? COLUMNS_ONE : COLUMNS_MAX;
    /* Large numbers first, as good shapes have them, and others are then passed over early. */
    for (int rows = 1; rows <= ROW_WARPS; rows *= 2)
        for (int k = (WAVES_MAX - 2) / rows; k > 0; k--)
            for (int units = columns / p.ring.unit; units > 0; units--)
                for (p.cluster = 1; p.cluster <= RING_CLUSTER_MAX; p.cluster *= 2) {
                    p.ring.k_warps = k;
                    p.ring.row_warps = rows;
                    p.ring.units = units;
                    p.ring.span = span_of(&p);
                    p.ring.chunk = ring_chunk_of(&p);
                    if ((int64_t)(k - 1) * units * p.ring.unit < p.problem.k / p.cluster &&
                        ring_may_share_rows(&p))
                        try_summers(&p, ranking);
                }
}

/* ---- What is said of a kernel ---------------------------------------------------------------- */

static void explain(const struct plan *p, struct str *out)
{
    explain_plain(p,
                  nvidia_has_table(&p->problem)
                      ? "table of all pairs of codes, sums, weights on their way"
                      : "sums, weights on their way",
                  out);
}

static int64_t shown_cluster(const struct plan *p)
{
    return p->cluster > 1 ? p->cluster : 0;
}

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "K_WARPS", ring.k_warps, "that share rows, each with a part of K"),
     .word = "k_warps", .by_waves = true},
    {FIELD_AT(FIELD_NUMBER, "ROW_WARPS", ring.row_warps, "16 rows of W each, 8 for one row of A"),
     .word = "row_warps"},
    {FIELD_OF(FIELD_SHAPE, "CLUSTER", shown_cluster,
              "workgroups that share rows, each with a part of K; 0: none do"),
     .word = "cluster"},
    {FIELD_AT(FIELD_NUMBER, "UNITS", ring.units, "of a warp in a chunk of K"), .word = "units"},
    {FIELD_AT(FIELD_NUMBER, "UNIT", ring.unit, "columns")},
    {FIELD_AT(FIELD_NUMBER, "CHUNK", ring.chunk, "columns of K in a stage")},
    {FIELD_AT(FIELD_NUMBER, "SPAN", ring.span, "units that are scaled together")},
    {FIELD_AT(FIELD_NUMBER, "STAGES", ring.stages, "of the ring"), .word = "stages"},
    {FIELD_AT(FIELD_NUMBER, "PORTIONS", ring.portions, "of a stage, as its weights come"),
     .word = "portions"},
    {FIELD_AT(FIELD_NUMBER, "SCALE_ROWS", ring.scale_rows, "whose scales a copy has; 0: none")},
    {FIELD_AT(FIELD_BOOL, "WEIGHTS_ONCE", weights_once, "whether nothing reads them again soon")},
    {FIELD_AT(FIELD_NUMBER, "WALK_MAX", walk_max,
              "tiles that a workgroup can take; 0: any number")},
    {FIELD_AT(FIELD_NUMBER, "SECONDS", ring.seconds, "second-level scales of a tile; 0: not kept")},
    {FIELD_AT(FIELD_NUMBER, "BATCH", ring.batch, "tiles of rows taken through a chunk of K")},
    {FIELD_AT(FIELD_NUMBER, "PRODUCERS", ring.producers, "warps that start copies")},
    {FIELD_OF(FIELD_NUMBER, "SUMMERS", ring_summers, "warps that add sums and store C")},
    {FIELD_OF(FIELD_NUMBER, "CONSUMER_REGISTERS", ring_consumer_registers,
              "of a lane; 0: those of the launch")},
    {FIELD_OF(FIELD_NUMBER, "OTHER_REGISTERS", ring_other_registers, "likewise, of other warps'")},
    {FIELD_AT(FIELD_NUMBER, "SUM_BUFFERS", ring.sum_buffers, "of sums on their way there")},
    {0},
};

static const struct plan_fields fields[] = {{layer_fields},
                                            {nvidia_fields},
                                            {nvidia_number_fields},
                                            {tile_fields},
                                            {shape},
                                            {nvidia_grid_fields},
                                            {0}};

static const struct plan_template templates[] = {
    {"cuda/prelude/ptx"},
    {"cuda/prelude/layer"},
    {"cuda/prelude/glu", .when = field_has_act},
    {.choose = template_of_codes, .when = nvidia_has_blocks},
    {"cuda/prelude/scales", .when = nvidia_has_blocks},
    {.choose = nvidia_template_of_pairs},
    {"cuda/prelude/activations"},
    {.choose = nvidia_template_of_rows},
    {"cuda/prelude/store"},
    {"cuda/family/ring"},
    {0}};

/* Base kernels do without one for one row, as which layers they will serve is not known. So do
 * weights with scales of A in blocks, and mixtures of fp8, whose blocks of rows must be the same
 * for all kinds of scales. */
static const int *tiles(const struct quern_problem *problem)
{
    static const int rows[] = {1, 8, 16, RING_ROWS_MAX, 0};
    const bool mixture_of_fp8 = problem->op == QUERN_OP_MOE && problem->wq == QUERN_W_FP8;

    return problem->scale == QUERN_SCALE_BLOCK128 || mixture_of_fp8 || problem->kernels ? rows + 1
                                                                                        : rows;
}

const struct family family_ring = {
    .name = "ring",
    .units = PLAN_UNITS_MATRIX,
    .takes = takes,
    .accepts = nvidia_accepts,
    .candidates = candidates,
    .m_tiles = tiles,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .base_rows = 1,
    .shares_out = true,
    .predequant = SWITCH_OFF,
    .very_processor = ring_hands_over,
    .registers = ring_shared_registers,
};
