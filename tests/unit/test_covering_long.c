/* SPDX-License-Identifier: MIT */
/* test_covering.c with every case, as far as time goes (t_explore.h). */
#define ONE_IN 1
#include "test_covering.c"
