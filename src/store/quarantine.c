/* SPDX-License-Identifier: MIT */
/* Moves entries that are of no use out of the way, while there is room for them, for whoever
 * asks why. */
#include "base/os.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int count_name(void *user, int directory, const char *name)
{
    (void)directory;
    (void)name;
    ++*(unsigned *)user;
    return 0;
}

/* The quarantine directory, or -errno: -ENOSPC when it is full. */
static int open_quarantine(const struct store *s)
{
    unsigned names = 0;
    const int fd = store_open_directory(s, "quarantine", NULL, true);

    if (fd < 0)
        return fd;
    /* another open file description: reading a directory moves its offset */
    const int list = directory_openat(fd, ".", O_RDONLY | O_DIRECTORY);
    const int error = list < 0 ? list : store_each_name(list, count_name, &names);
    if (error || names >= QUARANTINE_MAX) {
        os.close(fd);
        return error ? error : -ENOSPC;
    }
    return fd;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

void store_quarantine(struct store *s, int shard, const struct entry_name *name,
                      const struct stat *seen, const char *reason)
{
    char to[KEY_HEX + 32], random[17];
    struct stat now;

    log_line(s->log, QUERN_LOG_WARN, "cache %s: entry %s%.*s is useless: %s", s->path, name->shard,
             NAME_HEX, name->name, reason);
    if (s->mode != QUERN_CACHE_RW)
        return;
    /* another process may have removed the entry already and put a sound one in its place */
    if (os.fstatat(shard, name->name, &now, AT_SYMLINK_NOFOLLOW) || !same_file(&now, seen))
        return;
    store_random_hex(random);
    snprintf(to, sizeof to, "%s%.*s-%s.qk", name->shard, NAME_HEX, name->name, random);
    const int fd = open_quarantine(s);
    bool moved = fd >= 0 && os.renameat(shard, name->name, fd, to) == 0;
    /* an entry that cannot be kept for inspection is removed all the same: as long as it is there,
     * no other can be stored under its key */
    const int error = moved ? 0 : -store_remove(shard, name->name);
    moved |= !error;
    if (fd >= 0)
        os.close(fd);
    if (moved)
        counter_add(s->counters, QUERN_STAT_QUARANTINED, 1);
    else
        store_complain(s, DOING_QUARANTINE, error, "a useless entry cannot be removed");
}

void store_discard(struct store *s, const struct hash128 *key, const char *reason)
{
    const struct entry_name name = entry_name(key);
    struct stat seen;
    const int shard =
        s->mode == QUERN_CACHE_OFF ? -1 : store_open_directory(s, "objects", name.shard, false);

    if (shard < 0)
        return;
    if (!os.fstatat(shard, name.name, &seen, AT_SYMLINK_NOFOLLOW))
        store_quarantine(s, shard, &name, &seen, reason);
    os.close(shard);
}
