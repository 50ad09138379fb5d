/* SPDX-License-Identifier: MIT */
/*
 * Bundles: what goes in comes out, in the same bytes always, and damage is never served.
 *
 * This file is long because it makes bundles of every kind and damages each of their fields.
 */
#include "base/os.h"
#include "object/le.h"
#include "store/internal.h"
#include "store/key.h"
#include "store/bundle.h"
#include "store/bundle_format.h"
#include "store/bundle_pack.h"
#include "store/bundle_reader.h"
#include "store/entry.h"
#include "store/signature.h"
#include "t_objects.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A record whose key text is a kernel's: of source `name`, made by `toolchain`. */
struct kernel_record {
    char source_text[128], key_text[512];
    struct store_record record;
    struct store_want want;
};

static void make_kernel(struct kernel_record *k, const char *name, const char *toolchain)
{
    const struct t_object o = t_object(T_AXPY_GFX1151);
    struct str source = {0}, text = {0};
    char hex[33];

    key_add_text(&source, "source", name);
    key_add_text(&source, "processor", "gfx1151");
    snprintf(k->source_text, sizeof k->source_text, "%s", source.text);
    const struct hash128 source_key = hash128_of(source.text, source.length);
    hex_from_bytes(hex, source_key.bytes, sizeof source_key.bytes);
    key_add_text(&text, "source key", hex);
    key_add_text(&text, "toolchain", toolchain);
    str_add(&text, source.text);
    snprintf(k->key_text, sizeof k->key_text, "%s", text.text);
    k->record = (struct store_record){.key_text = k->key_text,
                                      .key_text_bytes = strlen(k->key_text),
                                      .source = "// a kernel\n",
                                      .log = "",
                                      .object = o.bytes,
                                      .object_bytes = o.size};
    k->want = (struct store_want){.key = hash128_of(text.text, text.length),
                                  .source_key = source_key,
                                  .key_text = k->key_text,
                                  .key_text_bytes = strlen(k->key_text),
                                  .source_text = k->source_text,
                                  .source_text_bytes = strlen(k->source_text),
                                  .target = target_named("gfx1151")};
    str_free(&source);
    str_free(&text);
}

/* A bundle of three kernels: x by the toolchains t1 and t2, y by t1. */
struct three {
    struct kernel_record x1, x2, y1;
    void *bytes;
    size_t size;
};

#define TABLE "quern-tuning 1 gfx1151\n# none\n"

static void make_three(struct three *b)
{
    make_kernel(&b->x1, "x", "t1");
    make_kernel(&b->x2, "x", "t2");
    make_kernel(&b->y1, "y", "t1");
    const struct store_record records[] = {b->x1.record, b->x2.record, b->y1.record};
    const struct bundle_content content = {records, 3, "wq=nf4 n=64 k=64 a=f16\n", 7, TABLE};
    assert_int_equal(bundle_write(&content, &b->bytes, &b->size), QUERN_OK);
}

/* What a get gave: true for a hit, which must then be the wanted kernel's bytes. */
static bool hit(struct bundle *p, const struct kernel_record *k, bool by_source)
{
    struct store_entry e;
    const quern_status status = bundle_get(p, &k->want, by_source, &e);

    if (status != QUERN_OK || !e.buffer) {
        assert_null(e.buffer);
        return false;
    }
    assert_int_equal(e.record.object_bytes, k->record.object_bytes);
    assert_memory_equal(e.record.object, k->record.object, k->record.object_bytes);
    if (!by_source)
        assert_memory_equal(e.record.key_text, k->key_text, k->record.key_text_bytes);
    store_entry_free(&e);
    return true;
}

static void a_bundle_gives_back_what_it_was_made_of(void **state)
{
    struct three b;
    struct bundle *p;
    struct bundle_info info;
    struct kernel_record absent;

    (void)state;
    make_three(&b);
    make_kernel(&absent, "z", "t1");
    assert_int_equal(bundle_open_memory(b.bytes, b.size, &p), QUERN_OK);
    bundle_info(p, &info);
    assert_int_equal(info.entries, 3);
    assert_int_equal(info.bytes, b.size);
    assert_int_equal(info.serial, 7);
    assert_string_equal(info.manifest, "wq=nf4 n=64 k=64 a=f16\n");
    assert_string_equal(info.tuning, TABLE);
    assert_int_equal(info.tuning_bytes, strlen(TABLE));
    assert_false(info.has_signature);
    assert_true(hit(p, &b.x1, false));
    assert_true(hit(p, &b.x2, false));
    assert_true(hit(p, &b.y1, false));
    assert_false(hit(p, &absent, false));
    assert_false(hit(p, &absent, true));
    /* by another toolchain: found by its source only */
    make_kernel(&absent, "y", "t9");
    assert_false(hit(p, &absent, false));
    assert_true(hit(p, &absent, true));
    /* and for another target, never */
    absent.want.target = target_named("gfx1201");
    assert_false(hit(p, &absent, true));
    bundle_close(p);
    free(b.bytes);
}

static void equal_content_gives_equal_bytes(void **state)
{
    struct three b;
    void *other;
    size_t size;

    (void)state;
    make_three(&b);
    const struct store_record records[] = {b.y1.record, b.x2.record, b.x1.record, b.y1.record};
    const struct bundle_content content = {records, 4, "wq=nf4 n=64 k=64 a=f16\n", 7, TABLE};
    assert_int_equal(bundle_write(&content, &other, &size), QUERN_OK);
    assert_int_equal(size, b.size);
    assert_memory_equal(other, b.bytes, size);
    free(other);
    free(b.bytes);
}

static void what_no_reader_takes_is_not_packed(void **state)
{
    struct kernel_record k;
    void *bytes;
    size_t size;

    (void)state;
    make_kernel(&k, "x", "t");
    k.record.object_bytes -= 1;
    assert_int_equal(bundle_write(&(struct bundle_content){&k.record, 1, NULL, 0}, &bytes, &size),
                     QUERN_E_OBJECT);
}

/* A bundle of base kernels, opened and proven by the digest of its head. */
static struct bundle *open_proven(const void *bytes, size_t size)
{
    uint8_t digest[BUNDLE_PROOF_BYTES];
    struct bundle *p;

    assert_int_equal(bundle_open_memory(bytes, size, &p), QUERN_OK);
    crypto_generichash(digest, sizeof digest, bytes, p->layout.end, NULL, 0);
    assert_int_equal(bundle_prove(p, digest), QUERN_OK);
    return p;
}

/* Base kernels' manifests get proofs, once; other manifests stay as they are. */
static void base_kernels_are_proven(void **state)
{
    static const char head[] = "# quern base kernels, version 1.2.3\n# layers\n";
    struct kernel_record k;
    struct bundle *p;
    void *bytes;
    size_t size;

    (void)state;
    make_kernel(&k, "x", "t1");
    struct bundle_content content = {&k.record, 1, head, 0, NULL};
    assert_int_equal(bundle_write(&content, &bytes, &size), QUERN_OK);
    p = open_proven(bytes, size);
    assert_int_equal(strncmp(p->info.manifest, head, strlen(head)), 0);
    assert_true(hit(p, &k, false));
    char *const proven = strdup(p->info.manifest);
    bundle_close(p);
    free(bytes);

    /* what has proofs already would have those of two bundles */
    content.manifest = proven;
    assert_int_equal(bundle_write(&content, &bytes, &size), QUERN_E_ARGUMENT);
    assert_non_null(strstr(quern_last_error()->message, "has proofs"));
    *proven = ';';
    assert_int_equal(bundle_write(&content, &bytes, &size), QUERN_OK);
    assert_int_equal(bundle_open_memory(bytes, size, &p), QUERN_OK);
    assert_string_equal(p->info.manifest, proven);
    bundle_close(p);
    free(bytes);
    free(proven);

    content.manifest = "# quern base kernels, version 1.2.3"; /* without an end of line */
    assert_int_equal(bundle_write(&content, &bytes, &size), QUERN_OK);
    bundle_close(open_proven(bytes, size));
    free(bytes);

    char *const long_text = calloc(1, BUNDLE_MANIFEST_MAX + 2);
    memset(long_text, 'x', BUNDLE_MANIFEST_MAX + 1);
    content.manifest = long_text;
    assert_int_equal(bundle_write(&content, &bytes, &size), QUERN_E_ARGUMENT);
    /* and one that the proofs make too long */
    memcpy(long_text, head, strlen(head));
    long_text[BUNDLE_MANIFEST_MAX] = 0;
    assert_int_equal(bundle_write(&content, &bytes, &size), QUERN_E_ARGUMENT);
    free(long_text);
}

/* Every flipped bit and every length of a bundle of two entries and a tuning table: it is refused,
 * or the damaged entry alone is a miss, or both if what they share is damaged; nothing wrong is
 * ever served. (A few bits of a compressed frame mean nothing, so that an entry survives them.) */
static void every_flip_and_truncation_is_noticed(void **state)
{
    struct kernel_record x, y;
    uint8_t *bytes;
    void *made;
    size_t size, refused = 0, lost[3] = {0};

    (void)state;
    make_kernel(&x, "x", "t1");
    make_kernel(&y, "y", "t1");
    const struct store_record records[] = {x.record, y.record};
    assert_int_equal(
        bundle_write(&(struct bundle_content){records, 2, "m", 1, TABLE}, &made, &size), QUERN_OK);
    bytes = made;
    struct bundle_layout l = bundle_lay_out(2, 1, strlen(TABLE));
    const size_t shared = bundle_dictionary_extent(le32(bytes + BUNDLE_AT_PACKED));
    assert_true(shared > BUNDLE_DIGEST_BYTES);
    for (size_t bit = 0; bit < size * 8; bit++) {
        struct bundle *p;
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (bundle_open_memory(bytes, size, &p) != QUERN_OK) {
            refused++;
            assert_true(bit / 8 < l.end);
        } else {
            /* the head is proven, so the damage is in the dictionary or in one entry */
            const int gone = 2 - hit(p, &x, false) - hit(p, &y, false);
            lost[gone]++;
            assert_true(bit / 8 < l.end + shared ? gone == 2 : gone < 2);
            bundle_close(p);
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(refused, l.end * 8);
    assert_int_equal(lost[2], shared * 8);
    assert_true(lost[1] > 20 * lost[0]);
    for (size_t n = 0; n < size; n++) {
        struct bundle *p;
        assert_int_equal(bundle_open_memory(bytes, n, &p), QUERN_E_OBJECT);
    }
    free(made);
}

/* Makes the digest behind the head right. */
static void mend_head(uint8_t *bytes, const struct bundle_layout *l)
{
    const struct hash128 digest = hash128_of(bytes, l->digest);

    memcpy(bytes + l->digest, digest.bytes, sizeof digest.bytes);
}

/* Sizes and offsets of a hostile hand, digest and all made to fit. */
static void hostile_heads_are_refused(void **state)
{
    static const struct {
        size_t at, bytes;
        uint64_t value;
    } forgeries[] = {
        {BUNDLE_AT_VERSION, 4, 1},
        {BUNDLE_AT_VERSION, 4, 3},
        {BUNDLE_AT_HEADER_BYTES, 4, 128},
        {BUNDLE_AT_TOTAL_BYTES, 8, UINT64_MAX},
        {BUNDLE_AT_TOTAL_BYTES, 8, 0},
        {BUNDLE_AT_ENTRIES, 8, 0},
        {BUNDLE_AT_ENTRIES, 8, 4},
        {BUNDLE_AT_ENTRIES, 8, UINT64_MAX},
        {BUNDLE_AT_ENTRIES, 8, UINT64_MAX / BUNDLE_INDEX_BYTES},
        {BUNDLE_AT_ENTRIES, 8, BUNDLE_ENTRIES_MAX},
        {BUNDLE_AT_MANIFEST, 8, UINT64_MAX},
        {BUNDLE_AT_MANIFEST, 8, BUNDLE_MANIFEST_MAX},
        {BUNDLE_AT_MANIFEST, 8, 0},
        {BUNDLE_AT_DICTIONARY, 4, 0},
        {BUNDLE_AT_DICTIONARY, 4, DICTIONARY_BYTES_MAX + 1},
        {BUNDLE_AT_DICTIONARY, 4, UINT32_MAX},
        {BUNDLE_AT_PACKED, 4, 0},
        {BUNDLE_AT_PACKED, 4, 1},
        {BUNDLE_AT_PACKED, 4, UINT32_MAX},
        {BUNDLE_AT_TUNING, 8, BUNDLE_TUNING_MAX + 1},
        {BUNDLE_AT_TUNING, 8, 0}, /* then what is there is no padding */
        {BUNDLE_AT_TUNING, 8, 1},
        {BUNDLE_HEADER_BYTES + BUNDLE_INDEX_OFFSET, 8, 0},
        {BUNDLE_HEADER_BYTES + BUNDLE_INDEX_OFFSET, 8, UINT64_MAX - 15},
        {BUNDLE_HEADER_BYTES + BUNDLE_INDEX_SIZE, 4, 0},
        {BUNDLE_HEADER_BYTES + BUNDLE_INDEX_SIZE, 4, UINT32_MAX - 15},
        {BUNDLE_HEADER_BYTES + BUNDLE_INDEX_SIZE, 4, ENTRY_BYTES_MAX + 16},
        {BUNDLE_HEADER_BYTES + BUNDLE_INDEX_PACKED, 4, 0},
        {BUNDLE_HEADER_BYTES + BUNDLE_INDEX_PACKED, 4, UINT32_MAX},
        {BUNDLE_HEADER_BYTES + BUNDLE_INDEX_KEY, 8, UINT64_MAX},
        {BUNDLE_HEADER_BYTES + 3 * BUNDLE_INDEX_BYTES, 4, 3},
        {BUNDLE_HEADER_BYTES + 3 * BUNDLE_INDEX_BYTES, 4, UINT32_MAX},
        {BUNDLE_HEADER_BYTES + 3 * BUNDLE_INDEX_BYTES, 8, 0},
        {BUNDLE_HEADER_BYTES + 3 * BUNDLE_INDEX_BYTES + 12, 4, 1},
    };
    struct three b;
    const struct bundle_layout l =
        bundle_lay_out(3, strlen("wq=nf4 n=64 k=64 a=f16\n"), strlen(TABLE));

    (void)state;
    make_three(&b);
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        uint8_t *const forged = malloc(b.size);
        struct bundle *p = NULL;
        memcpy(forged, b.bytes, b.size);
        le_put(forged + forgeries[i].at, (uint32_t)forgeries[i].bytes, forgeries[i].value);
        mend_head(forged, &l);
        if (bundle_open_memory(forged, b.size, &p) != QUERN_E_OBJECT)
            fail_msg("forgery %zu was taken", i);
        free(forged);
    }
    free(b.bytes);
}

/* Entries exchanged under each other's index records, everything else made to fit. */
static void swapped_entries_are_not_served(void **state)
{
    struct kernel_record x, y;
    void *made;
    size_t size;
    struct bundle *p;
    struct store_entry e;

    (void)state;
    make_kernel(&x, "x", "t1");
    make_kernel(&y, "y", "t1");
    const struct store_record records[] = {x.record, y.record};
    assert_int_equal(bundle_write(&(struct bundle_content){records, 2, NULL, 0}, &made, &size),
                     QUERN_OK);
    const struct bundle_layout l = bundle_lay_out(2, 0, 0);
    uint8_t *const bytes = made, *const first = bytes + BUNDLE_HEADER_BYTES;
    uint8_t *const second = first + BUNDLE_INDEX_BYTES;
    const uint64_t at = le64(first + BUNDLE_INDEX_OFFSET);
    const uint32_t a = le32(first + BUNDLE_INDEX_PACKED), b = le32(second + BUNDLE_INDEX_PACKED);
    const uint32_t a_size = le32(first + BUNDLE_INDEX_SIZE);
    uint8_t *const copy = malloc(a);
    memcpy(copy, bytes + at, a);
    memmove(bytes + at, bytes + at + a, b);
    memcpy(bytes + at + b, copy, a);
    le_put(first + BUNDLE_INDEX_PACKED, 4, b);
    le_put(first + BUNDLE_INDEX_SIZE, 4, le32(second + BUNDLE_INDEX_SIZE));
    le_put(second + BUNDLE_INDEX_OFFSET, 8, at + b);
    le_put(second + BUNDLE_INDEX_PACKED, 4, a);
    le_put(second + BUNDLE_INDEX_SIZE, 4, a_size);
    mend_head(bytes, &l);
    assert_int_equal(bundle_open_memory(bytes, size, &p), QUERN_OK);
    assert_false(hit(p, &x, false) || hit(p, &y, false) || hit(p, &x, true) || hit(p, &y, true));
    assert_int_equal(bundle_entry(p, 0, NULL, &e), QUERN_E_OBJECT);
    bundle_close(p);
    free(copy);
    free(made);
}

/* Signs a bundle as `quern bundle sign` does; returns it with its signature, malloc'ed. */
static uint8_t *sign(const void *bytes, size_t size, struct signers *signers)
{
    static const char domain[] = "quern bundle signature 1\n";
    uint8_t secret[crypto_sign_SECRETKEYBYTES], seed[32] = {1}, value[64];
    uint8_t *const whole = malloc(size + BUNDLE_SIGNATURE_BYTES);
    crypto_sign_state state;

    crypto_sign_seed_keypair(signers->keys[0], secret, seed);
    signers->count = 1;
    crypto_sign_init(&state);
    crypto_sign_update(&state, (const uint8_t *)domain, sizeof domain - 1);
    crypto_sign_update(&state, bytes, size);
    crypto_sign_final_create(&state, value, NULL, secret);
    memcpy(whole, bytes, size);
    bundle_signature_block(signers->keys[0], value, whole + size);
    return whole;
}

/* A bundle of version 1, as libraries before compression wrote it: entries as they are. */
static uint8_t *plain_bundle(const struct kernel_record *k, size_t *size)
{
    const struct bundle_layout l = bundle_lay_out(1, 0, 0);
    void *entry;
    size_t bytes;

    assert_int_equal(entry_encode(&k->record, &entry, &bytes), QUERN_OK);
    *size = l.end + bytes;
    uint8_t *const b = calloc(1, *size), *const r = b + BUNDLE_HEADER_BYTES;
    memcpy(b, BUNDLE_CANARY, 8);
    le_put(b + BUNDLE_AT_VERSION, 4, BUNDLE_VERSION_PLAIN);
    le_put(b + BUNDLE_AT_HEADER_BYTES, 4, BUNDLE_HEADER_BYTES);
    le_put(b + BUNDLE_AT_TOTAL_BYTES, 8, *size);
    le_put(b + BUNDLE_AT_ENTRIES, 8, 1);
    memcpy(r + BUNDLE_INDEX_KEY, k->want.key.bytes, 16);
    memcpy(r + BUNDLE_INDEX_SOURCE_KEY, k->want.source_key.bytes, 16);
    le_put(r + BUNDLE_INDEX_OFFSET, 8, l.end);
    le_put(r + 40, 8, bytes); /* one number of 64 bits then */
    memcpy(b + l.end, entry, bytes);
    mend_head(b, &l);
    free(entry);
    return b;
}

static void bundles_from_before_compression_are_read(void **state)
{
    struct kernel_record k;
    struct signers signers;
    struct bundle *p;
    size_t size;

    (void)state;
    make_kernel(&k, "x", "t1");
    uint8_t *const bytes = plain_bundle(&k, &size);
    assert_int_equal(bundle_open_memory(bytes, size, &p), QUERN_OK);
    assert_true(hit(p, &k, false) && hit(p, &k, true));
    bundle_close(p);
    uint8_t *const signed_bytes = sign(bytes, size, &signers);
    assert_int_equal(bundle_open_memory(signed_bytes, size + BUNDLE_SIGNATURE_BYTES, &p), QUERN_OK);
    assert_int_equal(bundle_check_signature(p, &signers), QUERN_OK);
    assert_true(hit(p, &k, false));
    signed_bytes[size - 1] ^= 1;
    assert_false(hit(p, &k, false));
    bundle_close(p);
    /* a plain one has no dictionary, and no size but one */
    const struct bundle_layout l = bundle_lay_out(1, 0, 0);
    le_put(bytes + BUNDLE_HEADER_BYTES + BUNDLE_INDEX_SIZE, 4, 1);
    mend_head(bytes, &l);
    assert_int_equal(bundle_open_memory(bytes, size, &p), QUERN_E_OBJECT);
    free(signed_bytes);
    free(bytes);
}

/* A bomb: the index says how large an entry is, and no more is ever unpacked or allocated. */
static void what_is_unpacked_has_the_size_of_the_index(void **state)
{
    struct three b;
    struct bundle *p;
    struct store_entry e;
    const struct bundle_layout l =
        bundle_lay_out(3, strlen("wq=nf4 n=64 k=64 a=f16\n"), strlen(TABLE));
    static const int by[] = {-16, 16};

    (void)state;
    make_three(&b);
    uint8_t *const r = (uint8_t *)b.bytes + BUNDLE_HEADER_BYTES;
    const uint32_t size = le32(r + BUNDLE_INDEX_SIZE);
    for (size_t i = 0; i < 2; i++) {
        le_put(r + BUNDLE_INDEX_SIZE, 4, (uint64_t)((int64_t)size + by[i]));
        mend_head(b.bytes, &l);
        assert_int_equal(bundle_open_memory(b.bytes, b.size, &p), QUERN_OK);
        assert_int_equal(bundle_entry(p, 0, NULL, &e), QUERN_E_OBJECT);
        assert_non_null(strstr(quern_last_error()->message, "cannot be unpacked"));
        assert_int_equal(bundle_entry(p, 1, NULL, &e), QUERN_OK); /* the others are as before */
        store_entry_free(&e);
        bundle_close(p);
    }
    free(b.bytes);
}

/* Kernels of one source, as those of a model are to a large part, take little more than one. */
static void entries_share_what_they_have_in_common(void **state)
{
    enum { COUNT = 64 };
    static struct kernel_record kernels[COUNT];
    struct store_record records[COUNT];
    static char source[32 << 10];
    uint32_t random = 1;
    size_t one, all;
    void *bytes;

    (void)state;
    for (size_t i = 0; i + 1 < sizeof source; i++) { /* text that cannot be compressed by itself */
        random = random * 1664525 + 1013904223;
        source[i] = (char)(' ' + (random >> 16) % 95);
    }
    for (int i = 0; i < COUNT; i++) {
        char name[24];
        snprintf(name, sizeof name, "kernel%d", i);
        make_kernel(&kernels[i], name, "t1");
        records[i] = kernels[i].record;
        records[i].source = source;
    }
    assert_int_equal(bundle_write(&(struct bundle_content){records, 1, NULL, 0}, &bytes, &one),
                     QUERN_OK);
    free(bytes);
    assert_int_equal(bundle_write(&(struct bundle_content){records, COUNT, NULL, 0}, &bytes, &all),
                     QUERN_OK);
    assert_true(one > 20000); /* 95 characters have 6.6 bits each */
    assert_true(all < one + COUNT * 600);
    free(bytes);
}

/* Whoever has a bundle's file open for writing may do so at any moment: what was signed is served,
 * or nothing. The other bundle is sound, has the same keys, and no trusted signature. */
static void what_is_written_after_signing_is_not_served(void **state)
{
    struct t_store *const t = *state;
    struct three b;
    struct signers signers;
    struct store_entry e;
    struct bundle *p;
    struct bundle_info info;
    char path[PATH_MAX];

    make_three(&b);
    uint8_t *const ours = sign(b.bytes, b.size, &signers);
    const size_t whole = b.size + BUNDLE_SIGNATURE_BYTES;
    struct store_record records[] = {b.x1.record, b.x2.record, b.y1.record};
    const struct bundle_content content = {records, 3, "wq=nf4 n=64 k=65 a=f16\n", 7, TABLE};
    char source[32];
    void *bytes = NULL;
    size_t size = 0;
    for (int i = 0; size != b.size; i++) { /* until it is compressed to the same size, too */
        assert_in_range(i, 0, 255);
        snprintf(source, sizeof source, "// forged %02x\n", (unsigned)i);
        records[0].source = records[1].source = records[2].source = source;
        free(bytes);
        assert_int_equal(bundle_write(&content, &bytes, &size), QUERN_OK);
    }
    uint8_t *const forged = malloc(whole);
    memcpy(forged, bytes, size);
    memcpy(forged + size, ours + size, BUNDLE_SIGNATURE_BYTES);
    snprintf(path, sizeof path, "%s/b.qkb", t->root);

    /* after the signature was checked */
    t_write_file(path, ours, whole);
    assert_int_equal(bundle_open(path, &p), QUERN_OK);
    assert_int_equal(bundle_check_signature(p, &signers), QUERN_OK);
    assert_true(hit(p, &b.x1, false) && hit(p, &b.x1, true));
    t_write_file(path, forged, whole);
    for (int by_source = 0; by_source < 2; by_source++) {
        assert_int_equal(bundle_get(p, &b.x1.want, by_source, &e), QUERN_E_OBJECT);
        assert_non_null(strstr(quern_last_error()->message, "not the one that is vouched for"));
    }
    for (uint64_t i = 0; i < 3; i++)
        if (bundle_entry(p, i, NULL, &e) == QUERN_OK) { /* it differed in what is shared alone */
            assert_string_equal(e.record.source, "// a kernel\n");
            store_entry_free(&e);
        }
    bundle_info(p, &info);
    assert_string_equal(info.manifest, "wq=nf4 n=64 k=64 a=f16\n");
    t_write_file(path, ours, whole);
    assert_true(hit(p, &b.x1, false));
    bundle_close(p);

    /* and before the dictionary was read, which is when the first entry is asked for */
    assert_int_equal(bundle_open(path, &p), QUERN_OK);
    assert_int_equal(bundle_check_signature(p, &signers), QUERN_OK);
    t_write_file(path, forged, whole);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(bundle_entry(p, i, NULL, &e), QUERN_E_OBJECT);
        assert_non_null(strstr(quern_last_error()->message, "dictionary is not the one"));
    }
    bundle_close(p);

    /* before: the index was read, the signature was not checked yet */
    t_write_file(path, forged, whole);
    assert_int_equal(bundle_open(path, &p), QUERN_OK);
    t_write_file(path, ours, whole);
    assert_int_equal(bundle_check_signature(p, &signers), QUERN_E_OBJECT);
    bundle_close(p);

    /* not signed at all: its own digests are all that is asked */
    assert_int_equal(bundle_open_memory(bytes, size, &p), QUERN_OK);
    assert_int_equal(bundle_get(p, &b.x1.want, false, &e), QUERN_OK);
    assert_string_equal(e.record.source, source);
    store_entry_free(&e);
    bundle_close(p);
    free(ours);
    free(forged);
    os.free(bytes);
    os.free(b.bytes);
}

static void signature_blocks_are_read(void **state)
{
    struct three b;
    struct bundle *p;
    struct bundle_info info;
    uint8_t key[32], value[64];

    (void)state;
    make_three(&b);
    memset(key, 0x11, sizeof key);
    memset(value, 0x22, sizeof value);
    uint8_t *const whole = malloc(b.size + BUNDLE_SIGNATURE_BYTES);
    memcpy(whole, b.bytes, b.size);
    bundle_signature_block(key, value, whole + b.size);
    assert_int_equal(bundle_open_memory(whole, b.size + BUNDLE_SIGNATURE_BYTES, &p), QUERN_OK);
    bundle_info(p, &info);
    assert_true(info.has_signature);
    assert_memory_equal(info.public_key, key, sizeof key);
    assert_memory_equal(info.signature, value, sizeof value);
    assert_true(hit(p, &b.x1, false));
    bundle_close(p);
    whole[b.size] ^= 1;
    assert_int_equal(bundle_open_memory(whole, b.size + BUNDLE_SIGNATURE_BYTES, &p),
                     QUERN_E_OBJECT);
    for (size_t n = 1; n < BUNDLE_SIGNATURE_BYTES; n++)
        assert_int_equal(bundle_open_memory(whole, b.size + n, &p), QUERN_E_OBJECT);
    free(whole);
    free(b.bytes);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void refused(const char *path, const char *reason)
{
    struct bundle *p = NULL;

    assert_int_not_equal(bundle_open(path, &p), QUERN_OK);
    if (!strstr(quern_last_error()->message, reason))
        fail_msg("%s: \"%s\" is not in \"%s\"", path, reason, quern_last_error()->message);
}

static void files_of_strangers_are_refused(void **state)
{
    struct t_store *const t = *state;
    const int before = t_open_descriptors();
    struct three b;
    struct bundle *p;
    char path[PATH_MAX], other[PATH_MAX];

    make_three(&b);
    snprintf(path, sizeof path, "%s/a.qkb", t->root);
    snprintf(other, sizeof other, "%s/b.qkb", t->root);
    refused(path, "No such file");
    t_write_file(path, b.bytes, b.size);
    assert_int_equal(bundle_open(path, &p), QUERN_OK);
    assert_true(hit(p, &b.x1, false));
    /* the open one is read on though its name goes */
    unlink(path);
    assert_true(hit(p, &b.y1, false));
    bundle_close(p);
    t_write_file(path, b.bytes, b.size);
    chmod(path, 0620);
    refused(path, "mode 0620");
    chmod(path, 0602);
    refused(path, "mode 0602");
    chmod(path, 0600);
    assert_int_equal(symlink(path, other), 0);
    refused(other, "symbolic link");
    unlink(other);
    assert_int_equal(link(path, other), 0);
    refused(other, "has 2 names (hard links)");
    refused(path, "has 2 names (hard links)");
    unlink(other);
    assert_int_equal(bundle_open(path, &p), QUERN_OK);
    bundle_close(p);
    assert_int_equal(mkfifo(other, 0600), 0);
    refused(other, "not a regular file");
    unlink(other);
    refused(t->root, "not a regular file");
    chmod(t->root, 0777);
    refused(path, "writable by everybody");
    chmod(t->root, 0700);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, 65534), 0);
        refused(path, "uid 65534");
    }
    free(b.bytes);
    assert_int_equal(t_open_descriptors(), before);
}

static void a_file_cut_short_while_open_is_a_miss(void **state)
{
    struct t_store *const t = *state;
    struct three b;
    struct bundle *p;
    struct store_entry e;
    char path[PATH_MAX];

    make_three(&b);
    snprintf(path, sizeof path, "%s/a.qkb", t->root);
    t_write_file(path, b.bytes, b.size);
    assert_int_equal(bundle_open(path, &p), QUERN_OK);
    assert_int_equal(truncate(path, (off_t)(bundle_lay_out(3, 23, strlen(TABLE)).end + 64)), 0);
    assert_int_equal(bundle_get(p, &b.x1.want, false, &e), QUERN_E_OBJECT);
    bundle_close(p);
    free(b.bytes);
}

/* ---- the cache by source key ----------------------------------------------------------------- */

static bool by_source(struct store *s, const struct kernel_record *k)
{
    struct store_entry e;
    const bool found = store_get_by_source(s, &k->want, &e);

    if (found)
        assert_memory_equal(e.record.object, k->record.object, k->record.object_bytes);
    store_entry_free(&e);
    return found;
}

static void the_cache_serves_by_source(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct kernel_record here, there, other;
    uint64_t removed;

    make_kernel(&here, "x", "t1");
    make_kernel(&there, "x", "t2");
    make_kernel(&other, "y", "t2");
    assert_false(by_source(s, &there));
    store_put(s, &here.want.key, &here.record);
    assert_true(by_source(s, &there));
    assert_false(by_source(s, &other));
    assert_int_equal(store_clear(s, &removed), QUERN_OK);
    assert_false(by_source(s, &there));
    assert_int_equal(t_count_files(t, "v1/sources", ""), 0);
    store_close(s);
}

static char *pointer_path(const struct t_store *t, const struct kernel_record *k, char *path)
{
    char hex[33];

    hex_from_bytes(hex, k->want.source_key.bytes, sizeof k->want.source_key.bytes);
    snprintf(path, PATH_MAX, "%s/v1/sources/%.2s/%s", t->cache, hex, hex + 2);
    return path;
}

static void pointers_that_lead_astray_do_no_harm(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    struct kernel_record x, y;
    char path[PATH_MAX], hex[33];

    make_kernel(&x, "x", "t1");
    make_kernel(&y, "y", "t1");
    store_put(s, &x.want.key, &x.record);
    store_put(s, &y.want.key, &y.record);
    /* x's pointer leads to y: a miss, and y stays where it is */
    hex_from_bytes(hex, y.want.key.bytes, sizeof y.want.key.bytes);
    unlink(pointer_path(t, &x, path));
    assert_int_equal(symlink(hex, path), 0);
    assert_false(by_source(s, &x));
    assert_true(by_source(s, &y));
    assert_int_equal(t_count_files(t, "v1/quarantine", "qk"), 0);
    /* and to what is no key: a miss, and put right by the next put */
    unlink(path);
    assert_int_equal(symlink("../../../../../etc/passwd", path), 0);
    assert_false(by_source(s, &x));
    char entry[PATH_MAX];
    hex_from_bytes(hex, x.want.key.bytes, sizeof x.want.key.bytes);
    snprintf(entry, sizeof entry, "%s/v1/objects/%.2s/%s.qk", t->cache, hex, hex + 2);
    unlink(entry);
    store_put(s, &x.want.key, &x.record);
    assert_true(by_source(s, &x));
    /* a directory in its place */
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(by_source(s, &x));
    store_close(s);
}

static void eviction_takes_pointers_along(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 64 << 10);
    struct kernel_record k;
    char name[16];

    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "k%d", i);
        make_kernel(&k, name, "t1");
        store_put(s, &k.want.key, &k.record);
    }
    assert_true(t_stats(s).evicted > 0);
    store_evict(s);
    const size_t entries = t_count_files(t, "v1/objects", ".qk");
    const size_t pointers = t_count_files(t, "v1/sources", "");
    assert_true(pointers >= entries && pointers < 60);
    store_close(s);
}

/* ---- serials --------------------------------------------------------------------------------- */

#define SIGNER "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* A loss of power brings nothing back: first the file is flushed, then it has its name, then the
 * directory is flushed. */
static struct {
    int (*fsync)(int);
    int (*renameat)(int, const char *, int, const char *);
} real;
static char order[8];

static int noted_fsync(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    strncat(order, S_ISDIR(st.st_mode) ? "d" : "f", sizeof order - strlen(order) - 1);
    return real.fsync(fd);
}

static int noted_renameat(int from, const char *a, int to, const char *b)
{
    strncat(order, "r", sizeof order - strlen(order) - 1);
    return real.renameat(from, a, to, b);
}

static void a_serial_outlasts_a_loss_of_power(void **state)
{
    struct store *const s = t_store_open(*state, QUERN_CACHE_RW, 0);

    assert_int_equal(store_raise_serial(s, SIGNER, 1), QUERN_OK);
    real.fsync = os.fsync;
    real.renameat = os.renameat;
    os.fsync = noted_fsync;
    os.renameat = noted_renameat;
    const quern_status status = store_raise_serial(s, SIGNER, 2);
    os.fsync = real.fsync;
    os.renameat = real.renameat;
    assert_int_equal(status, QUERN_OK);
    assert_string_equal(order, "frd");
    store_close(s);
}

static void serials_only_rise(void **state)
{
    struct t_store *const t = *state;
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, 0);
    uint64_t serial = 1, removed;
    char path[PATH_MAX];

    assert_int_equal(store_serial(s, SIGNER, &serial), QUERN_OK);
    assert_int_equal(serial, 0);
    assert_int_equal(store_raise_serial(s, SIGNER, 5), QUERN_OK);
    assert_int_equal(store_raise_serial(s, SIGNER, 3), QUERN_OK);
    assert_int_equal(store_serial(s, SIGNER, &serial), QUERN_OK);
    assert_int_equal(serial, 5);
    assert_int_equal(store_raise_serial(s, SIGNER, UINT64_MAX), QUERN_OK);
    assert_int_equal(store_serial(s, SIGNER, &serial), QUERN_OK);
    assert_true(serial == UINT64_MAX);
    /* clearing the cache does not let old bundles in again */
    assert_int_equal(store_clear(s, &removed), QUERN_OK);
    assert_int_equal(store_serial(s, SIGNER, &serial), QUERN_OK);
    assert_true(serial == UINT64_MAX);
    assert_int_equal(store_serial(s, "../../etc/passwd", &serial), QUERN_E_ARGUMENT);
    /* damage is not taken for "none yet" */
    snprintf(path, sizeof path, "%s/serials/" SIGNER, t->cache);
    t_write_file(path, "0000000000000000000x\n", 21);
    assert_int_equal(store_serial(s, SIGNER, &serial), QUERN_E_CACHE);
    t_write_file(path, "", 0);
    assert_int_equal(store_serial(s, SIGNER, &serial), QUERN_E_CACHE);
    assert_int_equal(store_raise_serial(s, SIGNER, 9), QUERN_E_CACHE);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(a_bundle_gives_back_what_it_was_made_of),
        T_STORE_TEST(equal_content_gives_equal_bytes),
        T_STORE_TEST(what_no_reader_takes_is_not_packed),
        T_STORE_TEST(base_kernels_are_proven),
        T_STORE_TEST(every_flip_and_truncation_is_noticed),
        T_STORE_TEST(hostile_heads_are_refused),
        T_STORE_TEST(swapped_entries_are_not_served),
        T_STORE_TEST(bundles_from_before_compression_are_read),
        T_STORE_TEST(what_is_unpacked_has_the_size_of_the_index),
        T_STORE_TEST(entries_share_what_they_have_in_common),
        T_STORE_TEST(signature_blocks_are_read),
        T_STORE_TEST(what_is_written_after_signing_is_not_served),
        T_STORE_TEST(files_of_strangers_are_refused),
        T_STORE_TEST(a_file_cut_short_while_open_is_a_miss),
        T_STORE_TEST(the_cache_serves_by_source),
        T_STORE_TEST(pointers_that_lead_astray_do_no_harm),
        T_STORE_TEST(eviction_takes_pointers_along),
        T_STORE_TEST(serials_only_rise),
        T_STORE_TEST(a_serial_outlasts_a_loss_of_power),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
