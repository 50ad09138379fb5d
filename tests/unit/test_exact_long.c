/* SPDX-License-Identifier: MIT */
/* test_exact.c with every format on every target, as far as time goes (t_explore.h). */
#define ONE_IN 1
#include "test_exact.c"
