/* SPDX-License-Identifier: MIT */
/* A loop spread over threads. */
#ifndef QUERN_BASE_THREAD_H
#define QUERN_BASE_THREAD_H

#include <stddef.h>

/*
 * Calls function(user, i) once for each i < count, on at most `threads` threads of which the caller
 * is one; blocks until all are done. Indices are handed out in order. When a thread cannot be
 * started the others do its share. New threads have every signal blocked: the host's handlers stay
 * on its threads.
 */
void parallel_for(size_t count, int threads, void (*function)(void *user, size_t i), void *user);

#endif
