/* SPDX-License-Identifier: MIT */
/* Reads target, problem, rows and kernel out of a key text (layer_words.h). */
#include "files/layer_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The field of a key text, "tag length\nbytes\n": *size bytes, or null when there is none. */
static const char *field(const char *text, const char *tag, size_t *size)
{
    const size_t tag_length = strlen(tag);

    for (const char *p = text; *p;) {
        /* no sscanf: it measures the whole rest of the text each time */
        const size_t name_length = strcspn(p, "0123456789\n");
        char *end;
        const size_t length = strtoull(p + name_length, &end, 10);
        if (end == p + name_length || *end != '\n')
            return NULL;
        const char *const bytes = end + 1;
        if (strnlen(bytes, length) < length)
            return NULL;
        if (name_length == tag_length + 1 && !strncmp(p, tag, tag_length) && p[tag_length] == ' ') {
            *size = length;
            return bytes;
        }
        p = bytes + length;
        p += *p == '\n';
    }
    return NULL;
}

/* Copies what follows `mark` within so many bytes of text, up to one of `ends`. */
static void copy_behind(const char *text, size_t size, const char *mark, const char *ends,
                        char *out, size_t room)
{
    const char *const at = memmem(text, size, mark, strlen(mark));

    out[0] = 0;
    if (!at)
        return;
    const char *const from = at + strlen(mark);
    const size_t left = size - (size_t)(from - text);
    size_t n = 0;
    while (n < left && !strchr(ends, from[n]))
        n++;
    snprintf(out, room, "%.*s", (int)(n < room ? n : room - 1), from);
}

/* "1 to 1" as 1, "5 to 8" as 5-8, "193 and more" as 193+, as prewarm has them. */
static void shorten(char m[48])
{
    long long lo, hi;

    if (strstr(m, " and more"))
        strcpy(strstr(m, " and more"), "+");
    else if (sscanf(m, "%lld to %lld", &lo, &hi) == 2 && lo == hi)
        snprintf(m, 48, "%lld", lo);
    else if (strstr(m, " to "))
        snprintf(m, 48, "%lld-%lld", lo, hi);
}

void layer_words_of(const char *key_text, struct layer_words *w)
{
    size_t size;
    const char *text = field(key_text, "processor", &size);

    *w = (struct layer_words){{0}};
    if (text)
        snprintf(w->target, sizeof w->target, "%.*s",
                 (int)(size < sizeof w->target ? size : sizeof w->target - 1), text);
    text = field(key_text, "source", &size);
    if (!text)
        return;
    copy_behind(text, size, ", M = ", "\n", w->m, sizeof w->m);
    shorten(w->m);
    copy_behind(text, size, "\n// op=", "\n", w->problem + 3, sizeof w->problem - 3);
    if (w->problem[3])
        memcpy(w->problem, "op=", 3);
    copy_behind(text, size, "#define SYMBOL ", " \n", w->kernel, sizeof w->kernel);
}

int layer_words_compare(const struct layer_words *a, const struct layer_words *b)
{
    const long rows_a = strtol(a->m, NULL, 10), rows_b = strtol(b->m, NULL, 10);
    int order = strcmp(a->target, b->target);

    order = order ? order : strcmp(a->problem, b->problem);
    order = order ? order : (rows_a > rows_b) - (rows_a < rows_b);
    return order ? order : strcmp(a->kernel, b->kernel);
}
