/* SPDX-License-Identifier: MIT */
/* What this program was built for. */
#ifndef T_BUILD_H
#define T_BUILD_H

/*
 * Under a sanitizer code runs 3 to 30 times slower. A test that repeats one way through the code
 * with other numbers may do less of it there: sanitizers judge the way, the release build the
 * numbers.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { T_SANITIZED = 1 };
#else
enum { T_SANITIZED = 0 };
#endif

/* ThreadSanitizer is the slowest and sees threads only: of programs that start some
 * (tests/threads.txt) it runs the tests that do. */
#ifdef __SANITIZE_THREAD__
enum { T_THREADS_ONLY = 1 };
#else
enum { T_THREADS_ONLY = 0 };
#endif

/*
 * Whether a process may fork while another of its threads allocates, and the child may allocate. A
 * C library's allocator sees to that. AddressSanitizer's, as of GCC 12, takes none of its locks
 * around a fork: the child can find one held by a thread that it does not have, and then waits for
 * ever in SizeClassAllocator64::GetFromAllocator. ThreadSanitizer's does take them.
 */
#ifdef __SANITIZE_ADDRESS__
enum { T_FORKS_WITH_THREADS = 0 };
#else
enum { T_FORKS_WITH_THREADS = 1 };
#endif

#endif
