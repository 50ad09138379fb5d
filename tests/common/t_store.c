/* SPDX-License-Identifier: MIT */
#include "t_store.h"
#include "t_objects.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void keep_line(void *user, enum quern_log_level level, const char *line)
{
    struct t_store *const t = user;
    const size_t used = strlen(t->log);

    (void)level;
    snprintf(t->log + used, sizeof t->log - used, "%s\n", line);
}

int t_store_setup(void **state)
{
    struct t_store *const t = calloc(1, sizeof *t);

    assert_non_null(t);
    /* in memory where there is such a place: these tests make and remove a great many files */
    strcpy(t->root,
           access("/dev/shm", W_OK) ? "/tmp/quern-test-XXXXXX" : "/dev/shm/quern-test-XXXXXX");
    assert_non_null(mkdtemp(t->root));
    snprintf(t->cache, sizeof t->cache, "%s/cache", t->root);
    t->sink = (struct log){.function = keep_line, .user = t, .level = QUERN_LOG_DEBUG};
    *state = t;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void t_remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int t_store_teardown(void **state)
{
    struct t_store *const t = *state;

    t_remove_tree(t->root);
    free(t);
    return 0;
}

struct store *t_store_open(struct t_store *t, enum quern_cache_mode mode, uint64_t max_bytes)
{
    const struct store_config config = {
        .directory = t->cache, .max_bytes = max_bytes, .mode = mode, .log = &t->sink};
    struct store *s = NULL;

    if (store_open(&config, &s) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    return s;
}

quern_status t_store_try(struct t_store *t, const char *directory, enum quern_cache_mode mode,
                         struct store **s)
{
    const struct store_config config = {.directory = directory, .mode = mode, .log = &t->sink};

    return store_open(&config, s);
}

void t_record(struct t_record *r, const char *name)
{
    const struct t_object o = t_object(T_AXPY_GFX1151);

    char source_text[96], hex[33];

    /* as a kernel's, so that the entry is known under its source key too */
    snprintf(source_text, sizeof source_text, "name %zu\n%s\n", strlen(name), name);
    const struct hash128 source_key = hash128_of(source_text, strlen(source_text));
    hex_from_bytes(hex, source_key.bytes, sizeof source_key.bytes);
    snprintf(r->key_text, sizeof r->key_text, "source key 32\n%s\ntoolchain 4\nnone\n%s", hex,
             source_text);
    snprintf(r->source, sizeof r->source, "// kernel %s\n", name);
    r->key = hash128_of(r->key_text, strlen(r->key_text));
    r->record = (struct store_record){
        .key_text = r->key_text,
        .key_text_bytes = strlen(r->key_text),
        .source = r->source,
        .log = "no warnings",
        .object = o.bytes,
        .object_bytes = o.size,
    };
}

void t_put(struct store *s, const char *name)
{
    struct t_record r;

    t_record(&r, name);
    store_put(s, &r.key, &r.record);
}

bool t_get(struct store *s, const char *name)
{
    struct t_record r;
    struct store_entry e;

    t_record(&r, name);
    if (!store_get(s, &r.key, r.key_text, strlen(r.key_text), target_named("gfx1151"), &e)) {
        assert_null(e.buffer);
        return false;
    }
    assert_int_equal(e.record.key_text_bytes, r.record.key_text_bytes);
    assert_memory_equal(e.record.key_text, r.key_text, r.record.key_text_bytes);
    assert_string_equal(e.record.source, r.source);
    assert_string_equal(e.record.log, r.record.log);
    assert_int_equal(e.record.object_bytes, r.record.object_bytes);
    assert_memory_equal(e.record.object, r.record.object, r.record.object_bytes);
    store_entry_free(&e);
    return true;
}

void t_entry_path(const struct t_store *t, const char *name, char path[PATH_MAX])
{
    struct t_record r;
    char hex[33];

    t_record(&r, name);
    hex_from_bytes(hex, r.key.bytes, sizeof r.key.bytes);
    snprintf(path, PATH_MAX, "%s/v1/objects/%.2s/%s.qk", t->cache, hex, hex + 2);
}

static const char *wanted_part;
static size_t found_files;
static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    if (type != FTW_D && strstr(path + ftw->base, wanted_part))
        found_files++;
    return 0;
}

size_t t_count_files(const struct t_store *t, const char *below, const char *part)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", t->cache, below);
    wanted_part = part;
    found_files = 0;
    nftw(path, count_one, 16, FTW_PHYS);
    return found_files;
}

int t_count_item(void *user, const struct store_item *item)
{
    (void)item;
    ++*(int *)user;
    return 0;
}

struct quern_stats t_stats(struct store *s)
{
    const struct counters *const counters = store_counters(s);
    struct quern_stats stats = QUERN_INIT(struct quern_stats);

#define READ(number, NAME, name, counts) stats.name = counter_value(counters, QUERN_STAT_##NAME);
    QUERN_STATS(READ)
#undef READ
    return stats;
}

int t_open_descriptors(void)
{
    DIR *const d = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

void t_write_file(const char *path, const void *bytes, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

size_t t_read_file(const char *path, void *bytes, size_t room)
{
    const int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    const ssize_t n = read(fd, bytes, room);
    close(fd);
    assert_true(n >= 0 && (size_t)n < room);
    return (size_t)n;
}
