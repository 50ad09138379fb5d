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
    atomic_int process; /* the process whose mutex it is; 0: none yet; -p: a thread of process p is
                           making it p's, and if p is another one, that thread is not here */
};

void lock_take(struct lock *lock);
void lock_give(struct lock *lock);

#endif
