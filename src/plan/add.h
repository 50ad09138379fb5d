/* SPDX-License-Identifier: MIT */
/* Making the plan of one kernel, and adding it to a set of plans, for the files of plan/ that
 * decide which kernels a problem has. Pure. */
#ifndef QUERN_PLAN_ADD_H
#define QUERN_PLAN_ADD_H

#include "plan/plan.h"

/* Sets the most slices that a launch of the plan may have, now that its geometry is chosen;
 * QUERN_E_DECLINED: the problem's workgroups do not fit a launch. */
quern_status plan_limit(struct plan *p);

/* Makes *p the kernel for 1 to m_tile rows, of the family that `base` names; `last`: none is
 * larger. QUERN_E_DECLINED: no shape of the family fits. */
quern_status plan_one(const struct plan *base, int m_tile, bool last, struct plan *p);
/* Appends such a kernel, for the rows that those before it do not serve. */
quern_status plan_add(struct plan_set *set, const struct plan *base, int m_tile, bool last);

#endif
