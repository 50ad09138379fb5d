/* SPDX-License-Identifier: MIT */
/* Bundles of any bytes: refused, or entries that are what their index says. */
#include "base/hash.h"
#include "object/le.h"
#include "store/entry.h"
#include "store/bundle.h"
#include "store/bundle_format.h"
#include "store/signature.h"
#include "t_fuzz.h"

#include <quern/tool.h>

#include <string.h>

static void read_bundle(const uint8_t *data, size_t size)
{
    struct bundle_info info;
    struct bundle *p;

    if (bundle_open_memory(data, size, &p) != QUERN_OK)
        return;
    bundle_info(p, &info);
    FUZZ_CHECK(info.bytes <= size && info.manifest_bytes < size);
    FUZZ_CHECK(strlen(info.manifest) == info.manifest_bytes);
    FUZZ_CHECK(info.tuning_bytes < size && strlen(info.tuning) == info.tuning_bytes);
    size_t table;
    const char *const at = quern_bundle_table(info.tuning, QUERN_TABLE_TUNING, "gfx942", &table);
    FUZZ_CHECK(at ? at >= info.tuning && table <= strlen(at) : !table);
    for (uint64_t i = 0; i < info.entries && i < 64; i++) {
        struct store_entry e;
        struct hash128 key;
        if (bundle_entry(p, i, &key, &e) != QUERN_OK) {
            FUZZ_CHECK(!e.buffer);
            continue;
        }
        const struct hash128 hash = hash128_of(e.record.key_text, e.record.key_text_bytes);
        FUZZ_CHECK(!memcmp(hash.bytes, key.bytes, sizeof key.bytes));
        store_entry_free(&e);
    }
    bundle_close(p);
}

/* Writes the digest of so many bytes behind them. */
static void digest(uint8_t *from, size_t size)
{
    const struct hash128 digest = hash128_of(from, size);

    memcpy(from + size, digest.bytes, BUNDLE_DIGEST_BYTES);
}

/* Makes the digests behind the head and the dictionary right, and those of entries that are not
 * compressed. */
static void mend(uint8_t *b, size_t size)
{
    if (size < BUNDLE_HEADER_BYTES)
        return;
    const uint64_t count = le64(b + BUNDLE_AT_ENTRIES), manifest = le64(b + BUNDLE_AT_MANIFEST);
    const uint64_t tuning = le64(b + BUNDLE_AT_TUNING), packed = le32(b + BUNDLE_AT_PACKED);
    if (count > size / BUNDLE_INDEX_BYTES || manifest > size || tuning > size)
        return;
    const struct bundle_layout l = bundle_lay_out(count, manifest, tuning);
    if (l.end > size)
        return;
    const bool plain = le32(b + BUNDLE_AT_VERSION) == BUNDLE_VERSION_PLAIN;
    for (uint64_t i = 0; plain && i < count; i++) {
        uint8_t *const r = b + BUNDLE_HEADER_BYTES + i * BUNDLE_INDEX_BYTES;
        const uint64_t at = le64(r + BUNDLE_INDEX_OFFSET), bytes = le32(r + BUNDLE_INDEX_PACKED);
        if (at <= size && bytes <= size - at && bytes >= ENTRY_HEADER_BYTES + 16)
            digest(b + at, bytes - BUNDLE_DIGEST_BYTES);
    }
    if (packed && bundle_dictionary_extent(packed) <= size - l.end)
        digest(b + l.end, packed);
    digest(b, l.digest);
}

/* As it is, and with digests made right, so that what is behind them is reached as well: the index,
 * and what unpacks a dictionary and entries that nobody made. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *const copy = malloc(size ? size : 1);

    FUZZ_CHECK(copy);
    read_bundle(data, size);
    if (size)
        memcpy(copy, data, size);
    mend(copy, size);
    read_bundle(copy, size);
    free(copy);
    return 0;
}

FUZZ_MAIN("bundle", 2000)
