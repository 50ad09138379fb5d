/* SPDX-License-Identifier: MIT */
/* Reading tables about a target, and finding one among several: text_table.h. */
#include "plan/text_table.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>

#define SEPARATOR " | "
#define HEAD      "quern-"
#define VERSION   "1"

char *table_field(char **rest)
{
    char *const field = *rest;

    if (!field)
        return NULL;
    char *const end = strstr(field, SEPARATOR);
    *rest = end ? end + strlen(SEPARATOR) : NULL;
    if (end)
        *end = 0;
    return field;
}

bool table_number(const char *text)
{
    static const char digits[] = "0123456789";
    const size_t whole = strspn(text, digits);
    const size_t part = text[whole] == '.' ? 1 + strspn(text + whole + 1, digits) : 0;

    return whole && part != 1 && !text[whole + part];
}

static void head_of(const char *kind, const struct target *target, char head[64])
{
    snprintf(head, 64, HEAD "%s " VERSION " %s", kind, target->name);
}

static quern_status read_lines(const char *kind, char *text, const struct target *target,
                               table_line_fn fn, void *user)
{
    char expected[64];
    int number = 0;

    head_of(kind, target, expected);
    for (char *line = text, *end; line; line = end) {
        if ((end = strchr(line, '\n')))
            *end++ = 0;
        if (++number == 1)
            FAIL_IF(strcmp(line, expected) != 0, QUERN_E_ARGUMENT,
                    "line 1 is '%.60s'; expected '%s'", line, expected);
        if (number > 1 && *line && *line != '#')
            TRY(fn(user, line, number));
    }
    return QUERN_OK;
}

quern_status table_read(const char *kind, const char *text, size_t size, size_t most,
                        const struct target *target, table_line_fn fn, void *user)
{
    FAIL_IF(size > most, QUERN_E_ARGUMENT, "a %s table of %zu bytes; expected at most %zu", kind,
            size, most);
    FAIL_IF(memchr(text, 0, size), QUERN_E_ARGUMENT, "a %s table with a NUL byte", kind);
    char *const lines = os.malloc(size + 1);
    FAIL_IF(!lines, QUERN_E_MEMORY, "out of memory for a table");
    memcpy(lines, text, size);
    lines[size] = 0;
    const quern_status status = read_lines(kind, lines, target, fn, user);
    os.free(lines);
    return status;
}

const char *table_find(const char *kind, const char *text, size_t size, const struct target *target,
                       size_t *bytes)
{
    const char *const end = text + size;
    const char *found = NULL;
    char head[64];

    head_of(kind, target, head);
    for (const char *line = text, *next; line < end; line = next) {
        const size_t left = (size_t)(end - line), length = strlen(head);
        const char *const newline = memchr(line, '\n', left);
        next = newline ? newline + 1 : end;
        if (found && left >= strlen(HEAD) && !memcmp(line, HEAD, strlen(HEAD))) {
            *bytes = (size_t)(line - found);
            return found;
        }
        if (!found && left >= length && !memcmp(line, head, length) &&
            (left == length || line[length] == '\n'))
            found = line;
    }
    *bytes = found ? (size_t)(end - found) : 0;
    return found;
}
