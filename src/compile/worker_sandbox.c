/* SPDX-License-Identifier: MIT */
/*
 * What the compiler may do. Its input is text that quern generates, so this is a second fence:
 * source that embeds or includes files of the host, and options that load plug-ins, find nothing.
 *
 * The kernel's interfaces are used by number and with structures of our own: the headers of the
 * machine that builds may be older than the kernel of the one that runs.
 */
#include "compile/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- Limits ---------------------------------------------------------------------------------- */

#define MEMORY_MAX      ((rlim_t)8 << 30) /* address space; the libraries map 0.3 GB */
#define FILE_BYTES_MAX  ((rlim_t)256 << 20)
#define DESCRIPTORS_MAX 256

static bool limited; /* all of them are in force */

static bool limit(int resource, rlim_t most)
{
    struct rlimit r;

    if (getrlimit(resource, &r))
        return false;
    /* upwards too, for descriptors */
    r.rlim_cur = r.rlim_max < most ? r.rlim_max : most;
    r.rlim_max = r.rlim_cur;
    return !setrlimit(resource, &r);
}

void sandbox_limits(void)
{
    const bool memory = limit(RLIMIT_AS, MEMORY_MAX), files = limit(RLIMIT_FSIZE, FILE_BYTES_MAX);
    const bool descriptors = limit(RLIMIT_NOFILE, DESCRIPTORS_MAX), core = limit(RLIMIT_CORE, 0);

    limited = memory && files && descriptors && core;
    signal(SIGXFSZ, SIG_IGN); /* writing too much fails instead */
    /* when memory runs out, better the compiler than its host */
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "500", 3) < 0)
            errno = 0; /* it is only a wish */
        close(fd);
    }
}

/* ---- Landlock -------------------------------------------------------------------------------- */

#define SYS_LANDLOCK_CREATE   444
#define SYS_LANDLOCK_ADD      445
#define SYS_LANDLOCK_RESTRICT 446
#define LANDLOCK_VERSION_FLAG 1u
#define LANDLOCK_PATH_BENEATH 1

enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_READ = FS_READ_FILE | FS_READ_DIR,
    FS_VERSION_1 = (1 << 13) - 1,
    FS_REFER = 1 << 13,     /* version 2 */
    FS_TRUNCATE = 1 << 14,  /* version 3 */
    FS_IOCTL_DEV = 1 << 15, /* version 5 */
};
#define NET_TCP 3u /* version 4: bind, connect */
#define SCOPES  3u /* version 6: abstract sockets, signals */

struct ruleset {
    uint64_t files, net, scopes;
};
struct __attribute__((packed)) path_rule {
    uint64_t allowed;
    int32_t fd;
};

static void allow(int ruleset, const char *path, uint64_t access)
{
    struct path_rule rule = {access, open(path, O_PATH | O_CLOEXEC)};
    struct stat st;

    if (rule.fd < 0)
        return;
    /* rights on directories mean nothing for a file, and the kernel refuses them there */
    if (!fstat(rule.fd, &st) && !S_ISDIR(st.st_mode))
        rule.allowed &= FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE;
    syscall(SYS_LANDLOCK_ADD, ruleset, LANDLOCK_PATH_BENEATH, &rule, 0);
    close(rule.fd);
}

/* The directory of a file. */
static void allow_beside(int ruleset, const char *file)
{
    char path[4096];

    if (snprintf(path, sizeof path, "%s", file) >= (int)sizeof path)
        return;
    char *const slash = strrchr(path, '/');
    if (slash && slash != path) {
        *slash = 0;
        allow(ruleset, path, FS_READ);
    }
}

/* Libraries of the host, for a toolchain that uses its C library. */
static void allow_host_libraries(int ruleset)
{
    static const char *const paths[] = {"/lib",       "/lib64",         "/usr/lib",
                                        "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"};

    for (size_t i = 0; i < COUNT(paths); i++)
        allow(ruleset, paths[i], FS_READ);
}

/* Returns the version of Landlock in force, 0 without. Needs no new privileges. */
static int confine_files(const struct worker_config *config)
{
    const int version = (int)syscall(SYS_LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION_FLAG);
    struct ruleset set = {.files = FS_VERSION_1};

    if (version < 1)
        return 0;
    set.files |= (version >= 2 ? FS_REFER : 0) | (version >= 3 ? FS_TRUNCATE : 0) |
                 (version >= 5 ? FS_IOCTL_DEV : 0);
    set.net = version >= 4 ? NET_TCP : 0;
    set.scopes = version >= 6 ? SCOPES : 0;
    const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    const int ruleset = (int)syscall(SYS_LANDLOCK_CREATE, &set, size, 0);
    if (ruleset < 0)
        return 0;
    allow(ruleset, config->root, FS_READ);
    /* links in the root may lead out of it */
    allow_beside(ruleset, config->hiprtc);
    allow_beside(ruleset, config->comgr);
    if (*config->libraries)
        allow_host_libraries(ruleset);
    allow(ruleset, "/proc/self", FS_READ);
    allow(ruleset, "/sys/devices/system", FS_READ); /* libnuma looks */
    allow(ruleset, "/dev/null", FS_READ_FILE | FS_WRITE_FILE);
    allow(ruleset, "/dev/urandom", FS_READ_FILE);
    allow(ruleset, config->temporary, set.files & ~(uint64_t)FS_EXECUTE);
    const bool done = !syscall(SYS_LANDLOCK_RESTRICT, ruleset, 0);
    close(ruleset);
    return done ? version : 0;
}

/* ---- System calls ---------------------------------------------------------------------------- */

#ifdef __x86_64__

/* Denied with EPERM: starting programs, reaching other processes or the network, changing the
 * system. A deny list, because what C libraries and LLVM call for harmless ends grows with each
 * release. */
static const uint16_t denied[] = {
    SYS_execve,
    SYS_execveat,
    SYS_fork,
    SYS_vfork,
    SYS_ptrace,
    SYS_kill,
    SYS_tkill,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_fanotify_init,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_acct,
    SYS_quotactl,
    SYS_syslog,
    SYS_iopl,
    SYS_ioperm,
    SYS_personality,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_capset,
    SYS_shmget,
    SYS_shmat,
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
};

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#define X32_BIT 0x40000000u

static bool deny_calls(void)
{
    /* head, one comparison for each denied call, "allowed", "denied" */
    enum { CALLS = COUNT(denied), HEAD = 11 };
    static struct sock_filter code[HEAD + CALLS + 2];
    const struct sock_filter head[HEAD] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        /* clone3 hides its flags in memory: without it the C library uses clone */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        /* threads may be made, processes not */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, CALLS, CALLS + 1),
    };
    size_t n = HEAD;

    _Static_assert(CALLS < 255, "jumps are 8 bits wide");
    memcpy(code, head, sizeof head);
    for (size_t i = 0; i < CALLS; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[i],
                                                 (uint8_t)(CALLS - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    const struct sock_fprog program = {(unsigned short)n, code};
    return !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

#else
static bool deny_calls(void)
{
    return false;
}
#endif

void sandbox_enter(const struct worker_config *config, char *level, size_t size)
{
    /* no core dumps by a handler either: what users compile is theirs */
    prctl(PR_SET_DUMPABLE, 0);
    const bool no_new = !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const int landlock = no_new ? confine_files(config) : 0;
    const bool calls = no_new && deny_calls();
    char files[32] = "";

    if (landlock)
        snprintf(files, sizeof files, ", landlock %d", landlock);
    snprintf(level, size, "%s%s%s%s", limited ? "limits" : "no limits",
             no_new ? ", no-new-privileges" : "", files, calls ? ", seccomp" : "");
}
