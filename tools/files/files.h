/* SPDX-License-Identifier: MIT */
/* Files that the command reads whole, and files that appear whole or not at all. */
#ifndef TOOLS_FILES_H
#define TOOLS_FILES_H

#include "command/options.h"

#include <stdbool.h>

/* Reads a regular file of at most `limit` bytes into malloc'ed memory with a NUL behind it. */
int file_read(const char *path, size_t limit, char **bytes, size_t *size);

/* Reads the file of operand `name` into malloc'ed memory aligned to 256 bytes. EXIT_MISUSE, with
 * both sizes, when it does not have exactly `bytes` bytes. */
int file_read_operand(const char *name, const char *path, uint64_t bytes, void **data);

/* Memory for an operand of any size, aligned to 256 bytes and zeroed; free() it. */
void *operand_memory(uint64_t bytes);

/* The size of a regular file. */
int file_size(const char *path, uint64_t *bytes);

/*
 * A set of files to be written together. Each is written to a temporary beside its place; commit
 * renames them in the order they were added. What is not committed is removed by outputs_discard,
 * and by SIGINT, SIGTERM and SIGHUP. A path that exists and is no regular file (/dev/stdout) is
 * written to directly, at commit. At most one set is alive at a time.
 */
#define OUTPUTS_MAX 64
struct outputs {
    size_t count;
    struct output {
        char *path;      /* where it goes, symbolic links resolved */
        char *temporary; /* null once renamed, and for special files */
        char *special;   /* bytes for a special file, else null */
        size_t special_bytes;
    } items[OUTPUTS_MAX];
    char *made_directory; /* a directory that was made for them, removed with them */
};

/* Makes the directory (one level) if there is none. */
int outputs_directory(struct outputs *o, const char *directory);
int outputs_add(struct outputs *o, const char *path, const void *bytes, size_t size);
int outputs_commit(struct outputs *o);
/* Always call it at the end; after a commit it only frees. */
void outputs_discard(struct outputs *o);
/* All three for one file. */
int file_write(const char *path, const void *bytes, size_t size);

/* "DIR/NAME", malloc'ed; null when out of memory. */
char *path_join(const char *directory, const char *name);

/* Whether the first `length` characters of a text end with `end`. */
bool ends_with(const char *text, size_t length, const char *end);

/* Finds the first of the names (with bars between them) for which PREFIXNAME is a file. *found is
 * its path, malloc'ed; null if there is none. */
int file_first(const char *prefix, const char *names, char **found);
/* Finds the first of the names (with bars between them) in the directory `path`, which must have
 * one; a `path` that is no directory is taken as it is. *found is malloc'ed; null on failure. */
int file_in(const char *path, const char *names, char **found);

/* The operand files of a command line: words "name=FILE". */
struct operand_file {
    const char *name; /* not NUL-terminated */
    size_t name_length;
    const char *path;
};
#define OPERAND_FILES_MAX 64
/* Splits the arguments behind the first; EXIT_MISUSE for a word without '=', a name twice, or too
 * many. */
int operand_files(const struct common *common, struct operand_file *files, size_t *count);
const char *operand_file(const struct operand_file *files, size_t count, const char *name);
/* Checks that every file's name is among `names`; EXIT_MISUSE, with the first that is not. */
int operand_files_known(const struct operand_file *files, size_t count, const char *const *names,
                        size_t name_count);

#endif
