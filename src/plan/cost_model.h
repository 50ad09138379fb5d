/* SPDX-License-Identifier: MIT */
/*
 * The model by which decode kernels are chosen: what a plan's instruction counts mean on a part,
 * and which of two plans is better. A family lists its candidates and counts their instructions;
 * the rest is here. What ranks candidates is made of integers, so that the choice, and with it the
 * source, is the same on every machine.
 */
#ifndef QUERN_PLAN_COST_MODEL_H
#define QUERN_PLAN_COST_MODEL_H

#include "plan/plan.h"
#include "target/rates.h"

/* What a family counts of one of its plans, for the model to make times of. */
struct model_counts {
    int wave_rows; /* rows of W that a wave works on at a time */
    int split_k;   /* waves that share those rows, each with a part of K */
    bool ahead;    /* a wave asks for the weights of all its steps at its start */
    uint32_t vgprs;
    uint32_t step_slots, setup_slots; /* of a wave: in a step, and before its first */
    uint32_t step_matrix;             /* cycles of matrix instructions in a step of a wave */
    uint32_t shared_slots;            /* what a workgroup makes once, by all its waves together */
    uint32_t shared_matrix;           /* cycles of matrix instructions in that */
    uint32_t last_slots;              /* of a wave, after its steps */
    int64_t trips;                    /* steps of a wave */
    int64_t row_steps;                /* steps of a row, by all waves that share it */
    int64_t row_slots;                /* slots of all those steps */
    int row_grain;                    /* rows of W that stay together; 0: one */
    int64_t memory_cycles;            /* what model_memory_cycles says */
    int64_t flight_bytes;             /* bytes of weights that a wave has asked for when it waits */
    int64_t asked_bytes;  /* bytes that a workgroup asks for in one group of rows, whichever cache
                             has them; 0: not counted */
    int64_t step_vmem;    /* cycles for which a wave's step holds its compute unit's path to the
                             nearest cache; 0: not counted */
    int64_t waits;        /* how often all waves of a workgroup wait together for a load, in one
                             group of rows */
    int64_t flight_asked; /* with so many bytes on their way to a compute unit, loads flow and only
                             a workgroup's first latency counts; 0: never */
    int64_t fills_below;  /* kernel cycles above which the plan never fills the part; 0: it may */
    bool open;            /* flight_asked, and whether the plan walks, are not yet known: to
                             model_beaten */
};

/* The best candidates of a family so far, best first. */
struct model_ranking {
    struct plan *best;
    size_t count, room;
    const char *wanted; /* null, or the words of the only shape that is taken (plan_has_shape) */
};

#define MODEL_VGPRS_MAX 256 /* registers that an instruction can name */

/* A grid counts as too coarse when the average compute unit has less than so many per cent of the
 * fullest one's work; the second holds where rows of W are dealt out by tiles. */
#define MODEL_BUSY_PERCENT       85
#define MODEL_BUSY_PERCENT_TILES 80

/* Slices that a launch has side by side, each with weights of its own. */
static inline int64_t model_together(const struct plan *p)
{
    return p->together ? p->together : 1;
}

/* Whether a plan's busy_percent is at least `percent`, or as much as groups of `rows` rows of W
 * allow, dealt out one by one. */
static inline bool model_busy(const struct plan *p, unsigned percent, int rows)
{
    const uint64_t groups = (uint64_t)((p->problem.n + rows - 1) / rows * model_together(p));

    return p->estimate.busy_percent >= percent ||
           p->estimate.busy_percent >= target_fill(p->target, groups).percent;
}

/* Rows of W that a wave works on at least: a pair, where that becomes a column of C. */
static inline int model_least_rows(const struct plan *p)
{
    return p->problem.act ? 2 : 1;
}

/* Cycles that memory takes to move every operand of the slices that are together once;
 * `weight_bytes`: those of codes, scales and zero points. */
int64_t model_memory_cycles(const struct plan *plan, int64_t weight_bytes);

/* Rows of W of a workgroup, for a plan whose number of waves is set. */
static inline int model_rows_per_workgroup(const struct plan *p, const struct model_counts *counts)
{
    return p->waves / counts->split_k * counts->wave_rows;
}

/* Fills the estimate and the grid's fields; false when a workgroup does not fit a launch, or its
 * registers and LDS no compute unit, or when a wave would have one row of a pair that becomes a
 * column of C. waves_per_simd is what the counted registers and a reserve
 * leave room for. */
bool model_estimate(struct plan *plan, const struct model_counts *counts);

/* Whether a ranking is full of plans that fill the part: one that does not has no place in it. */
static inline bool model_full(const struct model_ranking *ranking)
{
    return ranking->count == ranking->room && ranking->best[ranking->count - 1].estimate.fills;
}

/* Whether a plan has no place for that reason, as its number of waves alone tells: it need not be
 * estimated. */
bool model_hopeless(struct plan *plan, const struct model_counts *counts,
                    const struct model_ranking *ranking);

/* Whether a plan with these counts has no place in a ranking, however many waves its workgroups
 * have and whatever those share: even if the waves were dealt out evenly and waited for nothing
 * else, it would take longer than the worst plan there. */
bool model_beaten(const struct plan *plan, const struct model_counts *counts,
                  const struct model_ranking *ranking);

/* Puts a plan in its place among the best; of equals the earlier comes first. */
void model_put(struct model_ranking *ranking, const struct plan *plan);

/* Puts all candidates of a plan's family in a ranking; of a base kernel, those for its nominal
 * layer. */
void model_candidates(const struct plan *plan, struct model_ranking *ranking);

/* Fills in everything below meant_for of a plan whose problem, target, family and m fields are set:
 * the measured shape, if there is one and it is not null, else the best. */
quern_status model_choose(const char *measured, struct plan *plan);

/* Appends, one line each, the best candidates that were not chosen, with their estimates. */
void model_explain_rejected(const struct plan *plan, struct str *out);

/* Whether the model expects the first of two plans for the same M to take less than so many per
 * cent of the second's time. */
bool model_faster(const struct plan *p, const struct plan *q, int percent);

/* Whether the first of two plans takes so much fewer instructions than the second, an eighth, that
 * a kernel of its own for its fewer rows is worth making. */
bool model_pays(const struct plan *p, const struct plan *q);

/* How the vector units multiply pairs for this A. */
enum plan_products model_products(const struct quern_problem *problem, const struct target *target);

/* The same for families that know how to use the 4x4 matrix instructions, each lane with weights of
 * its own: those, where the target has them. */
enum plan_products model_lane_products(const struct quern_problem *problem,
                                       const struct target *target);

/* Instructions that multiply `pairs` pairs of weights with pairs of A, where dual issue is left to
 * the compiler. */
int model_product_slots(const struct plan *plan, int pairs);

/* Whether waves or workgroups start at different steps along K, because rows of `row_bytes` bytes
 * of packed weights camp; `trips` and `ahead` as in model_counts. */
enum plan_phase model_phase(const struct plan *plan, int64_t row_bytes, int64_t trips, bool ahead);

/* Whether products are dot products of 16-bit pairs that the target can issue two of at a time. */
bool model_dual_dot2(const struct plan *plan);

static inline int64_t model_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int model_at_most(int a, int b)
{
    return a < b ? a : b;
}

#endif
