/* SPDX-License-Identifier: MIT */
/* Lays out tables of text (table.h). */
#include "command/table.h"
#include "command/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enough for widths to settle, and little memory. */
#define BLOCK_CELLS 4096

static void add(struct table *t, char *cell)
{
    if (t->count == t->capacity) {
        const size_t capacity = t->capacity ? 2 * t->capacity : 64;
        char **cells = realloc(t->cells, capacity * sizeof *cells);
        if (cells) {
            t->cells = cells;
            t->capacity = capacity;
        } else {
            t->failed = true;
        }
    }
    if (!cell || t->failed) {
        t->failed = true;
        free(cell);
        return;
    }
    t->cells[t->count++] = cell;
}

void table_cell(struct table *t, const char *format, ...)
{
    va_list ap;
    char *text;

    va_start(ap, format);
    const int length = vasprintf(&text, format, ap);
    va_end(ap);
    char *const cell = length < 0 ? NULL : strdup(shown_line(text));
    if (length >= 0)
        free(text);
    add(t, cell);
}

void table_header(struct table *t, const char *names)
{
    for (const char *p = names; p && t->columns < TABLE_COLUMNS_MAX;) {
        const char *bar = strchr(p, '|');
        t->left[t->columns] = *p == '<';
        p += *p == '<';
        add(t, strndup(p, bar ? (size_t)(bar - p) : strlen(p)));
        t->columns++;
        p = bar ? bar + 1 : NULL;
    }
}

bool table_print(struct table *t, int indent)
{
    if (t->failed)
        return false;
    for (size_t i = 0; i < t->count; i++) {
        int *const width = &t->widths[i % t->columns];
        const int length = (int)strlen(t->cells[i]);
        *width = length > *width ? length : *width;
    }
    for (size_t i = 0; i < t->count; i++) {
        const size_t column = i % t->columns;
        const bool last = column + 1 == t->columns;
        const int width = t->widths[column];
        printf("%*s%*s%s", column ? 2 : indent, "", t->left[column] ? (last ? 0 : -width) : width,
               t->cells[i], last ? "\n" : "");
        free(t->cells[i]);
    }
    t->count = 0;
    return true;
}

bool table_print_block(struct table *t, int indent)
{
    return t->count < BLOCK_CELLS || table_print(t, indent);
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (struct table){0};
}
