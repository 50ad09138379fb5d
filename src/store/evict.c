/* SPDX-License-Identifier: MIT */
/*
 * The size limit. A put need not count what is stored: the length of the file "written" says it,
 * one byte for each WRITTEN_UNIT bytes stored. Every put, or batch of puts, appends to it, which
 * needs no lock. The length may be too high (entries were removed) or, after a crash or a race, a
 * little too low; an eviction counts the entries themselves and makes it exact.
 *
 * A put must not wait for a large cache to be searched, so one call of store_evict looks at some
 * SURVEY_FILES files, whole shards of them, and later calls go on where it ended, until a round
 * through all shards is done. Keys are hashes, so the shards of one call hold their share of all
 * bytes: they are brought below their share of the limit, those used longest ago first. The order
 * of last use is therefore that of all entries in a small cache, and of some shards in a large one.
 * How far the round has come is kept in the evictor's lock file.
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

/* What one call looks at, but always one shard: some ten system calls each if all must go. */
#define SURVEY_FILES 1024

/* A round through all shards, as it stands in the lock file; zeros before the first. */
struct round {
    uint64_t next; /* the shard to go on with */
    uint64_t kept; /* bytes of the entries that the round has left in those before it */
};

struct candidate {
    int64_t used;
    uint64_t bytes;
    struct entry_name name;
};

struct survey {
    const char *shard;
    int64_t now;
    uint64_t bytes;
    size_t files; /* looked at */
    unsigned end; /* the shard behind the last that was surveyed */
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
    size_t left = more;
    const int fd = open_written(s, O_WRONLY | O_APPEND);
    struct stat st;
    bool evict = false;

    if (fd < 0)
        return;
    while (left) {
        const ssize_t n = os.write(fd, zeros, left < sizeof zeros ? left : sizeof zeros);
        if (n <= 0)
            break;
        left -= (size_t)n;
    }
    if (!left && os.fstat(fd, &st) == 0) {
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

    v->files++;

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

#define SURVEYED_ENOUGH 1

static int survey_shard(void *user, int fd, const char *shard)
{
    struct survey *const v = user;

    if (v->files >= SURVEY_FILES) {
        os.close(fd);
        v->end = (unsigned)strtoul(shard, NULL, 16);
        return SURVEYED_ENOUGH;
    }
    v->shard = shard;
    return store_each_name(fd, note, v);
}

static int oldest_first(const void *a, const void *b)
{
    const struct candidate *const x = a, *const y = b;

    return (x->used > y->used) - (x->used < y->used);
}

static void remove_oldest(struct store *s, struct survey *v, uint64_t goal)
{
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

/* A round that cannot be read, or makes no sense, begins anew. */
static struct round read_round(int lock)
{
    struct round r;

    return os.pread(lock, &r, sizeof r, 0) == sizeof r && r.next < SHARDS ? r : (struct round){0};
}

/* Takes care that the next put evicts, too: one over the limit does, and one that finds nothing
 * noted. */
static void go_on_later(struct store *s)
{
    const int fd = open_written(s, O_WRONLY);
    struct stat st;

    if (fd < 0)
        return;
    if (os.fstat(fd, &st) == 0 && (uint64_t)st.st_size <= s->max_bytes / WRITTEN_UNIT &&
        os.ftruncate(fd, 0))
        store_complain(s, DOING_EVICT, errno, "the size of the cache cannot be noted");
    os.close(fd);
}

/* Ends the call's part of a round. */
static void end_part(struct store *s, int lock, struct round r)
{
    if (r.next < SHARDS) {
        go_on_later(s);
    } else {
        store_set_accounted(s, r.kept);
        r = (struct round){0};
    }
    if (os.write(lock, &r, sizeof r) != sizeof r)
        store_complain(s, DOING_EVICT, errno, "how far evicting has come cannot be noted");
}

static void evict_locked(struct store *s, int lock)
{
    struct round r = read_round(lock);
    struct timespec now = {0}; /* if the clock fails, no temporary counts as old */

    os.clock_gettime(CLOCK_REALTIME, &now);
    struct survey v = {.now = now.tv_sec, .end = SHARDS};
    const unsigned first = (unsigned)r.next;
    const int error = store_each_shard_of(s, "objects", first, SHARDS, survey_shard, &v);
    if (error < 0) {
        store_complain(s, DOING_EVICT, -error, "the cache cannot be searched for old entries");
    } else {
        const uint64_t n = v.end - first;
        const uint64_t share = s->max_bytes / SHARDS * n + s->max_bytes % SHARDS * n / SHARDS;
        if (v.bytes > share) {
            remove_oldest(s, &v, LOW_WATER(share));
            const int swept = store_sweep_pointers(s, first, v.end, false);
            if (swept)
                store_complain(s, DOING_EVICT, -swept, "pointers to old entries cannot be removed");
        }
        end_part(s, lock, (struct round){v.end, r.kept + v.bytes});
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
        evict_locked(s, fd);
    store_unlock(s, fd);
}
