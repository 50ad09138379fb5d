/* SPDX-License-Identifier: MIT */
/* test_int4.c with every layer, as far as time goes (t_explore.h). */
#define ONE_IN 1
#include "test_int4.c"
