/* SPDX-License-Identifier: MIT */
/* The format of an entry, as docs/formats.md has it, and what becomes of every kind of damage. */
#include "base/os.h"
#include "object/le.h"
#include "store/entry.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void entry_bytes_are_as_documented(void **state)
{
    const struct store_record r = {.key_text = "key\0text",
                                   .key_text_bytes = 8,
                                   .source = "source",
                                   .log = "",
                                   .object = "0123456789abcdef",
                                   .object_bytes = 16};
    void *bytes;
    size_t size;

    (void)state;
    assert_int_equal(entry_encode(&r, &bytes, &size), QUERN_OK);
    const uint8_t *const b = bytes;
    assert_memory_equal(b, "QUERN\r\n\x1a\1\0\0\0\x40\0\0\0", 16);
    /* header 64, key 16, source 16, object 32 (a zero byte always follows), log 16, digest 16 */
    assert_int_equal(size, 160);
    assert_int_equal(le64(b + 16), 160);
    assert_int_equal(le64(b + 24), 8);
    assert_int_equal(le64(b + 32), 6);
    assert_int_equal(le64(b + 40), 16);
    assert_int_equal(le64(b + 48), 0);
    assert_int_equal(le64(b + 56), 0);
    assert_memory_equal(b + 64, "key\0text\0\0\0\0\0\0\0\0source\0\0\0\0\0\0\0\0\0\0", 32);
    assert_memory_equal(b + 96, "0123456789abcdef", 16);
    for (int i = 112; i < 144; i++)
        assert_int_equal(b[i], 0);
    const struct hash128 digest = hash128_of(b, 144);
    assert_memory_equal(b + 144, digest.bytes, 16);

    struct store_record back;
    assert_int_equal(entry_decode(b, size, &back), QUERN_OK);
    assert_ptr_equal(back.key_text, b + 64);
    assert_int_equal(back.key_text_bytes, 8);
    assert_string_equal(back.source, "source");
    assert_string_equal(back.log, "");
    assert_ptr_equal(back.object, b + 96);
    assert_int_equal(back.object_bytes, 16);
    os.free(bytes);
}

/* What the scan said of a kernel; without an object that is all there is. */
static void entry_carries_the_verdict_of_the_scan(void **state)
{
    struct store_record r = {
        .key_text = "k", .key_text_bytes = 1, .source = "s", .log = "too close", .object = "o"};
    struct store_record back;
    struct object object;
    void *bytes;
    size_t size;

    (void)state;
    assert_int_equal(entry_encode(&r, &bytes, &size), QUERN_E_ARGUMENT);
    r.rules = 7;
    assert_int_equal(entry_encode(&r, &bytes, &size), QUERN_OK);
    assert_int_equal(le64((uint8_t *)bytes + 56), 7);
    assert_int_equal(entry_decode(bytes, size, &back), QUERN_OK);
    assert_true(back.rules == 7 && back.object_bytes == 0);
    assert_string_equal(back.log, "too close");
    assert_int_equal(store_parse(&back, &object), QUERN_OK);
    back.rules = 0;
    assert_int_equal(store_parse(&back, &object), QUERN_E_OBJECT);
    os.free(bytes);
}

static void entry_of_any_damage_is_refused(void **state)
{
    struct t_record r;
    struct store_record back;
    void *bytes;
    size_t size;

    (void)state;
    t_record(&r, "damage");
    assert_int_equal(entry_encode(&r.record, &bytes, &size), QUERN_OK);
    uint8_t *const b = bytes;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(entry_decode(b, size, &back), QUERN_E_OBJECT);
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 0; n < size; n++) { /* of exactly that size, for the address sanitizer */
        uint8_t *const cut = malloc(n ? n : 1);
        memcpy(cut, b, n);
        assert_int_equal(entry_decode(cut, n, &back), QUERN_E_OBJECT);
        free(cut);
    }
    uint8_t *const longer = calloc(1, size + 64);
    memcpy(longer, b, size);
    for (size_t n = 1; n <= 64; n++)
        assert_int_equal(entry_decode(longer, size + n, &back), QUERN_E_OBJECT);
    for (size_t at = 0; at < size; at += 512) { /* a lost sector */
        memcpy(longer, b, size);
        memset(longer + at, 0, size - at < 512 ? size - at : 512);
        assert_int_equal(entry_decode(longer, size, &back), QUERN_E_OBJECT);
    }
    memset(longer, 0, size);
    assert_int_equal(entry_decode(longer, size, &back), QUERN_E_OBJECT);
    memset(longer, 0xff, size);
    assert_int_equal(entry_decode(longer, size, &back), QUERN_E_OBJECT);
    free(longer);
    assert_int_equal(entry_decode(b, size, &back), QUERN_OK);
    os.free(bytes);
}

/* Sizes that lie, with a digest that is right: whoever writes the file can compute it. */
static void entry_of_hostile_sizes_is_refused(void **state)
{
    static const uint64_t sizes[] = {0,
                                     1,
                                     0x7fffffff,
                                     0xffffffff,
                                     (uint64_t)1 << 32,
                                     INT64_MAX,
                                     (uint64_t)1 << 63,
                                     UINT64_MAX,
                                     UINT64_MAX - 15,
                                     16 << 20};
    struct t_record r;
    struct store_record back;
    void *bytes;
    size_t size;

    (void)state;
    t_record(&r, "hostile");
    assert_int_equal(entry_encode(&r.record, &bytes, &size), QUERN_OK);
    uint8_t *const b = malloc(size);
    for (size_t field = 8; field < 64; field += field < 16 ? 4 : 8)
        for (size_t i = 0; i < COUNT(sizes); i++) {
            memcpy(b, bytes, size);
            if (field == 56) /* behind the version of the rules, which may be any */
                le_put(b + 60, 4, sizes[i]);
            else
                le_put(b + field, field < 16 ? 4 : 8, sizes[i]);
            if (!memcmp(b, bytes, size))
                continue;
            const struct hash128 digest = hash128_of(b, size - 16);
            memcpy(b + size - 16, digest.bytes, 16);
            assert_int_equal(entry_decode(b, size, &back), QUERN_E_OBJECT);
        }
    /* a NUL inside text, and padding that is not zero */
    memcpy(b, bytes, size);
    uint8_t *const text = memmem(b, size, "// kernel", 9);
    text[3] = 0;
    struct hash128 digest = hash128_of(b, size - 16);
    memcpy(b + size - 16, digest.bytes, 16);
    assert_int_equal(entry_decode(b, size, &back), QUERN_E_OBJECT);
    memcpy(b, bytes, size);
    b[size - 17] = 1;
    digest = hash128_of(b, size - 16);
    memcpy(b + size - 16, digest.bytes, 16);
    assert_int_equal(entry_decode(b, size, &back), QUERN_E_OBJECT);
    free(b);
    os.free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_bytes_are_as_documented),
        cmocka_unit_test(entry_carries_the_verdict_of_the_scan),
        cmocka_unit_test(entry_of_any_damage_is_refused),
        cmocka_unit_test(entry_of_hostile_sizes_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
