/* SPDX-License-Identifier: MIT */
/*
 * The directories below a cache and the names of the files in them, for every file of the store
 * that reads, writes or searches there. Also the log of what goes wrong with them.
 */
#include "base/os.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void store_complain(struct store *s, enum activity doing, int error, const char *what)
{
    const int cause = error > 0 && error < CAUSES ? error : 0;

    if (atomic_exchange_explicit(&s->complained[doing][cause], true, memory_order_relaxed))
        return;
    if (what)
        log_line(s->log, QUERN_LOG_WARN, "cache %s: %s: %s (said once)", s->path, what,
                 strerror(error));
    else
        log_line(s->log, QUERN_LOG_WARN, "%s (said once)", quern_last_error()->message);
}

struct entry_name entry_name(const struct hash128 *key)
{
    char hex[KEY_HEX + 1];

    hex_from_bytes(hex, key->bytes, sizeof key->bytes);
    return entry_name_of_hex(hex);
}

struct entry_name entry_name_of_hex(const char hex[KEY_HEX + 1])
{
    struct entry_name n;

    memcpy(n.shard, hex, SHARD_HEX);
    n.shard[SHARD_HEX] = 0;
    memcpy(n.name, hex + SHARD_HEX, NAME_HEX);
    memcpy(n.name + NAME_HEX, ".qk", sizeof ".qk");
    return n;
}

bool is_entry_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == NAME_HEX && !strcmp(name + NAME_HEX, ".qk");
}

bool is_temporary_name(const char *name)
{
    return !strncmp(name, TEMPORARY_PREFIX, sizeof TEMPORARY_PREFIX - 1);
}

/* Opens, or creates, what lies below the cache directory by these names, up to a null. */
static int open_below(const struct store *s, const char *const names[3], bool create)
{
    int fd = directory_open(s->path, create, s->trust);
    char shown[PATH_MAX];
    size_t end = (size_t)snprintf(shown, sizeof shown, "%s", s->path);

    for (int i = 0; i < 3 && names[i] && fd >= 0; i++) {
        if (end < sizeof shown)
            end += (size_t)snprintf(shown + end, sizeof shown - end, "/%s", names[i]);
        const int inner = directory_open_in(fd, names[i], create, shown, s->trust);
        os.close(fd);
        fd = inner;
    }
    return fd;
}

int store_open_directory(const struct store *s, const char *first, const char *second, bool create)
{
    return open_below(s, (const char *const[3]){VERSION_DIRECTORY, first, second}, create);
}

int store_open_shard(const struct store *s, int directory, const char *kind, const char *shard,
                     bool create)
{
    char shown[PATH_MAX];

    snprintf(shown, sizeof shown, "%s/" VERSION_DIRECTORY "/%s/%s", s->path, kind, shard);
    return directory_open_in(directory, shard, create, shown, s->trust);
}

quern_status store_open_beside(const struct store *s, const char *name, const char *what,
                               bool create, int *directory)
{
    const int fd =
        s->mode == QUERN_CACHE_OFF ? -ENOENT : open_below(s, (const char *const[3]){name}, create);

    *directory = fd < 0 ? -1 : fd;
    if (fd >= 0 || (fd == -ENOENT && !create))
        return QUERN_OK;
    if (fd == -EPERM)
        return QUERN_E_CACHE; /* recorded */
    FAIL(QUERN_E_IO, "cache directory %s cannot keep %s: %s", s->path, what, strerror(-fd));
}

int store_each_name(int directory, name_fn each, void *user)
{
    DIR *const d = os.fdopendir(directory);
    int result = 0;

    if (!d) {
        const int error = errno;
        os.close(directory);
        return -error;
    }
    while (!result) {
        errno = 0;
        const struct dirent *const e = os.readdir(d);
        if (!e) {
            result = -errno;
            break;
        }
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            result = each(user, directory, e->d_name);
    }
    os.closedir(d);
    return result;
}

static int remove_below(int directory, const char *name, int depth);

static int remove_name(void *user, int directory, const char *name)
{
    const int error = remove_below(directory, name, *(const int *)user);

    return error == -ENOENT ? 0 : error;
}

static int remove_below(int directory, const char *name, int depth)
{
    if (os.unlinkat(directory, name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return -errno;
    if (os.unlinkat(directory, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    if (depth-- == 0)
        return -ELOOP;
    const int fd = directory_openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0)
        return fd;
    const int error = store_each_name(fd, remove_name, &depth);
    if (error)
        return error;
    return os.unlinkat(directory, name, AT_REMOVEDIR) ? -errno : 0;
}

int store_remove(int directory, const char *name)
{
    return remove_below(directory, name, REMOVE_DEPTH);
}

/* Sets the flag of a shard, "00" to "ff", in an array of 256. */
static int note_shard(void *user, int directory, const char *name)
{
    bool *const present = user;

    (void)directory;
    if (strlen(name) == SHARD_HEX && strspn(name, "0123456789abcdef") == SHARD_HEX)
        present[strtoul(name, NULL, 16)] = true;
    return 0;
}

int store_each_shard(const struct store *s, const char *kind, shard_fn each, void *user)
{
    return store_each_shard_of(s, kind, 0, SHARDS, each, user);
}

int store_each_shard_of(const struct store *s, const char *kind, unsigned first, unsigned end,
                        shard_fn each, void *user)
{
    bool present[SHARDS] = {false};
    const int shards = store_open_directory(s, kind, NULL, false);

    if (shards < 0)
        return shards == -ENOENT ? 0 : shards;
    /* listed through another open file description: reading a directory moves its offset */
    const int list = directory_openat(shards, ".", O_RDONLY | O_DIRECTORY);
    int result = list < 0 ? list : store_each_name(list, note_shard, present);
    for (unsigned i = first; i < end && !result; i++) {
        char shard[SHARD_HEX + 1];
        if (!present[i])
            continue;
        snprintf(shard, sizeof shard, "%02x", (unsigned char)i);
        const int fd = store_open_shard(s, shards, kind, shard, false);
        if (fd >= 0)
            result = each(user, fd, shard);
        else if (fd != -ENOENT)
            result = fd;
    }
    os.close(shards);
    return result;
}
