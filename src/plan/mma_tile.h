/* SPDX-License-Identifier: MIT */
/* The family mma_tile: 4-bit weights times hundreds of rows of A and more, on matrix units, by
 * tiles that the waves of a workgroup share through LDS. */
#ifndef QUERN_PLAN_MMA_TILE_H
#define QUERN_PLAN_MMA_TILE_H

#include "plan/cost_model.h"

/* Whether the family has a kernel for a problem. */
bool mma_tile_accepts(const struct quern_problem *problem, const struct target *target);

/* Cycles of a compute unit that is dealt so many workgroups. */
int64_t mma_tile_cycles(const struct plan *plan, int64_t workgroups);

/* Of a plan: rows_per_wave and split_k are the rows of W of a wave and the waves that share them,
 * each with as many rows of A of its own; chunk is a step along K. */
extern const struct model_family mma_tile;

#endif
