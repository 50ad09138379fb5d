/* SPDX-License-Identifier: MIT */
/* The kernels of op=moe, whose rows come in blocks, each of one expert. Pure. */
#ifndef QUERN_PLAN_BLOCKS_H
#define QUERN_PLAN_BLOCKS_H

#include "plan/plan.h"

/* Appends the kernels of op=moe: one for each size of blocks, for the rows of A with which there
 * are so many choices for each expert; or for the size that the problem asks for alone, for all
 * rows.
 * `base` has the problem and the target. QUERN_E_DECLINED. */
quern_status blocks_plan(struct plan_set *set, struct plan base);

#endif
