/* SPDX-License-Identifier: MIT */
/* Spreads a loop over threads (thread.h): repacking, quantising, references, prewarming. */
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define THREADS_MAX 256

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
    sigset_t all, before;
    int started = 0;

    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    if ((size_t)(threads > 0 ? threads : 1) > count)
        threads = (int)count;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < threads - 1 && !pthread_create(&thread[started], NULL, run, &loop))
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    run(&loop);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}
