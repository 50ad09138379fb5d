/* SPDX-License-Identifier: MIT */
/* Reads the fields of a key text (key.h), for look-ups by source and for entries that are
 * stored. */
#include "store/key.h"

#include <string.h>

/* Decimal digits up to a newline at text[at]; false when there are none or the number is huge. */
static bool read_length(const char *text, size_t text_bytes, size_t *at, size_t *length)
{
    const size_t first = *at;
    size_t value = 0;

    for (; *at < text_bytes && text[*at] >= '0' && text[*at] <= '9'; ++*at) {
        if (value > text_bytes)
            return false;
        value = value * 10 + (size_t)(text[*at] - '0');
    }
    if (*at == first || *at >= text_bytes || text[*at] != '\n')
        return false;
    ++*at;
    *length = value;
    return true;
}

bool key_next(const char *text, size_t text_bytes, size_t *at, struct key_field *field)
{
    /* tags may hold blanks: the length is what follows the last one of the line */
    if (*at >= text_bytes)
        return false;
    const char *const line = text + *at;
    const char *const end = memchr(line, '\n', text_bytes - *at);
    const char *const blank = end ? memrchr(line, ' ', (size_t)(end - line)) : NULL;
    if (!blank || blank == line)
        return false;
    size_t next = (size_t)(blank + 1 - text), size;
    if (!read_length(text, text_bytes, &next, &size) || size >= text_bytes - next ||
        text[next + size] != '\n')
        return false;
    *field = (struct key_field){
        .tag = line, .tag_length = (size_t)(blank - line), .bytes = text + next, .size = size};
    *at = next + size + 1;
    return true;
}

static bool is_tag(const struct key_field *f, const char *tag)
{
    return f->tag_length == strlen(tag) && !memcmp(f->tag, tag, f->tag_length);
}

bool key_source(const char *text, size_t text_bytes, struct hash128 *source_key,
                const char **source_text, size_t *source_text_bytes)
{
    struct key_field key, toolchain;
    char hex[2 * sizeof source_key->bytes + 1];
    size_t at = 0;

    if (!key_next(text, text_bytes, &at, &key) || !is_tag(&key, "source key") ||
        !key_next(text, text_bytes, &at, &toolchain) || !is_tag(&toolchain, "toolchain"))
        return false;
    const struct hash128 hash = hash128_of(text + at, text_bytes - at);
    hex_from_bytes(hex, hash.bytes, sizeof hash.bytes);
    if (key.size != sizeof hex - 1 || memcmp(key.bytes, hex, key.size))
        return false;
    *source_key = hash;
    *source_text = text + at;
    *source_text_bytes = text_bytes - at;
    return true;
}
