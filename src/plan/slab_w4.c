/* SPDX-License-Identifier: MIT */
/*
 * Candidates and times of the family slab_w4, products of more than a few rows on NVIDIA's matrix
 * units that four warps feed together. A step of a multiprocessor is modelled as what its warps
 * take to decode and multiply their units, and what A takes on its way; a kernel takes its steps or
 * its share of memory, whichever is longer, after its launch. Constants are fitted to what kernels
 * took on an H200 (docs/notebook/slab_w4.md).
 */
#include "plan/explain.h"
#include "plan/family.h"
#include "plan/nvidia.h"

#define TABLE_BYTES 65536
#define SUMS_MAX    256 /* of 128 bytes each, in the half of the table that is free */
#define STAGES_MAX  6
#define GROUPS_MAX  4 /* of four warps */
#define ROWS_MAX    256
#define UNIT        64   /* columns */
#define UNITS_MAX   8    /* in a chunk, */
#define OWN_MAX     4    /* and of a group of warps there */
#define BATCH       4096 /* numbers of A that a warp has under way */
#define PARTS       4 /* of a multiprocessor, which have a fourth of its warps and registers each */

/* Cycles at 1.98 GHz, fitted to 40 kernels of six layers and M = 32 and 64: all but four took what
 * follows from these within 20 % (docs/notebook/slab_w4.md, 2026-11-23). POWER_CYCLES came later:
 * MXFP4 takes 1.05 to 1.18 of NF4's time at M = 32 (docs/hardware/h200-2026-11-28.md). */
#define LAUNCH_CYCLES 7000  /* launch, table, first bytes, last sums */
#define WARP_CYCLES   57    /* for a unit of each warp that multiplies and has rows of W, */
#define POWER_CYCLES  9     /* and more of MXFP4, whose scales are of 32 columns */
#define MATRIX_CYCLES 75    /* for the products of 1000 numbers of A, */
#define FILL_CYCLES   415   /* and for a warp to put as many into the ring */
#define STEP_CYCLES   200   /* for a stage besides: barriers, the first loads from it */
#define FLIGHT_BYTES  32768 /* of weights that a multiprocessor should have asked for */
#define SUSTAINED     90    /* percent of memory's peak, less than streams get */

/* A of f16 is not taken: scales of 16-bit floats have to be small or large at times, and the
 * weights that this family makes would be out of f16's range. */
static bool takes(const struct quern_problem *q, const struct target *t)
{
    return problem_has_group(q) && problem_has_activation(q) && q->a == QUERN_BF16 &&
           q->k % UNIT == 0 && t->capabilities & CAP_WARPGROUPS;
}

/* ---- What follows from a shape --------------------------------------------------------------- */

static int64_t slabs(const struct plan *p)
{
    return model_ceil_div(p->rows_per_workgroup, 64);
}

static int64_t chunk(const struct plan *p)
{
    return (int64_t)p->slab.k_parts * p->slab.units * UNIT;
}

static int64_t chunks(const struct plan *p)
{
    return model_ceil_div(p->problem.k, chunk(p));
}

static int64_t stage_bytes(const struct plan *p)
{
    return p->m_tile * chunk(p) * 2 + p->rows_per_workgroup * chunk(p) / 2;
}

static int groups(const struct plan *p)
{
    return (int)slabs(p) * p->slab.k_parts;
}

/* Warps that fill the ring with A: those that neither multiply nor fill it with weights. */
static int a_warps(const struct plan *p)
{
    return p->waves - groups(p) * 4 - 1;
}

/* Batches of A in a stage, each of which one warp loads. */
static int64_t batches(const struct plan *p)
{
    return p->m_tile * chunk(p) / BATCH;
}

/* Of sums that groups exchange, of 128 bytes each. */
static int64_t exchanged(const struct plan *p)
{
    return (p->slab.k_parts - 1) * slabs(p) * 4 * (p->m_tile / 2);
}

static int64_t other_bytes(const struct plan *p)
{
    const int64_t sums = (exchanged(p) * 128 + 1023) / 1024 * 1024;

    return (nvidia_has_table(&p->problem) ? TABLE_BYTES : sums) + nvidia_codes_bytes(&p->problem) +
           STAGES_MAX * 16 + (p->block_rows ? p->m_tile * 4 : 0);
}

/* Registers of a warp that multiplies, at most: sums, packed weights of a step's units, which the
 * compiler may load ahead, scales of two rows in this step and the next, two sets of decoded
 * weights, addresses. */
static int registers(const struct plan *p)
{
    const int units = p->slab.units;

    return p->m_tile / 2 + 4 * units + 32 +
           units * (int)(nvidia_scale_bytes(&p->problem) + (p->problem.zero ? 2 : 0)) + 16;
}

/* Most that each lane of so many warps can have. */
static int registers_max(const struct plan *p)
{
    return (int)p->target->vgprs / ((p->waves + PARTS - 1) / PARTS) / 8 * 8;
}

/* ---- Estimate -------------------------------------------------------------------------------- */

/* Instructions of a warp for one unit of 16 rows: an address, a load and a scaling for each pair,
 * packed weights, products. */
static int64_t unit_slots(const struct plan *p)
{
    return 16 * (nvidia_has_table(&p->problem) ? 3 : 4) + 2 + 4 + 8;
}

static void estimate(struct plan *p)
{
    const struct target *const t = p->target;
    struct plan_estimate *const e = &p->estimate;
    const struct target_fill fill = target_fill(t, (uint64_t)(p->row_groups * model_together(p)));
    const int64_t steps = (int64_t)fill.fullest * chunks(p);
    const int64_t warps = p->rows_per_workgroup / 16 * p->slab.k_parts;
    const int64_t numbers = chunk(p) * p->m_tile; /* of A in a stage */
    const int power = p->problem.wq == QUERN_W_MXFP4 ? POWER_CYCLES : 0;
    const int64_t multiply =
        p->slab.units * (WARP_CYCLES + power) * warps + numbers * MATRIX_CYCLES / 1000;
    const int64_t fill_a = numbers * FILL_CYCLES / 1000 / a_warps(p);
    const int64_t step = STEP_CYCLES + (multiply > fill_a ? multiply : fill_a);

    e->vgprs = (uint32_t)registers(p);
    const int64_t held = t->cus / model_together(p) ? t->cus / model_together(p) : 1;
    e->workgroups = p->row_groups < held ? p->row_groups : held;
    e->walk = (int64_t)fill.fullest;
    e->waves_per_simd = (uint32_t)((p->waves + PARTS - 1) / PARTS);
    e->busy_percent = fill.percent;
    e->fills = true;
    e->streams = true;
    e->close = true;
    e->bytes_in_flight = (p->slab.stages - 1) * p->rows_per_workgroup * chunk(p) / 2;
    e->step_slots = (uint32_t)(p->slab.units * unit_slots(p));
    e->setup_slots = 300;
    e->slots =
        p->row_groups * chunks(p) * slabs(p) * 4 * p->slab.k_parts * p->slab.units * unit_slots(p);
    e->busy_cycles = e->slots * model_together(p);
    e->memory_cycles = model_memory_cycles(p, nvidia_weight_bytes(&p->problem));
    const int64_t memory =
        e->memory_cycles * 100 / SUSTAINED * 100 / (fill.percent ? fill.percent : 1);
    int64_t body = steps * step > memory ? steps * step : memory;
    if (e->bytes_in_flight < FLIGHT_BYTES) /* what is not under way is waited for */
        body += body * (FLIGHT_BYTES - e->bytes_in_flight) / (8 * FLIGHT_BYTES);
    e->kernel_cycles = LAUNCH_CYCLES + body;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

static void try_stages(struct plan *p, struct model_ranking *ranking)
{
    p->row_groups = model_ceil_div(p->problem.n, p->rows_per_workgroup);
    if (registers(p) > registers_max(p) ||
        (nvidia_has_table(&p->problem) && exchanged(p) > SUMS_MAX))
        return;
    for (p->slab.stages = 2; p->slab.stages <= STAGES_MAX; p->slab.stages++) {
        if (a_warps(p) > p->slab.stages * batches(p))
            continue; /* a warp may not skip more stages than the ring has */
        const int64_t bytes = other_bytes(p) + p->slab.stages * stage_bytes(p);
        if (bytes > p->target->lds_bytes)
            return;
        p->lds_bytes = nvidia_shared_bytes(p, bytes);
        estimate(p);
        model_put(ranking, p);
    }
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;

    p.products = PRODUCTS_MMA;
    p.wave_size = p.target->wave_size;
    p.resident = 1;
    p.cluster = 1;
    p.walk_max = 0;
    p.lds_at_launch = true;
    p.slices_first = true;
    for (int rows = 16; rows <= ROWS_MAX; rows += 16)
        for (p.slab.k_parts = 1; p.slab.k_parts <= GROUPS_MAX; p.slab.k_parts *= 2)
            for (p.slab.units = 1;
                 p.slab.units <= OWN_MAX && p.slab.units * p.slab.k_parts <= UNITS_MAX;
                 p.slab.units *= 2) {
                p.rows_per_workgroup = rows;
                if (p.slab.units * p.slab.k_parts == 1 || groups(&p) > GROUPS_MAX)
                    continue;
                /* With these and the one for weights, warps are a multiple of the multiprocessor's
                 * parts: one warp less would free no registers. Seven beside twelve that multiply
                 * would leave those too few. */
                for (int fill = PARTS - 1; fill <= (groups(&p) > 2 ? 3 : 7); fill += PARTS) {
                    p.waves = groups(&p) * 4 + 1 + fill;
                    try_stages(&p, ranking);
                }
            }
}

/* ---- What is said of a kernel ---------------------------------------------------------------- */

static void explain(const struct plan *p, struct str *out)
{
    explain_plain(p,
                  nvidia_has_table(&p->problem)
                      ? "table of all pairs of codes, weights and A on their way"
                      : "weights and A on their way",
                  out);
}

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "ROWS", rows_per_workgroup, "of W at a time, in slabs of 64"),
     .word = "rows"},
    {FIELD_AT(FIELD_NUMBER, "K_PARTS", slab.k_parts, "groups of four warps that share a slab"),
     .word = "k_parts"},
    {FIELD_AT(FIELD_NUMBER, "UNITS", slab.units, "of 64 columns, of a group in a chunk of K"),
     .word = "units"},
    {FIELD_AT(FIELD_NUMBER, "STAGES", slab.stages, "of the ring"), .word = "stages"},
    {0},
};

static const struct plan_fields fields[] = {{layer_fields}, {nvidia_fields},      {tile_fields},
                                            {shape},        {nvidia_grid_fields}, {0}};

static const struct plan_template templates[] = {{"cuda/prelude/ptx"},
                                                 {"cuda/prelude/warpgroup"},
                                                 {"cuda/prelude/layer"},
                                                 {"cuda/prelude/glu", .when = field_has_act},
                                                 {.choose = template_of_codes},
                                                 {"cuda/prelude/scales"},
                                                 {.choose = nvidia_template_of_pairs},
                                                 {"cuda/prelude/activations"},
                                                 {.choose = nvidia_template_of_rows},
                                                 {"cuda/prelude/store"},
                                                 {"cuda/family/slab_w4"},
                                                 {0}};

static bool very_processor(const struct plan *p)
{
    (void)p;
    return true; /* wgmma */
}

static const int *tiles(const struct quern_problem *problem)
{
    static const int rows[] = {32, 64, 0};

    (void)problem;
    return rows;
}

const struct family family_slab_w4 = {
    .name = "slab_w4",
    .units = PLAN_UNITS_TILES,
    .takes = takes,
    .accepts = nvidia_accepts,
    .candidates = candidates,
    .m_tiles = tiles,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .predequant = SWITCH_ON,
    .very_processor = very_processor,
    .shares_out = true,
};
