/* SPDX-License-Identifier: MIT */
/* Writes, reads and proves one cache entry (entry.h), in memory. */
#include "store/entry.h"
#include "base/os.h"
#include "object/le.h"

#include <inttypes.h>
#include <string.h>

/* The first bytes of an entry. CR LF and 0x1A are for transfers that change line ends or stop at an
 * end-of-file mark: such an entry is then no entry. */
static const uint8_t canary[8] = {'Q', 'U', 'E', 'R', 'N', '\r', '\n', 0x1a};

enum {
    AT_CANARY = 0,
    AT_VERSION = 8,       /* u32 */
    AT_HEADER_BYTES = 12, /* u32 */
    AT_TOTAL_BYTES = 16,  /* u64, the digest included */
    AT_KEY_TEXT = 24,     /* u64: sizes of the sections */
    AT_SOURCE = 32,
    AT_OBJECT = 40,
    AT_LOG = 48,
    AT_RULES = 56,    /* u32 */
    AT_RESERVED = 60, /* u32, zero */
    DIGEST_BYTES = 16,
    ALIGN = 16
};

/* Where each section begins, and where the digest does. */
struct layout {
    uint64_t key_text, source, object, log, digest, total;
};

/* Works out where sections begin. Each is padded with zero bytes to a multiple of ALIGN, with at
 * least one, so that text in it is a C string. False if the entry would be larger than
 * ENTRY_BYTES_MAX. */
static bool lay_out(const struct entry_header *h, struct layout *l)
{
    const uint64_t sizes[] = {h->key_text_bytes, h->source_bytes, h->object_bytes, h->log_bytes};
    uint64_t *const places[] = {&l->key_text, &l->source, &l->object, &l->log};
    uint64_t at = ENTRY_HEADER_BYTES;

    for (unsigned i = 0; i < 4; i++) {
        if (sizes[i] > ENTRY_BYTES_MAX)
            return false;
        *places[i] = at;
        at += (sizes[i] + ALIGN) / ALIGN * ALIGN;
    }
    l->digest = at;
    l->total = at + DIGEST_BYTES;
    return l->total <= ENTRY_BYTES_MAX;
}

quern_status entry_encode(const struct store_record *r, void **bytes, size_t *size)
{
    struct entry_header h = {
        .key_text_bytes = r->key_text_bytes,
        .source_bytes = strlen(r->source),
        .object_bytes = r->object_bytes,
        .log_bytes = strlen(r->log),
    };
    struct layout l;

    FAIL_IF(!r->object_bytes && !r->rules, QUERN_E_ARGUMENT, "an entry without an object");
    FAIL_IF(!lay_out(&h, &l), QUERN_E_ARGUMENT,
            "an entry of %" PRIu64 " + %" PRIu64 " + %" PRIu64 " + %" PRIu64
            " bytes: at most %zu are kept",
            h.key_text_bytes, h.source_bytes, h.object_bytes, h.log_bytes, ENTRY_BYTES_MAX);
    uint8_t *const b = os.calloc(1, l.total);
    FAIL_IF(!b, QUERN_E_MEMORY, "no memory for an entry of %" PRIu64 " bytes", l.total);
    memcpy(b, canary, sizeof canary);
    le_put(b + AT_VERSION, 4, ENTRY_VERSION);
    le_put(b + AT_HEADER_BYTES, 4, ENTRY_HEADER_BYTES);
    le_put(b + AT_TOTAL_BYTES, 8, l.total);
    le_put(b + AT_KEY_TEXT, 8, h.key_text_bytes);
    le_put(b + AT_SOURCE, 8, h.source_bytes);
    le_put(b + AT_OBJECT, 8, h.object_bytes);
    le_put(b + AT_LOG, 8, h.log_bytes);
    le_put(b + AT_RULES, 4, r->rules);
    memcpy(b + l.key_text, r->key_text, h.key_text_bytes);
    memcpy(b + l.source, r->source, h.source_bytes);
    if (h.object_bytes) /* a refusal has none, and may have no address either */
        memcpy(b + l.object, r->object, h.object_bytes);
    memcpy(b + l.log, r->log, h.log_bytes);
    const struct hash128 digest = hash128_of(b, l.digest);
    memcpy(b + l.digest, digest.bytes, DIGEST_BYTES);
    *bytes = b;
    *size = l.total;
    return QUERN_OK;
}

quern_status entry_read_header(const void *bytes, struct entry_header *h)
{
    const uint8_t *const b = bytes;
    struct layout l;

    FAIL_IF(memcmp(b, canary, sizeof canary), QUERN_E_OBJECT,
            "the entry does not begin with its eight magic bytes");
    FAIL_IF(le32(b + AT_VERSION) != ENTRY_VERSION, QUERN_E_OBJECT,
            "the entry has format version %u; it is %d here", le32(b + AT_VERSION), ENTRY_VERSION);
    FAIL_IF(le32(b + AT_HEADER_BYTES) != ENTRY_HEADER_BYTES || le32(b + AT_RESERVED) != 0,
            QUERN_E_OBJECT, "the entry's header is malformed");
    h->total_bytes = le64(b + AT_TOTAL_BYTES);
    h->key_text_bytes = le64(b + AT_KEY_TEXT);
    h->source_bytes = le64(b + AT_SOURCE);
    h->object_bytes = le64(b + AT_OBJECT);
    h->log_bytes = le64(b + AT_LOG);
    h->rules = le32(b + AT_RULES);
    FAIL_IF(!lay_out(h, &l) || l.total != h->total_bytes, QUERN_E_OBJECT,
            "the entry's section sizes do not add up to its %" PRIu64 " bytes", h->total_bytes);
    /* of a kernel that the scan refused the rules are kept, and no object */
    FAIL_IF(!h->object_bytes && !h->rules, QUERN_E_OBJECT,
            "the entry has neither a code object nor the rules by which one was refused");
    return QUERN_OK;
}

/* Whether all bytes from the end of a section to the next section are zero. */
static bool padded(const uint8_t *b, uint64_t at, uint64_t bytes, uint64_t next)
{
    for (uint64_t i = at + bytes; i < next; i++)
        if (b[i])
            return false;
    return true;
}

quern_status entry_decode(const void *bytes, size_t size, struct store_record *r)
{
    const uint8_t *const b = bytes;
    struct entry_header h;
    struct layout l;

    FAIL_IF(size < ENTRY_HEADER_BYTES, QUERN_E_OBJECT,
            "the entry has %zu bytes, less than a header", size);
    TRY(entry_read_header(b, &h));
    FAIL_IF(h.total_bytes != size, QUERN_E_OBJECT,
            "the entry has %zu bytes; its header says %" PRIu64, size, h.total_bytes);
    lay_out(&h, &l);
    const struct hash128 digest = hash128_of(b, l.digest);
    FAIL_IF(memcmp(b + l.digest, digest.bytes, DIGEST_BYTES), QUERN_E_OBJECT,
            "the entry's bytes do not have the digest at its end");
    FAIL_IF(!padded(b, l.key_text, h.key_text_bytes, l.source) ||
                !padded(b, l.source, h.source_bytes, l.object) ||
                !padded(b, l.object, h.object_bytes, l.log) ||
                !padded(b, l.log, h.log_bytes, l.digest) ||
                memchr(b + l.source, 0, h.source_bytes) || memchr(b + l.log, 0, h.log_bytes),
            QUERN_E_OBJECT, "the entry's sections are malformed");
    *r = (struct store_record){
        .key_text = (const char *)b + l.key_text,
        .key_text_bytes = h.key_text_bytes,
        .source = (const char *)b + l.source,
        .log = (const char *)b + l.log,
        .object = b + l.object,
        .object_bytes = h.object_bytes,
        .rules = h.rules,
    };
    return QUERN_OK;
}
