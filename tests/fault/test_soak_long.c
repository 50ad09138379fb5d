/* SPDX-License-Identifier: MIT */
/* test_soak.c for ten minutes, under a sanitizer for two. */
#define SOAK_SECONDS (T_SANITIZED ? 120 : 600)
#include "test_soak.c"
