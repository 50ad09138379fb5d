/* SPDX-License-Identifier: MIT */
/* The store when nothing fails: round trips, every reason for a miss, modes. The entry's bytes are
 * in test_entry.c; the directory and the faults in tests/fault. */
#include "base/os.h"
#include "store/entry.h"
#include "store/internal.h"
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
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
    const struct quern_stats stats = t_stats(s);
    assert_int_equal(stats.hit_disk, 1);
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

/* Whether the disk takes what is flushed, and how many times it was flushed. */
static bool disk_full;
static int syncs;

static int counted_syncfs(int fd)
{
    syncs++;
    errno = disk_full ? ENOSPC : 0;
    return disk_full ? -1 : syncfs(fd);
}

static int counted_fsync(int fd)
{
    syncs += 1000;
    return fd < 0;
}

/* More entries at once than have their files open at once: flushed together, or none of them is
 * there. */
static void entries_put_together(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    static struct t_record records[50];
    struct store_put puts[50];
    char names[50][8];

    for (size_t i = 0; i < COUNT(puts); i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        t_record(&records[i], names[i]);
        puts[i] = (struct store_put){.key = records[i].key, .record = &records[i].record};
    }
    puts[7].key.bytes[0] ^= 1; /* not that of its text */
    t_put(s, names[9]);
    os.syncfs = counted_syncfs;
    os.fsync = counted_fsync;
    disk_full = true;
    store_put_all(s, puts, COUNT(puts));
    assert_int_equal(syncs, 2);
    for (size_t i = 0; i < COUNT(puts); i++) {
        assert_int_equal(puts[i].outcome, QUERN_STAT_PUT_FAILED);
        assert_int_equal(t_get(s, names[i]), i == 9);
    }
    disk_full = false;
    store_put_all(s, puts, COUNT(puts));
    os.syncfs = syncfs;
    os.fsync = fsync;
    assert_int_equal(syncs, 4);
    for (size_t i = 0; i < COUNT(puts); i++) {
        assert_int_equal(puts[i].outcome, i == 7   ? QUERN_STAT_PUT_FAILED
                                          : i == 9 ? QUERN_STAT_PUT_LOST
                                                   : QUERN_STAT_PUT_OK);
        assert_int_equal(t_get(s, names[i]), i != 7);
    }
    assert_int_equal(t_stats(s).put_ok, 49);
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

#define MISS(kind) offsetof(struct quern_stats, miss_##kind)

static uint64_t counted(struct store *s, size_t kind)
{
    const struct quern_stats stats = t_stats(s);

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
    assert_int_equal(e.miss, QUERN_REASON_ABSENT); /* quarantined by the first */
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

/* A file with a name outside its shard was put there by somebody; a writer that was killed between
 * its two names leaves one of its own beside it. */
static void an_entry_with_a_second_name_is_refused(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char path[PATH_MAX], other[PATH_MAX];

    t_put(s, "a");
    t_entry_path(t, "a", path);
    snprintf(other, sizeof other, "%s/elsewhere", t->root);
    assert_int_equal(link(path, other), 0);
    expect_recovery(t, s, "a", MISS(foreign));
    assert_non_null(strstr(t->log, "a hard link"));
    unlink(other);
    /* in the shard, but by a name that no writer gives */
    snprintf(other, sizeof other, "%.*s/other", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(link(path, other), 0);
    expect_recovery(t, s, "a", MISS(foreign));
    unlink(other);
    snprintf(other, sizeof other, "%.*s/" TEMPORARY_PREFIX "0", (int)(strrchr(path, '/') - path),
             path);
    assert_int_equal(link(path, other), 0);
    assert_true(t_get(s, "a"));
    /* and both at once */
    snprintf(other, sizeof other, "%s/elsewhere", t->root);
    assert_int_equal(link(path, other), 0);
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
    assert_int_equal(store_walk(s, true, t_count_item, &items), QUERN_OK);
    assert_int_equal(store_clear(s, &removed), QUERN_OK);
    assert_int_equal(usage.entries + usage.bytes + removed + (uint64_t)items, 0);
    assert_string_equal(store_directory(s), "");
    assert_int_equal(access(t->cache, F_OK), -1);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(what_was_put_is_got),
        T_STORE_TEST(modes_do_not_depend_on_the_umask),
        T_STORE_TEST(first_writer_wins),
        T_STORE_TEST(entries_put_together),
        T_STORE_TEST(garbage_is_not_published),
        T_STORE_TEST(swapped_entries_are_misses),
        T_STORE_TEST(an_object_for_another_target_is_a_miss),
        T_STORE_TEST(a_bad_object_of_right_digest_is_a_miss),
        T_STORE_TEST(damaged_files_are_misses),
        T_STORE_TEST(every_flip_and_truncation_of_a_file_is_a_miss),
        T_STORE_TEST(things_that_are_no_files_are_misses),
        T_STORE_TEST(an_entry_with_a_second_name_is_refused),
        T_STORE_TEST(quarantine_is_bounded),
        T_STORE_TEST(read_only_reads),
        T_STORE_TEST(off_does_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
