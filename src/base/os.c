/* SPDX-License-Identifier: MIT */
/* The table of system calls (os.h) as the library starts with it, and small helpers on top of
 * it. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>

/* open, openat and fcntl are variadic: they need a function of a fixed type to stand in the table.
 */
static int os_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}
static int os_openat(int dir, const char *path, int flags, mode_t mode)
{
    return openat(dir, path, flags, mode);
}
static int os_fcntl(int fd, int command, long argument)
{
    return fcntl(fd, command, argument);
}
/* A write beyond a process's limit on the size of files (RLIMIT_FSIZE) fails with EFBIG, and raises
 * SIGXFSZ in the thread that made it, which ends a host that has no handler. So the signal is
 * blocked during such a call, and discarded if it came. */
struct held {
    sigset_t signal, before, pending;
};

static void hold(struct held *h)
{
    sigemptyset(&h->signal);
    sigaddset(&h->signal, SIGXFSZ);
    sigpending(&h->pending);
    pthread_sigmask(SIG_BLOCK, &h->signal, &h->before);
}

static void let_go(const struct held *h, bool failed)
{
    const int error = errno;

    if (failed && error == EFBIG && !sigismember(&h->pending, SIGXFSZ))
        sigtimedwait(&h->signal, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &h->before, NULL);
    errno = error;
}

static ssize_t os_write(int fd, const void *bytes, size_t size)
{
    struct held h;

    hold(&h);
    const ssize_t n = write(fd, bytes, size);
    let_go(&h, n < 0);
    return n;
}
static int os_ftruncate(int fd, off_t size)
{
    struct held h;

    hold(&h);
    const int result = ftruncate(fd, size);
    let_go(&h, result < 0);
    return result;
}
/* The C library's clone, by its other name. ThreadSanitizer replaces `clone` by a function that
 * treats the child as a fork; but the child shares the host's memory, so that it would change the
 * host's state. */
extern int __clone(int (*function)(void *), void *stack, int flags, void *argument, ...);
static int os_clone(int (*function)(void *), void *stack, int flags, void *argument)
{
    return __clone(function, stack, flags, argument);
}
/* The first parameter is an enumeration that lacks P_PIDFD in older C libraries. */
static int os_waitid(int kind, id_t id, siginfo_t *info, int options)
{
    return (int)syscall(SYS_waitid, kind, id, info, options, NULL);
}
/* The oldest supported release of the C library does not have this function. */
static int os_pidfd_send_signal(int pidfd, int signal)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}

struct os os = {.write = os_write,
                .ftruncate = os_ftruncate,
                .open = os_open,
                .openat = os_openat,
                .fcntl = os_fcntl,
                .clone = os_clone,
                .waitid = os_waitid,
                .pidfd_send_signal = os_pidfd_send_signal,
                .getgrouplist = getgrouplist,
#define OS_ITSELF(name) .name = name,
                OS_CALLS(OS_ITSELF)
#undef OS_ITSELF
};

uint64_t os_now(void)
{
    struct timespec t = {0};

    os.clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int64_t os_ms_since(uint64_t moment)
{
    return (int64_t)((os_now() - moment) / 1000000);
}

int os_read_file(const char *path, size_t limit, char **bytes, size_t *size)
{
    /* O_NONBLOCK: opening a fifo must not hang; it has no effect on regular files */
    const int fd = os.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    struct stat st;
    char *buffer = NULL;
    size_t got = 0;
    int error = 0, tries = 100; /* a read that is interrupted so often counts as failed */

    if (fd < 0)
        return errno;
    if (os.fstat(fd, &st))
        error = errno;
    else if (!S_ISREG(st.st_mode))
        error = EINVAL;
    else if ((uint64_t)st.st_size > limit)
        error = EFBIG;
    else if (!(buffer = os.malloc((size_t)st.st_size + 1)))
        error = ENOMEM;
    while (!error && got < (size_t)st.st_size) {
        const ssize_t n = os.read(fd, buffer + got, (size_t)st.st_size - got);
        if (n < 0 && (errno != EINTR || !--tries))
            error = errno;
        else if (n == 0)
            break;
        else if (n > 0)
            got += (size_t)n;
    }
    os.close(fd);
    if (error) {
        os.free(buffer);
        return error;
    }
    buffer[got] = 0;
    *bytes = buffer;
    *size = got;
    return 0;
}

int os_cpu_count(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    const int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}
