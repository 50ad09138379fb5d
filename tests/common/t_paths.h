/* SPDX-License-Identifier: MIT */
/* Where the build that a test belongs to lies: the test is build/<name>/tests/<kind>/test_x. */
#ifndef QUERN_TESTS_T_PATHS_H
#define QUERN_TESTS_T_PATHS_H

#include <stdbool.h>

/* The build directory; "" if it cannot be told. Valid for the life of the thread. */
const char *t_build(void);

/* The worker executable of this build. */
const char *t_worker_path(void);

/* Whether this build has the software GPU for CPUs of a level, as its file names it: "x86_64" or
 * "x86_64_v3". make check builds only the best that the machine can run, make check-long all that
 * it can run. */
bool t_has_isa(const char *name);

/* Number of entries in a directory, "." and ".." not counted; -1 if it cannot be read. */
int t_count_entries(const char *directory);

#endif
