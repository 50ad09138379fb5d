/* SPDX-License-Identifier: MIT */
/*
 * Tells tests/run.py which programs start threads, as ThreadSanitizer sees nothing in the others:
 * tests/threads.txt lists what it is to see. Every program is linked so that calls of
 * pthread_create and parallel_for arrive here (--wrap). They do what they always did; and the first
 * thread that is not one of a loop's makes an empty file of the program's name in $T_THREADS, where
 * that is set. Loops of parallel_for are in most programs, and the same in all.
 */
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef void *thread_function(void *user);
typedef void loop_function(void *user, size_t i);

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          thread_function *function, void *user);
/* Visible, as the linker takes calls in shared libraries beside the program for calls of it. */
__attribute__((visibility("default"))) int __wrap_pthread_create(pthread_t *thread,
                                                                 const pthread_attr_t *attributes,
                                                                 thread_function *function,
                                                                 void *user);
void __real_parallel_for(size_t count, int threads, loop_function *function, void *user);
void __wrap_parallel_for(size_t count, int threads, loop_function *function, void *user);

/* Whether this thread is in parallel_for, and not in what that runs. */
static _Thread_local bool in_loop;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          thread_function *function, void *user)
{
    const char *const directory = getenv("T_THREADS");
    char path[PATH_MAX];

    if (directory && !in_loop) {
        snprintf(path, sizeof path, "%s/%s", directory, program_invocation_short_name);
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    }
    return __real_pthread_create(thread, attributes, function, user);
}

struct loop {
    loop_function *function;
    void *user;
};

static void run_part(void *user, size_t i)
{
    const struct loop *const loop = user;
    const bool was_in_loop = in_loop;

    in_loop = false;
    loop->function(loop->user, i);
    in_loop = was_in_loop;
}

void __wrap_parallel_for(size_t count, int threads, loop_function *function, void *user)
{
    struct loop loop = {function, user};
    const bool was_in_loop = in_loop;

    in_loop = true;
    __real_parallel_for(count, threads, run_part, &loop);
    in_loop = was_in_loop;
}
