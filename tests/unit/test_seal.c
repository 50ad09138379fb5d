/* SPDX-License-Identifier: MIT */
/* Sealed entries, as docs/formats.md has them: who signed them is known, and no others serve. */
#include "base/hash.h"
#include "base/os.h"
#include "object/le.h"
#include "store/entry.h"
#include "store/seal.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static uint8_t ours[32] = "a seed of 32 bytes, that is ours", theirs[32] = "and theirs";

static void sign(void *seed, const void *message, size_t size, uint8_t public_key[32],
                 uint8_t signature[64])
{
    uint8_t secret[crypto_sign_SECRETKEYBYTES];

    crypto_sign_seed_keypair(public_key, secret, seed);
    crypto_sign_detached(signature, NULL, message, size, secret);
}

/* A record with the key text of a kernel, for a target. */
struct made {
    struct str text;
    struct store_record record;
};

static void make(struct made *m, const char *processor, const char *object)
{
    struct str source = {0};
    char hex[33];

    key_add_text(&source, "format", "quern key 2");
    key_add_text(&source, "source", "what is compiled");
    key_add_text(&source, "processor", processor);
    const struct hash128 key = hash128_of(source.text, source.length);
    hex_from_bytes(hex, key.bytes, sizeof key.bytes);
    *m = (struct made){0};
    key_add_text(&m->text, "source key", hex);
    key_add_text(&m->text, "toolchain", "one");
    str_add_bytes(&m->text, source.text, source.length);
    str_free(&source);
    m->record = (struct store_record){.key_text = m->text.text,
                                      .key_text_bytes = m->text.length,
                                      .source = "source",
                                      .log = "a log",
                                      .object = object,
                                      .object_bytes = strlen(object)};
}

static struct signers signers_of(const uint8_t seed[32])
{
    struct signers s = {.count = 1};
    uint8_t secret[crypto_sign_SECRETKEYBYTES];

    crypto_sign_seed_keypair(s.keys[0], secret, seed);
    return s;
}

static quern_status open_sealed(const void *bytes, size_t size, const struct signers *signers)
{
    struct store_record record;
    size_t entry_bytes;

    return seal_open(bytes, size, signers, &record, &entry_bytes);
}

static void a_seal_is_as_documented(void **state)
{
    const struct signers signers = signers_of(ours);
    struct store_record back;
    struct str text = {0};
    uint8_t digest[32];
    struct made m;
    void *plain, *bytes;
    size_t plain_bytes, size, entry_bytes = 0;

    (void)state;
    make(&m, "gfx1151", "an object");
    assert_int_equal(seal_make(&m.record, NULL, NULL, &plain, &plain_bytes), QUERN_OK);
    assert_int_equal(seal_make(&m.record, sign, ours, &bytes, &size), QUERN_OK);
    assert_int_equal(size, plain_bytes + 112);
    assert_memory_equal(bytes, plain, plain_bytes);
    const uint8_t *const seal = (uint8_t *)bytes + plain_bytes;
    assert_memory_equal(seal, "QSEAL\r\n\x1a\1\0\0\0\0\0\0\0", 16);
    assert_memory_equal(seal + 16, signers.keys[0], 32);

    key_add_text(&text, "signature", "quern entry signature 1");
    key_add_text(&text, "entry version", "1");
    key_add_text(&text, "processor", "gfx1151");
    key_add_text(&text, "toolchain", "one");
    crypto_generichash(digest, 32, (const uint8_t *)"an object", 9, NULL, 0);
    key_add(&text, "object", digest, 32);
    crypto_generichash(digest, 32, plain, plain_bytes, NULL, 0);
    key_add(&text, "entry", digest, 32);
    key_add(&text, "key text", m.record.key_text, m.record.key_text_bytes);
    assert_int_equal(crypto_sign_verify_detached(seal + 48, (const uint8_t *)text.text, text.length,
                                                 signers.keys[0]),
                     0);

    assert_int_equal(seal_open(bytes, size, &signers, &back, &entry_bytes), QUERN_OK);
    assert_int_equal(entry_bytes, plain_bytes);
    assert_string_equal(back.log, "a log");
    /* without keys a seal is no more than bytes behind an entry, which may be absent too */
    assert_int_equal(open_sealed(bytes, size, NULL), QUERN_OK);
    assert_int_equal(open_sealed(plain, plain_bytes, NULL), QUERN_OK);
    assert_int_equal(open_sealed(plain, plain_bytes, &signers), QUERN_E_OBJECT);
    str_free(&text);
    str_free(&m.text);
    os.free(plain);
    os.free(bytes);
}

static void every_flip_and_truncation_is_refused(void **state)
{
    const struct signers signers = signers_of(ours);
    struct made m;
    void *made;
    size_t size;

    (void)state;
    make(&m, "gfx1151", "an object");
    assert_int_equal(seal_make(&m.record, sign, ours, &made, &size), QUERN_OK);
    uint8_t *const bytes = made;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(open_sealed(bytes, size, &signers), QUERN_E_OBJECT);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 0; n < size; n++) {
        uint8_t *const part = malloc(n ? n : 1); /* of exactly that size, for AddressSanitizer */
        assert_non_null(part);
        memcpy(part, bytes, n);
        assert_int_equal(open_sealed(part, n, &signers), QUERN_E_OBJECT);
        free(part);
    }
    assert_int_equal(open_sealed(bytes, size, &signers), QUERN_OK);
    str_free(&m.text);
    os.free(made);
}

/* What an entry's own digest, which has no key, would not show. */
static void a_changed_entry_with_its_digest_made_right_is_refused(void **state)
{
    const struct signers signers = signers_of(ours);
    struct made m;
    void *made;
    size_t size, changed = 0;

    (void)state;
    make(&m, "gfx1151", "an object");
    assert_int_equal(seal_make(&m.record, sign, ours, &made, &size), QUERN_OK);
    uint8_t *const bytes = made;
    const size_t digest_at = size - SEAL_BYTES - 16;
    for (size_t i = 0; i < digest_at; i++) {
        bytes[i] ^= 1;
        struct hash128 digest = hash128_of(bytes, digest_at);
        memcpy(bytes + digest_at, digest.bytes, 16);
        changed += open_sealed(bytes, size, NULL) == QUERN_OK;
        assert_int_equal(open_sealed(bytes, size, &signers), QUERN_E_OBJECT);
        bytes[i] ^= 1;
        digest = hash128_of(bytes, digest_at);
        memcpy(bytes + digest_at, digest.bytes, 16);
    }
    assert_true(changed > 100); /* in key text, source, log and object: sound entries all */
    str_free(&m.text);
    os.free(made);
}

static void others_are_refused(void **state)
{
    const struct signers us = signers_of(ours), them = signers_of(theirs);
    struct signers both = us;
    struct made a, b;
    void *one, *two;
    size_t size, other;

    (void)state;
    both.keys[both.count++][0] = 0;
    memcpy(both.keys[1], them.keys[0], 32);
    make(&a, "gfx1151", "an object");
    make(&b, "gfx1150", "an object");
    assert_int_equal(seal_make(&a.record, sign, ours, &one, &size), QUERN_OK);
    assert_int_equal(seal_make(&b.record, sign, theirs, &two, &other), QUERN_OK);
    assert_int_equal(open_sealed(one, size, &them), QUERN_E_OBJECT);
    assert_int_equal(open_sealed(two, other, &us), QUERN_E_OBJECT);
    assert_int_equal(open_sealed(one, size, &both), QUERN_OK);
    assert_int_equal(open_sealed(two, other, &both), QUERN_OK);
    /* a seal of one entry behind another */
    assert_int_equal(size, other);
    memcpy((uint8_t *)one + size - SEAL_BYTES, (uint8_t *)two + size - SEAL_BYTES, SEAL_BYTES);
    assert_int_equal(open_sealed(one, size, &both), QUERN_E_OBJECT);
    os.free(one);
    os.free(two);

    /* no object, and a key text that is no kernel's */
    struct store_record r = a.record;
    r.object_bytes = 0;
    r.rules = 1;
    assert_int_equal(seal_make(&r, sign, ours, &one, &size), QUERN_E_ARGUMENT);
    r = a.record;
    r.key_text = "anything";
    r.key_text_bytes = 8;
    assert_int_equal(seal_make(&r, sign, ours, &one, &size), QUERN_E_OBJECT);
    str_free(&a.text);
    str_free(&b.text);
}

static void names_are_as_documented(void **state)
{
    const struct hash128 key = {{0xab, 0xcd, 0xef}};
    char name[SEAL_NAME_BYTES];

    (void)state;
    seal_name(&key, false, name);
    assert_string_equal(name, "v1/objects/ab/cdef00000000000000000000000000.qk");
    seal_name(&key, true, name);
    assert_string_equal(name, "v1/sources/ab/cdef00000000000000000000000000.qk");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seal_is_as_documented),
        cmocka_unit_test(every_flip_and_truncation_is_refused),
        cmocka_unit_test(a_changed_entry_with_its_digest_made_right_is_refused),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(names_are_as_documented),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
