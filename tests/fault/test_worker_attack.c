/* SPDX-License-Identifier: MIT */
/*
 * A program that wants out, in the sandbox that the compiler's process enters: it may reach no
 * other process, no network, and nothing of files that Landlock does not guard. Tried with every
 * means of the kernel, without Landlock, and on kernels that cannot ask about a refused call. And
 * in that of the helper that fetches from a remote cache, which may do no more than connect.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compile/worker.h"
#include "t_context.h"
#include "t_store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LANDLOCK_CREATE 444

/* What the attacker is given, and what became of its attempts: in memory that both share. */
enum { ATTEMPTS_MAX = 512 };
struct scene {
    pid_t host, victim;                    /* the host, and another process of the same user */
    char *directory;                       /* the private one */
    char victims_file[512], own_file[512]; /* of the user, and in the private directory */
    struct attempt {
        const char *call;
        long argument;
        int expected, got; /* errno, 0 where the call succeeds */
    } attempts[ATTEMPTS_MAX];
    int count;
    char level[128];
    bool network; /* it is the helper that fetches from a remote cache: it may connect */
    bool finished, threads_work;
};

/* Makes system calls with arguments that would work, and notes how each fails. */
static void attempt(struct scene *s, const char *name, int expected, long result, long argument)
{
    const int error = result == -1 ? errno : 0;

    if (s->count < ATTEMPTS_MAX)
        s->attempts[s->count++] = (struct attempt){name, argument, expected, error};
    errno = 0;
}
#define NO(call, ...)                                                                              \
    attempt(s, #call, EPERM, syscall(SYS_##call, __VA_ARGS__), (long)(FIRST(__VA_ARGS__, 0)))
#define FIRST(a, ...) (a)

static void attack_processes(struct scene *s)
{
    const struct rlimit64 {
        uint64_t soft, hard;
    } none = {0, 0};
    const pid_t others[] = {s->victim, s->host, -1, 1};
    uint64_t processors = 1;
    siginfo_t info = {.si_code = SI_QUEUE};
    struct sched_param ordinary = {0};
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {s, 1};

    for (size_t i = 0; i < 4; i++) {
        const pid_t p = others[i];
        NO(prlimit64, p, RLIMIT_CPU, &none, NULL);
        NO(prlimit64, p, RLIMIT_CPU, NULL, &none);
        NO(sched_setaffinity, p, sizeof processors, &processors);
        NO(sched_setscheduler, p, SCHED_IDLE, &ordinary);
        NO(sched_setparam, p, &ordinary);
        NO(sched_setattr, p, NULL, 0);
        NO(setpriority, PRIO_PROCESS, p, 19);
        NO(ioprio_set, 1, p, 3 << 13);
        NO(migrate_pages, p, 0, NULL, NULL);
        NO(move_pages, p, 0, NULL, NULL, NULL, 0);
        NO(ptrace, PTRACE_ATTACH, p, 0, 0);
        NO(ptrace, PTRACE_SEIZE, p, 0, 0);
        NO(process_vm_readv, p, &here, 1, &there, 1, 0);
        NO(process_vm_writev, p, &here, 1, &there, 1, 0);
        NO(pidfd_open, p, 0);
        NO(kcmp, p, p, 0, 0, 0);
        for (int number = 0; number <= 64; number++) {
            NO(kill, p, number);
            NO(tkill, p, number);
            NO(tgkill, p, p, number);
            NO(rt_sigqueueinfo, p, number, &info);
            NO(rt_tgsigqueueinfo, p, p, number, &info);
            if (number > 2 && number != SIGKILL && number != SIGXCPU)
                number += 7; /* not all of them of every one: the list has an end */
        }
        NO(fcntl, 0, F_SETOWN, p);
        NO(ioctl, 0, FIOSETOWN, &p);
    }
    NO(setpriority, PRIO_USER, getuid(), 19);
    NO(fcntl, 0, F_SETSIG, SIGKILL);
    NO(ptrace, PTRACE_TRACEME, 0, 0, 0);
    NO(prctl, PR_SET_PTRACER, s->victim);
    NO(prctl, PR_SET_DUMPABLE, 1);
    NO(prctl, PR_SET_PDEATHSIG, 0);
    NO(prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
    NO(seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, NULL);
    NO(setpgid, 0, s->victim);
    NO(setsid, 0);
}

static void attack_files(struct scene *s)
{
    char *const files[] = {s->victims_file, s->own_file};

    for (size_t i = 0; i < 2; i++) {
        const char *const f = files[i];
        const int fd = (int)syscall(SYS_openat, AT_FDCWD, f, O_RDONLY);
        char other[600];
        snprintf(other, sizeof other, "%s.other", f);
        NO(chmod, f, 0777);
        NO(fchmod, fd, 0777);
        NO(fchmodat, AT_FDCWD, f, 0777);
        attempt(s, "fchmodat2", EPERM, syscall(452, AT_FDCWD, f, 0777, 0), i);
        NO(chown, f, 1, 1);
        NO(fchown, fd, 1, 1);
        NO(lchown, f, 1, 1);
        NO(fchownat, AT_FDCWD, f, 1, 1, 0);
        NO(setxattr, f, "user.quern", "1", 1, 0);
        NO(lsetxattr, f, "user.quern", "1", 1, 0);
        NO(fsetxattr, fd, "user.quern", "1", 1, 0);
        attempt(s, "setxattrat", EPERM, syscall(463, AT_FDCWD, f, 0, "user.quern", NULL, 0), i);
        NO(removexattr, f, "user.quern");
        NO(lremovexattr, f, "user.quern");
        NO(fremovexattr, fd, "user.quern");
        attempt(s, "removexattrat", EPERM, syscall(466, AT_FDCWD, f, 0, "user.quern"), i);
        attempt(s, "file_setattr", EPERM, syscall(469, AT_FDCWD, f, NULL, 0, 0), i);
        NO(utime, f, NULL);
        NO(utimes, f, NULL);
        NO(futimesat, AT_FDCWD, f, NULL);
        NO(utimensat, AT_FDCWD, f, NULL, 0);
        NO(truncate, f, 0);
        NO(link, f, other);
        NO(linkat, AT_FDCWD, f, AT_FDCWD, other, 0);
        NO(symlink, f, other);
        NO(symlinkat, f, AT_FDCWD, other);
        NO(mknod, other, S_IFCHR | 0666, 0x103);
        NO(mknod, other, S_IFIFO | 0666, 0);
        NO(mknodat, AT_FDCWD, other, S_IFSOCK | 0666, 0);
        NO(flock, fd, 2);
        NO(ioctl, fd, 0x40086602 /* FS_IOC_SETFLAGS */, &i);
        NO(name_to_handle_at, AT_FDCWD, f, NULL, NULL, 0);
    }
    NO(open_by_handle_at, AT_FDCWD, NULL, O_RDWR);
    NO(fanotify_init, 0, 0);
}

/* Asks for a device to be changed, in nothing, by the socket that lists addresses: root may. */
static void attack_routes(struct scene *s)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg link;
    } change = {{sizeof change, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0}, {.ifi_index = 1}};
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char more[512];
    } answer = {{0}, {0}, {0}};
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd >= 0 && send(fd, &change, sizeof change, 0) > 0)
        recv(fd, &answer, sizeof answer, 0);
    errno = -answer.error.error;
    attempt(s, "RTM_NEWLINK", EPERM, -1, 0);
    close(fd);
}

static void attack_sockets(struct scene *s)
{
    static const int families[] = {AF_UNIX, AF_PACKET, AF_INET, AF_INET6, AF_NETLINK};
    const size_t refused = s->network ? 2 : sizeof families / sizeof *families;
    int pair[2];

    for (size_t i = 0; i < refused; i++) {
        NO(socket, families[i], SOCK_STREAM, 0);
        NO(socket, families[i], SOCK_DGRAM, 0);
    }
    for (size_t i = s->network; i < sizeof families / sizeof *families; i++)
        NO(socketpair, families[i], SOCK_STREAM, 0, pair);
    NO(listen, 0, 1);
    NO(accept, 0, NULL, NULL);
    NO(accept4, 0, NULL, NULL, 0);
    NO(io_uring_setup, 1, NULL);
    if (s->network) {
        /* each of these would reach another process, or, as root, what the kernel lets through */
        NO(socketpair, AF_UNIX, SOCK_DGRAM, 0, pair);
        NO(socketpair, AF_UNIX, SOCK_SEQPACKET, 0, pair);
        NO(socket, AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
        NO(socket, AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT);
        NO(socket, AF_INET, SOCK_RAW, IPPROTO_ICMP);
        NO(socket, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
        NO(setsockopt, 0, IPPROTO_IP, 64 /* IPT_SO_SET_REPLACE */, NULL, 0);
        attack_routes(s);
        return;
    }
    NO(connect, 0, NULL, 0);
    NO(bind, 0, NULL, 0);
    attempt(s, "eventfd2", ENOSYS, syscall(SYS_eventfd2, 0, 0), 0);
}

static void attack_system(struct scene *s)
{
    static const long namespaces[] = {CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,   CLONE_NEWUSER,
                                      CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP};

    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        NO(unshare, namespaces[i]);
        NO(setns, 0, namespaces[i]);
        NO(clone, namespaces[i] | SIGCHLD, 0, NULL, NULL, 0);
        /* with the flags of a thread, which the kernel would refuse otherwise than by EPERM */
        NO(clone, namespaces[i] | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0, NULL, NULL, 0);
    }
    NO(clone, SIGCHLD, 0, NULL, NULL, 0);
    NO(fork, 0);
    attempt(s, "clone3", ENOSYS, syscall(435, NULL, 0), 0);
    NO(execve, "/proc/self/exe", NULL, NULL);
    NO(execveat, AT_FDCWD, "/proc/self/exe", NULL, NULL, 0);
    NO(fsopen, "tmpfs", 0);
    NO(open_tree, AT_FDCWD, s->directory, 1);
    NO(mount, "none", s->directory, "tmpfs", 0, NULL);
    NO(umount2, s->directory, 0);
    NO(chroot, s->directory);
    NO(pivot_root, s->directory, s->directory);
    NO(setuid, getuid());
    NO(setgid, getgid());
    NO(setgroups, 0, NULL);
    NO(capset, NULL, NULL);
    NO(personality, 0xffffffff);
    NO(bpf, 0, NULL, 0);
    NO(perf_event_open, NULL, 0, -1, -1, 0);
    NO(userfaultfd, 0);
    NO(keyctl, 0, 0, 0);
    NO(add_key, "user", "quern", "1", 1, -2);
    NO(shmget, 1, 4096, 0600 | 01000);
    NO(msgget, 1, 0600 | 01000);
    NO(semget, 1, 1, 0600 | 01000);
    NO(mq_open, "quern", O_CREAT, 0600, NULL);
    NO(sethostname, "quern", 5);
    NO(reboot, 0, 0, 0);
    /* what nobody forbade, and what there is not yet, is not there */
    attempt(s, "number 1000", ENOSYS, syscall(1000, 0, 0), 0);
    attempt(s, "x32 kill", ENOSYS, syscall(0x40000000 | SYS_kill, s->victim, SIGKILL), 0);
}

/* With Landlock: files of the user, those of other processes among them. */
static void attack_paths(struct scene *s)
{
    char path[64], made[600];

    attempt(s, "open", EACCES, syscall(SYS_openat, AT_FDCWD, s->victims_file, O_RDONLY), 0);
    attempt(s, "open", EACCES, syscall(SYS_openat, AT_FDCWD, s->victims_file, O_WRONLY), 1);
    attempt(s, "unlink", EACCES, syscall(SYS_unlink, s->victims_file), 0);
    attempt(s, "rename", EACCES, syscall(SYS_rename, s->victims_file, s->own_file), 0);
    snprintf(made, sizeof made, "%s.made", s->victims_file);
    attempt(s, "mkdir", EACCES, syscall(SYS_mkdir, made, 0700), 0);
    snprintf(path, sizeof path, "/proc/%d/mem", s->victim);
    attempt(s, "mem", EACCES, syscall(SYS_openat, AT_FDCWD, path, O_RDWR), 0);
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", s->host);
    attempt(s, "oom_score_adj", EACCES, syscall(SYS_openat, AT_FDCWD, path, O_WRONLY), 0);
}

/* The helper that fetches has no directory of its own, either. */
static void attack_own_paths(struct scene *s)
{
    char made[600];

    attempt(s, "open", EACCES, syscall(SYS_openat, AT_FDCWD, s->own_file, O_RDONLY), 2);
    attempt(s, "open", EACCES, syscall(SYS_openat, AT_FDCWD, s->own_file, O_WRONLY), 3);
    snprintf(made, sizeof made, "%s.made", s->own_file);
    attempt(s, "create", EACCES, syscall(SYS_openat, AT_FDCWD, made, O_RDWR | O_CREAT, 0600), 4);
    attempt(s, "passwd", EACCES, syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY), 5);
}

static void *nothing(void *user)
{
    return user;
}

/* ---- The sandbox's other side ---------------------------------------------------------------- */

/* In this process a call fails whose argument `argument` has this value, or (any) always. */
static void take_away(uint32_t call, uint32_t argument, uint32_t value, bool any, int error)
{
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 (uint32_t)(offsetof(struct seccomp_data, args) + 8 * argument)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, !any),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, (struct sock_filter *)code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        _exit(77);
}

static _Noreturn void attacker(struct scene *s, int supervisor, bool landlock, bool listener)
{
    static char none[] = "";
    struct worker_config config = {.compiler = none,
                                   .disassembler = none,
                                   .root = s->directory,
                                   .libraries = none,
                                   .temporary = s->directory};
    pthread_t thread;

    if (!landlock)
        take_away(LANDLOCK_CREATE, 0, 0, true, ENOSYS);
    if (!listener)
        take_away(SYS_seccomp, 1, SECCOMP_FILTER_FLAG_NEW_LISTENER, false, EINVAL);
    sandbox_enter(s->network ? NULL : &config, s->network ? -1 : supervisor, s->level,
                  sizeof s->level);
    if (strstr(s->level, "seccomp")) {
        attack_processes(s);
        attack_files(s);
        attack_sockets(s);
        attack_system(s);
        s->threads_work = !pthread_create(&thread, NULL, nothing, NULL);
        if (s->threads_work)
            pthread_join(thread, NULL);
    }
    if (strstr(s->level, "landlock"))
        attack_paths(s);
    if (s->network && strstr(s->level, "landlock"))
        attack_own_paths(s);
    s->finished = true;
    abort(); /* which takes a signal to oneself */
}

/* Answers as the worker's supervisor does, until the child has ended. Returns its status. */
static int supervise(pid_t child, int life, char *refused)
{
    struct pollfd polls[2] = {{life, POLLIN, 0}, {-1, POLLIN, 0}};
    int status = 0;

    while (!(polls[0].revents & ~POLLIN)) {
        assert_true(poll(polls, 2, 60000) > 0);
        if (polls[0].revents == POLLIN) {
            polls[1].fd = calls_listener(life);
            polls[0].events = 0;
        } else if (polls[1].revents && !calls_refuse(polls[1].fd, refused)) {
            polls[1].fd = -1;
        }
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static pid_t sleeper(void)
{
    const pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return child;
}

static void nothing_is_let_through(bool landlock, bool listener, bool network)
{
    struct scene *const s = mmap(NULL, sizeof *s + REFUSED_BYTES, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *const outside = t_temp_dir(), *const refused = (char *)(s + 1);
    int life[2], failures = 0;
    struct stat before, after;

    s->network = network;
    s->directory = t_temp_dir();
    s->host = getpid();
    s->victim = sleeper();
    snprintf(s->victims_file, sizeof s->victims_file, "%s/file", outside);
    snprintf(s->own_file, sizeof s->own_file, "%s/file", s->directory);
    t_write_file(s->victims_file, "the user's", 10);
    t_write_file(s->own_file, "own", 3);
    assert_int_equal(stat(s->victims_file, &before), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        close(life[0]);
        attacker(s, life[1], landlock, listener);
    }
    close(life[1]);
    const int status = supervise(child, life[0], refused);
    close(life[0]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* a container without seccomp */
    print_message("%s: %d attempts\n", s->level, s->count);
    for (int i = 0; i < s->count; i++)
        if (s->attempts[i].got != s->attempts[i].expected && ++failures)
            print_error("%s(%ld …): errno %d, not %d\n", s->attempts[i].call,
                        s->attempts[i].argument, s->attempts[i].got, s->attempts[i].expected);
    assert_int_equal(failures, 0);
    assert_true(s->finished && s->threads_work);
    assert_true(s->count > 300 && s->count < ATTEMPTS_MAX);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(s->level, "seccomp"));
    assert_true(landlock || !strstr(s->level, "landlock"));
    /* each is named, once in a supervisor's life; what has no name by its number */
    for (size_t i = 0; landlock && listener && !network && i < 4; i++) {
        const char *const names[] = {"prlimit64, ", ", chmod, ", ", fsopen, ", ", number 290, "};
        const char *const at = strstr(refused, names[i]);
        assert_non_null(at);
        assert_null(strstr(at + strlen(names[i]), names[i]));
    }
    assert_true((listener && !network) || !*refused);
    assert_int_equal(stat(s->victims_file, &after), 0);
    assert_memory_equal(&before.st_mode, &after.st_mode, sizeof before.st_mode);
    assert_int_equal(before.st_ctim.tv_nsec, after.st_ctim.tv_nsec);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)s->victim), getpriority(PRIO_PROCESS, 0));
    assert_int_equal(waitpid(s->victim, NULL, WNOHANG), 0);
    kill(s->victim, SIGKILL);
    assert_int_equal(waitpid(s->victim, NULL, 0), s->victim);
    t_remove(outside);
    t_remove(s->directory);
    munmap(s, sizeof *s + REFUSED_BYTES);
}

static void with_all_that_the_kernel_has(void **state)
{
    (void)state;
    nothing_is_let_through(true, true, false);
}

static void without_landlock(void **state)
{
    (void)state;
    nothing_is_let_through(false, true, false);
}

static void without_a_listener(void **state)
{
    (void)state;
    nothing_is_let_through(true, false, false);
}

static void without_either(void **state)
{
    (void)state;
    nothing_is_let_through(false, false, false);
}

static void the_helper_that_fetches(void **state)
{
    (void)state;
    nothing_is_let_through(true, true, true);
    nothing_is_let_through(false, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_all_that_the_kernel_has), cmocka_unit_test(without_landlock),
        cmocka_unit_test(without_a_listener),           cmocka_unit_test(without_either),
        cmocka_unit_test(the_helper_that_fetches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
