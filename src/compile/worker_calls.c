/* SPDX-License-Identifier: MIT */
/*
 * Which system calls the compiler may make: those that compiles were seen to make with every
 * target, hipRTC and NVRTC, the toolchain's C library and the host's, and their older and newer
 * forms. All others fail: with EPERM those by which a process reaches other processes, the network
 * or what is not its own; with ENOSYS the rest, among them calls that C libraries of later years
 * will try first: on ENOSYS they do without.
 *
 * Landlock guards paths, but not the metadata of files: calls that change those are refused here.
 * Where the kernel can ask about a refused call (Linux 5.0), it asks the supervisor, which says no
 * and notes the call's name; where it cannot, the filter itself says no. This file is long because
 * of its lists.
 */
#include "compile/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const uint16_t allowed[] = {
    /* memory */
    SYS_brk,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_munmap,
    SYS_madvise,
    /* threads, and ending */
    SYS_exit,
    SYS_exit_group,
    SYS_futex,
    SYS_gettid,
    SYS_getpid,
    SYS_rseq,
    SYS_restart_syscall,
    SYS_sched_getaffinity,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_yield,
    SYS_set_robust_list,
    SYS_set_tid_address,
    /* its own signals */
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    /* descriptors; new ones are of files only */
    SYS_close,
    SYS_dup,
    SYS_dup2,
    SYS_dup3,
    SYS_fstat,
    SYS_ftruncate,
    SYS_getdents64,
    SYS_lseek,
    SYS_pread64,
    SYS_pwrite64,
    SYS_read,
    SYS_readv,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_sendto,
    SYS_write,
    SYS_writev,
    /* paths: Landlock guards what can be read, made, renamed and removed */
    SYS_access,
    SYS_faccessat,
    439, /* faccessat2 */
    SYS_getcwd,
    SYS_lstat,
    SYS_mkdir,
    SYS_mkdirat,
    SYS_newfstatat,
    SYS_open,
    SYS_openat,
    SYS_readlink,
    SYS_readlinkat,
    SYS_rename,
    SYS_renameat,
    SYS_renameat2,
    SYS_rmdir,
    SYS_stat,
    SYS_statx,
    SYS_unlink,
    SYS_unlinkat,
    /* the time, and facts of the machine and of itself */
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_getcpu,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getrandom,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_gettimeofday,
    SYS_getuid,
    SYS_nanosleep,
    SYS_sysinfo,
    SYS_time,
    SYS_uname,
};

/* Calls that are allowed where one argument, or two, have a value after a mask. */
#define ITS_OWN_PROCESS UINT32_MAX /* as a value: the number of the calling process */
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#define CLONE_NAMESPACES                                                                           \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)
static const struct condition {
    uint16_t call, argument;
    uint32_t mask, value;
    /* of another argument, as well; a mask of 0 asks nothing */
    uint16_t argument_too;
    uint32_t mask_too, value_too;
} conditions[] = {
    {SYS_clone, 0, CLONE_THREAD | CLONE_NAMESPACES, CLONE_THREAD},
    {SYS_prlimit64, 0, UINT32_MAX, 0},
    {SYS_tgkill, 0, UINT32_MAX, ITS_OWN_PROCESS}, /* abort() */
    {SYS_prctl, 0, UINT32_MAX, PR_SET_NAME},
    {SYS_prctl, 0, UINT32_MAX, PR_GET_NAME},
    {SYS_prctl, 0, UINT32_MAX, PR_SET_VMA}, /* names of mappings */
    {SYS_ioctl, 1, UINT32_MAX, TCGETS},     /* is it a terminal? */
    {SYS_ioctl, 1, UINT32_MAX, 0x802c542a}, /* TCGETS2 */
    {SYS_ioctl, 1, UINT32_MAX, TIOCGWINSZ},
    {SYS_fcntl, 1, UINT32_MAX, F_DUPFD},
    {SYS_fcntl, 1, UINT32_MAX, F_DUPFD_CLOEXEC},
    {SYS_fcntl, 1, UINT32_MAX, F_GETFD},
    {SYS_fcntl, 1, UINT32_MAX, F_SETFD},
    {SYS_fcntl, 1, UINT32_MAX, F_GETFL},
    {SYS_fcntl, 1, UINT32_MAX, F_SETFL},
};

/* And those by which libcurl and the C library's resolver reach a server, in the helper that
 * fetches from a remote cache: of sockets those of the Internet, and those that list this machine's
 * addresses. None leads to another process of this machine, but through a server that it runs: a
 * pair of local datagram sockets would, as each may send to any name, and so would netlink between
 * processes. Options from 64 on of the Internet's protocols are those of the packet filter. */
static const uint16_t network_allowed[] = {
    SYS_poll,          SYS_ppoll,       SYS_select,     SYS_pselect6, SYS_pipe2,
    SYS_eventfd2,      SYS_connect,     SYS_bind,       SYS_recvmsg,  SYS_sendmmsg,
    SYS_recvmmsg,      SYS_getsockname, SYS_getsockopt, SYS_shutdown, SYS_getpeername,
    SYS_epoll_create1, SYS_epoll_ctl,   SYS_epoll_wait,
};
#ifndef FIONREAD
#define FIONREAD 0x541b
#endif
#ifndef FIONBIO
#define FIONBIO 0x5421
#endif
#define SOCKET_TYPE              0xfu /* without SOCK_CLOEXEC and SOCK_NONBLOCK */
#define ANY_SOCKET(family, type) {SYS_socket, 0, UINT32_MAX, family, 1, SOCKET_TYPE, type}
static const struct condition network_conditions[] = {
    ANY_SOCKET(AF_INET, SOCK_STREAM),
    ANY_SOCKET(AF_INET, SOCK_DGRAM),
    ANY_SOCKET(AF_INET6, SOCK_STREAM),
    ANY_SOCKET(AF_INET6, SOCK_DGRAM),
    {SYS_socket, 0, UINT32_MAX, AF_NETLINK, 2, UINT32_MAX, NETLINK_ROUTE},
    {SYS_socketpair, 0, UINT32_MAX, AF_UNIX, 1, SOCKET_TYPE, SOCK_STREAM},
    {SYS_setsockopt, 1, UINT32_MAX, SOL_SOCKET},
    {SYS_setsockopt, 1, UINT32_MAX, IPPROTO_TCP},
    {SYS_setsockopt, 1, UINT32_MAX, IPPROTO_IP, 2, ~63u, 0},
    {SYS_setsockopt, 1, UINT32_MAX, IPPROTO_IPV6, 2, ~63u, 0},
    {SYS_ioctl, 1, UINT32_MAX, FIONREAD},
    {SYS_ioctl, 1, UINT32_MAX, FIONBIO},
};

/* Calls that are refused with EPERM; `quern doctor` knows their names. */
#define CALL(name) {SYS_##name, #name}
static const struct named_call {
    uint16_t number;
    const char *name;
} forbidden[] = {
    /* programs and processes */
    CALL(clone),
    CALL(execve),
    CALL(execveat),
    CALL(fork),
    CALL(vfork),
    CALL(kcmp),
    CALL(kill),
    CALL(tkill),
    CALL(tgkill),
    CALL(rt_sigqueueinfo),
    CALL(rt_tgsigqueueinfo),
    CALL(pidfd_open),
    CALL(pidfd_getfd),
    CALL(pidfd_send_signal),
    CALL(prctl),
    CALL(prlimit64),
    CALL(setrlimit),
    {440, "process_madvise"},
    {448, "process_mrelease"},
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(ptrace),
    CALL(seccomp),
    CALL(setpgid),
    CALL(setsid),
    CALL(setpriority),
    CALL(ioprio_set),
    CALL(sched_setaffinity),
    CALL(sched_setattr),
    CALL(sched_setparam),
    CALL(sched_setscheduler),
    CALL(migrate_pages),
    CALL(move_pages),
    /* the network, and ways between processes */
    CALL(socket),
    CALL(socketpair),
    CALL(setsockopt),
    CALL(connect),
    CALL(bind),
    CALL(listen),
    CALL(accept),
    CALL(accept4),
    CALL(io_uring_setup),
    CALL(io_uring_enter),
    CALL(io_uring_register),
    CALL(shmget),
    CALL(shmat),
    CALL(shmctl),
    CALL(msgget),
    CALL(msgctl),
    CALL(msgsnd),
    CALL(semget),
    CALL(semctl),
    CALL(semop),
    CALL(mq_open),
    CALL(mq_unlink),
    /* of files what Landlock does not guard, and kinds of files that no compile makes */
    CALL(chmod),
    CALL(fchmod),
    CALL(fchmodat),
    {452, "fchmodat2"},
    CALL(chown),
    CALL(fchown),
    CALL(fchownat),
    CALL(lchown),
    CALL(fcntl),
    CALL(flock),
    CALL(ioctl),
    CALL(setxattr),
    CALL(fsetxattr),
    CALL(lsetxattr),
    {463, "setxattrat"},
    CALL(removexattr),
    CALL(fremovexattr),
    CALL(lremovexattr),
    {466, "removexattrat"},
    {469, "file_setattr"},
    CALL(utime),
    CALL(utimes),
    CALL(futimesat),
    CALL(utimensat),
    CALL(link),
    CALL(linkat),
    CALL(symlink),
    CALL(symlinkat),
    CALL(mknod),
    CALL(mknodat),
    CALL(truncate),
    CALL(name_to_handle_at),
    CALL(open_by_handle_at),
    CALL(fanotify_init),
    CALL(fanotify_mark),
    /* mounts and namespaces */
    CALL(chroot),
    CALL(pivot_root),
    CALL(mount),
    CALL(umount2),
    CALL(fsopen),
    CALL(fsconfig),
    CALL(fsmount),
    CALL(fspick),
    CALL(move_mount),
    CALL(open_tree),
    {442, "mount_setattr"},
    CALL(setns),
    CALL(unshare),
    CALL(quotactl),
    {443, "quotactl_fd"},
    /* the system, and who one is */
    CALL(acct),
    CALL(add_key),
    CALL(keyctl),
    CALL(request_key),
    CALL(adjtimex),
    CALL(clock_adjtime),
    CALL(clock_settime),
    CALL(settimeofday),
    CALL(bpf),
    CALL(perf_event_open),
    CALL(userfaultfd),
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(kexec_load),
    CALL(kexec_file_load),
    CALL(ioperm),
    CALL(iopl),
    CALL(modify_ldt),
    CALL(personality),
    CALL(reboot),
    CALL(sethostname),
    CALL(setdomainname),
    CALL(swapon),
    CALL(swapoff),
    CALL(syslog),
    CALL(vhangup),
    CALL(capset),
    CALL(setuid),
    CALL(setgid),
    CALL(setreuid),
    CALL(setregid),
    CALL(setresuid),
    CALL(setresgid),
    CALL(setfsuid),
    CALL(setfsgid),
    CALL(setgroups),
};

/* ---- The filter ------------------------------------------------------------------------------ */

struct filter {
    struct sock_filter code[1024];
    unsigned short length;
};

static void add(struct filter *f, uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false)
{
    f->code[f->length++] = (struct sock_filter)BPF_JUMP(code, value, if_true, if_false);
}

static void load(struct filter *f, size_t offset)
{
    add(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Ends the filter's run with `action` when what was loaded is `value`. */
static void add_case(struct filter *f, uint32_t value, uint32_t action)
{
    add(f, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    add(f, BPF_RET | BPF_K, action, 0, 0);
}

static void add_condition(struct filter *f, const struct condition *c)
{
    const uint32_t value = c->value == ITS_OWN_PROCESS ? (uint32_t)getpid() : c->value;

    load(f, offsetof(struct seccomp_data, nr));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, c->call, 0, 7);
    load(f, offsetof(struct seccomp_data, args) + 8 * (size_t)c->argument);
    add(f, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
    add(f, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 4);
    load(f, offsetof(struct seccomp_data, args) + 8 * (size_t)c->argument_too);
    add(f, BPF_ALU | BPF_AND | BPF_K, c->mask_too, 0, 0);
    add_case(f, c->value_too, SECCOMP_RET_ALLOW);
}

static void add_allowed(struct filter *f, const uint16_t *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_case(f, calls[i], SECCOMP_RET_ALLOW);
}

static void add_conditions(struct filter *f, const struct condition *c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_condition(f, &c[i]);
}

/* Makes the filter; `asks`: it asks the supervisor about calls that it would refuse. */
static void make_filter(struct filter *f, bool asks, bool network)
{
    f->length = 0;
    load(f, offsetof(struct seccomp_data, arch));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    add(f, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0); /* numbers have other meanings */
    load(f, offsetof(struct seccomp_data, nr));
    add_allowed(f, allowed, COUNT(allowed));
    if (network)
        add_allowed(f, network_allowed, COUNT(network_allowed));
    /* clone3 has its flags in memory, where a filter cannot look; refused, the C library uses clone
     */
    add_case(f, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
    add_conditions(f, conditions, COUNT(conditions));
    if (network)
        add_conditions(f, network_conditions, COUNT(network_conditions));
    load(f, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; !asks && i < COUNT(forbidden); i++)
        add_case(f, forbidden[i].number, SECCOMP_RET_ERRNO | EPERM);
    add(f, BPF_RET | BPF_K, asks ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
}

static int install(struct filter *f, bool asks, bool network)
{
    make_filter(f, asks, network);
    const struct sock_fprog program = {f->length, f->code};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        asks ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0, &program);
}

/* One byte, and the descriptor if there is one. */
struct parcel {
    char byte;
    struct iovec bytes;
    struct msghdr message;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
};

static struct msghdr *wrap(struct parcel *p)
{
    p->bytes = (struct iovec){&p->byte, 1};
    p->message = (struct msghdr){.msg_iov = &p->bytes,
                                 .msg_iovlen = 1,
                                 .msg_control = p->control,
                                 .msg_controllen = sizeof p->control};
    return &p->message;
}

bool calls_filter(int supervisor, bool network)
{
    static struct filter filter;
    struct parcel parcel = {0};
    struct msghdr *const message = wrap(&parcel);

    _Static_assert(8 + 2 * (COUNT(allowed) + COUNT(network_allowed)) + 2 +
                           9 * (COUNT(conditions) + COUNT(network_conditions)) +
                           2 * COUNT(forbidden) <=
                       COUNT(filter.code),
                   "the filter has room");
    const int listener = supervisor < 0 ? -1 : install(&filter, true, network);
    const bool done = listener >= 0 || !install(&filter, false, network);
    if (supervisor < 0)
        return done;
    if (listener < 0) {
        message->msg_controllen = 0;
    } else {
        struct cmsghdr *const c = CMSG_FIRSTHDR(message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        *(int *)CMSG_DATA(c) = listener;
    }
    /* whoever holds the listener could allow any call: this process must not go on with it */
    if (sendmsg(supervisor, message, MSG_NOSIGNAL) != 1 || (listener >= 0 && close(listener)))
        _exit(1);
    return done;
}

/* ---- The supervisor's answers ---------------------------------------------------------------- */

int calls_listener(int child)
{
    struct parcel parcel = {0};
    struct msghdr *const message = wrap(&parcel);

    if (recvmsg(child, message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1)
        return -1;
    const struct cmsghdr *const c = CMSG_FIRSTHDR(message);
    return c && c->cmsg_type == SCM_RIGHTS ? *(const int *)CMSG_DATA(c) : -1;
}

/* Adds a call to the list, once. The list's length is kept here and not beside it: the compiler's
 * process shares that page, and could write to it. */
static void note(char *refused, unsigned number, const char *name)
{
    static bool noted[1024]; /* the last one stands for all higher numbers */
    static size_t length;
    bool *const was = &noted[number < COUNT(noted) ? number : COUNT(noted) - 1];
    char text[64];

    const int n = name ? snprintf(text, sizeof text, "%s%s", length ? ", " : "", name)
                       : snprintf(text, sizeof text, "%snumber %u", length ? ", " : "", number);
    if (*was || length + (size_t)n >= REFUSED_BYTES)
        return;
    *was = true;
    memcpy(refused + length, text, (size_t)n);
    length += (size_t)n;
}

bool calls_refuse(int listener, char *refused)
{
    /* larger than today's structs, and zeroed: a later kernel's may be longer */
    _Alignas(8) uint8_t question[512] = {0}, answer[512] = {0};
    const struct seccomp_notif *const q = (void *)question;
    struct seccomp_notif_resp *const a = (void *)answer;
    const char *name = NULL;

    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, question))
        return errno == EINTR || errno == ENOENT; /* ENOENT: a signal ended the call meanwhile */
    const unsigned number = (unsigned)q->data.nr;
    for (size_t i = 0; i < COUNT(forbidden) && !name; i++)
        if (forbidden[i].number == number)
            name = forbidden[i].name;
    note(refused, number, name);
    a->id = q->id;
    a->error = name ? -EPERM : -ENOSYS;
    return !ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, answer) || errno == ENOENT;
}

#else

bool calls_filter(int supervisor, bool network)
{
    (void)supervisor;
    (void)network;
    return false;
}

int calls_listener(int child)
{
    (void)child;
    return -1;
}

bool calls_refuse(int listener, char *refused)
{
    (void)listener;
    (void)refused;
    return false;
}

#endif
