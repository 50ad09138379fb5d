/* SPDX-License-Identifier: MIT */
/*
 * What the store reads in a key text. A key text is a list of fields "tag length\nbytes\n" (see
 * base/hash.h). One that describes a kernel begins with the fields "source key" (32 hexadecimal
 * digits) and "toolchain"; the rest, the source text, hashes to that source key.
 */
#ifndef QUERN_STORE_KEY_H
#define QUERN_STORE_KEY_H

#include "base/hash.h"

#include <stdbool.h>

/* One field; points into the key text. */
struct key_field {
    const char *tag, *bytes;
    size_t tag_length, size;
};

/* Reads the field at *at and moves *at behind it; false at the end and where no field is. */
bool key_next(const char *text, size_t text_bytes, size_t *at, struct key_field *field);

/* Whether a key text is that of a kernel, and its source text hashes to the source key that it
 * names. */
bool key_source(const char *text, size_t text_bytes, struct hash128 *source_key,
                const char **source_text, size_t *source_text_bytes);

#endif
