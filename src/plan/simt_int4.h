/* SPDX-License-Identifier: MIT */
/* The family simt_int4: int4 weights decoded in registers, for few rows of A, on the vector units.
 */
#ifndef QUERN_PLAN_SIMT_INT4_H
#define QUERN_PLAN_SIMT_INT4_H

#include "plan/cost_model.h"

/* QUERN_E_DECLINED says which word of the problem, or which lack of the target, is in the way. */
quern_status simt_int4_accepts(const struct quern_problem *problem, const struct target *target);

extern const struct model_family simt_int4;

#endif
