/* SPDX-License-Identifier: MIT */
/* test_listing.c with 10,000 and 200,000 entries, under a sanitizer with a tenth as many. */
#include "t_build.h"

#define FEW  (T_SANITIZED ? 1000 : 10000)
#define MANY (T_SANITIZED ? 20000 : 200000)
#include "test_listing.c"
