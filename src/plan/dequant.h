/* SPDX-License-Identifier: MIT */
/* The family dequant: quantised weights to [N,K], for hosts that multiply with a library of theirs.
 */
#ifndef QUERN_PLAN_DEQUANT_H
#define QUERN_PLAN_DEQUANT_H

#include "plan/plan.h"

/* QUERN_E_DECLINED says which word of the problem is in the way. */
quern_status dequant_accepts(const struct quern_problem *problem);

/* Fills in everything below m_tile of a plan whose problem, target, family and m fields are set. */
void dequant_choose(struct plan *plan);

/* Weights that one workgroup writes. */
int64_t dequant_weights_per_workgroup(const struct plan *plan);

void dequant_explain(const struct plan *plan, struct str *out);

#endif
