/* SPDX-License-Identifier: MIT */
/* test_public_faults.c with every call failing where a bundle is made too, more where a worker is
 * started, others in each run, and every error for ever. */
#define WORKER_STEP  25
#define BUNDLE_STEP  1
#define CALL_STEP    1
#define LASTS(error) true
#include "test_public_faults.c"
