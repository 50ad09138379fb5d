/* SPDX-License-Identifier: MIT */
/* Starting a program that is no child of this process and holds none of its descriptors. */
#ifndef QUERN_COMPILE_SPAWN_H
#define QUERN_COMPILE_SPAWN_H

#include <stddef.h>

struct spawn {
    int program;       /* descriptor of the executable, opened with O_PATH or for reading */
    int argument_file; /* becomes descriptor 3 of the program, or -1 */
    char *const *arguments;
    char *const *environment;
};

/* The host's ends of a program's descriptors, all close-on-exec. */
struct spawned {
    int sock;  /* the other end is the program's descriptor 0; does not block */
    int pipe;  /* reads the program's descriptors 1 and 2; does not block */
    int pidfd; /* -1 where the kernel has none */
};

/*
 * Runs the program in a session of its own, with default signal dispositions and an empty signal
 * mask. Returns 0 or an errno; *stage then says what failed ("execveat", "socketpair" …). Blocks
 * for about a millisecond. Never blocks the host's other threads, whatever its size: its memory is
 * not copied.
 */
int spawn_program(const struct spawn *spawn, struct spawned *spawned, const char **stage);

#endif
