/* SPDX-License-Identifier: MIT */
/* The family simt_w4: 4-bit weights, few rows of A, dot products on the vector units. */
#ifndef QUERN_PLAN_SIMT_W4_H
#define QUERN_PLAN_SIMT_W4_H

#include "plan/cost_model.h"

/* QUERN_E_DECLINED says which word of the problem or which property of the target is in the way. */
quern_status simt_w4_accepts(const struct quern_problem *problem, const struct target *target);

extern const struct model_family simt_w4;

#endif
