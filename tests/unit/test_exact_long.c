/* SPDX-License-Identifier: MIT */
/* test_exact.c with every format on every target. */
#define ONE_IN 1
#include "test_exact.c"
