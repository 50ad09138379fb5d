/* SPDX-License-Identifier: MIT */
/*
 * The model by which decode kernels are chosen: what a plan's instruction counts mean on a part,
 * and which of two plans is better. A family counts its instructions; the rest is here. Integers
 * decide, so that the choice, and with it the source, is the same on every machine.
 */
#ifndef QUERN_PLAN_MODEL_H
#define QUERN_PLAN_MODEL_H

#include "plan/plan.h"

/* What a family knows of a plan of its own. */
struct model_counts {
    uint32_t vgprs;
    uint32_t step_slots, setup_slots; /* of a wave */
    uint32_t shared_slots;            /* of a workgroup, all waves together, once */
    int64_t trips;                    /* steps of a wave */
    int64_t weight_bytes;             /* codes, scales and zero points */
    bool ahead;                       /* no step waits for its weights but the first */
};

/* Fills the estimate and the grid's fields; false when a workgroup does not fit a launch, or its
 * registers and LDS no compute unit. waves_per_simd is what the plan's registers leave room for. */
bool model_estimate(struct plan *plan, const struct model_counts *counts);

/* The `room` best of the plans that are put in, best first; of equals the earlier. */
void model_put(struct plan *best, size_t *count, size_t room, const struct plan *plan);

/* Where rows of `row_bytes` bytes of packed weights camp, who starts apart along K. */
enum plan_phase model_phase(const struct plan *plan, int64_t row_bytes, int64_t trips);

int64_t model_ceil_div(int64_t a, int64_t b);

#endif
