/* SPDX-License-Identifier: MIT */
/* test_int4.c with every layer. */
#define ONE_IN 1
#include "test_int4.c"
