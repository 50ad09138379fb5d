/* SPDX-License-Identifier: MIT */
/* Where a test starts that takes some of very many cases: elsewhere in each run of check-long. */
#ifndef T_EXPLORE_H
#define T_EXPLORE_H

#include <stddef.h>

/* A number below `bound`, which is not 0: drawn anew in each process when the environment has
 * EXPLORE, as tests/run.py --long sets it, else 0. A test that uses it names the case that failed,
 * so that the failure can be had again. */
unsigned t_explore(unsigned bound);

/* Calls function(user, i) for one i in `part` below `count`, from a number that t_explore draws on,
 * for at least one where there is any, on two threads. Blocks until all are done. */
void t_explore_part(size_t count, unsigned part, void (*function)(void *user, size_t i),
                    void *user);

#endif
