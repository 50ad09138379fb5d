/* SPDX-License-Identifier: MIT */
/* Goes through every entry of the cache: for `quern cache`, for bundles, and to find the nearest
 * key. */
#include "base/os.h"
#include "object/object.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of the entries of one shard. */
struct names {
    size_t count, capacity;
    char (*list)[sizeof(((struct entry_name *)0)->name)];
};

static int add_name(void *user, int directory, const char *name)
{
    struct names *const n = user;

    (void)directory;
    if (!is_entry_name(name))
        return 0;
    if (n->count == n->capacity) {
        const size_t capacity = n->capacity ? 2 * n->capacity : 64;
        void *const grown = os.realloc(n->list, capacity * sizeof *n->list);
        if (!grown)
            return -ENOMEM;
        n->list = grown;
        n->capacity = capacity;
    }
    memcpy(n->list[n->count++], name, sizeof *n->list);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static quern_status failed(const struct store *s, int error)
{
    if (error == -EPERM)
        return QUERN_E_CACHE; /* recorded by directory_open: not to be trusted */
    FAIL_IF(error == -ENOMEM, QUERN_E_MEMORY, "no memory for a list of cache entries");
    FAIL(QUERN_E_IO, "cache directory %s cannot be read: %s", s->path, strerror(-error));
}

/* ---- usage ----------------------------------------------------------------------------------- */

static int add_usage(void *user, int directory, const char *name)
{
    struct store_usage *const u = user;
    struct stat st;

    if (is_entry_name(name) && !os.fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW)) {
        u->entries++;
        u->bytes += (uint64_t)st.st_size;
    }
    return 0;
}

static int add_shard_usage(void *user, int fd, const char *shard)
{
    (void)shard;
    return store_each_name(fd, add_usage, user);
}

static int add_quarantined(void *user, int directory, const char *name)
{
    struct store_usage *const u = user;

    (void)directory;
    (void)name;
    u->quarantined++;
    return 0;
}

quern_status store_usage(struct store *s, struct store_usage *usage)
{
    *usage = (struct store_usage){0};
    if (s->mode == QUERN_CACHE_OFF)
        return QUERN_OK;
    int error = store_each_shard(s, "objects", add_shard_usage, usage);
    if (!error) {
        const int fd = store_open_directory(s, "quarantine", NULL, false);
        error = fd >= 0 ? store_each_name(fd, add_quarantined, usage) : fd == -ENOENT ? 0 : fd;
    }
    return error ? failed(s, error) : QUERN_OK;
}

/* ---- walk ------------------------------------------------------------------------------------ */

struct walk {
    struct store *store;
    bool verify;
    store_walk_fn fn;
    store_read_fn read; /* null, or called in place of fn, with whole entries */
    void *user;
    bool stopped;
};

/* Checks all that a get would, the target left out, and that the file's name is that of its key. */
static quern_status verify_entry(const void *bytes, size_t size, const char *key,
                                 struct store_record *record)
{
    struct object object;
    char hex[KEY_HEX + 1];

    TRY(entry_decode(bytes, size, record));
    const struct hash128 hash = hash128_of(record->key_text, record->key_text_bytes);
    hex_from_bytes(hex, hash.bytes, sizeof hash.bytes);
    FAIL_IF(strcmp(hex, key), QUERN_E_OBJECT, "the entry is that of key %s", hex);
    TRY(store_parse(record, &object));
    object_free(&object);
    return QUERN_OK;
}

static quern_status check_file(const struct store *s, int shard, int fd, const struct stat *st)
{
    const char *const unfit = store_unfit(s, shard, fd, st);

    FAIL_IF(unfit, QUERN_E_OBJECT, "%s", unfit);
    FAIL_IF(st->st_size < ENTRY_HEADER_BYTES || (uint64_t)st->st_size > ENTRY_BYTES_MAX,
            QUERN_E_OBJECT, "it has %lld bytes; an entry has %d to %zu", (long long)st->st_size,
            ENTRY_HEADER_BYTES, ENTRY_BYTES_MAX);
    return QUERN_OK;
}

/* Reads and proves a whole entry; *entry is to be freed on success. */
static quern_status read_whole(int fd, const struct stat *st, const char *key,
                               struct store_entry *entry)
{
    const int error = store_read_exactly(fd, (size_t)st->st_size, &entry->buffer);
    FAIL_IF(error == -ENOMEM, QUERN_E_MEMORY, "no memory for an entry");
    FAIL_IF(error, QUERN_E_IO, "it cannot be read: %s", strerror(-error));
    const quern_status status =
        verify_entry(entry->buffer, (size_t)st->st_size, key, &entry->record);
    if (status != QUERN_OK)
        store_entry_free(entry);
    return status;
}

/* Reads the header and key text, or with `verify` all. *text is malloc'ed, or null on failure. */
static quern_status read_entry(int fd, const struct stat *st, bool verify, const char *key,
                               char **text, unsigned *rules)
{
    struct entry_header h;
    struct store_entry entry = {0};
    uint8_t head[ENTRY_HEADER_BYTES];

    if (verify) {
        TRY(read_whole(fd, st, key, &entry));
        store_entry_free(&entry);
    }
    FAIL_IF(os.pread(fd, head, sizeof head, 0) != sizeof head, QUERN_E_IO,
            "its header cannot be read");
    TRY(entry_read_header(head, &h));
    FAIL_IF(h.total_bytes != (uint64_t)st->st_size, QUERN_E_OBJECT,
            "it has %lld bytes; its header says %llu", (long long)st->st_size,
            (unsigned long long)h.total_bytes);
    char *const t = os.malloc(h.key_text_bytes + 1);
    FAIL_IF(!t, QUERN_E_MEMORY, "no memory for a key of %llu bytes",
            (unsigned long long)h.key_text_bytes);
    if (os.pread(fd, t, h.key_text_bytes, ENTRY_HEADER_BYTES) != (ssize_t)h.key_text_bytes) {
        os.free(t);
        FAIL(QUERN_E_IO, "its key cannot be read");
    }
    t[h.key_text_bytes] = 0;
    *text = t;
    *rules = h.rules;
    return QUERN_OK;
}

static int visit(struct walk *w, int shard, const struct entry_name *name)
{
    struct store_item item = {.key_text = ""};
    struct store_entry entry = {0};
    struct stat st;
    char *text = NULL;
    const int fd = directory_openat(shard, name->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);

    if (fd == -ENOENT)
        return 0;
    snprintf(item.key, sizeof item.key, "%s%.*s", name->shard, NAME_HEX, name->name);
    if (fd < 0 || os.fstat(fd, &st)) {
        item.status = error_set(QUERN_E_IO, __FILE__, FAIL_AT("open"), "it cannot be opened: %s",
                                strerror(fd < 0 ? -fd : errno));
    } else {
        item.bytes = (uint64_t)st.st_size;
        item.used = st.st_mtime;
        item.status = check_file(w->store, shard, fd, &st);
        if (item.status == QUERN_OK)
            item.status = w->read ? read_whole(fd, &st, item.key, &entry)
                                  : read_entry(fd, &st, w->verify, item.key, &text, &item.rules);
        if (text)
            item.key_text = text;
        if (w->verify && item.status == QUERN_E_OBJECT)
            store_quarantine(w->store, shard, name, &st, quern_last_error()->message);
    }
    if (fd >= 0)
        os.close(fd);
    w->stopped = (w->read ? w->read(w->user, &item, &entry) : w->fn(w->user, &item)) != 0;
    store_entry_free(&entry);
    os.free(text);
    return w->stopped;
}

static int walk_shard(void *user, int fd, const char *shard)
{
    struct walk *const w = user;
    struct names names = {0};
    struct entry_name name;
    /* listed first, on another open file description, so that `fn` may do what it likes */
    const int list = directory_openat(fd, ".", O_RDONLY | O_DIRECTORY);
    int result = list < 0 ? list : store_each_name(list, add_name, &names);

    memcpy(name.shard, shard, sizeof name.shard);
    if (!result && names.count)
        qsort(names.list, names.count, sizeof *names.list, by_name);
    for (size_t i = 0; i < names.count && !result; i++) {
        memcpy(name.name, names.list[i], sizeof name.name);
        result = visit(w, fd, &name);
    }
    os.free(names.list);
    os.close(fd);
    return result;
}

static quern_status walk(struct walk *w)
{
    if (w->store->mode == QUERN_CACHE_OFF)
        return QUERN_OK;
    const int error = store_each_shard(w->store, "objects", walk_shard, w);
    FAIL_IF(w->stopped, QUERN_E_CANCELLED, "the walk through the cache was stopped");
    return error ? failed(w->store, error) : QUERN_OK;
}

quern_status store_walk(struct store *s, bool verify, store_walk_fn fn, void *user)
{
    return walk(&(struct walk){.store = s, .verify = verify, .fn = fn, .user = user});
}

quern_status store_read_all(struct store *s, store_read_fn fn, void *user)
{
    return walk(&(struct walk){.store = s, .read = fn, .user = user});
}

/* ---- clear ----------------------------------------------------------------------------------- */

struct clearing {
    uint64_t removed;
    int error; /* the first; the rest is removed nevertheless */
};

static int clear_name(void *user, int directory, const char *name)
{
    struct clearing *const c = user;

    if (!is_entry_name(name) && !is_temporary_name(name))
        return 0;
    const int error = store_remove(directory, name);
    c->removed += error == 0 && is_entry_name(name);
    if (error && error != -ENOENT && !c->error)
        c->error = error;
    return 0;
}

static int clear_shard(void *user, int fd, const char *shard)
{
    (void)shard;
    return store_each_name(fd, clear_name, user);
}

static int clear_quarantined(void *user, int directory, const char *name)
{
    struct clearing *const c = user;
    const size_t digits = strspn(name, "0123456789abcdef-");

    const int error = strcmp(name + digits, ".qk") ? 0 : store_remove(directory, name);
    if (error && error != -ENOENT && !c->error)
        c->error = error;
    return 0;
}

quern_status store_clear(struct store *s, uint64_t *removed)
{
    struct clearing c = {0};

    *removed = 0;
    if (s->mode == QUERN_CACHE_OFF)
        return QUERN_OK;
    FAIL_IF(s->mode == QUERN_CACHE_RO, QUERN_E_CACHE,
            "cache directory %s was opened read-only and is not cleared", s->path);
    int error = store_each_shard(s, "objects", clear_shard, &c);
    const int fd = store_open_directory(s, "quarantine", NULL, false);
    const int other = fd >= 0 ? store_each_name(fd, clear_quarantined, &c) : fd == -ENOENT ? 0 : fd;
    const int swept = store_sweep_pointers(s, 0, SHARDS, true);
    *removed = c.removed;
    if (!c.error)
        c.error = swept;
    error = error ? error : other ? other : c.error;
    if (error)
        return failed(s, error);
    store_set_accounted(s, 0);
    return QUERN_OK;
}
