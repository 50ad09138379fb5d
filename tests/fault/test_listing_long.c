/* SPDX-License-Identifier: MIT */
/* test_listing.c with 10,000 and 200,000 entries. */
#define FEW  10000
#define MANY 200000
#include "test_listing.c"
