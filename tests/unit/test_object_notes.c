/* SPDX-License-Identifier: MIT */
/* Code objects that are linked from several, which have a note of metadata for each of them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "object/elf.h"
#include "object/le.h"
#include "object/amdgpu/metadata.h"
#include "t_objects.h"

#include <string.h>

#define DESCRIPTOR_OF_FIRST 0xa00 /* in T_HIDDEN_GFX90A */

/* The golden object with its metadata written anew at the end: a note of each kernel, as an object
 * that is linked from several has them; only the first says the target, and the descriptor of the
 * first kernel no size of arguments, as in rocBLAS's. `again` writes the last note twice. */
static size_t with_note_of_each(struct t_object o, uint8_t *to, bool again)
{
    static const uint8_t header[] = {7, 0, 0,   0,   0,   0,   0,   0,   32, 0,
                                     0, 0, 'A', 'M', 'D', 'G', 'P', 'U', 0,  0};
    struct elf_note_place place = {0};
    struct msgpack_text key, value[8];
    size_t others = 0, target = 0, kernels = 0, size = (o.size + 7) & ~(size_t)7, bytes;
    struct msgpack_text kernel[4];
    const uint8_t *content;
    uint32_t pairs, items;
    struct elf elf;

    memcpy(to, o.bytes, o.size);
    assert_int_equal(elf_open(o.bytes, o.size, &elf), QUERN_OK);
    assert_int_equal(
        elf_next_note(&elf, METADATA_NOTE_OWNER, METADATA_NOTE_TYPE, &place, &content, &bytes),
        QUERN_OK);
    struct msgpack m = {.at = content, .end = content + bytes};
    assert_int_equal(msgpack_map(&m, &pairs), QUERN_OK);
    for (uint32_t n = 0; n < pairs; n++) {
        const uint8_t *const start = m.at;
        assert_int_equal(msgpack_string(&m, &key), QUERN_OK);
        if (!msgpack_text_is(key, "amdhsa.kernels")) {
            assert_int_equal(msgpack_skip(&m), QUERN_OK);
            if (msgpack_text_is(key, "amdhsa.target"))
                target = others;
            value[others++] = (struct msgpack_text){(const char *)start, (uint32_t)(m.at - start)};
            continue;
        }
        assert_int_equal(msgpack_array(&m, &items), QUERN_OK);
        for (uint32_t k = 0; k < items; k++) {
            const uint8_t *const item = m.at;
            assert_int_equal(msgpack_skip(&m), QUERN_OK);
            kernel[kernels++] = (struct msgpack_text){(const char *)item, (uint32_t)(m.at - item)};
        }
    }
    if (again)
        kernel[kernels] = kernel[kernels - 1], kernels++;
    const size_t first = size;
    for (size_t k = 0; k < kernels; k++) {
        uint8_t *const note = to + size;
        memcpy(note, header, sizeof header);
        uint8_t *at = note + sizeof header;
        *at++ = (uint8_t)(0x80 + others + (k == 0));
        for (size_t n = 0; n < others; n++)
            if (k == 0 || n != target) {
                memcpy(at, value[n].text, value[n].bytes);
                at += value[n].bytes;
            }
        memcpy(at,
               "\xae"
               "amdhsa.kernels\x91",
               16);
        memcpy(at + 16, kernel[k].text, kernel[k].bytes);
        at += 16 + kernel[k].bytes;
        le_put(note + 4, 4, (uint64_t)(at - note) - sizeof header);
        size += ((size_t)(at - note) + 3) & ~(size_t)3;
    }
    le_put(to + DESCRIPTOR_OF_FIRST + 8, 4, 0);
    for (unsigned n = 0; n < elf.segment_count; n++)
        if (elf_segment(&elf, n).type == ELF_PT_NOTE) {
            le_put(to + elf.segments_at + 56 * n + 8, 8, first);
            le_put(to + elf.segments_at + 56 * n + 32, 8, size - first);
        }
    return size;
}

static void a_note_of_each_kernel(void **state)
{
    const struct t_object whole = t_object(T_HIDDEN_GFX90A);
    static uint8_t bytes[1 << 16];
    struct object o, same;

    (void)state;
    assert_true(2 * whole.size < sizeof bytes);
    assert_int_equal(object_parse(bytes, with_note_of_each(whole, bytes, false), &o), QUERN_OK);
    assert_int_equal(object_parse(whole.bytes, whole.size, &same), QUERN_OK);
    assert_int_equal(o.kernel_count, 2);
    for (size_t k = 0; k < 2; k++) {
        assert_string_equal(o.kernels[k].name, same.kernels[k].name);
        assert_int_equal(o.kernels[k].entry, same.kernels[k].entry);
        assert_int_equal(o.kernels[k].kernarg_bytes, same.kernels[k].kernarg_bytes);
        assert_int_equal(o.kernels[k].sgprs, same.kernels[k].sgprs);
        assert_int_equal(o.kernels[k].arg_count, same.kernels[k].arg_count);
    }
    object_free(&same);
    object_free(&o);
    assert_int_equal(object_parse(bytes, with_note_of_each(whole, bytes, true), &o),
                     QUERN_E_OBJECT);
    assert_non_null(strstr(quern_last_error()->message, "described twice"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_note_of_each_kernel)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
