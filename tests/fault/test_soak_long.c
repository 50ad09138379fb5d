/* SPDX-License-Identifier: MIT */
/* test_soak.c for ten minutes. */
#define SOAK_SECONDS 600
#include "test_soak.c"
