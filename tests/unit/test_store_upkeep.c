/* SPDX-License-Identifier: MIT */
/* What keeps a store in order: eviction by last use, looking at every entry, clearing. */
#include "base/os.h"
#include "store/entry.h"
#include "store/internal.h"
#include "store/key.h"
#include "t_faults.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define DAY          (24 * 60 * 60)

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

#define MANY        6000
#define FILE_BYTES  4096
#define CALLS_MAX   25000 /* evicting all of these at once took several times that */
#define LONG_AGO(i) (1000000000 + (i) / SHARDS)

/* Files of the right names, sizes and times, and pointers to them; nothing reads their bytes. */
static void make_many(const struct t_store *t)
{
    char path[PATH_MAX], text[KEY_HEX + 1];

    for (unsigned i = 0; i < MANY; i++) {
        for (int pointer = 0; pointer < 2 && i < SHARDS; pointer++) {
            snprintf(path, sizeof path, "%s/v1/%s/%02x", t->cache, pointer ? "sources" : "objects",
                     i);
            mkdir(path, 0700);
        }
        snprintf(path, sizeof path, "%s/v1/objects/%02x/%030x.qk", t->cache, i % SHARDS, i);
        const int fd = open(path, O_WRONLY | O_CREAT, 0600);
        const struct timespec when = {.tv_sec = LONG_AGO(i)};
        assert_true(fd >= 0 && !ftruncate(fd, FILE_BYTES));
        assert_int_equal(futimens(fd, (const struct timespec[2]){when, when}), 0);
        close(fd);
        snprintf(text, sizeof text, "%02x%030x", i % SHARDS, i);
        snprintf(path, sizeof path, "%s/v1/sources/%02x/%030x", t->cache, i % SHARDS, i);
        assert_int_equal(symlink(text, path), 0);
    }
}

/* Nearly all of many entries have to go: no put does it alone, and together they do it. */
static void evicting_many_is_spread_over_puts(void **state)
{
    struct t_store *const t = *state;
    struct store *s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct store_usage usage;
    unsigned puts = 0, most = 0;
    char name[16], path[PATH_MAX];

    t_put(s, "first");
    store_close(s);
    make_many(t);
    snprintf(path, sizeof path, "%s/v1/written", t->cache);
    assert_int_equal(unlink(path), 0); /* nothing is known of the size, as after an upgrade */
    s = t_store_open(t, QUERN_CACHE_RW, (uint64_t)MANY / 10 * FILE_BYTES);
    do {
        snprintf(name, sizeof name, "n%u", puts++);
        t_faults_on(0, 0, false);
        t_put(s, name);
        const unsigned calls = t_faults.calls;
        t_faults_off();
        most = calls > most ? calls : most;
        assert_int_equal(store_usage(s, &usage), QUERN_OK);
    } while (usage.bytes > s->max_bytes && puts < 50);
    print_message("%u puts, at most %u calls in one; %u bytes of %u kept\n", puts, most,
                  (unsigned)usage.bytes, (unsigned)s->max_bytes);
    assert_true(puts > 2 && puts <= MANY / 1024 + 2);
    assert_true(most < CALLS_MAX);
    assert_true(usage.bytes > s->max_bytes / 2);
    /* of each shard the newest are left */
    for (unsigned i = 0; i + SHARDS < MANY; i++) {
        snprintf(path, sizeof path, "%s/v1/objects/%02x/%030x.qk", t->cache, i % SHARDS, i);
        const bool there = !access(path, F_OK);
        snprintf(path, sizeof path, "%s/v1/objects/%02x/%030x.qk", t->cache, i % SHARDS,
                 i + SHARDS);
        assert_true(!there || !access(path, F_OK));
    }
    assert_int_equal(t_count_files(t, "v1/sources", ""), usage.entries);
    /* the round is over, and the size is known: nothing is searched for a while */
    t_faults_on(0, 0, false);
    t_put(s, "last");
    most = t_faults.calls;
    t_faults_off();
    assert_true(most < 200);
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

/* Whoever puts a directory under a name of the store's does not break the cache for good. */
static void directories_under_our_names_are_removed(void **state)
{
    static const char *const kinds[] = {"objects", "sources"};
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    char path[PATH_MAX], inner[PATH_MAX + 16], shard[PATH_MAX];
    struct t_record r;
    struct store_want want = {.target = target_named("gfx1151")};
    struct store_entry e;
    const char *text;
    size_t bytes;
    uint64_t removed;

    t_record(&r, "a");
    assert_true(key_source(r.key_text, strlen(r.key_text), &want.source_key, &text, &bytes));
    want.source_text = text;
    want.source_text_bytes = bytes;
    for (int cleared = 0; cleared < 2; cleared++) {
        for (size_t i = 0; i < COUNT(kinds); i++) {
            char hex[33];
            hex_from_bytes(hex, i ? want.source_key.bytes : r.key.bytes, 16);
            snprintf(shard, sizeof shard, "%s/v1/%s", t->cache, kinds[i]);
            if (!cleared) {
                assert_true(i || (!mkdir(t->cache, 0700)));
                snprintf(path, sizeof path, "%s/v1", t->cache);
                assert_true(i || !mkdir(path, 0700));
                assert_int_equal(mkdir(shard, 0700), 0);
            }
            snprintf(path, sizeof path, "%.200s/%.2s", shard, hex);
            assert_true(!mkdir(path, 0700) || cleared);
            snprintf(path, sizeof path, "%.200s/%.2s/%s%s", shard, hex, hex + 2, i ? "" : ".qk");
            assert_int_equal(mkdir(path, 0700), 0);
            snprintf(inner, sizeof inner, "%s/full", path);
            assert_int_equal(mkdir(inner, 0700), 0);
        }
        if (cleared) {
            assert_int_equal(store_clear(s, &removed), QUERN_OK);
            assert_int_equal(removed, 1);
            assert_int_equal(access(path, F_OK), -1);
        } else {
            assert_false(t_get(s, "a")); /* into quarantine */
            t_put(s, "a");
            assert_true(t_get(s, "a"));
            assert_true(store_get_by_source(s, &want, &e));
            store_entry_free(&e);
            assert_int_equal(t_count_files(t, "v1/quarantine", ""), 0); /* a directory */
            assert_int_equal(store_clear(s, &removed), QUERN_OK);
            assert_int_equal(removed, 1);
            snprintf(path, sizeof path, "%s/v1/quarantine", t->cache);
            assert_int_equal(rmdir(path), 0);
        }
    }
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(oldest_use_is_evicted_first),
        T_STORE_TEST(puts_keep_to_the_limit),
        T_STORE_TEST(one_entry_over_the_limit_is_not_kept),
        T_STORE_TEST(one_evictor_at_a_time),
        T_STORE_TEST(a_lost_count_is_made_again),
        T_STORE_TEST(evicting_many_is_spread_over_puts),
        T_STORE_TEST(a_hit_is_noted_once_a_day),
        T_STORE_TEST(old_temporaries_go_and_young_ones_stay),
        T_STORE_TEST(walk_sees_every_entry),
        T_STORE_TEST(clear_removes_what_is_ours_only),
        T_STORE_TEST(directories_under_our_names_are_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
