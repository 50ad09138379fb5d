/* SPDX-License-Identifier: MIT */
/* Hashes (hash.h): the addresses of cache entries, and of what a compiler is made of. */
#define XXH_INLINE_ALL /* no symbols of xxHash in the library */
#include <xxhash.h>

#include "base/hash.h"

#include <string.h>

struct hash128 hash128_of(const void *bytes, size_t size)
{
    XXH128_canonical_t canonical;
    struct hash128 hash;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(hash.bytes, canonical.digest, sizeof hash.bytes);
    return hash;
}

void key_add(struct str *key, const char *tag, const void *bytes, size_t size)
{
    str_add(key, tag);
    str_add(key, " ");
    str_add_integer(key, (int64_t)size);
    str_add(key, "\n");
    str_add_bytes(key, bytes, size);
    str_add(key, "\n");
}

void key_add_text(struct str *key, const char *tag, const char *text)
{
    key_add(key, tag, text, strlen(text));
}
