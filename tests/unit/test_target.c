/* SPDX-License-Identifier: MIT */
/* The target table and target ids. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "target/target.h"

#include <string.h>

static void test_every_row_is_whole(void **state)
{
    (void)state;
    assert_int_equal(target_count(), 23);
    for (size_t i = 0; i < target_count(); i++) {
        const struct target *const t = target_at(i);
        assert_ptr_equal(target_named(t->name), t);
        assert_ptr_equal(target_of_machine(t->vendor, t->elf_machine), t);
        assert_true(t->family && t->part && t->cus && t->clock_ghz > 0.5 && t->bandwidth_gbs > 50);
        assert_true(t->wave_size == 32 || t->wave_size == 64);
        assert_true(t->vgprs >= 256 && t->vgprs % t->vgpr_granule == 0 && t->lds_bytes >= 65536);
        assert_true(t->simds == 2 || t->simds == 4);
        /* a wave is issued in whole cycles, and its registers are counted in parts of a granule */
        assert_true(t->simd_lanes && t->wave_size % t->simd_lanes == 0);
        assert_true(t->vgpr_unit && t->vgpr_granule % t->vgpr_unit == 0);
        assert_true(t->capabilities & (t->vendor == VENDOR_AMD ? CAP_DOT2_F32_F16 : CAP_MMA_16816));
        /* one matrix unit at most */
        assert_true(!!(t->capabilities & CAP_WMMA_256B) + !!(t->capabilities & CAP_WMMA_128B) +
                        !!(t->capabilities & CAP_MFMA) <=
                    1);
        /* who has the code of another has its instructions and registers, and has a name as long */
        const struct target *const other = t->code_of ? target_named(t->code_of) : t;
        assert_true(other && !(other != t && other->code_of));
        assert_true(other->capabilities == t->capabilities && other->vgprs == t->vgprs &&
                    strlen(other->name) == strlen(t->name) && !strcmp(other->family, t->family));
    }
    assert_null(target_at(target_count()));
    assert_null(target_named("gfx9999"));
    assert_null(target_of_machine(VENDOR_AMD, 0xff));
    /* numbers of machines are a vendor's own */
    assert_string_equal(target_of_machine(VENDOR_NVIDIA, 80)->name, "sm_80");
    assert_null(target_of_machine(VENDOR_AMD, 80));
}

static void test_ids(void **state)
{
    struct target_id id;

    (void)state;
    assert_int_equal(target_parse("gfx1151", &id), QUERN_OK);
    assert_string_equal(id.target->name, "gfx1151");
    assert_int_equal(id.sramecc, 0);
    assert_int_equal(target_parse("gfx942:sramecc+:xnack-", &id), QUERN_OK);
    assert_int_equal(id.sramecc, '+');
    assert_int_equal(id.xnack, '-');
    assert_int_equal(target_parse("gfx90a:xnack+", &id), QUERN_OK);
    assert_int_equal(id.xnack, '+');
    assert_int_equal(target_parse("sm_90", &id), QUERN_OK);
    assert_int_equal(id.target->vendor, VENDOR_NVIDIA);
    assert_int_equal(id.target->elf_machine, 90);
}

static void expect_refused(const char *text, const char *part)
{
    struct target_id id = {.sramecc = 'x'};

    assert_int_equal(target_parse(text, &id), QUERN_E_TARGET);
    if (!strstr(quern_last_error()->message, part))
        fail_msg("\"%s\" gave \"%s\", without \"%s\"", text, quern_last_error()->message, part);
    assert_int_equal(id.sramecc, 'x');
}

static void test_refusals(void **state)
{
    char long_text[70000];

    (void)state;
    expect_refused(NULL, "no target given");
    expect_refused("", "no target given");
    expect_refused("gfx9999", "the nearest known one is gfx9");
    expect_refused("gfx1152x", "nearest known one is gfx1152");
    expect_refused("GFX1151", "0x47");
    expect_refused("gfx1151\n", "0x0a at place 7");
    expect_refused("gfx1151 ", "0x20");
    /* parts, by what they are sold as */
    expect_refused("mi300x", "its target is gfx942 (Instinct MI300X)");
    expect_refused("MI300X", "\"MI300X\" is the name of a part; its target is gfx942");
    expect_refused("RX 7900 XTX", "its target is gfx1100");
    expect_refused("rx-9070-xt", "its target is gfx1201");
    expect_refused("H200", "its target is sm_90");
    expect_refused("mi3", "the nearest known one is");
    expect_refused("gfx1151:xnack+", "gfx1151 has no feature xnack");
    expect_refused("sm_90:xnack+", "sm_90 has no feature xnack");
    expect_refused("sm_91", "the nearest known one is sm_90");
    expect_refused("sm_90a", "the nearest known one is sm_90");
    expect_refused("gfx942:xnack", "\"xnack\" is no feature");
    expect_refused("gfx942:", "\"\" is no feature");
    expect_refused("gfx942:turbo+", "\"turbo+\" is no feature");
    expect_refused("gfx942:xnack+:xnack-", "xnack is given twice");
    memset(long_text, 'g', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    expect_refused(long_text, "longer than");
}

/* LLVM's occupancy for forced register counts (docs/kernels.md has the thresholds). */
static void test_occupancy(void **state)
{
    const struct target *const big = target_named("gfx1151"),
                               *const small = target_named("gfx1102"),
                               *const cdna = target_named("gfx942");

    (void)state;
    assert_int_equal(target_waves_per_simd(big, 96, 0, 32, 4), 16);
    assert_int_equal(target_waves_per_simd(big, 97, 0, 32, 4), 12);
    assert_int_equal(target_waves_per_simd(big, 256, 0, 32, 4), 5);
    assert_int_equal(target_waves_per_simd(small, 64, 0, 32, 4), 16);
    assert_int_equal(target_waves_per_simd(small, 96, 0, 32, 4), 10);
    assert_int_equal(target_waves_per_simd(small, 256, 0, 32, 4), 4);
    assert_int_equal(target_waves_per_simd(cdna, 64, 0, 64, 4), 8);
    assert_int_equal(target_waves_per_simd(cdna, 128, 0, 64, 4), 4);
    /* 32 KiB of LDS: two workgroups of 16 waves on two SIMDs */
    assert_int_equal(target_waves_per_simd(big, 32, 32768, 32, 16), 16);
    assert_int_equal(target_waves_per_simd(big, 32, 65536, 32, 8), 4);
    assert_int_equal(target_waves_per_simd(big, 96, 0, 64, 4), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_whole),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_occupancy),
    };
    return cmocka_run_group_tests_name("target", tests, NULL, NULL);
}
