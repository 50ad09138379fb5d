/* SPDX-License-Identifier: MIT */
/* What the tests of the store share: a directory that goes away, records, files of entries. */
#ifndef T_STORE_H
#define T_STORE_H

#include "store/store.h"

#include <quern/tool.h>

#include <limits.h>

struct t_store {
    char root[64];  /* a new directory of the test's own, mode 0700 */
    char cache[80]; /* root + "/cache": does not exist yet */
    char log[4096]; /* every line logged, one after another */
    struct log sink;
};

/* Set-up and teardown for cmocka; the state is a struct t_store. */
int t_store_setup(void **state);
int t_store_teardown(void **state);
#define T_STORE_TEST(f) cmocka_unit_test_setup_teardown(f, t_store_setup, t_store_teardown)

/* Opens t->cache; fails the test when that is refused. */
struct store *t_store_open(struct t_store *t, enum quern_cache_mode mode, uint64_t max_bytes);

/* As store_open does. */
quern_status t_store_try(struct t_store *t, const char *directory, enum quern_cache_mode mode,
                         struct store **s);

/* The longest that a waiter for a lock sleeps at a time. */
#define T_LOCK_SLEEP_MS 16

/* A check in a forked child, where cmocka's would unwind into the parent's test. */
#define T_MUST(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition,            \
                    quern_last_error()->message);                                                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* A key and a record for it, made of a golden object of gfx1151; all of it static or in *r. */
struct t_record {
    char key_text[256];
    char source[96];
    struct hash128 key;
    struct store_record record;
};
void t_record(struct t_record *r, const char *name);

void t_put(struct store *s, const char *name);
/* Gets the record of that name for gfx1151; true if it is there, and then it must be right. */
bool t_get(struct store *s, const char *name);

/* The path of an entry's file. */
void t_entry_path(const struct t_store *t, const char *name, char path[PATH_MAX]);

/* Files below a directory of the cache ("v1/objects"), and how many of them have `part` in their
 * names. */
size_t t_count_files(const struct t_store *t, const char *below, const char *part);

/* For store_walk: counts items in an int. */
int t_count_item(void *user, const struct store_item *item);

struct quern_stats t_stats(struct store *s);

/* Open descriptors of this process. */
int t_open_descriptors(void);

void t_remove_tree(const char *path);
void t_write_file(const char *path, const void *bytes, size_t size);
size_t t_read_file(const char *path, void *bytes, size_t room);

#endif
