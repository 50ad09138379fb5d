/* SPDX-License-Identifier: MIT */
/* A host in trouble: its system calls fail, are interrupted or take their time while a worker is
 * started and asked. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/os.h"
#include "t_context.h"
#include "t_fake_worker.h"
#include "t_paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct os real;
static int countdown; /* the call that fails: 1 is the next */
static int failing_errno;

static bool fails_now(void)
{
    if (--countdown)
        return false;
    errno = failing_errno;
    return true;
}

static void *fail_malloc(size_t n)
{
    return fails_now() ? NULL : real.malloc(n);
}
static void *fail_calloc(size_t n, size_t m)
{
    return fails_now() ? NULL : real.calloc(n, m);
}
static void *fail_realloc(void *p, size_t n)
{
    return fails_now() ? NULL : real.realloc(p, n);
}
static void *fail_aligned(size_t a, size_t n)
{
    return fails_now() ? NULL : real.aligned_alloc(a, n);
}
static int fail_open(const char *p, int f, mode_t m)
{
    return fails_now() ? -1 : real.open(p, f, m);
}
static int fail_socketpair(int d, int t, int p, int s[2])
{
    return fails_now() ? -1 : real.socketpair(d, t, p, s);
}
static int fail_pipe2(int p[2], int f)
{
    return fails_now() ? -1 : real.pipe2(p, f);
}
static int fail_fcntl(int fd, int c, long a)
{
    return fails_now() ? -1 : real.fcntl(fd, c, a);
}
static int fail_clone(int (*f)(void *), void *s, int flags, void *a)
{
    return fails_now() ? -1 : real.clone(f, s, flags, a);
}
static ssize_t fail_recvmsg(int fd, struct msghdr *m, int f)
{
    return fails_now() ? -1 : real.recvmsg(fd, m, f);
}
static int fail_poll(struct pollfd *p, nfds_t n, int t)
{
    return fails_now() ? -1 : real.poll(p, n, t);
}

static void install(const char *member)
{
    failing_errno = EMFILE;
    if (!strcmp(member, "memory")) {
        failing_errno = ENOMEM;
        os.malloc = fail_malloc;
        os.calloc = fail_calloc;
        os.realloc = fail_realloc;
        os.aligned_alloc = fail_aligned;
    } else if (!strcmp(member, "open")) {
        os.open = fail_open;
    } else if (!strcmp(member, "socketpair")) {
        os.socketpair = fail_socketpair;
    } else if (!strcmp(member, "pipe2")) {
        os.pipe2 = fail_pipe2;
    } else if (!strcmp(member, "fcntl")) {
        os.fcntl = fail_fcntl;
    } else if (!strcmp(member, "clone")) {
        failing_errno = EAGAIN;
        os.clone = fail_clone;
    } else if (!strcmp(member, "recvmsg")) {
        os.recvmsg = fail_recvmsg;
    } else if (!strcmp(member, "poll")) {
        failing_errno = ENOMEM;
        os.poll = fail_poll;
    }
}

/* One request of a new pool; whatever fails, the answer is right or the failure has a message. */
static quern_status try_once(const struct t_world *w)
{
    char worker[PATH_MAX];
    struct compiler *c = NULL;
    char *text = NULL;

    snprintf(worker, sizeof worker, "%s/fake-good", w->directory);
    const struct compiler_config config = {
        .path = w->root, .worker_path = worker, .jobs = 1, .deadline_ms = 5000};
    quern_status status = compiler_open(&config, &c);
    if (status == QUERN_OK) {
        status = compiler_targets(c, &text);
        compiler_close(c);
    }
    if (status == QUERN_OK)
        assert_string_equal(text, FAKE_TARGETS);
    else
        assert_true(quern_last_error()->status == status && *quern_last_error()->message);
    free(text);
    return status;
}

static void every_call_may_fail(void **state)
{
    static const char *const members[] = {"memory", "open",  "socketpair", "pipe2",
                                          "fcntl",  "clone", "recvmsg",    "poll"};
    const struct t_world *const w = *state;

    compiler_close(t_fake_open(w, "good")); /* makes the link */
    real = os;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        int failures = 0, n = 1;
        for (;; n++) {
            assert_true(n < 1000);
            countdown = n;
            install(members[i]);
            const quern_status status = try_once(w);
            os = real;
            failures += status != QUERN_OK;
            assert_int_equal(t_count_entries("/proc/self/fd"), w->descriptors);
            if (countdown > 0)
                break; /* there was no Nth call */
        }
        if (!failures)
            print_message("no failing call to %s mattered\n", members[i]);
        assert_true(failures > 0);
    }
}

static ssize_t end_of_file(int fd, struct msghdr *m, int f)
{
    (void)fd;
    (void)m;
    (void)f;
    return 0;
}

static ssize_t nothing_yet(int fd, struct msghdr *m, int f)
{
    (void)fd;
    (void)m;
    (void)f;
    errno = EAGAIN;
    return -1;
}

/* As seen by its host: nothing was sent, and the socket is closed, or is going to be when the
 * kernel has come so far with ending the worker. */
static void a_worker_killed_at_birth_is_told(void **state)
{
    const struct t_world *const w = *state;

    compiler_close(t_fake_open(w, "good")); /* makes the link */
    real = os;
    for (int i = 0; i < 2; i++) {
        os.recvmsg = i ? nothing_yet : end_of_file;
        const quern_status status = try_once(w);
        os = real;
        assert_int_equal(status, QUERN_E_WORKER);
        t_message_has("vanished while it was being started");
        assert_int_equal(try_once(w), QUERN_OK);
    }
}

/* Calls that transfer one byte at a time, and are interrupted every other time. */
static int turn;
static ssize_t small_send(int fd, const void *b, size_t n, int f)
{
    errno = EINTR;
    return turn++ & 1 ? -1 : real.send(fd, b, n < 1 ? n : 1, f);
}
static ssize_t small_recv(int fd, void *b, size_t n, int f)
{
    errno = EINTR;
    return f & MSG_PEEK ? real.recv(fd, b, n, f)
           : turn++ & 1 ? -1
                        : real.recv(fd, b, n < 1 ? n : 1, f);
}
static int interrupted_poll(struct pollfd *p, nfds_t n, int t)
{
    errno = EINTR;
    return t && turn++ % 3 ? -1 : real.poll(p, n, t);
}

static void interruptions_and_small_transfers_do_no_harm(void **state)
{
    const struct t_world *const w = *state;

    compiler_close(t_fake_open(w, "good"));
    real = os;
    os.send = small_send;
    os.recv = small_recv;
    os.poll = interrupted_poll;
    const quern_status status = try_once(w);
    os = real;
    assert_int_equal(status, QUERN_OK);
}

/* Calls that do nothing else are given up, long before any deadline: the clock stands still here.
 */
static ssize_t never_recv(int fd, void *b, size_t n, int f)
{
    if (f & MSG_PEEK || n == 1)
        return real.recv(fd, b, n, f); /* while it starts */
    errno = EINTR;
    return -1;
}
static ssize_t never_send(int fd, const void *b, size_t n, int f)
{
    (void)fd, (void)b, (void)n, (void)f;
    errno = EINTR;
    return -1;
}
static int never_poll(struct pollfd *p, nfds_t n, int t)
{
    errno = EINTR;
    return t ? -1 : real.poll(p, n, t);
}

static void interruptions_without_end_are_no_hang(void **state)
{
    const struct t_world *const w = *state;

    compiler_close(t_fake_open(w, "good"));
    for (int call = 0; call < 3; call++) {
        real = os;
        if (call == 0)
            os.send = never_send;
        else if (call == 1)
            os.recv = never_recv;
        else
            os.poll = never_poll;
        const quern_status status = try_once(w);
        os = real;
        if (status == QUERN_OK)
            fail_msg("call %d: nothing came through, and all was well", call);
        t_message_has("could not be heard: Interrupted");
        assert_int_equal(try_once(w), QUERN_OK);
    }
}

/* A host that comes to look only when the worker has printed all it had to, and ended... */
static const struct t_world *world;
static int late_poll(struct pollfd *p, nfds_t n, int t)
{
    for (;;) {
        const bool idle = t_fake_is_idle();
        if (idle)
            assert_true(t_fake_is_gone(world, "report-late"));
        const int ready = real.poll(p, n, 0);
        if (ready || idle || !t)
            return ready;
        usleep(1000);
    }
}

/* ...and for which every look at the clock takes a second. */
static int slow_clock(clockid_t id, struct timespec *t)
{
    static time_t seconds;

    (void)id;
    *t = (struct timespec){.tv_sec = ++seconds};
    return 0;
}

static void a_host_that_was_held_up_reads_the_last_words(void **state)
{
    char worker[PATH_MAX];
    struct compiler *c = NULL;
    char *text = NULL;

    world = *state;
    compiler_close(t_fake_open(world, "report-late"));
    snprintf(worker, sizeof worker, "%s/fake-report-late", world->directory);
    const struct compiler_config config = {
        .path = world->root, .worker_path = worker, .jobs = 1, .deadline_ms = 1000000000};
    assert_int_equal(compiler_open(&config, &c), QUERN_OK);
    real = os;
    os.poll = late_poll;
    os.clock_gettime = slow_clock;
    const quern_status status = compiler_targets(c, &text);
    os = real;
    assert_int_equal(status, QUERN_E_WORKER);
    t_message_has("signal 11");
    assert_int_equal(quern_last_error()->log[0], '#');
    compiler_close(c);
}

/* A kernel without pidfd: hanging up is all that can be done, and is enough. */
static ssize_t recvmsg_without_pidfd(int fd, struct msghdr *m, int f)
{
    m->msg_controllen = 0;
    return real.recvmsg(fd, m, f);
}

static void workers_end_without_pidfd(void **state)
{
    real = os;
    os.recvmsg = recvmsg_without_pidfd;
    struct compiler *const c = t_fake_open(*state, "good");
    assert_int_equal(t_fake_ask(c), QUERN_OK);
    compiler_close(c);
    os = real;
    assert_true(t_fake_is_gone(*state, "good"));
}

static void the_toolchain_may_not_change(void **state)
{
    const struct t_world *const w = *state;
    struct compiler *const c = t_fake_open(w, "dies-idle");
    char path[PATH_MAX + 40];

    assert_int_equal(t_fake_ask(c), QUERN_OK);
    assert_true(t_fake_is_gone(w, "dies-idle"));
    snprintf(path, sizeof path, "%s/lib/libhiprtc-builtins.so.6", w->root);
    assert_int_equal(symlink("/proc/self/exe", path), 0);
    assert_int_equal(t_fake_ask(c), QUERN_E_TOOLCHAIN);
    t_message_has("changed while in use");
    compiler_close(c);
}

int main(int argc, char **argv)
{
    t_fake_worker(argc, argv);

#define TEST(name) cmocka_unit_test_setup_teardown(name, t_world_make, t_world_end)
    const struct CMUnitTest tests[] = {
        TEST(a_worker_killed_at_birth_is_told),
        TEST(every_call_may_fail),
        TEST(interruptions_and_small_transfers_do_no_harm),
        TEST(interruptions_without_end_are_no_hang),
        TEST(a_host_that_was_held_up_reads_the_last_words),
        TEST(workers_end_without_pidfd),
        TEST(the_toolchain_may_not_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
