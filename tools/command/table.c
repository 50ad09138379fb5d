/* SPDX-License-Identifier: MIT */
/* Lays out tables of text (table.h). */
#include "command/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    char *cell;

    va_start(ap, format);
    if (vasprintf(&cell, format, ap) < 0)
        cell = NULL;
    va_end(ap);
    add(t, cell);
}

void table_header(struct table *t, const char *names)
{
    for (const char *p = names; p;) {
        const char *bar = strchr(p, '|');
        add(t, strndup(p, bar ? (size_t)(bar - p) : strlen(p)));
        t->columns++;
        p = bar ? bar + 1 : NULL;
    }
}

bool table_print(const struct table *t, int indent)
{
    if (t->failed)
        return false;
    for (size_t i = 0; i < t->count; i++) {
        const size_t column = i % t->columns;
        const bool left = t->cells[column][0] == '<', last = column + 1 == t->columns;
        size_t width = 0;
        for (size_t j = column; j < t->count; j += t->columns) {
            const size_t length = strlen(t->cells[j]) - (left && j == column);
            width = length > width ? length : width;
        }
        const char *text = t->cells[i] + (left && i == column);
        printf("%*s%*s%s", column ? 2 : indent, "", left ? (last ? 0 : -(int)width) : (int)width,
               text, last ? "\n" : "");
    }
    return true;
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (struct table){0};
}
