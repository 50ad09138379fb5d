/* SPDX-License-Identifier: MIT */
/* test_skinny.c with every layer. */
#define ONE_IN 1
#include "test_skinny.c"
