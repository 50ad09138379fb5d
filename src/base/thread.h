/* SPDX-License-Identifier: MIT */
/* Threads of the library, and a loop spread over them. */
#ifndef QUERN_BASE_THREAD_H
#define QUERN_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * Starts a thread that runs function(user), for the caller to join. It has every signal blocked:
 * the host's handlers run on the host's threads alone. 0, or the error number of pthread_create.
 */
int thread_start(pthread_t *thread, void *(*function)(void *user), void *user);

/*
 * Calls function(user, i) once for each i < count, on at most `threads` threads of which the caller
 * is one; blocks until all are done. Indices are handed out in order. When a thread cannot be
 * started the others do its share.
 */
void parallel_for(size_t count, int threads, void (*function)(void *user, size_t i), void *user);

#endif
