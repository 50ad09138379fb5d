/* SPDX-License-Identifier: MIT */
/* The family simt_w4: 4-bit weights, few rows of A, dot products on the vector units. */
#ifndef QUERN_PLAN_SIMT_W4_H
#define QUERN_PLAN_SIMT_W4_H

#include "plan/plan.h"

/* QUERN_E_DECLINED says which word of the problem or which property of the target is in the way. */
quern_status simt_w4_accepts(const struct quern_problem *problem, const struct target *target);

/* Fills in everything below m_tile of a plan whose problem, target, family and m fields are set. */
quern_status simt_w4_choose(struct plan *plan);

/* Appends, one line each, the best candidates that were not chosen, with their estimates. */
void simt_w4_explain_rejected(const struct plan *plan, struct str *out);

#endif
