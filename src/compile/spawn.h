/* SPDX-License-Identifier: MIT */
/* Starting a program that is no child of this process and holds none of its descriptors. */
#ifndef QUERN_COMPILE_SPAWN_H
#define QUERN_COMPILE_SPAWN_H

#include <stddef.h>

struct spawn {
    /* Descriptor of the executable, opened with O_PATH or for reading; or -1: the program is the
     * file arguments[0]. Only so may it be a script: what interprets it opens it by name. */
    int program;
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
 * mask. Returns 0 or an errno; *stage then says what failed ("exec", "socketpair" …). Blocks
 * for about a millisecond. Never blocks the host's other threads, whatever its size: its memory is
 * not copied.
 */
int spawn_program(const struct spawn *spawn, struct spawned *spawned, const char **stage);

/*
 * To be called when the program has ended. In a host that is the first process of its PID namespace
 * or a subreaper the program, and what it left in its session, are this process's children after
 * all: they are waited for, and nobody else's are. Elsewhere, and where the host has waited for
 * them itself or ignores SIGCHLD, this does nothing. `pidfd` may be -1: then a zombie stays, as it
 * does on kernels before 5.4. Blocks until they have ended, at most some seconds.
 */
void spawn_reap(int pidfd);

#endif
