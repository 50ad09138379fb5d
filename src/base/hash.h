/* SPDX-License-Identifier: MIT */
/* XXH3-128 (xxHash). Values are in xxHash's canonical big-endian form, so equal on every machine.
 */
#ifndef QUERN_BASE_HASH_H
#define QUERN_BASE_HASH_H

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct hash128 {
    uint8_t bytes[16];
};

struct hash128 hash128_of(const void *bytes, size_t size);

/*
 * A key is hashed over tagged, length-delimited fields, so that no two different lists of fields
 * give the same bytes. The text is kept: "tag length\nbytes\n" for each field, in the order added.
 */
void key_add(struct str *key, const char *tag, const void *bytes, size_t size);
void key_add_text(struct str *key, const char *tag, const char *text);

#endif
