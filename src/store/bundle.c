/* SPDX-License-Identifier: MIT */
/* Opening a bundle (bundle.h): its head is read and proven, and its signature. */
#include "store/bundle.h"
#include "base/os.h"
#include "object/le.h"
#include "store/directory.h"
#include "store/entry.h"
#include "store/bundle_pack.h"
#include "store/bundle_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define EINTR_TRIES 100
#define PIECE_BYTES ((size_t)64 << 10)

quern_status bundle_read(const struct bundle *p, uint64_t offset, void *to, size_t size)
{
    size_t got = 0;
    int tries = EINTR_TRIES;

    FAIL_IF(offset > p->file_bytes || size > p->file_bytes - offset, QUERN_E_OBJECT,
            "the bundle ends at %" PRIu64 " bytes, before the %zu at %" PRIu64, p->file_bytes, size,
            offset);
    if (p->memory) {
        memcpy(to, p->memory + offset, size);
        return QUERN_OK;
    }
    while (got < size) {
        const ssize_t n = os.pread(p->fd, (char *)to + got, size - got, (off_t)(offset + got));
        FAIL_IF(n == 0, QUERN_E_OBJECT, "the bundle has become shorter while it was open");
        if (n > 0)
            got += (size_t)n;
        else
            FAIL_IF(errno != EINTR || !--tries, QUERN_E_IO, "the bundle cannot be read: %s",
                    strerror(errno));
    }
    return QUERN_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static quern_status read_header(struct bundle *p, uint8_t h[BUNDLE_HEADER_BYTES])
{
    FAIL_IF(p->file_bytes < BUNDLE_HEADER_BYTES, QUERN_E_OBJECT,
            "the bundle has %" PRIu64 " bytes, less than a header", p->file_bytes);
    TRY(bundle_read(p, 0, h, BUNDLE_HEADER_BYTES));
    FAIL_IF(memcmp(h, BUNDLE_CANARY, 8), QUERN_E_OBJECT,
            "the bundle does not begin with its eight magic bytes");
    p->plain = le32(h + BUNDLE_AT_VERSION) == BUNDLE_VERSION_PLAIN;
    FAIL_IF(!p->plain && le32(h + BUNDLE_AT_VERSION) != BUNDLE_VERSION, QUERN_E_OBJECT,
            "the bundle has format version %u; %d and %d are read here",
            le32(h + BUNDLE_AT_VERSION), BUNDLE_VERSION_PLAIN, BUNDLE_VERSION);
    p->dictionary_part.size = le32(h + BUNDLE_AT_DICTIONARY);
    p->dictionary_part.packed = le32(h + BUNDLE_AT_PACKED);
    FAIL_IF(le32(h + BUNDLE_AT_HEADER_BYTES) != BUNDLE_HEADER_BYTES ||
                (p->plain && p->dictionary_part.size) ||
                !p->dictionary_part.size != !p->dictionary_part.packed ||
                p->dictionary_part.size > DICTIONARY_BYTES_MAX ||
                p->dictionary_part.packed > ZSTD_COMPRESSBOUND(DICTIONARY_BYTES_MAX),
            QUERN_E_OBJECT, "the bundle's header is malformed");
    p->info.bytes = le64(h + BUNDLE_AT_TOTAL_BYTES);
    p->info.entries = le64(h + BUNDLE_AT_ENTRIES);
    p->info.manifest_bytes = le64(h + BUNDLE_AT_MANIFEST);
    p->info.tuning_bytes = le64(h + BUNDLE_AT_TUNING);
    p->info.serial = le64(h + BUNDLE_AT_SERIAL);
    FAIL_IF(p->info.bytes > BUNDLE_BYTES_MAX || p->info.entries > BUNDLE_ENTRIES_MAX ||
                p->info.manifest_bytes > BUNDLE_MANIFEST_MAX ||
                p->info.tuning_bytes > BUNDLE_TUNING_MAX,
            QUERN_E_OBJECT,
            "the bundle says it has %" PRIu64 " entries, %zu bytes of manifest, %zu of tuning "
            "tables and %" PRIu64 " bytes in all; at most %" PRIu64 ", %" PRIu64 ", %" PRIu64
            " and %" PRIu64 " are read",
            p->info.entries, p->info.manifest_bytes, p->info.tuning_bytes, p->info.bytes,
            BUNDLE_ENTRIES_MAX, BUNDLE_MANIFEST_MAX, BUNDLE_TUNING_MAX, BUNDLE_BYTES_MAX);
    FAIL_IF(p->file_bytes != p->info.bytes &&
                p->file_bytes != p->info.bytes + BUNDLE_SIGNATURE_BYTES,
            QUERN_E_OBJECT,
            "the bundle has %" PRIu64 " bytes; its header says %" PRIu64 ", and %d more if signed",
            p->file_bytes, p->info.bytes, BUNDLE_SIGNATURE_BYTES);
    p->layout = bundle_lay_out(p->info.entries, p->info.manifest_bytes, p->info.tuning_bytes);
    p->dictionary_part.offset = p->layout.end;
    FAIL_IF(entries_at(p) > p->info.bytes, QUERN_E_OBJECT,
            "the bundle has %" PRIu64 " bytes, not enough for its index and dictionary",
            p->info.bytes);
    return QUERN_OK;
}

static int compare_sources(const uint8_t *a, const uint8_t *b)
{
    const int order = memcmp(a + BUNDLE_INDEX_SOURCE_KEY, b + BUNDLE_INDEX_SOURCE_KEY, 16);

    return order ? order : memcmp(a + BUNDLE_INDEX_KEY, b + BUNDLE_INDEX_KEY, 16);
}

/* Entries stand one behind another in the order of their keys, from the end of the dictionary to
 * the end of the bundle: so none overlaps and none is outside. Nothing is allocated that they say
 * and an entry cannot have. */
static bool index_is_sound(struct bundle *p)
{
    uint64_t at = entries_at(p);

    for (uint64_t i = 0; i < p->info.entries; i++) {
        const struct part e = part_at(p, i);
        if (e.offset != at || e.size < ENTRY_HEADER_BYTES || e.size > ENTRY_BYTES_MAX ||
            e.size % BUNDLE_ALIGN || e.packed > p->info.bytes - at ||
            e.packed > ZSTD_COMPRESSBOUND(e.size) ||
            (p->plain && le32(record_at(p, i) + BUNDLE_INDEX_SIZE)))
            return false;
        if (i && memcmp(record_at(p, i - 1), record_at(p, i), 16) >= 0)
            return false;
        at += e.packed;
        p->info.entry_bytes += e.size;
    }
    if (at != p->info.bytes)
        return false;
    /* ascending, in an order where no two entries are equal: hence each entry once */
    for (uint64_t i = 0; i < p->info.entries; i++)
        if (by_source_at(p, i) >= p->info.entries ||
            (i && compare_sources(record_at(p, by_source_at(p, i - 1)),
                                  record_at(p, by_source_at(p, i))) >= 0))
            return false;
    return true;
}

static bool all_zero(const uint8_t *bytes, uint64_t from, uint64_t to)
{
    while (from < to)
        if (bytes[from++])
            return false;
    return true;
}

/* Reads and proves the rest of the head: index, manifest, tables. read_header has taken over what
 * `header` says. */
static quern_status read_head(struct bundle *p, const uint8_t header[BUNDLE_HEADER_BYTES])
{
    const struct bundle_layout *const l = &p->layout;

    p->head = os.malloc(l->end);
    FAIL_IF(!p->head, QUERN_E_MEMORY, "no memory for a bundle's index of %" PRIu64 " bytes",
            l->end);
    TRY(bundle_read(p, 0, p->head, l->end));
    FAIL_IF(memcmp(p->head, header, BUNDLE_HEADER_BYTES), QUERN_E_OBJECT,
            "the bundle was written to while it was opened");
    const struct hash128 digest = hash128_of(p->head, l->digest);
    FAIL_IF(memcmp(p->head + l->digest, digest.bytes, sizeof digest.bytes), QUERN_E_OBJECT,
            "the bundle's index does not have the digest behind it");
    p->info.manifest = (const char *)p->head + l->manifest;
    p->info.tuning = p->info.tuning_bytes ? (const char *)p->head + l->tuning : "";
    FAIL_IF(!all_zero(p->head, l->by_source + p->info.entries * 4, l->manifest) ||
                !all_zero(p->head, l->manifest + p->info.manifest_bytes, l->tuning) ||
                !all_zero(p->head, l->tuning + p->info.tuning_bytes, l->digest) ||
                memchr(p->info.manifest, 0, p->info.manifest_bytes) ||
                memchr(p->info.tuning, 0, p->info.tuning_bytes) || !index_is_sound(p),
            QUERN_E_OBJECT, "the bundle's index is malformed");
    return QUERN_OK;
}

static quern_status read_signature(struct bundle *p)
{
    uint8_t b[BUNDLE_SIGNATURE_BYTES];

    if (p->file_bytes == p->info.bytes)
        return QUERN_OK;
    TRY(bundle_read(p, p->info.bytes, b, sizeof b));
    FAIL_IF(memcmp(b, BUNDLE_SIGN_CANARY, 8) || le32(b + BUNDLE_SIGN_VERSION) != 1 ||
                !all_zero(b, BUNDLE_SIGN_ZERO, BUNDLE_SIGN_KEY) ||
                !all_zero(b, BUNDLE_SIGN_RESERVED, sizeof b),
            QUERN_E_OBJECT, "what follows the bundle is no signature that this version knows");
    p->info.has_signature = true;
    memcpy(p->info.public_key, b + BUNDLE_SIGN_KEY, sizeof p->info.public_key);
    memcpy(p->info.signature, b + BUNDLE_SIGN_VALUE, sizeof p->info.signature);
    return QUERN_OK;
}

void bundle_signature_block(const uint8_t public_key[32], const uint8_t signature[64],
                            uint8_t block[BUNDLE_SIGNATURE_BYTES])
{
    memset(block, 0, BUNDLE_SIGNATURE_BYTES);
    memcpy(block, BUNDLE_SIGN_CANARY, 8);
    le_put(block + BUNDLE_SIGN_VERSION, 4, 1);
    memcpy(block + BUNDLE_SIGN_KEY, public_key, 32);
    memcpy(block + BUNDLE_SIGN_VALUE, signature, 64);
}

static quern_status open_rest(struct bundle *p, struct bundle **out)
{
    uint8_t header[BUNDLE_HEADER_BYTES];
    quern_status status = read_header(p, header);

    if (status == QUERN_OK)
        status = read_head(p, header);
    if (status == QUERN_OK)
        status = read_signature(p);
    if (status == QUERN_OK)
        *out = p;
    else
        bundle_close(p);
    return status;
}

static quern_status new_pack(struct bundle **bundle)
{
    *bundle = os.calloc(1, sizeof **bundle);
    FAIL_IF(!*bundle, QUERN_E_MEMORY, "no memory for a bundle");
    (*bundle)->fd = -1;
    (*bundle)->dictionary = os.calloc(1, sizeof *(*bundle)->dictionary);
    if ((*bundle)->dictionary)
        return QUERN_OK;
    os.free(*bundle);
    return error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT(""), "no memory for a bundle");
}

/* Takes the descriptor over. */
static quern_status open_descriptor(int fd, struct bundle **out)
{
    struct bundle *p;
    struct stat st;

    const quern_status status =
        os.fstat(fd, &st)      ? error_set(QUERN_E_IO, __FILE__, FAIL_AT(""),
                                           "the bundle cannot be examined: %s", strerror(errno))
        : !S_ISREG(st.st_mode) ? error_set(QUERN_E_IO, __FILE__, FAIL_AT(""),
                                           "it is not a regular file, as bundles are")
                               : new_pack(&p);
    if (status != QUERN_OK) {
        os.close(fd);
        return status;
    }
    p->fd = fd;
    p->file_bytes = (uint64_t)st.st_size;
    return open_rest(p, out);
}

quern_status bundle_open(const char *path, struct bundle **out)
{
    char *real = NULL;

    TRY(directory_resolve(path, &real));
    const int fd = directory_open_file(real);
    os.free(real);
    return fd < 0 ? QUERN_E_CACHE : open_descriptor(fd, out);
}

quern_status bundle_open_any(const char *path, struct bundle **out)
{
    /* O_NONBLOCK: opening a fifo must not hang */
    const int fd = directory_openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);

    FAIL_IF(fd < 0, QUERN_E_IO, "it cannot be read: %s", strerror(-fd));
    return open_descriptor(fd, out);
}

quern_status bundle_open_memory(const void *bytes, size_t size, struct bundle **out)
{
    struct bundle *p;

    TRY(new_pack(&p));
    p->memory = bytes;
    p->file_bytes = size;
    return open_rest(p, out);
}

void bundle_close(struct bundle *p)
{
    if (!p)
        return;
    if (p->fd >= 0)
        os.close(p->fd);
    ZSTD_freeDDict(p->dictionary->zstd);
    os.free(p->dictionary->bytes);
    os.free(p->dictionary);
    os.free(p->head);
    os.free(p->digests);
    os.free(p);
}

void bundle_info(const struct bundle *p, struct bundle_info *info)
{
    *info = p->info;
}

/* ---- what is signed -------------------------------------------------------------------------- */

/* Adds bytes of the file to the signature's hash, piece by piece, and keeps their digest as that of
 * entry `i`, which read_part compares them with when they are asked for. */
static quern_status sign_part(struct bundle *p, uint64_t i, uint64_t offset, uint64_t size,
                              crypto_sign_state *state, uint8_t *piece)
{
    crypto_generichash_state digest;

    crypto_generichash_init(&digest, NULL, 0, BUNDLE_PROOF_BYTES);
    for (uint64_t at = 0; at < size; at += PIECE_BYTES) {
        const size_t n = size - at < PIECE_BYTES ? (size_t)(size - at) : PIECE_BYTES;
        TRY(bundle_read(p, offset + at, piece, n));
        crypto_sign_update(state, piece, n);
        crypto_generichash_update(&digest, piece, n);
    }
    crypto_generichash_final(&digest, p->digests + i * BUNDLE_PROOF_BYTES, BUNDLE_PROOF_BYTES);
    return QUERN_OK;
}

quern_status bundle_sign_update(struct bundle *p, crypto_sign_state *state)
{
    quern_status status = QUERN_OK;

    os.free(p->digests);
    p->digests = os.calloc(p->info.entries + 1, BUNDLE_PROOF_BYTES);
    uint8_t *const piece = os.malloc(PIECE_BYTES);
    if (!p->digests || !piece)
        status = error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("!p->digests || !piece"),
                           "no memory for reading a bundle");
    /* the head in memory is hashed, not the file's: it is what look-ups go by from now on */
    crypto_sign_update(state, p->head, p->layout.end);
    if (status == QUERN_OK)
        status = sign_part(p, p->info.entries, p->layout.end, entries_at(p) - p->layout.end, state,
                           piece);
    for (uint64_t i = 0; i < p->info.entries && status == QUERN_OK; i++) {
        const struct part e = part_at(p, i);
        status = sign_part(p, i, e.offset, e.packed, state, piece);
    }
    os.free(piece);
    return status;
}

/* ---- what is proven -------------------------------------------------------------------------- */

/* Reads the manifest's proofs; false unless there are as many as there must be. */
static bool read_proofs(struct bundle *p, uint8_t *proofs)
{
    const uint64_t wanted = p->info.entries + 1;
    uint64_t count = 0;
    size_t got = 0;

    for (const char *at = p->info.manifest; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, BUNDLE_PROOF, strlen(BUNDLE_PROOF)) != 0)
            continue;
        at += strlen(BUNDLE_PROOF);
        if (count == wanted ||
            sodium_hex2bin(proofs + count * BUNDLE_PROOF_BYTES, BUNDLE_PROOF_BYTES, at,
                           strcspn(at, "\n"), NULL, &got, NULL) ||
            got != BUNDLE_PROOF_BYTES)
            return false;
        count++;
    }
    return count == wanted;
}

quern_status bundle_prove(struct bundle *p, const uint8_t digest[BUNDLE_PROOF_BYTES])
{
    const char *const own = p->info.manifest;
    const bool says = bundle_of_base(own);
    uint8_t head[BUNDLE_PROOF_BYTES];

    crypto_generichash(head, sizeof head, p->head, p->layout.end, NULL, 0);
    if (memcmp(head, digest, sizeof head)) {
        const char *const version =
            says ? own + strlen(BUNDLE_BASE_MANIFEST) : "an unknown version";
        FAIL(QUERN_E_OBJECT,
             "the bundle, of %s%.*s, is not the one that this library, of quern %d.%d.%d, was "
             "built with",
             says ? "quern " : "", (int)strcspn(version, "\n"), version, QUERN_VERSION_MAJOR,
             QUERN_VERSION_MINOR, QUERN_VERSION_PATCH);
    }
    uint8_t *const proofs = os.calloc(p->info.entries + 1, BUNDLE_PROOF_BYTES);
    FAIL_IF(!proofs, QUERN_E_MEMORY, "no memory for a bundle's proofs");
    os.free(p->digests);
    p->digests = proofs;
    FAIL_IF(!read_proofs(p, proofs), QUERN_E_OBJECT,
            "the bundle's manifest has no proof for each of %" PRIu64 " entries", p->info.entries);
    return QUERN_OK;
}
