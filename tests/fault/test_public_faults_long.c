/* SPDX-License-Identifier: MIT */
/* test_public_faults.c with more calls failing, others in each run, and every error for ever. */
#define WORKER_STEP  (T_SANITIZED ? 100 : 25)
#define BUNDLE_STEP  4
#define CALL_STEP    4
#define LASTS(error) true
#include "test_public_faults.c"
