/* SPDX-License-Identifier: MIT */
/* test_act.c with one in four of every format, M, act, order of rows and target: others in each
 * run. */
#define ONE_IN 4
#include "test_act.c"
