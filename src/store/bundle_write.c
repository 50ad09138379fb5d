/* SPDX-License-Identifier: MIT */
/* Making a bundle. Nothing but its content decides its bytes: no time, no path, no order of files.
 */
#include "base/os.h"
#include "base/str.h"
#include "object/le.h"
#include "object/object.h"
#include "store/entry.h"
#include "store/key.h"
#include "store/bundle_format.h"
#include "store/bundle_pack.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    struct hash128 key, source_key;
    uint64_t index; /* in the order of keys */
    void *bytes;    /* the entry as encoded, and from pack_pieces on compressed */
    size_t size, unpacked;
};

/* What entries are compressed with. */
struct shared {
    size_t size;
    uint8_t *packed;     /* as it is stored, and a digest of that; null: there is none */
    size_t packed_bytes; /* without the digest */
};

static int by_key(const void *a, const void *b)
{
    return memcmp(((const struct piece *)a)->key.bytes, ((const struct piece *)b)->key.bytes, 16);
}

static int by_source(const void *a, const void *b)
{
    const struct piece *const x = a, *const y = b;
    const int order = memcmp(x->source_key.bytes, y->source_key.bytes, 16);

    return order ? order : memcmp(x->key.bytes, y->key.bytes, 16);
}

/* Encodes a record as an entry; refuses one that no reader would take. */
static quern_status make_piece(const struct store_record *r, struct piece *piece)
{
    struct object object;
    const char *text;
    size_t bytes;

    TRY(store_parse(r, &object));
    object_free(&object);
    piece->key = hash128_of(r->key_text, r->key_text_bytes);
    if (!key_source(r->key_text, r->key_text_bytes, &piece->source_key, &text, &bytes))
        piece->source_key = (struct hash128){{0}};
    return entry_encode(r, &piece->bytes, &piece->size);
}

static void free_pieces(struct piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++)
        os.free(pieces[i].bytes);
    os.free(pieces);
}

/* Sorts by key and keeps the first of equal ones. */
static size_t sort_pieces(struct piece *pieces, size_t count)
{
    size_t kept = 0;

    if (count)
        qsort(pieces, count, sizeof *pieces, by_key);
    for (size_t i = 0; i < count; i++) {
        if (kept && !by_key(&pieces[kept - 1], &pieces[i])) {
            os.free(pieces[i].bytes);
            continue;
        }
        pieces[kept] = pieces[i];
        pieces[kept].index = kept;
        kept++;
    }
    for (size_t i = kept; i < count; i++)
        pieces[i].bytes = NULL;
    return kept;
}

static size_t bytes_of(const char *text)
{
    return text ? strlen(text) : 0;
}

/* Writes header, index, dictionary, entries; `pieces` are in the order of keys, and left in that of
 * source keys. */
static void fill(uint8_t *b, uint64_t total, struct piece *pieces, size_t count,
                 const struct bundle_content *c, const struct str *manifest,
                 const struct shared *shared, const struct bundle_layout *l)
{
    const size_t tuning_bytes = bytes_of(c->tuning);
    uint64_t at = l->end + bundle_dictionary_extent(shared->packed_bytes);

    memcpy(b, BUNDLE_CANARY, 8);
    le_put(b + BUNDLE_AT_VERSION, 4, BUNDLE_VERSION);
    le_put(b + BUNDLE_AT_HEADER_BYTES, 4, BUNDLE_HEADER_BYTES);
    le_put(b + BUNDLE_AT_TOTAL_BYTES, 8, total);
    le_put(b + BUNDLE_AT_ENTRIES, 8, count);
    le_put(b + BUNDLE_AT_MANIFEST, 8, manifest->length);
    le_put(b + BUNDLE_AT_SERIAL, 8, c->serial);
    le_put(b + BUNDLE_AT_TUNING, 8, tuning_bytes);
    le_put(b + BUNDLE_AT_DICTIONARY, 4, shared->size);
    le_put(b + BUNDLE_AT_PACKED, 4, shared->packed_bytes);
    if (shared->packed)
        memcpy(b + l->end, shared->packed, bundle_dictionary_extent(shared->packed_bytes));
    for (size_t i = 0; i < count; i++) {
        uint8_t *const r = b + BUNDLE_HEADER_BYTES + i * BUNDLE_INDEX_BYTES;
        memcpy(r + BUNDLE_INDEX_KEY, pieces[i].key.bytes, 16);
        memcpy(r + BUNDLE_INDEX_SOURCE_KEY, pieces[i].source_key.bytes, 16);
        le_put(r + BUNDLE_INDEX_OFFSET, 8, at);
        le_put(r + BUNDLE_INDEX_PACKED, 4, pieces[i].size);
        le_put(r + BUNDLE_INDEX_SIZE, 4, pieces[i].unpacked);
        memcpy(b + at, pieces[i].bytes, pieces[i].size);
        at += pieces[i].size;
    }
    if (count)
        qsort(pieces, count, sizeof *pieces, by_source);
    for (size_t i = 0; i < count; i++)
        le_put(b + l->by_source + i * 4, 4, pieces[i].index);
    memcpy(b + l->manifest, str_text(manifest), manifest->length);
    if (tuning_bytes)
        memcpy(b + l->tuning, c->tuning, tuning_bytes);
    const struct hash128 digest = hash128_of(b, l->digest);
    memcpy(b + l->digest, digest.bytes, sizeof digest.bytes);
}

/* Compresses every piece in its place with the dictionary. */
static quern_status pack_with(struct piece *pieces, size_t count, const void *dictionary,
                              size_t size)
{
    struct packer *packer;
    quern_status status = QUERN_OK;

    TRY(packer_open(count, dictionary, size, &packer));
    for (size_t i = 0; i < count && status == QUERN_OK; i++) {
        struct piece *const p = &pieces[i];
        void *const entry = p->bytes;
        p->unpacked = p->size;
        status = packer_pack(packer, (struct piece_bytes){entry, p->size}, &p->bytes, &p->size);
        if (status == QUERN_OK)
            os.free(entry);
    }
    packer_close(packer);
    return status;
}

/* Stores the compressed dictionary with its digest. */
static quern_status keep_dictionary(struct shared *shared, const struct piece *dictionary)
{
    const struct hash128 digest = hash128_of(dictionary->bytes, dictionary->size);

    shared->packed = os.malloc(bundle_dictionary_extent(dictionary->size));
    FAIL_IF(!shared->packed, QUERN_E_MEMORY, "no memory for a dictionary of %zu bytes",
            dictionary->size);
    memcpy(shared->packed, dictionary->bytes, dictionary->size);
    memcpy(shared->packed + dictionary->size, digest.bytes, sizeof digest.bytes);
    shared->packed_bytes = dictionary->size;
    return QUERN_OK;
}

/* Makes the dictionary of all pieces and compresses it and them. */
static quern_status pack_pieces(struct piece *pieces, size_t count, struct shared *shared)
{
    struct piece_bytes *const entries = os.calloc(count ? count : 1, sizeof *entries);
    struct piece dictionary = {.bytes = NULL};

    FAIL_IF(!entries, QUERN_E_MEMORY, "no memory for a list of %zu entries", count);
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct piece_bytes){pieces[i].bytes, pieces[i].size};
    quern_status status = dictionary_make(entries, count, &dictionary.bytes, &dictionary.size);
    os.free(entries);
    if (status == QUERN_OK)
        status = pack_with(pieces, count, dictionary.bytes, dictionary.size);
    shared->size = dictionary.size;
    if (status == QUERN_OK && shared->size) { /* by itself */
        status = pack_with(&dictionary, 1, NULL, 0);
        if (status == QUERN_OK)
            status = keep_dictionary(shared, &dictionary);
    }
    os.free(dictionary.bytes);
    return status;
}

static quern_status check_manifest(size_t bytes)
{
    FAIL_IF(bytes > BUNDLE_MANIFEST_MAX, QUERN_E_ARGUMENT,
            "a manifest of %zu bytes; at most %" PRIu64 " are allowed", bytes, BUNDLE_MANIFEST_MAX);
    return QUERN_OK;
}

static void add_proof(struct str *manifest, const void *bytes, size_t size)
{
    uint8_t proof[BUNDLE_PROOF_BYTES];
    char hex[2 * sizeof proof + 1];

    crypto_generichash(proof, sizeof proof, bytes, size, NULL, 0);
    hex_from_bytes(hex, proof, sizeof proof);
    str_add(manifest, BUNDLE_PROOF);
    str_add(manifest, hex);
    str_add(manifest, "\n");
}

/* Makes the manifest as it is stored. That of base kernels gets what bundle_prove looks for: a
 * proof of each piece, which are in the order of keys, and one of the dictionary. */
static quern_status make_manifest(const char *given, const struct piece *pieces, size_t count,
                                  const struct shared *shared, struct str *manifest)
{
    str_add(manifest, given ? given : "");
    if (bundle_of_base(str_text(manifest))) {
        FAIL_IF(strstr(given, "\n" BUNDLE_PROOF), QUERN_E_ARGUMENT,
                "the manifest of base kernels has proofs, which are added when a bundle is made");
        if (given[manifest->length - 1] != '\n')
            str_add(manifest, "\n");
        for (size_t i = 0; i < count; i++)
            add_proof(manifest, pieces[i].bytes, pieces[i].size);
        add_proof(manifest, shared->packed, bundle_dictionary_extent(shared->packed_bytes));
    }
    FAIL_IF(manifest->failed, QUERN_E_MEMORY, "no memory for a bundle's manifest");
    return check_manifest(manifest->length);
}

/* Lays the compressed pieces out. */
static quern_status assemble(struct piece *pieces, size_t count, const struct bundle_content *c,
                             const struct str *manifest, const struct shared *shared, void **bytes,
                             size_t *size)
{
    const struct bundle_layout l = bundle_lay_out(count, manifest->length, bytes_of(c->tuning));
    uint64_t total = l.end + bundle_dictionary_extent(shared->packed_bytes);

    for (size_t i = 0; i < count; i++)
        total += pieces[i].size;
    FAIL_IF(total > BUNDLE_BYTES_MAX, QUERN_E_ARGUMENT,
            "a bundle of %" PRIu64 " bytes; at most %" PRIu64 " are allowed", total,
            BUNDLE_BYTES_MAX);
    uint8_t *const b = os.calloc(1, total);
    FAIL_IF(!b, QUERN_E_MEMORY, "no memory for a bundle of %" PRIu64 " bytes", total);
    fill(b, total, pieces, count, c, manifest, shared, &l);
    *bytes = b;
    *size = total;
    return QUERN_OK;
}

quern_status bundle_write(const struct bundle_content *c, void **bytes, size_t *size)
{
    quern_status status = QUERN_OK;
    struct shared shared = {0};
    struct str manifest = {0};
    size_t made = 0;

    FAIL_IF(c->count > BUNDLE_ENTRIES_MAX, QUERN_E_ARGUMENT,
            "a bundle of %zu entries; at most %" PRIu64 " are allowed", c->count,
            BUNDLE_ENTRIES_MAX);
    TRY(check_manifest(bytes_of(c->manifest)));
    FAIL_IF(bytes_of(c->tuning) > BUNDLE_TUNING_MAX, QUERN_E_ARGUMENT,
            "tuning tables of %zu bytes; at most %" PRIu64 " are allowed", bytes_of(c->tuning),
            BUNDLE_TUNING_MAX);
    struct piece *const pieces = os.calloc(c->count ? c->count : 1, sizeof *pieces);
    FAIL_IF(!pieces, QUERN_E_MEMORY, "no memory for a list of %zu entries", c->count);
    while (status == QUERN_OK && made < c->count) {
        status = make_piece(&c->records[made], &pieces[made]);
        made += status == QUERN_OK;
    }
    const size_t kept = status == QUERN_OK ? sort_pieces(pieces, made) : 0;
    if (status == QUERN_OK)
        status = pack_pieces(pieces, kept, &shared);
    if (status == QUERN_OK)
        status = make_manifest(c->manifest, pieces, kept, &shared, &manifest);
    if (status == QUERN_OK)
        status = assemble(pieces, kept, c, &manifest, &shared, bytes, size);
    str_free(&manifest);
    os.free(shared.packed);
    free_pieces(pieces, made);
    return status;
}
