/* SPDX-License-Identifier: MIT */
/* Reading entries of an open bundle (bundle.h): found by the index, unpacked and proven. */
#include "base/os.h"
#include "object/object.h"
#include "store/entry.h"
#include "store/bundle_reader.h"

#include <inttypes.h>
#include <sodium.h>
#include <string.h>

/* Reads bytes of the file that belong to entry `i` (or behind the last: the dictionary) into memory
 * that it makes, and proves that they are what was signed. */
static quern_status read_part(const struct bundle *p, uint64_t i, uint64_t offset, size_t size,
                              uint8_t **bytes)
{
    uint8_t digest[BUNDLE_PROOF_BYTES];

    uint8_t *const b = os.malloc(size ? size : 1);
    FAIL_IF(!b, QUERN_E_MEMORY, "no memory for %zu bytes of a bundle", size);
    quern_status status = bundle_read(p, offset, b, size);
    if (status == QUERN_OK && p->digests) {
        crypto_generichash(digest, sizeof digest, b, size, NULL, 0);
        if (memcmp(digest, p->digests + i * BUNDLE_PROOF_BYTES, sizeof digest))
            status = error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT("memcmp(digest, p->digests)"),
                               "the %s is not the one that is vouched for: the bundle "
                               "was written to",
                               i == p->info.entries ? "dictionary" : "entry");
    }
    if (status == QUERN_OK)
        *bytes = b;
    else
        os.free(b);
    return status;
}

/* Unpacks into memory that it makes, of exactly the size that the index has. */
static quern_status unpack(const uint8_t *from, const struct part *part,
                           const ZSTD_DDict *dictionary, uint8_t **bytes)
{
    ZSTD_DCtx *const zstd = ZSTD_createDCtx_advanced(zstd_memory);
    uint8_t *const to = os.malloc(part->size);
    const size_t done = zstd && to ? ZSTD_decompress_usingDDict(zstd, to, part->size, from,
                                                                part->packed, dictionary)
                                   : 0;

    ZSTD_freeDCtx(zstd);
    if (done == part->size) {
        *bytes = to;
        return QUERN_OK;
    }
    os.free(to);
    FAIL_IF(!zstd || !to, QUERN_E_MEMORY, "no memory to unpack %" PRIu32 " bytes", part->size);
    return error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT("done != part->size"),
                     "it cannot be unpacked to %" PRIu32 " bytes: %s", part->size,
                     ZSTD_isError(done) ? ZSTD_getErrorName(done) : "it has less");
}

static quern_status load_dictionary(const struct bundle *p, struct dictionary *d)
{
    const struct part *const part = &p->dictionary_part;
    uint8_t *packed, *bytes = NULL;

    TRY(read_part(p, p->info.entries, part->offset, part->packed + BUNDLE_DIGEST_BYTES, &packed));
    const struct hash128 digest = hash128_of(packed, part->packed);
    quern_status status =
        memcmp(packed + part->packed, digest.bytes, sizeof digest.bytes)
            ? error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT("memcmp(digest.bytes)"),
                        "the bundle's dictionary does not have the digest behind it")
            : unpack(packed, part, NULL, &bytes);
    os.free(packed);
    TRY(status);
    ZSTD_DDict *const zstd = ZSTD_createDDict_advanced(bytes, part->size, ZSTD_dlm_byRef,
                                                       ZSTD_dct_rawContent, zstd_memory);
    if (!zstd)
        os.free(bytes);
    FAIL_IF(!zstd, QUERN_E_MEMORY, "no memory for a bundle's dictionary");
    d->bytes = bytes;
    d->zstd = zstd;
    return QUERN_OK;
}

/* *zstd is null for a bundle without a dictionary. */
static quern_status dictionary_of(const struct bundle *p, ZSTD_DDict **zstd)
{
    struct dictionary *const d = p->dictionary;
    quern_status status = QUERN_OK;

    *zstd = d->zstd;
    if (*zstd || !p->dictionary_part.size)
        return QUERN_OK;
    lock_take(&d->lock);
    if (!d->zstd)
        status = load_dictionary(p, d);
    *zstd = d->zstd;
    lock_give(&d->lock);
    return status;
}

/* Reads an entry into memory that it makes: entry->buffer. */
static quern_status read_entry(const struct bundle *p, uint64_t i, struct store_entry *entry)
{
    const struct part part = part_at(p, i);
    ZSTD_DDict *dictionary = NULL;
    uint8_t *packed, *bytes = NULL;

    if (!p->plain)
        TRY(dictionary_of(p, &dictionary));
    TRY(read_part(p, i, part.offset, part.packed, &packed));
    entry->buffer = packed;
    if (p->plain)
        return QUERN_OK;
    const quern_status status = unpack(packed, &part, dictionary, &bytes);
    os.free(packed);
    entry->buffer = bytes;
    return status;
}

static quern_status load(const struct bundle *p, uint64_t i, struct store_entry *entry)
{
    TRY(read_entry(p, i, entry));
    TRY(entry_decode(entry->buffer, part_at(p, i).size, &entry->record));
    const struct hash128 key = hash128_of(entry->record.key_text, entry->record.key_text_bytes);
    FAIL_IF(memcmp(key.bytes, record_at(p, i) + BUNDLE_INDEX_KEY, sizeof key.bytes), QUERN_E_OBJECT,
            "the entry is not that of its key in the index");
    return QUERN_OK;
}

/* The first place in the index, or with `by_source` in the order of source keys, whose key is not
 * less than this one. */
static uint64_t find(const struct bundle *p, const struct hash128 *key, bool by_source)
{
    uint64_t lo = 0, hi = p->info.entries;

    while (lo < hi) {
        const uint64_t mid = lo + (hi - lo) / 2;
        const uint8_t *const r = record_at(p, by_source ? by_source_at(p, mid) : mid);
        if (memcmp(r + (by_source ? BUNDLE_INDEX_SOURCE_KEY : BUNDLE_INDEX_KEY), key->bytes, 16) <
            0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

quern_status bundle_get(const struct bundle *p, const struct store_want *want, bool by_source,
                        struct store_entry *entry)
{
    const struct hash128 *const key = by_source ? &want->source_key : &want->key;
    const uint64_t place = find(p, key, by_source);

    *entry = (struct store_entry){0};
    if (place == p->info.entries)
        return QUERN_OK;
    const uint64_t i = by_source ? by_source_at(p, place) : place;
    if (memcmp(record_at(p, i) + (by_source ? BUNDLE_INDEX_SOURCE_KEY : BUNDLE_INDEX_KEY),
               key->bytes, 16))
        return QUERN_OK;
    quern_status status = load(p, i, entry);
    if (status == QUERN_OK)
        status = store_judge(entry, want, by_source);
    if (status != QUERN_OK)
        store_entry_free(entry);
    return status;
}

void bundle_listed(const struct bundle *p, uint64_t index, struct hash128 *key, uint64_t *bytes)
{
    memcpy(key->bytes, record_at(p, index) + BUNDLE_INDEX_KEY, sizeof key->bytes);
    *bytes = part_at(p, index).size;
}

quern_status bundle_entry(const struct bundle *p, uint64_t index, struct hash128 *key,
                          struct store_entry *entry)
{
    *entry = (struct store_entry){0};
    FAIL_IF(index >= p->info.entries, QUERN_E_ARGUMENT, "entry %" PRIu64 " of %" PRIu64, index,
            p->info.entries);
    if (key)
        memcpy(key->bytes, record_at(p, index), sizeof key->bytes);
    quern_status status = load(p, index, entry);
    if (status == QUERN_OK)
        status = store_parse(&entry->record, &entry->object);
    if (status != QUERN_OK)
        store_entry_free(entry);
    return status;
}
