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

/* What a family knows of a plan of its own. */
struct model_counts {
    int wave_rows; /* rows of W that a wave works on at a time */
    int split_k;   /* waves that share those, each with a part of K */
    bool ahead;    /* a wave asks for the weights of all its steps at its start */
    uint32_t vgprs;
    uint32_t step_slots, setup_slots; /* of a wave */
    uint32_t step_matrix;             /* cycles of matrix instructions in a step of a wave */
    uint32_t shared_slots;            /* of a workgroup, all waves together, once */
    uint32_t shared_matrix;           /* cycles of matrix instructions among those */
    uint32_t last_slots;              /* of a wave, after its steps */
    int64_t trips;                    /* steps of a wave */
    int64_t row_steps;                /* of a row, by all waves that share it */
    int64_t row_slots;                /* of all of those */
    int row_grain;                    /* rows of W that stay together; 0: one */
    int64_t memory_cycles;            /* of model_memory_cycles */
    int64_t flight_bytes;             /* of weights that a wave has asked for when it waits */
    int64_t asked_bytes;  /* of a workgroup for one group of rows, whichever cache has them; 0: not
                            counted */
    int64_t waits;        /* of a workgroup in one group of rows: all its waves wait together */
    int64_t flight_asked; /* bytes on their way to a compute unit with which no latency counts but
                             a workgroup's first; 0: none are enough */
    int64_t fills_below;  /* kernel cycles above which the plan never fills the part; 0: it may */
    bool open;            /* to model_beaten: flight_asked and whether the plan walks are to come */
};

/* Candidates of a family, best first. */
struct model_ranking {
    struct plan *best;
    size_t count, room;
    const char *wanted; /* null, or the words of the one shape that is let in (plan_has_shape) */
};

#define MODEL_VGPRS_MAX 256 /* that an instruction can name */

/* The average compute unit's share of the fullest one's work below which a grid counts as too
 * coarse, and where rows of W are dealt out by tiles. */
#define MODEL_BUSY_PERCENT       85
#define MODEL_BUSY_PERCENT_TILES 80

/* Whether a plan keeps as much of the part busy as is asked for, or as groups of `rows` rows of W
 * can. */
static inline bool model_busy(const struct plan *p, unsigned percent, int rows)
{
    const uint64_t groups = (uint64_t)((p->problem.n + rows - 1) / rows);

    return p->estimate.busy_percent >= percent ||
           p->estimate.busy_percent >= target_fill(p->target, groups).percent;
}

/* Cycles that a plan's operands take to come and go once; `weight_bytes`: of codes, scales and zero
 * points. */
int64_t model_memory_cycles(const struct plan *plan, int64_t weight_bytes);

/* Rows of W of a workgroup, for a plan whose number of waves is set. */
static inline int model_rows_per_workgroup(const struct plan *p, const struct model_counts *counts)
{
    return p->waves / counts->split_k * counts->wave_rows;
}

/* Fills the estimate and the grid's fields; false when a workgroup does not fit a launch, or its
 * registers and LDS no compute unit. waves_per_simd is what the counted registers and a reserve
 * leave room for. */
bool model_estimate(struct plan *plan, const struct model_counts *counts);

/* Whether a ranking is full of plans that fill the part: others have no place in it. */
static inline bool model_full(const struct model_ranking *ranking)
{
    return ranking->count == ranking->room && ranking->best[ranking->count - 1].estimate.fills;
}

/* Whether a plan need not be estimated for that reason, by its number of waves. */
bool model_hopeless(struct plan *plan, const struct model_counts *counts,
                    const struct model_ranking *ranking);

/* Whether a plan with these counts has no place in a ranking however many waves its workgroups have
 * and whatever they share: it takes longer even if they were dealt out evenly and waited for
 * nothing else. */
bool model_beaten(const struct plan *plan, const struct model_counts *counts,
                  const struct model_ranking *ranking);

/* Puts a plan in its place among the best; of equals the earlier comes first. */
void model_put(struct model_ranking *ranking, const struct plan *plan);

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

/* The same of lanes that have weights of their own row each, which matrix instructions of 4x4 take
 * where there are any. */
enum plan_products model_lane_products(const struct quern_problem *problem,
                                       const struct target *target);

/* Instructions that multiply `pairs` pairs of weights with pairs of A, where dual issue is left to
 * the compiler. */
int model_product_slots(const struct plan *plan, int pairs);

/* Where rows of `row_bytes` bytes of packed weights camp, who starts apart along K; `ahead` as in
 * model_counts. */
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
