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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef ENTRIES
#define ENTRIES 1000000
#endif

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
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(a_million_entries_cost_nothing_to_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
