/* SPDX-License-Identifier: MIT */
/* The metadata note of a code object: made-up ones, complete, incomplete and hostile. */
#include "base/str.h"
#include "object/amdgpu/metadata.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Writers of MessagePack for the texts below. */
static void mp_map(struct str *s, unsigned pairs)
{
    str_add_bytes(s, &(uint8_t){(uint8_t)(0x80 + pairs)}, 1);
}
static void mp_array(struct str *s, unsigned n)
{
    str_add_bytes(s, &(uint8_t){(uint8_t)(0x90 + n)}, 1);
}
static void mp_uint(struct str *s, uint32_t v)
{
    const uint8_t b[5] = {0xce, (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8),
                          (uint8_t)v};

    str_add_bytes(s, b, sizeof b);
}
static void mp_text(struct str *s, const char *t)
{
    const uint8_t b[2] = {0xd9, (uint8_t)strlen(t)};

    str_add_bytes(s, b, sizeof b);
    str_add(s, t);
}

/* One kernel with the arguments given; `extra` is the pair ".extra": value, already encoded. */
struct made_up {
    const char *target;
    unsigned pairs;      /* of the kernel's map */
    const char *drop;    /* a member to leave out */
    uint32_t args[4][2]; /* offset, size */
    unsigned arg_count;
    const char *arg_kind;
    const char *extra;
    size_t extra_bytes;
};

static void make_metadata(struct str *s, const struct made_up *m)
{
    static const char *const numbers[] = {".kernarg_segment_size",
                                          ".group_segment_fixed_size",
                                          ".private_segment_fixed_size",
                                          ".vgpr_count",
                                          ".sgpr_count",
                                          ".max_flat_workgroup_size",
                                          ".wavefront_size"};
    unsigned pairs = 1 + COUNT(numbers) + 1;

    if (m->drop)
        pairs--;
    if (m->extra)
        pairs++;
    mp_map(s, 2);
    mp_text(s, "amdhsa.target");
    mp_text(s, "amdgcn-amd-amdhsa--gfx1151");
    mp_text(s, "amdhsa.kernels");
    mp_array(s, 1);
    mp_map(s, pairs);
    if (!m->drop || strcmp(m->drop, ".symbol")) {
        mp_text(s, ".symbol");
        mp_text(s, "k.kd");
    }
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (!m->drop || strcmp(m->drop, numbers[i])) {
            mp_text(s, numbers[i]);
            mp_uint(s, 64);
        }
    mp_text(s, ".args");
    mp_array(s, m->arg_count);
    for (unsigned i = 0; i < m->arg_count; i++) {
        mp_map(s, 3);
        mp_text(s, ".offset");
        mp_uint(s, m->args[i][0]);
        mp_text(s, ".size");
        mp_uint(s, m->args[i][1]);
        mp_text(s, ".value_kind");
        mp_text(s, m->arg_kind ? m->arg_kind : "by_value");
    }
    if (m->extra)
        str_add_bytes(s, m->extra, m->extra_bytes);
}

static quern_status read_bytes(const char *bytes, size_t size, struct metadata *m)
{
    uint8_t *const copy = malloc(size ? size : 1);

    memcpy(copy, bytes, size);
    *m = (struct metadata){0};
    const quern_status status = metadata_read(copy, size, m);
    if (status == QUERN_OK)
        metadata_free(m);
    free(copy);
    return status;
}

static void read_made_up(const char *word, const struct made_up *from)
{
    struct str s = {0};
    struct metadata m;

    make_metadata(&s, from);
    const quern_status status = read_bytes(s.text, s.length, &m);
    if (!word) {
        if (status != QUERN_OK)
            fail_msg("refused: %s", quern_last_error()->message);
        /* and cut short anywhere it is refused */
        for (size_t size = 0; size < s.length; size++)
            assert_int_equal(read_bytes(s.text, size, &m), QUERN_E_OBJECT);
    } else {
        assert_int_equal(status, QUERN_E_OBJECT);
        if (!strstr(quern_last_error()->message, word))
            fail_msg("\"%s\" does not speak of \"%s\"", quern_last_error()->message, word);
    }
    str_free(&s);
}

#define EXTRA(bytes) .extra = bytes, .extra_bytes = sizeof(bytes) - 1

static void metadata_are_checked(void **state)
{
    (void)state;
    read_made_up(NULL, &(struct made_up){0});
    read_made_up(NULL, &(struct made_up){.arg_count = 2, .args = {{0, 8}, {8, 56}}});
    read_made_up("outside the 64", &(struct made_up){.arg_count = 1, .args = {{60, 8}}});
    read_made_up("outside the 64", &(struct made_up){.arg_count = 1, .args = {{0, 65}}});
    read_made_up("outside the 64", &(struct made_up){.arg_count = 1, .args = {{0xffffffff, 2}}});
    read_made_up("overlaps", &(struct made_up){.arg_count = 2, .args = {{0, 8}, {7, 1}}});
    read_made_up("overlaps", &(struct made_up){.arg_count = 2, .args = {{8, 8}, {0, 8}}});
    read_made_up("kind \"sampler\"", &(struct made_up){.arg_count = 1, .arg_kind = "sampler"});
    read_made_up(NULL, &(struct made_up){.arg_count = 1, .arg_kind = "hidden_heap_v1"});
    static const char *const required[] = {".symbol",
                                           ".kernarg_segment_size",
                                           ".group_segment_fixed_size",
                                           ".private_segment_fixed_size",
                                           ".vgpr_count",
                                           ".sgpr_count",
                                           ".max_flat_workgroup_size",
                                           ".wavefront_size"};
    for (size_t i = 0; i < COUNT(required); i++)
        read_made_up(required[i], &(struct made_up){.drop = required[i]});
    /* members that are not known may hold anything that ends */
    read_made_up(NULL, &(struct made_up){EXTRA("\xa1x\xc0")});
    read_made_up(NULL, &(struct made_up){EXTRA("\xa1x\x93\xc2\xcb"
                                               "12345678"
                                               "\xd8\x01"
                                               "0123456789abcdef")});
    read_made_up(NULL, &(struct made_up){EXTRA("\xa1x\x82\xa1"
                                               "a\xe0\xa1"
                                               "b\xdd\0\0\0\1\xc4\3abc")});
    read_made_up(NULL, &(struct made_up){EXTRA("\xa1x\xc7\2"
                                               "t12")});
    read_made_up("a byte 0xc1", &(struct made_up){EXTRA("\xa1x\xc1")});
    read_made_up("end inside", &(struct made_up){EXTRA("\xa1x\xdb\xff\xff\xff\xff")});
    read_made_up("end inside", &(struct made_up){EXTRA("\xa1x\xc6\xff\xff\xff\xff")});
    read_made_up("end inside", &(struct made_up){EXTRA("\xa1x\xdd\xff\xff\xff\xff")});
    read_made_up("end inside", &(struct made_up){EXTRA("\xa1x\xdf\xff\xff\xff\xff")});
    read_made_up("twice", &(struct made_up){EXTRA("\xab.vgpr_count\x01")});
    read_made_up("twice", &(struct made_up){EXTRA("\xa5.args\x90")});
    read_made_up("a string where a number", &(struct made_up){EXTRA("\xab.agpr_count\xa1"
                                                                    "1")});
    read_made_up("a negative number", &(struct made_up){EXTRA("\xab.agpr_count\xff")});
    read_made_up("a negative number", &(struct made_up){EXTRA("\xab.agpr_count\xd1\x80\0")});
    read_made_up(NULL, &(struct made_up){EXTRA("\xab.agpr_count\xd1\x7f\0")});
    read_made_up("at most", &(struct made_up){EXTRA("\xab.agpr_count\xcf\0\0\0\1\0\0\0\0")});
    read_made_up("a boolean", &(struct made_up){EXTRA("\xb3.uses_dynamic_stack\1")});
    read_made_up("a string", &(struct made_up){EXTRA("\1\1")}); /* a key that is none */
}

static void nesting_is_limited(void **state)
{
    char deep[4096];
    struct made_up m = {.extra = deep};

    (void)state;
    memcpy(deep, "\xa1x", 2);
    memset(deep + 2, 0x91, sizeof deep - 2); /* arrays of one */
    m.extra_bytes = sizeof deep;
    read_made_up("nest deeper", &m);
    deep[10] = (char)0xc0;
    m.extra_bytes = 11;
    read_made_up(NULL, &m);
}

static void trailing_bytes_and_missing_roots_are_refused(void **state)
{
    struct str s = {0};
    struct metadata m;

    (void)state;
    make_metadata(&s, &(struct made_up){0});
    str_add_bytes(&s, "\xc0", 1);
    assert_int_equal(read_bytes(s.text, s.length, &m), QUERN_E_OBJECT);
    assert_non_null(strstr(quern_last_error()->message, "1 bytes follow"));
    str_free(&s);
    assert_int_equal(read_bytes("\x80", 1, &m), QUERN_E_OBJECT);
    assert_int_equal(read_bytes("", 0, &m), QUERN_E_OBJECT);
    assert_int_equal(read_bytes("\x90", 1, &m), QUERN_E_OBJECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_are_checked),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(trailing_bytes_and_missing_roots_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
