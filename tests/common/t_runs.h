/* SPDX-License-Identifier: MIT */
/*
 * Layers to be verified in full checking mode, two at a time, each in a context of its own; and the
 * failures that threads meet, which only the test's own thread may report.
 */
#ifndef T_RUNS_H
#define T_RUNS_H

/* Adds `m` rows of the layer that a text in printf's manner describes. At most 8192 are held. */
void t_runs_add(const char *target, int m, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Verifies one in `one_in` of what was added, with a cache in `directory`, and forgets them all:
 * with EXPLORE others in each run, while there is time (t_explore.h). The test fails when a run
 * did. */
void t_runs_verify(const char *directory, int one_in);

/* Notes, from any thread, that quern_last_error() is about m rows of a layer on a target. */
void t_runs_failed(const char *text, const char *target, int m);

/* Fails the test with the first of them if any failure was noted, and forgets them. */
void t_runs_expect_none(void);

#endif
