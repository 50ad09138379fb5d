/* SPDX-License-Identifier: MIT */
/*
 * The format of one cache entry: bytes in, bytes out, no file system. docs/formats.md describes it.
 *
 * Version 1, the only one so far. A change of the format changes the version and the directory that
 * entries live in, so that no library ever meets a version that it does not know in its own place.
 */
#ifndef QUERN_STORE_ENTRY_H
#define QUERN_STORE_ENTRY_H

#include "store/store.h"

#define ENTRY_VERSION      1
#define ENTRY_HEADER_BYTES 64
/* The largest entry. Real ones have a few tens of kilobytes. */
#define ENTRY_BYTES_MAX ((size_t)16 << 20)

/* What an entry's header says. */
struct entry_header {
    uint64_t total_bytes;
    uint64_t key_text_bytes, source_bytes, object_bytes, log_bytes; /* without padding and NULs */
    uint32_t rules;
};

/* The bytes of an entry, malloc'ed. QUERN_E_ARGUMENT if it would be too large, QUERN_E_MEMORY. */
quern_status entry_encode(const struct store_record *record, void **bytes, size_t *size);

/* Reads and checks the first ENTRY_HEADER_BYTES of an entry. The key text follows at that offset.
 */
quern_status entry_read_header(const void *bytes, struct entry_header *header);

/*
 * Checks a whole entry: canary, version, sizes, padding, digest. On success the record points into
 * `bytes`. Whether the code object is sound is not checked here. QUERN_E_OBJECT says what is wrong.
 */
quern_status entry_decode(const void *bytes, size_t size, struct store_record *record);

#endif
