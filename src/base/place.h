/* SPDX-License-Identifier: MIT */
/* Where this library was loaded from, and what lies beside it. */
#ifndef QUERN_BASE_PLACE_H
#define QUERN_BASE_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#define PLACE_MAX 1024

/* Directory of the file this code was loaded from: the shared library, or the program it is part
 * of. False: not known. */
bool place_of_library(char directory[PLACE_MAX]);

/*
 * Finds a file that belongs to this library, by its name: libexec/quern/NAME in the directory above
 * the library's or the one above that (an installation, a build tree), else NAME on the program's
 * run path, else where `make install` put it (PREFIX). `tried` receives every path looked at, for
 * the error message.
 */
bool place_of_helper(const char *name, char path[PLACE_MAX], char *tried, size_t tried_size);

/* Joins text into a path; false when it does not fit. */
bool place_join(char path[PLACE_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether there is a file (or what a link leads to) at the path. */
bool place_exists(const char *path);

/* The first of `names` that exists in `directory`, as a path; false, and "", if none does. */
bool place_first(const char *directory, const char *const names[], size_t count,
                 char path[PLACE_MAX]);

#endif
