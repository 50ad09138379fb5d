/* SPDX-License-Identifier: MIT */
/* What a remote cache sends, of any bytes: refused, or an entry; with a key, never one that nobody
 * signed. */
#include "base/hash.h"
#include "store/entry.h"
#include "store/seal.h"
#include "t_fuzz.h"

#include <string.h>

static void judge(const uint8_t *data, size_t size)
{
    /* a key that signed nothing of the corpus */
    const struct signers signers = {.count = 1, .keys = {{1}}};
    struct store_record record;
    size_t entry_bytes;

    FUZZ_CHECK(seal_open(data, size, &signers, &record, &entry_bytes) != QUERN_OK);
    if (seal_open(data, size, NULL, &record, &entry_bytes) != QUERN_OK)
        return;
    FUZZ_CHECK(entry_bytes == size || entry_bytes + SEAL_BYTES == size);
    FUZZ_CHECK(record.key_text_bytes < size && record.object_bytes < size);
    FUZZ_CHECK(strlen(record.source) < size && strlen(record.log) < size);
}

/* As it is, and with the digest of the entry that it begins with made right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct entry_header header;

    judge(data, size);
    if (size < ENTRY_HEADER_BYTES || entry_read_header(data, &header) != QUERN_OK ||
        header.total_bytes > size)
        return 0;
    uint8_t *const copy = malloc(size);
    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    const struct hash128 digest = hash128_of(copy, header.total_bytes - 16);
    memcpy(copy + header.total_bytes - 16, &digest, 16);
    judge(copy, size);
    free(copy);
    return 0;
}

FUZZ_MAIN("seal", 4000)
