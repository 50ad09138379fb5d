/* SPDX-License-Identifier: MIT */
/*
 * A bundle: one read-only file of many entries, looked through before the cache. docs/formats.md
 * has the format. (object/amdgpu/offload_bundle.h is about another thing, clang's offload bundles.)
 *
 * Only the head (header, index, manifest) is read when a bundle is opened, and the dictionary that
 * entries are compressed with when the first is asked for; an entry is read into private memory,
 * unpacked to the size that the index has, and proven, when it is asked for. Nothing is mapped, and
 * a bundle cannot take more memory than its head, its dictionary and one entry, packed and not.
 */
#ifndef QUERN_STORE_BUNDLE_H
#define QUERN_STORE_BUNDLE_H

#include "store/store.h"

#define BUNDLE_VERSION         2
#define BUNDLE_VERSION_PLAIN   1 /* read as well: nothing in it is compressed */
#define BUNDLE_HEADER_BYTES    64
#define BUNDLE_SIGNATURE_BYTES 128
#define BUNDLE_ENTRIES_MAX     ((uint64_t)1 << 20)
#define BUNDLE_MANIFEST_MAX    ((uint64_t)1 << 20)
#define BUNDLE_TUNING_MAX      ((uint64_t)1 << 24)
#define BUNDLE_BYTES_MAX       ((uint64_t)4 << 30)

struct bundle;

struct bundle_info {
    uint64_t entries, bytes; /* bytes: without the signature, which covers them all */
    uint64_t entry_bytes;    /* of all entries, unpacked */
    uint64_t serial;         /* grows from release to release of the same bundle */
    const char *manifest;    /* NUL-terminated; lives as long as the bundle */
    size_t manifest_bytes;
    const char *tuning; /* tuning tables one behind another, NUL-terminated; "": none */
    size_t tuning_bytes;
    bool has_signature; /* signature.h checks it */
    uint8_t public_key[32], signature[64];
};

/*
 * Opens a file, which must be a regular file of this user or root that nobody else can write to,
 * as must be the directories above it (as of a cache, see directory.h). QUERN_E_CACHE with the
 * reason. Keeps one descriptor, never one of 0 to 2. Handles may be used by any thread.
 */
quern_status bundle_open(const char *path, struct bundle **bundle);
/* The same of any regular file, whoever owns it and whatever its name: to look into, not to use.
 * QUERN_E_IO. */
quern_status bundle_open_any(const char *path, struct bundle **bundle);
/* The same over bytes in memory, which must outlive the bundle; nobody asks who owns them. */
quern_status bundle_open_memory(const void *bytes, size_t size, struct bundle **bundle);
void bundle_close(struct bundle *bundle); /* null is allowed */

void bundle_info(const struct bundle *bundle, struct bundle_info *info);

/*
 * As store_get: the entry of this key text, or with `by_source` any of the same source text, by
 * whatever toolchain. QUERN_OK with entry->buffer null when there is none. A damaged entry is
 * QUERN_E_OBJECT (only that entry is lost), a failing read QUERN_E_IO. Blocks on the disk.
 */
quern_status bundle_get(const struct bundle *bundle, const struct store_want *want, bool by_source,
                        struct store_entry *entry);

/* The key and the unpacked size of entry `index` (in order of keys, below info.entries), from the
 * bundle's own index. */
void bundle_listed(const struct bundle *bundle, uint64_t index, struct hash128 *key,
                   uint64_t *bytes);

/* Reads and proves entry `index` (in order of keys), whatever it is. *key may be null. */
quern_status bundle_entry(const struct bundle *bundle, uint64_t index, struct hash128 *key,
                          struct store_entry *entry);

/*
 * Makes a bundle of records: the same records, manifest, tables and serial in any order give the
 * same bytes (of one release of zstd, which is linked in). Records of equal keys are taken once.
 * *bytes is malloc'ed. QUERN_E_ARGUMENT when it would be too large, or a record is one that no
 * store would take.
 */
struct bundle_content {
    const struct store_record *records;
    size_t count;
    const char *manifest; /* NUL-terminated; may be null. That of base kernels must not have
                           * its proofs yet. */
    uint64_t serial;
    const char *tuning; /* as the manifest */
};
quern_status bundle_write(const struct bundle_content *content, void **bytes, size_t *size);

/* Reads exactly so many of the file's bytes. QUERN_E_IO, or QUERN_E_OBJECT when it ends before. */
quern_status bundle_read(const struct bundle *bundle, uint64_t offset, void *to, size_t size);

/* Adds every byte that a signature covers to a signature's hash. From then on bundle_get gives only
 * entries that are as they were now: the file may be changed later by whoever can write to it, and
 * the digests in the file could be changed with it. Reads the whole bundle. To be called before any
 * other thread has the bundle. */
struct crypto_sign_ed25519ph_state;
quern_status bundle_sign_update(struct bundle *bundle, struct crypto_sign_ed25519ph_state *state);

/*
 * Proves that a bundle is the one whose head has this BLAKE2b, and every entry the one that was in
 * it: bundle_write gives the manifest of base kernels a line "# proof HEX" for each, in the order
 * of keys, and one for the dictionary behind them. So nothing but the head is read here, and an
 * entry is compared with its proof when it is asked for. To be called before any other thread has
 * the bundle. QUERN_E_OBJECT names the version of quern that the manifest says the bundle is of, if
 * it is another.
 */
#define BUNDLE_PROOF_BYTES 32 /* nobody can make other bytes with the same digest */
quern_status bundle_prove(struct bundle *bundle, const uint8_t digest[BUNDLE_PROOF_BYTES]);

/* Writes the block that follows a signed bundle. */
void bundle_signature_block(const uint8_t public_key[32], const uint8_t signature[64],
                            uint8_t block[BUNDLE_SIGNATURE_BYTES]);

#endif
