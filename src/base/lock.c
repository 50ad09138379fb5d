/* SPDX-License-Identifier: MIT */
/* The mutex that survives a fork (lock.h), for the op table and other writers of published data. */
#include "base/lock.h"

#include <sched.h>
#include <unistd.h>

void lock_take(struct lock *l)
{
    const int here = (int)getpid();
    int owner;

    while ((owner = atomic_load(&l->process)) != here) {
        if (owner != -here && atomic_compare_exchange_strong(&l->process, &owner, -here)) {
            /* the mutex is new, or a copy of the parent's, which a thread that is not in this
             * process may hold, or may have been making when it forked */
            pthread_mutex_init(&l->mutex, NULL);
            atomic_store(&l->process, here);
        } else {
            sched_yield();
        }
    }
    pthread_mutex_lock(&l->mutex);
}

void lock_give(struct lock *l)
{
    pthread_mutex_unlock(&l->mutex);
}
