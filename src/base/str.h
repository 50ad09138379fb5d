/* SPDX-License-Identifier: MIT */
/* A growing string that is always NUL-terminated. Zero-initialise it; free it with str_free. */
#ifndef QUERN_BASE_STR_H
#define QUERN_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str {
    char *text; /* null while empty: use str_text */
    size_t length, capacity;
    bool failed; /* an allocation failed; appends since then did nothing */
};

void str_add(struct str *s, const char *text);
void str_add_bytes(struct str *s, const void *bytes, size_t n);
/* Bytes of anywhere, as one line that is safe to print (quern_text_shown). */
void str_add_shown(struct str *s, const char *bytes, size_t n);
void str_addf(struct str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void str_add_integer(struct str *s, int64_t value);
void str_clear(struct str *s); /* keeps the memory */
void str_free(struct str *s);

/* Never null. */
static inline const char *str_text(const struct str *s)
{
    return s->text ? s->text : "";
}

/* Gives the text to the caller (malloc'ed, "" if empty) and empties s; null when out of memory. */
char *str_take(struct str *s);

#define DECIMAL_MAX 21 /* bytes of an int64_t's decimal digits, sign and NUL */
/* The digits of a number, somewhere in `room`: printf takes ten times as long. */
const char *decimal(char room[DECIMAL_MAX], int64_t value);

/* 2n lower-case hexadecimal digits and a NUL. */
void hex_from_bytes(char *hex, const void *bytes, size_t n);

#endif
