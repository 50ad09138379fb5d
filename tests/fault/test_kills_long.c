/* SPDX-License-Identifier: MIT */
/* test_kills.c a hundred thousand times, a tenth of it under a sanitizer. */
#include "t_build.h"

#define KILLS (T_SANITIZED ? 10000 : 100000)
#include "test_kills.c"
