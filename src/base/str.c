/* SPDX-License-Identifier: MIT */
/* The growing string (str.h) that sources, keys and messages are put together in. */
#include "base/str.h"
#include "base/os.h"

#include <quern/tool.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool reserve(struct str *s, size_t more)
{
    if (s->failed || more > SIZE_MAX / 4 - s->length) {
        s->failed = true;
        return false;
    }
    const size_t need = s->length + more + 1;
    if (need > s->capacity) {
        size_t capacity = s->capacity ? s->capacity : 64;
        while (capacity < need)
            capacity *= 2;
        char *const text = os.realloc(s->text, capacity);
        if (!text) {
            s->failed = true;
            return false;
        }
        s->text = text;
        s->capacity = capacity;
    }
    return true;
}

void str_add_bytes(struct str *s, const void *bytes, size_t n)
{
    if (!reserve(s, n))
        return;
    if (n)
        memcpy(s->text + s->length, bytes, n);
    s->length += n;
    s->text[s->length] = 0;
}

void str_add(struct str *s, const char *text)
{
    str_add_bytes(s, text, strlen(text));
}

void str_add_shown(struct str *s, const char *bytes, size_t n)
{
    if (n < SIZE_MAX / 8 && reserve(s, 6 * n))
        s->length += quern_text_shown(QUERN_SHOWN_LINE, bytes, n, s->text + s->length, 6 * n + 1);
}

void str_addf(struct str *s, const char *format, ...)
{
    va_list ap, again;

    va_start(ap, format);
    va_copy(again, ap);
    /* into the room that there is; once more when it was too small */
    const size_t room = s->failed ? 0 : s->capacity - s->length;
    const int n = vsnprintf(room ? s->text + s->length : NULL, room, format, ap);
    va_end(ap);
    if (n < 0)
        s->failed = true;
    else if ((size_t)n < room)
        s->length += (size_t)n;
    else if (reserve(s, (size_t)n)) {
        vsnprintf(s->text + s->length, (size_t)n + 1, format, again);
        s->length += (size_t)n;
    }
    va_end(again);
    if (s->failed && s->text)
        s->text[s->length] = 0; /* not the part that there was room for */
}

void str_add_integer(struct str *s, int64_t value)
{
    char room[DECIMAL_MAX];

    str_add(s, decimal(room, value));
}

void str_clear(struct str *s)
{
    s->length = 0;
    s->failed = false;
    if (s->text)
        s->text[0] = 0;
}

void str_free(struct str *s)
{
    os.free(s->text);
    *s = (struct str){0};
}

char *str_take(struct str *s)
{
    char *text = NULL;

    if (reserve(s, 0)) {
        text = s->text;
        text[s->length] = 0;
        *s = (struct str){0};
    } else {
        str_free(s);
    }
    return text;
}

const char *decimal(char room[DECIMAL_MAX], int64_t value)
{
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
    char *at = room + DECIMAL_MAX - 1;

    *at = 0;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    return at;
}

void hex_from_bytes(char *hex, const void *bytes, size_t n)
{
    const uint8_t *const b = bytes;

    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = "0123456789abcdef"[b[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[b[i] & 15];
    }
    hex[2 * n] = 0;
}
