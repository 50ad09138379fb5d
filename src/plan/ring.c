/* SPDX-License-Identifier: MIT */
/*
 * Candidates and times of the family ring, products of few rows on NVIDIA's matrix units. A step
 * of a multiprocessor is modelled as whichever takes longest of four: shared memory, the issue of
 * instructions, a consumer's chain of them, and the warps that add sums. A kernel takes its steps
 * or its share of memory, whichever is longer, after its launch and its loads of A. Constants are
 * fitted to what kernels took on an H200 (docs/notebook/ring.md).
 */
#include "plan/base.h"
#include "plan/explain.h"
#include "plan/family.h"
#include "plan/nvidia.h"

#include <inttypes.h>

/* What a multiprocessor has: warps of a block, of whose registers each of four parts has a fourth.
 */
#define WAVES_MAX 20
#define PARTS     4

#define TABLE_BYTES 65536 /* half of it free for sums */
#define SUMS_MAX    256   /* of 128 bytes each, in that half */
#define KEPT_BYTES  49152 /* most, of sums of chunks before */
#define STAGES_MAX  6
#define COLUMNS_MAX 512 /* of a consumer in a chunk */
#define ROW_WARPS   4   /* most */
#define SUMMERS_MAX 4
/* That a multiprocessor should have asked for at any time: of numbers, and of codes in blocks,
 * whose decoding takes longer than memory does. */
#define FLIGHT_BYTES        98304
#define FLIGHT_BYTES_BLOCKS 40960

/* Cycles at 1.98 GHz, fitted to 733 kernels of 21 layers and M = 8, 16 and 32: 88 % of them took
 * what follows from these within 15 % (docs/notebook/ring.md, 2026-11-23). */
#define LAUNCH_CYCLES    5000 /* launch, table, first bytes, last sums */
#define LOAD_CYCLES      470  /* to load A of a chunk, besides its bytes */
#define LOAD_BYTES       45   /* of A that a multiprocessor loads in a cycle */
#define TABLE_CYCLES     211  /* of a warp for the look-ups of 64 columns behind others */
#define MASKS_CYCLES     202  /* for decoding as many by masks */
#define FP8_CYCLES       180  /* for widening as many e4m3 */
#define LOAD_64_CYCLES   80   /* for loading as many of 16 bits, which need no decoding */
#define PRODUCT_CYCLES   28   /* and for their products with eight rows of A */
#define SCALE_CYCLES     7    /* for scaling a block's sums with eight rows of A */
#define STEP_CYCLES      268  /* of a warp in a step besides: barriers, addresses */
#define STEP_ROWS_CYCLES 68   /* and for handing over sums of eight rows of A */
#define PART_CYCLES      142  /* of a warp that adds sums, for 16 rows of W and eight of A */
#define SUM_CYCLES       26   /* and for those of each consumer */
#define RAGGED_PERCENT   140  /* of a warp's cycles, where a chunk does not divide K */
/* For one row of A, whose units are a loop in the code (2026-11-28, 2026-11-29). */
#define ONE_ROW_PERCENT 86 /* of a warp's cycles */
#define ONE_ROW_SMALL   30 /* of a warp for each unit, besides, where units have 32 columns */
#define FEW_PERCENT     80 /* of multiprocessors at work, or fewer, leave memory to each other */
#define ALONE_BYTES     31 /* of W that each of those then gets in a cycle */

static bool takes(const struct quern_problem *q, const struct target *t)
{
    return problem_has_activation(q) && q->a != QUERN_F32 && t->capabilities & CAP_BULK &&
           t->capabilities & CAP_MMA_16816;
}

/* ---- What follows from a shape --------------------------------------------------------------- */

static int m_tiles(const struct plan *p)
{
    return (p->m_tile + 7) / 8;
}

static int consumers(const struct plan *p)
{
    return p->ring.k_warps * p->ring.row_warps;
}

static int64_t summers(const struct plan *p)
{
    return p->waves - consumers(p) - 1;
}

static int64_t chunk(const struct plan *p)
{
    return (int64_t)p->ring.k_warps * p->ring.units * p->ring.unit;
}

static int64_t chunks(const struct plan *p)
{
    return model_ceil_div(p->problem.k, chunk(p));
}

/* Of a row of W. */
static int64_t unit_bytes(const struct plan *p)
{
    return p->ring.unit * (int64_t)nvidia_weight_bits(&p->problem) / 8;
}

static int64_t stage_bytes(const struct plan *p)
{
    return p->rows_per_workgroup * (int64_t)((p->ring.k_warps * p->ring.units) | 1) * unit_bytes(p);
}

/* Of the sums of a tile, over all its consumers that share rows. */
static int64_t kept_bytes(const struct plan *p)
{
    return (int64_t)p->ring.row_warps * m_tiles(p) * 512;
}

/* Of sums on their way from consumers to summers, of 128 bytes each. */
static int64_t sums(const struct plan *p)
{
    return (int64_t)consumers(p) * m_tiles(p) * 4;
}

/* Whether shared memory has room for sums of chunks before. A base kernel may meet any K. */
static bool keeps_sums(const struct plan *p)
{
    return chunks(p) > 1 || plan_is_base(p);
}

/* Shared memory but for the stages: the table, or the sums that would be in it, sums of chunks
 * before, codes, barriers. */
static int64_t other_bytes(const struct plan *p)
{
    return (nvidia_has_table(&p->problem) ? TABLE_BYTES : p->ring.sum_buffers * sums(p) * 128) +
           (keeps_sums(p) ? p->ring.batch * kept_bytes(p) : 0) + nvidia_codes_bytes(&p->problem) +
           (STAGES_MAX + 2) * 16;
}

/* Whether the kernel is for one row of A, whose values of eight units then take the registers of
 * one. */
static bool one_row(const struct plan *p)
{
    return p->m_tile == 1;
}

/* Registers of a consumer: A, sums and those of a block, scales of two rows in this step and the
 * next, and what addresses take. For one row, A and scales of eight units at a time, and 60 for the
 * rest, of which the sums of four units take 16. */
static uint32_t registers(const struct plan *p)
{
    const uint32_t spans = (uint32_t)(p->ring.units / p->ring.span), tiles = (uint32_t)m_tiles(p);
    const uint32_t sets = (uint32_t)(p->ring.units + 7) / 8;

    if (one_row(p))
        return sets * ((uint32_t)p->ring.unit / 8 + 2 * nvidia_scale_bytes(&p->problem)) + 60;
    return (uint32_t)(p->ring.units * p->ring.unit) / 8 * tiles + 8 * tiles +
           spans * nvidia_scale_bytes(&p->problem) +
           (p->problem.scale == QUERN_SCALE_NESTED ? 8 : 0) +
           (p->problem.wq == QUERN_W_INT4 ? 2 * tiles * spans : 0) +
           (p->problem.zero > QUERN_ZERO_NONE ? 4 * spans : 0) +
           (nvidia_in_blocks_of_128(p) && p->problem.a == QUERN_DT_FP8 ? 2 * tiles * spans : 0) +
           36;
}

/* Most that each lane of so many warps can have. */
static uint32_t registers_max(const struct plan *p)
{
    const int together = (p->waves + PARTS - 1) / PARTS;
    const unsigned most = p->target->vgprs / (unsigned)together / 8 * 8;

    return most > 255 ? 255 : most;
}

/* ---- Estimate -------------------------------------------------------------------------------- */

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Instructions of a warp that make a pair of weights: an address and a load, or a shift and a mask;
 * a conversion of two e4m3, and to bf16 three more; none where the words of W are pairs. */
static int pair_slots(const struct plan *p)
{
    const unsigned bits = nvidia_weight_bits(&p->problem);

    return bits == 4 ? 2 : bits == 16 ? 0 : p->problem.a == QUERN_BF16 ? 4 : 1;
}

/* And for one unit of 16 rows: its pairs, products, scaling. */
static int64_t unit_slots(const struct plan *p)
{
    const int scaling = nvidia_has_scales(p) ? 4 * m_tiles(p) / p->ring.span + 4 : 0;

    return pair_slots(p) * (p->ring.unit / 4) + 2 + p->ring.unit / 16 * m_tiles(p) + scaling;
}

/* Cycles of a multiprocessor in a step: a stage is decoded and multiplied. Shared memory was seen
 * to give half a wavefront a cycle, and a slot of those counted here to take 5/6 of a cycle. Where
 * a chunk does not divide K, each unit is behind a branch, across which nothing is scheduled. */
static int64_t step_cycles(const struct plan *p)
{
    const int64_t units = (int64_t)consumers(p) * p->ring.units, tiles = m_tiles(p);
    const unsigned bits = nvidia_weight_bits(&p->problem);
    const bool table = nvidia_has_table(&p->problem);
    const int decode = table       ? TABLE_CYCLES
                       : bits == 4 ? MASKS_CYCLES
                       : bits == 8 ? FP8_CYCLES
                                   : LOAD_64_CYCLES;
    const int64_t wavefronts =
        (table ? units * p->ring.unit / 4 : 0) + units * unit_bytes(p) / 8 + 2 * sums(p);
    const int64_t slots = units * unit_slots(p) + 8 * tiles * consumers(p);
    const int64_t parts = model_ceil_div(p->ring.row_warps * tiles, summers(p));
    const int64_t summing = parts * (PART_CYCLES + p->ring.k_warps * SUM_CYCLES);
    int64_t chain =
        (int64_t)p->ring.units * p->ring.unit * (decode + PRODUCT_CYCLES * tiles) / 64 +
        (nvidia_has_scales(p) ? p->ring.units / p->ring.span * SCALE_CYCLES * tiles : 0) +
        STEP_CYCLES + STEP_ROWS_CYCLES * tiles;

    if (p->problem.k % chunk(p))
        chain = chain * RAGGED_PERCENT / 100;
    else if (one_row(p))
        chain = chain * ONE_ROW_PERCENT / 100 +
                (p->ring.unit == 32 ? p->ring.units * ONE_ROW_SMALL : 0);
    if (p->ring.sum_buffers == 1)
        chain += summing;
    return largest(largest(2 * wavefronts, slots * 5 / 6), largest(chain, summing));
}

static void estimate(struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const struct target *const t = p->target;
    struct plan_estimate *const e = &p->estimate;
    const struct target_fill fill = target_fill(t, (uint64_t)(p->row_groups * model_together(p)));
    const int64_t steps = (int64_t)fill.fullest * chunks(p);
    const int64_t in_flight = (p->ring.stages - 1) * stage_bytes(p);

    e->vgprs = registers(p);
    const int64_t held = t->cus / model_together(p) ? t->cus / model_together(p) : 1;
    e->workgroups = p->row_groups < held ? p->row_groups : held;
    e->walk = (int64_t)fill.fullest;
    e->waves_per_simd = (uint32_t)((p->waves + PARTS - 1) / PARTS);
    e->busy_percent = fill.percent;
    e->fills = true;
    e->streams = true;
    e->close = true;
    e->bytes_in_flight = in_flight;
    e->step_slots = (uint32_t)(p->ring.units * unit_slots(p));
    e->setup_slots = 300;
    e->slots = p->row_groups * chunks(p) * consumers(p) * p->ring.units * unit_slots(p);
    e->busy_cycles = e->slots * model_together(p);
    e->memory_cycles = model_memory_cycles(p, nvidia_weight_bytes(q));
    /* Its share of memory, the last round of tiles counted whole. Where few multiprocessors have a
     * tile at all, each gets more than a share: 1024x4096 keeps 64 of 132 busy, and for NF4, e4m3
     * and bf16 at M = 1 each of these got 30 to 31 bytes a cycle behind launch and loads. */
    const int64_t sustained = e->memory_cycles * 100 / target_sustained_percent(t);
    const int64_t alone = p->rows_per_workgroup * (nvidia_weight_bytes(q) / q->n) / ALONE_BYTES;
    const bool few = fill.fullest == 1 && fill.percent <= FEW_PERCENT;
    const int64_t memory =
        few ? largest(sustained, alone) : sustained * 100 / (fill.percent ? fill.percent : 1);
    const int64_t loads =
        chunks(p) == 1 ? 1 : chunks(p) * model_ceil_div((int64_t)fill.fullest, p->ring.batch);
    int64_t body = largest(steps * step_cycles(p), memory);
    /* A kernel that has little under way waits for memory: one of NF4 with 33 KB was seen to take
     * 2 % longer than one with 41, one of bf16 with 66 KB 6 % longer than one with 140; but many
     * small stages cost small layers as much. */
    const int64_t flight = nvidia_has_blocks(p) ? FLIGHT_BYTES_BLOCKS : FLIGHT_BYTES;
    if (in_flight < flight)
        body += body * (flight - in_flight) / (8 * flight);
    e->kernel_cycles =
        LAUNCH_CYCLES + loads * (LOAD_CYCLES + p->m_tile * 2 * chunk(p) / LOAD_BYTES) + body;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

/* As many units as a block's scale may serve at once. The last block of a row may be smaller than
 * others where they are blocks of 128. */
static int span_of(const struct plan *p)
{
    const bool scales = nvidia_has_scales(p);
    const int64_t block = nvidia_in_blocks_of_128(p) ? PROBLEM_BLOCK : problem_group(&p->problem);
    int span = scales && !one_row(p) ? p->ring.units : 1;

    while (p->ring.units % span ||
           (scales && (block % (span * p->ring.unit) || p->problem.k % (span * p->ring.unit))))
        span--;
    return span;
}

/* A batch of tiles that is taken through a chunk before the next. */
static int batch_of(const struct plan *p)
{
    const int64_t walk = model_ceil_div(p->row_groups * model_together(p), p->target->cus);
    const int64_t most = KEPT_BYTES / kept_bytes(p);

    return !keeps_sums(p) ? 1 : (int)(walk < most ? walk : most);
}

/* Every number of stages that fits, for waves and units that are set. Of equals the fewest count:
 * what shared memory leaves is the first cache's, which A and scales are read through. */
static void try_stages(struct plan *p, struct model_ranking *ranking)
{
    p->ring.span = span_of(p);
    p->rows_per_workgroup = 16 * p->ring.row_warps;
    p->row_groups = model_ceil_div(p->problem.n, p->rows_per_workgroup);
    p->ring.batch = batch_of(p);
    p->ring.sum_buffers = 2 * sums(p) <= SUMS_MAX ? 2 : 1;
    if (p->ring.sum_buffers * sums(p) > SUMS_MAX || !p->ring.batch ||
        registers(p) > registers_max(p))
        return;
    for (p->ring.stages = 2; p->ring.stages <= STAGES_MAX; p->ring.stages++) {
        const int64_t bytes = other_bytes(p) + p->ring.stages * stage_bytes(p);
        if (bytes > p->target->lds_bytes)
            continue;
        p->lds_bytes = (uint32_t)bytes;
        estimate(p);
        model_put(ranking, p);
    }
}

/* Columns of which each of four lanes has a quarter: 16 bytes of W where weights are numbers. */
static int unit_of(const struct quern_problem *q)
{
    return nvidia_weight_bits(q) == 16 || (problem_has_group(q) && problem_group(q) % 64) ? 32 : 64;
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
    for (int rows = 1; rows <= ROW_WARPS; rows *= 2)
        for (int k = 1; k * rows <= WAVES_MAX - 2; k++)
            for (int units = 1; units * p.ring.unit <= COLUMNS_MAX; units++)
                for (int add = 1; add <= SUMMERS_MAX && k * rows + 1 + add <= WAVES_MAX; add++) {
                    /* one more costs no registers while the four parts have not all as many */
                    if ((k * rows + 1 + add) % PARTS && add < SUMMERS_MAX)
                        continue;
                    p.ring.k_warps = k;
                    p.ring.row_warps = rows;
                    p.ring.units = units;
                    p.waves = k * rows + 1 + add;
                    if ((int64_t)(k - 1) * units * p.ring.unit < p.problem.k)
                        try_stages(&p, ranking);
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

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "K_WARPS", ring.k_warps, "that share rows, each with a part of K"),
     .word = "k_warps", .by_waves = true},
    {FIELD_AT(FIELD_NUMBER, "ROW_WARPS", ring.row_warps, "16 rows of W each, at a time"),
     .word = "row_warps"},
    {FIELD_AT(FIELD_NUMBER, "UNITS", ring.units, "of a warp in a chunk of K"), .word = "units"},
    {FIELD_AT(FIELD_NUMBER, "UNIT", ring.unit, "columns")},
    {FIELD_AT(FIELD_NUMBER, "SPAN", ring.span, "units that are scaled together")},
    {FIELD_AT(FIELD_NUMBER, "STAGES", ring.stages, "of the ring"), .word = "stages"},
    {FIELD_AT(FIELD_NUMBER, "BATCH", ring.batch, "tiles of rows taken through a chunk of K")},
    {FIELD_OF(FIELD_NUMBER, "SUMMERS", summers, "warps that add sums and store C")},
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
    {"cuda/family/ring"},
    {0}};

/* A kernel for one row pays for codes of a table: by masks its loop took 19.9 us for 18.2 (int4,
 * 28672x4096). Base kernels do without: which layers they will serve is not known. */
static const int *tiles(const struct quern_problem *problem)
{
    static const int rows[] = {1, 8, 16, 32, 0};

    return nvidia_has_table(problem) && !problem->kernels ? rows : rows + 1;
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
};
