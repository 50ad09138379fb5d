/* SPDX-License-Identifier: MIT */
/* The cache as its users see it: opening it, getting an entry and putting one. */
#include "store/internal.h"
#include "base/os.h"
#include "store/key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* The last use of an entry is kept to the day: noting it more often would write on every hit. */
#define TOUCH_SECONDS (24 * 60 * 60)

quern_status store_open(const struct store_config *config, struct store **store)
{
    struct store *const s = os.calloc(1, sizeof *s);

    FAIL_IF(!s, QUERN_E_MEMORY, "no memory for a store");
    s->mode = config->mode ? config->mode : QUERN_CACHE_RW;
    s->max_bytes = config->max_bytes ? config->max_bytes : STORE_MAX_BYTES_DEFAULT;
    s->log = config->log;
    s->counters = config->counters ? config->counters : &s->own;
    if (s->mode != QUERN_CACHE_OFF) {
        quern_status status = directory_resolve(config->directory, &s->path);
        if (status == QUERN_OK && config->shared) {
            status = directory_trust(s->path, &s->group);
            s->trust = &s->group;
        }
        if (status == QUERN_OK && config->unfit_said)
            memset(s->complained, true, sizeof s->complained);
        else if (status == QUERN_OK)
            status = directory_check(s->path, s->mode == QUERN_CACHE_RW, s->trust);
        if (status != QUERN_OK) {
            store_close(s);
            return status;
        }
    }
    *store = s;
    return QUERN_OK;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    os.free(s->path);
    os.free(s);
}

const char *store_directory(const struct store *s)
{
    return s->path ? s->path : "";
}

const struct counters *store_counters(const struct store *s)
{
    return s->counters;
}

/* ---- get ------------------------------------------------------------------------------------- */

struct want {
    const struct store_want *want;
    bool by_source;
};

/* Whether a file's mode lets this user read it. */
static bool may_read(const struct stat *st)
{
    return st->st_mode & (st->st_uid == os.geteuid() ? S_IRUSR : S_IRGRP | S_IROTH);
}

static bool same_text(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return a_bytes == b_bytes && !memcmp(a, b, a_bytes);
}

/* Whether the record's key text is the wanted one, or has the wanted source text in it. */
static bool matches(const struct store_record *r, const struct store_want *w, bool by_source)
{
    struct hash128 source_key;
    const char *text;
    size_t bytes;

    if (!by_source)
        return same_text(r->key_text, r->key_text_bytes, w->key_text, w->key_text_bytes);
    return key_source(r->key_text, r->key_text_bytes, &source_key, &text, &bytes) &&
           same_text(text, bytes, w->source_text, w->source_text_bytes);
}

quern_status store_parse(const struct store_record *r, struct object *object)
{
    if (r->object_bytes || !r->rules)
        return object_parse(r->object, r->object_bytes, object);
    *object = (struct object){0};
    return QUERN_OK;
}

quern_status store_judge(struct store_entry *e, const struct store_want *w, bool by_source)
{
    const struct target_id id = {.target = w->target};

    FAIL_IF(!matches(&e->record, w, by_source), QUERN_E_CACHE, "the entry is that of another key");
    TRY(store_parse(&e->record, &e->object));
    if (!e->record.object_bytes)
        return QUERN_OK;
    return object_fits(&e->object, &id) == QUERN_OK ? QUERN_OK : QUERN_E_CACHE;
}

static enum quern_stat counter_of(quern_status judged)
{
    return judged == QUERN_OK         ? QUERN_STAT_HIT_DISK
           : judged == QUERN_E_MEMORY ? QUERN_STAT_MISS_IO
           : judged == QUERN_E_CACHE  ? QUERN_STAT_MISS_FOREIGN
                                      : QUERN_STAT_MISS_DAMAGED;
}

/* Notes the use of an entry, by its file's time, for the evictor. A time in the future is set back,
 * as the entry would otherwise never be evicted. */
static void touch(const struct store *s, int fd, const struct stat *st)
{
    struct timespec now;

    if (s->mode != QUERN_CACHE_RW || os.clock_gettime(CLOCK_REALTIME, &now))
        return;
    if (now.tv_sec - st->st_mtime >= TOUCH_SECONDS || st->st_mtime - now.tv_sec >= TOUCH_SECONDS)
        /* UTIME_NOW, because a user who may write to the file but does not own it can set no other
         * time */
        os.futimens(fd, (const struct timespec[2]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}});
}

/* Records why an entry cannot be read now. */
static enum quern_stat unreadable(int cause, int *error)
{
    *error = cause;
    error_set(QUERN_E_IO, __FILE__, FAIL_AT("unreadable"), "a cache entry cannot be read: %s",
              strerror(cause));
    return QUERN_STAT_MISS_IO;
}

/* Reads and judges an open file. *error is an errno for QUERN_STAT_MISS_IO. */
static enum quern_stat load_file(struct store *s, int shard, int fd, struct stat *st,
                                 const struct want *w, struct store_entry *entry, int *error)
{
    if (os.fstat(fd, st))
        return unreadable(errno, error);
    const char *const unfit = store_unfit(s, shard, fd, st);
    if (unfit) {
        error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT("unfit"), "%s", unfit);
        return QUERN_STAT_MISS_FOREIGN;
    }
    if (st->st_size < ENTRY_HEADER_BYTES || (uint64_t)st->st_size > ENTRY_BYTES_MAX) {
        error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT("st_size"),
                  "it has %lld bytes; an entry has %d to %zu", (long long)st->st_size,
                  ENTRY_HEADER_BYTES, ENTRY_BYTES_MAX);
        return QUERN_STAT_MISS_DAMAGED;
    }
    const int read = store_read_exactly(fd, (size_t)st->st_size, &entry->buffer);
    if (read)
        return unreadable(-read, error);
    enum quern_stat outcome = QUERN_STAT_MISS_DAMAGED;
    if (entry_decode(entry->buffer, (size_t)st->st_size, &entry->record) == QUERN_OK)
        outcome = counter_of(store_judge(entry, w->want, w->by_source));
    if (outcome == QUERN_STAT_HIT_DISK) {
        touch(s, fd, st);
    } else {
        if (outcome == QUERN_STAT_MISS_IO)
            unreadable(ENOMEM, error);
        store_entry_free(entry);
    }
    return outcome;
}

static enum quern_stat load(struct store *s, const struct entry_name *name, const struct want *w,
                            struct store_entry *entry, int *error)
{
    const int shard = store_open_directory(s, "objects", name->shard, false);
    struct stat st;
    enum quern_stat outcome;

    if (shard < 0) {
        *error = -shard;
        return shard == -ENOENT ? QUERN_STAT_MISS_ABSENT : QUERN_STAT_MISS_IO;
    }
    /* O_NONBLOCK: opening a fifo must not hang */
    const int fd = directory_openat(shard, name->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        outcome = load_file(s, shard, fd, &st, w, entry, error);
    } else if (fd == -ENOENT) {
        outcome = QUERN_STAT_MISS_ABSENT;
    } else {
        /* A link, a socket, or a file that this user may not read cannot be the store's. Any other
         * failure may be over at the next try. */
        const bool alien = (fd == -ELOOP || fd == -ENXIO || fd == -EACCES) &&
                           !os.fstatat(shard, name->name, &st, AT_SYMLINK_NOFOLLOW) &&
                           (store_unfit(s, shard, -1, &st) || !may_read(&st));
        outcome = unreadable(-fd, error);
        if (alien)
            outcome = QUERN_STAT_MISS_FOREIGN;
    }
    /* an entry that was found by a wrong pointer may be sound under its own key: it stays */
    if (outcome == QUERN_STAT_MISS_DAMAGED || (outcome == QUERN_STAT_MISS_FOREIGN && !w->by_source))
        store_quarantine(s, shard, name, &st, quern_last_error()->message);
    if (fd >= 0)
        os.close(fd); /* only now: while it is open, no new file can get its inode number */
    os.close(shard);
    return outcome;
}

/* Loads the entry of the exact key, or with by_source the one that the source key's pointer names.
 */
static enum quern_stat look_up(struct store *s, const struct want *w, struct store_entry *entry,
                               int *error)
{
    struct entry_name name = entry_name(&w->want->key);

    if (w->by_source) {
        const int pointer = store_pointer(s, &w->want->source_key, &name);
        if (pointer == -ENOENT)
            return QUERN_STAT_MISS_ABSENT;
        if (pointer < 0)
            return unreadable(-pointer, error);
    }
    return load(s, &name, w, entry, error);
}

static bool get(struct store *s, const struct want *w, struct store_entry *entry)
{
    static const enum quern_reason reasons[QUERN_STAT_COUNT] = {
        [QUERN_STAT_MISS_ABSENT] = QUERN_REASON_ABSENT,
        [QUERN_STAT_MISS_DAMAGED] = QUERN_REASON_DAMAGED,
        [QUERN_STAT_MISS_FOREIGN] = QUERN_REASON_FOREIGN,
        [QUERN_STAT_MISS_IO] = QUERN_REASON_UNREADABLE};
    enum quern_stat outcome = QUERN_STAT_MISS_ABSENT;
    int error = 0;

    *entry = (struct store_entry){0};
    if (s->mode != QUERN_CACHE_OFF) {
        outcome = look_up(s, w, entry, &error);
        /* ESTALE: a network file system's handle of the file is out of date; a new look-up gets
         * another */
        if (outcome == QUERN_STAT_MISS_IO && error == ESTALE)
            outcome = look_up(s, w, entry, &error);
    }
    if (outcome != QUERN_STAT_MISS_ABSENT)
        counter_add(s->counters, outcome, 1);
    if (outcome == QUERN_STAT_MISS_IO)
        store_complain(s, DOING_GET, error, NULL);
    entry->miss = reasons[outcome];
    return outcome == QUERN_STAT_HIT_DISK;
}

bool store_get(struct store *s, const struct hash128 *key, const char *key_text,
               size_t key_text_bytes, const struct target *target, struct store_entry *entry)
{
    const struct store_want want = {
        .key = *key, .key_text = key_text, .key_text_bytes = key_text_bytes, .target = target};

    return store_get_wanted(s, &want, entry);
}

bool store_get_wanted(struct store *s, const struct store_want *want, struct store_entry *entry)
{
    return get(s, &(struct want){want, .by_source = false}, entry);
}

bool store_get_by_source(struct store *s, const struct store_want *want, struct store_entry *entry)
{
    return get(s, &(struct want){want, .by_source = true}, entry);
}

void store_entry_free(struct store_entry *entry)
{
    object_free(&entry->object);
    os.free(entry->buffer);
    *entry = (struct store_entry){0};
}

/* ---- put ------------------------------------------------------------------------------------- */

/* Refuses a record that a get would refuse. */
static quern_status check_record(const struct hash128 *key, const struct store_record *r)
{
    const struct hash128 hash = hash128_of(r->key_text, r->key_text_bytes);
    struct object object;

    FAIL_IF(memcmp(hash.bytes, key->bytes, sizeof hash.bytes), QUERN_E_INTERNAL,
            "the key is not the hash of its text");
    if (r->parsed)
        return QUERN_OK;
    TRY(store_parse(r, &object));
    object_free(&object);
    return QUERN_OK;
}

/* An entry on its way to the disk. */
struct putting {
    struct store_put *put;
    struct entry_name name;
    const void *bytes; /* null: it cannot be stored, which is counted */
    size_t size;
    void *made; /* the bytes, if they were made for this; else they are the record's */
};

static void encode(struct store *s, struct putting *p)
{
    const struct store_record *const r = p->put->record;

    p->put->outcome = QUERN_STAT_PUT_FAILED;
    p->name = entry_name(&p->put->key);
    p->bytes = r->entry;
    p->size = r->entry_bytes;
    quern_status status = check_record(&p->put->key, r);
    if (status == QUERN_OK && !r->entry) {
        status = entry_encode(r, &p->made, &p->size);
        p->bytes = p->made;
    }
    if (status == QUERN_OK)
        return;
    p->bytes = NULL;
    counter_add(s->counters, QUERN_STAT_PUT_FAILED, 1);
    log_line(s->log, QUERN_LOG_WARN, "cache %s: not stored: %s", s->path,
             quern_last_error()->message);
}

/* Counts what became of an entry. Returns by how many bytes the cache grew. */
static size_t settle(struct store *s, const struct putting *p, bool opened, int result)
{
    struct store_put *const put = p->put;

    if (result == 0)
        put->outcome = QUERN_STAT_PUT_OK;
    else if (result == -EEXIST && opened)
        put->outcome = QUERN_STAT_PUT_LOST;
    counter_add(s->counters, put->outcome, 1);
    if (put->outcome == QUERN_STAT_PUT_FAILED)
        store_complain(s, DOING_PUT, -result, opened ? "an entry cannot be stored" : NULL);
    return put->outcome == QUERN_STAT_PUT_OK ? p->size : 0;
}

/* Makes the entries that were stored known under their source keys. */
static void point_all(struct store *s, int objects, const struct putting *putting, size_t count)
{
    const int sources = store_open_directory(s, "sources", NULL, true);

    for (size_t i = 0; i < count; i++) {
        const struct store_put *const put = putting[i].put;
        if (put->outcome == QUERN_STAT_PUT_OK)
            store_point(s, objects, sources, put->record, &put->key);
    }
    if (sources >= 0)
        os.close(sources);
}

static void put_some(struct store *s, struct store_put *puts, size_t count)
{
    struct putting putting[STORE_TOGETHER];
    struct publication publications[STORE_TOGETHER];
    size_t n = 0, stored = 0;

    for (size_t i = 0; i < count; i++) {
        struct putting *const p = &putting[n];
        *p = (struct putting){.put = &puts[i]};
        encode(s, p);
        n += p->bytes != NULL;
    }
    if (!n)
        return;
    const int objects = store_open_directory(s, "objects", NULL, true);
    for (size_t i = 0; i < n; i++) {
        const struct putting *const p = &putting[i];
        publications[i] = (struct publication){
            .directory = objects < 0 ? objects
                                     : store_open_shard(s, objects, "objects", p->name.shard, true),
            .name = p->name.name,
            .bytes = p->bytes,
            .size = p->size};
    }
    store_publish_all(publications, n, directory_file_mode(s->trust));
    for (size_t i = 0; i < n; i++) {
        const bool opened = publications[i].directory >= 0;
        if (opened)
            os.close(publications[i].directory);
        os.free(putting[i].made);
        stored += settle(s, &putting[i], opened, publications[i].result);
    }
    if (stored) {
        point_all(s, objects, putting, n);
        store_account(s, stored);
    }
    if (objects >= 0)
        os.close(objects);
}

void store_put_all(struct store *s, struct store_put *puts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        puts[i].outcome = QUERN_STAT_PUT_FAILED;
    if (s->mode != QUERN_CACHE_RW)
        return;
    for (size_t i = 0; i < count; i += STORE_TOGETHER)
        put_some(s, puts + i, count - i < STORE_TOGETHER ? count - i : STORE_TOGETHER);
}

enum quern_stat store_put(struct store *s, const struct hash128 *key,
                          const struct store_record *record)
{
    struct store_put put = {.key = *key, .record = record};

    store_put_all(s, &put, 1);
    return put.outcome;
}

void store_replace(struct store *s, const struct hash128 *key, const struct store_record *record)
{
    const struct entry_name name = entry_name(key);
    const int shard =
        s->mode == QUERN_CACHE_RW ? store_open_directory(s, "objects", name.shard, false) : -EROFS;

    if (shard < 0)
        return;
    /* a process that looks the key up before the put finds nothing, and makes the kernel anew */
    os.unlinkat(shard, name.name, 0);
    os.close(shard);
    store_put(s, key, record);
}
