/* SPDX-License-Identifier: MIT */
/* Plans of skinny kernels: every row once, shapes that fit, the products of every target, layers
 * bound by memory with full grids and enough bytes on their way, and what explain says. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <quern/tool.h>

#include "plan/args.h"
#include "plan/family.h"
#include "plan/plan.h"
#include "target/rates.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static struct plan_set plans_of(const char *text, const char *target)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    struct plan_set set;

    if (quern_problem_parse(text, &p) != QUERN_OK ||
        plan_make(&p, target_named(target), &set) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    return set;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static void check_shape(const struct plan *p)
{
    const struct target *const t = p->target;
    const int64_t n = p->problem.n, k = p->problem.k, rows = p->rows_per_workgroup;
    const int64_t slot = (int64_t)p->wave_size / p->skinny.row_lanes * p->skinny.vector;
    const int64_t slots = (k + slot - 1) / slot;
    uint32_t grid[3], block[3];

    assert_ptr_equal(p->family, &family_simt_skinny);
    plan_geometry(p, 3, 0, grid, block);
    const int64_t groups = (int64_t)grid[p->slices_first] - p->skewed;
    if (p->resident)
        assert_true(groups == (int64_t)p->resident * t->cus && groups * rows < n);
    else
        assert_true(groups * rows >= n && (groups - 1) * rows < n);
    assert_in_range(p->skinny.stage, 0, (slots + p->skinny.split_k - 1) / p->skinny.split_k);
    assert_int_equal(grid[!p->slices_first], 3);
    assert_in_range(block[0], p->wave_size, 1024);
    assert_int_equal(p->waves % p->skinny.split_k, 0);
    assert_in_range(p->skinny.ring, 1, (slots + p->skinny.split_k - 1) / p->skinny.split_k);
    assert_true(p->skinny.vector == 1 ||
                (p->skinny.vector <= k && k * dtype_bytes(p->problem.a) % 4 == 0));
    assert_true(p->skinny.rows == 1 || p->skinny.rows * p->skinny.row_lanes <= n);
    assert_true(p->lds_bytes <= t->lds_bytes);
    /* only where all rounds are whole can readers start apart */
    assert_true(!p->phase || (k % (slot * p->skinny.split_k * p->skinny.ring) == 0));
    const unsigned fit =
        target_waves_per_simd(t, p->estimate.vgprs, 0, p->wave_size, (unsigned)p->waves);
    assert_true((int)(fit * t->simds) >= p->waves);
}

static void test_shapes_fit(void **state)
{
    static const char *const types[] = {"wq=none a=f16",
                                        "wq=none a=bf16",
                                        "wq=none a=f32",
                                        "wq=fp8 a=fp8",
                                        "wq=fp8 a=f16",
                                        "wq=fp8fnuz a=fp8fnuz",
                                        "wq=fp8 scale=block128 a=fp8",
                                        "wq=fp8 scale=block128 a=f16"};
    static const int ns[] = {1, 15, 16, 127, 2048, 8193, 151936},
                     ks[] = {1, 7, 8, 64, 1001, 1032, 2560, 4096, 14336};
    char text[96];
    int turn = 0;

    (void)state;
    for (size_t t = 0; t < target_count(); t++)
        for (int i = 0; i < COUNT(types); i++, turn++) {
            if (target_at(t)->vendor != VENDOR_AMD ||
                (!strcmp(target_at(t)->name, "gfx1153") && i > 2))
                continue; /* the latter has no time for fp8 */
            for (int j = 0; j < 3; j++) {
                snprintf(text, sizeof text, "%s n=%d k=%d", types[i],
                         ns[(turn + 2 * j) % COUNT(ns)], ks[(turn / 2 + 4 * j) % COUNT(ks)]);
                const struct plan_set set = plans_of(text, target_at(t)->name);
                assert_int_equal(set.plans[0].m_lo, 1);
                assert_int_equal(set.plans[set.count - 1].m_hi, PLAN_SIMT_M_MAX);
                for (size_t s = 0; s < set.count; s++)
                    check_shape(&set.plans[s]);
            }
        }
    struct plan_set set = plans_of("wq=none n=134217728 k=1 a=f32", "gfx1151");
    check_shape(&set.plans[0]);
    set = plans_of("wq=fp8 n=1 k=134217728 a=fp8", "gfx942");
    check_shape(&set.plans[3]);
}

/* ---- Choices --------------------------------------------------------------------------------- */

/* Bound by memory for few rows; the grid full; a compute unit has asked for what arrives in 600 ns,
 * or for half of all it reads. */
static void test_layers(void **state)
{
    static const struct {
        const char *target, *words;
    } cases[] = {{"gfx1151", "wq=none a=f16"}, {"gfx1151", "wq=none a=bf16"},
                 {"gfx1201", "wq=none a=f16"}, {"gfx1201", "wq=none a=bf16"},
                 {"gfx942", "wq=none a=f16"},  {"gfx942", "wq=none a=bf16"},
                 {"gfx950", "wq=none a=f16"},  {"gfx950", "wq=none a=bf16"},
                 {"gfx90a", "wq=none a=f16"},  {"gfx90a", "wq=none a=bf16"},
                 {"gfx1201", "wq=fp8 a=fp8"},  {"gfx942", "wq=fp8fnuz a=fp8fnuz"},
                 {"gfx950", "wq=fp8 a=fp8"},   {"gfx1100", "wq=fp8 a=f16"},
                 {"gfx1201", "wq=fp8 a=bf16"}};
    static const int sizes[][2] = {{4096, 4096}, {6144, 2560}, {19456, 2560}, {2560, 9728}};
    char text[96];

    (void)state;
    for (int i = 0; i < COUNT(cases); i++)
        for (int j = 0; j < COUNT(sizes); j++) {
            snprintf(text, sizeof text, "%s n=%d k=%d", cases[i].words, sizes[j][0], sizes[j][1]);
            const struct plan_set set = plans_of(text, cases[i].target);
            for (size_t s = 0; s < 3; s++) {
                const struct plan_estimate *const e = &set.plans[s].estimate;
                const struct target *const t = set.plans[s].target;
                const double asked = t->bandwidth_gbs * 600 / t->cus;
                const double half = (double)sizes[j][0] * sizes[j][1] *
                                    dtype_bytes(problem_weight_type(&set.plans[s].problem)) / 2 /
                                    t->cus;
                if (e->kernel_cycles > e->memory_cycles)
                    fail_msg("%s on %s, %s: not bound by memory", text, t->name,
                             set.plans[s].symbol);
                /* of fp8 a matrix instruction takes eight rows, which come out less even */
                if (e->busy_percent < (set.plans[s].skinny.row_lanes == 8 ? 50 : 85))
                    fail_msg("%s on %s, %s: fills %u %%", text, t->name, set.plans[s].symbol,
                             e->busy_percent);
                if (s == 0 && (double)e->bytes_in_flight < (asked < half ? asked : half))
                    fail_msg("%s on %s: %lld bytes in flight", text, t->name,
                             (long long)e->bytes_in_flight);
            }
        }
}

/* Modelled instructions per weight of the square layer, M = 1, 2, 4, 8; compute units 95 % busy for
 * M ≤ 4, of fp8 as busy as groups of eight rows can keep them. */
static void test_budgets(void **state)
{
    static const struct {
        const char *target, *words;
        double slots[4];
    } budgets[] = {
        {"gfx1151", "wq=none a=f16", {0.6, 0.9, 1.5, 3.0}},
        {"gfx1151", "wq=none a=bf16", {0.6, 0.9, 1.5, 3.0}},
        {"gfx1100", "wq=none a=bf16", {0.7, 1.0, 1.7, 3.1}},
        {"gfx1201", "wq=none a=f16", {0.6, 0.9, 1.5, 3.0}},
        {"gfx950", "wq=none a=bf16", {0.8, 1.0, 1.0, 1.6}},
        {"gfx90a", "wq=none a=bf16", {0.8, 0.9, 0.9, 1.5}},
        {"gfx942", "wq=none a=bf16", {0.8, 1.2, 1.9, 1.4}},
        {"gfx90a", "wq=none a=f32", {1.2, 2.1, 3.4, 6.2}},
        {"gfx1201", "wq=fp8 a=fp8", {0.5, 0.8, 1.4, 2.8}},
        {"gfx942", "wq=fp8fnuz a=fp8fnuz", {2.1, 1.3, 1.3, 1.3}},
        {"gfx950", "wq=fp8 a=fp8", {1.4, 1.4, 1.4, 1.4}},
    };
    char text[96];

    (void)state;
    for (int i = 0; i < COUNT(budgets); i++) {
        snprintf(text, sizeof text, "%s n=4096 k=4096", budgets[i].words);
        const struct plan_set set = plans_of(text, budgets[i].target);
        for (size_t s = 0; s < set.count; s++) {
            const struct plan *const p = &set.plans[s];
            const double slots = (double)p->estimate.slots * p->wave_size / (4096.0 * 4096.0);
            if (slots > budgets[i].slots[s])
                fail_msg("%s on %s: %.2f slots per weight, budget %.2f", p->symbol, p->target->name,
                         slots, budgets[i].slots[s]);
        }
    }
}

static void test_products(void **state)
{
    static const struct {
        const char *target, *words;
        enum plan_products products;
        enum plan_fp8 fp8;
    } cases[] = {
        {"gfx906", "wq=none a=f16", PRODUCTS_DOT2, 0},
        {"gfx906", "wq=none a=bf16", PRODUCTS_PLAIN, 0},
        {"gfx1030", "wq=none a=f16", PRODUCTS_DOT2, 0},
        {"gfx1151", "wq=none a=bf16", PRODUCTS_DOT2, 0},
        {"gfx942", "wq=none a=bf16", PRODUCTS_MATRIX, 0},
        {"gfx942", "wq=none a=f32", PRODUCTS_PACKED, 0},
        {"gfx1201", "wq=fp8 a=fp8", PRODUCTS_DOT4, FP8_NATIVE},
        {"gfx1201", "wq=fp8 a=bf16", PRODUCTS_DOT2, FP8_NATIVE},
        {"gfx1201", "wq=fp8fnuz a=fp8fnuz", PRODUCTS_DOT2, FP8_SOFTWARE},
        {"gfx942", "wq=fp8fnuz a=fp8fnuz", PRODUCTS_MATRIX, FP8_NATIVE},
        {"gfx942", "wq=fp8 a=fp8", PRODUCTS_MATRIX, FP8_HALVED},
        {"gfx950", "wq=fp8 a=fp8", PRODUCTS_MATRIX, FP8_NATIVE},
        {"gfx950", "wq=fp8 a=bf16", PRODUCTS_MATRIX, FP8_NATIVE},
        {"gfx90a", "wq=fp8 a=bf16", PRODUCTS_MATRIX, FP8_SOFTWARE},
        {"gfx942", "wq=fp8 a=f16", PRODUCTS_MATRIX, FP8_HALVED},
        {"gfx908", "wq=fp8 a=bf16", PRODUCTS_PLAIN, FP8_SOFTWARE},
        {"gfx1151", "wq=fp8 a=bf16", PRODUCTS_DOT2, FP8_SOFTWARE},
        {"gfx1100", "wq=fp8 a=fp8", PRODUCTS_DOT2, FP8_SOFTWARE},
    };
    char text[96];

    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        snprintf(text, sizeof text, "%s n=4096 k=4096", cases[i].words);
        const struct plan *const p = &plans_of(text, cases[i].target).plans[2];
        if (p->products != cases[i].products || p->skinny.fp8 != cases[i].fp8)
            fail_msg("%s on %s: products %d, fp8 %d", text, cases[i].target, (int)p->products,
                     (int)p->skinny.fp8);
        /* rows that are not aligned: one weight at a time */
        snprintf(text, sizeof text, "%s n=4096 k=4097", cases[i].words);
        const bool f32 = strstr(text, "a=f32");
        assert_true((plans_of(text, cases[i].target).plans[2].skinny.vector == 1) == !f32);
    }
}

/* ---- Arguments and explanation --------------------------------------------------------------- */

static void expect_args(const char *text, const enum plan_arg *want, size_t count)
{
    const struct plan_set set = plans_of(text, "gfx1151");
    enum plan_arg args[PLAN_ARG_COUNT];

    assert_int_equal(plan_args(&set.plans[0], args), count);
    assert_memory_equal(args, want, count * sizeof *want);
}

static void test_arguments(void **state)
{
    static const enum plan_arg none[] = {PLAN_ARG_A, PLAN_ARG_B,     PLAN_ARG_BIAS, PLAN_ARG_C,
                                         PLAN_ARG_M, PLAN_ARG_FIRST, PLAN_ARG_LDA,  PLAN_ARG_LDC},
                               fp8[] = {PLAN_ARG_A,       PLAN_ARG_B,   PLAN_ARG_A_SCALE,
                                        PLAN_ARG_B_SCALE, PLAN_ARG_C,   PLAN_ARG_M,
                                        PLAN_ARG_FIRST,   PLAN_ARG_LDA, PLAN_ARG_LDC},
                               mixed[] = {PLAN_ARG_A,   PLAN_ARG_B,  PLAN_ARG_B_SCALE,
                                          PLAN_ARG_C,   PLAN_ARG_M,  PLAN_ARG_FIRST,
                                          PLAN_ARG_LDA, PLAN_ARG_LDC};
    struct quern_problem p = QUERN_INIT(struct quern_problem);

    (void)state;
    expect_args("wq=none n=8 k=8 a=f16 bias=1", none, COUNT(none));
    expect_args("wq=fp8 n=8 k=8 a=fp8", fp8, COUNT(fp8));
    expect_args("wq=fp8 n=8 k=8 a=f16", mixed, COUNT(mixed));
    assert_int_equal(quern_problem_parse("wq=none n=8 k=9 a=f16", &p), QUERN_OK);
    assert_int_equal(plan_row_align(&p), 2);
    assert_int_equal(quern_problem_parse("wq=none n=8 k=10 a=f16", &p), QUERN_OK);
    assert_int_equal(plan_row_align(&p), 4);
    assert_int_equal(quern_problem_parse("wq=fp8 n=8 k=10 a=fp8", &p), QUERN_OK);
    assert_int_equal(plan_row_align(&p), 1);
}

/* Few long rows: waves of one workgroup share them, and wait little longer than for the first
 * bytes. A second launch that adds up parts of several workgroups would wait as long once more. */
static void test_few_rows(void **state)
{
    static const int ns[] = {1, 16, 64, 128}, ks[] = {4096, 14336, 28672};
    char text[96];

    (void)state;
    for (size_t t = 0; t < target_count(); t++)
        for (int i = 0; i < COUNT(ns) * COUNT(ks) && target_at(t)->vendor == VENDOR_AMD; i++) {
            snprintf(text, sizeof text, "wq=none n=%d k=%d a=bf16", ns[i % COUNT(ns)],
                     ks[i / COUNT(ns)]);
            const struct plan *const p = &plans_of(text, target_at(t)->name).plans[0];
            const double us = target_microseconds(p->target, (double)p->estimate.kernel_cycles);
            if (us > 3.5 * TARGET_LATENCY_NS / 1e3 &&
                p->estimate.kernel_cycles > p->estimate.memory_cycles)
                fail_msg("%s on %s: %.1f us", text, p->target->name, us);
        }
}

/* A kernel whose workgroups walk is launched as large as the device at hand, and knows its size. */
static void test_walks(void **state)
{
    const struct plan_set set = plans_of("wq=none n=151936 k=2560 a=bf16", "gfx1151");
    const struct plan *const p = &set.plans[0];
    enum plan_arg args[PLAN_ARG_COUNT];
    uint32_t grid[3], block[3];

    (void)state;
    assert_true(p->resident > 0);
    assert_int_equal(args[plan_args(p, args) - 1], PLAN_ARG_WORKGROUPS);
    plan_geometry(p, 1, 0, grid, block);
    assert_int_equal(plan_workgroups(p, grid), p->resident * 40); /* the part's compute units */
    plan_geometry(p, 1, 16, grid, block);
    assert_int_equal(plan_workgroups(p, grid), p->resident * 16);
    plan_geometry(p, 1, 100000, grid, block); /* never more than there are groups of rows */
    assert_in_range(plan_workgroups(p, grid), 1, 151936 / p->rows_per_workgroup + 1);
    /* what does not walk does not change */
    const struct plan_set other = plans_of("wq=none n=4096 k=4096 a=bf16", "gfx1151");
    assert_int_equal(other.plans[0].resident, 0);
    plan_geometry(&other.plans[0], 1, 16, grid, block);
    assert_true(plan_workgroups(&other.plans[0], grid) * other.plans[0].rows_per_workgroup >= 4096);
}

/* A is staged where compute units of great bandwidth would ask their caches for it too often. */
static void test_stages(void **state)
{
    static const char text[] = "wq=none n=4096 k=4096 a=f32";

    (void)state;
    assert_true(plans_of(text, "gfx942").plans[3].skinny.stage > 0);
    assert_int_equal(plans_of(text, "gfx942").plans[0].skinny.stage, 0);
    assert_int_equal(plans_of(text, "gfx1151").plans[3].skinny.stage, 0);
}

static void expect_explained(const char *text, const char *target, size_t which, const char *part)
{
    const struct plan_set set = plans_of(text, target);
    struct str out = {0};

    plan_explain(&set.plans[which], &out);
    if (!strstr(str_text(&out), part))
        fail_msg("%s on %s: explain does not say \"%s\"", text, target, part);
    str_free(&out);
}

static void test_explain(void **state)
{
    static const char dense[] = "wq=none n=4096 k=4096 a=bf16",
                      fp8[] = "wq=fp8 n=4096 k=4096 a=fp8";

    (void)state;
    expect_explained(dense, "gfx1151", 0,
                     "quern_none_bf16_n4096_k4096_m1: M = 1, family simt_skinny");
    expect_explained(dense, "gfx1151", 0, "that streams get: bound by memory");
    expect_explained(dense, "gfx1151", 0, "8192 bytes apart, a multiple of 512: waves start");
    expect_explained(dense, "gfx1151", 0, "loads of a row that are under way");
    expect_explained(dense, "gfx1151", 0, "  rejected   ");
    expect_explained(dense, "gfx950", 3, "of four rows of W with four of A");
    expect_explained("wq=none n=151936 k=2560 a=bf16", "gfx1151", 0, "each walks over");
    expect_explained("wq=none n=4096 k=4096 a=f32", "gfx942", 3, "bytes of LDS (a part of A)");
    expect_explained(fp8, "gfx950", 3, "of eight rows of W with eight of A");
    expect_explained(fp8, "gfx942", 3, "turned into FNUZ, which the processor knows");
    expect_explained(fp8, "gfx1100", 3, "not known to the processor; made f16");
    expect_explained("wq=fp8 n=4096 k=4096 a=bf16", "gfx1100", 3, "made f16 by shifts, then bf16");
    expect_explained("wq=fp8 n=4096 k=4096 a=bf16", "gfx950", 3, "processor, and made bf16");
    expect_explained(fp8, "gfx1201", 3, "four at a time, by dot products of 8-bit floats");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_fit), cmocka_unit_test(test_layers),
        cmocka_unit_test(test_budgets),    cmocka_unit_test(test_products),
        cmocka_unit_test(test_arguments),  cmocka_unit_test(test_explain),
        cmocka_unit_test(test_few_rows),   cmocka_unit_test(test_walks),
        cmocka_unit_test(test_stages),
    };

    return cmocka_run_group_tests_name("plan_skinny", tests, NULL, NULL);
}
