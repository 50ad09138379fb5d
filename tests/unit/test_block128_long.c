/* SPDX-License-Identifier: MIT */
/* Every layer of test_block128.c, as far as time goes. */
#define ONE_IN 1
#include "test_block128.c"
