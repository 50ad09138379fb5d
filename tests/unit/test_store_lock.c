/* SPDX-License-Identifier: MIT */
/* Those who share a store: locks, threads, forked processes, and what of it they can see. */
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
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void locks_exclude_until_the_deadline(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    struct t_record a, b;

    t_record(&a, "a");
    t_record(&b, "b");
    const int first = store_lock(s, &a.key, 0);
    assert_true(first >= 0);
    t_clock_hold(NULL); /* what is slept is all that passes */
    const uint64_t start = os_now();
    assert_int_equal(store_lock(s, &a.key, 100), -1);
    assert_in_range((os_now() - start) / 1000000, 100, 100 + T_LOCK_SLEEP_MS);
    t_clock_release();
    const int other = store_lock(s, &b.key, 0);
    assert_true(other >= 0);
    store_unlock(s, other);
    store_unlock(s, first);
    const int again = store_lock(s, &a.key, 0);
    assert_true(again >= 0);
    store_unlock(s, again);
    store_close(s);
}

/* A process forked while a lock is held has the same open file; unlocking must free it there too.
 */
static void a_forked_child_does_not_keep_a_lock(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    struct t_record a;
    int ends[2];
    char byte;

    t_record(&a, "a");
    const int lock = store_lock(s, &a.key, 0);
    assert_true(lock >= 0);
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0); /* until the parent closes its end */
    }
    close(ends[0]);
    store_unlock(s, lock);
    const int again = store_lock(s, &a.key, 0);
    assert_true(again >= 0);
    store_unlock(s, again);
    close(ends[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    store_close(s);
}

/* ---- threads and processes ------------------------------------------------------------------- */

enum { THREADS = 6, KEYS = 12, ROUNDS = 4 };

static atomic_uint_fast64_t absent; /* of all threads */

static void *hammer(void *user)
{
    struct store *const s = user;
    char name[16];

    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < KEYS; i++) {
            struct t_record r;
            struct store_entry e;
            snprintf(name, sizeof name, "t%d", i);
            t_record(&r, name);
            if (store_get(s, &r.key, r.key_text, strlen(r.key_text), target_named("gfx1151"), &e)) {
                if (strcmp(e.record.source, r.source))
                    abort();
                store_entry_free(&e);
            } else {
                absent += e.miss == QUERN_REASON_ABSENT;
                store_put(s, &r.key, &r.record);
            }
        }
    return NULL;
}

static void threads_share_a_store(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    const struct quern_stats stats = t_stats(s);
    assert_int_equal(stats.put_ok, KEYS);
    assert_int_equal(stats.hit_disk + absent, THREADS * KEYS * ROUNDS);
    assert_int_equal(stats.put_ok + stats.put_lost, absent);
    assert_int_equal(stats.put_failed + stats.miss_damaged + stats.miss_foreign + stats.miss_io, 0);
    store_close(s);
}

/* A host that has closed its standard descriptors may still write to them. */
static void standard_descriptors_are_not_used(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    const pid_t child = fork();

    if (child == 0) {
        struct t_record r;
        t_record(&r, "a");
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        const int lock = store_lock(s, &r.key, 0);
        store_put(s, &r.key, &r.record);
        struct quern_stats stats;
        stats = t_stats(s);
        _exit(lock > 2 && stats.put_ok == 1 && fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 &&
                      fcntl(2, F_GETFD) < 0
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(t_get(s, "a"));
    store_close(s);
}

static void no_descriptor_is_kept_or_inherited(void **state)
{
    struct t_store *const t = *state;
    const int before = t_open_descriptors();
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct t_record r;
    struct store_usage usage;
    uint64_t removed;
    int items = 0;

    t_put(s, "a");
    assert_true(t_get(s, "a"));
    assert_false(t_get(s, "b"));
    store_evict(s);
    assert_int_equal(store_walk(s, true, t_count_item, &items), QUERN_OK);
    assert_int_equal(store_usage(s, &usage), QUERN_OK);
    t_record(&r, "a");
    const int lock = store_lock(s, &r.key, 0);
    assert_true(fcntl(lock, F_GETFD) & FD_CLOEXEC);
    store_unlock(s, lock);
    assert_int_equal(store_clear(s, &removed), QUERN_OK);
    assert_int_equal(t_open_descriptors(), before);
    store_close(s);
}

static void the_directory_may_vanish_at_any_time(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct t_record r;

    t_put(s, "a");
    t_record(&r, "a");
    const int lock = store_lock(s, &r.key, 0);
    t_remove_tree(t->cache);
    assert_false(t_get(s, "a"));
    t_put(s, "a");
    assert_true(t_get(s, "a"));
    store_unlock(s, lock);
    assert_int_equal(t_stats(s).put_failed, 0);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(locks_exclude_until_the_deadline),
        T_STORE_TEST(a_forked_child_does_not_keep_a_lock),
        T_STORE_TEST(threads_share_a_store),
        T_STORE_TEST(standard_descriptors_are_not_used),
        T_STORE_TEST(no_descriptor_is_kept_or_inherited),
        T_STORE_TEST(the_directory_may_vanish_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
