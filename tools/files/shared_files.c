/* SPDX-License-Identifier: MIT */
/* The files of a remote cache, in a directory or by an address (shared_files.h). */
#include "files/shared_files.h"
#include "files/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* No file of a remote cache is larger (docs/formats.md). */
#define SHARED_BYTES_MAX ((size_t)17 << 20)

bool shared_is_url(const char *place)
{
    return strstr(place, "://");
}

int shared_prepare(const char *place)
{
    if (!shared_is_url(place) && mkdir(place, 0777) && errno != EEXIST)
        return fail("%s: %s", place, strerror(errno));
    return EXIT_OK;
}

/* Whether a file has these bytes. What is there and is no regular file is refused: a link would
 * have another file written, and a fifo waits for whoever reads it. */
static int compare_file(const char *path, const void *bytes, size_t size, bool *same)
{
    struct stat st;
    char block[4096];
    size_t at = 0, n = 0;

    *same = false;
    if (lstat(path, &st))
        return errno == ENOENT || errno == ENOTDIR ? EXIT_OK
                                                   : fail("%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fail("%s is no regular file: remove it, and push again", path);
    FILE *const f = fopen(path, "rbe");
    *same = f;
    while (*same && (n = fread(block, 1, sizeof block, f)) > 0) {
        *same = n <= size - at && !memcmp(block, (const char *)bytes + at, n);
        at += n;
    }
    *same = *same && feof(f) && at == size;
    if (f)
        fclose(f);
    return EXIT_OK;
}

/* Makes the directories of a path, of which the last part is a file's name. */
static int make_directories(char *path, size_t from)
{
    for (char *slash = path + from; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        const int failed = mkdir(path, 0777) && errno != EEXIST ? errno : 0;
        if (failed)
            return fail("%s: %s", path, strerror(failed));
        *slash = '/';
    }
    return EXIT_OK;
}

static int write_file(const char *place, const char *name, const void *bytes, size_t size,
                      bool *written)
{
    char *const path = path_join(place, name);
    bool same = false;

    if (!path)
        return fail("out of memory");
    int status = compare_file(path, bytes, size, &same);
    *written = !status && !same;
    if (*written)
        status = make_directories(path, strlen(place) + 1);
    if (*written && !status) /* whole: a server may be reading there */
        status = file_write(path, bytes, size);
    free(path);
    return status;
}

int shared_write(quern_ctx *ctx, const char *place, const char *name, const void *bytes,
                 size_t size, bool *written)
{
    bool unasked;

    if (!shared_is_url(place))
        return write_file(place, name, bytes, size, written ? written : &unasked);
    const quern_status e = quern_remote_put(ctx, place, name, bytes, size);
    return e ? fail_status(e, NULL) : EXIT_OK;
}

static int read_file(const char *place, const char *name, void **bytes, size_t *size)
{
    char *const path = path_join(place, name), *text = NULL;
    struct stat st;

    if (!path)
        return fail("out of memory");
    *size = 0;
    const bool absent = stat(path, &st) && (errno == ENOENT || errno == ENOTDIR);
    const int status = absent ? EXIT_OK : file_read(path, SHARED_BYTES_MAX, &text, size);
    *bytes = text;
    free(path);
    return status;
}

int shared_read(quern_ctx *ctx, const char *place, const char *name, void **bytes, size_t *size)
{
    if (!shared_is_url(place))
        return read_file(place, name, bytes, size);
    const quern_status e = quern_remote_get(ctx, place, name, bytes, size);
    return e ? fail_status(e, NULL) : EXIT_OK;
}
