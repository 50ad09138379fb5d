/* SPDX-License-Identifier: MIT */
/* test_covering.c with every case. */
#define ONE_IN 1
#include "test_covering.c"
