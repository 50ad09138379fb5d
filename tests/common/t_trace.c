/* SPDX-License-Identifier: MIT */
#include "t_trace.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENDLESS      40000
#define LONG_SECONDS 1800

/* Calls that may fail in the field. The others (signals, futexes, exit …) cannot, as they are used,
 * or do not say so by an errno (brk).
 */
static bool can_fail(long long number)
{
    static const long calls[] = {
        SYS_read,      SYS_write,     SYS_open,       SYS_close,     SYS_stat,
        SYS_fstat,     SYS_lstat,     SYS_poll,       SYS_mmap,      SYS_pread64,
        SYS_access,    SYS_pipe2,     SYS_socketpair, SYS_sendto,    SYS_recvfrom,
        SYS_recvmsg,   SYS_fcntl,     SYS_flock,      SYS_fsync,     SYS_ftruncate,
        SYS_getcwd,    SYS_rename,    SYS_mkdir,      SYS_link,      SYS_unlink,
        SYS_symlink,   SYS_readlink,  SYS_chmod,      SYS_fchmod,    SYS_getdents64,
        SYS_openat,    SYS_mkdirat,   SYS_newfstatat, SYS_unlinkat,  SYS_renameat,
        SYS_linkat,    SYS_symlinkat, SYS_readlinkat, SYS_faccessat, SYS_faccessat2,
        SYS_utimensat, SYS_getrandom, SYS_statx,      SYS_fchmodat,  SYS_clone,
        SYS_clone3,    SYS_prlimit64,
    };

    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == number)
            return true;
    return false;
}

static void run_child(const struct t_trace *t)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(77);
    if (t->command) {
        const int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(null, fd);
    }
    raise(SIGSTOP);
    if (t->command) {
        alarm(LONG_SECONDS);
        execv(t->command[0], t->command);
        _exit(127);
    }
    t->body(t->user);
    _exit(0);
}

/* The state of one run. */
struct run {
    const struct t_trace *t;
    struct t_traced result;
    bool counting; /* a command's loader is done */
    bool entering; /* the next stop is on entering a call */
    bool failing;  /* the call that is being made is to fail */
};

/* On entering a call: 1 when the child is to be killed here. */
static bool enter(struct run *r, pid_t child)
{
    const struct t_trace *const t = r->t;
    struct user_regs_struct regs;

    r->failing = false;
    if (ptrace(PTRACE_GETREGS, child, NULL, &regs))
        return false;
    if (!r->counting) {
        /* the loader's last call: it unmaps the cache of library names */
        r->counting = regs.orig_rax == SYS_munmap;
        return false;
    }
    r->result.calls++;
    if (t->failing && r->result.calls <= T_TRACE_CALLS_MAX)
        t->failing[r->result.calls - 1] = can_fail((long long)regs.orig_rax);
    if (!t->at || r->result.calls < t->at || (r->result.calls > t->at && !t->for_ever))
        return false;
    if (t->kill)
        return true;
    if (t->signal) {
        kill(child, t->signal);
        r->result.reached = true;
        return false;
    }
    if (can_fail((long long)regs.orig_rax)) {
        r->failing = r->result.reached = true;
        regs.orig_rax = (unsigned long long)-1; /* no such call: nothing is done */
        ptrace(PTRACE_SETREGS, child, NULL, &regs);
    }
    return false;
}

static void leave(struct run *r, pid_t child)
{
    struct user_regs_struct regs;

    if (!r->failing || ptrace(PTRACE_GETREGS, child, NULL, &regs))
        return;
    regs.rax = (unsigned long long)-(long long)r->t->error;
    ptrace(PTRACE_SETREGS, child, NULL, &regs);
}

/* Follows the child to its end. */
static void follow(struct run *r, pid_t child)
{
    int pass = 0; /* a signal on its way to the child */

    for (;;) {
        if (ptrace(PTRACE_SYSCALL, child, NULL, pass) && errno == ESRCH)
            pass = 0; /* it has just been killed; waitpid tells */
        if (waitpid(child, &r->result.status, 0) != child)
            fail_msg("the traced child is gone");
        if (!WIFSTOPPED(r->result.status))
            return;
        pass = 0;
        if (WSTOPSIG(r->result.status) != (SIGTRAP | 0x80)) {
            pass = WSTOPSIG(r->result.status) == SIGTRAP ? 0 : WSTOPSIG(r->result.status);
            continue;
        }
        r->entering = !r->entering;
        if (!r->entering) {
            leave(r, child);
            continue;
        }
        const bool stop = enter(r, child);
        r->result.reached |= stop;
        r->result.endless = r->result.calls > ENDLESS;
        if (stop || r->result.endless) {
            kill(child, SIGKILL);
            waitpid(child, &r->result.status, 0);
            return;
        }
    }
}

struct t_traced t_trace(const struct t_trace *t)
{
    struct run r = {.t = t, .counting = !t->command};
    int status;

    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_child(t);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        skip(); /* a container without ptrace */
    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    follow(&r, child);
    return r.result;
}
