/* SPDX-License-Identifier: MIT */
/*
 * The real worker where it runs out of memory, is killed, has its file replaced, or is refused a
 * means of its confinement by the kernel: the first two are a failure of that job alone, noticed at
 * once, and the last is what `quern doctor` says, while kernels are made all the same.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_clock.h"
#include "t_compile.h"
#include "t_context.h"
#include "t_paths.h"
#include "t_store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Memory ---------------------------------------------------------------------------------- */

/* An array of 2^28 values that the compiler computes: 20 GB of them, at once. */
static const char hungry[] = "struct large { int v[1 << 28]; };\n"
                             "constexpr int f()\n"
                             "{ large a{}; a.v[(1 << 28) - 1] = 1; return a.v[(1 << 28) - 1]; }\n"
                             "constexpr int x = f();\n" T_KERNEL "k(int *p) { p[0] = x; }\n";

static void a_worker_without_memory_fails_its_job_alone(void **state)
{
    struct compiler *const c = t_compiler_open(1, 0);
    struct compile_result r;

    (void)state;
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(t_compile(c, hungry, "gfx1100", T_ENDLESS_OPTIONS, &r), QUERN_E_WORKER);
    assert_non_null(strstr(quern_last_error()->message, "was ended by signal"));
    assert_non_null(strstr(quern_last_error()->log, "bad_alloc"));
    assert_int_equal(t_compile(c, hungry, "gfx1100", T_ENDLESS_OPTIONS, &r), QUERN_E_WORKER);
    assert_non_null(strstr(quern_last_error()->message, "not tried again"));
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(t_compiler_stats(c).started, 2);
    assert_int_equal(t_compiler_stats(c).died, 1);
    compiler_close(c);
}

/* A worker's process whose parent is `parent`, and that has not ended; 0: none. */
static pid_t child_of(pid_t parent)
{
    DIR *const proc = opendir("/proc");
    pid_t found = 0;

    for (const struct dirent *e; !found && (e = readdir(proc));) {
        char path[300], text[512] = "", how = 'Z';
        int its = 0;
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
        FILE *const f = fopen(path, "r");
        if (!f)
            continue;
        if (fgets(text, sizeof text, f) && strstr(text, "quern-worker") &&
            sscanf(strrchr(text, ')') + 1, " %c %d", &how, &its) == 2 && its == parent &&
            how != 'Z')
            found = (pid_t)atoi(e->d_name);
        fclose(f);
    }
    closedir(proc);
    return found;
}

/* The process that holds the compiler, of a pool of one worker in a process that is the nearest
 * reaper of orphans. Waits for it. */
static pid_t compiler_process(struct compiler *c, uint64_t started)
{
    for (int tries = 0; tries < 6000; tries++) {
        const pid_t supervisor = child_of(getpid());
        const pid_t compiler = supervisor ? child_of(supervisor) : 0;
        if (compiler && t_compiler_stats(c).started == started)
            return compiler;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    fail_msg("there is no worker");
    return 0;
}

/* Workers leave their parent, and come to the nearest process that asks for such. */
static int reap_orphans(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static int reap_none(void **state)
{
    (void)state;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

struct attempt {
    struct compiler *compiler;
    quern_status status;
    char message[1024];
};

static void *compile_endless(void *user)
{
    struct attempt *const t = user;
    struct compile_result r;

    t->status = t_compile(t->compiler, t_endless, "gfx1100", T_ENDLESS_OPTIONS, &r);
    snprintf(t->message, sizeof t->message, "%s", quern_last_error()->message);
    return NULL;
}

/* The kernel ends the process that took the memory by SIGKILL, which is what is sent here: a memory
 * cgroup to have it do so (test_worker_cgroup.c) takes root. It picks the compiler before its host.
 */
static void what_the_kernel_kills_has_a_second_chance(void **state)
{
    struct compiler *const c = t_compiler_open(1, 60000);
    struct compile_result r;

    (void)state;
    t_clock_hold(NULL); /* the death alone ends the compile: no deadline can */
    for (uint64_t i = 0; i < 2; i++) {
        struct attempt t = {.compiler = c};
        pthread_t thread;
        char path[64], wish[16] = "";
        assert_int_equal(pthread_create(&thread, NULL, compile_endless, &t), 0);
        const pid_t compiler = compiler_process(c, i + 1);
        snprintf(path, sizeof path, "/proc/%d/oom_score_adj", compiler);
        FILE *const f = fopen(path, "r");
        assert_non_null(f);
        assert_non_null(fgets(wish, sizeof wish, f));
        fclose(f);
        assert_true(atoi(wish) >= 500);
        assert_int_equal(kill(compiler, SIGKILL), 0);
        pthread_join(thread, NULL);
        assert_int_equal(t.status, QUERN_E_WORKER);
        assert_non_null(strstr(t.message, "out of memory"));
    }
    t_clock_release();
    assert_int_equal(t_compile(c, t_endless, "gfx1100", T_ENDLESS_OPTIONS, &r), QUERN_E_WORKER);
    assert_non_null(strstr(quern_last_error()->message, "not tried again"));
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    compiler_close(c);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* The program is opened once: what takes its place on disk is not what runs. */
static void a_replaced_executable_changes_nothing(void **state)
{
    static const char other[] = "#!/bin/sh\nexit 1\n";
    char *const directory = t_temp_dir();
    char path[PATH_MAX], command[3 * PATH_MAX];
    struct compiler *c;
    struct compile_result r;

    (void)state;
    snprintf(path, sizeof path, "%s/quern-worker", directory);
    snprintf(command, sizeof command, "cp %s %s", t_worker_path(), path);
    assert_int_equal(system(command), 0);
    assert_int_equal(compiler_open(&(struct compiler_config){.jobs = 1, .worker_path = path}, &c),
                     QUERN_OK);
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    snprintf(command, sizeof command, "%s/other", directory);
    t_write_file(command, other, sizeof other - 1);
    assert_int_equal(chmod(command, 0700), 0);
    assert_int_equal(rename(command, path), 0);
    assert_int_equal(kill(compiler_process(c, 1), SIGKILL), 0);
    /* a request may reach it in its last moment */
    if (t_compile(c, t_add_source, "gfx1100", T_OPTIONS, &r) == QUERN_OK)
        compile_result_free(&r);
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(t_compiler_stats(c).started, 2);
    compiler_close(c);
    t_remove(directory);
}

/* What the host has open, in its workers would stay open. */
static void no_descriptor_reaches_a_worker(void **state)
{
    struct compiler *c;
    struct compile_result r;
    int ends[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(ends), 0); /* without O_CLOEXEC, as hosts do */
    c = t_compiler_open(1, 0);
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    close(ends[1]);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* the end: nobody else can write */
    close(ends[0]);
    assert_int_equal(t_compiler_stats(c).died, 0);
    compiler_close(c);
}

/* ---- Confinement ----------------------------------------------------------------------------- */

#define LANDLOCK_CREATE 444

/* A system call that fails, in this process and all that it starts: when its argument `argument`
 * is `value`, or (UNLESS) is not. */
struct refusal {
    uint32_t call, argument, value;
    bool unless;
    int error;
};

static bool refuse(const struct refusal *r)
{
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 (uint32_t)(offsetof(struct seccomp_data, args) + 8 * r->argument)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->value, r->unless, !r->unless),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)r->error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, (struct sock_filter *)code};

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* Runs the command where a call is refused (null: none is), and returns what it printed, its exit
 * status in *status. */
static char *run(const struct refusal *r, const char *const words[], int *status)
{
    static char text[16384];
    char command[PATH_MAX];
    size_t n = 0;
    int out[2];

    snprintf(command, sizeof command, "%s/bin/quern", t_build());
    assert_int_equal(pipe(out), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        if (r && !refuse(r))
            _exit(77);
        execv(command, (char *const *)words);
        _exit(127);
    }
    close(out[1]);
    for (ssize_t got; n < sizeof text - 1 && (got = read(out[0], text + n, sizeof text - 1 - n));)
        n += got > 0 ? (size_t)got : 0;
    text[n] = 0;
    close(out[0]);
    assert_int_equal(waitpid(child, status, 0), child);
    assert_true(WIFEXITED(*status));
    *status = WEXITSTATUS(*status);
    return text;
}

/* What doctor says of the worker's confinement, malloc'ed. */
static char *confinement(const struct refusal *r)
{
    static const char mark[] = "; confined by: ";
    int status;

    const char *at = run(r, (const char *const[]){"quern", "doctor", NULL}, &status);
    if (status == 77)
        skip(); /* a container without seccomp */
    at = strstr(at, mark);
    assert_non_null(at);
    at += sizeof mark - 1;
    return strndup(at, strcspn(at, "\n"));
}

/* A list without one of its items, which begins with `item`; malloc'ed. */
static char *without(const char *list, const char *item)
{
    char *const rest = strdup(list), *const at = strstr(rest, item);

    if (at) {
        const size_t length = strcspn(at + 2, ",") + 2;
        memmove(at, at + length, strlen(at + length) + 1);
    }
    return rest;
}

static void doctor_says_what_confines_the_worker(void **state)
{
    static const struct refusal landlock = {LANDLOCK_CREATE, 0, UINT32_MAX, true, ENOSYS},
                                calls = {SYS_seccomp, 0, SECCOMP_SET_MODE_FILTER, false, EINVAL},
                                privileges = {SYS_prctl, 0, PR_SET_NO_NEW_PRIVS, false, EPERM},
                                limits = {SYS_prlimit64, 1, RLIMIT_FSIZE, false, EPERM};
    char *const all = confinement(NULL);

    (void)state;
    assert_non_null(strstr(all, "limits, no-new-privileges"));
    const struct {
        const struct refusal *refused;
        char *expected;
    } cases[] = {
        {&landlock, without(all, ", landlock")},
        {&calls, without(all, ", seccomp")},
        {&privileges, strdup("limits")},
        {&limits, strdup(all)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *const directory = t_temp_dir(), *const said = confinement(cases[i].refused);
        int status;
        if (cases[i].refused == &limits) {
            assert_memory_equal(said, "no limits", 9);
            assert_string_equal(said + 9, cases[i].expected + 6);
        } else {
            assert_string_equal(said, cases[i].expected);
        }
        run(cases[i].refused,
            (const char *const[]){"quern", "prewarm", "--target", "gfx1151", "--m", "1",
                                  "--cache-dir", directory, "wq=nf4 n=32 k=64 a=f16", NULL},
            &status);
        assert_int_equal(status, 0);
        t_remove(directory);
        free(said);
        free(cases[i].expected);
    }
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_without_memory_fails_its_job_alone),
        cmocka_unit_test_setup_teardown(what_the_kernel_kills_has_a_second_chance, reap_orphans,
                                        reap_none),
        cmocka_unit_test_setup_teardown(a_replaced_executable_changes_nothing, reap_orphans,
                                        reap_none),
        cmocka_unit_test(no_descriptor_reaches_a_worker),
        cmocka_unit_test(doctor_says_what_confines_the_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
