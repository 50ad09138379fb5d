/* SPDX-License-Identifier: MIT */
/* test_moe.c with one in seven of every format, number of tokens, experts and choices, and target:
 * others in each run. */
#define ONE_IN 7
#include "test_moe.c"
