/* SPDX-License-Identifier: MIT */
/* test_verbs.c at every system call. */
#define EVERYWHERE
#include "test_verbs.c"
