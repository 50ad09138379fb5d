/* SPDX-License-Identifier: MIT */
/* The family simt_skinny: weights that are not packed in groups, for few rows of A. */
#ifndef QUERN_PLAN_SIMT_SKINNY_H
#define QUERN_PLAN_SIMT_SKINNY_H

#include "plan/cost_model.h"

/* QUERN_E_DECLINED says which word of the problem, or which lack of the target, is in the way. */
quern_status simt_skinny_accepts(const struct quern_problem *problem, const struct target *target);

extern const struct model_family simt_skinny;

#endif
