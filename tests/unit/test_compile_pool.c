/* SPDX-License-Identifier: MIT */
/* The pool of real workers: threads that share it, compilers that die or never end, and the host
 * that it must leave alone. This file is long because all of it is about one state machine. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/os.h"
#include "t_build.h"
#include "t_clock.h"
#include "t_compile.h"
#include "t_context.h"
#include "t_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The pool -------------------------------------------------------------------------------- */

#define SOURCES 6

struct share {
    struct compiler *compiler;
    int first, step;
    struct compile_result results[SOURCES];
};

static void compile_numbered(struct compiler *c, int i, struct compile_result *result)
{
    char source[200];

    snprintf(source, sizeof source, T_KERNEL "k(int *p) { p[%d] = p[%d] * %d; }\n", i, i + 1,
             i + 2);
    if (t_compile(c, source, "gfx1201", T_OPTIONS, result) != QUERN_OK)
        result->object = NULL;
}

static void *compile_share(void *user)
{
    struct share *const s = user;

    for (int i = s->first; i < SOURCES; i += s->step)
        compile_numbered(s->compiler, i, &s->results[i]);
    return NULL;
}

/* Starts of workers meet here, two at a time: neither thread is done before the other began. */
static pthread_barrier_t both_start;
static int meet_and_pair(int domain, int type, int protocol, int pair[2])
{
    pthread_barrier_wait(&both_start);
    return socketpair(domain, type, protocol, pair);
}

/* Compiles all sources on `threads` threads with `jobs` workers; returns workers started. */
static uint64_t compile_all(int threads, int jobs, struct compile_result results[SOURCES])
{
    struct compiler *const c = t_compiler_open(jobs, 0);
    struct share shares[SOURCES];
    pthread_t ids[SOURCES];

    for (int t = 0; t < threads; t++) {
        shares[t] = (struct share){.compiler = c, .first = t, .step = threads};
        assert_int_equal(pthread_create(&ids[t], NULL, compile_share, &shares[t]), 0);
    }
    for (int t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        for (int i = t; i < SOURCES; i += threads)
            results[i] = shares[t].results[i];
    }
    const uint64_t started = t_compiler_stats(c).started;
    compiler_close(c);
    return started;
}

static void threads_share_the_workers(void **state)
{
    struct compile_result one[SOURCES], two[SOURCES], few[SOURCES];

    (void)state;
    assert_int_equal(compile_all(1, 2, one), 1);
    pthread_barrier_init(&both_start, NULL, 2);
    os.socketpair = meet_and_pair;
    assert_int_equal(compile_all(2, 2, two), 2);
    os.socketpair = socketpair;
    pthread_barrier_destroy(&both_start);
    assert_int_equal(compile_all(4, 1, few), 1);
    for (int i = 0; i < SOURCES; i++) {
        assert_non_null(one[i].object);
        assert_non_null(two[i].object);
        assert_non_null(few[i].object);
        assert_int_equal(one[i].object_bytes, two[i].object_bytes);
        assert_memory_equal(one[i].object, two[i].object, one[i].object_bytes);
        assert_memory_equal(one[i].object, few[i].object, one[i].object_bytes);
        compile_result_free(&one[i]);
        compile_result_free(&two[i]);
        compile_result_free(&few[i]);
    }
}

static void equal_configurations_share_one_pool(void **state)
{
    struct compiler *const a = t_compiler_open(1, 0), *const b = t_compiler_open(1, 0);
    struct compiler *const other = t_compiler_open(1, 12345);
    struct compile_result r;

    (void)state;
    t_compile_well(a, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(t_compiler_stats(b).compiled, 1);
    assert_int_equal(t_compiler_stats(other).compiled, 0);
    compiler_close(a);
    t_compile_well(b, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(t_compiler_stats(b).started, 1);
    compiler_close(b);
    compiler_close(other);
}

static void bad_configurations_are_refused(void **state)
{
    struct compiler *c = NULL;

    (void)state;
    assert_int_equal(compiler_open(&(struct compiler_config){.jobs = -1}, &c), QUERN_E_ARGUMENT);
    assert_int_equal(compiler_open(&(struct compiler_config){.jobs = 100000}, &c),
                     QUERN_E_ARGUMENT);
    assert_int_equal(compiler_open(&(struct compiler_config){.deadline_ms = -5}, &c),
                     QUERN_E_ARGUMENT);
    assert_null(c);
}

/* Compilers that really die: hipRTC 6.4 exits on an unknown LLVM option, and every clang overflows
 * its stack on deep enough nesting. */
static void a_source_that_kills_a_worker_is_remembered(void **state)
{
    struct compiler *const c = t_compiler_open(1, 0);
    const size_t depth = 400000;
    char *const source = malloc(depth + 100);
    struct compile_result r;

    (void)state;
    strcpy(source, T_KERNEL "k(int *p) { p[0] = ");
    const size_t head = strlen(source);
    for (size_t i = 0; i < depth; i++)
        source[head + i] = i & 1 ? ' ' : '-';
    strcpy(source + head + depth, "1; }\n");
    assert_int_equal(t_compile(c, source, "gfx1100", T_OPTIONS, &r), QUERN_E_WORKER);
    assert_non_null(strstr(quern_last_error()->message, "signal"));
    assert_non_null(strstr(quern_last_error()->message, "gfx1100"));
    assert_int_equal(t_compiler_stats(c).died, 1);
    assert_int_equal(t_compiler_stats(c).started, 1);
    assert_int_equal(t_compile(c, source, "gfx1100", T_OPTIONS, &r), QUERN_E_WORKER);
    assert_non_null(strstr(quern_last_error()->message, "not tried again"));
    assert_int_equal(t_compiler_stats(c).started, 1);

    assert_int_equal(
        t_compile(c, t_add_source, "gfx1100", T_OPTIONS "\n-mllvm\n-quern-no-such-option", &r),
        QUERN_E_WORKER);
    assert_non_null(strstr(quern_last_error()->message, "exited with status 1"));
    assert_non_null(strstr(quern_last_error()->log, "quern-no-such-option"));
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(t_compiler_stats(c).started, 3);
    assert_int_equal(t_compiler_stats(c).died, 2);
    free(source);
    compiler_close(c);
}

static struct compiler *with_deadline;
static bool worker_has_started(void)
{
    return t_compiler_stats(with_deadline).started > 0;
}

static void an_endless_compile_meets_the_deadline(void **state)
{
    struct compiler *const c = t_compiler_open(1, 1000);
    struct compile_result r;

    (void)state;
    with_deadline = c;
    t_clock_hold(worker_has_started);
    assert_int_equal(t_compile(c, t_endless, "gfx1100", T_ENDLESS_OPTIONS, &r), QUERN_E_TIMEOUT);
    assert_non_null(strstr(quern_last_error()->message, "1000 ms"));
    assert_int_equal(t_compiler_stats(c).timeouts, 1);
    compiler_close(c);
    t_clock_release();
}

/* ---- Jobs that nobody waits for any more ----------------------------------------------------- */

struct unwanted {
    struct compiler *compiler;
    atomic_bool now;
    quern_status status;
};

static bool is_unwanted(void *user)
{
    return atomic_load(&((struct unwanted *)user)->now);
}

static void *compile_endlessly(void *user)
{
    struct unwanted *const u = user;
    struct compile_result r;
    const struct compile_job job = {t_endless, "gfx1100", T_ENDLESS_OPTIONS, is_unwanted, u};

    u->status = compiler_compile(u->compiler, &job, &r);
    return NULL;
}

static void an_unwanted_job_is_dropped(void **state)
{
    struct compiler *const c = t_compiler_open(1, 0);
    struct unwanted running = {.compiler = c}, queued = {.compiler = c, .now = true};
    struct compile_result r;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, compile_endlessly, &running), 0);
    while (!t_compiler_stats(c).started)
        usleep(1000);
    /* queued behind the one that runs, which is not touched */
    compile_endlessly(&queued);
    assert_int_equal(queued.status, QUERN_E_NOT_READY);
    assert_int_equal(t_compiler_stats(c).dropped, 1);
    /* the one that runs: its worker is ended, and another takes its place */
    atomic_store(&running.now, true);
    pthread_join(thread, NULL);
    assert_int_equal(running.status, QUERN_E_NOT_READY);
    assert_int_equal(t_compiler_stats(c).dropped, 2);
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    /* nothing is held against the request: as often as it is dropped, it is tried again */
    for (int i = 0; i < 3; i++) {
        compile_endlessly(&queued);
        assert_int_equal(queued.status, QUERN_E_NOT_READY);
    }
    const struct compiler_stats s = t_compiler_stats(c);
    assert_true(s.dropped == 5 && s.died == 0 && s.failed == 0 && s.compiled == 1);
    /* the first of the three ended the second worker; each of the others had one of its own */
    assert_int_equal(s.started, 4);
    compiler_close(c);
}

static void nothing_is_left_behind(void **state)
{
    char *const directory = t_temp_dir();
    const char *const before = getenv("TMPDIR");
    char *const saved = before ? strdup(before) : NULL;
    const int descriptors = t_count_entries("/proc/self/fd");
    struct compile_result r;

    (void)state;
    t_clock_hold(NULL); /* however long the workers take to end, they are not killed for it */
    setenv("TMPDIR", directory, 1);
    /* a configuration that no other test uses: pools read TMPDIR when they are opened */
    struct compiler *const c = t_compiler_open(1, 50001);
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(t_count_entries(directory), 1);
    t_compile(c, t_add_source, "gfx1100", T_OPTIONS "\n-mllvm\n-quern-no-such-option", &r);
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    compiler_close(c);
    t_clock_release();
    assert_int_equal(t_count_entries(directory), 0);
    assert_int_equal(t_count_entries("/proc/self/fd"), descriptors);
    if (saved)
        setenv("TMPDIR", saved, 1);
    else
        unsetenv("TMPDIR");
    free(saved);
    t_remove(directory);
}

/* ---- The host -------------------------------------------------------------------------------- */

static volatile sig_atomic_t child_signals;
static void count_child(int number)
{
    (void)number;
    child_signals++;
}

static void the_host_sees_no_child(void **state)
{
    struct sigaction old, mine = {.sa_handler = count_child};
    struct compiler *c;
    struct compile_result r;

    (void)state;
    child_signals = 0;
    assert_int_equal(sigaction(SIGCHLD, &mine, &old), 0);
    c = t_compiler_open(1, 0);
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    t_compile(c, t_add_source, "gfx1100", T_OPTIONS "\n-mllvm\n-quern-no-such-option", &r);
    compiler_close(c);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(child_signals, 0);
    assert_int_equal(sigaction(SIGCHLD, &old, NULL), 0);
}

/* Runs `body` in a forked child; its result is the exit status. */
static int in_child(int (*body)(void *), void *user)
{
    int status = 0;
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body(user));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* 0: compiled by a worker of its own. */
static int compile_in_child(void *compiler)
{
    struct compile_result r;

    if (t_compile(compiler, t_add_source, "gfx1030", T_OPTIONS, &r) != QUERN_OK)
        return 1;
    compile_result_free(&r);
    const int right = t_compiler_stats(compiler).started == 1;
    compiler_close(compiler);
    return right ? 0 : 2;
}

static void a_forked_child_has_its_own_workers(void **state)
{
    struct compiler *const c = t_compiler_open(1, 0);
    struct compile_result r;

    (void)state;
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(in_child(compile_in_child, c), 0);
    /* what the child did, closing included, is nothing to the parent's worker */
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(t_compiler_stats(c).started, 1);
    assert_int_equal(t_compiler_stats(c).died, 0);
    compiler_close(c);
}

static void *compile_until_told(void *user)
{
    struct share *const s = user;

    for (int i = 0; !__atomic_load_n(&s->step, __ATOMIC_ACQUIRE); i++) {
        struct compile_result r;
        compile_numbered(s->compiler, i, &r);
        s->first += !r.object;
        compile_result_free(&r);
    }
    return NULL;
}

static void forks_while_another_thread_compiles(void **state)
{
    pthread_t id;

    (void)state;
    if (!T_FORKS_WITH_THREADS)
        skip();
    struct compiler *const c = t_compiler_open(1, 0);
    struct share s = {.compiler = c};
    assert_int_equal(pthread_create(&id, NULL, compile_until_told, &s), 0);
    while (!t_compiler_stats(c).compiled)
        usleep(1000);
    for (int i = 0; i < 3; i++)
        assert_int_equal(in_child(compile_in_child, c), 0);
    __atomic_store_n(&s.step, 1, __ATOMIC_RELEASE);
    pthread_join(id, NULL);
    assert_int_equal(s.first, 0);
    assert_int_equal(t_compiler_stats(c).died, 0);
    compiler_close(c);
}

/* Waits until a directory has so many entries; false when it never has. */
static bool comes_to_hold(const char *directory, int entries)
{
    for (int i = 0; i < 60000; i++) {
        if (t_count_entries(directory) == entries)
            return true;
        usleep(1000);
    }
    return false;
}

static void a_killed_host_takes_its_workers_along(void **state)
{
    char *const directory = t_temp_dir();
    int status = 0;

    (void)state;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct compiler_config config = {.jobs = 1};
        struct compiler *c = NULL;
        struct compile_result r;
        setenv("TMPDIR", directory, 1);
        if (compiler_open(&config, &c) == QUERN_OK)
            t_compile(c, t_endless, "gfx1100", T_ENDLESS_OPTIONS, &r);
        _exit(0);
    }
    assert_true(comes_to_hold(directory, 1));
    usleep(100000); /* into the compile */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    /* the supervisor removes the directory once the compiler is gone */
    assert_true(comes_to_hold(directory, 0));
    t_remove(directory);
}

static int compile_without_standard_descriptors(void *user)
{
    (void)user;
    close(0);
    close(1);
    close(2);
    const struct compiler_config config = {.jobs = 1};
    struct compiler *c = NULL;
    if (compiler_open(&config, &c) != QUERN_OK)
        return 3;
    const int status = compile_in_child(c);
    /* none of ours may stand where the host's next open would expect 0, 1, 2 */
    return status ? status : open("/dev/null", O_RDONLY) == 0 ? 0 : 4;
}

static void closed_standard_descriptors_do_no_harm(void **state)
{
    (void)state;
    assert_int_equal(in_child(compile_without_standard_descriptors, NULL), 0);
}

/* 0: with no descriptor left a clear failure, with some again a compile. */
static int compile_short_of_descriptors(void *user)
{
    struct rlimit limit;
    const struct compiler_config config = {.jobs = 1};
    struct compiler *c = NULL;
    struct compile_result r;

    (void)user;
    if (getrlimit(RLIMIT_NOFILE, &limit) || compiler_open(&config, &c) != QUERN_OK ||
        !compiler_toolchain(c))
        return 3;
    const rlim_t before = limit.rlim_cur;
    for (rlim_t few = 3; few < 40; few++) {
        limit.rlim_cur = few;
        if (setrlimit(RLIMIT_NOFILE, &limit))
            return 4;
        const quern_status status = t_compile(c, t_add_source, "gfx1030", T_OPTIONS, &r);
        if (status == QUERN_OK) {
            compile_result_free(&r);
            break;
        }
        if (status != QUERN_E_IO && status != QUERN_E_TOOLCHAIN && status != QUERN_E_WORKER)
            return 5;
        if (status == QUERN_E_WORKER && !strstr(quern_last_error()->message, "the last 8"))
            return 6;
    }
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    compiler_close(c);
    /* a pool that has not failed often: the pause after many failures is not what is tested */
    if (compiler_open(&config, &c) != QUERN_OK)
        return 7;
    return compile_in_child(c);
}

static void running_out_of_descriptors_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(in_child(compile_short_of_descriptors, NULL), 0);
}

/* The host may block every signal and ignore some: starting a worker leaves that as it is. */
static void the_signal_state_of_the_host_stays(void **state)
{
    sigset_t all, blocked, now, old;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, was;
    struct compiler *const c = t_compiler_open(1, 0);
    struct compile_result r;

    (void)state;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    sigaction(SIGSEGV, &ignore, &was);
    t_compile_well(c, t_add_source, "gfx1100", &r);
    compile_result_free(&r);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    assert_memory_equal(&now, &blocked, 8);
    sigaction(SIGSEGV, NULL, &ignore);
    assert_true(ignore.sa_handler == SIG_IGN);
    sigaction(SIGSEGV, &was, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    compiler_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_the_workers),
        cmocka_unit_test(equal_configurations_share_one_pool),
        cmocka_unit_test(bad_configurations_are_refused),
        cmocka_unit_test(a_source_that_kills_a_worker_is_remembered),
        cmocka_unit_test(an_endless_compile_meets_the_deadline),
        cmocka_unit_test(an_unwanted_job_is_dropped),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(the_host_sees_no_child),
        cmocka_unit_test(a_forked_child_has_its_own_workers),
        cmocka_unit_test(forks_while_another_thread_compiles),
        cmocka_unit_test(a_killed_host_takes_its_workers_along),
        cmocka_unit_test(closed_standard_descriptors_do_no_harm),
        cmocka_unit_test(running_out_of_descriptors_is_an_error),
        cmocka_unit_test(the_signal_state_of_the_host_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
