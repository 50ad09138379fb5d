/* SPDX-License-Identifier: MIT */
/* test_kills.c a hundred thousand times. */
#define KILLS 100000
#include "test_kills.c"
