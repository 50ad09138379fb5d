/* SPDX-License-Identifier: MIT */
/* test_cpu.c with every problem and every mistake, as far as time goes (t_explore.h). */
#define ONE_IN 1
#include "test_cpu.c"
