/* SPDX-License-Identifier: MIT */
/* test_differential.c with every target. */
#include <stdbool.h>

#define EVERY_TARGET true
#include "test_differential.c"
