/* SPDX-License-Identifier: MIT */
/* Entries of the cache of any bytes: refused, or exactly what encoding them again gives. */
#include "store/entry.h"
#include "base/hash.h"
#include "t_fuzz.h"

#include <string.h>

static void decode(const uint8_t *data, size_t size)
{
    struct entry_header header;
    struct store_record record;
    void *bytes;
    size_t again;

    if (size >= ENTRY_HEADER_BYTES)
        (void)entry_read_header(data, &header);
    if (entry_decode(data, size, &record) != QUERN_OK)
        return;
    FUZZ_CHECK(record.key_text_bytes < size && record.object_bytes < size);
    FUZZ_CHECK(strlen(record.source) < size && strlen(record.log) < size);
    FUZZ_CHECK(entry_encode(&record, &bytes, &again) == QUERN_OK);
    FUZZ_CHECK(again == size && !memcmp(bytes, data, size));
    free(bytes);
}

/* As it is, and with its digest made right, so that what is behind the digest is reached as well.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(data, size);
    if (size <= 16)
        return 0;
    uint8_t *const copy = malloc(size);
    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    const struct hash128 digest = hash128_of(copy, size - 16);
    memcpy(copy + size - 16, &digest, 16);
    decode(copy, size);
    free(copy);
    return 0;
}

FUZZ_MAIN("entry", 4000)
