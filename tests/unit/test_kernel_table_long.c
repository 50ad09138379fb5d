/* SPDX-License-Identifier: MIT */
/* test_kernel_table.c with every target. */
#define COMPARED (sizeof targets / sizeof *targets)
#include "test_kernel_table.c"
