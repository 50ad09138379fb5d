/* SPDX-License-Identifier: MIT */
/* test_moe.c with every format, number of tokens, experts and choices, and target, as far as time
 * goes. */
#define ONE_IN 1
#include "test_moe.c"
