/* SPDX-License-Identifier: MIT */
/* Where things stand in a bundle: shared by its reader and its writer. */
#ifndef QUERN_STORE_BUNDLE_FORMAT_H
#define QUERN_STORE_BUNDLE_FORMAT_H

#include "store/bundle.h"

#include <string.h>

/* A transfer in text mode would change CR LF or stop at 0x1A, and so be noticed, as in an entry. */
#define BUNDLE_CANARY      "QKBND\r\n\x1a"
#define BUNDLE_SIGN_CANARY "QKSIG\r\n\x1a"

/* How the manifest of a bundle of base kernels begins, and a line of it that proves a part. */
#define BUNDLE_BASE_MANIFEST "# quern base kernels, version "
#define BUNDLE_PROOF         "# proof "

static inline bool bundle_of_base(const char *manifest)
{
    return !strncmp(manifest, BUNDLE_BASE_MANIFEST, strlen(BUNDLE_BASE_MANIFEST));
}

enum {
    BUNDLE_AT_CANARY = 0,
    BUNDLE_AT_VERSION = 8,       /* u32 */
    BUNDLE_AT_HEADER_BYTES = 12, /* u32 */
    BUNDLE_AT_TOTAL_BYTES = 16,  /* u64 */
    BUNDLE_AT_ENTRIES = 24,      /* u64 */
    BUNDLE_AT_MANIFEST = 32,     /* u64, bytes */
    BUNDLE_AT_SERIAL = 40,       /* u64 */
    BUNDLE_AT_TUNING = 48,       /* u64, bytes; 0: the bundle has no tuning tables */
    BUNDLE_AT_DICTIONARY = 56,   /* u32, bytes of the dictionary; 0: there is none */
    BUNDLE_AT_PACKED = 60,       /* u32, bytes that it is stored in */
    /* one record of the index */
    BUNDLE_INDEX_KEY = 0,
    BUNDLE_INDEX_SOURCE_KEY = 16, /* zero when the key text names none */
    BUNDLE_INDEX_OFFSET = 32,     /* u64 from the start of the file */
    BUNDLE_INDEX_PACKED = 40,     /* u32: bytes in the bundle */
    BUNDLE_INDEX_SIZE = 44,       /* u32: bytes of the entry */
    BUNDLE_INDEX_BYTES = 48,
    /* the signature block */
    BUNDLE_SIGN_VERSION = 8,    /* u32 */
    BUNDLE_SIGN_ZERO = 12,      /* u32 */
    BUNDLE_SIGN_KEY = 16,       /* 32 bytes */
    BUNDLE_SIGN_VALUE = 48,     /* 64 bytes */
    BUNDLE_SIGN_RESERVED = 112, /* 16 bytes, zero */
    BUNDLE_ALIGN = 16,
    BUNDLE_DIGEST_BYTES = 16
};

/* Where the sections of the head begin. The last is a digest of the others. At `end` there follow,
 * unless it has none, the bundle's dictionary with a digest of its stored bytes; then the entries.
 */
struct bundle_layout {
    uint64_t by_source; /* a u32 for each entry: index numbers in the order of source keys */
    uint64_t manifest, tuning, digest, end;
};

static inline uint64_t bundle_padded(uint64_t bytes)
{
    return (bytes + BUNDLE_ALIGN - 1) / BUNDLE_ALIGN * BUNDLE_ALIGN;
}

/* Where the sections of a head with such counts and sizes begin; the caller has checked that they
 * are within their limits. */
static inline struct bundle_layout bundle_lay_out(uint64_t entries, uint64_t manifest_bytes,
                                                  uint64_t tuning_bytes)
{
    struct bundle_layout l;

    l.by_source = BUNDLE_HEADER_BYTES + entries * BUNDLE_INDEX_BYTES;
    l.manifest = bundle_padded(l.by_source + entries * 4);
    l.tuning = bundle_padded(l.manifest + manifest_bytes + 1); /* a NUL behind it */
    l.digest = tuning_bytes ? bundle_padded(l.tuning + tuning_bytes + 1) : l.tuning;
    l.end = l.digest + BUNDLE_DIGEST_BYTES;
    return l;
}

/* What a dictionary that is stored in so many bytes takes with its digest. */
static inline uint64_t bundle_dictionary_extent(uint64_t packed)
{
    return packed ? packed + BUNDLE_DIGEST_BYTES : 0;
}

#endif
