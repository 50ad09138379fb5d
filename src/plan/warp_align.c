/* SPDX-License-Identifier: MIT */
/*
 * The family warp_align, which puts the choices of a router into blocks of one expert each, for
 * op=moe on NVIDIA. It multiplies nothing: its instructions count, compare and store integers. It
 * has one shape, and one kernel of one workgroup for every number of tokens, which is an argument.
 */
#include "plan/explain.h"
#include "plan/family.h"
#include "plan/nvidia.h"
#include "target/rates.h"

#include <inttypes.h>

#define WARPS_MAX 32 /* of a workgroup */

/* Instructions of a warp, by the text: once, for each expert of a lane and each warp whose counts
 * it adds up, to count a choice of each lane, to place one, and to write a slot that has none. */
#define SETUP_SLOTS 100
#define SUM_SLOTS   12
#define COUNT_SLOTS 15
#define PLACE_SLOTS 25
#define FILL_SLOTS  10
/* Choices of a lane whose ids it waits for together. */
#define AHEAD 4

static bool takes(const struct quern_problem *q, const struct target *t)
{
    (void)t;
    return q->op == QUERN_OP_MOE_ALIGN;
}

/* Shared memory: a count for each expert and warp, each expert's end, and a sum of each warp. */
static uint32_t shared_bytes(const struct quern_problem *q, int warps)
{
    return (uint32_t)((warps + 1) * q->experts + warps) * 4;
}

/* Cycles of the only multiprocessor that works: its instructions, and its waits for ids. */
static int64_t launch_cycles(const struct plan *p, int64_t rows)
{
    const struct quern_problem *const q = &p->problem;
    const struct target *const t = p->target;
    const int64_t items = (int64_t)p->waves * p->wave_size;
    const int64_t choices = problem_results(q, rows), slots = problem_slots(q, rows);
    const int64_t of_lane = model_ceil_div(choices, items);
    const int64_t issued =
        SETUP_SLOTS + SUM_SLOTS * p->waves * model_ceil_div(q->experts, items) +
        (COUNT_SLOTS + PLACE_SLOTS) * of_lane +
        FILL_SLOTS * model_ceil_div((int64_t)q->experts * q->block_rows + slots - choices, items);

    return 2 * model_ceil_div(of_lane, AHEAD) * target_latency_cycles(t) +
           model_ceil_div(p->waves, t->simds) * issued * target_issue_cycles(t);
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;
    const struct target *const t = p.target;
    struct plan_estimate *const e = &p.estimate;

    p.wave_size = t->wave_size;
    p.waves = WARPS_MAX;
    while (shared_bytes(&p.problem, p.waves) > t->lds_bytes)
        p.waves /= 2;
    p.lds_at_launch = true;
    p.lds_bytes = shared_bytes(&p.problem, p.waves);
    p.row_groups = e->workgroups = 1;
    e->waves_per_simd = (uint32_t)model_ceil_div(p.waves, t->simds);
    e->kernel_cycles = launch_cycles(&p, problem_rows_max(&p.problem));
    model_put(ranking, &p);
}

static void explain(const struct plan *p, struct str *out)
{
    explain_begin_any(p, out);
    str_addf(out, "  grid       one workgroup of %u work-items, for every M\n",
             (unsigned)p->waves * p->wave_size);
    str_addf(out,
             "  resources  %" PRIu32
             " bytes of shared memory (choices of each expert, by warps), %u warps in a quarter of "
             "a multiprocessor\n",
             p->lds_bytes, p->estimate.waves_per_simd);
    explain_end_align(p, out);
}

static const struct plan_field shape[] = {
    {FIELD_WORD("SYMBOL", field_symbol, "name of the kernel")},
    {FIELD_AT(FIELD_NUMBER, "EXPERTS", problem.experts, "that choices may name")},
    {FIELD_AT(FIELD_NUMBER, "BLOCK_ROWS", problem.block_rows, "slots of a block")},
    {.kind = FIELD_BLANK},
    {FIELD_AT(FIELD_NUMBER, "WARPS", waves, "in the workgroup"), .word = "waves"},
    {0},
};

static const struct plan_fields fields[] = {{shape}, {nvidia_grid_fields}, {0}};

static const struct plan_template templates[] = {
    {"cuda/prelude/ptx"}, {"cuda/family/warp_align"}, {0}};

/* Choices of a router to blocks of one expert each. */
const struct family family_warp_align = {
    .name = "warp_align",
    .units = PLAN_UNITS_NONE,
    .takes = takes,
    .candidates = candidates,
    .rows_cycles = launch_cycles,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .predequant = SWITCH_OFF,
};
