/* SPDX-License-Identifier: MIT */
/* Where a test starts that takes some of very many cases: elsewhere in each run of check-long. */
#ifndef T_EXPLORE_H
#define T_EXPLORE_H

/* A number below `bound`, which is not 0: drawn anew in each process when the environment has
 * EXPLORE, as tests/run.py --long sets it, else 0. A test that uses it names the case that failed,
 * so that the failure can be had again. */
unsigned t_explore(unsigned bound);

#endif
