/* SPDX-License-Identifier: MIT */
/*
 * Every call into the operating system goes through this table, so that a test can make the Nth one
 * fail. The members have the meaning, the results and the errno of the functions they are named
 * after. Tests replace members before any other thread runs; nothing else writes to it.
 */
#ifndef QUERN_BASE_OS_H
#define QUERN_BASE_OS_H

#include <dirent.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The calls whose member is of the type of the C library's function, and is that function unless a
 * test replaces it. */
#define OS_CALLS(X)                                                                                \
    /* memory */                                                                                   \
    X(malloc)                                                                                      \
    X(calloc)                                                                                      \
    X(realloc)                                                                                     \
    X(aligned_alloc)                                                                               \
    X(free)                                                                                        \
    /* files */                                                                                    \
    X(close)                                                                                       \
    X(read)                                                                                        \
    X(pread)                                                                                       \
    X(fsync)                                                                                       \
    X(syncfs)                                                                                      \
    X(fstat)                                                                                       \
    X(fstatat)                                                                                     \
    X(mkdirat)                                                                                     \
    X(linkat)                                                                                      \
    X(renameat)                                                                                    \
    X(unlinkat)                                                                                    \
    X(symlinkat)                                                                                   \
    X(readlinkat)                                                                                  \
    X(flock)                                                                                       \
    X(futimens)                                                                                    \
    X(utimensat)                                                                                   \
    X(fdopendir)                                                                                   \
    X(readdir)                                                                                     \
    X(closedir)                                                                                    \
    X(getrandom)                                                                                   \
    X(faccessat)                                                                                   \
    X(fchmod)                                                                                      \
    X(fchmodat)                                                                                    \
    X(realpath)                                                                                    \
    X(getpwuid_r)                                                                                  \
    X(geteuid)                                                                                     \
    X(getegid)                                                                                     \
    X(getgroups)                                                                                   \
    /* processes and pipes */                                                                      \
    X(socketpair)                                                                                  \
    X(pipe2)                                                                                       \
    X(send)                                                                                        \
    X(recv)                                                                                        \
    X(poll)                                                                                        \
    X(recvmsg)                                                                                     \
    X(shutdown)                                                                                    \
    X(waitpid)                                                                                     \
    /* time */                                                                                     \
    X(clock_gettime)                                                                               \
    X(nanosleep)

struct os {
#define OS_MEMBER(name) __typeof__(name) *name;
    OS_CALLS(OS_MEMBER)
#undef OS_MEMBER
    /* those that os.c has functions of its own for, and says why */
    __typeof__(write) *write;
    __typeof__(ftruncate) *ftruncate;
    int (*open)(const char *, int, mode_t);
    int (*openat)(int, const char *, int, mode_t);
    int (*fcntl)(int, int, long);
    int (*clone)(int (*)(void *), void *, int, void *);
    int (*waitid)(int, id_t, siginfo_t *, int);
    int (*pidfd_send_signal)(int, int);
    /* its header has a `struct group`, which is another thing in the software GPU */
    int (*getgrouplist)(const char *, gid_t, gid_t *, int *);
};

extern struct os os;

/* Monotonic time in nanoseconds. */
uint64_t os_now(void);
/* Milliseconds since a moment that os_now told. */
int64_t os_ms_since(uint64_t moment);

/* Reads a whole regular file of at most `limit` bytes into malloc'ed memory with a NUL behind it.
 * Returns 0, or an errno: EFBIG over the limit, EINVAL not a regular file. */
int os_read_file(const char *path, size_t limit, char **bytes, size_t *size);

/* Number of CPUs this process may run on, at least 1. */
int os_cpu_count(void);

#endif
