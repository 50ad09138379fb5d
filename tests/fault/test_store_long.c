/* SPDX-License-Identifier: MIT */
/* What takes long: a hundred thousand kills at random moments, and a cache of a million entries. */
#include "base/os.h"
#include "store/internal.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef KILLS
#define KILLS 100000
#endif
#ifndef ENTRIES
#define ENTRIES 1000000
#endif

enum { NAMES = 16 };

static int setup(void **state)
{
    struct t_store *const t = malloc(sizeof *t);

    t_store_setup(t);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    t_store_teardown(*state);
    free(*state);
    return 0;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Puts, gets, evicts and clears until it is killed. */
static void victim(struct t_store *t, uint64_t seed)
{
    struct store *s;
    char name[16];
    uint64_t removed;

    T_MUST(t_store_try(t, t->cache, QUERN_CACHE_RW, &s) == QUERN_OK);
    s->max_bytes = 40000;
    for (;;) {
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

static void kills_at_random_moments_leave_whole_entries(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    uint64_t seed = 88172645463325252u;
    size_t present = 0;

    for (unsigned round = 0; round < KILLS; round++) {
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            victim(t, seed | 1);
        usleep((useconds_t)(next_random(&seed) % 2000));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        for (unsigned i = 0; i < NAMES; i++) {
            char name[16];
            snprintf(name, sizeof name, "v%u", i);
            present += t_get(s, name); /* compares every byte */
        }
        const struct store_stats stats = t_stats(s);
        if (stats.miss_damaged || stats.miss_foreign || stats.miss_io)
            fail_msg("after kill %u: %s", round, t->log);
    }
    assert_true(present > KILLS / 10);
    t_put(s, "v0");
    assert_true(t_get(s, "v0"));
    store_close(s);
}

static double milliseconds_since(uint64_t start)
{
    return (double)(os_now() - start) * 1e-6;
}

/* The names alone matter: nothing reads a million files, and nothing lists them but an eviction. */
static void a_million_entries_cost_nothing_to_open(void **state)
{
    struct t_store *const t = *state;
    struct store *s = t_store_open(t, QUERN_CACHE_RW, 0);
    char path[PATH_MAX];

    t_put(s, "a");
    store_close(s);
    for (unsigned i = 0; i < ENTRIES; i++) {
        if (i < SHARDS) {
            snprintf(path, sizeof path, "%s/v1/objects/%02x", t->cache, i);
            mkdir(path, 0700);
        }
        snprintf(path, sizeof path, "%s/v1/objects/%02x/%030x.qk", t->cache, i % SHARDS, i);
        const int fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    uint64_t start = os_now();
    s = t_store_open(t, QUERN_CACHE_RW, 0);
    const double opened = milliseconds_since(start);
    start = os_now();
    assert_true(t_get(s, "a"));
    const double got = milliseconds_since(start);
    start = os_now();
    t_put(s, "b");
    const double put = milliseconds_since(start);
    print_message("%d entries: open %.3f ms, get %.3f ms, put %.3f ms\n", ENTRIES, opened, got,
                  put);
    assert_true(opened < 50 && got < 50 && put < 50);
    store_close(s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(kills_at_random_moments_leave_whole_entries),
        TEST(a_million_entries_cost_nothing_to_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
