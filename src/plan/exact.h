/* SPDX-License-Identifier: MIT */
/*
 * What a problem promises of its results (the word `exact`), as far as it decides about kernels.
 * For plan.c, which makes sets of kernels, and for explain. Functions are pure and never block.
 */
#ifndef QUERN_PLAN_EXACT_H
#define QUERN_PLAN_EXACT_H

#include "plan/plan.h"

/*
 * Leaves one kernel in a set, which then serves every M in slices: so a row's bits depend on
 * nothing but the row and the weights, as each kernel computes every row of its slices in the same
 * way. Which one depends on the problem and the target only: the one whose modelled times for 1,
 * 2, 4 … 1024 rows, each as a multiple of the set's, have the smallest sum.
 */
void exact_keep_one(struct plan_set *set);

/* How many times as long as the set `best` a set takes for m rows, by the model. */
double exact_times(const struct plan_set *set, const struct plan_set *best, int64_t m);

#endif
