/* SPDX-License-Identifier: MIT */
/* A table of text for stdout: columns as wide as their widest cell. */
#ifndef TOOLS_TABLE_H
#define TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise it; free it with table_free. */
struct table {
    size_t columns; /* of the header */
    size_t count, capacity;
    char **cells; /* row by row, the header first */
    bool failed;  /* out of memory: prints nothing */
};

/* Adds the next cell. The header's cells come first, then those of each row. */
void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The header: names separated by '|'. A name that starts with '<' is a left-aligned column. */
void table_header(struct table *t, const char *names);
/* Prints it with `indent` blanks in front; false when out of memory. */
bool table_print(const struct table *t, int indent);
void table_free(struct table *t);

#endif
