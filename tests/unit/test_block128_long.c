/* SPDX-License-Identifier: MIT */
/* One layer in three of test_block128.c: others in each run. */
#define ONE_IN 3
#include "test_block128.c"
