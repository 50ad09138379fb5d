/* SPDX-License-Identifier: MIT */
/*
 * A bundle: one read-only file of many entries, looked through before the cache. docs/formats.md
 * has the format. (object/amdgpu/offload_bundle.h is about another thing, clang's offload bundles.)
 *
 * Only the head (header, index, manifest) is read when a bundle is opened; an entry is read into
 * private memory, and proven, when it is asked for. Nothing is mapped and nothing is compressed, so
 * a bundle cannot take more memory than its head and one entry.
 */
#ifndef QUERN_STORE_PACK_H
#define QUERN_STORE_PACK_H

#include "store/store.h"

#define PACK_VERSION         1
#define PACK_HEADER_BYTES    64
#define PACK_SIGNATURE_BYTES 128
#define PACK_ENTRIES_MAX     ((uint64_t)1 << 20)
#define PACK_MANIFEST_MAX    ((uint64_t)1 << 20)
#define PACK_TUNING_MAX      ((uint64_t)1 << 24)
#define PACK_BYTES_MAX       ((uint64_t)4 << 30)

struct pack;

struct pack_info {
    uint64_t entries, bytes; /* bytes: without the signature, which covers them all */
    uint64_t serial;         /* grows from release to release of the same bundle */
    const char *manifest;    /* NUL-terminated; lives as long as the pack */
    size_t manifest_bytes;
    const char *tuning; /* tables one behind another, likewise; "": none */
    size_t tuning_bytes;
    bool has_signature; /* signature.h checks it */
    uint8_t public_key[32], signature[64];
};

/*
 * Opens a file, which must be a regular file of this user or root that nobody else can write to,
 * as must be the directories above it (as of a cache, see directory.h). QUERN_E_CACHE with the
 * reason. Keeps one descriptor, never one of 0 to 2. Handles may be used by any thread.
 */
quern_status pack_open(const char *path, struct pack **pack);
/* The same over bytes in memory, which must outlive the pack. Nothing is asked about their owner.
 */
quern_status pack_open_memory(const void *bytes, size_t size, struct pack **pack);
void pack_close(struct pack *pack); /* null is allowed */

void pack_info(const struct pack *pack, struct pack_info *info);

/*
 * As store_get: the entry of this key text, or with `by_source` any of the same source text, by
 * whatever toolchain. QUERN_OK with entry->buffer null when there is none. A damaged entry is
 * QUERN_E_OBJECT (only that entry is lost), a failing read QUERN_E_IO. Blocks on the disk.
 */
quern_status pack_get(const struct pack *pack, const struct store_want *want, bool by_source,
                      struct store_entry *entry);

/* Reads and proves entry `index` (in order of keys), whatever it is. *key may be null. */
quern_status pack_entry(const struct pack *pack, uint64_t index, struct hash128 *key,
                        struct store_entry *entry);

/*
 * Makes a bundle of records: the same records, manifest, tables and serial in any order give the
 * same bytes. Records of equal keys are taken once. *bytes is malloc'ed. QUERN_E_ARGUMENT when it
 * would be too large, or a record is one that no store would take.
 */
struct pack_content {
    const struct store_record *records;
    size_t count;
    const char *manifest; /* NUL-terminated; may be null */
    uint64_t serial;
    const char *tuning; /* as the manifest */
};
quern_status pack_write(const struct pack_content *content, void **bytes, size_t *size);

/* Reads exactly so many of the file's bytes. QUERN_E_IO, or QUERN_E_OBJECT when it ends before. */
quern_status pack_read(const struct pack *pack, uint64_t offset, void *to, size_t size);

/* Adds every byte that a signature covers. From then on an entry is given only if it is what it was
 * now: the file may be written to between, and its own digests are no proof against that. Reads the
 * whole bundle. Before any other thread has the pack. */
struct crypto_sign_ed25519ph_state;
quern_status pack_sign_update(struct pack *pack, struct crypto_sign_ed25519ph_state *state);

/* Writes the block that follows a signed bundle. */
void pack_signature_block(const uint8_t public_key[32], const uint8_t signature[64],
                          uint8_t block[PACK_SIGNATURE_BYTES]);

#endif
