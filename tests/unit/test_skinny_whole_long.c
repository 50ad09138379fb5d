/* SPDX-License-Identifier: MIT */
/* test_skinny.c with every layer, as far as time goes (t_explore.h). */
#define ONE_IN 1
#include "test_skinny.c"
