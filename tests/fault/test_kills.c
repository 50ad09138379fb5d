/* SPDX-License-Identifier: MIT */
/*
 * SIGKILL at random moments of a process that puts, gets, evicts and clears: after a random number
 * of operations, and then somewhere within the next few. Whatever the moment, every key is then a
 * miss or exact bytes, and the store does its work. Here some kills; in test_kills_long.c many.
 */
#include "base/os.h"
#include "store/internal.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef KILLS
#define KILLS 160
#endif

/* Lanes: a kill waits for the scheduler more than it computes. */
enum { NAMES = 16, STEPS_MAX = 24, WITHIN_US = 400, LANES = 8 };

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Works until it is killed; writes a byte when the store is open, and one after each operation. */
static void victim(struct t_store *t, uint64_t seed, int progress)
{
    struct store *s;
    char name[16];
    uint64_t removed;

    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
    s->max_bytes = 40000; /* room for some of the names */
    while (write(progress, "", 1) == 1) {
        const uint64_t r = next_random(&seed);
        snprintf(name, sizeof name, "v%u", (unsigned)(r % NAMES));
        if (r / NAMES % 64 == 0)
            store_clear(s, &removed);
        else if (r / NAMES % 16 == 1)
            store_evict(s);
        else if (r / NAMES % 4 == 2)
            t_get(s, name);
        else
            t_put(s, name);
    }
}

/* Starts a victim and kills it. */
static void kill_one(struct t_store *t, uint64_t *seed)
{
    const uint64_t r = next_random(seed);
    char bytes[STEPS_MAX];
    int progress[2];

    assert_int_equal(pipe(progress), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(progress[0]);
        victim(t, r | 1, progress[1]);
        _exit(1);
    }
    close(progress[1]);
    for (size_t left = r % STEPS_MAX; left;) {
        const ssize_t n = read(progress[0], bytes, left);
        assert_true(n > 0); /* it never ends by itself */
        left -= (size_t)n;
    }
    usleep((useconds_t)(r / STEPS_MAX % WITHIN_US));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(progress[0]);
}

/* One of several at work beside each other, in a process of its own with a cache of its own. */
static void lane(struct t_store *t, unsigned which, unsigned kills)
{
    snprintf(t->cache, sizeof t->cache, "%s/lane%u", t->root, which);
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    uint64_t seed = 88172645463325252u + which * 0x9e3779b97f4a7c15u;
    size_t present = 0;

    for (unsigned round = 1; round <= kills; round++) {
        kill_one(t, &seed);
        for (unsigned i = 0; i < NAMES; i++) {
            char name[16];
            snprintf(name, sizeof name, "v%u", i);
            present += t_get(s, name); /* compares every byte */
        }
        const struct quern_stats stats = t_stats(s);
        if (stats.miss_damaged || stats.miss_foreign || stats.miss_io)
            fail_msg("lane %u, after kill %u: %s", which, round, t->log);
        t_put(s, "v0");
        if (!t_get(s, "v0"))
            fail_msg("lane %u, after kill %u the store does not store: %s", which, round, t->log);
        if (round % 1000 == 0)
            print_message("lane %u: %u kills, %zu entries were there\n", which, round, present);
    }
    assert_true(present > 0);
    store_close(s);
}

static void kills_at_random_moments_leave_whole_entries(void **state)
{
    const uint64_t start = os_now();
    pid_t lanes[LANES];
    int status;

    fflush(NULL);
    for (unsigned i = 0; i < LANES; i++) {
        lanes[i] = fork();
        assert_true(lanes[i] >= 0);
        if (lanes[i] == 0) {
            lane(*state, i, KILLS / LANES);
            fflush(NULL);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < LANES; i++) {
        assert_int_equal(waitpid(lanes[i], &status, 0), lanes[i]);
        assert_int_equal(status, 0); /* what failed was printed by the lane */
    }
    print_message("%u kills, %.0f a second\n", KILLS / LANES * LANES,
                  KILLS / LANES * LANES / ((double)(os_now() - start) * 1e-9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(kills_at_random_moments_leave_whole_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
