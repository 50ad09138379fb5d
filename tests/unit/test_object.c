/* SPDX-License-Identifier: MIT */
/* Code objects: every field of five real ones against what llvm-readelf prints. */
#include "base/os.h"
#include "object/elf.h"
#include "object/object.h"
#include "t_objects.h"

#include <quern/tool.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void parse_ok(struct t_object g, struct object *o)
{
    if (object_parse(g.bytes, g.size, o) != QUERN_OK)
        fail_msg("%s: %s", g.name, quern_last_error()->message);
}

struct expected {
    int golden;
    const char *target;
    char sramecc, xnack;
    uint64_t image_bytes;
    struct object_kernel kernel; /* the first */
};

static const struct expected expected[] = {
    {T_AXPY_GFX1151,
     "gfx1151",
     0,
     0,
     0x3971,
     {.name = "axpy",
      .descriptor = 0x5c0,
      .entry = 0x1600,
      .code_bytes = 268,
      .rsrc1 = 0xe0af0040,
      .rsrc2 = 0x84,
      .rsrc3 = 0x30,
      .properties = 0x408,
      .kernarg_bytes = 36,
      .lds_bytes = 256,
      .vgprs = 5,
      .vgprs_granted = 8,
      .sgprs = 12,
      .max_flat_workgroup = 1024,
      .wave_size = 32,
      .arg_count = 5}},
    {T_AXPY_GFX1201,
     "gfx1201",
     0,
     0,
     0x3971,
     {.name = "axpy",
      .descriptor = 0x5c0,
      .entry = 0x1600,
      .code_bytes = 284,
      .rsrc1 = 0xe00f0041,
      .rsrc2 = 0x84,
      .rsrc3 = 0x30,
      .properties = 0x8,
      .kernarg_bytes = 36,
      .lds_bytes = 256,
      .vgprs = 5,
      .vgprs_granted = 8,
      .sgprs = 14,
      .max_flat_workgroup = 1024,
      .wave_size = 64,
      .arg_count = 5}},
    {T_AXPY_GFX942,
     "gfx942",
     '+',
     '-',
     0x3b71,
     {.name = "axpy",
      .descriptor = 0x5c0,
      .entry = 0x1600,
      .code_bytes = 216,
      .rsrc1 = 0xaf0040,
      .rsrc2 = 0x84,
      .rsrc3 = 0x1,
      .properties = 0x8,
      .kernarg_bytes = 36,
      .lds_bytes = 256,
      .vgprs = 6,
      .vgprs_granted = 8,
      .sgprs = 16,
      .max_flat_workgroup = 1024,
      .wave_size = 64,
      .arg_count = 5}},
    {T_HIDDEN_GFX1201,
     "gfx1201",
     0,
     0,
     0x30e1,
     {.name = "hidden",
      .descriptor = 0xa40,
      .entry = 0x1b00,
      .code_bytes = 648,
      .rsrc1 = 0xe00f0041,
      .rsrc2 = 0x85,
      .rsrc3 = 0x60,
      .properties = 0x408,
      .kernarg_bytes = 272,
      .scratch_bytes = 48,
      .vgprs = 12,
      .vgprs_granted = 16,
      .sgprs = 15,
      .max_flat_workgroup = 1024,
      .wave_size = 32,
      .arg_count = 15}},
    {T_HIDDEN_GFX90A,
     "gfx90a",
     0,
     0,
     0x4321,
     {.name = "hidden",
      .descriptor = 0xa00,
      .entry = 0x1b00,
      .code_bytes = 544,
      .rsrc1 = 0xaf0081,
      .rsrc2 = 0x91,
      .rsrc3 = 0x3,
      .properties = 0x29,
      .kernarg_bytes = 272,
      .scratch_bytes = 48,
      .vgprs = 14,
      .vgprs_granted = 16,
      .sgprs = 24,
      .max_flat_workgroup = 1024,
      .wave_size = 64,
      .arg_count = 15}},
};

static void fields_are_those_of_readelf(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(expected); i++) {
        const struct expected *const e = &expected[i];
        struct object o;
        parse_ok(t_object(e->golden), &o);
        assert_string_equal(o.target->name, e->target);
        assert_int_equal(o.sramecc, e->sramecc);
        assert_int_equal(o.xnack, e->xnack);
        assert_int_equal(o.code_object_version, 6);
        assert_int_equal(o.image_bytes, e->image_bytes);
        const struct object_kernel *const k = object_kernel(&o, e->kernel.name);
        assert_non_null(k);
#define SAME(field) assert_int_equal(k->field, e->kernel.field)
        SAME(descriptor);
        SAME(entry);
        SAME(code_bytes);
        SAME(rsrc1);
        SAME(rsrc2);
        SAME(rsrc3);
        SAME(properties);
        SAME(kernarg_preload);
        SAME(kernarg_bytes);
        SAME(lds_bytes);
        SAME(scratch_bytes);
        SAME(vgprs);
        SAME(vgprs_granted);
        SAME(agprs);
        SAME(sgprs);
        SAME(vgpr_spills);
        SAME(sgpr_spills);
        SAME(max_flat_workgroup);
        SAME(wave_size);
        SAME(dynamic_stack);
        SAME(arg_count);
#undef SAME
        object_free(&o);
    }
}

static void second_kernel_and_unknown_names(void **state)
{
    struct object o;

    (void)state;
    parse_ok(t_object(T_HIDDEN_GFX90A), &o);
    assert_int_equal(o.kernel_count, 2);
    const struct object_kernel *const k = object_kernel(&o, "nothing");
    assert_non_null(k);
    assert_int_equal(k->descriptor, 0xa40);
    assert_int_equal(k->entry, 0x1e00);
    assert_int_equal(k->code_bytes, 4);
    assert_int_equal(k->sgprs, 4);
    assert_int_equal(k->arg_count, 0);
    assert_null(object_kernel(&o, "nothing.kd"));
    assert_null(object_kernel(&o, ""));
    object_free(&o);
}

static void arguments(void **state)
{
    static const struct object_arg axpy[] = {
        {OBJECT_ARG_GLOBAL_BUFFER, 0, 8}, {OBJECT_ARG_GLOBAL_BUFFER, 8, 8},
        {OBJECT_ARG_BY_VALUE, 16, 4},     {OBJECT_ARG_BY_VALUE, 24, 8},
        {OBJECT_ARG_BY_VALUE, 32, 2},
    };
    static const struct object_arg hidden[] = {
        {OBJECT_ARG_GLOBAL_BUFFER, 0, 8},           {OBJECT_ARG_BY_VALUE, 8, 4},
        {OBJECT_ARG_HIDDEN_BLOCK_COUNT_X, 16, 4},   {OBJECT_ARG_HIDDEN_BLOCK_COUNT_Y, 20, 4},
        {OBJECT_ARG_HIDDEN_BLOCK_COUNT_Z, 24, 4},   {OBJECT_ARG_HIDDEN_GROUP_SIZE_X, 28, 2},
        {OBJECT_ARG_HIDDEN_GROUP_SIZE_Y, 30, 2},    {OBJECT_ARG_HIDDEN_GROUP_SIZE_Z, 32, 2},
        {OBJECT_ARG_HIDDEN_REMAINDER_X, 34, 2},     {OBJECT_ARG_HIDDEN_REMAINDER_Y, 36, 2},
        {OBJECT_ARG_HIDDEN_REMAINDER_Z, 38, 2},     {OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_X, 56, 8},
        {OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_Y, 64, 8}, {OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_Z, 72, 8},
        {OBJECT_ARG_HIDDEN_GRID_DIMS, 80, 2},
    };

    (void)state;
    for (int g = 0; g < T_OBJECT_COUNT; g++) {
        const bool is_hidden = g == T_HIDDEN_GFX1201 || g == T_HIDDEN_GFX90A;
        const struct object_arg *const want = is_hidden ? hidden : axpy;
        struct object o;
        parse_ok(t_object(g), &o);
        const struct object_kernel *const k = object_kernel(&o, is_hidden ? "hidden" : "axpy");
        assert_int_equal(k->arg_count, is_hidden ? COUNT(hidden) : COUNT(axpy));
        for (size_t i = 0; i < k->arg_count; i++) {
            assert_int_equal(k->args[i].kind, want[i].kind);
            assert_int_equal(k->args[i].offset, want[i].offset);
            assert_int_equal(k->args[i].size, want[i].size);
        }
        object_free(&o);
    }
}

static void segments_symbols_and_relocations(void **state)
{
    static const struct object_segment segments[] = {
        {0x0, 0x0, 0xac0, 0xac0, false, false},
        {0x1b00, 0xb00, 0x500, 0x500, false, true},
        {0x2000, 0x1000, 0xb0, 0x1000, true, false},
        {0x30b0, 0x10b0, 0x20, 0x31, true, false},
    };
    static const struct object_symbol symbols[] = {
        {"hidden.kd", 0xa40, 64, false}, {"nothing.kd", 0xa80, 64, false},
        {"hidden", 0x1b00, 648, true},   {"nothing", 0x1e00, 4, true},
        {"first", 0x30b0, 16, false},    {"table", 0x30c0, 16, false},
        {"second", 0x30d0, 16, false},
    };
    struct object o;

    (void)state;
    parse_ok(t_object(T_HIDDEN_GFX1201), &o);
    assert_int_equal(o.segment_count, COUNT(segments));
    for (size_t i = 0; i < o.segment_count; i++) {
        assert_int_equal(o.segments[i].address, segments[i].address);
        assert_int_equal(o.segments[i].file_offset, segments[i].file_offset);
        assert_int_equal(o.segments[i].file_bytes, segments[i].file_bytes);
        assert_int_equal(o.segments[i].memory_bytes, segments[i].memory_bytes);
        assert_int_equal(o.segments[i].write, segments[i].write);
        assert_int_equal(o.segments[i].execute, segments[i].execute);
    }
    assert_int_equal(o.symbol_count, COUNT(symbols) + 1); /* and the compiler's __hip_cuid_… */
    for (size_t i = 0; i < COUNT(symbols); i++) {
        assert_string_equal(o.symbols[i].name, symbols[i].name);
        assert_int_equal(o.symbols[i].address, symbols[i].address);
        assert_int_equal(o.symbols[i].bytes, symbols[i].bytes);
        assert_int_equal(o.symbols[i].function, symbols[i].function);
    }
    assert_int_equal(o.relocation_count, 2);
    assert_int_equal(o.relocations[0].address, 0x30c0);
    assert_int_equal(o.relocations[0].value, 0x30b0);
    assert_int_equal(o.relocations[1].address, 0x30c8);
    assert_int_equal(o.relocations[1].value, 0x30d4);
    /* bytes of the file by virtual address: none for memory that the file does not hold */
    assert_ptr_equal(object_at(&o, 0x1b00, 0x500), o.bytes + 0xb00);
    assert_null(object_at(&o, 0x1b00, 0x501));
    assert_null(object_at(&o, 0x1aff, 1));
    assert_non_null(object_at(&o, 0x30cf, 1));
    assert_null(object_at(&o, 0x30d0, 1));
    assert_null(object_at(&o, UINT64_MAX, 2));
    assert_null(object_at(&o, 0x1b00, UINT64_MAX));
    object_free(&o);
}

static void hidden_arguments_are_filled(void **state)
{
    const uint32_t grid[3] = {70000, 5, 1}, block[3] = {64, 2, 3};
    uint8_t kernarg[272], want[272];
    struct object o;

    (void)state;
    parse_ok(t_object(T_HIDDEN_GFX1201), &o);
    memset(kernarg, 0xee, sizeof kernarg);
    memcpy(want, kernarg, sizeof want);
    /* little-endian at the offsets of the metadata; what is no argument stays as it was */
    memcpy(want + 16, "\x70\x11\x01\x00\x05\x00\x00\x00\x01\x00\x00\x00", 12);
    memcpy(want + 28, "\x40\x00\x02\x00\x03\x00", 6);
    memset(want + 34, 0, 6);
    memset(want + 56, 0, 24);
    memcpy(want + 80, "\x03\x00", 2);
    object_fill_hidden(object_kernel(&o, "hidden"), kernarg, grid, block, 1000);
    assert_memory_equal(kernarg, want, sizeof want);
    object_free(&o);

    /* the kinds that these objects do not have */
    struct object_arg args[] = {
        {OBJECT_ARG_HIDDEN_DYNAMIC_LDS_SIZE, 0, 4},
        {OBJECT_ARG_HIDDEN_OTHER, 8, 8},
        {OBJECT_ARG_DYNAMIC_LDS, 16, 4},
        {OBJECT_ARG_HIDDEN_BLOCK_COUNT_X, 20, 10},
    };
    const struct object_kernel made_up = {.arg_count = COUNT(args), .args = args};
    memset(kernarg, 0xee, sizeof kernarg);
    object_fill_hidden(&made_up, kernarg, grid, block, 1000);
    assert_memory_equal(kernarg,
                        "\xe8\x03\x00\x00\xee\xee\xee\xee\0\0\0\0\0\0\0\0\xee\xee\xee\xee"
                        "\x70\x11\x01\0\0\0\0\0\0\0\xee",
                        31);
}

static void fits_only_its_processor_and_features(void **state)
{
    static const struct {
        int golden;
        const char *device;
        bool fits;
    } cases[] = {
        {T_AXPY_GFX942, "gfx942", true},
        {T_AXPY_GFX942, "gfx942:sramecc+:xnack-", true},
        {T_AXPY_GFX942, "gfx942:sramecc+", true},
        {T_AXPY_GFX942, "gfx942:sramecc-", false},
        {T_AXPY_GFX942, "gfx942:xnack+", false},
        {T_AXPY_GFX942, "gfx90a", false},
        {T_HIDDEN_GFX90A, "gfx90a:xnack+", true}, /* made for any */
        {T_HIDDEN_GFX90A, "gfx90a:xnack-:sramecc-", true},
        {T_AXPY_GFX1151, "gfx1151", true},
        {T_AXPY_GFX1151, "gfx1150", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct object o;
        struct target_id id;
        parse_ok(t_object(cases[i].golden), &o);
        assert_int_equal(target_parse(cases[i].device, &id), QUERN_OK);
        assert_int_equal(object_fits(&o, &id), cases[i].fits ? QUERN_OK : QUERN_E_OBJECT);
        if (!cases[i].fits) { /* both are named */
            const char *const message = quern_last_error()->message;
            assert_non_null(strstr(message, t_object(cases[i].golden).target));
            assert_non_null(strstr(message, cases[i].device));
        }
        object_free(&o);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int allocations_left;
static struct os real;
static void *scarce_malloc(size_t n)
{
    return allocations_left-- > 0 ? real.malloc(n) : NULL;
}
static void *scarce_calloc(size_t n, size_t m)
{
    return allocations_left-- > 0 ? real.calloc(n, m) : NULL;
}
static void *scarce_realloc(void *p, size_t n)
{
    return allocations_left-- > 0 ? real.realloc(p, n) : NULL;
}

static void running_out_of_memory_is_said(void **state)
{
    const struct t_object g = t_object(T_HIDDEN_GFX90A);
    struct object o;
    int allowed = 0;

    (void)state;
    real = os;
    os.malloc = scarce_malloc;
    os.calloc = scarce_calloc;
    os.realloc = scarce_realloc;
    for (quern_status status = QUERN_E_MEMORY; status != QUERN_OK; allowed++) {
        allocations_left = allowed;
        status = object_parse(g.bytes, g.size, &o);
        assert_true(status == QUERN_OK || status == QUERN_E_MEMORY);
    }
    os = real;
    assert_true(allowed > 8); /* it did fail at each of them */
    object_free(&o);
}

/* ---- The target's name ----------------------------------------------------------------------- */

/* Status of the object with another triple in its metadata, as long as the one that is there. */
static quern_status with_triple(const char *triple)
{
    static const char present[] = "amdgcn-amd-amdhsa--gfx1151";
    const struct t_object g = t_object(T_AXPY_GFX1151);
    char *const copy = malloc(g.size);
    struct object o;

    assert_non_null(copy);
    memcpy(copy, g.bytes, g.size);
    char *const at = memmem(copy, g.size, present, sizeof present - 1);
    assert_non_null(at);
    assert_int_equal(strlen(triple), sizeof present - 1);
    memcpy(at, triple, sizeof present - 1);
    const quern_status status = object_parse((const uint8_t *)copy, g.size, &o);
    if (status == QUERN_OK)
        object_free(&o);
    free(copy);
    return status;
}

static void triples(void **state)
{
    (void)state;
    assert_int_equal(with_triple("amdgcn-amd-amdhsa--gfx1151"), QUERN_OK);
    assert_int_equal(with_triple("amdgpu-amd-amdhsa--gfx1151"), QUERN_OK);
    assert_int_equal(with_triple("amdgpu-amd-amdpal--gfx1151"), QUERN_E_OBJECT);
    assert_int_equal(with_triple("amdgpu-amd-amdhsa--gfx1150"), QUERN_E_OBJECT);
    assert_int_equal(with_triple("amdgpu1-amd-amdhsa-gfx1151"), QUERN_E_OBJECT);
    assert_int_equal(with_triple("amdgpx-amd-amdhsa--gfx1151"), QUERN_E_OBJECT);
    assert_int_equal(with_triple("amdgpu9.0a10c-amd-amdhsa--"), QUERN_E_OBJECT);
}

/* An object that is renamed is read as the other target's, and differs in that alone. */
static void another_target_is_named(void **state)
{
    static const char *const names[] = {"gfx1151", "gfx1150", "gfx942", "sm_90"};
    const struct t_object g = t_object(T_AXPY_GFX1151);
    uint8_t *const copy = malloc(g.size);
    size_t differ = 0;
    struct object o;

    (void)state;
    assert_non_null(copy);
    memcpy(copy, g.bytes, g.size);
    for (size_t i = 1; i < COUNT(names); i++) /* not this one's; and a name of another length */
        assert_false(
            object_rename(copy, g.size, target_named(names[i]), target_named(names[0])) ||
            (i > 1 && object_rename(copy, g.size, target_named(names[0]), target_named(names[i]))));
    assert_memory_equal(copy, g.bytes, g.size);
    assert_true(object_rename(copy, g.size, target_named(names[0]), target_named(names[1])));
    assert_int_equal(object_parse(copy, g.size, &o), QUERN_OK);
    assert_string_equal(o.target->name, names[1]);
    object_free(&o);
    for (size_t i = 0; i < g.size; i++)
        differ += copy[i] != ((const uint8_t *)g.bytes)[i];
    assert_int_equal(differ, 2);
    free(copy);
}

static void the_code_of_a_kernel_is_given_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(expected); i++) {
        const struct t_object g = t_object(expected[i].golden);
        const struct object_kernel *const k = &expected[i].kernel;
        const void *code;
        size_t code_bytes;
        uint64_t address;
        struct object o;
        assert_int_equal(quern_object_code(g.bytes, g.size, k->name, &code, &code_bytes, &address),
                         QUERN_OK);
        parse_ok(g, &o);
        const struct object_kernel *const read = object_kernel(&o, k->name);
        assert_ptr_equal(code, object_at(&o, read->entry, read->code_bytes));
        assert_int_equal(code_bytes, read->code_bytes);
        assert_int_equal(address, read->entry);
        object_free(&o);
        assert_int_equal(quern_object_code(g.bytes, g.size, "none", &code, &code_bytes, &address),
                         QUERN_E_ARGUMENT);
        assert_int_equal(quern_object_code(g.bytes, 100, k->name, &code, &code_bytes, &address),
                         QUERN_E_OBJECT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_those_of_readelf),
        cmocka_unit_test(second_kernel_and_unknown_names),
        cmocka_unit_test(arguments),
        cmocka_unit_test(segments_symbols_and_relocations),
        cmocka_unit_test(hidden_arguments_are_filled),
        cmocka_unit_test(fits_only_its_processor_and_features),
        cmocka_unit_test(the_code_of_a_kernel_is_given_out),
        cmocka_unit_test(triples),
        cmocka_unit_test(another_target_is_named),
        cmocka_unit_test(running_out_of_memory_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
