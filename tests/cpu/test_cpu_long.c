/* SPDX-License-Identifier: MIT */
/* test_cpu.c with every problem and every mistake. */
#define ONE_IN 1
#include "test_cpu.c"
