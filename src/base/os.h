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
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

struct os {
    /* memory */
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void (*free)(void *);
    /* files */
    int (*open)(const char *, int, mode_t);
    int (*openat)(int, const char *, int, mode_t);
    int (*close)(int);
    ssize_t (*read)(int, void *, size_t);
    ssize_t (*pread)(int, void *, size_t, off_t);
    ssize_t (*write)(int, const void *, size_t);
    int (*fsync)(int);
    int (*fstat)(int, struct stat *);
    int (*fstatat)(int, const char *, struct stat *, int);
    int (*mkdirat)(int, const char *, mode_t);
    int (*linkat)(int, const char *, int, const char *, int);
    int (*renameat)(int, const char *, int, const char *);
    int (*unlinkat)(int, const char *, int);
    int (*symlinkat)(const char *, int, const char *);
    ssize_t (*readlinkat)(int, const char *, char *, size_t);
    int (*flock)(int, int);
    int (*futimens)(int, const struct timespec[2]);
    int (*utimensat)(int, const char *, const struct timespec[2], int);
    DIR *(*fdopendir)(int);
    struct dirent *(*readdir)(DIR *);
    int (*closedir)(DIR *);
    ssize_t (*getrandom)(void *, size_t, unsigned);
    int (*faccessat)(int, const char *, int, int);
    int (*fchmod)(int, mode_t);
    int (*fchmodat)(int, const char *, mode_t, int);
    int (*ftruncate)(int, off_t);
    char *(*realpath)(const char *, char *);
    int (*getpwuid_r)(uid_t, struct passwd *, char *, size_t, struct passwd **);
    uid_t (*geteuid)(void);
    gid_t (*getegid)(void);
    int (*getgroups)(int, gid_t[]);
    int (*getgrouplist)(const char *, gid_t, gid_t *, int *);
    /* processes and pipes */
    int (*socketpair)(int, int, int, int[2]);
    int (*pipe2)(int[2], int);
    int (*fcntl)(int, int, long);
    ssize_t (*send)(int, const void *, size_t, int);
    ssize_t (*recv)(int, void *, size_t, int);
    int (*poll)(struct pollfd *, nfds_t, int);
    ssize_t (*recvmsg)(int, struct msghdr *, int);
    int (*shutdown)(int, int);
    int (*clone)(int (*)(void *), void *, int, void *);
    pid_t (*waitpid)(pid_t, int *, int);
    int (*waitid)(int, id_t, siginfo_t *, int);
    int (*pidfd_send_signal)(int, int);
    /* time */
    int (*clock_gettime)(clockid_t, struct timespec *);
    int (*nanosleep)(const struct timespec *, struct timespec *);
};

extern struct os os;

/* Monotonic time in nanoseconds. */
uint64_t os_now(void);

/* Reads a whole regular file of at most `limit` bytes into malloc'ed memory with a NUL behind it.
 * Returns 0, or an errno: EFBIG over the limit, EINVAL not a regular file. */
int os_read_file(const char *path, size_t limit, char **bytes, size_t *size);

/* Number of CPUs this process may run on, at least 1. */
int os_cpu_count(void);

#endif
