/* SPDX-License-Identifier: MIT */
/* The family lane_dequant, op=dequant on NVIDIA, has one shape: memory bounds it. */
#include "plan/explain.h"
#include "plan/family.h"
#include "plan/nvidia.h"

#include <inttypes.h>

#define WAVES       8
#define CHUNKS      4  /* of eight weights that a lane takes */
#define CHUNK_SLOTS 60 /* instructions of a warp for one of each lane */
#define SETUP_SLOTS 60

static bool takes(const struct quern_problem *q, const struct target *t)
{
    return q->op == QUERN_OP_DEQUANT && (problem_has_group(q) || t->capabilities & CAP_MMA_FP8);
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;
    const struct quern_problem *const q = &p.problem;
    const struct target *const t = p.target;
    struct plan_estimate *const e = &p.estimate;
    const int64_t weights = q->n * q->k, group = (int64_t)WAVES * t->wave_size * CHUNKS * 8;

    p.wave_size = t->wave_size;
    p.waves = WAVES;
    p.dequant.chunks = CHUNKS;
    p.weights_once = true;
    p.lds_at_launch = true;
    p.lds_bytes = problem_has_group(q) ? (uint32_t)nvidia_values_bytes(q) : 0;
    e->workgroups = p.row_groups = model_ceil_div(weights, group);
    const struct target_fill fill = target_fill(t, (uint64_t)e->workgroups);
    const int64_t wave_slots = SETUP_SLOTS + CHUNKS * CHUNK_SLOTS;
    e->vgprs = 40;
    e->waves_per_simd = WAVES;
    e->step_slots = CHUNK_SLOTS;
    e->setup_slots = SETUP_SLOTS;
    e->slots = e->workgroups * WAVES * wave_slots;
    e->busy_percent = fill.percent;
    e->kernel_cycles = (int64_t)fill.fullest * WAVES * wave_slots / (int64_t)t->simds;
    e->memory_cycles = (int64_t)target_memory_cycles(
        t, (double)(nvidia_weight_bytes(q) + weights * dtype_bytes(q->c)));
    model_put(ranking, &p);
}

static void explain(const struct plan *p, struct str *out)
{
    const struct target *const t = p->target;

    explain_begin_any(p, out);
    str_addf(out, "  model      %.1f us of memory at %.0f GB/s, %" PRId64 " workgroups\n",
             target_microseconds(t, (double)p->estimate.memory_cycles), t->bandwidth_gbs,
             p->estimate.workgroups);
}

static const struct plan_field shape[] = {
    {.kind = FIELD_BLANK},
    {FIELD_AT(FIELD_NUMBER, "WAVES", waves, "in a workgroup"), .word = "waves"},
    {FIELD_AT(FIELD_NUMBER, "CHUNKS", dequant.chunks, "of eight weights that a lane takes"),
     .word = "chunks"},
    {0},
};

static const struct plan_fields fields[] = {
    {layer_fields}, {nvidia_fields}, {nvidia_number_fields}, {shape}, {nvidia_grid_fields}, {0}};

static bool are_numbers(const struct plan *p)
{
    return !nvidia_has_blocks(p);
}

static const struct plan_template templates[] = {
    {"cuda/prelude/ptx"},
    {"cuda/prelude/layer"},
    {.choose = template_of_codes, .when = nvidia_has_blocks},
    {"cuda/prelude/scales", .when = nvidia_has_blocks},
    {"cuda/prelude/codes", .when = nvidia_has_blocks},
    {"cuda/prelude/plain", .when = are_numbers},
    {"cuda/family/lane_dequant"},
    {0}};

const struct family family_lane_dequant = {
    .name = "lane_dequant",
    .units = PLAN_UNITS_NONE,
    .takes = takes,
    .accepts = nvidia_accepts,
    .candidates = candidates,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .base_rows = 1,
    .predequant = SWITCH_OFF,
};
