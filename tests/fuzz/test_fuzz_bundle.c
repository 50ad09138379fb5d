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

/* Makes the digest behind the head right, and with `entries` those of the entries and the keys that
 * the index has for them. */
static void mend(uint8_t *b, size_t size, int entries)
{
    if (size < BUNDLE_HEADER_BYTES)
        return;
    const uint64_t count = le64(b + BUNDLE_AT_ENTRIES), manifest = le64(b + BUNDLE_AT_MANIFEST);
    const uint64_t tuning = le64(b + BUNDLE_AT_TUNING);
    if (count > size / BUNDLE_INDEX_BYTES || manifest > size || tuning > size)
        return;
    const struct bundle_layout l = bundle_lay_out(count, manifest, tuning);
    if (l.end > size)
        return;
    for (uint64_t i = 0; entries && i < count; i++) {
        uint8_t *const r = b + BUNDLE_HEADER_BYTES + i * BUNDLE_INDEX_BYTES;
        const uint64_t at = le64(r + BUNDLE_INDEX_OFFSET), bytes = le64(r + BUNDLE_INDEX_SIZE);
        if (at > size || bytes > size - at || bytes < ENTRY_HEADER_BYTES + 16)
            continue;
        const struct hash128 digest = hash128_of(b + at, bytes - 16);
        memcpy(b + at + bytes - 16, digest.bytes, 16);
    }
    const struct hash128 digest = hash128_of(b, l.digest);
    memcpy(b + l.digest, digest.bytes, BUNDLE_DIGEST_BYTES);
}

/* As it is, and with digests made right, so that what is behind them is reached as well. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_bundle(data, size);
    for (int entries = 0; entries < 2; entries++) {
        uint8_t *const copy = malloc(size ? size : 1);
        FUZZ_CHECK(copy);
        if (size)
            memcpy(copy, data, size);
        mend(copy, size, entries);
        read_bundle(copy, size);
        free(copy);
    }
    return 0;
}

FUZZ_MAIN("bundle", 2000)
