/* SPDX-License-Identifier: MIT */
/*
 * Base kernels (kernels=base): one text for every n, k, group, bias and rounding of a kind of
 * layer. Those are the kernel's first arguments, so it may be compiled before any layer is known.
 * Its shape is chosen for a nominal layer, of sizes that are common; what the layer at hand changes
 * is the grid alone. For plan.c, the model and gen/. All functions are pure.
 */
#ifndef QUERN_PLAN_BASE_H
#define QUERN_PLAN_BASE_H

#include "plan/plan.h"

/* Whether a plan's kernel takes the numbers of its layer as arguments. */
static inline bool plan_is_base(const struct plan *p)
{
    return p->problem.kernels == QUERN_KERNELS_BASE;
}

/* K of a layer that has base kernels is a multiple of this, the smallest group there is. */
#define BASE_K_GRAIN 32
/* Base kernels on matrix units are for this K and more: no step along K is longer. */
#define BASE_K_LEAST 512

/* The layer that the shape of a problem's base kernels is chosen for: every layer of the kind has
 * the same. */
struct quern_problem base_nominal(const struct quern_problem *problem);

/* Gives a plan that was made for the nominal layer the problem that it serves, and its grid. */
void base_bind(struct plan *plan, const struct quern_problem *problem);

/* A weight of column k is in group k >> base_block_shift of its row. A group that is no power of
 * two is a whole row, and no k reaches beyond the first group of the shift that stands for it; nor
 * where weights have no groups. */
uint32_t base_block_shift(const struct quern_problem *problem);

/* Whether a family, which takes the problem, has base kernels for it. */
bool base_takes(const struct quern_problem *problem, const struct family *family);

/* QUERN_E_DECLINED says what of a problem base kernels of its vector family cannot do. */
quern_status base_accepts(const struct quern_problem *problem, const struct target *target,
                          const struct family *family);

/* The last word of kernels' names instead of their layer's sizes. */
#define BASE_NAME "base"

#endif
