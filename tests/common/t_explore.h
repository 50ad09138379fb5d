/* SPDX-License-Identifier: MIT */
/*
 * Tests with more cases than there is time for. They take the same cases each time, unless the
 * environment has EXPLORE, a number of seconds, as tests/run.py --long sets it: then each run takes
 * other cases, and a walk over them (below) begins no case when so many seconds are over. Such a
 * test must name the case that failed, or the failure cannot be had again. EXPLORE=86400 has a long
 * test take every case.
 */
#ifndef T_EXPLORE_H
#define T_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether this run takes other cases than the last, and tests without a long twin all of theirs. */
bool t_explores(void);

/* Whether this run takes a case: in check-long each, else one in `one_in`. `turn` counts cases;
 * in nested loops it is the sum of their numbers, so that each kind is taken. */
bool t_takes(size_t turn, size_t one_in);

/* A number below `bound`, which is not 0: 0, or with EXPLORE drawn anew in each process. */
unsigned t_explore(unsigned bound);

/* A walk over some of `count` cases. One thread may use it at a time. */
struct t_walk {
    size_t count, most; /* of all cases; of those that are taken */
    size_t taken, first, stride;
    uint64_t end; /* by os_now() when no other case is begun; 0: none */
};

/* A walk over every `part`th case; with EXPLORE over as many at most, in a scattered order from
 * anywhere, so that those that it had time for are of all kinds. `part` is not 0. */
struct t_walk t_walk(size_t count, size_t part);

/* Puts the number of the next case into *i; false: there is none, or no time is left. The first
 * case always has time. */
bool t_walk_next(struct t_walk *walk, size_t *i);

/* Calls function(user, i) for each case of such a walk, on two threads, and prints how many of
 * `count` those were where time ended it. Blocks until all are done; returns how many. */
size_t t_explore_part(size_t count, size_t part, void (*function)(void *user, size_t i),
                      void *user);

#endif
