/* SPDX-License-Identifier: MIT */
/* test_public_faults.c with every call failing where a bundle is made too, more where a worker is
 * started, others in each run, and every error for ever; under a sanitizer one in four of them. */
#define WORKER_STEP  (T_SANITIZED ? 100 : 25)
#define BUNDLE_STEP  (T_SANITIZED ? 4 : 1)
#define CALL_STEP    (T_SANITIZED ? 4 : 1)
#define LASTS(error) true
#include "test_public_faults.c"
