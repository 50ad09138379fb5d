/* SPDX-License-Identifier: MIT */
/*
 * Offload bundles: what the clang driver packs the code objects of many GPUs into. Read here are
 *  - bundles, plain ("__CLANG_OFFLOAD_BUNDLE__") or compressed with zstd ("CCOB", versions 1 to 3),
 *    one or many after another with zeros between them;
 *  - 64-bit little-endian ELF files of the host (programs, shared libraries, .o) that carry such
 *    bundles in their .hip_fatbin sections, where the runtime finds them through the
 *    __hipFatBinSegment wrappers.
 * Any bytes are either accepted or refused with QUERN_E_OBJECT. The code objects themselves are not
 * looked into: that is object_parse's work.
 */
#ifndef QUERN_OBJECT_OFFLOAD_BUNDLE_H
#define QUERN_OBJECT_OFFLOAD_BUNDLE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Limits beyond which a bundle is refused, so that a small hostile file cannot claim much memory.
 * Real ones of 26 targets reach 23 bytes out of one. */
#define OFFLOAD_RAW_MAX     ((uint64_t)1 << 30) /* uncompressed bytes of all bundles of a file */
#define OFFLOAD_RATIO_MAX   1024                /* uncompressed bytes for each compressed one */
#define OFFLOAD_ENTRIES_MAX 65536               /* of all bundles of a file */
#define OFFLOAD_ID_MAX      127                 /* characters */

struct offload_entry {
    char id[OFFLOAD_ID_MAX + 1]; /* "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-" */
    unsigned target_at;          /* where in id the target starts; its end for the host's entry */
    unsigned bundle;             /* which of the file's bundles it is in, from 0 */
    const uint8_t *bytes;        /* in the caller's bytes, or in memory of the bundles */
    uint64_t size;               /* 0 for the host's entry of a shared library */
};

struct bundles {
    size_t count;
    struct offload_entry *entries; /* in file order */
    unsigned bundle_count;
    uint8_t **raw; /* what was uncompressed; bundle_count places, null for a plain bundle */
    uint64_t raw_bytes;
};

/*
 * Reads every bundle of a file. The caller's bytes must outlive the result: entries of plain
 * bundles point into them. Free with bundles_free; after a failure there is nothing to free.
 * Errors: QUERN_E_OBJECT, QUERN_E_MEMORY. Thread-safe; does not block.
 */
quern_status bundles_read(const void *bytes, size_t size, struct bundles *bundles);
void bundles_free(struct bundles *bundles);

/* The entry's target id, "gfx942:sramecc+:xnack-"; "" for the host's. */
static inline const char *offload_target(const struct offload_entry *entry)
{
    return entry->id + entry->target_at;
}

#endif
