/* SPDX-License-Identifier: MIT */
/*
 * The store when calls fail: every operating system call of every operation, in turn, with every
 * error, once and for ever. A fault may cost a miss or an entry, never more.
 *
 * This file is long because each operation of the store has its own scenario of failing calls.
 */
#include "base/os.h"
#include "store/internal.h"
#include "store/key.h"
#include "store/bundle.h"
#include "t_faults.h"
#include "t_explore.h"
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
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The operations. Each starts from the state that prepare() makes: "sound" and "old" are entries,
 * "new" is not there, "bad" is damaged. */
struct scene {
    struct t_store *t;
    struct store *s;
};

static void prepare(struct scene *c)
{
    static const char *const names[] = {"sound", "old", "bad"};
    char path[PATH_MAX];

    for (size_t i = 0; i < COUNT(names); i++) {
        t_entry_path(c->t, names[i], path);
        if (access(path, F_OK))
            t_put(c->s, names[i]);
    }
    t_write_file(path, "damage", 6);
    t_entry_path(c->t, "new", path);
    unlink(path);
    t_entry_path(c->t, "old", path);
    const struct timespec when = {.tv_sec = 1000000};
    utimensat(AT_FDCWD, path, (const struct timespec[2]){when, when}, 0);
    c->t->log[0] = 0;
}

static int ignore(void *user, const struct store_item *item)
{
    (void)user;
    (void)item;
    return 0;
}

static void do_open(struct scene *c)
{
    const struct store_config config = {
        .directory = c->t->cache, .mode = QUERN_CACHE_RW, .log = &c->t->sink};
    struct store *s;

    if (store_open(&config, &s) == QUERN_OK)
        store_close(s);
}
static void do_put(struct scene *c)
{
    t_put(c->s, "new");
}
static void do_put_lost(struct scene *c)
{
    t_put(c->s, "sound");
}
static void do_get(struct scene *c)
{
    t_get(c->s, "sound");
}
static void do_get_old(struct scene *c)
{
    t_get(c->s, "old");
}
static void do_get_bad(struct scene *c)
{
    t_get(c->s, "bad");
}
static void do_get_absent(struct scene *c)
{
    t_get(c->s, "new");
}
static void do_evict(struct scene *c)
{
    c->s->max_bytes = 6000; /* room for one: the old ones go */
    store_evict(c->s);
    c->s->max_bytes = 1 << 30;
}
static void do_walk(struct scene *c)
{
    store_walk(c->s, false, ignore, NULL);
}
static void do_verify(struct scene *c)
{
    store_walk(c->s, true, ignore, NULL);
}
static void do_usage(struct scene *c)
{
    struct store_usage usage;

    store_usage(c->s, &usage);
}
static void do_clear(struct scene *c)
{
    uint64_t removed;

    store_clear(c->s, &removed);
}
static void do_lock(struct scene *c)
{
    struct t_record r;

    t_record(&r, "sound");
    const int held = store_lock(c->s, &r.key, 0), other = store_lock(c->s, &r.key, 3);
    store_unlock(c->s, other);
    store_unlock(c->s, held);
}
/* As do_put, where files without a name are not supported. */
static int openat_named(int d, const char *p, int f, mode_t m)
{
    if ((f & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return t_faults_openat(d, p, f, m);
}
static void do_put_named(struct scene *c)
{
    os.openat = openat_named;
    t_put(c->s, "new");
}
static void do_first_put(struct scene *c)
{
    const struct os wrapped = os;

    os = t_faults.real;
    t_remove_tree(c->t->cache);
    os = wrapped;
    t_put(c->s, "new");
}

/* "sound" by its source key, as another toolchain's user would look for it. */
static void do_get_by_source(struct scene *c)
{
    struct t_record r;
    struct store_entry e;
    struct store_want want = {.target = target_named("gfx1151")};

    t_record(&r, "sound");
    if (!key_source(r.key_text, strlen(r.key_text), &want.source_key, &want.source_text,
                    &want.source_text_bytes))
        fail_msg("a record without a source key");
    if (store_get_by_source(c->s, &want, &e))
        assert_memory_equal(e.record.object, r.record.object, r.record.object_bytes);
    store_entry_free(&e);
}

#define SIGNER "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
/* A failure may keep the old serial, never lose it. */
static void do_raise_serial(struct scene *c)
{
    static uint64_t last;
    const struct os wrapped = os;
    uint64_t serial;

    if (store_raise_serial(c->s, SIGNER, last + 1) == QUERN_OK)
        last++;
    os = t_faults.real;
    if (store_serial(c->s, SIGNER, &serial) == QUERN_OK && serial == last + 1)
        last++; /* kept, though the call's end failed */
    else if (access(c->t->cache, F_OK) == 0)
        assert_true(serial == last);
    os = wrapped;
    store_serial(c->s, SIGNER, &serial);
}

static int count_read(void *user, const struct store_item *item, struct store_entry *entry)
{
    (void)user;
    assert_true((item->status == QUERN_OK) == (entry->buffer != NULL));
    return 0;
}
static void do_read_all(struct scene *c)
{
    store_read_all(c->s, count_read, NULL);
}

static void do_bundle(struct scene *c)
{
    static const char manifest[] = "# quern base kernels, version 1.2.3\n";
    struct t_record r, other;
    struct store_entry e;
    struct bundle *p;
    char path[PATH_MAX];
    void *bytes;
    size_t size;

    /* two, which share a dictionary, and a manifest that gets proofs */
    t_record(&r, "sound");
    t_record(&other, "other");
    const struct store_record records[] = {r.record, other.record};
    if (bundle_write(&(struct bundle_content){records, 2, manifest, 1}, &bytes, &size) != QUERN_OK)
        return;
    const struct os wrapped = os;
    snprintf(path, sizeof path, "%s/bundle", c->t->root);
    os = t_faults.real;
    t_write_file(path, bytes, size);
    os = wrapped;
    os.free(bytes);
    if (bundle_open(path, &p) != QUERN_OK)
        return;
    const struct store_want want = {.key = r.key,
                                    .key_text = r.key_text,
                                    .key_text_bytes = strlen(r.key_text),
                                    .target = target_named("gfx1151")};
    if (bundle_get(p, &want, false, &e) == QUERN_OK)
        assert_non_null(e.buffer);
    store_entry_free(&e);
    bundle_close(p);
}

static const struct operation {
    const char *name;
    void (*run)(struct scene *);
    bool removes; /* sound entries, by intent */
} operations[] = {
    {"open", do_open},
    {"put", do_put},
    {"put lost", do_put_lost},
    {"put named", do_put_named},
    {"first put", do_first_put, true},
    {"get", do_get},
    {"get old", do_get_old},
    {"get bad", do_get_bad},
    {"get absent", do_get_absent},
    {"evict", do_evict, true},
    {"walk", do_walk},
    {"verify", do_verify},
    {"usage", do_usage},
    {"clear", do_clear, true},
    {"lock", do_lock},
    {"get by source", do_get_by_source},
    {"raise serial", do_raise_serial},
    {"read all", do_read_all},
    {"bundle", do_bundle},
};

/* A leaked descriptor takes the place of the lowest free one. */
static int lowest_free_descriptor(void)
{
    const int fd = open("/dev/null", O_RDONLY);

    close(fd);
    return fd;
}

/* After a fault: nothing half-written or lost, nothing open, and the store does its work. */
static void check_usable(struct scene *c, bool removes, const char *what)
{
    struct t_record r;

    if (t_get(c->s, "new") != true)
        t_put(c->s, "new");
    if (!t_get(c->s, "new"))
        fail_msg("%s: what is put afterwards is not there: %s", what, c->t->log);
    if (!t_get(c->s, "sound")) {
        if (!removes)
            fail_msg("%s: a sound entry was lost: %s", what, c->t->log);
        t_put(c->s, "sound");
        if (!t_get(c->s, "sound"))
            fail_msg("%s: a sound entry was lost and cannot be stored again", what);
    }
    t_record(&r, "sound");
    const int lock = store_lock(c->s, &r.key, 0);
    if (lock < 0)
        fail_msg("%s: a lock is still held", what);
    store_unlock(c->s, lock);
}

/* Each call by every second error, in turns, and by one that may last either once or for ever; in
 * check-long by every one. */
static void every_call_of_every_operation_may_fail(void **state)
{
#ifdef __SANITIZE_THREAD__ /* one thread: nothing for it to find here */
    static const int errors[] = {EIO};
#elif defined __SANITIZE_ADDRESS__
    /* several times as slow, and memory cares little for the errno */
    static const int errors[] = {EIO, EINTR};
#else
    static const int errors[] = {ENOSPC, EIO, EINTR, EMFILE, ENOMEM, EACCES, ESTALE};
#endif
    struct scene c = {.t = *state};

    c.s = t_store_open(c.t, QUERN_CACHE_RW, 0);
    const int descriptor = lowest_free_descriptor();
    unsigned runs = 0, reached = 0;
    for (size_t o = 0; o < COUNT(operations); o++) {
        prepare(&c);
        t_faults_on(0, 0, false);
        operations[o].run(&c);
        t_faults_off();
        const unsigned calls = t_faults.calls;
        assert_true(calls > 3);
        for (size_t e = 0; e < COUNT(errors); e++)
            for (int for_ever = 0; for_ever < (errors[e] == EIO || errors[e] == EINTR ? 2 : 1);
                 for_ever++)
                for (unsigned n = 1; n <= calls; n++) {
                    char what[96];
                    if (!t_takes(n + e + (size_t)for_ever, 2))
                        continue;
                    snprintf(what, sizeof what, "%s: call %u of %u, %s%s", operations[o].name, n,
                             calls, strerror(errors[e]), for_ever ? ", for ever" : "");
                    t_faults_on(0, 0, false); /* no real fsync while preparing either */
                    prepare(&c);
                    t_faults_off();
                    t_faults_on(n, errors[e], for_ever);
                    operations[o].run(&c);
                    t_faults_off();
                    runs++;
                    reached += t_faults.failed != 0;
                    if (lowest_free_descriptor() != descriptor)
                        fail_msg("%s: descriptors leak", what);
                    size_t left = 0;
                    if (strstr(operations[o].name, "put"))
                        left = t_count_files(c.t, "v1/objects", TEMPORARY_PREFIX);
                    if (left && strcmp(operations[o].name, "put named"))
                        fail_msg("%s: %zu temporaries are left", what, left);
                    t_faults_on(0, 0, false);
                    check_usable(&c, operations[o].removes, what);
                    t_faults_off();
                    /* only a named temporary whose removal failed may stay, and not for ever */
                    if (left) {
                        uint64_t removed;
                        assert_int_equal(store_clear(c.s, &removed), QUERN_OK);
                        assert_int_equal(t_count_files(c.t, "v1/objects", ""), 0);
                    }
                }
    }
    /* the number of calls varies a little with what is in the directories */
    print_message("%u faults, %u reached\n", runs, reached);
    assert_true(runs > COUNT(errors) * 1000 && reached > runs / 10 * 8);
    store_close(c.s);
}

/* One put of a thousand short writes, and reads of one byte at a time. */
static ssize_t one_byte_write(int fd, const void *b, size_t n)
{
    return write(fd, b, n ? 1 : 0);
}
static ssize_t one_byte_read(int fd, void *b, size_t n)
{
    return read(fd, b, n ? 1 : 0);
}

static void short_reads_and_writes_are_continued(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    const struct os real = os;

    os.write = one_byte_write;
    os.read = one_byte_read;
    t_put(s, "a");
    const bool found = t_get(s, "a");
    os = real;
    assert_true(found);
    assert_true(t_get(s, "a"));
    store_close(s);
}

static ssize_t no_write(int fd, const void *b, size_t n)
{
    (void)fd;
    (void)b;
    (void)n;
    return 0;
}

static void a_write_that_writes_nothing_fails(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    const struct os real = os;

    os.write = no_write;
    t_put(s, "a");
    os = real;
    assert_int_equal(t_stats(s).put_failed, 1);
    assert_false(t_get(s, "a"));
    store_close(s);
}

/* An entry must be on the disk before it has a name, and one failed flush is final: the next would
 * succeed without having written anything. */
static unsigned flushes;
static bool flush_fails, linked_unflushed;
static int noted_fsync(int fd)
{
    flushes++;
    errno = EIO;
    return flush_fails ? -1 : fsync(fd);
}
static int noted_linkat(int d, const char *p, int e, const char *q, int f)
{
    linked_unflushed |= flushes == 0;
    return linkat(d, p, e, q, f);
}

static void entries_are_flushed_before_they_are_named(void **state)
{
    struct t_store *const t = *state;
    const struct os real = os;

    for (int named = 0; named < 2; named++)
        for (int failing = 0; failing < 2; failing++) {
            struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
            t_faults.real = os;
            t_faults.fail_at = 0;
            if (named)
                os.openat = openat_named;
            os.fsync = noted_fsync;
            os.linkat = noted_linkat;
            flushes = 0;
            flush_fails = failing;
            linked_unflushed = false;
            t_put(s, "a");
            os = real;
            assert_int_equal(flushes, 1);
            assert_false(linked_unflushed);
            assert_int_equal(t_stats(s).put_failed, failing);
            assert_int_equal(t_get(s, "a"), !failing);
            assert_int_equal(t_count_files(t, "v1/objects", ""), !failing);
            store_close(s);
            t_remove_tree(t->cache);
        }
}

/* The same cause again and again: counted each time, logged once. */
static int openat_full(int d, const char *p, int f, mode_t m)
{
    if (f & O_CREAT || (f & O_TMPFILE) == O_TMPFILE) {
        errno = ENOSPC;
        return -1;
    }
    return openat(d, p, f, m);
}

static void a_cause_is_logged_once(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    const struct os real = os;

    t_put(s, "a");
    os.openat = openat_full;
    for (int i = 0; i < 20; i++)
        t_put(s, "b");
    os = real;
    assert_int_equal(t_stats(s).put_failed, 20);
    const char *const said = strstr(t->log, "No space left");
    assert_non_null(said);
    assert_null(strstr(said + 1, "No space left"));
    store_close(s);
}

/* A network file system that knows the file by a handle that went stale: one fresh look-up. */
static int stale_reads;
static ssize_t stale_once(int fd, void *b, size_t n)
{
    if (stale_reads-- > 0) {
        errno = ESTALE;
        return -1;
    }
    return read(fd, b, n);
}

static void a_stale_handle_is_looked_up_anew(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    const struct os real = os;

    t_put(s, "a");
    os.read = stale_once;
    stale_reads = 1;
    assert_true(t_get(s, "a"));
    stale_reads = 2;
    assert_false(t_get(s, "a"));
    os = real;
    assert_int_equal(t_stats(s).miss_io, 1);
    assert_int_equal(t_stats(s).quarantined, 0);
    assert_true(t_get(s, "a"));
    store_close(s);
}

static int link_answer_lost(int d, const char *p, int e, const char *q, int f)
{
    linkat(d, p, e, q, f);
    errno = EIO;
    return -1;
}

static void a_link_whose_answer_was_lost_counts(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);
    const struct os real = os;

    t_faults.real = os;
    t_faults.fail_at = 0;
    os.openat = openat_named;
    os.linkat = link_answer_lost;
    t_put(s, "a");
    os = real;
    assert_int_equal(t_stats(s).put_ok, 1);
    assert_true(t_get(s, "a"));
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(every_call_of_every_operation_may_fail),
        T_STORE_TEST(short_reads_and_writes_are_continued),
        T_STORE_TEST(a_write_that_writes_nothing_fails),
        T_STORE_TEST(entries_are_flushed_before_they_are_named),
        T_STORE_TEST(a_cause_is_logged_once),
        T_STORE_TEST(a_stale_handle_is_looked_up_anew),
        T_STORE_TEST(a_link_whose_answer_was_lost_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
