/* SPDX-License-Identifier: MIT */
/* The family mma_w4: 4-bit weights times many rows of A, on matrix units. */
#ifndef QUERN_PLAN_MMA_W4_H
#define QUERN_PLAN_MMA_W4_H

#include "plan/cost_model.h"

/* Whether the family has kernels for a problem that simt_w4 takes. */
bool mma_w4_accepts(const struct quern_problem *problem, const struct target *target);

/* Plans' m_tile is a multiple of 16. */
extern const struct model_family mma_w4;

#endif
