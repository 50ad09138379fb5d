/* SPDX-License-Identifier: MIT */
/* An open bundle, as the two files that read one have it: bundle.c its head, bundle_entry.c its
 * entries. */
#ifndef QUERN_STORE_BUNDLE_READER_H
#define QUERN_STORE_BUNDLE_READER_H

#include "base/lock.h"
#include "base/zstd_memory.h"
#include "object/le.h"
#include "store/bundle_format.h"

/* What entries are compressed with, unpacked when the first is asked for. */
struct dictionary {
    struct lock lock;
    uint8_t *bytes;
    _Atomic(ZSTD_DDict *) zstd; /* over `bytes`; null: not yet */
};

/* So many bytes of the file, and how many they are unpacked. */
struct part {
    uint64_t offset;
    uint32_t packed, size;
};

struct bundle {
    int fd;                /* -1: over memory */
    const uint8_t *memory; /* else null */
    uint64_t file_bytes;
    uint8_t *head; /* header, index and manifest, proven */
    /* BUNDLE_PROOF_BYTES for each entry and then for the dictionary, of the bytes that were signed
     * or proven; null unless a signature or proof was checked */
    uint8_t *digests;
    bool plain; /* of the version that compresses nothing */
    struct part dictionary_part;
    struct dictionary *dictionary;
    struct bundle_layout layout;
    struct bundle_info info;
};

static inline const uint8_t *record_at(const struct bundle *p, uint64_t i)
{
    return p->head + BUNDLE_HEADER_BYTES + i * BUNDLE_INDEX_BYTES;
}

static inline struct part part_at(const struct bundle *p, uint64_t i)
{
    const uint8_t *const r = record_at(p, i);
    const uint32_t packed = le32(r + BUNDLE_INDEX_PACKED);

    return (struct part){.offset = le64(r + BUNDLE_INDEX_OFFSET),
                         .packed = packed,
                         .size = p->plain ? packed : le32(r + BUNDLE_INDEX_SIZE)};
}

static inline uint64_t by_source_at(const struct bundle *p, uint64_t i)
{
    return le32(p->head + p->layout.by_source + i * 4);
}

/* Where the first entry is. */
static inline uint64_t entries_at(const struct bundle *p)
{
    return p->layout.end + bundle_dictionary_extent(p->dictionary_part.packed);
}

#endif
