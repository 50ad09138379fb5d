/* SPDX-License-Identifier: MIT */
/*
 * Code objects that are cut, flipped, patched and made up. A refusal must be QUERN_E_OBJECT with a
 * sentence; what is accepted must keep every promise of object.h.
 */
#include "base/os.h"
#include "object/elf.h"
#include "object/object.h"
#include "t_build.h"
#include "t_explore.h"
#include "t_objects.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Whether a third of the damages will do: in a sanitized build, except in check-long. */
static bool samples(void)
{
    return T_SANITIZED && !t_explores();
}

static unsigned touched; /* what the checks below read, so that nothing is optimised away */

/* All that object.h promises of an accepted object. */
static void check_promises(const struct object *o)
{
    assert_non_null(o->target);
    assert_true(o->code_object_version >= 4 && o->code_object_version <= 6);
    uint64_t end = 0;
    for (size_t i = 0; i < o->segment_count; i++) {
        const struct object_segment *const s = &o->segments[i];
        assert_true(s->address >= end);
        assert_true(s->file_bytes <= s->memory_bytes);
        assert_true(s->file_offset <= o->size && s->file_bytes <= o->size - s->file_offset);
        end = s->address + s->memory_bytes;
        assert_true(end <= o->image_bytes);
        for (uint64_t j = 0; j < s->file_bytes; j += 61)
            touched += o->bytes[s->file_offset + j];
    }
    for (size_t i = 0; i < o->symbol_count; i++) {
        touched += (unsigned)strlen(o->symbols[i].name);
        assert_true(o->symbols[i].address + o->symbols[i].bytes <= o->image_bytes);
        assert_true(i == 0 || o->symbols[i].address >= o->symbols[i - 1].address);
    }
    for (size_t i = 0; i < o->relocation_count; i++)
        assert_true(o->relocations[i].address + 8 <= o->image_bytes);
    for (size_t i = 0; i < o->kernel_count; i++) {
        const struct object_kernel *const k = &o->kernels[i];
        assert_true((const uint8_t *)k->name > o->bytes &&
                    (const uint8_t *)k->name + strlen(k->name) < o->bytes + o->size);
        assert_non_null(object_at(o, k->descriptor, 64));
        const uint8_t *const code = object_at(o, k->entry, k->code_bytes);
        assert_non_null(code);
        touched += code[k->code_bytes - 1];
        assert_true(k->wave_size == 32 || k->wave_size == 64);
        assert_true(k->vgprs <= k->vgprs_granted && k->vgprs_granted <= 512);
        assert_true(k->lds_bytes <= o->target->lds_bytes);
        assert_true(k->kernarg_bytes <= OBJECT_KERNARG_MAX);
        assert_true(k->scratch_bytes <= OBJECT_SCRATCH_MAX);
        uint32_t at = 0;
        for (size_t j = 0; j < k->arg_count; j++) {
            assert_true(k->args[j].offset >= at);
            at = k->args[j].offset + k->args[j].size;
            assert_true(at <= k->kernarg_bytes);
        }
        uint8_t *const kernarg = calloc(1, k->kernarg_bytes + 1);
        object_fill_hidden(k, kernarg, (const uint32_t[]){1, 2, 3}, (const uint32_t[]){4, 5, 6}, 7);
        free(kernarg);
    }
}

/* Parses a copy of exactly that size, so that the address sanitizer sees a read past its end. */
static bool accepted(const uint8_t *bytes, size_t size)
{
    uint8_t *const copy = malloc(size ? size : 1);
    struct object o;

    memcpy(copy, bytes, size);
    const quern_status status = object_parse(copy, size, &o);
    if (status == QUERN_OK) {
        check_promises(&o);
        object_free(&o);
    } else {
        assert_int_equal(status, QUERN_E_OBJECT);
        assert_true(strlen(quern_last_error()->message) > 10);
    }
    free(copy);
    return status == QUERN_OK;
}

static void every_truncation_is_refused(void **state)
{
    const size_t step = samples() ? 3 : 1;

    (void)state;
    for (int g = 0; g < T_OBJECT_COUNT; g++) {
        const struct t_object o = t_object(g);
        for (size_t size = 0; size < o.size; size += step)
            if (accepted(o.bytes, size))
                fail_msg("%s: the first %zu of %zu bytes were accepted", o.name, size, o.size);
    }
}

static void every_bit_flip_is_judged(void **state)
{
    const size_t step = samples() ? 3 : 1;

    (void)state;
    for (int g = 0; g < T_OBJECT_COUNT; g++) {
        const struct t_object o = t_object(g);
        uint8_t *const bytes = malloc(o.size);
        size_t refused = 0;
        memcpy(bytes, o.bytes, o.size);
        for (size_t bit = 0; bit < 8 * o.size; bit += step) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            refused += !accepted(bytes, o.size);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        /* headers, symbols and metadata are a good part of such a small file */
        assert_true(refused > o.size / step);
        assert_true(accepted(bytes, o.size));
        free(bytes);
    }
}

/* xorshift: the same mutations on every machine */
static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

static void random_damage_is_judged(void **state)
{
    static const uint64_t values[] = {0,          1,
                                      0x7f,       0x80,
                                      0xff,       0x7fff,
                                      0xffff,     0x7fffffff,
                                      0x80000000, 0xffffffff,
                                      INT64_MAX,  (uint64_t)1 << 63,
                                      UINT64_MAX, 0xfffffffffffff000};
    const int rounds = samples() ? 7000 : 20000;
    uint64_t seed = 0x9e3779b97f4a7c15;

    (void)state;
    for (int round = 0; round < rounds; round++) {
        const struct t_object o = t_object(round % T_OBJECT_COUNT);
        uint8_t *const bytes = malloc(o.size);
        memcpy(bytes, o.bytes, o.size);
        for (uint64_t n = 1 + next_random(&seed) % 4; n; n--) {
            const size_t width = (size_t)1 << next_random(&seed) % 4;
            const size_t at = (next_random(&seed) % (o.size - 8)) & ~(width - 1);
            const uint64_t value = next_random(&seed) % 2
                                       ? values[next_random(&seed) % COUNT(values)]
                                       : next_random(&seed) % (2 * o.size);
            memcpy(bytes + at, &value, width);
        }
        accepted(bytes, o.size);
        free(bytes);
    }
}

/* Patches `width` bytes at `at` and expects a refusal whose message contains `word`. */
static void refused_with(const char *word, struct t_object o, size_t at, size_t width,
                         uint64_t value)
{
    uint8_t *const bytes = malloc(o.size);

    memcpy(bytes, o.bytes, o.size);
    memcpy(bytes + at, &value, width);
    if (accepted(bytes, o.size))
        fail_msg("%s: %#llx at %#zx was accepted", o.name, (unsigned long long)value, at);
    if (!strstr(quern_last_error()->message, word))
        fail_msg("%s: %#llx at %#zx: \"%s\" does not speak of \"%s\"", o.name,
                 (unsigned long long)value, at, quern_last_error()->message, word);
    free(bytes);
}

static void hostile_headers_are_refused(void **state)
{
    const struct t_object o = t_object(T_AXPY_GFX1151);
    static const struct {
        const char *word;
        size_t at, width;
        uint64_t value;
    } patches[] = {
        {"magic", 0, 4, 0x464c457e},
        {"class 1", 4, 1, 1},
        {"data 2", 5, 1, 2},
        {"OS/ABI 0", 7, 1, 0},
        {"ABI version 1", 8, 1, 1},
        {"ABI version 5", 8, 1, 5},
        {"type 1", 16, 2, 1},      /* not linked */
        {"machine 62", 18, 2, 62}, /* x86-64 */
        {"program headers", 32, 8, UINT64_MAX - 8},
        {"program headers", 56, 2, 0},
        {"program headers", 56, 2, 0xffff},
        {"section headers", 40, 8, UINT64_MAX - 64},
        {"section headers", 60, 2, 0}, /* the count is in section 0: not read */
        {"section headers", 60, 2, 0xff00},
        {"sizes", 52, 2, 63},
        {"sizes", 54, 2, 0},
        {"sizes", 58, 2, 40},
        {"section names", 62, 2, 0xffff},
        {"section names", 62, 2, 1},
        {"machine 0x1", 48, 4, 0x1},
        {"ELF flags", 48, 4, 0x0100004a},
        {"by its ELF flags", 48, 4, 0x4e}, /* gfx1201 there, gfx1151 in the metadata */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(patches); i++)
        refused_with(patches[i].word, o, patches[i].at, patches[i].width, patches[i].value);
}

static void hostile_segments_are_refused(void **state)
{
    const struct t_object o = t_object(T_AXPY_GFX1151);
    const size_t first = 64 + 56,
                 code = first + 56; /* the first header describes the table itself */

    (void)state;
    refused_with("ends behind the file", o, first + 8, 8, 0x10000);     /* p_offset */
    refused_with("ends behind the file", o, first + 32, 8, UINT64_MAX); /* p_filesz */
    refused_with("only 1 in memory", o, first + 40, 8, 1);              /* p_memsz */
    refused_with("ends above", o, code + 40, 8, UINT64_MAX - 0x1000);
    refused_with("ends above", o, code + 16, 8, UINT64_MAX - 0x10); /* p_vaddr */
    refused_with("inside or before", o, code + 16, 8, 0x400);
    refused_with("both writable and executable", o, code + 4, 4, 7); /* p_flags */
    refused_with("not inside executable code", o, code + 4, 4, 4);
    refused_with("not inside a loaded segment", o, code, 4, 0); /* p_type */
}

static size_t section_header(struct t_object o, uint32_t type, struct elf_section *section)
{
    struct elf elf;

    assert_int_equal(elf_open(o.bytes, o.size, &elf), QUERN_OK);
    for (unsigned i = 0; i < elf.section_count; i++) {
        *section = elf_section(&elf, i);
        if (section->type == type)
            return (size_t)elf.sections_at + (size_t)i * 64;
    }
    fail_msg("%s has no section of type %u", o.name, type);
    return 0;
}

static void hostile_sections_are_refused(void **state)
{
    const struct t_object o = t_object(T_HIDDEN_GFX90A);
    struct elf_section symbols, names, relocations;
    const size_t symtab = section_header(o, ELF_SHT_DYNSYM, &symbols);
    const size_t strtab = section_header(o, ELF_SHT_STRTAB, &names);
    const size_t rela = section_header(o, ELF_SHT_RELA, &relocations);

    (void)state;
    refused_with("ends behind the file", o, symtab + 24, 8, UINT64_MAX - 24);
    refused_with("ends behind the file", o, symtab + 32, 8, UINT64_MAX - 15);
    refused_with("links to section", o, symtab + 40, 4, 0x7fffffff);
    refused_with("which has none", o, symtab + 40, 4, 0);
    refused_with("entries of 0", o, symtab + 56, 8, 0);
    refused_with("entries of 1", o, symtab + 56, 8, 1);
    refused_with("whole number", o, symtab + 32, 8, symbols.size - 1);
    refused_with("does not end", o, strtab + 32, 8, names.size - 1);
    refused_with("does not end", o, strtab + 32, 8, 0);
    refused_with("outside the table of section names", o, symtab, 4, 0xffffff);
    refused_with("which has none", o, rela + 40, 4, 1);
    refused_with("without addends", o, rela + 4, 4, ELF_SHT_REL);
    refused_with("against symbol", o, relocations.offset + 12, 4, 1000);
    refused_with("not inside a loaded segment", o, relocations.offset, 8, UINT64_MAX - 3);
    refused_with("of type 5", o, relocations.offset + 8, 4, 5);
    refused_with("which it does not define", o, relocations.offset + 8, 4, 3); /* ABS64, symbol 0 */
    /* symbol 1 is hidden.kd: name, section, value, size */
    refused_with("its name begins at", o, symbols.offset + 24, 4, 0x7fffffff);
    refused_with("is in section 200", o, symbols.offset + 24 + 6, 2, 200);
    refused_with("not inside a loaded segment", o, symbols.offset + 24 + 8, 8, 0x7fffffff);
    refused_with("not inside a loaded segment", o, symbols.offset + 24 + 16, 8, UINT64_MAX);
    refused_with("is no descriptor", o, symbols.offset + 24 + 8, 8, 0xa20); /* misaligned */
    refused_with("is no descriptor", o, symbols.offset + 24 + 16, 8, 63);
    refused_with("is no descriptor", o, symbols.offset + 24 + 8, 8, 0x3300);  /* not in the file */
    refused_with("no symbol hidden.kd", o, symbols.offset + 24 + 4, 1, 0x12); /* a function */
    refused_with("no symbol hidden.kd", o, symbols.offset + 24, 4, 0);        /* no name */
    /* symbol 3 is hidden */
    refused_with("has no function symbol", o, symbols.offset + 72 + 4, 1, 0x11);
    refused_with("by its symbol", o, symbols.offset + 72 + 8, 8, 0x1b04);
    refused_with("bytes of its code", o, symbols.offset + 72 + 16, 8, 2);
}

static void absolute_relocations_take_the_symbols_address(void **state)
{
    const struct t_object o = t_object(T_HIDDEN_GFX90A);
    struct elf_section relocations;
    uint8_t *const bytes = malloc(o.size);
    struct object object;

    (void)state;
    section_header(o, ELF_SHT_RELA, &relocations);
    memcpy(bytes, o.bytes, o.size);
    memcpy(bytes + relocations.offset + 8, "\x03\0\0\0\x04\0\0\0\x05\0\0\0\0\0\0\0", 16);
    assert_int_equal(object_parse(bytes, o.size, &object), QUERN_OK);
    assert_int_equal(object.relocations[0].value, 0x4300 + 5); /* symbol 4 is table */
    object_free(&object);
    free(bytes);
}

/* A function symbol without a size reaches to the next function. */
static void size_of_code_without_a_size(void **state)
{
    const struct t_object o = t_object(T_HIDDEN_GFX90A);
    struct elf_section symbols;
    uint8_t *const bytes = malloc(o.size);
    struct object object;

    (void)state;
    section_header(o, ELF_SHT_DYNSYM, &symbols);
    memcpy(bytes, o.bytes, o.size);
    memset(bytes + symbols.offset + 72 + 16, 0, 8); /* hidden */
    memset(bytes + symbols.offset + 48 + 16, 0, 8); /* nothing */
    assert_int_equal(object_parse(bytes, o.size, &object), QUERN_OK);
    assert_int_equal(object_kernel(&object, "hidden")->code_bytes, 0x1e00 - 0x1b00);
    assert_int_equal(object_kernel(&object, "nothing")->code_bytes, 0x1b00 + 0x740 - 0x1e00);
    object_free(&object);
    free(bytes);
}

static void hostile_descriptors_are_refused(void **state)
{
    const struct t_object o = t_object(T_AXPY_GFX1151);
    const size_t d = 0x5c0; /* the first segment's addresses are file offsets */

    (void)state;
    refused_with("bytes of LDS", o, d, 4, 512);
    refused_with("bytes of scratch", o, d + 4, 4, 16);
    refused_with("bytes of arguments", o, d + 8, 4, 40);
    refused_with("reserved", o, d + 12, 4, 1);
    refused_with("not a multiple of 256", o, d + 16, 8, 0x1604 - 0x5c0);
    refused_with("not inside executable code", o, d + 16, 8, UINT64_MAX - 0x5bf);
    refused_with("not inside executable code", o, d + 16, 8, 0x2900 - 0x5c0);
    refused_with("by its descriptor", o, d + 16, 8, 0x1700 - 0x5c0);
    refused_with("reserved", o, d + 24, 1, 1);
    refused_with("reserved", o, d + 43, 1, 0x80);
    refused_with("reserved", o, d + 56, 2, 0x1408);
    refused_with("waves of 64", o, d + 56, 2, 0x8);
    refused_with("dynamic stack", o, d + 56, 2, 0xc08);
    refused_with("reserved", o, d + 60, 4, 0x80000000);
    /* 16 VGPRs of gfx90a's 14 granted: fewer than it uses */
    refused_with("VGPRs", t_object(T_HIDDEN_GFX90A), 0xa00 + 48, 4, 0xaf0080);
    /* a wave32 on a target that has none */
    refused_with("waves of 32", t_object(T_HIDDEN_GFX90A), 0xa00 + 56, 2, 0x429);
}

static size_t note_header(struct t_object o)
{
    struct elf elf;

    assert_int_equal(elf_open(o.bytes, o.size, &elf), QUERN_OK);
    for (unsigned i = 0; i < elf.segment_count; i++)
        if (elf_segment(&elf, i).type == ELF_PT_NOTE)
            return (size_t)elf_segment(&elf, i).offset;
    fail_msg("%s has no notes", o.name);
    return 0;
}

static void hostile_notes_are_refused(void **state)
{
    const struct t_object o = t_object(T_AXPY_GFX1151);
    const size_t note = note_header(o);

    (void)state;
    refused_with("does not fit", o, note, 4, 0xffffffff);       /* namesz */
    refused_with("does not fit", o, note + 4, 4, 0xffffffff);   /* descsz */
    refused_with("no note", o, note + 8, 4, 31);                /* type */
    refused_with("no note", o, note + 12, 1, 'B');              /* owner */
    refused_with("where a map belongs", o, note + 20, 1, 0xc0); /* nil where the map begins */
    refused_with("end inside a value", o, note + 20, 5, 0xffffffffdb); /* a string of 4 GiB */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_bit_flip_is_judged),
        cmocka_unit_test(random_damage_is_judged),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(hostile_segments_are_refused),
        cmocka_unit_test(hostile_sections_are_refused),
        cmocka_unit_test(absolute_relocations_take_the_symbols_address),
        cmocka_unit_test(size_of_code_without_a_size),
        cmocka_unit_test(hostile_descriptors_are_refused),
        cmocka_unit_test(hostile_notes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
