/* SPDX-License-Identifier: MIT */
/* test_public_faults.c with every call failing where a worker is started too. */
#define WORKER_STEP 1
#include "test_public_faults.c"
