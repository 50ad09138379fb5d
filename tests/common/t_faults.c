/* SPDX-License-Identifier: MIT */
#include "t_faults.h"

#include <errno.h>

struct t_faults t_faults;

static bool fails(void)
{
    const unsigned call = atomic_fetch_add(&t_faults.calls, 1) + 1;

    if (!t_faults.fail_at || call < t_faults.fail_at ||
        (!t_faults.for_ever && call > t_faults.fail_at))
        return false;
    atomic_fetch_add(&t_faults.failed, 1);
    errno = t_faults.error;
    return true;
}

static void *count_block(void *p)
{
    if (p)
        atomic_fetch_add(&t_faults.blocks, 1);
    return p;
}

static void *f_malloc(size_t n)
{
    return fails() ? NULL : count_block(t_faults.real.malloc(n));
}
static void *f_calloc(size_t n, size_t m)
{
    return fails() ? NULL : count_block(t_faults.real.calloc(n, m));
}
static void *f_realloc(void *p, size_t n)
{
    if (fails())
        return NULL;
    void *const grown = t_faults.real.realloc(p, n);
    return p ? grown : count_block(grown);
}
static void *f_aligned_alloc(size_t a, size_t n)
{
    return fails() ? NULL : count_block(t_faults.real.aligned_alloc(a, n));
}
static void f_free(void *p)
{
    if (p)
        atomic_fetch_sub(&t_faults.blocks, 1);
    t_faults.real.free(p);
}
static int f_open(const char *p, int f, mode_t m)
{
    return fails() ? -1 : t_faults.real.open(p, f, m);
}
static int f_getpwuid_r(uid_t u, struct passwd *p, char *b, size_t n, struct passwd **r)
{
    return fails() ? t_faults.error : t_faults.real.getpwuid_r(u, p, b, n, r);
}
static int f_getgrouplist(const char *u, gid_t g, gid_t *groups, int *n)
{
    return fails() ? -1 : t_faults.real.getgrouplist(u, g, groups, n);
}
static int f_pipe2(int fds[2], int f)
{
    return fails() ? -1 : t_faults.real.pipe2(fds, f);
}
static int f_socketpair(int d, int t, int p, int fds[2])
{
    return fails() ? -1 : t_faults.real.socketpair(d, t, p, fds);
}
int t_faults_openat(int d, const char *p, int f, mode_t m)
{
    return fails() ? -1 : t_faults.real.openat(d, p, f, m);
}
static int f_close(int fd) /* Linux closes it whatever it returns */
{
    const int result = t_faults.real.close(fd);

    return fails() ? -1 : result;
}
static ssize_t f_read(int fd, void *b, size_t n)
{
    return fails() ? -1 : t_faults.real.read(fd, b, n);
}
static ssize_t f_pread(int fd, void *b, size_t n, off_t o)
{
    return fails() ? -1 : t_faults.real.pread(fd, b, n, o);
}
static ssize_t f_write(int fd, const void *b, size_t n)
{
    return fails() ? -1 : t_faults.real.write(fd, b, n);
}
static int f_fsync(int fd)
{
    (void)fd;
    return fails() ? -1 : 0; /* thousands of real ones would only wear the disk */
}
static int f_syncfs(int fd)
{
    (void)fd;
    return fails() ? -1 : 0; /* likewise */
}
static int f_fstat(int fd, struct stat *s)
{
    return fails() ? -1 : t_faults.real.fstat(fd, s);
}
static int f_fstatat(int d, const char *p, struct stat *s, int f)
{
    return fails() ? -1 : t_faults.real.fstatat(d, p, s, f);
}
static int f_mkdirat(int d, const char *p, mode_t m)
{
    return fails() ? -1 : t_faults.real.mkdirat(d, p, m);
}
static int f_linkat(int d, const char *p, int e, const char *q, int f)
{
    return fails() ? -1 : t_faults.real.linkat(d, p, e, q, f);
}
static int f_renameat(int d, const char *p, int e, const char *q)
{
    return fails() ? -1 : t_faults.real.renameat(d, p, e, q);
}
static int f_unlinkat(int d, const char *p, int f)
{
    return fails() ? -1 : t_faults.real.unlinkat(d, p, f);
}
static int f_symlinkat(const char *p, int d, const char *q)
{
    return fails() ? -1 : t_faults.real.symlinkat(p, d, q);
}
static ssize_t f_readlinkat(int d, const char *p, char *b, size_t n)
{
    return fails() ? -1 : t_faults.real.readlinkat(d, p, b, n);
}
static int f_flock(int fd, int op)
{
    return fails() ? -1 : t_faults.real.flock(fd, op);
}
static int f_futimens(int fd, const struct timespec t[2])
{
    return fails() ? -1 : t_faults.real.futimens(fd, t);
}
static DIR *f_fdopendir(int fd)
{
    return fails() ? NULL : t_faults.real.fdopendir(fd);
}
static struct dirent *f_readdir(DIR *d)
{
    return fails() ? NULL : t_faults.real.readdir(d);
}
static int f_closedir(DIR *d)
{
    const int result = t_faults.real.closedir(d);

    return fails() ? -1 : result;
}
static ssize_t f_getrandom(void *b, size_t n, unsigned f)
{
    return fails() ? -1 : t_faults.real.getrandom(b, n, f);
}
static int f_faccessat(int d, const char *p, int m, int f)
{
    return fails() ? -1 : t_faults.real.faccessat(d, p, m, f);
}
static int f_fchmod(int fd, mode_t m)
{
    return fails() ? -1 : t_faults.real.fchmod(fd, m);
}
static int f_fchmodat(int d, const char *p, mode_t m, int f)
{
    return fails() ? -1 : t_faults.real.fchmodat(d, p, m, f);
}
static int f_ftruncate(int fd, off_t n)
{
    return fails() ? -1 : t_faults.real.ftruncate(fd, n);
}
static char *f_realpath(const char *p, char *r)
{
    return fails() ? NULL : t_faults.real.realpath(p, r);
}
static int f_clock_gettime(clockid_t c, struct timespec *t)
{
    return fails() ? -1 : t_faults.real.clock_gettime(c, t);
}
/* Time flies: waits are bounded by what was slept too, and nobody here would end them early. */
static int f_nanosleep(const struct timespec *t, struct timespec *r)
{
    (void)t;
    (void)r;
    return fails() ? -1 : 0;
}
static int f_fcntl(int fd, int c, long a)
{
    return fails() ? -1 : t_faults.real.fcntl(fd, c, a);
}

void t_faults_on(unsigned fail_at, int error, bool for_ever)
{
    t_faults.real = os;
    t_faults.calls = t_faults.failed = 0;
    t_faults.blocks = 0;
    t_faults.fail_at = fail_at;
    t_faults.error = error;
    t_faults.for_ever = for_ever;
    os.openat = t_faults_openat;
    os.aligned_alloc = f_aligned_alloc;
    os.calloc = f_calloc;
    os.clock_gettime = f_clock_gettime;
    os.close = f_close;
    os.closedir = f_closedir;
    os.faccessat = f_faccessat;
    os.fchmod = f_fchmod;
    os.fchmodat = f_fchmodat;
    os.fcntl = f_fcntl;
    os.fdopendir = f_fdopendir;
    os.flock = f_flock;
    os.free = f_free;
    os.fstat = f_fstat;
    os.fstatat = f_fstatat;
    os.fsync = f_fsync;
    os.ftruncate = f_ftruncate;
    os.futimens = f_futimens;
    os.getpwuid_r = f_getpwuid_r;
    os.getgrouplist = f_getgrouplist;
    os.getrandom = f_getrandom;
    os.linkat = f_linkat;
    os.malloc = f_malloc;
    os.mkdirat = f_mkdirat;
    os.nanosleep = f_nanosleep;
    os.open = f_open;
    os.pipe2 = f_pipe2;
    os.pread = f_pread;
    os.read = f_read;
    os.readdir = f_readdir;
    os.readlinkat = f_readlinkat;
    os.realloc = f_realloc;
    os.realpath = f_realpath;
    os.renameat = f_renameat;
    os.socketpair = f_socketpair;
    os.symlinkat = f_symlinkat;
    os.syncfs = f_syncfs;
    os.unlinkat = f_unlinkat;
    os.write = f_write;
}

void t_faults_off(void)
{
    os = t_faults.real;
}
