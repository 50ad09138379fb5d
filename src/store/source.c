/* SPDX-License-Identifier: MIT */
/*
 * Finding an entry by its source key alone. The pointer v1/sources/ab/cdef… is a symbolic link to
 * no file: its text is the 32 digits of an entry key. A link serves because it is made in one step,
 * whole or not at all, and costs no data block. A pointer is only a hint: the entry that it names
 * is proven like any other.
 */
#include "base/os.h"
#include "store/internal.h"
#include "store/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Reads a pointer; 0 with `entry` filled, or -errno: -EINVAL if it holds no entry key. */
static int read_pointer(int shard, const char *name, struct entry_name *entry)
{
    char hex[KEY_HEX + 1];
    const ssize_t n = os.readlinkat(shard, name, hex, sizeof hex);

    if (n < 0)
        return -errno;
    if (n != KEY_HEX)
        return -EINVAL;
    hex[KEY_HEX] = 0;
    if (strspn(hex, "0123456789abcdef") != KEY_HEX)
        return -EINVAL;
    *entry = entry_name_of_hex(hex);
    return 0;
}

/* Whether an entry's file is there; also true when that cannot be told. `objects`: v1/objects, or
 * -errno. */
static bool entry_exists(int objects, const struct entry_name *entry)
{
    char path[sizeof entry->shard + sizeof entry->name];
    struct stat st;

    if (objects < 0)
        return objects != -ENOENT;
    snprintf(path, sizeof path, "%s/%s", entry->shard, entry->name);
    return !os.fstatat(objects, path, &st, AT_SYMLINK_NOFOLLOW) || errno != ENOENT;
}

/* The name of a source key's pointer: as an entry's, without ".qk". */
static struct entry_name pointer_name(const struct hash128 *source_key)
{
    struct entry_name n = entry_name(source_key);

    n.name[NAME_HEX] = 0;
    return n;
}

void store_point(struct store *s, int objects, int sources, const struct store_record *record,
                 const struct hash128 *key)
{
    struct hash128 source_key;
    struct entry_name old;
    const char *text;
    size_t bytes;
    char hex[KEY_HEX + 1];

    if (!key_source(record->key_text, record->key_text_bytes, &source_key, &text, &bytes))
        return;
    hex_from_bytes(hex, key->bytes, sizeof key->bytes);
    const struct entry_name name = pointer_name(&source_key);
    const int shard =
        sources < 0 ? sources : store_open_shard(s, sources, "sources", name.shard, true);
    if (shard < 0) {
        store_complain(s, DOING_PUT, -shard, NULL);
        return;
    }
    if (os.symlinkat(hex, shard, name.name) && errno == EEXIST) {
        /* a pointer to an entry that exists stays: the first writer wins, as with entries */
        const int bad = read_pointer(shard, name.name, &old);
        if (bad == -EINVAL || (bad == 0 && !entry_exists(objects, &old))) {
            store_remove(shard, name.name);
            /* where it fails, another process's pointer is as good */
            (void)!os.symlinkat(hex, shard, name.name);
        }
    }
    os.close(shard);
}

int store_pointer(const struct store *s, const struct hash128 *source_key, struct entry_name *entry)
{
    const struct entry_name name = pointer_name(source_key);
    const int shard = store_open_directory(s, "sources", name.shard, false);

    if (shard < 0)
        return shard;
    const int result = read_pointer(shard, name.name, entry);
    os.close(shard);
    return result == -EINVAL ? -ENOENT : result;
}

static bool is_pointer_name(const char *name)
{
    return strlen(name) == NAME_HEX && strspn(name, "0123456789abcdef") == NAME_HEX;
}

/* ---- removing -------------------------------------------------------------------------------- */

struct sweep {
    int objects; /* as for entry_exists */
    bool all;
    int error; /* the first */
};

static int sweep_name(void *user, int shard, const char *name)
{
    struct sweep *const w = user;
    struct entry_name entry;

    if (!is_pointer_name(name))
        return 0;
    if (!w->all && read_pointer(shard, name, &entry) == 0 && entry_exists(w->objects, &entry))
        return 0;
    const int error = store_remove(shard, name);
    if (error && error != -ENOENT && !w->error)
        w->error = error;
    return 0;
}

static int sweep_shard(void *user, int shard, const char *name)
{
    (void)name;
    return store_each_name(shard, sweep_name, user);
}

int store_sweep_pointers(struct store *s, unsigned first, unsigned end, bool all)
{
    struct sweep w = {.objects = store_open_directory(s, "objects", NULL, false), .all = all};
    const int error = store_each_shard_of(s, "sources", first, end, sweep_shard, &w);

    if (w.objects >= 0)
        os.close(w.objects);
    return error ? error : w.error;
}
