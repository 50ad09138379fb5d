/* SPDX-License-Identifier: MIT */
/* What small tensors of a checkpoint hold: scales, orders of columns. */
#ifndef TOOLS_TENSOR_VALUES_H
#define TOOLS_TENSOR_VALUES_H

#include "files/safetensors.h"

#include <stdbool.h>

/* Largest tensors whose data is looked at. */
#define TENSOR_VALUES_MAX ((size_t)256 << 20)

/* Refuses a tensor of type F16, BF16 or F32 that holds a NaN or an infinity, with its place. */
int tensor_check_finite(const struct tensor *t);

/*
 * Reads a g_idx, the group of each of k columns: I32, each from 0 to groups - 1, else it is
 * refused. *shuffled: some column is in another group than its place makes it; *uneven: a group
 * that has more columns than others (-1: none has).
 */
int tensor_check_order(const struct tensor *t, int64_t k, int64_t groups, bool *shuffled,
                       int64_t *uneven);

#endif
