/* SPDX-License-Identifier: MIT */
/*
 * A mutex that a forked child may take, even if at the fork a thread held it that the child lacks.
 * It is for data that is whole at any moment (published by one atomic store), where the lock only
 * keeps writers apart. Zero-initialise it; nothing needs to be destroyed.
 */
#ifndef QUERN_BASE_LOCK_H
#define QUERN_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>

struct lock {
    pthread_mutex_t mutex;
    /* The process whose mutex it is; 0: none's yet; -p: a thread of process p initialises it. A
     * process that was forked meanwhile does not have that thread, and initialises it anew. */
    atomic_int process;
};

void lock_take(struct lock *lock);
void lock_give(struct lock *lock);

#endif
