/* SPDX-License-Identifier: MIT */
/*
 * The reader of cubins on files that NVRTC 12.9 and 13.0 made (tests/fuzz/corpus/cubin): what it
 * reads of them, in both ELF ABIs, and what it says of those that are no use. test_nvrtc.c compares
 * it with cuobjdump.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/os.h"
#include "object/object.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *read_cubin(const char *name, size_t *size)
{
    char path[256], *bytes;

    snprintf(path, sizeof path, "tests/fuzz/corpus/cubin/%s", name);
    assert_int_equal(os_read_file(path, 1 << 20, &bytes, size), 0);
    return (uint8_t *)bytes;
}

static void check_axpy(const struct object_kernel *k)
{
    static const struct object_arg args[] = {{OBJECT_ARG_BY_VALUE, 0, 8},
                                             {OBJECT_ARG_BY_VALUE, 8, 8},
                                             {OBJECT_ARG_BY_VALUE, 16, 4},
                                             {OBJECT_ARG_BY_VALUE, 20, 4}};

    assert_non_null(k);
    assert_int_equal(k->arg_count, 4);
    assert_memory_equal(k->args, args, sizeof args);
    assert_int_equal(k->kernarg_bytes, 24);
    assert_int_equal(k->max_flat_workgroup, 256);
    assert_int_equal(k->wave_size, 32);
    assert_int_equal(k->lds_bytes, 0);
    assert_int_equal(k->scratch_bytes, 0);
    assert_in_range(k->vgprs, 8, 16);
}

static void test_both_abis_are_read(void **state)
{
    static const struct {
        const char *file, *target;
    } files[] = {{"axpy.sm_80.12", "sm_80"},
                 {"axpy.sm_90.12", "sm_90"},
                 {"axpy.sm_90a.12", "sm_90"},
                 {"axpy.sm_120.12", "sm_120"},
                 {"axpy.sm_90.13", "sm_90"}};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct object o;
        size_t size;
        uint8_t *const bytes = read_cubin(files[i].file, &size);
        assert_int_equal(object_parse(bytes, size, &o), QUERN_OK);
        assert_string_equal(o.target->name, files[i].target);
        assert_int_equal(o.kernel_count, 1);
        check_axpy(object_kernel(&o, "axpy"));
        object_free(&o);
        free(bytes);
    }
}

/* What cuobjdump says of it: REG:40 STACK:160 SHARED:2224, of which 1024 are reserved. */
static void test_two_kernels(void **state)
{
    struct object o;
    size_t size;
    uint8_t *const bytes = read_cubin("two.sm_90.12", &size);

    (void)state;
    assert_int_equal(object_parse(bytes, size, &o), QUERN_OK);
    assert_int_equal(o.kernel_count, 2);
    check_axpy(object_kernel(&o, "axpy"));
    const struct object_kernel *const k = object_kernel(&o, "shared");
    assert_non_null(k);
    assert_int_equal(k->vgprs, 40);
    assert_int_equal(k->scratch_bytes, 160);
    assert_int_equal(k->lds_bytes, 2224);
    assert_int_equal(k->arg_count, 3);
    assert_int_equal(k->args[1].size, 1);
    assert_int_equal(k->args[2].offset, 16);
    assert_null(object_kernel(&o, "axp"));
    object_free(&o);
    free(bytes);
}

/* The file with one byte changed is refused, and the message has those words. */
static void refused(const char *file, size_t at, uint8_t value, const char *words)
{
    struct object o;
    size_t size;
    uint8_t *const bytes = read_cubin(file, &size);

    if (at < size)
        bytes[at] = value;
    assert_int_equal(object_parse(bytes, size, &o), QUERN_E_OBJECT);
    if (!strstr(quern_last_error()->message, words))
        fail_msg("\"%s\" lacks \"%s\"", quern_last_error()->message, words);
    free(bytes);
}

static void test_refusals(void **state)
{
    struct object o;
    size_t size;

    (void)state;
    refused("axpy.sm_90.12", 7, 52, "ELF OS/ABI 52, version 7");
    refused("axpy.sm_90.12", 8, 8, "ELF OS/ABI 51, version 8");
    refused("axpy.sm_90.13", 16, 1, "ELF type 1: a cubin that can be loaded has 2");
    refused("axpy.sm_90.12", 48, 91, "code for sm_91, which is none of the known targets");
    refused("axpy.sm_90.13", 49, 91, "code for sm_91, which is none of the known targets");
    uint8_t *const bytes = read_cubin("axpy.sm_90.12", &size);
    for (size_t n = 0; n < size; n++)
        if (object_parse(bytes, n, &o) == QUERN_OK) { /* what is cut off is not needed */
            assert_true(n >= 64);
            object_free(&o);
        }
    assert_int_equal(object_parse(bytes, 64, &o), QUERN_E_OBJECT);
    free(bytes);
}

static void test_a_cubin_fits_its_target_alone(void **state)
{
    struct target_id id = {.target = target_named("sm_90")};
    struct object o;
    size_t size;
    uint8_t *const bytes = read_cubin("axpy.sm_80.12", &size);

    (void)state;
    assert_int_equal(object_parse(bytes, size, &o), QUERN_OK);
    assert_int_equal(object_fits(&o, &id), QUERN_E_OBJECT);
    assert_non_null(strstr(quern_last_error()->message, "for sm_80 does not run on sm_90"));
    id.target = target_named("sm_80");
    assert_int_equal(object_fits(&o, &id), QUERN_OK);
    object_free(&o);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_abis_are_read),
        cmocka_unit_test(test_two_kernels),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_cubin_fits_its_target_alone),
    };
    return cmocka_run_group_tests_name("cubin", tests, NULL, NULL);
}
