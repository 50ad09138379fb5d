/* SPDX-License-Identifier: MIT */
/* The list of all base kernels of a target (plan/base.h), for who makes them in advance. */
#ifndef QUERN_PLAN_BASE_LIST_H
#define QUERN_PLAN_BASE_LIST_H

#include "plan/plan.h"

/*
 * Calls `fn` with sets of plans that are together all base kernels of a target: for every kind of
 * layer that has some, one set or two, of which the second is of layers that matrix units do not
 * take. Kinds differ in all of a problem but n, k, group, bias and round, and come in the order of
 * the enumerations: op, wq, scale, zero, a, c, layout. `set->plans[0].problem` is a layer that the
 * set's kernels serve.
 */
typedef void (*base_set_fn)(void *user, const struct plan_set *set);
void base_each(const struct target *target, base_set_fn fn, void *user);

#endif
