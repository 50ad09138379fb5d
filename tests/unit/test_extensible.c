/* SPDX-License-Identifier: MIT */
/*
 * Structs that may grow (base/extensible.h), for every public struct with `size` and for every size
 * from 0 to beyond today's; the sizes that hosts may rely on; and that the public functions follow
 * the helper where no device is needed. tests/cli/test_versions.py does the same with whole hosts.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"

#include <quern/tool.h>

#include "base/extensible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEYOND 16

/* Each struct, and its smallest accepted size as a number: a host that was compiled with it is
 * served for as long as the library's major version stays. */
static const struct row {
    const char *name;
    size_t least, known, promised;
} rows[] = {
#define ROW(tag, CONSTANT, promised) {#tag, CONSTANT##_SIZE_MIN, sizeof(struct tag), promised},
    ROW(quern_problem, QUERN_PROBLEM, 56) ROW(quern_options, QUERN_OPTIONS, 92)
        ROW(quern_args, QUERN_ARGS, 80) ROW(quern_target_info, QUERN_TARGET_INFO, 72) ROW(
            quern_kernel_info, QUERN_KERNEL_INFO, 48) ROW(quern_device_info, QUERN_DEVICE_INFO, 332)
            ROW(quern_verification, QUERN_VERIFICATION, 24) ROW(quern_checkpoint, QUERN_CHECKPOINT,
                                                                80)
                ROW(quern_offload_entry, QUERN_OFFLOAD_ENTRY, 48) ROW(quern_stats, QUERN_STATS, 120)
                    ROW(quern_cache_info, QUERN_CACHE_INFO, 4128)
                        ROW(quern_bundle_info, QUERN_BUNDLE_INFO, 140)
                            ROW(quern_bundle_import, QUERN_BUNDLE_IMPORT, 16)
                                ROW(quern_sim_counts, QUERN_SIM_COUNTS, 160)
                                    ROW(quern_sim_options, QUERN_SIM_OPTIONS, 64)
                                        ROW(quern_sim_launch, QUERN_SIM_LAUNCH, 64)
                                            ROW(quern_sim_profile, QUERN_SIM_PROFILE, 2416)
                                                ROW(quern_sim_model, QUERN_SIM_MODEL, 208)
#undef ROW
};
#define ROW_COUNT (sizeof rows / sizeof *rows)

static struct extensible type_of(const struct row *row)
{
    return (struct extensible){row->name, row->least, row->known};
}

/* A caller's struct of `size` bytes in memory of exactly that length, so that a sanitizer sees any
 * access beyond it. All bytes behind `size` are `fill`, and those that the library does not know
 * are 0. At least sizeof(size_t) bytes are there: no accepted struct is shorter. */
static uint8_t *given_of(const struct row *row, size_t size, uint8_t fill)
{
    const size_t bytes = size < sizeof size ? sizeof size : size;
    uint8_t *const given = malloc(bytes);

    assert_non_null(given);
    memset(given, fill, bytes);
    memcpy(given, &size, sizeof size);
    if (size > row->known)
        memset(given + row->known, 0, size - row->known);
    return given;
}

static void smallest_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].least != rows[i].promised)
            fail_msg("%s: the smallest accepted size is %zu; %zu was promised", rows[i].name,
                     rows[i].least, rows[i].promised);
        assert_true(rows[i].least >= sizeof(size_t) && rows[i].least <= rows[i].known);
    }
}

static void inputs_of_every_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct extensible type = type_of(&rows[i]);
        uint8_t *const own = malloc(type.known), *const expected = malloc(type.known);
        assert_true(own && expected);
        for (size_t size = 0; size <= type.known + BEYOND; size++) {
            uint8_t *const given = given_of(&rows[i], size, 0xa5);
            memset(own, 0x77, type.known);
            const quern_status status = extensible_read(&type, given, own);
            if (size < type.least) {
                assert_int_equal(status, QUERN_E_ARGUMENT);
                char sentence[128];
                snprintf(sentence, sizeof sentence,
                         "struct %s has size %zu; expected its sizeof, which is %zu", type.name,
                         size, type.known);
                t_message_has(sentence);
            } else {
                assert_int_equal(status, QUERN_OK);
                memset(expected, 0, type.known);
                memset(expected, 0xa5, size < type.known ? size : type.known);
                memcpy(expected, &type.known, sizeof type.known);
                assert_memory_equal(own, expected, type.known);
            }
            free(given);
        }
        free(own);
        free(expected);
    }
}

static void what_is_not_known_must_be_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct extensible type = type_of(&rows[i]);
        uint8_t *const own = malloc(type.known);
        assert_non_null(own);
        for (size_t at = type.known; at < type.known + BEYOND; at++) {
            uint8_t *const given = given_of(&rows[i], type.known + BEYOND, 0xa5);
            char sentence[64];
            assert_int_equal(extensible_check(&type, given), QUERN_OK);
            given[at] = 1;
            assert_int_equal(extensible_check(&type, given), QUERN_E_ARGUMENT);
            snprintf(sentence, sizeof sentence, "its byte %zu is not 0", at);
            t_message_has(sentence);
            assert_int_equal(extensible_read(&type, given, own), QUERN_E_ARGUMENT);
            free(given);
        }
        free(own);
    }
}

/* What nobody set is refused without a look behind the struct. */
static void wild_sizes(void **state)
{
    const struct extensible type = type_of(&rows[0]);
    struct quern_problem p = {.size = SIZE_MAX};

    (void)state;
    assert_int_equal(extensible_check(&type, &p), QUERN_E_ARGUMENT);
    p.size = sizeof p + EXTENSIBLE_MORE_MAX + 1;
    assert_int_equal(extensible_check(&type, &p), QUERN_E_ARGUMENT);
    assert_int_equal(extensible_check(&type, NULL), QUERN_E_ARGUMENT);
    t_message_has("struct quern_problem is null");
}

static void results_of_every_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct extensible type = type_of(&rows[i]);
        uint8_t *const own = malloc(type.known);
        assert_non_null(own);
        memset(own, 0xc3, type.known);
        for (size_t size = type.least; size <= type.known + BEYOND; size++) {
            uint8_t *const given = given_of(&rows[i], size, 0xa5);
            uint8_t *const expected = given_of(&rows[i], size, 0xc3);
            assert_int_equal(extensible_check(&type, given), QUERN_OK);
            extensible_write(&type, own, given);
            assert_memory_equal(given, expected, size); /* `size` and what is beyond stay */
            free(given);
            free(expected);
        }
        free(own);
    }
}

static void arrays_of_every_size(void **state)
{
    enum { COUNT = 3 };

    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct extensible type = type_of(&rows[i]);
        uint8_t *const own = malloc(type.known);
        assert_non_null(own);
        for (size_t size = type.least; size <= type.known + BEYOND; size++) {
            const size_t shared = size < type.known ? size : type.known;
            uint8_t *const array = calloc(COUNT, size);
            assert_non_null(array);
            for (size_t n = 0; n < COUNT; n++) {
                memset(array + n * size, (int)n + 1, shared);
                memcpy(array + n * size, &size, sizeof size);
            }
            for (size_t n = 0; n < COUNT; n++) {
                assert_int_equal(extensible_read_at(&type, array, n, own), QUERN_OK);
                if (shared > sizeof size) /* its last shared byte; all fields were tested above */
                    assert_int_equal(own[shared - 1], n + 1);
            }
            const size_t other = size + 8;
            memcpy(array + size, &other, sizeof other);
            assert_int_equal(extensible_read_at(&type, array, 1, own), QUERN_E_ARGUMENT);
            t_message_has("element 1 of an array of struct");
            free(array);
        }
        const size_t zero = 0;
        assert_int_equal(extensible_read_at(&type, &zero, 1, own), QUERN_E_ARGUMENT);
        free(own);
    }
}

/* ---- Public functions ------------------------------------------------------------------------ */

/* A problem that ends with k has the defaults of the fields that it lacks. */
static void a_smaller_problem(void **state)
{
    struct quern_problem whole = QUERN_INIT(struct quern_problem), small = whole;
    char expected[QUERN_TEXT_MAX], text[QUERN_TEXT_MAX];

    (void)state;
    assert_int_equal(quern_problem_parse("wq=nf4 n=64 k=128 a=bf16", &whole), QUERN_OK);
    assert_int_equal(quern_problem_text(&whole, expected, sizeof expected), QUERN_OK);
    small = whole;
    memset((char *)&small + QUERN_PROBLEM_SIZE_MIN, 0xff, sizeof small - QUERN_PROBLEM_SIZE_MIN);
    small.size = QUERN_PROBLEM_SIZE_MIN;
    assert_int_equal(quern_problem_text(&small, text, sizeof text), QUERN_OK);
    assert_string_equal(text, expected);
    /* and as a result, all behind it is left alone */
    assert_int_equal(quern_problem_parse("wq=int4 n=32 k=128 a=f16 bias=1", &small), QUERN_OK);
    assert_int_equal(small.size, QUERN_PROBLEM_SIZE_MIN);
    assert_int_equal(small.n, 32);
    assert_int_equal(small.bias, -1);
    small.size = QUERN_PROBLEM_SIZE_MIN - 1;
    assert_int_equal(quern_problem_text(&small, text, sizeof text), QUERN_E_ARGUMENT);
    assert_int_equal(quern_problem_parse("wq=nf4 n=64 k=128 a=f16", &small), QUERN_E_ARGUMENT);
}

/* A member that the host lacks cannot be set by its operand's name, nor got. */
static void smaller_args(void **state)
{
    struct quern_args args;
    float number = 0;

    (void)state;
    memset(&args, 0xff, sizeof args);
    args.size = QUERN_ARGS_SIZE_MIN;
    assert_int_equal(quern_args_set(&args, "c", &number), QUERN_OK);
    assert_ptr_equal(quern_args_get(&args, "c"), &number);
    assert_int_equal(quern_args_set(&args, "a_scale", &number), QUERN_E_ARGUMENT);
    t_message_has("no member a_scale");
    assert_null(quern_args_get(&args, "a_scale"));
    args.size = 8;
    assert_int_equal(quern_args_set(&args, "c", &number), QUERN_E_ARGUMENT);
    args.size = sizeof args;
    args.a_scale = NULL;
    assert_int_equal(quern_args_set(&args, "a_scale", &number), QUERN_OK);
    assert_ptr_equal(args.a_scale, &number);
}

static void a_larger_target_info(void **state)
{
    struct {
        struct quern_target_info info;
        uint64_t added;
    } larger = {.info.size = sizeof larger};

    (void)state;
    assert_int_equal(quern_target_find("gfx1151", &larger.info), QUERN_OK);
    assert_string_equal(larger.info.name, "gfx1151");
    assert_int_equal(larger.info.size, sizeof larger);
    assert_int_equal(larger.added, 0);
    larger.added = 1;
    assert_int_equal(quern_target_find("gfx1151", &larger.info), QUERN_E_ARGUMENT);
    t_message_has("struct quern_target_info has size");
}

static void a_smaller_model(void **state)
{
    struct quern_sim_profile profile = QUERN_INIT(struct quern_sim_profile);
    struct quern_sim_model whole = QUERN_INIT(struct quern_sim_model), small;

    (void)state;
    profile.target = "gfx1151";
    profile.counts = (struct quern_sim_counts){.instructions = 1000, .workgroups = 4, .waves = 4};
    profile.resources.waves_per_workgroup = 1;
    profile.resources.waves_per_simd = 1;
    profile.resources.workgroups_per_cu = 1;
    assert_int_equal(quern_sim_model_make(&profile, &whole), QUERN_OK);
    memset(&small, 0xff, sizeof small);
    small.size = QUERN_SIM_MODEL_SIZE_MIN;
    assert_int_equal(quern_sim_model_make(&profile, &small), QUERN_OK);
    assert_true(small.total_us == whole.total_us);
    assert_int_equal(small.bound, (enum quern_sim_bound) - 1);
    profile.size = QUERN_SIM_PROFILE_SIZE_MIN - 1;
    assert_int_equal(quern_sim_model_make(&profile, &whole), QUERN_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smallest_sizes),
        cmocka_unit_test(inputs_of_every_size),
        cmocka_unit_test(wild_sizes),
        cmocka_unit_test(what_is_not_known_must_be_zero),
        cmocka_unit_test(results_of_every_size),
        cmocka_unit_test(arrays_of_every_size),
        cmocka_unit_test(a_smaller_problem),
        cmocka_unit_test(a_larger_target_info),
        cmocka_unit_test(a_smaller_model),
        cmocka_unit_test(smaller_args),
    };
    return cmocka_run_group_tests_name("extensible", tests, NULL, NULL);
}
