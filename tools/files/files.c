/* SPDX-License-Identifier: MIT */
/* Reads files whole, and writes them so that they appear whole or not at all (files.h). */
#include "files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A call that is interrupted so often counts as failed. */
#define EINTR_TRIES 100

/* ---- Reading --------------------------------------------------------------------------------- */

/* Opens a regular file for reading; its size goes to *bytes. */
static int open_regular(const char *path, int *fd, uint64_t *bytes)
{
    struct stat st;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return fail("cannot open %s: %s", path, strerror(errno));
    if (fstat(*fd, &st) || !S_ISREG(st.st_mode)) {
        close(*fd);
        return fail("cannot read %s: it is not a regular file", path);
    }
    *bytes = (uint64_t)st.st_size;
    return EXIT_OK;
}

/* Reads exactly `size` bytes; a file that shrinks meanwhile is an error. */
static int read_all(int fd, const char *path, void *bytes, size_t size)
{
    size_t done = 0;
    int tries = EINTR_TRIES;

    while (done < size) {
        const ssize_t n = read(fd, (char *)bytes + done, size - done);
        if (n < 0 && errno == EINTR && --tries)
            continue;
        if (n < 0)
            return fail("cannot read %s: %s", path, strerror(errno));
        if (n == 0)
            return fail("cannot read %s: it ended after %zu of %zu bytes", path, done, size);
        done += (size_t)n;
    }
    return EXIT_OK;
}

/* What a file is that begins like none that is read, and what to give instead; null: it may be one.
 */
static const char *other_kind(int fd)
{
    static const struct {
        const char *begins, *is;
    } kinds[] = {
        {"GGUF",
         "a GGUF file, which is not read; give the config.json of the model that it was made "
         "from, or a manifest as in cache/models"},
        {"version https://git-lfs.github.com/spec/",
         "a pointer of Git LFS to a file that was not fetched; get it by: git lfs pull"},
    };
    char head[64] = "";

    if (pread(fd, head, sizeof head - 1, 0) < 0)
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strncmp(head, kinds[i].begins, strlen(kinds[i].begins)))
            return kinds[i].is;
    return NULL;
}

int file_read(const char *path, size_t limit, char **bytes, size_t *size)
{
    uint64_t length;
    int fd;

    int status = open_regular(path, &fd, &length);
    if (status)
        return status;
    const char *const other = other_kind(fd);
    if (other) {
        close(fd);
        return fail("%s is %s", path, other);
    }
    if (length > limit) {
        close(fd);
        return fail("%s has %llu bytes; at most %zu are read", path, (unsigned long long)length,
                    limit);
    }
    *size = (size_t)length;
    *bytes = malloc(*size + 1);
    if (!*bytes) {
        close(fd);
        return fail("out of memory for the %zu bytes of %s", *size, path);
    }
    status = read_all(fd, path, *bytes, *size);
    close(fd);
    if (status) {
        free(*bytes);
        *bytes = NULL;
        return status;
    }
    (*bytes)[*size] = 0;
    return EXIT_OK;
}

int file_size(const char *path, uint64_t *bytes)
{
    int fd;
    const int status = open_regular(path, &fd, bytes);

    if (!status)
        close(fd);
    return status;
}

void *operand_memory(uint64_t bytes)
{
    const uint64_t rounded = (bytes + 255) & ~(uint64_t)255;
    void *memory;

    if (rounded < bytes || rounded > SIZE_MAX)
        return NULL;
    memory = aligned_alloc(256, rounded ? rounded : 256);
    if (memory)
        memset(memory, 0, rounded ? rounded : 256);
    return memory;
}

int file_read_operand(const char *name, const char *path, uint64_t bytes, void **data)
{
    uint64_t length;
    int fd;

    int status = open_regular(path, &fd, &length);
    if (status)
        return status;
    if (length != bytes) {
        close(fd);
        return misuse("operand %s: %s has %llu bytes, and must have %llu", name, path,
                      (unsigned long long)length, (unsigned long long)bytes);
    }
    *data = operand_memory(bytes);
    if (!*data) {
        close(fd);
        return fail("out of memory for the %llu bytes of operand %s", (unsigned long long)bytes,
                    name);
    }
    status = read_all(fd, path, *data, (size_t)bytes);
    close(fd);
    if (status) {
        free(*data);
        *data = NULL;
    }
    return status;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The set of files whose temporaries a signal handler must remove. */
static struct outputs *volatile alive;

static void remove_and_die(int number)
{
    struct outputs *o = alive;

    if (o) {
        for (size_t i = 0; i < o->count; i++)
            if (o->items[i].temporary)
                unlink(o->items[i].temporary);
        if (o->made_directory)
            rmdir(o->made_directory);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

/* Blocks signals while a temporary is made and noted for the handler, or forgotten and removed: a
 * handler that ran between the two would leave it behind. The library's threads take no signals. */
static void hold_signals(sigset_t *before)
{
    sigset_t ours;

    sigemptyset(&ours);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&ours, signals[i]);
    sigprocmask(SIG_BLOCK, &ours, before);
}

static void take_signals(const sigset_t *before)
{
    const int error = errno;

    sigprocmask(SIG_SETMASK, before, NULL);
    errno = error;
}

static void watch_signals(struct outputs *o)
{
    if (alive == o)
        return;
    alive = o;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction action;
        /* a signal that was ignored when the command began, as by nohup, stays ignored */
        if (!sigaction(signals[i], NULL, &action) && action.sa_handler == SIG_DFL) {
            action.sa_handler = remove_and_die;
            sigaction(signals[i], &action, NULL);
        }
    }
}

static int write_all(int fd, const void *bytes, size_t size)
{
    size_t done = 0;
    int tries = EINTR_TRIES;

    while (done < size) {
        const ssize_t n = write(fd, (const char *)bytes + done, size - done);
        if (n < 0 && errno == EINTR && --tries)
            continue;
        if (n < 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

int outputs_directory(struct outputs *o, const char *directory)
{
    struct stat st;
    sigset_t before;

    watch_signals(o);
    hold_signals(&before);
    const bool made = !mkdir(directory, 0777);
    if (made)
        o->made_directory = strdup(directory);
    take_signals(&before);
    if (made)
        return EXIT_OK;
    if (errno != EEXIST)
        return fail("cannot make the directory %s: %s", directory, strerror(errno));
    if (stat(directory, &st) || !S_ISDIR(st.st_mode))
        return fail("%s is not a directory", directory);
    return EXIT_OK;
}

static int cannot_write(const char *path)
{
    return fail("cannot write %s: %s", path, strerror(errno));
}

/* Keeps the bytes for a path that is no regular file, such as /dev/stdout, until commit. */
static int add_special(struct output *item, const void *bytes, size_t size)
{
    item->special = malloc(size ? size : 1);
    if (!item->special)
        return fail("out of memory for the %zu bytes of %s", size, item->path);
    memcpy(item->special, bytes, size);
    item->special_bytes = size;
    return EXIT_OK;
}

int outputs_add(struct outputs *o, const char *path, const void *bytes, size_t size)
{
    static const char suffix[] = ".XXXXXX";
    struct stat st;

    if (o->count == OUTPUTS_MAX)
        return fail("more than %d files to write", OUTPUTS_MAX);
    watch_signals(o);
    struct output *item = &o->items[o->count];
    /* realpath cannot tell whether something is there: it fails for /dev/stdout when that is a
     * pipe, because a pipe has no path. Without this stat the name would be taken for a free one,
     * and the commit would rename the new file over the link /dev/stdout itself. */
    const bool exists = !stat(path, &st);
    if (!exists && errno != ENOENT)
        return cannot_write(path);
    if (exists && S_ISDIR(st.st_mode))
        return fail("cannot write %s: it is a directory", path);
    *item = (struct output){.path = exists && S_ISREG(st.st_mode) ? realpath(path, NULL) : NULL};
    const bool special = exists && !item->path;
    if (!item->path)
        item->path = strdup(path);
    if (!item->path)
        return fail("out of memory");
    o->count++;
    if (special)
        return add_special(item, bytes, size);

    char *temporary = malloc(strlen(item->path) + sizeof suffix);
    if (!temporary)
        return fail("out of memory");
    strcpy(temporary, item->path);
    strcat(temporary, suffix);
    sigset_t before;
    hold_signals(&before);
    const int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd >= 0)
        item->temporary = temporary;
    take_signals(&before);
    if (fd < 0) {
        free(temporary);
        return cannot_write(item->path);
    }
    const mode_t mask = umask(0);
    umask(mask);
    /* synced before the rename: after a power cut the name must not stand for half a file */
    const int bad = write_all(fd, bytes, size) || fchmod(fd, 0666 & ~mask) || fsync(fd);
    const int error = errno;
    close(fd);
    errno = error;
    return bad ? cannot_write(item->path) : EXIT_OK;
}

static int commit_special(const struct output *item)
{
    const int fd = open(item->path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return cannot_write(item->path);
    const int bad = write_all(fd, item->special, item->special_bytes);
    const int error = errno;
    close(fd);
    errno = error;
    return bad ? cannot_write(item->path) : EXIT_OK;
}

int outputs_commit(struct outputs *o)
{
    for (size_t i = 0; i < o->count; i++) {
        struct output *item = &o->items[i];
        if (item->special) {
            const int status = commit_special(item);
            if (status)
                return status;
            continue;
        }
        if (rename(item->temporary, item->path))
            return cannot_write(item->path);
        char *done = item->temporary;
        item->temporary = NULL;
        free(done);
        /* the directory stays, because a file of the set is in place there */
        char *made = o->made_directory;
        o->made_directory = NULL;
        free(made);
    }
    return EXIT_OK;
}

void outputs_discard(struct outputs *o)
{
    sigset_t before;

    hold_signals(&before);
    if (alive == o)
        alive = NULL;
    for (size_t i = 0; i < o->count; i++) {
        struct output *item = &o->items[i];
        if (item->temporary)
            unlink(item->temporary);
        free(item->temporary);
        free(item->special);
        free(item->path);
    }
    if (o->made_directory)
        rmdir(o->made_directory);
    free(o->made_directory);
    *o = (struct outputs){0};
    take_signals(&before);
}

int file_write(const char *path, const void *bytes, size_t size)
{
    static struct outputs outputs;
    int status = outputs_add(&outputs, path, bytes, size);

    if (!status)
        status = outputs_commit(&outputs);
    outputs_discard(&outputs);
    return status;
}

char *path_join(const char *directory, const char *name)
{
    char *path;

    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

bool ends_with(const char *text, size_t length, const char *end)
{
    const size_t n = strlen(end);

    return length >= n && !memcmp(text + length - n, end, n);
}

int file_first(const char *prefix, const char *names, char **found)
{
    *found = NULL;
    for (const char *name = names; *name; name += *name == '|') {
        const size_t length = strcspn(name, "|");
        if (asprintf(found, "%s%.*s", prefix, (int)length, name) < 0) {
            *found = NULL;
            return fail("out of memory");
        }
        if (!access(*found, F_OK))
            return EXIT_OK;
        free(*found);
        *found = NULL;
        name += length;
    }
    return EXIT_OK;
}

int file_in(const char *path, const char *names, char **found)
{
    struct stat s;

    *found = NULL;
    if (stat(path, &s) || !S_ISDIR(s.st_mode)) {
        *found = strdup(path);
        return *found ? EXIT_OK : fail("out of memory");
    }
    char *const prefix = path_join(path, "");
    const int status = prefix ? file_first(prefix, names, found) : fail("out of memory");
    free(prefix);
    if (status || *found)
        return status;
    const int first = (int)strcspn(names, "|");
    return fail("%s is a directory without %.*s%s%s", path, first, names,
                names[first] ? " or " : "", names[first] ? names + first + 1 : "");
}

/* ---- Operand files on the command line ------------------------------------------------------- */

int operand_files(const struct common *common, struct operand_file *files, size_t *count)
{
    *count = 0;
    for (int i = 1; i < common->argument_count; i++) {
        const char *const given = common->arguments[i], *const equals = strchr(given, '=');
        if (!equals || equals == given || !equals[1])
            return misuse("'%s' is not an operand; write name=FILE, e.g. a=a.bin", given);
        const struct operand_file file = {given, (size_t)(equals - given), equals + 1};
        for (size_t j = 0; j < *count; j++)
            if (files[j].name_length == file.name_length &&
                !memcmp(files[j].name, file.name, file.name_length))
                return misuse("operand %.*s is given twice", (int)file.name_length, file.name);
        if (*count == OPERAND_FILES_MAX)
            return misuse("more than %d operands", OPERAND_FILES_MAX);
        files[(*count)++] = file;
    }
    return EXIT_OK;
}

const char *operand_file(const struct operand_file *files, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(name) == files[i].name_length &&
            !memcmp(name, files[i].name, files[i].name_length))
            return files[i].path;
    return NULL;
}

int operand_files_known(const struct operand_file *files, size_t count, const char *const *names,
                        size_t name_count)
{
    for (size_t i = 0; i < count; i++) {
        char list[512] = "";
        size_t j;
        for (j = 0; j < name_count; j++) {
            if (strlen(names[j]) == files[i].name_length &&
                !memcmp(names[j], files[i].name, files[i].name_length))
                break;
            if (strlen(list) + strlen(names[j]) + 2 < sizeof list) {
                strcat(list, " ");
                strcat(list, names[j]);
            }
        }
        if (j == name_count)
            return misuse("there is no operand '%.*s' here; there are:%s",
                          (int)files[i].name_length, files[i].name, list);
    }
    return EXIT_OK;
}
