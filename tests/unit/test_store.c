/* SPDX-License-Identifier: MIT */
/* The store when nothing fails: round trips, every reason for a miss, eviction, walk, clear. The
 * entry's bytes are in test_entry.c; the directory and the faults in tests/fault. */
#include "base/os.h"
#include "store/entry.h"
#include "store/internal.h"
#include "t_clock.h"
#include "t_objects.h"
#include "t_store.h"

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
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define DAY          (24 * 60 * 60)

/* ---- get and put ----------------------------------------------------------------------------- */

static void what_was_put_is_got(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char path[PATH_MAX];
    struct stat st;

    assert_string_equal(store_directory(s), t->cache);
    assert_false(t_get(s, "a"));
    assert_int_equal(access(t->cache, F_OK), -1); /* not made by opening or looking */
    t_put(s, "a");
    assert_true(t_get(s, "a"));
    assert_false(t_get(s, "b"));
    const struct store_stats stats = t_stats(s);
    assert_int_equal(stats.hit, 1);
    assert_int_equal(stats.miss_absent, 2);
    assert_int_equal(stats.put_ok, 1);
    assert_int_equal(stats.miss_damaged + stats.miss_foreign + stats.miss_io + stats.put_failed +
                         stats.put_lost + stats.quarantined + stats.evicted,
                     0);
    t_entry_path(t, "a", path);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0600);
    assert_int_equal(st.st_nlink, 1);
    assert_int_equal(t_count_files(t, "v1/objects", ""), 1);
    assert_string_equal(t->log, "");
    store_close(s);
    /* another handle sees it too */
    struct store *const again = t_store_open(t, QUERN_CACHE_RW, 0);
    assert_true(t_get(again, "a"));
    store_close(again);
}

static void modes_do_not_depend_on_the_umask(void **state)
{
    struct t_store *const t = *state;
    static const mode_t masks[] = {0, 022, 077, 0777};

    for (size_t i = 0; i < COUNT(masks); i++) {
        static const char *const parts[] = {"", "/v1", "/v1/objects"};
        char path[PATH_MAX];
        struct stat st;
        struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
        const mode_t before = umask(masks[i]);
        struct t_record r;
        t_record(&r, "a");
        store_unlock(s, store_lock(s, &r.key, 0));
        t_put(s, "a");
        t_put(s, "b");
        const int lock = store_lock(s, &r.key, 0);
        umask(before);
        assert_true(lock >= 0);
        store_unlock(s, lock);
        assert_int_equal(t_stats(s).put_ok, 2);
        assert_true(t_get(s, "a"));
        for (size_t j = 0; j < COUNT(parts); j++) {
            snprintf(path, sizeof path, "%s%s", t->cache, parts[j]);
            assert_int_equal(stat(path, &st), 0);
            assert_int_equal(st.st_mode, S_IFDIR | 0700);
        }
        t_entry_path(t, "a", path);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0600);
        store_close(s);
        t_remove_tree(t->cache);
    }
}

static void first_writer_wins(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    struct t_record r;

    t_put(s, "a");
    t_record(&r, "a");
    r.record.log = "another log";
    store_put(s, &r.key, &r.record);
    assert_true(t_get(s, "a")); /* compares the log too */
    assert_int_equal(t_stats(s).put_ok, 1);
    assert_int_equal(t_stats(s).put_lost, 1);
    assert_int_equal(t_stats(s).put_failed, 0);
    store_close(s);
}

static void garbage_is_not_published(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct t_record r;

    t_record(&r, "a");
    r.record.object_bytes--; /* an object cut short */
    store_put(s, &r.key, &r.record);
    assert_non_null(strstr(t->log, "not stored"));
    t_record(&r, "a");
    r.key.bytes[5] ^= 1; /* a key that is not that of the text */
    store_put(s, &r.key, &r.record);
    t_record(&r, "a");
    char *const huge = malloc(ENTRY_BYTES_MAX + 1);
    memset(huge, 'x', ENTRY_BYTES_MAX);
    huge[ENTRY_BYTES_MAX] = 0;
    r.record.log = huge;
    store_put(s, &r.key, &r.record);
    free(huge);
    assert_int_equal(t_stats(s).put_failed, 3);
    assert_int_equal(t_stats(s).put_ok, 0);
    assert_int_equal(access(t->cache, F_OK), -1);
    store_close(s);
}

/* ---- reasons for a miss ---------------------------------------------------------------------- */

#define MISS(kind) offsetof(struct store_stats, miss_##kind)

static uint64_t counted(struct store *s, size_t kind)
{
    const struct store_stats stats = t_stats(s);

    return *(const uint64_t *)((const char *)&stats + kind);
}

/* A get must be a miss of that kind, get the file out of the way, and let the key be stored again.
 */
static void expect_recovery(struct t_store *t, struct store *s, const char *name, size_t kind)
{
    const uint64_t misses = counted(s, kind), moved = t_stats(s).quarantined;
    const size_t kept = t_count_files(t, "v1/quarantine", ".qk");
    char path[PATH_MAX];
    struct stat st;

    assert_false(t_get(s, name));
    assert_int_equal(counted(s, kind), misses + 1);
    assert_int_equal(t_stats(s).quarantined, moved + 1);
    t_entry_path(t, name, path);
    assert_int_equal(lstat(path, &st), -1);
    assert_true(kept == QUARANTINE_MAX || t_count_files(t, "v1/quarantine", ".qk") <= kept + 1);
    t_put(s, name);
    assert_true(t_get(s, name));
}

static void swapped_entries_are_misses(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char a[PATH_MAX], b[PATH_MAX], aside[PATH_MAX];

    t_put(s, "a");
    t_put(s, "b");
    t_entry_path(t, "a", a);
    t_entry_path(t, "b", b);
    snprintf(aside, sizeof aside, "%s/aside", t->root);
    assert_int_equal(rename(a, aside), 0);
    assert_int_equal(rename(b, a), 0);
    assert_int_equal(rename(aside, b), 0);
    expect_recovery(t, s, "a", MISS(foreign));
    expect_recovery(t, s, "b", MISS(foreign));
    assert_int_equal(t_count_files(t, "v1/quarantine", ".qk"), 2);
    assert_non_null(strstr(t->log, "another key"));
    store_close(s);
}

static void an_object_for_another_target_is_a_miss(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    struct t_record r;
    struct store_entry e;

    t_put(s, "a");
    t_record(&r, "a");
    assert_false(store_get(s, &r.key, r.key_text, strlen(r.key_text), target_named("gfx1201"), &e));
    assert_int_equal(t_stats(s).miss_foreign, 1);
    assert_false(store_get(s, &r.key, "other text", 10, target_named("gfx1151"), &e));
    assert_int_equal(t_stats(s).miss_absent, 1); /* quarantined by the first */
    store_close(s);
}

/* Overwrites bytes of an entry and puts a right digest behind them. */
static void forge(const char *path, size_t at, const void *bytes, size_t size)
{
    static uint8_t buffer[1 << 16];
    const size_t n = t_read_file(path, buffer, sizeof buffer);

    memcpy(buffer + at, bytes, size);
    const struct hash128 digest = hash128_of(buffer, n - 16);
    memcpy(buffer + n - 16, digest.bytes, 16);
    t_write_file(path, buffer, n);
}

static void a_bad_object_of_right_digest_is_a_miss(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char path[PATH_MAX];
    static uint8_t buffer[1 << 16];

    t_put(s, "a");
    t_entry_path(t, "a", path);
    const size_t n = t_read_file(path, buffer, sizeof buffer);
    const uint8_t *const elf = memmem(buffer, n, "\177ELF", 4);
    forge(path, (size_t)(elf - buffer) + 32, "\xff\xff\xff\xff", 4); /* program headers: nowhere */
    expect_recovery(t, s, "a", MISS(damaged));
    assert_non_null(strstr(t->log, "program headers"));
    store_close(s);
}

static void damaged_files_are_misses(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    static uint8_t whole[1 << 16];
    char path[PATH_MAX];

    t_put(s, "a");
    t_entry_path(t, "a", path);
    const size_t n = t_read_file(path, whole, sizeof whole - 64);
    static const size_t lengths[] = {0, 1, 63, 64, 100};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        t_write_file(path, whole, lengths[i]);
        expect_recovery(t, s, "a", MISS(damaged));
    }
    t_write_file(path, whole, n - 1);
    expect_recovery(t, s, "a", MISS(damaged));
    t_write_file(path, whole, n + 1);
    expect_recovery(t, s, "a", MISS(damaged));
    assert_int_equal(truncate(path, (off_t)1 << 40), 0); /* sparse: must not be allocated */
    expect_recovery(t, s, "a", MISS(damaged));
    store_close(s);
}

/* Through the file system; a read-only store, so that the file stays where it is. */
static void every_flip_and_truncation_of_a_file_is_a_miss(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    static uint8_t whole[1 << 16];
    char path[PATH_MAX];

    t_put(s, "a");
    t_entry_path(t, "a", path);
    const size_t n = t_read_file(path, whole, sizeof whole);
    struct store *const ro = t_store_open(t, QUERN_CACHE_RO, 0);
    ro->log = NULL;
    const int fd = open(path, O_WRONLY);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        const uint8_t flipped = whole[bit / 8] ^ (uint8_t)(1 << bit % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
        assert_false(t_get(ro, "a"));
        assert_int_equal(pwrite(fd, &whole[bit / 8], 1, (off_t)(bit / 8)), 1);
    }
    assert_true(t_get(ro, "a"));
    for (size_t size = n; size--;) {
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        assert_false(t_get(ro, "a"));
    }
    close(fd);
    assert_int_equal(t_stats(ro).miss_damaged, 9 * n);
    assert_int_equal(t_stats(ro).quarantined, 0);
    store_close(ro);
    store_close(s);
}

static void things_that_are_no_files_are_misses(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char path[PATH_MAX], other[PATH_MAX];

    t_put(s, "a");
    t_put(s, "b");
    t_entry_path(t, "a", path);
    t_entry_path(t, "b", other);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_recovery(t, s, "a", MISS(foreign));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* must not hang */
    expect_recovery(t, s, "a", MISS(foreign));
    unlink(path);
    assert_int_equal(symlink(other, path), 0);
    expect_recovery(t, s, "a", MISS(foreign));
    assert_int_equal(chmod(path, 0620), 0); /* others could have written it */
    expect_recovery(t, s, "a", MISS(foreign));
    store_close(s);
}

static void quarantine_is_bounded(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char path[PATH_MAX];

    t_put(s, "a");
    t_entry_path(t, "a", path);
    for (int i = 0; i < QUARANTINE_MAX + 10; i++) {
        t_write_file(path, "short", 5);
        expect_recovery(t, s, "a", MISS(damaged));
    }
    assert_int_equal(t_count_files(t, "v1/quarantine", ""), QUARANTINE_MAX);
    struct store_usage usage;
    assert_int_equal(store_usage(s, &usage), QUERN_OK);
    assert_int_equal(usage.quarantined, QUARANTINE_MAX);
    assert_int_equal(usage.entries, 1);
    store_close(s);
}

/* ---- modes ----------------------------------------------------------------------------------- */

static void read_only_reads(void **state)
{
    struct t_store *const t = *state;
    struct store *s = t_store_open(t, QUERN_CACHE_RO, 0); /* need not exist */
    char path[PATH_MAX];
    uint64_t removed;
    struct t_record r;

    assert_false(t_get(s, "a"));
    store_close(s);
    s = t_store_open(t, QUERN_CACHE_RW, 0);
    t_put(s, "a");
    t_put(s, "b");
    store_close(s);
    s = t_store_open(t, QUERN_CACHE_RO, 0);
    assert_true(t_get(s, "a"));
    t_put(s, "c");
    assert_false(t_get(s, "c"));
    t_entry_path(t, "b", path);
    t_write_file(path, "damage", 6);
    assert_false(t_get(s, "b"));
    assert_int_equal(t_stats(s).miss_damaged, 1);
    assert_int_equal(t_stats(s).quarantined, 0);
    assert_int_equal(access(path, F_OK), 0);
    t_record(&r, "a");
    assert_int_equal(store_lock(s, &r.key, 10), -1);
    store_unlock(s, -1);
    store_evict(s);
    assert_int_equal(store_clear(s, &removed), QUERN_E_CACHE);
    assert_true(t_get(s, "a"));
    assert_int_equal(t_count_files(t, "v1/objects", ""), 2);
    assert_int_equal(t_count_files(t, "v1/quarantine", ""), 0);
    store_close(s);
}

static int count_item(void *user, const struct store_item *item)
{
    (void)item;
    ++*(int *)user;
    return 0;
}

static void off_does_nothing(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_OFF, 0);
    struct store_usage usage;
    struct t_record r;
    uint64_t removed;
    int items = 0;

    t_put(s, "a");
    assert_false(t_get(s, "a"));
    t_record(&r, "a");
    assert_int_equal(store_lock(s, &r.key, 10), -1);
    store_evict(s);
    assert_int_equal(store_usage(s, &usage), QUERN_OK);
    assert_int_equal(store_walk(s, true, count_item, &items), QUERN_OK);
    assert_int_equal(store_clear(s, &removed), QUERN_OK);
    assert_int_equal(usage.entries + usage.bytes + removed + (uint64_t)items, 0);
    assert_string_equal(store_directory(s), "");
    assert_int_equal(access(t->cache, F_OK), -1);
    store_close(s);
}

/* ---- eviction -------------------------------------------------------------------------------- */

static void set_used(const struct t_store *t, const char *name, int64_t seconds_ago)
{
    const struct timespec when = {.tv_sec = time(NULL) - seconds_ago};
    char path[PATH_MAX];

    t_entry_path(t, name, path);
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[2]){when, when}, 0), 0);
}

static int64_t used(const struct t_store *t, const char *name)
{
    char path[PATH_MAX];
    struct stat st;

    t_entry_path(t, name, path);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mtime;
}

static uint64_t entry_size(struct store *s, const char *name)
{
    struct t_record r;
    void *bytes;
    size_t size;

    (void)s;
    t_record(&r, name);
    assert_int_equal(entry_encode(&r.record, &bytes, &size), QUERN_OK);
    os.free(bytes);
    return size;
}

static void oldest_use_is_evicted_first(void **state)
{
    static const char *const names[] = {"e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7"};
    static const int age[] = {5, 1, 7, 3, 8, 2, 6, 4}; /* days */
    struct t_store *const t = *state;
    struct store *s = t_store_open(t, QUERN_CACHE_RW, 0);
    const uint64_t size = entry_size(s, "e0");

    for (size_t i = 0; i < COUNT(names); i++) {
        t_put(s, names[i]);
        set_used(t, names[i], age[i] * DAY);
    }
    store_evict(s); /* below the limit: nothing to do */
    assert_int_equal(t_stats(s).evicted, 0);
    store_close(s);
    /* room for seven and a bit; an eighth less is six */
    s = t_store_open(t, QUERN_CACHE_RW, 7 * size + size / 2);
    store_evict(s);
    assert_int_equal(t_stats(s).evicted, 2);
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(t_get(s, names[i]), age[i] <= 6);
    store_close(s);
}

static void puts_keep_to_the_limit(void **state)
{
    struct t_store *const t = *state;
    struct store *const probe = t_store_open(t, QUERN_CACHE_RW, 0);
    const uint64_t size = entry_size(probe, "n00"), limit = 20 * size;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, limit);
    struct store_usage usage;
    char name[16];

    store_close(probe);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "n%02d", i);
        t_put(s, name);
        assert_true(t_get(s, name)); /* the newest stays */
        set_used(t, name, 100 * DAY - i * 1000);
        assert_int_equal(store_usage(s, &usage), QUERN_OK);
        assert_true(usage.bytes <= limit);
    }
    assert_int_equal(t_stats(s).put_ok, 100);
    assert_int_equal(t_stats(s).evicted, 100 - usage.entries);
    assert_true(usage.entries >= 8); /* and it is not emptied each time */
    assert_true(t_stats(s).evicted > 0);
    store_close(s);
}

static void one_entry_over_the_limit_is_not_kept(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 100);
    struct store_usage usage;

    t_put(s, "a");
    assert_int_equal(t_stats(s).put_ok, 1);
    assert_int_equal(t_stats(s).evicted, 1);
    assert_int_equal(store_usage(s, &usage), QUERN_OK);
    assert_int_equal(usage.bytes, 0);
    store_close(s);
}

static void one_evictor_at_a_time(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char path[PATH_MAX];

    t_put(s, "a");
    s->max_bytes = 100;
    snprintf(path, sizeof path, "%s/v1/locks/evict", t->cache);
    const int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    store_evict(s); /* another process is at it: returns at once */
    assert_int_equal(t_stats(s).evicted, 0);
    close(fd);
    store_evict(s);
    assert_int_equal(t_stats(s).evicted, 1);
    store_close(s);
}

/* The count of bytes is only a hint: a new store sees what is there when it is lost. */
static void a_lost_count_is_made_again(void **state)
{
    struct t_store *const t = *state;
    struct store *s = t_store_open(t, QUERN_CACHE_RW, 0);
    const uint64_t size = entry_size(s, "n0");
    char name[16], path[PATH_MAX];
    struct store_usage usage;

    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "n%d", i);
        t_put(s, name);
    }
    store_close(s);
    snprintf(path, sizeof path, "%s/v1/written", t->cache);
    assert_int_equal(unlink(path), 0);
    s = t_store_open(t, QUERN_CACHE_RW, 5 * size);
    t_put(s, "new");
    assert_int_equal(store_usage(s, &usage), QUERN_OK);
    assert_true(usage.bytes <= 5 * size);
    store_close(s);
}

static void a_hit_is_noted_once_a_day(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    const int64_t now = time(NULL);

    t_put(s, "a");
    set_used(t, "a", DAY / 2);
    assert_true(t_get(s, "a"));
    assert_true(used(t, "a") < now - DAY / 4);
    set_used(t, "a", 2 * DAY);
    assert_true(t_get(s, "a"));
    assert_true(used(t, "a") >= now);
    set_used(t, "a", -100 * DAY); /* a clock that was wrong once must not keep it for ever */
    assert_true(t_get(s, "a"));
    assert_true(used(t, "a") < now + DAY);
    struct store *const ro = t_store_open(t, QUERN_CACHE_RO, 0);
    set_used(t, "a", 2 * DAY);
    assert_true(t_get(ro, "a"));
    assert_true(used(t, "a") < now - DAY);
    store_close(ro);
    store_close(s);
}

static void old_temporaries_go_and_young_ones_stay(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char entry[PATH_MAX], young[PATH_MAX], old[PATH_MAX], strange[PATH_MAX];
    const struct timespec when = {.tv_sec = time(NULL) - 2 * 60 * 60};

    t_put(s, "a");
    t_entry_path(t, "a", entry);
    *strrchr(entry, '/') = 0;
    snprintf(young, sizeof young, "%.200s/" TEMPORARY_PREFIX "young", entry);
    snprintf(old, sizeof old, "%.200s/" TEMPORARY_PREFIX "old", entry);
    snprintf(strange, sizeof strange, "%.200s/.nfs000000000000", entry);
    t_write_file(young, "", 0);
    t_write_file(old, "", 0);
    t_write_file(strange, "", 0);
    assert_int_equal(utimensat(AT_FDCWD, old, (const struct timespec[2]){when, when}, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, strange, (const struct timespec[2]){when, when}, 0), 0);
    store_evict(s);
    assert_int_equal(access(old, F_OK), -1);
    assert_int_equal(access(young, F_OK), 0);
    assert_int_equal(access(strange, F_OK), 0);
    assert_true(t_get(s, "a"));
    store_close(s);
}

/* ---- walk, usage, clear ---------------------------------------------------------------------- */

struct seen {
    size_t count, bad;
    uint64_t bytes;
    char last[33];
    char reasons[1024];
    int stop_after;
};

static int see(void *user, const struct store_item *item)
{
    struct seen *const v = user;

    assert_int_equal(strlen(item->key), 32);
    assert_true(strcmp(item->key, v->last) > 0); /* in order */
    strcpy(v->last, item->key);
    v->count++;
    v->bytes += item->bytes;
    assert_true(item->used > time(NULL) - DAY);
    if (item->status == QUERN_OK) {
        const struct hash128 hash = hash128_of(item->key_text, strlen(item->key_text));
        char hex[33];
        hex_from_bytes(hex, hash.bytes, sizeof hash.bytes);
        assert_string_equal(hex, item->key);
    } else {
        v->bad++;
        assert_int_equal(item->status, QUERN_E_OBJECT);
        strcat(strcat(v->reasons, quern_last_error()->message), "\n");
    }
    return v->stop_after && (int)v->count >= v->stop_after;
}

static void walk_sees_every_entry(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct seen v = {0};
    struct store_usage usage;
    char name[16], path[PATH_MAX], other[PATH_MAX];
    static uint8_t bytes[1 << 16];

    assert_int_equal(store_walk(s, true, see, &v), QUERN_OK); /* of nothing */
    assert_int_equal(v.count, 0);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "n%d", i);
        t_put(s, name);
    }
    for (int verify = 0; verify < 2; verify++) {
        v = (struct seen){0};
        assert_int_equal(store_walk(s, verify, see, &v), QUERN_OK);
        assert_int_equal(v.count, 40);
        assert_int_equal(v.bad, 0);
        assert_int_equal(store_usage(s, &usage), QUERN_OK);
        assert_int_equal(usage.entries, 40);
        assert_int_equal(usage.bytes, v.bytes);
        assert_int_equal(usage.quarantined, 0);
    }
    v = (struct seen){.stop_after = 7};
    assert_int_equal(store_walk(s, false, see, &v), QUERN_E_CANCELLED);
    assert_int_equal(v.count, 7);

    /* one flipped bit in the middle, one cut short, one under another's name */
    t_entry_path(t, "n1", path);
    const size_t n = t_read_file(path, bytes, sizeof bytes);
    bytes[n / 2] ^= 4;
    t_write_file(path, bytes, n);
    t_entry_path(t, "n2", path);
    assert_int_equal(truncate(path, (off_t)n / 2), 0);
    t_entry_path(t, "n3", path);
    t_entry_path(t, "n4", other);
    assert_int_equal(rename(path, other), 0);
    v = (struct seen){0};
    assert_int_equal(store_walk(s, true, see, &v), QUERN_OK);
    assert_int_equal(v.count, 39);
    assert_int_equal(v.bad, 3);
    assert_non_null(strstr(v.reasons, "digest"));
    assert_non_null(strstr(v.reasons, "its header says"));
    assert_non_null(strstr(v.reasons, "that of key"));
    assert_int_equal(t_stats(s).quarantined, 3);
    v = (struct seen){0};
    assert_int_equal(store_walk(s, true, see, &v), QUERN_OK);
    assert_int_equal(v.count, 36);
    assert_int_equal(v.bad, 0);
    store_close(s);
}

static void clear_removes_what_is_ours_only(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char path[PATH_MAX], newer[PATH_MAX], temporary[PATH_MAX];
    uint64_t removed;

    assert_int_equal(store_clear(s, &removed), QUERN_OK); /* nothing there yet */
    assert_int_equal(removed, 0);
    for (int i = 0; i < 5; i++)
        t_put(s, (const char *[]){"a", "b", "c", "d", "e"}[i]);
    t_entry_path(t, "a", path);
    t_write_file(path, "damage", 6);
    assert_false(t_get(s, "a"));
    t_entry_path(t, "b", temporary);
    strcpy(strrchr(temporary, '/') + 1, TEMPORARY_PREFIX "left");
    t_write_file(temporary, "", 0);
    /* another version's data, and a stranger's file */
    snprintf(newer, sizeof newer, "%s/v2", t->cache);
    assert_int_equal(mkdir(newer, 0700), 0);
    strcat(newer, "/00112233445566778899aabbccddeeff.qk");
    t_write_file(newer, "of version 2", 12);
    t_entry_path(t, "b", path);
    strcpy(strrchr(path, '/') + 1, "notes.txt");
    t_write_file(path, "mine", 4);
    assert_int_equal(store_clear(s, &removed), QUERN_OK);
    assert_int_equal(removed, 4);
    assert_int_equal(t_count_files(t, "v1/objects", ""), 1);
    assert_int_equal(t_count_files(t, "v1/quarantine", ""), 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(access(newer, F_OK), 0);
    assert_false(t_get(s, "b"));
    t_put(s, "b");
    assert_true(t_get(s, "b"));
    store_close(s);
}

/* ---- locks ----------------------------------------------------------------------------------- */

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
    const struct store_stats stats = t_stats(s);
    assert_int_equal(stats.put_ok, KEYS);
    assert_int_equal(stats.hit + stats.miss_absent, THREADS * KEYS * ROUNDS);
    assert_int_equal(stats.put_ok + stats.put_lost, stats.miss_absent);
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
        struct store_stats stats;
        store_stats(s, &stats);
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
    assert_int_equal(store_walk(s, true, count_item, &items), QUERN_OK);
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
        T_STORE_TEST(what_was_put_is_got),
        T_STORE_TEST(modes_do_not_depend_on_the_umask),
        T_STORE_TEST(first_writer_wins),
        T_STORE_TEST(garbage_is_not_published),
        T_STORE_TEST(swapped_entries_are_misses),
        T_STORE_TEST(an_object_for_another_target_is_a_miss),
        T_STORE_TEST(a_bad_object_of_right_digest_is_a_miss),
        T_STORE_TEST(damaged_files_are_misses),
        T_STORE_TEST(every_flip_and_truncation_of_a_file_is_a_miss),
        T_STORE_TEST(things_that_are_no_files_are_misses),
        T_STORE_TEST(quarantine_is_bounded),
        T_STORE_TEST(read_only_reads),
        T_STORE_TEST(off_does_nothing),
        T_STORE_TEST(oldest_use_is_evicted_first),
        T_STORE_TEST(puts_keep_to_the_limit),
        T_STORE_TEST(one_entry_over_the_limit_is_not_kept),
        T_STORE_TEST(one_evictor_at_a_time),
        T_STORE_TEST(a_lost_count_is_made_again),
        T_STORE_TEST(a_hit_is_noted_once_a_day),
        T_STORE_TEST(old_temporaries_go_and_young_ones_stay),
        T_STORE_TEST(walk_sees_every_entry),
        T_STORE_TEST(clear_removes_what_is_ours_only),
        T_STORE_TEST(locks_exclude_until_the_deadline),
        T_STORE_TEST(a_forked_child_does_not_keep_a_lock),
        T_STORE_TEST(threads_share_a_store),
        T_STORE_TEST(standard_descriptors_are_not_used),
        T_STORE_TEST(no_descriptor_is_kept_or_inherited),
        T_STORE_TEST(the_directory_may_vanish_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
