/* SPDX-License-Identifier: MIT */
/* Files that the store reads and writes whole: whether one is as the store would have made it, and
 * its bytes. The rule is the same for entries, serials and tuning tables. */
#include "base/os.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define EINTR_TRIES 100

/* Reads `size` bytes, fewer only at the end of the file. Returns the number or -errno. */
static ssize_t read_up_to(int fd, char *to, size_t size)
{
    size_t got = 0;
    int tries = EINTR_TRIES;

    while (got < size) {
        const ssize_t n = os.read(fd, to + got, size - got);
        if (n == 0)
            break;
        if (n > 0)
            got += (size_t)n;
        else if (errno != EINTR || !--tries)
            return -errno;
    }
    return (ssize_t)got;
}

int store_read_exactly(int fd, size_t size, void **bytes)
{
    char one_more;
    char *const buffer = os.malloc(size ? size : 1);

    if (!buffer)
        return -ENOMEM;
    ssize_t n = read_up_to(fd, buffer, size);
    if (n == (ssize_t)size)
        n = read_up_to(fd, &one_more, 1);
    else if (n >= 0)
        n = -EAGAIN;
    if (n) {
        os.free(buffer);
        return n < 0 ? (int)n : -EAGAIN;
    }
    *bytes = buffer;
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

struct search {
    const struct stat *of;
    nlink_t found;
};

static int find_temporary(void *user, int directory, const char *name)
{
    struct search *const f = user;
    struct stat st;

    if (is_temporary_name(name) && !os.fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) &&
        same_file(&st, f->of))
        f->found++;
    return 0;
}

/*
 * Whether a file has names that the store did not give it. Where files cannot be made without a
 * name, a writer's temporary is a second name of the entry until it is removed, and stays if the
 * writer is killed just then.
 */
static bool has_alien_name(int shard, int fd, const struct stat *st)
{
    struct search f = {.of = st};
    struct stat now;

    if (st->st_nlink <= 1)
        return false;
    /* listed through another open file description: reading a directory moves its offset */
    const int list = directory_openat(shard, ".", O_RDONLY | O_DIRECTORY);
    if (list >= 0)
        store_each_name(list, find_temporary, &f);
    if (st->st_nlink <= 1 + f.found)
        return false;
    /* a writer may have removed its temporary after st was taken: then one name is left */
    return fd < 0 || os.fstat(fd, &now) || now.st_nlink > 1;
}

const char *store_unfit(const struct store *s, int shard, int fd, const struct stat *st)
{
    return directory_unfit(st, s->trust, has_alien_name(shard, fd, st) ? st->st_nlink : 1);
}

/* ---- files that have a name of their own ----------------------------------------------------- */

int store_open_fit(const struct store *s, int directory, const char *name, const char *what,
                   struct stat *st)
{
    /* O_NONBLOCK: opening a fifo must not hang */
    const int fd = directory_openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const char *unfit = fd == -ELOOP ? "it is a symbolic link" : NULL;
    int error = fd < 0 ? -fd : os.fstat(fd, st) ? errno : 0;

    if (error == ENOENT)
        return -ENOENT;
    if (!error)
        unfit = store_unfit(s, directory, fd, st);
    if (!error && !unfit)
        return fd;
    if (fd >= 0)
        os.close(fd);
    error = unfit ? EPERM : error;
    error_set(unfit ? QUERN_E_CACHE : QUERN_E_IO, __FILE__, FAIL_AT("open"),
              "%s %.100s in cache directory %s is not used: %s", what, name, s->path,
              unfit ? unfit : strerror(error));
    return -error;
}

/* Reads what is open as a whole; closes it. */
static quern_status read_text(int fd, size_t size, size_t limit, const char *path, char **text)
{
    void *bytes = NULL;
    const int error = size > limit ? -EFBIG : store_read_exactly(fd, size, &bytes);

    os.close(fd);
    FAIL_IF(error == -ENOMEM, QUERN_E_MEMORY, "no memory for %.400s", path);
    FAIL_IF(error == -EFBIG, QUERN_E_CACHE, "%.400s has %zu bytes; at most %zu are read", path,
            size, limit);
    FAIL_IF(error == -EAGAIN, QUERN_E_IO, "%.400s changed while it was read", path);
    FAIL_IF(error, QUERN_E_IO, "%.400s cannot be read: %s", path, strerror(-error));
    *text = bytes;
    return QUERN_OK;
}

/* Why a named file is not read: QUERN_E_IO for what the system says, QUERN_E_CACHE for a file that
 * is not safe. The recorded failure says more. */
static quern_status not_read(const char *what, int error)
{
    struct error_record why;

    error_save(&why);
    FAIL(error == EPERM || error == ELOOP || error == EINVAL ? QUERN_E_CACHE : QUERN_E_IO,
         "%s cannot be read: %s", what, why.message);
}

quern_status store_read_named(const char *what, const char *path, size_t limit, char **text,
                              size_t *size)
{
    char *real = NULL;
    struct stat st;

    TRY(directory_resolve(path, &real));
    const int fd = directory_open_file(real);
    os.free(real);
    if (fd < 0)
        return not_read(what, -fd);
    if (os.fstat(fd, &st)) {
        const int error = errno;
        os.close(fd);
        FAIL(QUERN_E_IO, "%.400s cannot be examined: %s", path, strerror(error));
    }
    *size = (size_t)st.st_size;
    return read_text(fd, *size, limit, path, text);
}

/* Opens `tuning` below the cache directory, which is of no version: a table says its own. */
static int open_tuning(const struct store *s, bool create)
{
    char shown[PATH_MAX];
    const int cache = directory_open(s->path, create, s->trust);

    if (cache < 0)
        return cache;
    snprintf(shown, sizeof shown, "%s/" TUNING_DIRECTORY, s->path);
    const int fd = directory_open_in(cache, TUNING_DIRECTORY, create, shown, s->trust);
    os.close(cache);
    return fd;
}

quern_status store_read_tuning(const struct store *s, const char *name, size_t limit, char **text,
                               size_t *size)
{
    struct stat st;

    *text = NULL;
    *size = 0;
    if (s->mode == QUERN_CACHE_OFF)
        return QUERN_OK;
    const int directory = open_tuning(s, false);
    if (directory == -ENOENT)
        return QUERN_OK;
    if (directory < 0)
        return QUERN_E_CACHE;
    const int fd = store_open_fit(s, directory, name, "tuning table", &st);
    os.close(directory);
    if (fd < 0)
        return fd == -ENOENT ? QUERN_OK : quern_last_error()->status;
    *size = (size_t)st.st_size;
    return read_text(fd, *size, limit, name, text);
}

quern_status store_write_tuning(const struct store *s, const char *name, const char *text,
                                size_t size)
{
    FAIL_IF(s->mode != QUERN_CACHE_RW, QUERN_E_CACHE,
            "tuning table %.100s cannot be kept: there is no cache directory that is written to",
            name);
    const int directory = open_tuning(s, true);
    if (directory < 0)
        return QUERN_E_CACHE;
    const int error = store_exchange(s, directory, name, text, size);
    os.close(directory);
    FAIL_IF(error, QUERN_E_IO, "tuning table %.100s in cache directory %s cannot be written: %s",
            name, s->path, strerror(-error));
    return QUERN_OK;
}
