/* SPDX-License-Identifier: MIT */
/* A cache of a million entries. */
#include "base/os.h"
#include "store/internal.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef ENTRIES
#define ENTRIES 1000000
#endif

/* Processor time of this process: time by the wall would be the machine's load. */
static double processor_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

#define ENTRY_BYTES 4096
#define LONG_AGO    1000000000

static void name_entry(const struct t_store *t, unsigned i, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/v1/objects/%02x/%030x.qk", t->cache, i % SHARDS, i);
}

/* In the order of last use entry i is at place rank(i): the multiplier is odd and no multiple of 5,
 * so that each has a place of its own. */
static unsigned rank(unsigned i)
{
    return (unsigned)((uint64_t)i * 7919 % ENTRIES);
}

/* Files of the right names, sizes and times; what is in them nothing reads. */
static void make_entries(const struct t_store *t)
{
    char path[PATH_MAX];

    for (unsigned i = 0; i < ENTRIES; i++) {
        if (i < SHARDS) {
            snprintf(path, sizeof path, "%s/v1/objects/%02x", t->cache, i);
            mkdir(path, 0700);
        }
        name_entry(t, i, path);
        const int fd = open(path, O_WRONLY | O_CREAT, 0600);
        const struct timespec used[2] = {{.tv_sec = LONG_AGO}, {.tv_sec = LONG_AGO + rank(i)}};
        assert_true(fd >= 0 && !ftruncate(fd, ENTRY_BYTES) && !futimens(fd, used));
        close(fd);
    }
}

/* Nothing lists them but an eviction, which takes the half of each shard that was used longest ago,
 * a shard at a time. */
static void a_million_entries_cost_nothing_to_open(void **state)
{
    struct t_store *const t = *state;
    struct store *s = t_store_open(t, QUERN_CACHE_RW, 0);
    unsigned left = 0, first_left[SHARDS], last_gone[SHARDS] = {0};
    char path[PATH_MAX];

    t_put(s, "a");
    store_close(s);
    make_entries(t);
    double start = processor_ms();
    s = t_store_open(t, QUERN_CACHE_RW, 0);
    const double opened = processor_ms() - start;
    start = processor_ms();
    assert_true(t_get(s, "a"));
    const double got = processor_ms() - start;
    start = processor_ms();
    t_put(s, "b");
    const double put = processor_ms() - start;
    print_message("%d entries: open %.3f ms, get %.3f ms, put %.3f ms\n", ENTRIES, opened, got,
                  put);
    assert_true(opened < 50 && got < 50 && put < 50);

    /* room for 4/7 of them: an eviction goes an eighth below that, to a half */
    s->max_bytes = (uint64_t)ENTRIES * ENTRY_BYTES / 7 * 4;
    start = processor_ms();
    for (unsigned i = 0; i < SHARDS; i++) {
        first_left[i] = ENTRIES;
        store_evict(s);
    }
    print_message("evicting %" PRIu64 " of them: %.1f s\n", t_stats(s).evicted,
                  (processor_ms() - start) * 1e-3);
    for (unsigned i = 0; i < ENTRIES; i++) {
        const unsigned place = rank(i);
        name_entry(t, i, path);
        if (!access(path, F_OK)) {
            left++;
            unsigned *const first = &first_left[i % SHARDS];
            *first = place < *first ? place : *first;
        } else {
            unsigned *const last = &last_gone[i % SHARDS];
            *last = place > *last ? place : *last;
        }
    }
    assert_int_equal(left + t_stats(s).evicted, ENTRIES);
    assert_true(left > ENTRIES / 2 - 2 * SHARDS && left <= ENTRIES / 2);
    for (unsigned i = 0; i < SHARDS; i++)
        assert_true(last_gone[i] < first_left[i]);
    assert_true(t_get(s, "a") && t_get(s, "b"));
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(a_million_entries_cost_nothing_to_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
