/* SPDX-License-Identifier: MIT */
/* test_act.c with every format, M, act, order of rows and target, as far as time goes. */
#define ONE_IN 1
#include "test_act.c"
