/* SPDX-License-Identifier: MIT */
/*
 * Confines the compiler. Its input is text that quern generates, so this is a second fence: even a
 * source that included files of the host, or options that loaded plug-ins, would find nothing. And
 * confines the helper that fetches from a remote cache, whose input is whatever a network sends.
 *
 * The kernel's interfaces are used by number and with structures of our own: the headers of the
 * machine that builds may be older than the kernel of the one that runs.
 */
#include "compile/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
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
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit then fails instead */
    /* when the machine runs out of memory, the compiler is to be killed rather than its host */
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "500", 3) < 0)
            errno = 0; /* nothing depends on it */
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
    FS_REMOVE = 1 << 4 | 1 << 5, /* directories, files */
    FS_MAKE = 1 << 7 | 1 << 8,   /* the same: no devices, sockets, fifos or links */
    FS_VERSION_1 = (1 << 13) - 1,
    FS_REFER = 1 << 13,     /* version 2 */
    FS_TRUNCATE = 1 << 14,  /* version 3 */
    FS_IOCTL_DEV = 1 << 15, /* version 5 */
};
#define NET_BIND 1u /* version 4, of TCP */
#define NET_TCP  3u /* and connect */
#define SCOPES   3u /* version 6: abstract sockets, signals */

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

/* Allows reading the directory that a file is in. */
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

/* What names, addresses and certificates are looked up in, and what links in /etc lead to. */
static void allow_lookups(int ruleset)
{
    static const char *const paths[] = {
        "/etc/resolv.conf",
        "/run/systemd/resolve",
        "/etc/hosts",
        "/etc/nsswitch.conf",
        "/etc/host.conf",
        "/etc/gai.conf",
        "/etc/services",
        "/etc/ssl",
        "/etc/pki",
        "/etc/crypto-policies",
        "/etc/ca-certificates",
        "/usr/share/ca-certificates",
        "/usr/share/crypto-policies",
        "/usr/share/pki",
        "/usr/local/share/ca-certificates",
    };

    for (size_t i = 0; i < COUNT(paths); i++)
        allow(ruleset, paths[i], FS_READ);
}

static void allow_toolchain(int ruleset, const struct worker_config *config)
{
    allow(ruleset, config->root, FS_READ);
    /* the compiler's files may lie outside of the root: links in it lead there */
    allow_beside(ruleset, config->compiler);
    if (*config->disassembler)
        allow_beside(ruleset, config->disassembler);
}

/* Confines file access by Landlock; returns the version in force, 0 where the kernel has none.
 * PR_SET_NO_NEW_PRIVS must have been set before. */
static int confine_files(const struct worker_config *config)
{
    const int version = (int)syscall(SYS_LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION_FLAG);
    struct ruleset set = {.files = FS_VERSION_1};

    if (version < 1)
        return 0;
    set.files |= (version >= 2 ? FS_REFER : 0) | (version >= 3 ? FS_TRUNCATE : 0) |
                 (version >= 5 ? FS_IOCTL_DEV : 0);
    set.net = version < 4 ? 0 : config ? NET_TCP : NET_BIND;
    set.scopes = version >= 6 ? SCOPES : 0;
    const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    const int ruleset = (int)syscall(SYS_LANDLOCK_CREATE, &set, size, 0);
    if (ruleset < 0)
        return 0;
    if (config)
        allow_toolchain(ruleset, config);
    else
        allow_lookups(ruleset);
    if (!config || *config->libraries)
        allow_host_libraries(ruleset);
    allow(ruleset, "/proc/self", FS_READ);
    allow(ruleset, "/sys/devices/system", FS_READ); /* libnuma looks */
    allow(ruleset, "/dev/null", FS_READ_FILE | FS_WRITE_FILE);
    allow(ruleset, "/dev/urandom", FS_READ_FILE);
    if (config)
        allow(ruleset, config->temporary,
              set.files & (FS_READ | FS_WRITE_FILE | FS_REMOVE | FS_MAKE | FS_REFER | FS_TRUNCATE));
    const bool done = !syscall(SYS_LANDLOCK_RESTRICT, ruleset, 0);
    close(ruleset);
    return done ? version : 0;
}

/* Gives up whatever root may do beyond owning its files: raw packets, routes, the packet filter. */
static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    syscall(SYS_capset, &header, none);
}

void sandbox_enter(const struct worker_config *config, int supervisor, char *level, size_t size)
{
    /* no core dumps, by a handler neither: what users compile is nobody else's business */
    prctl(PR_SET_DUMPABLE, 0);
    const bool no_new = !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!config)
        drop_capabilities();
    const int landlock = no_new ? confine_files(config) : 0;
    const bool calls = no_new && calls_filter(supervisor, !config);
    char files[32] = "";

    if (landlock)
        snprintf(files, sizeof files, ", landlock %d", landlock);
    snprintf(level, size, "%s%s%s%s", limited ? "limits" : "no limits",
             no_new ? ", no-new-privileges" : "", files, calls ? ", seccomp" : "");
}
