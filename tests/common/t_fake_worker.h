/* SPDX-License-Identifier: MIT */
/*
 * Compiler workers that misbehave in every way a process can, and the world that a test of them
 * needs. A fake worker is the test program itself, started through a link named fake-<what it
 * does>; the list of what they do is in t_fake_worker.c.
 *
 * While a world exists the library's clock is held (t_clock.h): deadlines pass when the fake that
 * was opened last has said that it will do no more, and not before.
 */
#ifndef QUERN_TESTS_T_FAKE_WORKER_H
#define QUERN_TESTS_T_FAKE_WORKER_H

#include "compile/compile.h"

#include <limits.h>
#include <stdbool.h>

#define FAKE_TARGETS     "gfx1100 gfx1151"
#define FAKE_DEADLINE_MS 400

/* First thing in main: does not return in a process that was started as a fake worker. */
void t_fake_worker(int argc, char **argv);

struct t_world {
    char *directory;
    char root[PATH_MAX]; /* a toolchain in the eyes of the library, of real files */
    int descriptors;     /* open ones */
};

/* Set-up and teardown for cmocka; the state is a struct t_world. The second also proves that the
 * test left no descriptor open. */
int t_world_make(void **state);
int t_world_end(void **state);

/* A pool of one worker, which is the fake of that mode, or any file. */
struct compiler *t_fake_open(const struct t_world *w, const char *mode);
struct compiler *t_fake_open_path(const struct t_world *w, const char *path);

/* One request; checks what comes with success. */
quern_status t_fake_ask(struct compiler *c);

/* Whether the fake that was opened last has said that it will do no more. */
bool t_fake_is_idle(void);

/* Waits for the end of the fake of that mode; false if it does not end. */
bool t_fake_is_gone(const struct t_world *w, const char *mode);

#endif
