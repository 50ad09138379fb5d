/* SPDX-License-Identifier: MIT */
/*
 * The family moe_align, which puts the choices of a router into blocks of one expert each, for
 * op=moe. It multiplies nothing: its instructions count, compare and store integers. It has one
 * shape, and one kernel for every number of tokens, which is an argument.
 */
#include "plan/explain.h"
#include "plan/family.h"
#include "target/rates.h"

#include <inttypes.h>

#define ITEMS_MAX  1024 /* of a workgroup */
#define WORKGROUPS 8
/* LDS of a workgroup beside its counts: a sum for each wave. */
#define SUMS_BYTES 256
/* Counts of a set that are no expert's, as in the template. */
#define SPARE 32

static bool takes(const struct quern_problem *q, const struct target *t)
{
    (void)t;
    return q->op == QUERN_OP_MOE_ALIGN;
}

/* Bytes of LDS for the counts of a workgroup: of each of its waves, and two of other workgroups. A
 * set of counts has one for each expert, and some for ids that are no expert's. */
static uint32_t lds_bytes(const struct quern_problem *q, int waves)
{
    return (uint32_t)(waves + 2) * (uint32_t)(q->experts + SPARE) * 4 + SUMS_BYTES;
}

/* Instructions of a wave, fitted to what `quern profile` counts: once, to clear a count of each
 * lane, to count a choice of each lane, to place one, for each bit of an expert's number then, and
 * to write a slot that has no choice. */
#define SETUP_SLOTS 60
#define ZERO_SLOTS  8
#define COUNT_SLOTS 12
#define PLACE_SLOTS 25
#define BIT_SLOTS   10
#define FILL_SLOTS  12

/* ---- Time ------------------------------------------------------------------------------------ */

/* Bits of an expert's number. */
static int64_t expert_bits(const struct plan *p)
{
    int64_t bits = 0;

    while (INT64_C(1) << bits < p->problem.experts)
        bits++;
    return bits;
}

/* Cycles of the fullest compute unit, which has one workgroup: its instructions, as they were
 * counted in compiled code, and the wait for the first ids. */
static int64_t launch_cycles(const struct plan *p, int64_t rows)
{
    const struct quern_problem *const q = &p->problem;
    const struct target *const t = p->target;
    const int64_t items = (int64_t)p->waves * p->wave_size, all = items * WORKGROUPS;
    const int64_t choices = problem_results(q, rows), slots = problem_slots(q, rows);
    const int64_t of_own = model_ceil_div(choices, all);
    const int64_t issued =
        SETUP_SLOTS +
        ZERO_SLOTS * model_ceil_div((p->waves + 2) * (int64_t)(q->experts + SPARE), items) +
        COUNT_SLOTS * (of_own + model_ceil_div(choices - choices / WORKGROUPS, items)) +
        (PLACE_SLOTS + BIT_SLOTS * expert_bits(p)) * of_own +
        FILL_SLOTS * (model_ceil_div((int64_t)q->experts * q->block_rows, all) +
                      model_ceil_div(slots - choices, all));

    return target_latency_cycles(t) +
           model_ceil_div(p->waves, t->simds) * issued * target_issue_cycles(t);
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan choice = *base, *const p = &choice;
    const struct target *const t = p->target;
    struct plan_estimate *const e = &p->estimate;

    p->wave_size = t->wave_size;
    p->waves = ITEMS_MAX / (int)t->wave_size;
    while (lds_bytes(&p->problem, p->waves) > t->lds_bytes)
        p->waves /= 2;
    p->lds_bytes = lds_bytes(&p->problem, p->waves);
    p->row_groups = e->workgroups = WORKGROUPS;
    e->waves_per_simd = (uint32_t)model_ceil_div(p->waves, t->simds);
    e->kernel_cycles = launch_cycles(p, problem_rows_max(&p->problem));
    model_put(ranking, p);
}

static void explain(const struct plan *p, struct str *out)
{
    explain_begin_any(p, out);
    str_addf(
        out,
        "  grid       %d workgroups of %u work-items, for every M; each counts all choices, and "
        "places a part of them\n",
        WORKGROUPS, (unsigned)p->waves * p->wave_size);
    str_addf(out,
             "  resources  %" PRIu32
             " bytes of LDS (choices of each expert, by waves), %u waves in a "
             "SIMD\n",
             p->lds_bytes, p->estimate.waves_per_simd);
    explain_end_align(p, out);
}

static const struct plan_field shape[] = {
    {FIELD_WORD("SYMBOL", field_symbol, "name of the kernel")},
    {FIELD_AT(FIELD_NUMBER, "EXPERTS", problem.experts, "that choices may name")},
    {FIELD_OF(FIELD_NUMBER, "EXPERT_BITS", expert_bits, "of an expert's number")},
    {FIELD_AT(FIELD_NUMBER, "BLOCK_ROWS", problem.block_rows, "slots of a block")},
    {.kind = FIELD_BLANK},
    {FIELD_AT(FIELD_NUMBER, "WAVE", wave_size, "lanes")},
    {FIELD_AT(FIELD_NUMBER, "WAVES", waves, "in a workgroup"), .word = "waves"},
    {FIELD_AT(FIELD_NUMBER, "WORKGROUPS", row_groups, "that share the choices")},
    {FIELD_AT(FIELD_NUMBER, "WAVES_PER_SIMD", estimate.waves_per_simd,
              "that registers must leave room for")},
    {0},
};

static const struct plan_fields fields[] = {{shape}, {0}};

static const struct plan_template templates[] = {{"prelude/prelude"}, {"family/moe_align"}, {0}};

/* Choices of a router to blocks of one expert each. */
const struct family family_moe_align = {
    .name = "moe_align",
    .units = PLAN_UNITS_NONE,
    .takes = takes,
    .candidates = candidates,
    .rows_cycles = launch_cycles,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .predequant = SWITCH_OFF,
};
