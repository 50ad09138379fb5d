/* SPDX-License-Identifier: MIT */
/* Files of entries: reading one, and judging whether the store can have made it. */
#include "base/os.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>

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
    if (!S_ISREG(st->st_mode))
        return "it is not a regular file";
    if (!directory_trusts(st, s->trust))
        return "it belongs to or can be written to by another user";
    if (has_alien_name(shard, fd, st))
        return "it has a second name elsewhere (a hard link)";
    return NULL;
}
