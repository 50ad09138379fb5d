/* SPDX-License-Identifier: MIT */
/* test_verbs.c at every system call, with every error. */
#define POINTS 100000
#include "test_verbs.c"
