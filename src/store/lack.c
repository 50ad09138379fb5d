/* SPDX-License-Identifier: MIT */
/* Why a store may lack a kernel though one was stored, for the message about it. */
#include "base/os.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Whether this user may not read an entry's file. */
static bool is_hidden(const struct store *s, const struct entry_name *name, struct str *why)
{
    const int shard = store_open_directory(s, "objects", name->shard, false);

    if (shard == -EACCES)
        str_add(why, quern_last_error()->message);
    if (shard < 0)
        return shard == -EACCES;
    const int fd = directory_openat(shard, name->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    os.close(shard);
    if (fd == -EACCES)
        str_addf(why, "its entry cannot be opened: %s; " DIRECTORY_READABLE, strerror(EACCES),
                 s->path);
    if (fd >= 0)
        os.close(fd);
    return fd == -EACCES;
}

enum store_lack store_lack(const struct store *s, const struct hash128 *key,
                           const struct hash128 *source_key, struct str *why)
{
    const struct entry_name exact = entry_name(key);
    struct entry_name other;

    if (s->mode == QUERN_CACHE_OFF)
        return STORE_LACK_NONE;
    const int fd = directory_open(s->path, false, s->trust);
    if (fd >= 0)
        os.close(fd);
    if (fd == -ENOENT)
        return STORE_LACK_DIRECTORY;
    if (fd == -EACCES) {
        str_add(why, quern_last_error()->message);
        return STORE_LACK_RIGHTS;
    }
    if (is_hidden(s, &exact, why))
        return STORE_LACK_RIGHTS;
    const int pointer = store_pointer(s, source_key, &other);
    if (pointer == -EACCES)
        str_add(why, quern_last_error()->message);
    return pointer == -EACCES || (!pointer && is_hidden(s, &other, why)) ? STORE_LACK_RIGHTS
                                                                         : STORE_LACK_NONE;
}
