/* SPDX-License-Identifier: MIT */
/* The family mma_int4: int4 weights times up to 64 rows of A, on matrix units. */
#ifndef QUERN_PLAN_MMA_INT4_H
#define QUERN_PLAN_MMA_INT4_H

#include "plan/cost_model.h"

/* Whether the family has kernels for a problem that simt_int4 takes. */
bool mma_int4_accepts(const struct quern_problem *problem, const struct target *target);

/* Rows of A of the smallest kernel for a plan's problem: half a tile where halves of a wave can
 * have groups of their own, else a tile. */
int mma_int4_fewest_rows(const struct plan *plan);

/* Plans' m_tile is that, or a multiple of 16. */
extern const struct model_family mma_int4;

#endif
