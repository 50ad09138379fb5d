/* SPDX-License-Identifier: MIT */
/*
 * The host (H) makes an intermediate (I), which makes the program (P) and ends. P is then a child
 * of init, or of the nearest subreaper: H's SIGCHLD handler and wait() never meet it, unless H is
 * such a process itself, for which spawn_reap is there. A single step
 * would not do, because execve gives every process SIGCHLD back as its exit signal. I has exit
 * signal 0 and never executes anything, so only waitpid(__WALL) of this file sees it.
 *
 * Both steps are CLONE_VM | CLONE_VFORK: the maker sleeps until the made one executes or ends, and
 * nothing is copied, so that a host of any size starts P in the same time. The made ones run on a
 * stack of their own and call nothing but system calls.
 */
#include "compile/spawn.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Sanitizers keep per-thread state that code on a borrowed stack must not touch. */
#define BARE                                                                                       \
    __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined, noinline))

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#define STACK_BYTES 32768
/* The number of Linux's signals, and the bytes of the kernel's own sigset_t and struct sigaction.
 */
#define SIGNALS          64
#define KERNEL_SIGSET    8
#define KERNEL_SIGACTION 32

/* The first byte on the socket, before the program itself says anything: it was started, or execve
 * failed. */
enum { MARK_STARTED = 'S', MARK_FAILED = 'X' };

struct failure {
    uint8_t mark;
    uint8_t stage;
    uint16_t error;
};
enum { STAGE_SETUP, STAGE_EXEC };

struct steps {
    const struct spawn *spawn;
    int sock, pipe; /* the program's ends */
    uint8_t *program_stack;
};

/* Sends one byte, and with it a pidfd of this very process where the kernel has pidfds. Made here,
 * it cannot mean another process, as one made later from the process's number could. */
static BARE void send_started(int sock)
{
    const int pidfd = (int)syscall(SYS_pidfd_open, syscall(SYS_getpid), 0);
    uint8_t mark = MARK_STARTED;
    struct iovec bytes = {&mark, 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};

    if (pidfd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *const c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        *(int *)CMSG_DATA(c) = pidfd;
    }
    syscall(SYS_sendmsg, sock, &message, MSG_NOSIGNAL);
}

static BARE int report_failure(int sock, int stage)
{
    const struct failure f = {MARK_FAILED, (uint8_t)stage, (uint16_t)errno};

    syscall(SYS_sendto, sock, &f, sizeof f, MSG_NOSIGNAL, NULL, 0);
    return 127;
}

static BARE void close_from(unsigned first)
{
    if (!syscall(SYS_close_range, first, ~0u, 0))
        return;
    /* before Linux 5.9 there is no close_range. Descriptors above 1023 are left: the worker closes
     * them (close_above) */
    for (unsigned fd = first; fd < 1024; fd++)
        syscall(SYS_close, fd);
}

/* What P does up to its execve. Every descriptor used here is above 9: see above_standard. */
static BARE int program_step(void *argument)
{
    const struct steps *const s = argument;
    const struct spawn *const spawn = s->spawn;
    uint64_t none = 0;
    uint8_t action[KERNEL_SIGACTION] = {0}; /* SIG_DFL, no flags, empty mask */

    syscall(SYS_setsid);
    send_started(s->sock);
    if (syscall(SYS_dup3, s->sock, 0, 0) < 0 || syscall(SYS_dup3, s->pipe, 1, 0) < 0 ||
        syscall(SYS_dup3, s->pipe, 2, 0) < 0 ||
        (spawn->argument_file >= 0 && syscall(SYS_dup3, spawn->argument_file, 3, 0) < 0) ||
        (spawn->program >= 0 && syscall(SYS_dup3, spawn->program, 4, O_CLOEXEC) < 0))
        return report_failure(s->sock, STAGE_SETUP);
    if (spawn->argument_file < 0)
        syscall(SYS_close, 3);
    close_from(spawn->program < 0 ? 4 : 5);
    for (int i = 1; i <= SIGNALS; i++)
        syscall(SYS_rt_sigaction, i, action, NULL, KERNEL_SIGSET);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, KERNEL_SIGSET);
    if (spawn->program < 0)
        syscall(SYS_execve, spawn->arguments[0], spawn->arguments, spawn->environment);
    else
        syscall(SYS_execveat, 4, "", spawn->arguments, spawn->environment, AT_EMPTY_PATH);
    return report_failure(0, STAGE_EXEC);
}

/* I: makes P and ends. */
static BARE int intermediate_step(void *argument)
{
    struct steps *const s = argument;

    if (os.clone(program_step, s->program_stack, CLONE_VM | CLONE_VFORK | SIGCHLD, s) < 0)
        return report_failure(s->sock, STAGE_SETUP);
    return 0;
}

/* Moves a descriptor away from 0 to 9: the program's own will be put there, and a host that closed
 * its standard streams expects to find those numbers free. */
static bool above_standard(int *fd)
{
    if (*fd > 9)
        return true;
    const int moved = os.fcntl(*fd, F_DUPFD_CLOEXEC, 10);
    const int error = errno;
    os.close(*fd);
    *fd = moved;
    errno = error;
    return moved >= 0;
}

static int run_steps(struct steps *steps, uint8_t *stacks)
{
    uint64_t all = ~(uint64_t)0, before = 0;
    int error = 0;

    steps->program_stack = stacks + 2 * STACK_BYTES;
    /* No handler of the host may run on memory that is shared with a process that is not the host.
     * The system call, because the C library's function spares its own two signals. */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, KERNEL_SIGSET);
    const int pid =
        os.clone(intermediate_step, stacks + STACK_BYTES, CLONE_VM | CLONE_VFORK, steps);
    if (pid < 0)
        error = errno;
    else
        while (os.waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {
        }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, KERNEL_SIGSET);
    return error;
}

/* Receives the pidfd that the program sent of itself, and its failure if there was one. Does not
 * wait: by now both have been sent or never will be. */
static int receive_start(struct spawned *spawned, const char **stage)
{
    uint8_t mark = 0;
    struct iovec bytes = {&mark, 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct failure failure;

    const ssize_t n = os.recvmsg(spawned->sock, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n != 1) {
        /* Nothing came, as the program was killed before it could send a byte. Its end of the
         * socket may still be open (EAGAIN): when a process is killed, the kernel first lets go on
         * who waits for it by CLONE_VFORK, and then closes its descriptors. */
        *stage = "recvmsg";
        return n < 0 && errno != EAGAIN ? errno : ECHILD;
    }
    const struct cmsghdr *const c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&spawned->pidfd, CMSG_DATA(c), sizeof(int));
    if (spawned->pidfd >= 0)
        above_standard(&spawned->pidfd);
    if (mark == MARK_FAILED) {
        failure.error = EAGAIN;
        os.recv(spawned->sock, (uint8_t *)&failure + 1, sizeof failure - 1, MSG_DONTWAIT);
        *stage = "clone";
        return failure.error;
    }
    if (os.recv(spawned->sock, &failure, sizeof failure, MSG_PEEK | MSG_DONTWAIT) ==
            sizeof failure &&
        failure.mark == MARK_FAILED) {
        *stage = failure.stage == STAGE_EXEC ? "exec" : "dup3";
        return failure.error;
    }
    return 0;
}

int spawn_program(const struct spawn *spawn, struct spawned *spawned, const char **stage)
{
    struct steps steps = {.spawn = spawn};
    int sock[2] = {-1, -1}, pipe[2] = {-1, -1};
    uint8_t *const stacks = os.aligned_alloc(64, 2 * STACK_BYTES);
    int error = 0;

    *spawned = (struct spawned){-1, -1, -1};
    if (!stacks) {
        *stage = "malloc";
        error = ENOMEM;
    } else if (os.socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock)) {
        *stage = "socketpair";
        error = errno;
    } else if (os.pipe2(pipe, O_CLOEXEC)) {
        *stage = "pipe2";
        error = errno;
    } else if (!above_standard(&sock[0]) || !above_standard(&sock[1]) ||
               !above_standard(&pipe[0]) || !above_standard(&pipe[1]) ||
               os.fcntl(sock[0], F_SETFL, O_NONBLOCK) || os.fcntl(pipe[0], F_SETFL, O_NONBLOCK)) {
        *stage = "fcntl";
        error = errno;
    } else {
        steps.sock = sock[1];
        steps.pipe = pipe[1];
        *stage = "clone";
        error = run_steps(&steps, stacks);
    }
    os.free(stacks);
    if (sock[1] >= 0)
        os.close(sock[1]);
    if (pipe[1] >= 0)
        os.close(pipe[1]);
    spawned->sock = sock[0];
    spawned->pipe = pipe[0];
    if (!error)
        error = receive_start(spawned, stage);
    if (!error)
        return 0;
    spawn_reap(spawned->pidfd);
    for (int *fd = (int[]){spawned->sock, spawned->pipe, spawned->pidfd, -2}; *fd != -2; fd++)
        if (*fd >= 0)
            os.close(*fd);
    *spawned = (struct spawned){-1, -1, -1};
    return error;
}

/* What a program leaves behind when it is killed dies with it (PR_SET_PDEATHSIG): that takes no
 * longer than ending does. */
#define REAP_TRIES 5000

void spawn_reap(int pidfd)
{
    const struct timespec millisecond = {0, 1000000};
    siginfo_t info = {0};

    /* looked at first: until it is waited for, its number is that of its group and nobody else's */
    if (pidfd < 0 || os.waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL))
        return;
    const id_t group = (id_t)info.si_pid;
    for (int tries = REAP_TRIES; group && tries; tries--) {
        info.si_pid = 0;
        if (os.waitid(P_PGID, group, &info, WEXITED | WNOHANG | __WALL))
            return; /* no more children there */
        if (!info.si_pid)
            os.nanosleep(&millisecond, NULL);
    }
}
