/* SPDX-License-Identifier: MIT */
/* A table of text for stdout: columns as wide as their widest cell. A long one is printed in
 * blocks, so that it is never in memory whole; a column is then as wide as its widest cell yet. */
#ifndef TOOLS_TABLE_H
#define TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise it; free it with table_free. */
#define TABLE_COLUMNS_MAX 16
struct table {
    size_t columns; /* of the header, at most TABLE_COLUMNS_MAX */
    size_t count, capacity;
    char **cells; /* what is not printed yet, row by row, the header first */
    int widths[TABLE_COLUMNS_MAX];
    bool left[TABLE_COLUMNS_MAX];
    bool failed; /* out of memory: prints nothing */
};

/* Adds the next cell. The header's cells come first, then those of each row. */
void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The header: names separated by '|'. A name that starts with '<' is a left-aligned column. */
void table_header(struct table *t, const char *names);
/* Prints the rows that are not printed yet, with `indent` blanks in front, and lets go of them;
 * false when out of memory. */
bool table_print(struct table *t, int indent);
/* The same once there are enough of them for a block; to be called behind each row. */
bool table_print_block(struct table *t, int indent);
void table_free(struct table *t);

#endif
