/* SPDX-License-Identifier: MIT */
/*
 * Hosts of every kind: what a program does to its own process must not change what the library
 * does, and the library changes nothing of the process. The making of a kernel, worker and all, is
 * repeated in a child with another locale, rounding mode, tiny stacks, handled or ignored SIGCHLD,
 * closed standard descriptors, as the first process of a PID namespace, as one that
 * inherits processes, and through dlopen and dlclose. This file is long because each kind of host
 * is a function or two.
 */
#include "t_clock.h"
#include "t_context.h"
#include "t_paths.h"
#include "t_store.h"

#include <quern/tool.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* No software GPU runs it: a kernel is compiled, checked and stored, and not loaded. */
#define TARGET  "gfx1030"
#define PROBLEM "wq=nf4 n=64 k=64 a=f16"

static char *directory;
static char expected[33]; /* the key of the kernel, as a plain host makes it */

/* Makes the kernel in a cache of its own; exits the child when that fails. */
static void make_kernel(const char *name)
{
    struct quern_options o = QUERN_INIT(struct quern_options);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    char path[PATH_MAX];
    quern_ctx *ctx;
    quern_op *op;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    o.target = TARGET;
    o.cache_dir = path;
    o.worker_path = t_worker_path();
    o.allow_unverified = 1;
    T_MUST(quern_problem_parse(PROBLEM, &p) == QUERN_OK);
    T_MUST(quern_open(&o, &ctx) == QUERN_OK);
    T_MUST(quern_op_create_range(ctx, &p, 1, 1, &op) == QUERN_OK);
    T_MUST(quern_op_kernel(op, 0, &info) == QUERN_OK);
    T_MUST(!info.cached && info.object_bytes > 0);
    T_MUST(!expected[0] || !strcmp(info.entry_key, expected));
    memcpy(expected, info.entry_key, sizeof expected);
    quern_op_release(op);
    quern_close(ctx);
}

static int descriptors_and_threads(void)
{
    return t_count_entries("/proc/self/fd") * 1000 + t_count_entries("/proc/self/task");
}

/* A thread that was joined may be listed for a moment yet. */
static bool comes_down_to(int count)
{
    for (int i = 0; i < 60000 && descriptors_and_threads() > count; i++)
        usleep(1000);
    return descriptors_and_threads() == count;
}

/* Runs `body` in a child, which must end well. */
static void in_child(void (*body)(void))
{
    int status;

    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(1800);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static int setup(void **state)
{
    (void)state;
    directory = t_temp_dir();
    make_kernel("plain");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    t_remove(directory);
    return 0;
}

/* ---- the hosts ------------------------------------------------------------------------------- */

/* A locale with decimal commas, made here when the system has none: numbers in sources and keys are
 * written and read all the same. */
static void comma_body(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    bool found = false;
    char path[PATH_MAX], command[PATH_MAX + 128];

    for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++)
        found = setlocale(LC_ALL, names[i]) != NULL;
    if (!found) {
        snprintf(path, sizeof path, "%s/locales", directory);
        mkdir(path, 0700);
        snprintf(command, sizeof command,
                 "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", path);
        setenv("LOCPATH", path, 1);
        if (system(command) < 0 || !setlocale(LC_ALL, "de_DE.UTF-8"))
            _exit(77);
    }
    T_MUST(!strcmp(localeconv()->decimal_point, ","));
    make_kernel("comma");
    T_MUST(!strcmp(localeconv()->decimal_point, ","));
}

static void decimal_commas_change_nothing(void **state)
{
    (void)state;
    in_child(comma_body);
}

static void rounding_body(void)
{
    T_MUST(fesetround(FE_UPWARD) == 0);
    make_kernel("rounding");
    T_MUST(fegetround() == FE_UPWARD);
}

static void another_rounding_mode_changes_nothing(void **state)
{
    (void)state;
    in_child(rounding_body);
}

/* Makes all kernels of an op, for which more is planned than for one, where base kernels were
 * wanted and are not there; exits the child when that fails. */
static void make_op_without_base(const char *name)
{
    struct quern_options o = QUERN_INIT(struct quern_options);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    char path[PATH_MAX];
    quern_ctx *ctx;
    quern_op *op;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    o.target = TARGET;
    o.cache_dir = path;
    o.worker_path = t_worker_path();
    o.allow_unverified = 1;
    T_MUST(quern_problem_parse(PROBLEM, &p) == QUERN_OK);
    T_MUST(quern_open(&o, &ctx) == QUERN_OK);
    T_MUST(quern_op_create_flags(ctx, &p, 8, QUERN_OP_BASE, &op) == QUERN_OK);
    quern_op_release(op);
    quern_close(ctx);
}

static void *on_small_stack(void *user)
{
    make_kernel(user);
    make_op_without_base(user);
    return NULL;
}

static void small_stack_body(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    char name[] = "stack";

    pthread_attr_init(&attributes);
    T_MUST(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
    T_MUST(pthread_create(&thread, &attributes, on_small_stack, name) == 0);
    T_MUST(pthread_join(thread, NULL) == 0);
}

static void threads_with_64_kilobytes_of_stack_suffice(void **state)
{
    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* sanitized frames are several times as large */
#endif
    in_child(small_stack_body);
}

static volatile sig_atomic_t children_seen;
static void count_child(int number)
{
    (void)number;
    children_seen++;
}

static void handled_body(void)
{
    const struct sigaction count = {.sa_handler = count_child};
    struct sigaction now;

    T_MUST(sigaction(SIGCHLD, &count, NULL) == 0);
    make_kernel("handled");
    T_MUST(sigaction(SIGCHLD, NULL, &now) == 0 && now.sa_handler == count_child);
    T_MUST(children_seen == 0);
    T_MUST(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void ignored_body(void)
{
    sigset_t all;

    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    sigfillset(&all);
    sigdelset(&all, SIGALRM);
    sigprocmask(SIG_SETMASK, &all, NULL);
    make_kernel("ignored");
}

static void signals_of_the_host_stay_its_own(void **state)
{
    (void)state;
    in_child(handled_body);
    in_child(ignored_body);
}

static void closed_body(void)
{
    close(0);
    close(1);
    close(2);
    make_kernel("closed");
    T_MUST(t_count_entries("/proc/self/fd") >= 0);
    /* nothing of the library's stands where a host would write */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) != -1)
            _exit(1);
}

static void closed_standard_descriptors_do_no_harm(void **state)
{
    (void)state;
    in_child(closed_body);
}

static void first_process_body(void)
{
    int status;

    if (unshare(CLONE_NEWPID | CLONE_NEWNS))
        _exit(77);
    const pid_t child = fork();
    if (child == 0) {
        /* a /proc of the new namespace, as containers have it */
        if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("proc", "/proc", "proc", 0, NULL))
            _exit(77);
        T_MUST(getpid() == 1);
        alarm(1800);
        make_kernel("first");
        _exit(0);
    }
    T_MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
    _exit(WEXITSTATUS(status));
}

static void the_first_process_of_a_container_can_be_the_host(void **state)
{
    (void)state;
    in_child(first_process_body);
}

/* The first child of this process that is called so, or 0. */
static pid_t child_named(const char *name)
{
    char path[64], line[64];
    long found = 0;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", gettid());
    FILE *const children = fopen(path, "r");
    T_MUST(children);
    for (long pid; !found && fscanf(children, "%ld", &pid) == 1;) {
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        FILE *const comm = fopen(path, "r");
        if (comm && fgets(line, sizeof line, comm) && !strncmp(line, name, strlen(name)))
            found = pid;
        if (comm)
            fclose(comm);
    }
    fclose(children);
    return (pid_t)found;
}

static bool no_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == -1 && errno == ECHILD;
}

/* A subreaper is the parent of whatever its children leave: as the first process of a container is.
 */
static void subreaper_body(void)
{
    t_clock_hold(NULL); /* however long the worker takes to end, it is not killed for it */
    T_MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "subreaper-%d", i);
        make_kernel(name);
        T_MUST(no_children());
    }
    /* a program that cannot be run is not left either */
    struct quern_options o = QUERN_INIT(struct quern_options);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    quern_ctx *ctx;
    quern_op *op;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/no-worker", directory);
    const int fd = open(path, O_CREAT | O_WRONLY, 0755);
    T_MUST(write(fd, "no program", 10) == 10 && !close(fd));
    o.target = TARGET;
    o.worker_path = path;
    o.cache_mode = QUERN_CACHE_OFF;
    o.allow_unverified = 1;
    T_MUST(quern_problem_parse(PROBLEM, &p) == QUERN_OK && quern_open(&o, &ctx) == QUERN_OK);
    T_MUST(quern_op_create_range(ctx, &p, 1, 1, &op) != QUERN_OK);
    quern_close(ctx);
    T_MUST(no_children());
}

/* Whoever waits for any child meets the worker, and the library copes with its being gone. */
static volatile sig_atomic_t strangers;
static void wait_for_any(int number)
{
    const int error = errno;

    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        strangers++;
    errno = error;
}

static void waiting_body(void)
{
    const struct sigaction wait = {.sa_handler = wait_for_any};

    T_MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    T_MUST(sigaction(SIGCHLD, &wait, NULL) == 0);
    make_kernel("waiting");
    T_MUST(no_children());
    T_MUST(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    make_kernel("ignoring");
    T_MUST(no_children());
}

/* Makes the directories of workers in `base` two minutes older: younger ones may be those of a
 * worker that is starting. */
static void make_old(const char *base)
{
    DIR *const d = opendir(base);
    struct timespec times[2];

    T_MUST(d && clock_gettime(CLOCK_REALTIME, &times[0]) == 0);
    times[0].tv_sec -= 120;
    times[1] = times[0];
    for (const struct dirent *e; (e = readdir(d));)
        if (!strncmp(e->d_name, "quern-worker-", strlen("quern-worker-")))
            T_MUST(utimensat(dirfd(d), e->d_name, times, 0) == 0);
    closedir(d);
}

/* A worker whose supervisor is killed leaves its directory; the next one removes that, and neither
 * another's nor one that only looks so. */
static void killed_body(void)
{
    struct quern_options o = QUERN_INIT(struct quern_options);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    char private_tmp[PATH_MAX - 64], like[PATH_MAX], cache[PATH_MAX];
    quern_ctx *ctx;
    quern_op *op;

    snprintf(private_tmp, sizeof private_tmp, "%s/killed", directory);
    snprintf(like, sizeof like, "%s/quern-worker.shared", private_tmp);
    snprintf(cache, sizeof cache, "%s/killed-cache", directory);
    T_MUST(mkdir(private_tmp, 0700) == 0 && mkdir(like, 0755) == 0);
    setenv("TMPDIR", private_tmp, 1);
    T_MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    o.target = TARGET;
    o.cache_dir = cache;
    o.worker_path = t_worker_path();
    o.allow_unverified = 1;
    T_MUST(quern_problem_parse(PROBLEM, &p) == QUERN_OK && quern_open(&o, &ctx) == QUERN_OK);
    T_MUST(quern_op_create_range(ctx, &p, 1, 1, &op) == QUERN_OK);
    quern_op_release(op);
    const pid_t supervisor = child_named("quern-worker");
    T_MUST(supervisor && t_count_entries(private_tmp) == 2);
    make_old(private_tmp);
    make_kernel("beside"); /* the directory of a worker that lives is not touched */
    T_MUST(t_count_entries(private_tmp) == 2);
    T_MUST(kill(supervisor, SIGKILL) == 0);
    quern_close(ctx);
    T_MUST(no_children()); /* the compiler, which the supervisor waited for, is none either */
    T_MUST(t_count_entries(private_tmp) == 2);
    make_old(private_tmp);
    make_kernel("after");
    T_MUST(t_count_entries(private_tmp) == 1 && !access(like, F_OK));
}

static void hosts_that_inherit_processes_keep_none(void **state)
{
    (void)state;
    in_child(subreaper_body);
    in_child(waiting_body);
    in_child(killed_body);
}

/* Descriptors, threads, children and temporary directories, after everything is closed. */
static void residue_body(void)
{
    char private_tmp[PATH_MAX];

    snprintf(private_tmp, sizeof private_tmp, "%s/tmp", directory);
    T_MUST(mkdir(private_tmp, 0700) == 0);
    setenv("TMPDIR", private_tmp, 1);
    const int before = descriptors_and_threads();
    t_clock_hold(NULL); /* however long the worker takes to end, it is not killed for it */
    make_kernel("residue");
    t_clock_release();
    T_MUST(comes_down_to(before));
    T_MUST(t_count_entries(private_tmp) == 0);
    T_MUST(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void nothing_is_left_after_closing(void **state)
{
    (void)state;
    in_child(residue_body);
}

static void dlclose_body(void)
{
    char path[PATH_MAX], line[512];
    const int before = descriptors_and_threads();
    bool mapped = false;

    snprintf(path, sizeof path, "%s/lib/libquern.so", t_build());
    for (int round = 0; round < 3; round++) {
        void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            _exit(access(path, R_OK) ? 77 : 1);
        quern_status (*const open_it)(const struct quern_options *, quern_ctx **) =
            (quern_status(*)(const struct quern_options *, quern_ctx **))dlsym(library,
                                                                               "quern_open");
        void (*const close_it)(quern_ctx *) = (void (*)(quern_ctx *))dlsym(library, "quern_close");
        struct quern_options o = QUERN_INIT(struct quern_options);
        char cache[PATH_MAX];
        quern_ctx *ctx;
        T_MUST(open_it && close_it);
        snprintf(cache, sizeof cache, "%s/dl", directory);
        o.target = round ? "gfx1151" : TARGET; /* a software GPU brings a library of its own */
        o.cache_dir = cache;
        o.allow_unverified = 1;
        T_MUST(open_it(&o, &ctx) == QUERN_OK);
        close_it(ctx);
        T_MUST(dlclose(library) == 0);
    }
    FILE *const maps = fopen("/proc/self/maps", "re");
    T_MUST(maps);
    while (fgets(line, sizeof line, maps))
        mapped = mapped || strstr(line, "libquern.so") || strstr(line, "quern-sim");
    fclose(maps);
    T_MUST(!mapped);
    T_MUST(comes_down_to(before));
    /* and a fork after it: no handler of the library is left behind */
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    T_MUST(waitpid(child, NULL, 0) == child);
}

static void the_library_can_be_unloaded(void **state)
{
    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* the sanitizer's runtime keeps what it has seen */
#endif
    in_child(dlclose_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimal_commas_change_nothing),
        cmocka_unit_test(another_rounding_mode_changes_nothing),
        cmocka_unit_test(threads_with_64_kilobytes_of_stack_suffice),
        cmocka_unit_test(signals_of_the_host_stay_its_own),
        cmocka_unit_test(closed_standard_descriptors_do_no_harm),
        cmocka_unit_test(the_first_process_of_a_container_can_be_the_host),
        cmocka_unit_test(hosts_that_inherit_processes_keep_none),
        cmocka_unit_test(nothing_is_left_after_closing),
        cmocka_unit_test(the_library_can_be_unloaded),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
