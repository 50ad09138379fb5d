/* SPDX-License-Identifier: MIT */
/*
 * SIGKILL at every system call of what changes a cache: put, evict, import, clear, raising a serial
 * and quarantine; and of reading it all for a bundle. Whatever the moment, every key is then a miss
 * or exact bytes, nothing is held, and the store does its work.
 */
#include "base/os.h"
#include "store/internal.h"
#include "store/bundle.h"
#include "t_store.h"
#include "t_trace.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define STRIDE 16 /* it is the released code that is meant */
#else
#define STRIDE 1
#endif

enum { NAMES = 6 };
static const char *const names[NAMES] = {"a", "b", "c", "d", "e", "f"};
#define SIGNER "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SERIAL 7

/* What the interrupted child works on: the store is opened before it is forked, and survives that.
 */
struct scene {
    struct t_store *t;
    struct store *s;
};

/* ---- what is interrupted --------------------------------------------------------------------- */

static void put(void *user)
{
    t_put(((struct scene *)user)->s, "new");
}

static int openat_named(int d, const char *p, int f, mode_t m)
{
    if ((f & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return openat(d, p, f, m);
}
/* Where files without a name are not supported. */
static void put_named(void *user)
{
    os.openat = openat_named;
    put(user);
}

static void first_put(void *user)
{
    struct scene *const c = user;

    t_remove_tree(c->t->cache);
    put(c);
}

static void evict(void *user)
{
    struct scene *const c = user;

    c->s->max_bytes = 6000; /* room for one */
    store_evict(c->s);
}

static void clear(void *user)
{
    uint64_t removed;

    store_clear(((struct scene *)user)->s, &removed);
}

static void quarantine(void *user)
{
    struct scene *const c = user;
    char path[PATH_MAX];

    t_entry_path(c->t, "a", path);
    const int fd = open(path, O_WRONLY);
    if (fd >= 0 && pwrite(fd, "damage", 6, 100) == 6)
        close(fd);
    t_get(c->s, "a");
}

static void raise_serial(void *user)
{
    store_raise_serial(((struct scene *)user)->s, SIGNER, SERIAL + 1);
}

static void *bundle;
static size_t bundle_bytes;
static void import(void *user)
{
    struct scene *const c = user;
    struct bundle *p;
    struct bundle_info info;

    T_MUST(bundle_open_memory(bundle, bundle_bytes, &p) == QUERN_OK);
    bundle_info(p, &info);
    for (uint64_t i = 0; i < info.entries; i++) {
        struct store_entry e;
        struct hash128 key;
        T_MUST(bundle_entry(p, i, &key, &e) == QUERN_OK);
        store_put(c->s, &key, &e.record);
    }
}

static int read_one(void *user, const struct store_item *item, struct store_entry *entry)
{
    (void)user;
    (void)item;
    (void)entry;
    return 0;
}
static void export_all(void *user)
{
    store_read_all(((struct scene *)user)->s, read_one, NULL);
}

/* ---- and what must hold then ----------------------------------------------------------------- */

static void prepare(struct t_store *t, struct store *s)
{
    char path[PATH_MAX];

    t_entry_path(t, "new", path);
    unlink(path);
    t_entry_path(t, "imported", path);
    unlink(path);
    for (int i = 0; i < NAMES; i++)
        if (!t_get(s, names[i]))
            t_put(s, names[i]);
    store_raise_serial(s, SIGNER, SERIAL);
}

static void check(struct t_store *t, const char *what, unsigned at, bool may_quarantine)
{
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct t_record r;
    uint64_t serial;

    t->log[0] = 0;
    for (int i = 0; i < NAMES; i++)
        t_get(s, names[i]); /* compares every byte of a hit */
    t_get(s, "new");
    t_get(s, "imported");
    struct quern_stats stats;
    stats = t_stats(s);
    if (stats.miss_damaged > may_quarantine || stats.miss_foreign || stats.miss_io)
        fail_msg("%s, killed at call %u: %s", what, at, t->log);
    t_put(s, "new");
    if (!t_get(s, "new"))
        fail_msg("%s, killed at call %u: the store does not store: %s", what, at, t->log);
    t_record(&r, "a");
    const int lock = store_lock(s, &r.key, 0);
    if (lock < 0)
        fail_msg("%s, killed at call %u: a lock is held", what, at);
    store_unlock(s, lock);
    if (store_serial(s, SIGNER, &serial) != QUERN_OK ||
        (serial != SERIAL && serial != SERIAL + 1 && strcmp(what, "first put")))
        fail_msg("%s, killed at call %u: the serial is lost", what, at);
    store_close(s);
}

static void kills_at_every_system_call_leave_whole_entries(void **state)
{
    static const struct {
        const char *name;
        void (*body)(void *);
    } operations[] = {
        {"put", put},
        {"put named", put_named},
        {"first put", first_put},
        {"evict", evict},
        {"clear", clear},
        {"quarantine", quarantine},
        {"import", import},
        {"raise serial", raise_serial},
        {"read all", export_all},
    };
    struct t_store *const t = *state;
    struct scene c = {t, t_store_open(t, QUERN_CACHE_RW, 0)};
    struct t_record r;
    unsigned kills = 0;

    t_record(&r, "imported");
    const struct bundle_content content = {&r.record, 1, "", 1};
    assert_int_equal(bundle_write(&content, &bundle, &bundle_bytes), QUERN_OK);
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
        bool more = true;
        for (unsigned at = 1; more; at += STRIDE) {
            prepare(t, c.s);
            const struct t_traced run = t_trace(
                &(struct t_trace){.body = operations[o].body, .user = &c, .at = at, .kill = true});
            more = run.reached;
            kills += more;
            if (!more && (!WIFEXITED(run.status) || WEXITSTATUS(run.status)))
                fail_msg("%s fails when it is left alone: status %d", operations[o].name,
                         run.status);
            check(t, operations[o].name, at, !strcmp(operations[o].name, "quarantine"));
        }
    }
    free(bundle);
    store_close(c.s);
    print_message("%u kills\n", kills);
    assert_true(kills > 9 * 15 / STRIDE);
}

/* What a killed writer leaves is taken away once it is old. */
static int age(const char *directory, const char *part)
{
    char path[NAME_MAX + 200];
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};

    snprintf(path, sizeof path, "%s/%s", directory, part);
    return utimensat(AT_FDCWD, path, old, 0);
}

static struct t_store *of_find;
static int find_temporary(void *user, int directory, const char *name)
{
    (void)directory;
    if (is_temporary_name(name))
        snprintf(user, NAME_MAX + 1, "%s", name);
    return 0;
}
static int find_in_shard(void *user, int fd, const char *shard)
{
    char name[NAME_MAX + 1] = "", directory[160];

    (void)user;
    store_each_name(fd, find_temporary, name);
    snprintf(directory, sizeof directory, "%s/v1/objects/%s", of_find->cache, shard);
    if (name[0])
        assert_int_equal(age(directory, name), 0);
    return 0;
}

static void what_a_killed_writer_leaves_is_reaped(void **state)
{
    struct t_store *const t = *state;
    struct scene c = {t, t_store_open(t, QUERN_CACHE_RW, 0)};
    size_t left = 0;

    for (unsigned at = 1;; at++) {
        prepare(t, c.s);
        const struct t_traced run =
            t_trace(&(struct t_trace){.body = put_named, .user = &c, .at = at, .kill = true});
        if (!run.reached)
            break;
    }
    left = t_count_files(t, "v1/objects", TEMPORARY_PREFIX);
    assert_true(left > 0);
    /* one in each shard is made old at a time */
    of_find = t;
    for (size_t i = 0; i < left; i++) {
        store_each_shard(c.s, "objects", find_in_shard, NULL);
        store_evict(c.s);
    }
    assert_int_equal(t_count_files(t, "v1/objects", TEMPORARY_PREFIX), 0);
    assert_true(t_get(c.s, "a"));
    store_close(c.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(kills_at_every_system_call_leave_whole_entries),
        T_STORE_TEST(what_a_killed_writer_leaves_is_reaped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
