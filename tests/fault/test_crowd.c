/* SPDX-License-Identifier: MIT */
/*
 * Many processes on one cold cache. A kernel is compiled once, however many ask for it at once;
 * each lock holder that dies costs at most one compile more; and without any locks the work is done
 * more than once and the result is the same. "Compiling" here is a few milliseconds' sleep.
 */
#include "base/os.h"
#include "store/internal.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { PROCESSES = 8, KEYS = 20 };
#else
enum { PROCESSES = 64, KEYS = 200 };
#endif

struct crowd {
    struct t_store *t;
    int compile_us;
    int deadline_ms;
    long die_each; /* each compile of such a number, counted from 1, ends in death; 0: none */
    long stop_at;  /* the compile of this number stops its process for ever; 0: none */
    bool versions; /* every other process is of the next version of the format */
};

/* Adds a byte to a file, whose length counts over all processes. Returns this one's number. */
static long note(const struct crowd *c, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", c->t->root, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    T_MUST(fd >= 0 && write(fd, "x", 1) == 1);
    const long number = (long)lseek(fd, 0, SEEK_CUR); /* O_APPEND: just behind our own byte */
    close(fd);
    return number;
}

static long noted(const struct crowd *c, const char *name)
{
    char path[PATH_MAX];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", c->t->root, name);
    return stat(path, &st) ? 0 : (long)st.st_size;
}

static void compile(const struct crowd *c, struct store *s, const struct t_record *r)
{
    const long number = note(c, "compiles");

    usleep((useconds_t)c->compile_us);
    if (c->die_each && number % c->die_each == 0) {
        note(c, "deaths");
        kill(getpid(), SIGKILL);
    }
    if (number == c->stop_at) {
        note(c, "stops");
        raise(SIGSTOP);
    }
    store_put(s, &r->key, &r->record);
}

/* ---- the next version: the same code, in the directory that it will have ----------------------
 */

static struct os this_version;
static const char *next(const char *name)
{
    return !strcmp(name, "v1") ? "v2" : name;
}
static int next_openat(int d, const char *name, int flags, mode_t mode)
{
    return this_version.openat(d, next(name), flags, mode);
}
static int next_mkdirat(int d, const char *name, mode_t mode)
{
    return this_version.mkdirat(d, next(name), mode);
}
static int next_fchmodat(int d, const char *name, mode_t mode, int flags)
{
    return this_version.fchmodat(d, next(name), mode, flags);
}
static int next_fstatat(int d, const char *name, struct stat *st, int flags)
{
    return this_version.fstatat(d, next(name), st, flags);
}

static void become_next_version(void)
{
    this_version = os;
    os.openat = next_openat;
    os.mkdirat = next_mkdirat;
    os.fchmodat = next_fchmodat;
    os.fstatat = next_fstatat;
}

/* ---- the crowd ------------------------------------------------------------------------------- */

/* The clock stands still, so that a wait for a lock is as long as what is slept in it, and none
 * ends early because the machine has other things to do than these processes. */
static int still(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = 1};
    return 0;
}

/* Sees to it that every key is there, in an order of its own; as dispatch does it. */
static void member(const struct crowd *c, int self)
{
    struct store *s;
    struct t_record r;
    char name[16];

    os.clock_gettime = still;
    T_MUST(t_store_try(c->t, c->t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
    for (int i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "k%d", (i + self * 7) % KEYS);
        if (t_get(s, name))
            continue;
        t_record(&r, name);
        const int lock = store_lock(s, &r.key, c->deadline_ms);
        if (lock < 0 || !t_get(s, name))
            compile(c, s, &r);
        store_unlock(s, lock);
        T_MUST(t_get(s, name));
    }
    const struct quern_stats stats = t_stats(s);
    T_MUST(stats.put_failed == 0 && stats.miss_io == 0 && stats.miss_damaged == 0);
    store_close(s);
}

static pid_t start(const struct crowd *c, int self, const int gate[2])
{
    char byte;
    const pid_t child = fork();

    if (child == 0) {
        if (gate) {
            close(gate[1]);
            T_MUST(read(gate[0], &byte, 1) == 0);
            close(gate[0]);
        }
        if (c->versions && self % 2)
            become_next_version();
        member(c, self);
        _exit(0);
    }
    return child;
}

/* Runs the crowd until every process has ended well; who is killed is replaced. A stopped one is
 * killed when all others are done. */
static void run_crowd(const struct crowd *c)
{
    pid_t children[PROCESSES], stopped = -1;
    int gate[2], left = PROCESSES;

    assert_int_equal(pipe(gate), 0);
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++)
        children[i] = start(c, i, gate);
    close(gate[0]);
    close(gate[1]); /* all start now */
    while (left) {
        int status, i = 0;
        const pid_t child = waitpid(-1, &status, WUNTRACED);
        assert_true(child > 0);
        if (WIFSTOPPED(status)) {
            stopped = child;
            left--;
            continue;
        }
        while (i < PROCESSES && children[i] != child)
            i++;
        assert_true(i < PROCESSES);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
            children[i] = start(c, i, NULL);
            continue;
        }
        assert_int_equal(status, 0);
        left--;
    }
    if (stopped > 0) {
        assert_int_equal(kill(stopped, SIGKILL), 0);
        assert_int_equal(waitpid(stopped, NULL, 0), stopped);
    }
    assert_int_equal(t_count_files(c->t, "v1/objects", ".qk"), KEYS);
    assert_int_equal(t_count_files(c->t, "v1/objects", ""), KEYS);
    assert_int_equal(t_count_files(c->t, "v1/quarantine", ""), 0);
}

static void each_key_is_compiled_once(void **state)
{
    const struct crowd c = {.t = *state, .compile_us = 2000, .deadline_ms = 60000};

    run_crowd(&c);
    assert_int_equal(noted(&c, "compiles"), KEYS);
}

static void two_versions_share_a_directory(void **state)
{
    const struct crowd c = {
        .t = *state, .compile_us = 1000, .deadline_ms = 60000, .versions = true};

    run_crowd(&c);
    assert_int_equal(noted(&c, "compiles"), 2 * KEYS);
    assert_int_equal(t_count_files(c.t, "v2/objects", ""), KEYS);
    assert_int_equal(t_count_files(c.t, "v2/quarantine", ""), 0);
}

static void a_death_costs_one_compile_at_most(void **state)
{
    const struct crowd c = {.t = *state, .compile_us = 1000, .deadline_ms = 60000, .die_each = 10};

    run_crowd(&c);
    assert_true(noted(&c, "deaths") > 0);
    assert_true(noted(&c, "compiles") >= KEYS);
    assert_true(noted(&c, "compiles") <= KEYS + noted(&c, "deaths"));
}

static void a_stopped_holder_costs_the_deadline(void **state)
{
    const struct crowd c = {
        .t = *state, .compile_us = 1000, .deadline_ms = 300, .stop_at = KEYS / 4};

    /* the stopped one is never continued: had anybody waited for it for ever, this would not end */
    run_crowd(&c);
    assert_int_equal(noted(&c, "stops"), 1);
}

static int no_locks(int fd, int operation)
{
    (void)fd;
    (void)operation;
    errno = ENOLCK;
    return -1;
}

/* As where the server keeps no locks but says yes: every process believes to be alone. */
static int locks_that_lie(int fd, int operation)
{
    (void)fd;
    (void)operation;
    return 0;
}

static void without_locks_the_result_is_the_same(void **state)
{
    struct crowd c = {.t = *state, .compile_us = 1000, .deadline_ms = 60000};
    struct t_store *const t = *state;
    const struct os real = os;
    int (*const instead[])(int, int) = {no_locks, locks_that_lie};

    for (size_t i = 0; i < 2; i++) {
        os.flock = instead[i];
        run_crowd(&c);
        os = real;
        /* whoever started a key before it was published made it too */
        assert_true(noted(&c, "compiles") >= KEYS);
        assert_true(noted(&c, "compiles") <= (long)PROCESSES * KEYS);
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/compiles", t->root);
        unlink(path);
        t_remove_tree(t->cache);
    }
}

/* ---- eviction while others read -------------------------------------------------------------- */

enum { READERS = 4, READ_KEYS = 24, EVICTIONS = 60 };

/* Reads until `stop` is closed; says so once it has read an entry. */
static void reader(struct t_store *t, int stop, int reading)
{
    struct store *s;
    char name[16], byte;
    bool hit = false;

    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
    fcntl(stop, F_SETFL, O_NONBLOCK);
    for (unsigned i = 0; read(stop, &byte, 1) < 0; i++) {
        snprintf(name, sizeof name, "k%u", i % READ_KEYS);
        if (t_get(s, name) && !hit) { /* compares every byte */
            hit = true;
            T_MUST(write(reading, "", 1) == 1);
        }
    }
    const struct quern_stats stats = t_stats(s);
    T_MUST(hit && stats.miss_damaged == 0 && stats.miss_foreign == 0 && stats.miss_io == 0);
    store_close(s);
}

static void eviction_harms_no_reader(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 60000);
    pid_t readers[READERS];
    char name[16];
    int stop[2], reading[2], status, begun = 0;

    assert_int_equal(pipe(stop), 0);
    assert_int_equal(pipe2(reading, O_NONBLOCK), 0);
    fflush(NULL);
    for (int i = 0; i < READERS; i++)
        if ((readers[i] = fork()) == 0) {
            close(stop[1]);
            reader(t, stop[0], reading[1]);
            _exit(0);
        }
    close(stop[0]);
    close(reading[1]);
    /* so many times after the last of them has begun */
    for (int round = 0; round < EVICTIONS; round += begun == READERS) {
        char byte;
        ssize_t n;
        while ((n = read(reading[0], &byte, 1)) == 1)
            begun++;
        assert_true(n < 0 || begun == READERS); /* none has ended before its time */
        for (int i = 0; i < READ_KEYS; i++) {
            snprintf(name, sizeof name, "k%d", i);
            t_put(s, name);
        }
    }
    close(reading[0]);
    assert_true(t_stats(s).evicted > 0);
    close(stop[1]);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
        assert_int_equal(status, 0);
    }
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(each_key_is_compiled_once),
        T_STORE_TEST(two_versions_share_a_directory),
        T_STORE_TEST(a_death_costs_one_compile_at_most),
        T_STORE_TEST(a_stopped_holder_costs_the_deadline),
        T_STORE_TEST(without_locks_the_result_is_the_same),
        T_STORE_TEST(eviction_harms_no_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
