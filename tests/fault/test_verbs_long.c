/* SPDX-License-Identifier: MIT */
/* test_verbs.c at more system calls, and others in each run; at fewer under a sanitizer. */
#define EVERYWHERE
#include "test_verbs.c"
