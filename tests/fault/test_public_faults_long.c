/* SPDX-License-Identifier: MIT */
/* test_public_faults.c with every call failing where a worker is started or a bundle made too, and
 * every error for ever. */
#define WORKER_STEP  1
#define BUNDLE_STEP  1
#define CALL_STEP    1
#define LASTS(error) true
#include "test_public_faults.c"
