/* SPDX-License-Identifier: MIT */
/* Starts threads, and spreads loops over them (thread.h): repacking, quantising, references,
 * prewarming. */
#include "base/thread.h"

#include <signal.h>
#include <stdatomic.h>

#define THREADS_MAX 256

int thread_start(pthread_t *thread, void *(*function)(void *user), void *user)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits it */
    const int error = pthread_create(thread, NULL, function, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

struct loop {
    atomic_size_t next;
    size_t count;
    void (*function)(void *user, size_t i);
    void *user;
};

static void *run(void *argument)
{
    struct loop *const loop = argument;
    size_t i;

    while ((i = atomic_fetch_add(&loop->next, 1)) < loop->count)
        loop->function(loop->user, i);
    return NULL;
}

void parallel_for(size_t count, int threads, void (*function)(void *user, size_t i), void *user)
{
    struct loop loop = {.count = count, .function = function, .user = user};
    pthread_t thread[THREADS_MAX];
    int started = 0;

    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    if ((size_t)(threads > 0 ? threads : 1) > count)
        threads = (int)count;
    while (started < threads - 1 && !thread_start(&thread[started], run, &loop))
        started++;
    run(&loop);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}
