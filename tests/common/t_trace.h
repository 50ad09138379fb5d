/* SPDX-License-Identifier: MIT */
/*
 * Running something in a child process under ptrace, where it is killed at its Nth system call or
 * that call is made to fail: on the very code that ships, not on a build with hooks. x86-64. Only
 * the child's first thread is followed.
 */
#ifndef T_TRACE_H
#define T_TRACE_H

#include <stdbool.h>

#define T_TRACE_CALLS_MAX 32768 /* calls of one run that can be told apart */

struct t_trace {
    void (*body)(void *user); /* what the child does; then it exits with status 0 */
    void *user;
    char *const *command; /* instead of body: a program to run, null-terminated, with its output
                           * thrown away; SIGALRM ends it after two minutes */
    unsigned at;          /* which system call, from 1; 0: none. Of a command the calls of its
                           * loader are not counted */
    bool kill;            /* SIGKILL on entering it */
    int signal;           /* else this signal then, and on it goes */
    int error;            /* else this errno, in calls that deal with files, memory or processes */
    bool for_ever;        /* the error again in every later call */
    bool *failing;        /* null, or room for T_TRACE_CALLS_MAX: set where call i + 1 may fail */
};

struct t_traced {
    unsigned calls; /* system calls counted */
    bool reached;   /* the call was there to be killed at, be met by a signal or fail */
    int status;     /* as of waitpid */
    bool endless;   /* killed after a very great number of calls */
};

/* Skips the test (cmocka) when ptrace is not permitted. */
struct t_traced t_trace(const struct t_trace *what);

#endif
