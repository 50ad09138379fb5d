/* SPDX-License-Identifier: MIT */
/* test_base_swaps.c with ten thousand changes. */
#define CHANGES 10000
#include "test_base_swaps.c"
