/* SPDX-License-Identifier: MIT */
/* The worker's main program and its supervisor. */
#include "compile/worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The compiler's stack, and that of each thread it starts: LLVM calls itself as deep as a source is
 * nested, and is sure of the 8 MB that are usual. */
#define STACK_BYTES ((size_t)64 << 20)

enum { STATUS_USAGE = 2, STATUS_SETUP = 3, STATUS_PROTOCOL = 4 };

/* Closes every descriptor above `last` that the host left open: a pipe among them would never reach
 * its end for whoever reads it. */
static void close_above(int last)
{
    if (!syscall(SYS_close_range, (unsigned)last + 1, ~0u, 0))
        return;
    DIR *const directory = opendir("/proc/self/fd");
    for (const struct dirent *e; directory && (e = readdir(directory));) {
        const int fd = atoi(e->d_name);
        if (fd > last && fd != dirfd(directory))
            close(fd);
    }
    if (directory)
        closedir(directory);
}

/* Makes the compiler's environment, from nothing: what compilers make depends on it. */
static void make_environment(const struct worker_config *config)
{
    clearenv();
    setenv("PATH", "", 1);
    setenv("HOME", "/nonexistent", 1);
    setenv("LC_ALL", "C", 1);
    setenv("TZ", "UTC", 1);
    setenv("TMPDIR", config->temporary, 1);
    if (strchr(config->environment, '='))
        putenv(config->environment); /* keeps the string, which lives as long as the process */
}

/* Whether a directory's file system has ample room for a compiler's scratch files. */
static bool has_room(const char *path)
{
    struct statvfs fs;

    return !statvfs(path, &fs) && (uint64_t)fs.f_bavail * fs.f_frsize >= (uint64_t)32 << 20;
}

/* Removes what is in a directory. Follows no link; `depth` bounds the recursion. */
static void remove_contents(int fd, int depth)
{
    DIR *const directory = fdopendir(fd);

    if (!directory) {
        close(fd);
        return;
    }
    for (const struct dirent *e; (e = readdir(directory));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (!unlinkat(fd, e->d_name, 0) || !depth)
            continue;
        const int below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            remove_contents(below, depth - 1);
        unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    closedir(directory);
}

/* A worker's directory. Its supervisor holds a lock on it for as long as it lives. */
#define DIRECTORY_PREFIX "quern-worker-"
/* Younger ones may be made just now, and not locked yet. */
#define UNLOCKED_SECONDS 60

/* Removes, below `base`, directories of workers whose supervisor was killed. */
static void remove_orphans(const char *base)
{
    DIR *const directory = opendir(base);

    for (const struct dirent *e; directory && (e = readdir(directory));) {
        struct stat st;
        if (strncmp(e->d_name, DIRECTORY_PREFIX, strlen(DIRECTORY_PREFIX)) ||
            strlen(e->d_name) != strlen(DIRECTORY_PREFIX "XXXXXX"))
            continue;
        const int fd =
            openat(dirfd(directory), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (!fstat(fd, &st) && st.st_uid == geteuid() &&
            time(NULL) - st.st_mtime > UNLOCKED_SECONDS && !flock(fd, LOCK_EX | LOCK_NB)) {
            remove_contents(fd, 16);
            unlinkat(dirfd(directory), e->d_name, AT_REMOVEDIR);
        } else {
            close(fd);
        }
    }
    if (directory)
        closedir(directory);
}

/* Makes a private directory under `base` if that is given, else under one of the usual places, of
 * which the one in memory comes first, because a compile makes and removes some twenty files. The
 * path is malloc'ed; *held is to be kept open for as long as the directory is in use. */
static char *make_temporary(const char *base, int *held)
{
    const char *const bases[] = {base, "/dev/shm", "/tmp", "/var/tmp"};

    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        char *path = NULL;
        if (!*bases[i])
            continue;
        remove_orphans(bases[i]); /* first: they may be what fills it */
        if (!has_room(bases[i]))
            continue;
        if (asprintf(&path, "%s/" DIRECTORY_PREFIX "XXXXXX", bases[i]) < 0)
            return NULL;
        if (mkdtemp(path)) {
            *held = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (*held >= 0 && flock(*held, LOCK_EX | LOCK_NB))
                errno = 0; /* a file system without locks: nothing can be removed there later */
            return path;
        }
        free(path);
    }
    return NULL;
}

static void remove_tree(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        remove_contents(fd, 16);
    rmdir(path);
}

/* Tells the host how the child ended, and closes the pipe and the socket, which is what the host
 * waits for. */
static void report(int status)
{
    char text[64];
    const int n = snprintf(text, sizeof text, "%s %d\n", WIFSIGNALED(status) ? "signal" : "exit",
                           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    char record[REPORT_MARK_BYTES + sizeof text];

    memcpy(record, REPORT_MARK, REPORT_MARK_BYTES);
    memcpy(record + REPORT_MARK_BYTES, text, (size_t)n);
    /* one write, so that it is whole or absent */
    if (write(2, record, REPORT_MARK_BYTES + (size_t)n) < 0)
        _exit(STATUS_SETUP);
}

/* Waits until the host hangs up or the child ends, which closes `life`. Meanwhile refuses the
 * system calls that the child's sandbox asks about. */
static void supervise(pid_t child, int life, char *refused)
{
    struct pollfd polls[3] = {{0, 0, 0}, {life, POLLIN, 0}, {-1, POLLIN, 0}};
    int status = 0;

    while (!polls[0].revents && !(polls[1].revents & ~POLLIN)) {
        if (poll(polls, 3, -1) < 0) {
            if (errno != EINTR)
                break;
            continue;
        }
        if (polls[1].revents == POLLIN) {
            polls[2].fd = calls_listener(life);
            polls[1].events = 0; /* nothing more comes; only its end is waited for */
        } else if (polls[2].revents && !calls_refuse(polls[2].fd, refused)) {
            polls[2].fd = -1;
        }
    }
    if (polls[0].revents)
        kill(child, SIGKILL); /* not waited for yet, so that the number is still the child's */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!polls[0].revents)
        report(status);
    close(1);
    close(2);
    close(0);
}

static char *config_text(struct field_reader *r)
{
    char *const text = field_text(r);

    if (*text && *text != '/' && strchr(text, '/'))
        r->failed = true; /* a path must be absolute */
    return text;
}

/* Reads FRAME_CONFIGURE from descriptor 0; *id is the greeting's. */
static bool read_config(struct worker_config *config, uint64_t *id)
{
    struct frame_header header;
    uint8_t *payload = NULL;

    if (!read_frame(0, &header, &payload) || header.kind != FRAME_CONFIGURE)
        return false;
    struct field_reader r = {payload, payload + header.bytes, false};
    config->build = field_text(&r);
    config->prefix = field_text(&r);
    config->code = field_text(&r);
    config->target = field_text(&r);
    config->file = field_text(&r);
    config->environment = field_text(&r);
    config->compiler = config_text(&r);
    config->builtins = config_text(&r);
    config->disassembler = config_text(&r);
    config->root = config_text(&r);
    config->libraries = field_text(&r);
    config->temporary = config_text(&r);
    *id = header.id;
    free(payload);
    return fields_done(&r);
}

static void greet(int sock, uint64_t id, const char *level)
{
    struct fields ready = {.grow = realloc};

    fields_add_text(&ready, PROTOCOL_BUILD);
    fields_add_text(&ready, level);
    if (!write_frame(sock, FRAME_READY, id, &ready))
        _exit(STATUS_PROTOCOL);
    free(ready.bytes);
}

/* What the thread that compiles is given. */
struct service {
    const struct worker_config *config;
    int sock;
};

static void *serve_on_thread(void *user)
{
    const struct service *const s = user;

    serve(s->config, s->sock);
    /* _exit, so that the compiler's own clean-up does not run, and cannot crash */
    _exit(0);
}

/*
 * Serves on a stack of its own size: the host's limit of the stack (ulimit -s), which may be too
 * little and can be one that nobody may raise, is that of a process's first thread, and the default
 * of the others. The confinement is in force already, and the new thread inherits it.
 */
static _Noreturn void serve_apart(const struct service *service)
{
    pthread_attr_t attributes;
    pthread_t thread;

    if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, STACK_BYTES) ||
        pthread_setattr_default_np(&attributes) ||
        pthread_create(&thread, NULL, serve_on_thread, (void *)(uintptr_t)service))
        _exit(STATUS_SETUP);
    pthread_join(thread, NULL); /* never: the thread ends the process */
    _exit(STATUS_SETUP);
}

/* The child: confined, then at the host's service. */
static _Noreturn void run_child(const struct worker_config *config, uint64_t id, pid_t supervisor,
                                int life)
{
    char level[128];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(STATUS_SETUP);
    /* what libraries print to stdout is for people as well; reading stdin finds nothing */
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int sock = fcntl(0, F_DUPFD_CLOEXEC, 3);
    if (null < 0 || sock < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0)
        _exit(STATUS_SETUP);
    close(null);
    sandbox_enter(config, life, level, sizeof level);
    greet(sock, id, level);
    serve_apart(&(struct service){config, sock});
}

int main(int argc, char **argv)
{
    struct worker_config config = {0};
    uint64_t id = 0;
    int life[2], held = -1;

    if (argc != 2 || strcmp(argv[1], "serve")) {
        fprintf(stderr,
                "quern-worker is started by libquern to run a GPU's compiler; it has no "
                "use of its own (%s)\n",
                PROTOCOL_BUILD);
        return STATUS_USAGE;
    }
    close_above(2);
    sandbox_limits();
    prctl(PR_SET_NAME, "quern-worker");
    umask(077);
    if (!read_config(&config, &id))
        return STATUS_PROTOCOL;
    if (strcmp(config.build, PROTOCOL_BUILD)) {
        greet(0, id, ""); /* the host compares releases, too, and has the better message */
        return STATUS_PROTOCOL;
    }
    config.temporary = make_temporary(config.temporary, &held);
    config.refused =
        mmap(NULL, REFUSED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (config.refused == MAP_FAILED)
        return STATUS_SETUP;
    if (!config.temporary || chdir(config.temporary) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life)) {
        fprintf(stderr,
                "cannot make a temporary directory of 32 MB in $TMPDIR, /dev/shm, /tmp or "
                "/var/tmp: %s\n",
                strerror(errno));
        return STATUS_SETUP;
    }
    make_environment(&config);
    const pid_t supervisor = getpid();
    const pid_t child = fork();
    if (child == 0) {
        close(life[0]);
        close(held); /* the lock is the supervisor's */
        run_child(&config, id, supervisor, life[1]);
    }
    close(life[1]);
    if (child > 0)
        supervise(child, life[0], config.refused);
    if (chdir("/") == 0)
        remove_tree(config.temporary);
    return child < 0 ? STATUS_SETUP : 0;
}
