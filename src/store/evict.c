/* SPDX-License-Identifier: MIT */
/*
 * The size limit. A put need not count what is stored: the length of the file "written" says it,
 * one byte for each WRITTEN_UNIT bytes stored. Every put appends to it, which needs no lock. The
 * length may be too high (entries were removed) or, after a crash or a race, a little too low; an
 * eviction counts the entries themselves and makes it exact.
 */
#include "base/os.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#define WRITTEN_UNIT 4096
/* An eviction goes below the limit by an eighth, so that the next one is a while off. */
#define LOW_WATER(max) ((max) - (max) / 8)
/* A temporary older than this has no living writer. */
#define TEMPORARY_SECONDS (60 * 60)

struct candidate {
    int64_t used;
    uint64_t bytes;
    struct entry_name name;
};

struct survey {
    const char *shard;
    int64_t now;
    uint64_t bytes;
    size_t count, capacity;
    struct candidate *candidates;
};

static uint64_t units(uint64_t bytes)
{
    return (bytes + WRITTEN_UNIT - 1) / WRITTEN_UNIT;
}

static int open_written(const struct store *s, int flags)
{
    const int directory = store_open_directory(s, NULL, NULL, false);

    if (directory < 0)
        return directory;
    const int fd = directory_open_shared(directory, "written", flags, s->trust);
    os.close(directory);
    return fd;
}

void store_set_accounted(struct store *s, uint64_t bytes)
{
    const int fd = open_written(s, O_WRONLY);

    if (fd < 0)
        return;
    /* not less than one: an empty file means that nothing is known */
    if (os.ftruncate(fd, (off_t)(units(bytes) ? units(bytes) : 1)))
        store_complain(s, DOING_EVICT, errno, "the size of the cache cannot be noted");
    os.close(fd);
}

void store_account(struct store *s, uint64_t bytes)
{
    static const char zeros[ENTRY_BYTES_MAX / WRITTEN_UNIT];
    const size_t more = (size_t)units(bytes);
    const int fd = open_written(s, O_WRONLY | O_APPEND);
    struct stat st;
    bool evict = false;

    if (fd < 0)
        return;
    if (os.write(fd, zeros, more) > 0 && os.fstat(fd, &st) == 0) {
        const uint64_t total = (uint64_t)st.st_size;
        /* a file that had been empty says nothing of what was stored before: evicting counts that
         */
        evict = total <= more || total > s->max_bytes / WRITTEN_UNIT;
    }
    os.close(fd);
    if (evict)
        store_evict(s);
}

static int note(void *user, int directory, const char *name)
{
    struct survey *const v = user;
    struct stat st;

    if (os.fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return 0; /* gone since, or not ours */
    if (is_temporary_name(name) && v->now - st.st_mtime > TEMPORARY_SECONDS)
        os.unlinkat(directory, name, 0);
    if (!is_entry_name(name))
        return 0;
    if (v->count == v->capacity) {
        const size_t capacity = v->capacity ? 2 * v->capacity : 256;
        struct candidate *const grown = os.realloc(v->candidates, capacity * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        v->candidates = grown;
        v->capacity = capacity;
    }
    struct candidate *const c = &v->candidates[v->count++];
    *c = (struct candidate){.used = st.st_mtime, .bytes = (uint64_t)st.st_size};
    memcpy(c->name.shard, v->shard, sizeof c->name.shard);
    memcpy(c->name.name, name, sizeof c->name.name);
    v->bytes += c->bytes;
    return 0;
}

static int survey_shard(void *user, int fd, const char *shard)
{
    struct survey *const v = user;

    v->shard = shard;
    return store_each_name(fd, note, v);
}

static int oldest_first(const void *a, const void *b)
{
    const struct candidate *const x = a, *const y = b;

    return (x->used > y->used) - (x->used < y->used);
}

static void remove_oldest(struct store *s, struct survey *v)
{
    const uint64_t goal = LOW_WATER(s->max_bytes);
    const int objects = store_open_directory(s, "objects", NULL, false);

    qsort(v->candidates, v->count, sizeof *v->candidates, oldest_first);
    for (size_t i = 0; i < v->count && v->bytes > goal && objects >= 0; i++) {
        const struct candidate *const c = &v->candidates[i];
        const int shard = directory_open_in(objects, c->name.shard, false, c->name.shard, s->trust);
        if (shard < 0)
            continue;
        /* a reader that has it open keeps its data */
        if (os.unlinkat(shard, c->name.name, 0) == 0) {
            counter_add(s->counters, QUERN_STAT_EVICTED, 1);
            v->bytes -= c->bytes;
        } else if (errno == ENOENT) {
            v->bytes -= c->bytes;
        } else {
            store_complain(s, DOING_EVICT, errno, "an old entry cannot be removed");
        }
        os.close(shard);
    }
    if (objects >= 0)
        os.close(objects);
}

static void evict_locked(struct store *s)
{
    struct timespec now = {0}; /* if the clock fails, no temporary counts as old */

    os.clock_gettime(CLOCK_REALTIME, &now);
    struct survey v = {.now = now.tv_sec};
    const int error = store_each_shard(s, "objects", survey_shard, &v);
    if (error) {
        store_complain(s, DOING_EVICT, -error, "the cache cannot be searched for old entries");
    } else {
        if (v.bytes > s->max_bytes) {
            remove_oldest(s, &v);
            const int swept = store_sweep_pointers(s, false);
            if (swept)
                store_complain(s, DOING_EVICT, -swept, "pointers to old entries cannot be removed");
        }
        store_set_accounted(s, v.bytes);
    }
    os.free(v.candidates);
}

void store_evict(struct store *s)
{
    if (s->mode != QUERN_CACHE_RW)
        return;
    const int locks = store_open_directory(s, "locks", NULL, true);
    int fd = locks;
    if (locks >= 0) {
        fd = directory_open_shared(locks, "evict", O_RDWR, s->trust);
        os.close(locks);
    }
    if (fd < 0) {
        store_complain(s, DOING_EVICT, -fd,
                       locks < 0 ? NULL : "the evictor's lock cannot be opened");
        return;
    }
    /* whoever has the lock does the work; without locks at all everybody does */
    if (os.flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        evict_locked(s);
    store_unlock(s, fd);
}
