/* SPDX-License-Identifier: MIT */
/* test_base_kernels.c with every size of every kind. */
#define SIZES_ONE_IN 1
#include "test_base_kernels.c"
