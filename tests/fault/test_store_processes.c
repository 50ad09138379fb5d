/* SPDX-License-Identifier: MIT */
/* The store against the real system: full disks, limits, holders of locks that die or stop, and
 * stampedes. */
#include "base/os.h"
#include "store/internal.h"
#include "t_clock.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- disks and limits ------------------------------------------------------------------------ */

static void full_disk_body(struct t_store *t)
{
    struct store *s;
    struct quern_stats stats;
    char name[16];
    int stored = 0, wrong = 0;

    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "n%d", i);
        t_put(s, name);
    }
    stats = t_stats(s);
    T_MUST(stats.put_failed > 0 && stats.put_ok > 3);
    T_MUST(strstr(t->log, "No space left on device"));
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "n%d", i);
        stored += t_get(s, name);
    }
    stats = t_stats(s);
    wrong = (int)(stats.miss_damaged + stats.miss_foreign + stats.miss_io);
    T_MUST(stored == (int)stats.put_ok && wrong == 0);
    T_MUST(t_count_files(t, "v1/objects", TEMPORARY_PREFIX) == 0);
    uint64_t removed;
    T_MUST(store_clear(s, &removed) == QUERN_OK && (int)removed == stored);
    t_put(s, "again");
    T_MUST(t_get(s, "again"));
    store_close(s);
    /* the same disk, read-only */
    T_MUST(mount("none", t->cache, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_E_CACHE);
    T_MUST(strstr(quern_last_error()->message, "Read-only file system"));
    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RO, &s) == QUERN_OK);
    T_MUST(t_get(s, "again"));
    store_close(s);
}

static void a_full_disk_costs_only_the_entry(void **state)
{
    static const char *const options[] = {"size=160k,mode=700", "nr_inodes=40,mode=700"};
    struct t_store *const t = *state;

    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(t->cache, 0700), 0);
    for (size_t i = 0; i < COUNT(options); i++) {
        fflush(NULL);
        const pid_t child = fork();
        int status;
        if (child == 0) {
            /* a mount namespace of its own: the mount goes away with the process */
            if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
                mount("none", t->cache, "tmpfs", 0, options[i]))
                _exit(77);
            full_disk_body(t);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            skip(); /* a container that may not mount */
        assert_int_equal(status, 0);
    }
}

static void limits_body(struct t_store *t)
{
    struct store *s;
    struct quern_stats stats;

    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
    t_put(s, "a");
    struct rlimit files;
    T_MUST(getrlimit(RLIMIT_NOFILE, &files) == 0);
    /* a file size limit raises SIGXFSZ, which would end the host */
    T_MUST(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1024, RLIM_INFINITY}) == 0);
    t_put(s, "b");
    T_MUST(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
    stats = t_stats(s);
    T_MUST(stats.put_failed == 1);
    T_MUST(t_get(s, "a") && !t_get(s, "b"));
    /* no descriptors left, from none to as many as it takes */
    const int in_use = t_open_descriptors();
    for (rlim_t spare = 0; spare < 10; spare++) {
        const struct rlimit few = {(rlim_t)in_use + spare - 2, files.rlim_max};
        T_MUST(setrlimit(RLIMIT_NOFILE, &few) == 0);
        t_put(s, "c");
        t_get(s, "a");
        store_evict(s);
        T_MUST(setrlimit(RLIMIT_NOFILE, &files) == 0);
        T_MUST(t_get(s, "a"));
    }
    t_put(s, "c");
    T_MUST(t_get(s, "c"));
    store_close(s);
}

static void limits_of_the_process_are_met(void **state)
{
    struct t_store *const t = *state;
    int status;

    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        limits_body(t);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- processes ------------------------------------------------------------------------------- */

enum { PROCESSES = 8, KEYS = 50 };

/* Makes every key that is not there, in an order of its own, and notes each making in a file. */
static void stampede_body(struct t_store *t, int self)
{
    struct store *s;
    struct t_record r;
    char name[16], made[PATH_MAX];

    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
    for (int i = 0; i < KEYS; i++) {
        const int key = (i + self * 7) % KEYS;
        snprintf(name, sizeof name, "k%d", key);
        if (t_get(s, name))
            continue;
        t_record(&r, name);
        const int lock = store_lock(s, &r.key, 30000);
        T_MUST(lock >= 0);
        if (!t_get(s, name)) {
            snprintf(made, sizeof made, "%s/made-%d", t->root, key);
            const int fd = open(made, O_WRONLY | O_CREAT | O_APPEND, 0600);
            T_MUST(fd >= 0 && write(fd, "x", 1) == 1);
            close(fd);
            usleep(1000); /* "compiling" */
            store_put(s, &r.key, &r.record);
        }
        store_unlock(s, lock);
        T_MUST(t_get(s, name));
    }
    struct quern_stats stats;
    stats = t_stats(s);
    T_MUST(stats.put_lost == 0 && stats.put_failed == 0 && stats.miss_io == 0);
    store_close(s);
}

static void a_stampede_makes_each_key_once(void **state)
{
    struct t_store *const t = *state;
    pid_t children[PROCESSES];
    int gate[2], status;
    char byte;

    assert_int_equal(pipe(gate), 0);
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            close(gate[1]);
            T_MUST(read(gate[0], &byte, 1) == 0);
            stampede_body(t, i);
            _exit(0);
        }
    }
    close(gate[0]);
    close(gate[1]); /* all start now */
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < KEYS; i++) {
        char made[PATH_MAX];
        struct stat st;
        snprintf(made, sizeof made, "%s/made-%d", t->root, i);
        assert_int_equal(stat(made, &st), 0);
        assert_int_equal(st.st_size, 1);
    }
    assert_int_equal(t_count_files(t, "v1/objects", ".qk"), KEYS);
    assert_int_equal(t_count_files(t, "v1/objects", ""), KEYS);
}

/* A child that takes the lock of "a", says so, and waits. */
static pid_t lock_holder(struct t_store *t)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        struct store *s;
        struct t_record r;
        T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
        t_record(&r, "a");
        T_MUST(store_lock(s, &r.key, 1000) >= 0);
        T_MUST(write(ready[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void a_killed_lock_holder_holds_nothing(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct t_record r;

    t_record(&r, "a");
    const pid_t child = lock_holder(t);
    assert_int_equal(store_lock(s, &r.key, 20), -1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    const int lock = store_lock(s, &r.key, 0); /* at once */
    assert_true(lock >= 0);
    store_unlock(s, lock);
    store_close(s);
}

static void a_stopped_lock_holder_costs_the_deadline(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct t_record r;
    int status;

    t_record(&r, "a");
    const pid_t child = lock_holder(t);
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    t_clock_hold(NULL); /* what is slept is all that passes */
    const uint64_t start = os_now();
    assert_int_equal(store_lock(s, &r.key, 150), -1);
    assert_in_range((os_now() - start) / 1000000, 150, 150 + T_LOCK_SLEEP_MS);
    t_clock_release();
    t_put(s, "a"); /* and goes on without it */
    assert_true(t_get(s, "a"));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(a_full_disk_costs_only_the_entry),
        T_STORE_TEST(limits_of_the_process_are_met),
        T_STORE_TEST(a_stampede_makes_each_key_once),
        T_STORE_TEST(a_killed_lock_holder_holds_nothing),
        T_STORE_TEST(a_stopped_lock_holder_costs_the_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
