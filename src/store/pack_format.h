/* SPDX-License-Identifier: MIT */
/* Where things stand in a bundle: shared by its reader and its writer. */
#ifndef QUERN_STORE_PACK_FORMAT_H
#define QUERN_STORE_PACK_FORMAT_H

#include "store/pack.h"

/* As in an entry, CR LF and 0x1A notice a transfer in text mode. */
#define PACK_CANARY      "QKBND\r\n\x1a"
#define PACK_SIGN_CANARY "QKSIG\r\n\x1a"

enum {
    PACK_AT_CANARY = 0,
    PACK_AT_VERSION = 8,       /* u32 */
    PACK_AT_HEADER_BYTES = 12, /* u32 */
    PACK_AT_TOTAL_BYTES = 16,  /* u64 */
    PACK_AT_ENTRIES = 24,      /* u64 */
    PACK_AT_MANIFEST = 32,     /* u64, bytes */
    PACK_AT_SERIAL = 40,       /* u64 */
    PACK_AT_TUNING = 48,       /* u64, bytes; 0: the bundle has no tuning tables */
    PACK_AT_RESERVED = 56,     /* 8 bytes, zero */
    /* one record of the index */
    PACK_INDEX_KEY = 0,
    PACK_INDEX_SOURCE_KEY = 16, /* zero when the key text names none */
    PACK_INDEX_OFFSET = 32,     /* u64 from the start of the file */
    PACK_INDEX_SIZE = 40,       /* u64 */
    PACK_INDEX_BYTES = 48,
    /* the signature block */
    PACK_SIGN_VERSION = 8,    /* u32 */
    PACK_SIGN_ZERO = 12,      /* u32 */
    PACK_SIGN_KEY = 16,       /* 32 bytes */
    PACK_SIGN_VALUE = 48,     /* 64 bytes */
    PACK_SIGN_RESERVED = 112, /* 16 bytes, zero */
    PACK_ALIGN = 16,
    PACK_DIGEST_BYTES = 16
};

/* Where the sections of the head begin. The last is a digest of the others; the entries follow at
 * `end`. */
struct pack_layout {
    uint64_t by_source; /* a u32 for each entry: index numbers in the order of source keys */
    uint64_t manifest, tuning, digest, end;
};

static inline uint64_t pack_padded(uint64_t bytes)
{
    return (bytes + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

/* Counts and sizes are within their limits. */
static inline struct pack_layout pack_lay_out(uint64_t entries, uint64_t manifest_bytes,
                                              uint64_t tuning_bytes)
{
    struct pack_layout l;

    l.by_source = PACK_HEADER_BYTES + entries * PACK_INDEX_BYTES;
    l.manifest = pack_padded(l.by_source + entries * 4);
    l.tuning = pack_padded(l.manifest + manifest_bytes + 1); /* a NUL behind it */
    l.digest = tuning_bytes ? pack_padded(l.tuning + tuning_bytes + 1) : l.tuning;
    l.end = l.digest + PACK_DIGEST_BYTES;
    return l;
}

#endif
