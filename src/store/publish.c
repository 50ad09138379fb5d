/* SPDX-License-Identifier: MIT */
/*
 * Making a file appear whole or not at all: written and flushed without a name (or under a
 * temporary one where the file system cannot do that), then linked to its name, which fails if the
 * name is taken. So the first writer wins and no name ever changes its content.
 */
#include "base/os.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define EINTR_TRIES 100

void store_random_hex(char hex[17])
{
    uint64_t bits;

    /* the clock will do where there are no random numbers: O_EXCL refuses a name that is taken */
    if (os.getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits)
        bits = os_now() ^ (uint64_t)getpid() << 40;
    hex_from_bytes(hex, &bits, sizeof bits);
}

static int write_all(int fd, const char *bytes, size_t size)
{
    int tries = EINTR_TRIES;

    while (size) {
        const ssize_t n = os.write(fd, bytes, size);
        if (n > 0) {
            bytes += n;
            size -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            return n == 0 ? -EIO : -errno;
        } else if (!--tries) {
            return -EINTR;
        }
    }
    return 0;
}

/* Has what was written to a file reach the disk, or with `all` what was written to its whole file
 * system. After a failure the pages count as clean, and trying again would succeed without having
 * written them: the file is given up. */
static int flush(int fd, bool all)
{
    int tries = EINTR_TRIES;

    while (all ? os.syncfs(fd) : os.fsync(fd))
        if (errno != EINTR || !--tries)
            return -errno;
    return 0;
}

static int fill(int fd, mode_t mode, const void *bytes, size_t size)
{
    /* the umask may have taken the owner's rights or the mode may differ by file system */
    if (os.fchmod(fd, mode))
        return -errno;
    return write_all(fd, bytes, size);
}

/* The file system or kernel cannot make a file without a name: try publish_named. */
#define UNSUPPORTED 1

/* Writes a file without a name. A descriptor; or -errno, with -EOPNOTSUPP for UNSUPPORTED. */
static int write_unnamed(int directory, mode_t mode, const void *bytes, size_t size)
{
    const int fd = directory_openat(directory, ".", O_TMPFILE | O_WRONLY);

    if (fd < 0)
        return fd == -EISDIR || fd == -EINVAL || fd == -ENOENT ? -EOPNOTSUPP : fd;
    const int result = fill(fd, mode, bytes, size);
    if (result) {
        os.close(fd);
        return result;
    }
    return fd;
}

static int link_unnamed(int fd, int directory, const char *name)
{
    char self[32];

    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (!os.linkat(AT_FDCWD, self, directory, name, AT_SYMLINK_FOLLOW))
        return 0;
    return errno == EEXIST ? -EEXIST : UNSUPPORTED; /* e.g. no /proc */
}

static int publish_named(int directory, const char *name, mode_t mode, const void *bytes,
                         size_t size)
{
    char temporary[sizeof TEMPORARY_PREFIX + 32], random[2][17];
    struct stat st;

    store_random_hex(random[0]);
    store_random_hex(random[1]);
    snprintf(temporary, sizeof temporary, "%s%s%s", TEMPORARY_PREFIX, random[0], random[1]);
    const int fd = directory_openat(directory, temporary, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW);
    if (fd < 0)
        return fd == -EEXIST ? -EAGAIN : fd; /* -EEXIST is for the entry's name, not this one */
    int result = fill(fd, mode, bytes, size);
    if (result == 0)
        result = flush(fd, false);
    if (result == 0 && os.linkat(directory, temporary, directory, name, 0)) {
        result = -errno;
        /* over a network the link may have been made and only the answer lost */
        if (os.fstat(fd, &st) == 0 && st.st_nlink == 2)
            result = 0;
    }
    os.close(fd);
    os.unlinkat(directory, temporary, 0); /* if it stays, the evictor removes it later */
    return result;
}

/* Has the files that are open reach the disk. One is flushed by itself, which makes no other
 * program wait; several together, as 300 of 10 KB took 38 ms so and 670 ms one by one (ext4). A
 * failure then does not say whose bytes could not be written, so none may get its name. */
static int flush_all(const struct publication *p, size_t count)
{
    size_t open = 0;
    int fd = -1;

    for (size_t i = 0; i < count; i++)
        if (p[i].fd >= 0) {
            fd = p[i].fd;
            open++;
        }
    return open ? flush(fd, open > 1) : 0;
}

/* Whether a file is to be written once more, under a temporary name: files without a name cannot be
 * made here, or descriptors ran out while those of the others were open. */
static bool wants_name(int result)
{
    return result == UNSUPPORTED || result == -EOPNOTSUPP || result == -EMFILE || result == -ENFILE;
}

void store_publish_all(struct publication *p, size_t count, mode_t mode)
{
    for (size_t i = 0; i < count; i++)
        p[i].fd = p[i].directory < 0 ? p[i].directory
                                     : write_unnamed(p[i].directory, mode, p[i].bytes, p[i].size);
    const int flushed = flush_all(p, count);
    for (size_t i = 0; i < count; i++) {
        struct publication *const one = &p[i];
        one->result = one->fd;
        if (one->fd >= 0) {
            one->result = flushed ? flushed : link_unnamed(one->fd, one->directory, one->name);
            os.close(one->fd);
        }
        if (one->directory >= 0 && wants_name(one->result))
            one->result = publish_named(one->directory, one->name, mode, one->bytes, one->size);
    }
}

int store_publish(int directory, const char *name, mode_t mode, const void *bytes, size_t size)
{
    struct publication p = {.directory = directory, .name = name, .bytes = bytes, .size = size};

    store_publish_all(&p, 1, mode);
    return p.result;
}

int store_exchange(const struct store *s, int directory, const char *name, const void *bytes,
                   size_t size)
{
    char random[17], temporary[sizeof TEMPORARY_PREFIX + 17];

    store_random_hex(random);
    snprintf(temporary, sizeof temporary, "%s%s", TEMPORARY_PREFIX, random);
    const int error =
        store_publish(directory, temporary, directory_file_mode(s->trust), bytes, size);
    if (error)
        return error;
    if (os.renameat(directory, temporary, directory, name)) {
        const int renaming = -errno;
        os.unlinkat(directory, temporary, 0);
        return renaming;
    }
    return os.fsync(directory) ? -errno : 0;
}

quern_status store_try(struct store *s)
{
    char name[sizeof TEMPORARY_PREFIX + 16], random[17];

    FAIL_IF(s->mode != QUERN_CACHE_RW, QUERN_E_CACHE,
            "there is no cache directory that is written to");
    const int directory = store_open_directory(s, "objects", NULL, true);
    if (directory == -ENOENT)
        FAIL(QUERN_E_CACHE, "cache directory %s cannot be created: %s", s->path, strerror(ENOENT));
    if (directory < 0)
        return QUERN_E_CACHE; /* recorded */
    store_random_hex(random);
    snprintf(name, sizeof name, TEMPORARY_PREFIX "%s", random);
    const int error = store_publish(directory, name, directory_file_mode(s->trust), "", 1);
    if (!error)
        store_remove(directory, name);
    os.close(directory);
    FAIL_IF(error, QUERN_E_IO, "nothing can be stored in cache directory %s: %s", s->path,
            strerror(-error));
    return QUERN_OK;
}
