/* SPDX-License-Identifier: MIT */
/*
 * The family lane_w4, products in f32 on NVIDIA's vector units: for A of f32, which no matrix unit
 * takes whole, and for GPUs without the copies that ring is made of. Its shapes differ in rows
 * and warps alone, since no speed is asked of it.
 */
#include "plan/explain.h"
#include "plan/family.h"
#include "plan/nvidia.h"

#define WAVES       8
#define ROWS_MAX    4
#define SETUP_SLOTS 120

static bool takes(const struct quern_problem *q, const struct target *t)
{
    const bool by_ring =
        q->a != QUERN_F32 && t->capabilities & CAP_BULK && t->capabilities & CAP_MMA_16816;

    return problem_has_group(q) && problem_has_activation(q) && !by_ring;
}

/* Instructions of a warp for eight weights a lane of each of its rows. */
static int step_slots(const struct plan *p)
{
    return p->m_tile * (p->problem.a == QUERN_F32 ? 10 : 14) +
           p->lane_w4.rows * (30 + p->m_tile * 9);
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;
    const struct quern_problem *const q = &p.problem;
    const struct target *const t = p.target;
    struct plan_estimate *const e = &p.estimate;

    p.products = PRODUCTS_PLAIN;
    p.wave_size = t->wave_size;
    p.waves = WAVES;
    p.slices_first = true;
    p.lds_at_launch = true;
    p.lds_bytes = (uint32_t)nvidia_values_bytes(q);
    const int least = model_least_rows(&p);

    for (p.lane_w4.rows = ROWS_MAX; p.lane_w4.rows >= least; p.lane_w4.rows /= 2) {
        p.rows_per_workgroup = p.waves * p.lane_w4.rows;
        p.row_groups = model_ceil_div(q->n, p.rows_per_workgroup);
        if (p.row_groups > PLAN_GRID_Y_MAX)
            p.slices_first = false;
        const struct target_fill fill =
            target_fill(t, (uint64_t)(p.row_groups * model_together(&p)));
        const int64_t steps = model_ceil_div(q->k, 256);
        e->vgprs = (uint32_t)(40 + p.m_tile * (8 + p.lane_w4.rows));
        e->workgroups = p.row_groups;
        e->waves_per_simd = WAVES / 2;
        e->busy_percent = fill.percent;
        e->fills = model_busy(&p, MODEL_BUSY_PERCENT, p.rows_per_workgroup);
        e->streams = true;
        e->step_slots = (uint32_t)step_slots(&p);
        e->setup_slots = SETUP_SLOTS;
        e->slots = p.row_groups * WAVES * (SETUP_SLOTS + steps * e->step_slots);
        e->busy_cycles = e->slots * model_together(&p);
        e->kernel_cycles = (int64_t)fill.fullest * WAVES *
                           (SETUP_SLOTS + steps * (int64_t)e->step_slots) / (int64_t)t->simds;
        e->memory_cycles = model_memory_cycles(&p, nvidia_weight_bytes(q));
        model_put(ranking, &p);
    }
}

static void explain(const struct plan *p, struct str *out)
{
    explain_plain(p, "the sixteen values, a copy for each lane", out);
}

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "ROWS", lane_w4.rows, "of W that a warp works on"), .word = "rows"},
    {0},
};

static const struct plan_fields fields[] = {{layer_fields}, {nvidia_fields},      {tile_fields},
                                            {shape},        {nvidia_grid_fields}, {0}};

static const struct plan_template templates[] = {{"cuda/prelude/ptx"},
                                                 {"cuda/prelude/layer"},
                                                 {"cuda/prelude/glu", .when = field_has_act},
                                                 {.choose = template_of_codes},
                                                 {"cuda/prelude/scales"},
                                                 {"cuda/prelude/codes"},
                                                 {.choose = nvidia_template_of_rows},
                                                 {"cuda/family/lane_w4"},
                                                 {0}};

static const int *tiles(const struct quern_problem *problem)
{
    static const int rows[] = {1, 4, 0};

    (void)problem;
    return rows;
}

const struct family family_lane_w4 = {
    .name = "lane_w4",
    .units = PLAN_UNITS_VECTOR,
    .takes = takes,
    .accepts = nvidia_accepts,
    .candidates = candidates,
    .m_tiles = tiles,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .base_rows = 1,
    .predequant = SWITCH_OFF,
};
