/* SPDX-License-Identifier: MIT */
/*
 * Plans: which problems are taken, that every row of A and of W is covered exactly once, that
 * shapes fit the target, and what explain says.
 *
 * This file is long because it has the choices and the counts of every family, beside the
 * measurements that they were fitted to.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <quern/tool.h>

#include "gen/gen.h"
#include "plan/args.h"
#include "plan/family.h"
#include "plan/plan.h"
#include "plan/ring.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define M_LIMIT 16384

static struct quern_problem problem_of(const char *text)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);

    if (quern_problem_parse(text, &p) != QUERN_OK)
        fail_msg("%s: %s", text, quern_last_error()->message);
    return p;
}

static void make(const char *text, const char *target, struct plan_set *set)
{
    const struct quern_problem p = problem_of(text);

    if (plan_make(&p, target_named(target), set) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
}

/* A small generator of its own, so that the cases are the same everywhere. */
static uint64_t seed;
static uint64_t below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % n;
}

static struct quern_problem random_problem(void)
{
    static const char *const types[] = {"f32", "f16", "bf16"};
    const uint64_t group = UINT64_C(32) << below(8);
    const uint64_t n = below(4) ? 1 + below(40000) : 1 + below(64);
    const bool mx = !below(4);
    char text[160];

    snprintf(text, sizeof text, "wq=%s n=%d k=%d group=%d a=%s c=%s bias=%d%s",
             mx         ? "mxfp4"
             : below(2) ? "nf4"
                        : "fp4",
             (int)n, (int)(group * (1 + below(16384 / group))), mx ? 32 : (int)group,
             types[below(3)], types[below(3)], (int)below(2),
             mx || below(2) ? "" : " scale=nested");
    return problem_of(text);
}

/* One of AMD's, whose families are tried here. */
static const struct target *random_target(void)
{
    size_t count = 0;

    while (count < target_count() && target_at(count)->vendor == VENDOR_AMD)
        count++;
    return target_at(below(count));
}

/* ---- Coverage -------------------------------------------------------------------------------- */

static void check_slices(const struct plan_set *set, int64_t m)
{
    struct plan_slice slices[2];
    const size_t count = plan_slices(set, m, slices);
    const struct plan *const largest = &set->plans[set->count - 1];
    const bool mixed = largest->family == &family_mma_tile && m > PLAN_MMA_M_MAX;
    int64_t next = 0;

    assert_in_range(count, 1, 2);
    for (size_t i = 0; i < count; i++) {
        const struct plan_slice *const s = &slices[i];
        assert_int_equal(s->first, next);
        assert_true(s->slices >= 1);
        const bool tile = s->plan->family == &family_mma_tile;
        assert_true(s->rows >= s->plan->m_lo || (mixed && tile));
        assert_true(!tile || m >= s->plan->m_lo);
        assert_true(s->rows <= s->plan->m_hi || s->plan == largest ||
                    (mixed && s->plan + 3 > largest));
        assert_int_equal(s->slices, (s->rows + s->plan->m_tile - 1) / s->plan->m_tile);
        assert_true(s->plan >= set->plans && s->plan < set->plans + set->count);
        next += s->rows;
    }
    assert_int_equal(next, m);
}

static void test_every_m_is_covered_once(void **state)
{
    struct plan_set set;

    (void)state;
    make("wq=nf4 n=4096 k=4096 a=bf16", "gfx1151", &set);
    for (int64_t m = 1; m <= M_LIMIT; m++)
        check_slices(&set, m);
    seed = 1;
    for (int i = 0; i < 200; i++) {
        const struct quern_problem p = random_problem();
        assert_int_equal(plan_make(&p, random_target(), &set), QUERN_OK);
        for (int64_t m = 1; m <= 2 * PLAN_M_MAX; m++)
            check_slices(&set, m);
        check_slices(&set, 1 + (int64_t)below(M_LIMIT));
    }
}

/* m_max 0: that of tiles, with as many rows as they have, or from which on they serve. */
static void check_order(const char *problem, const char *target, int m_max)
{
    struct plan_set set;

    make(problem, target, &set);
    assert_in_range(set.count, 1, PLAN_KERNELS_MAX);
    const struct plan *const largest = &set.plans[set.count - 1];
    assert_int_equal(largest->family == &family_mma_tile, m_max == 0);
    assert_true(set.m_max == (m_max                             ? m_max
                              : largest->m_lo > largest->m_tile ? largest->m_lo
                                                                : largest->m_tile));
    assert_int_equal(set.plans[0].m_lo, 1);
    assert_int_equal(set.plans[set.count - 1].m_hi, set.m_max);
    for (size_t i = 0; i < set.count; i++) {
        const struct plan *const p = &set.plans[i];
        assert_true(p->m_tile <= p->m_hi);
        assert_true(p->m_tile == p->m_hi || p + 2 >= largest);
        if (i)
            assert_int_equal(p->m_lo, set.plans[i - 1].m_hi + 1);
        for (int m = p->m_lo; m <= p->m_hi; m++)
            assert_ptr_equal(plan_for(&set, m), p);
        /* slices share the weights */
        assert_int_equal(p->weights_once, i + 1 < set.count && p->m_tile == p->m_hi);
    }
}

static void test_kernels_follow_each_other(void **state)
{
    (void)state;
    check_order("wq=nf4 n=384 k=384 a=f32", "gfx1100", PLAN_SIMT_M_MAX);
    check_order("wq=int4 n=384 k=384 a=f32", "gfx1100", PLAN_SIMT_M_MAX);
    check_order("wq=int4 n=384 k=384 a=f16", "gfx1100", 0);
    check_order("wq=int4 n=384 k=384 a=f16", "gfx1030", PLAN_SIMT_M_MAX);
    check_order("wq=int4 n=384 k=40 group=channel a=f16", "gfx942", PLAN_SIMT_M_MAX);
    check_order("wq=nf4 n=384 k=384 a=f16", "gfx1030", PLAN_SIMT_M_MAX);
    check_order("wq=nf4 n=384 k=384 a=f16", "gfx1100", 0);
    check_order("wq=mxfp4 n=4096 k=4096 a=bf16", "gfx942", 0);
    check_order("wq=nf4 n=19456 k=2560 a=bf16", "gfx950", 0);
}

/* Beyond 64 rows no family alone is modelled to take less than what is launched, and neither does
 * what is launched for more rows. */
static void test_least_time_is_chosen(void **state)
{
    static const char *const layers[] = {"wq=nf4 n=4096 k=4096",           "wq=nf4 n=1024 k=4096",
                                         "wq=nf4 n=512 k=28672",           "wq=nf4 n=19456 k=2560",
                                         "wq=int4 n=19456 k=2560 zero=u8", "wq=int4 n=2560 k=9728",
                                         "wq=mxfp4 n=5760 k=2880",         "wq=int4 n=1024 k=8192",
                                         "wq=nf4 n=57344 k=8192",          "wq=fp4 n=512 k=2880"};
    static const char *const parts[] = {"gfx1100", "gfx1151", "gfx1201",
                                        "gfx90a",  "gfx942",  "gfx950"};
    static const int rows[] = {65,  96,  128, 129, 192,  193,  255,  256,  257,
                               300, 384, 512, 513, 1000, 1024, 2048, 3968, 16384};

    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (size_t t = 0; t < sizeof parts / sizeof *parts; t++) {
            struct plan_set set;
            char text[80];
            snprintf(text, sizeof text, "%s a=%s", layers[i], t % 2 ? "f16" : "bf16");
            make(text, parts[t], &set);
            int64_t before = 0;
            for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
                struct plan_slice slices[2];
                struct plan_cost cost;
                const size_t count = plan_slices(&set, rows[j], slices);
                const int64_t cycles = plan_slices_cycles(slices, count);
                const double us = (double)cycles / (set.plans[0].target->clock_ghz * 1e3);
                for (int units = PLAN_UNITS_VECTOR; units <= PLAN_UNITS_TILES; units++)
                    if (plan_cost_of(&set, (enum plan_units)units, rows[j], &cost) &&
                        us > cost.us * (1 + 1e-9))
                        fail_msg("%s on %s, M = %d: %g us, by units %d alone %g", text, parts[t],
                                 rows[j], us, units, cost.us);
                if (cycles < before)
                    fail_msg("%s on %s: M = %d takes less than fewer rows", text, parts[t],
                             rows[j]);
                before = cycles;
            }
        }
}

/* On CDNA matrix kernels of more than 16 rows count what their loads cost the way to the cache:
 * with 16 weights to a load, four lanes' pieces of A fill a line, with 32 they touch two of every
 * row. With up to 16 rows, on RDNA, whose way is not known, and where that would take more
 * instructions than a kernel may, it does not count. */
static void test_whole_lines_of_a(void **state)
{
    static const struct {
        const char *target;
        int m, chunk; /* weights of a load; 0: any */
    } cases[] = {{"gfx90a", 16, 32}, {"gfx90a", 32, 32}, {"gfx90a", 64, 16}, {"gfx942", 16, 32},
                 {"gfx942", 32, 32}, {"gfx942", 64, 16}, {"gfx950", 16, 32}, {"gfx950", 32, 16},
                 {"gfx950", 64, 16}, {"gfx1201", 64, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_set set;
        make("wq=int4 n=4096 k=4096 a=bf16", cases[i].target, &set);
        const struct plan *const p = plan_for(&set, cases[i].m);
        assert_ptr_equal(p->family, &family_mma_int4);
        assert_int_equal(p->estimate.vmem_cycles > 0, cases[i].chunk == 16);
        if (cases[i].chunk)
            assert_int_equal(p->matrix.chunk, cases[i].chunk);
    }
}

/* Of a covered set a launch looks up what the model said: the same launches, up to what rows of one
 * cell differ in, though the estimates are gone. */
static void test_launches_ask_no_model(void **state)
{
    static const char *const layers[] = {"wq=int4 n=8192 k=28672 a=f16",
                                         "wq=nf4 n=4096 k=4096 a=bf16",
                                         "wq=nf4 n=8192 k=28672 a=f16"};
    static const char *const parts[] = {"gfx950", "gfx1151", "gfx942"};

    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        struct plan_slice modelled[2], slices[2];
        struct plan_set set, bare;
        int differ = 0;
        make(layers[i], parts[i], &set);
        assert_true(set.plans[set.count - 1].family == &family_mma_tile);
        bare = set;
        plan_cover(&bare);
        assert_true(bare.covered);
        for (size_t j = 0; j < bare.count; j++) {
            bare.plans[j].estimate = (struct plan_estimate){0};
            if (bare.plans[j].family == &family_mma_tile)
                bare.plans[j].tile = (struct mma_tile_shape){0};
        }
        for (int m = 1; m <= PLAN_COVER_ROWS; m++) {
            const size_t count = plan_slices(&bare, m, slices);
            const size_t expected = plan_slices(&set, m, modelled);
            for (size_t k = 0; k < count; k++) {
                slices[k].plan = set.plans + (slices[k].plan - bare.plans);
                differ += count != expected || slices[k].plan != modelled[k].plan;
            }
            const int64_t cycles = plan_slices_cycles(slices, count);
            const int64_t least = plan_slices_cycles(modelled, expected);
            if (cycles > least + least / 100)
                fail_msg("%s: M = %d takes %lld cycles, not %lld", layers[i], m, (long long)cycles,
                         (long long)least);
        }
        assert_in_range(differ, 0, PLAN_COVER_ROWS / 100);
        for (int64_t m = PLAN_COVER_ROWS + 1; m < 3 * PLAN_COVER_ROWS; m += 97)
            check_slices(&bare, m);
    }
}

/* A finer tile goes in front of the largest where that fills too little of a part, and only as far
 * as there is room for kernels. */
static void test_finer_tiles(void **state)
{
    struct plan_slice slices[2];
    struct plan_set set;

    (void)state;
    make("wq=int4 n=8192 k=28672 a=f16", "gfx950", &set);
    const struct plan *const large = &set.plans[set.count - 1], *const fine = large - 1;
    assert_true(large->family == &family_mma_tile && fine->family == &family_mma_tile);
    assert_true(large->m_tile == 256 && fine->m_tile == 128 && fine->m_hi + 1 == large->m_lo);
    assert_int_equal(plan_slices(&set, 512, slices), 1);
    assert_ptr_equal(slices[0].plan, fine);
    assert_int_equal(plan_slices(&set, 8192, slices), 1);
    assert_ptr_equal(slices[0].plan, large);
    make("wq=nf4 n=8192 k=28672 a=f16", "gfx1151", &set);
    assert_int_equal(set.count, PLAN_KERNELS_MAX - 1); /* the last is for half a tile */
    assert_ptr_not_equal(set.plans[set.count - 2].family, &family_mma_tile);
}

/* Matrix units take over where they are modelled to be faster, and never from one row of A. */
static void test_matrix_units(void **state)
{
    static const struct {
        const char *target, *type;
        int first; /* M from which on NF4 of N = K = 4096 is on matrix units; 0: never */
        enum plan_products products;
    } cases[] = {
        {"gfx90a", "f16", 2, PRODUCTS_MFMA16},
        {"gfx942", "bf16", 2, PRODUCTS_MFMA16},
        {"gfx950", "bf16", 2, PRODUCTS_MFMA32},
        {"gfx1100", "f16", 9, PRODUCTS_WMMA11},
        {"gfx1151", "bf16", 9, PRODUCTS_WMMA11},
        {"gfx1200", "f16", 5, PRODUCTS_WMMA12},
        {"gfx1201", "bf16", 5, PRODUCTS_WMMA12},
        {"gfx906", "f16", 0, 0},
        {"gfx908", "f16", 0, 0},
        {"gfx1030", "f16", 0, 0},
        {"gfx1201", "f32", 0, 0},
        {"gfx942", "f32", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_set set;
        char text[64];
        int first = 0;
        snprintf(text, sizeof text, "wq=nf4 n=4096 k=4096 a=%s", cases[i].type);
        make(text, cases[i].target, &set);
        assert_ptr_equal(set.plans[0].family, &family_simt_w4);
        assert_int_equal(set.plans[0].m_hi, 1);
        for (size_t j = 0; j < set.count; j++) {
            const struct plan *const p = &set.plans[j];
            if (p->family == &family_mma_tile) {
                assert_true(first && j + 2 >= set.count);
                continue;
            }
            if (p->family != &family_mma_w4) {
                assert_false(first);
                continue;
            }
            first = first ? first : p->m_lo;
            assert_int_equal(p->products, cases[i].products);
        }
        if (first != cases[i].first)
            fail_msg("%s %s: matrix units from M = %d, not %d", cases[i].target, cases[i].type,
                     first, cases[i].first);
    }
}

/* int4 likewise: matrix instructions of 4x4 serve four rows on gfx9, where that takes no longer
 * eight. */
static void test_matrix_units_int4(void **state)
{
    static const struct {
        const char *target, *type;
        int first;
    } cases[] = {{"gfx1151", "f16", 9}, {"gfx1201", "bf16", 5}, {"gfx942", "f16", 9},
                 {"gfx942", "bf16", 5}, {"gfx90a", "bf16", 5},  {"gfx950", "bf16", 5},
                 {"gfx1030", "f16", 0}, {"gfx942", "f32", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_set set;
        char text[64];
        int first = 0;
        snprintf(text, sizeof text, "wq=int4 n=4096 k=4096 a=%s zero=u8", cases[i].type);
        make(text, cases[i].target, &set);
        for (size_t j = set.count; j--;)
            if (set.plans[j].family == &family_mma_int4)
                first = set.plans[j].m_lo;
        if (first != cases[i].first)
            fail_msg("%s %s: matrix units from M = %d, not %d", cases[i].target, cases[i].type,
                     first, cases[i].first);
    }
}

static void check_same(const struct plan *p, const struct plan *q)
{
    struct str a = {0}, b = {0};

    assert_int_equal(gen_outline(p, &a), QUERN_OK);
    assert_int_equal(gen_outline(q, &b), QUERN_OK);
    assert_string_equal(str_text(&a), str_text(&b));
    assert_true(p->m_lo == q->m_lo && p->m_hi == q->m_hi && p->slices_max == q->slices_max);
    assert_true(p->estimate.kernel_cycles == q->estimate.kernel_cycles);
    str_free(&a);
    str_free(&b);
}

/* Kernels that are chosen for some rows only are those of the whole set, as many as it takes. */
static void test_no_more_than_asked_for(void **state)
{
    static const char *const texts[] = {
        "wq=nf4 n=4096 k=4096 a=bf16", "wq=fp4 n=200 k=416 group=32 a=f32",
        "wq=int4 n=11008 k=4096 a=f16 zero=u8", "wq=none n=4096 k=4096 a=f16"};
    static const int64_t rows[] = {1, 8, 9, 16, 17, 32, 33, 64, 65, 128, 4096, INT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t t = 0; t < target_count(); t++) {
            const struct quern_problem p = problem_of(texts[i]);
            struct plan_set all, set;
            if (plan_make(&p, target_at(t), &all) != QUERN_OK)
                continue;
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                assert_int_equal(plan_make_up_to(&p, target_at(t), NULL, NULL, rows[r], &set),
                                 QUERN_OK);
                assert_true(set.count <= all.count);
                for (size_t j = 0; j < set.count; j++)
                    check_same(&set.plans[j], &all.plans[j]);
                const int last = set.plans[set.count - 1].m_hi;
                assert_true(last >= rows[r] || set.count == all.count);
                assert_int_equal(set.m_max, set.count == all.count ? all.m_max : INT_MAX);
                if (all.plans[all.count - 1].family == &family_mma_tile && rows[r] <= 32)
                    assert_true(set.count < all.count);
            }
        }
}

/* What is forced is so in every kernel, and declined where no kernel can be. */
static void test_force(void **state)
{
    static const char *const groups[] = {"32", "128", "channel"};
    struct plan_force force;
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    struct plan_set set;
    char text[96];

    (void)state;
    assert_int_equal(plan_force_parse(NULL, &force), QUERN_OK);
    assert_int_equal(force.predequant, SWITCH_FREE);
    assert_int_equal(plan_force_parse("predequant=1", &force), QUERN_E_ARGUMENT);
    assert_int_equal(plan_force_parse("", &force), QUERN_OK);
    for (int i = 0; i < 3; i++)
        for (size_t t = 0; t < target_count(); t++)
            for (int on = 0; on < 2 && target_simulated(target_at(t)); on++) {
                snprintf(text, sizeof text, "wq=int4 n=200 k=1152 group=%s a=%s", groups[i],
                         t % 2 ? "f16" : "bf16");
                assert_int_equal(plan_force_parse(on ? "predequant=on" : "predequant=off", &force),
                                 QUERN_OK);
                p = problem_of(text);
                assert_int_equal(plan_make_tuned(&p, target_at(t), NULL, &force, &set), QUERN_OK);
                assert_int_equal(set.plans[0].m_lo, 1);
                for (size_t j = 0; j < set.count; j++) /* mma_tile decodes into LDS always */
                    assert_int_equal(set.plans[j].family == &family_mma_tile ||
                                         set.plans[j].matrix.staging == STAGING_WEIGHTS,
                                     on);
            }
    assert_int_equal(plan_force_parse("predequant=on", &force), QUERN_OK);
    p = problem_of("wq=int4 n=200 k=1152 a=f16");
    assert_int_equal(plan_make_tuned(&p, target_named("gfx1030"), NULL, &force, &set),
                     QUERN_E_DECLINED);
    assert_non_null(strstr(quern_last_error()->message, "predequant=on is forced"));
    p = problem_of("wq=nf4 n=200 k=1152 a=f16");
    assert_int_equal(plan_make_tuned(&p, target_named("gfx942"), NULL, &force, &set),
                     QUERN_E_DECLINED);
}

/* With round=trunc no weights are cut to bf16 besides the result: codes are multiplied, through LDS
 * where that is forced. f16 has nothing to cut. */
static void test_only_results_are_cut(void **state)
{
    struct plan_force force;
    struct plan_set set;
    int scaled = 0;

    (void)state;
    for (size_t t = 0; t < target_count(); t++)
        for (int i = 0; i < 8 && target_simulated(target_at(t)); i++) {
            const bool f16 = i & 1, forced = i & 2;
            const struct quern_problem p =
                problem_of(i & 4 ? f16 ? "wq=int4 n=4096 k=4096 group=32 a=f16 round=trunc"
                                       : "wq=int4 n=4096 k=4096 group=32 a=bf16 round=trunc"
                           : f16 ? "wq=int4 n=200 k=1152 a=f16 zero=u8 round=trunc"
                                 : "wq=int4 n=200 k=1152 a=bf16 zero=u8 round=trunc");
            assert_int_equal(plan_force_parse(forced ? "predequant=on" : "", &force), QUERN_OK);
            assert_int_equal(plan_make_tuned(&p, target_at(t), NULL, &force, &set), QUERN_OK);
            for (size_t j = 0; j < set.count; j++) {
                if (set.plans[j].family != &family_mma_int4)
                    continue;
                const enum plan_staging way = set.plans[j].matrix.staging;
                scaled += way == STAGING_WEIGHTS || way == STAGING_SCALED;
                if (!f16)
                    assert_true(way == STAGING_CODES || (way == STAGING_NONE && !forced));
            }
        }
    assert_true(scaled > 0);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Steps along K that waves of families on matrix units are dealt: they divide K and agree with its
 * blocks. */
static void check_tiles(const struct plan *p)
{
    const bool staged = p->matrix.staging == STAGING_CODES || p->matrix.staging == STAGING_WEIGHTS;
    const bool gfx9 = p->wave_size == 64, own = p->products == PRODUCTS_WMMA11 && !staged;
    const bool halves = p->m_tile == 8; /* of the wave, with half of a step each */
    const int64_t unit = p->matrix.chunk * (gfx9            ? 4
                                            : own || halves ? 1
                                                            : 2),
                  part = unit * p->matrix.units;
    const int64_t step = halves ? 2 * part : part, group = problem_group(&p->problem);

    assert_true((p->m_tile % 16 == 0 || halves) && p->matrix.rows % 16 == 0);
    assert_true(!halves || (p->products == PRODUCTS_WMMA12 && p->matrix.staging == STAGING_NONE));
    assert_true(p->problem.k % step == 0);
    if (p->matrix.staging >= STAGING_WEIGHTS) { /* each lane's weights have one scale */
        assert_true(group % p->matrix.chunk == 0);
    } else {
        assert_true(group % unit == 0 && (part % group == 0 || group % part == 0));
    }
    assert_int_equal(p->waves % p->matrix.split_k, 0);
    assert_true(p->matrix.split_k <= p->problem.k / step);
    assert_true(p->phase != PHASE_OF_WAVES);
    /* sums of waves take the place of the table or of staged weights, 1 KiB each at a time */
    assert_true((uint32_t)p->waves * 1024 <= p->lds_bytes);
    if (staged &&
        !p->matrix.code_offset) { /* rows of a unit lie 16 bytes further apart than they are long */
        const uint32_t table = p->family == &family_mma_w4 ? 32768 : 0;
        const uint32_t wave = (uint32_t)(p->matrix.rows * (unit * 2 + 16));
        const uint32_t least = p->family == &family_mma_w4 || wave > 1024 ? wave : 1024;
        assert_int_equal(p->lds_bytes, table + (uint32_t)p->waves * least);
    }
}

/* Work-items of family mma_tile share the pieces of a step evenly, and two stages are in LDS. */
static void check_shared(const struct plan *p)
{
    const int items = p->waves * (int)p->wave_size, pieces = p->tile.step / 8;
    const int n_tile = (int)p->rows_per_workgroup;

    assert_int_equal(p->waves % p->tile.m_waves, 0);
    assert_int_equal(p->m_tile % (p->tile.m_waves * 16), 0);
    assert_int_equal(p->problem.k % p->tile.step, 0);
    assert_true(p->m_tile * pieces % items == 0 && n_tile * pieces % items == 0);
    assert_int_equal(p->lds_bytes, 2 * (p->m_tile + n_tile) * p->tile.step * 2);
    assert_true(!p->phase && !p->skewed);
}

static void check_simt(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t k_of_step = (int64_t)p->wave_size * p->simt_w4.chunk;

    assert_int_equal(p->waves % p->simt_w4.split_k, 0);
    assert_true(p->simt_w4.split_k <= (q->k + k_of_step - 1) / k_of_step);
    assert_true(problem_group(q) % p->simt_w4.chunk == 0);
    if (p->simt_w4.tail) { /* shorter than the other steps, after at least one, and long enough */
        const int64_t rest = q->k % k_of_step;
        assert_true(problem_group(q) % p->simt_w4.tail == 0 && p->simt_w4.tail < p->simt_w4.chunk);
        assert_true(q->k > k_of_step && p->simt_w4.split_k <= q->k / k_of_step);
        assert_true(rest > 0 && rest <= (int64_t)p->wave_size * p->simt_w4.tail);
    }
    assert_in_range(p->simt_w4.rows * p->m_tile, 1, 32);
}

static void check_shape(const struct plan *p)
{
    const struct quern_problem *const q = &p->problem;
    const int64_t rows = p->rows_per_workgroup;
    const struct target *const t = p->target;
    uint32_t grid[3], block[3];

    plan_geometry(p, 3, 0, grid, block);
    const int64_t groups = (int64_t)grid[p->slices_first] - p->skewed;
    assert_true(groups * rows >= q->n && (groups - 1) * rows < q->n);
    assert_int_equal(grid[!p->slices_first], 3);
    assert_true(grid[1] <= 65535);
    if (t->camps && p->family != &family_mma_tile)
        assert_true(groups < 512 || (groups + p->skewed) % 256);
    else
        assert_false(p->skewed);
    assert_int_equal(grid[2], 1);
    assert_int_equal(block[0], p->waves * (int)p->wave_size);
    assert_in_range(block[0], p->wave_size, 1024);
    assert_true(block[1] == 1 && block[2] == 1);
    assert_true((uint64_t)groups * block[0] <= UINT32_MAX);

    if (p->family == &family_mma_w4 || p->family == &family_mma_int4)
        check_tiles(p);
    else if (p->family == &family_mma_tile)
        check_shared(p);
    else if (p->family == &family_simt_int4)
        assert_int_equal(p->waves % p->simt_int4.split_k, 0);
    else
        check_simt(p);
    assert_true(p->lds_bytes <= t->lds_bytes);
    assert_int_equal(p->wave_size, t->wave_size);
    /* the whole workgroup fits in a compute unit */
    const unsigned fit =
        target_waves_per_simd(t, p->estimate.vgprs, 0, p->wave_size, (unsigned)p->waves);
    assert_true((int)(fit * t->simds) >= p->waves);
    assert_true(strlen(p->symbol) < sizeof p->symbol - 1);
}

static void test_shapes_fit(void **state)
{
    struct plan_set set;

    (void)state;
    seed = 2;
    for (int i = 0; i < 300; i++) {
        const struct quern_problem p = random_problem();
        assert_int_equal(plan_make(&p, random_target(), &set), QUERN_OK);
        for (size_t j = 0; j < set.count; j++)
            check_shape(&set.plans[j]);
    }
    for (int i = 0; i < 150; i++) {
        static const char *const words[] = {"zero=u8", "zero=scaled layout=exl",
                                            "layout=ck scale=f32"};
        const int64_t group = INT64_C(32) << below(3);
        char text[128];
        snprintf(text, sizeof text, "wq=int4 n=%d k=%d group=%d a=%s %s", (int)(1 + below(40000)),
                 (int)(group * (int64_t)(1 + below(16384 / (uint64_t)group))), (int)group,
                 below(2) ? "f16" : "bf16", words[below(3)]);
        const struct quern_problem p = problem_of(text);
        if (plan_make(&p, random_target(), &set) == QUERN_OK) /* gfx900 has no dot product */
            for (size_t j = 0; j < set.count; j++)
                check_shape(&set.plans[j]);
    }
    make("wq=nf4 n=134217728 k=32 group=32 a=f32", "gfx1151", &set);
    check_shape(&set.plans[0]);
    make("wq=nf4 n=1 k=134217728 a=f32", "gfx1151", &set);
    check_shape(&set.plans[3]);
}

/* Grids of 512 workgroups: one more where such grids meet in few memory channels, and no more on
 * CDNA, of which nothing of the kind is known. */
static void test_camping_grids(void **state)
{
    static const struct {
        const char *target, *problem;
    } cases[] = {{"gfx1201", "wq=nf4 n=32768 k=2048 a=f32"},
                 {"gfx90a", "wq=nf4 n=8192 k=4096 a=bf16"}};
    struct plan_set set;

    (void)state;
    for (int i = 0; i < 2; i++) {
        uint32_t grid[3], block[3];
        make(cases[i].problem, cases[i].target, &set);
        const struct plan *const p = &set.plans[0];
        plan_geometry(p, 1, 0, grid, block);
        assert_int_equal(p->estimate.workgroups, 512);
        assert_int_equal(p->skewed, p->target->camps);
        assert_int_equal(grid[p->slices_first], 512 + p->target->camps);
        check_shape(p);
    }
}

static bool same_plan(const struct plan *p, const struct plan *q)
{
    char shapes[2][PLAN_SHAPE_MAX];

    plan_shape(p, shapes[0]);
    plan_shape(q, shapes[1]);
    return problem_equal(&p->problem, &q->problem) && p->target == q->target &&
           p->family == q->family && !strcmp(p->symbol, q->symbol) && p->m_lo == q->m_lo &&
           p->m_hi == q->m_hi && p->m_tile == q->m_tile && p->wave_size == q->wave_size &&
           !strcmp(shapes[0], shapes[1]) && p->weights_once == q->weights_once &&
           p->phase == q->phase && p->skewed == q->skewed && p->slices_first == q->slices_first &&
           p->lds_bytes == q->lds_bytes && p->waves_asked == q->waves_asked;
}

static void test_same_words_same_plan(void **state)
{
    struct plan_set first, second;

    (void)state;
    seed = 3;
    for (int i = 0; i < 50; i++) {
        const struct quern_problem p = random_problem();
        const struct target *const t = random_target();
        assert_int_equal(plan_make(&p, t, &first), QUERN_OK);
        memset(&second, 0xa5, sizeof second);
        assert_int_equal(plan_make(&p, t, &second), QUERN_OK);
        assert_int_equal(first.count, second.count);
        for (size_t j = 0; j < first.count; j++)
            assert_true(same_plan(&first.plans[j], &second.plans[j]));
    }
}

/* The square layer by which the family is judged: few instructions, and a grid that fills the part.
 */
static void test_budgets(void **state)
{
    static const struct {
        const char *target, *type;
        double slots[4]; /* M = 1, 2, 4, 8; modelled, per weight */
    } budgets[] = {
        {"gfx1151", "f16", {1.8, 2.2, 3.0, 4.5}},  {"gfx1151", "bf16", {1.8, 2.2, 3.0, 4.5}},
        {"gfx1100", "f16", {1.8, 2.2, 3.0, 4.5}},  {"gfx1100", "bf16", {1.8, 2.2, 3.0, 4.5}},
        {"gfx1201", "bf16", {1.8, 2.2, 3.0, 4.5}}, {"gfx1151", "f32", {2.2, 3.0, 4.5, 7.6}},
        {"gfx90a", "f16", {2.7, 3.2, 4.6, 7.4}},   {"gfx90a", "bf16", {2.7, 3.2, 4.6, 7.4}},
        {"gfx942", "f16", {2.7, 3.4, 4.6, 7.4}},   {"gfx942", "bf16", {2.7, 3.4, 4.6, 7.4}},
        {"gfx950", "f16", {2.7, 3.2, 4.6, 7.4}},   {"gfx950", "bf16", {2.7, 3.2, 4.6, 7.4}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        struct plan_set set;
        char text[64];
        snprintf(text, sizeof text, "wq=nf4 n=4096 k=4096 a=%s", budgets[i].type);
        make(text, budgets[i].target, &set);
        for (int j = 0; j < 4; j++) {
            const struct plan *const p = plan_for(&set, 1 << j);
            const int busy = p->family == &family_mma_w4 ? 80 : 85;
            const double slots = (double)p->estimate.slots * p->wave_size / (4096.0 * 4096.0);
            if (slots > budgets[i].slots[j])
                fail_msg("%s on %s: %.2f slots per weight, budget %.2f", p->symbol, p->target->name,
                         slots, budgets[i].slots[j]);
            assert_true((int)p->estimate.busy_percent >= busy);
        }
    }
}

/* Up to eight rows of A are multiplied by CDNA's 4x4 matrix products, whose lanes have one group's
 * weights in a step: groups of 32 take few more instructions than groups of 128, whose lanes have
 * more of them, and where those leave more rows to other matrix units only as many as is said. */
static void test_groups_of_32(void **state)
{
    static const struct {
        const char *target, *type;
        double most[4], eight; /* of 1 << j rows, in slots; and how many times those of 128 */
    } cases[] = {{"gfx942", "f16", {1.8, 1.8, 1.8, 2.5}, 1.04},
                 {"gfx942", "bf16", {1.9, 1.9, 1.9, 2.6}, 1.08},
                 {"gfx90a", "f16", {1.8, 1.8, 1.8, 2.6}, 1.01},
                 {"gfx90a", "bf16", {1.9, 1.9, 1.9, 2.6}, 1.01},
                 {"gfx950", "f16", {1.8, 1.8, 1.8, 2.5}, 1.08},
                 {"gfx950", "bf16", {1.9, 1.9, 1.9, 2.6}, 1.2}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int j = 0; j < 4; j++) {
            double slots[2];
            for (int large = 0; large < 2; large++) {
                struct plan_set set;
                char text[64];
                snprintf(text, sizeof text, "wq=int4 n=4096 k=4096 group=%d a=%s", large ? 128 : 32,
                         cases[i].type);
                make(text, cases[i].target, &set);
                const struct plan *const p = plan_for(&set, 1 << j);
                slots[large] = (double)p->estimate.slots * p->wave_size / (4096.0 * 4096.0);
            }
            if (slots[0] > cases[i].most[j] ||
                slots[0] > slots[1] * (j < 3 ? 1.05 : cases[i].eight))
                fail_msg("%s %s, %d rows: %.2f slots per weight with groups of 32, %.2f with 128",
                         cases[i].target, cases[i].type, 1 << j, slots[0], slots[1]);
        }
}

/* Small groups have a kernel on gfx12's matrix units for half a tile of rows of A, beside that for
 * a tile, and lose none of the others for it; large groups, and weights that are forced through
 * LDS, have none. */
static void test_halves_of_tiles(void **state)
{
    static const struct {
        const char *problem;
        enum plan_switch predequant;
        bool halves;
    } cases[] = {{"wq=int4 n=4096 k=4096 group=32 a=f16", SWITCH_FREE, true},
                 {"wq=int4 n=4096 k=4096 group=32 a=bf16 zero=u8", SWITCH_FREE, true},
                 {"wq=int4 n=24576 k=4096 group=32 a=f16 zero=u8", SWITCH_FREE, true},
                 {"wq=int4 n=4096 k=4096 group=32 a=f16", SWITCH_ON, false},
                 {"wq=int4 n=4096 k=4096 group=128 a=f16", SWITCH_FREE, false},
                 {"wq=nf4 n=4096 k=4096 group=32 a=f16", SWITCH_FREE, false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct quern_problem p = problem_of(cases[i].problem);
        const struct plan_force force = {cases[i].predequant};
        struct plan_set set;
        int tiles = 0;
        assert_int_equal(plan_make_tuned(&p, target_named("gfx1201"), NULL, &force, &set),
                         QUERN_OK);
        const struct plan *const eight = plan_for(&set, 8), *const nine = plan_for(&set, 9);
        const bool halves = eight->family == &family_mma_int4 && eight->m_tile == 8;
        if (halves != cases[i].halves)
            fail_msg("%s: eight rows by %s", cases[i].problem, eight->symbol);
        assert_true(nine->m_tile == 16 && nine->family != &family_simt_int4);
        assert_true(!halves || eight->estimate.slots * 8 <= nine->estimate.slots * 7);
        for (size_t j = 0; j < set.count; j++)
            tiles += set.plans[j].family == &family_mma_tile;
        assert_int_equal(tiles, p.n == 4096 ? 2 : 1);
    }
}

static void test_small_layers_fill_the_part(void **state)
{
    static const char *const layers[] = {"wq=nf4 n=384 k=384 a=f32", "wq=nf4 n=1536 k=384 a=f32",
                                         "wq=nf4 n=384 k=1536 a=f32",
                                         "wq=nf4 n=1024 k=2560 a=bf16"};

    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        struct plan_set set;
        make(layers[i], "gfx1151", &set);
        for (size_t j = 0; j < set.count; j++)
            assert_true(set.plans[j].estimate.busy_percent >=
                        (set.plans[j].family == &family_mma_w4 ? 80 : 85));
    }
}

/* What whole steps leave of K is a shorter step, if it can be. */
static void test_tails(void **state)
{
    static const struct {
        int k, tail;
        bool ahead;
    } cases[] = {
        {2560, 16, true},                    /* two steps of 1024 and a half */
        {4352, 8, false},                    /* four and a quarter */
        {4384, 16, false},                   /* a tail that some lanes have nothing of */
        {4096, 0, false},  {2880, 0, false}, /* nothing left; too much left */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str text = {0};
        struct plan_set set;
        char problem[64];
        snprintf(problem, sizeof problem, "wq=nf4 n=6144 k=%d group=32 a=bf16", cases[i].k);
        make(problem, "gfx1151", &set);
        const struct plan *const p = &set.plans[0];
        assert_int_equal(p->simt_w4.chunk, 32);
        assert_int_equal(p->simt_w4.tail, cases[i].tail);
        assert_int_equal(p->simt_w4.ahead, cases[i].ahead);
        plan_explain(p, &text);
        assert_int_equal(strstr(str_text(&text), "  tail  ") != NULL, p->simt_w4.tail > 0);
        str_free(&text);
    }
}

static void test_camping(void **state)
{
    struct plan_set set;
    struct str text = {0};

    (void)state;
    /* rows of 2048 bytes; A of one row is cached, that of eight is not */
    make("wq=nf4 n=4096 k=4096 a=bf16", "gfx1151", &set);
    assert_int_equal(set.plans[0].phase, PHASE_OF_WAVES);
    assert_int_equal(set.plans[3].phase, PHASE_OF_GROUPS);
    plan_explain(&set.plans[0], &text);
    assert_non_null(strstr(str_text(&text), "2048 bytes apart, a multiple of 512: waves start"));
    str_free(&text);
    /* rows of 1280 bytes; rows of one step */
    make("wq=nf4 n=4096 k=2560 a=bf16", "gfx1151", &set);
    assert_int_equal(set.plans[0].phase, PHASE_NONE);
    make("wq=nf4 n=4096 k=1024 a=bf16", "gfx1151", &set);
    assert_int_equal(set.plans[0].phase, PHASE_NONE);
    plan_explain(&set.plans[0], &text);
    assert_null(strstr(str_text(&text), "camping"));
    str_free(&text);
}

/* Every target multiplies with the best that it has. */
static void test_products(void **state)
{
    static const struct {
        const char *target;
        enum plan_products f32, f16, bf16;
    } cases[] = {
        {"gfx906", PRODUCTS_PLAIN, PRODUCTS_DOT2, PRODUCTS_PLAIN},
        {"gfx908", PRODUCTS_PLAIN, PRODUCTS_DOT2, PRODUCTS_PLAIN},
        {"gfx90a", PRODUCTS_PACKED, PRODUCTS_MATRIX, PRODUCTS_MATRIX},
        {"gfx942", PRODUCTS_PACKED, PRODUCTS_MATRIX, PRODUCTS_MATRIX},
        {"gfx950", PRODUCTS_PACKED, PRODUCTS_MATRIX, PRODUCTS_MATRIX},
        {"gfx1030", PRODUCTS_PLAIN, PRODUCTS_DOT2, PRODUCTS_PLAIN},
        {"gfx1151", PRODUCTS_PLAIN, PRODUCTS_DOT2, PRODUCTS_DOT2},
        {"gfx1201", PRODUCTS_PLAIN, PRODUCTS_DOT2, PRODUCTS_DOT2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_set set;
        make("wq=nf4 n=512 k=512 a=f32", cases[i].target, &set);
        assert_int_equal(set.plans[0].products, cases[i].f32);
        make("wq=nf4 n=512 k=512 a=f16", cases[i].target, &set);
        assert_int_equal(set.plans[0].products, cases[i].f16);
        make("wq=nf4 n=512 k=512 a=bf16", cases[i].target, &set);
        assert_int_equal(set.plans[0].products, cases[i].bf16);
    }
}

/* One kernel and one launch for every M, on every target; its grid covers every weight once. */
static void test_dequant(void **state)
{
    static const enum plan_arg plain[] = {PLAN_ARG_B, PLAN_ARG_SCALES, PLAN_ARG_C};
    static const enum plan_arg nested[] = {PLAN_ARG_B,    PLAN_ARG_SCALES, PLAN_ARG_ABSMAX8,
                                           PLAN_ARG_CODE, PLAN_ARG_OFFSET, PLAN_ARG_C};
    static const char *const problems[] = {
        "op=dequant wq=nf4 n=4096 k=4096 c=f16", "op=dequant wq=fp4 n=1 k=32 group=32 c=f32",
        "op=dequant wq=mxfp4 n=77 k=96 c=bf16", "op=dequant wq=nf4 n=262144 k=524224 c=f16"};

    (void)state;
    for (size_t t = 0; t < target_count(); t++)
        for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
            enum plan_arg args[PLAN_ARG_COUNT];
            struct plan_slice slices[2];
            struct plan_set set;
            uint32_t grid[3], block[3];

            if (target_at(t)->vendor != VENDOR_AMD)
                continue;
            make(problems[i], target_at(t)->name, &set);
            const struct plan *const p = &set.plans[0];
            assert_int_equal(set.count, 1);
            assert_int_equal(plan_slices(&set, 1000, slices), 1);
            assert_int_equal(slices[0].slices, 1);
            plan_geometry(p, 1, 0, grid, block);
            const int64_t each = (int64_t)block[0] * p->dequant.chunk * p->dequant.chunks;
            const int64_t weights = p->problem.n * p->problem.k;
            assert_true(each * grid[0] >= weights && each * (grid[0] - 1) < weights);
            assert_true((uint64_t)grid[0] * block[0] <= UINT32_MAX);
            assert_int_equal(each % 4096, 0);
            assert_int_equal(plan_args(p, args), 3);
            assert_memory_equal(args, plain, sizeof plain);
        }
    struct plan_set set;
    enum plan_arg args[PLAN_ARG_COUNT];
    struct str text = {0};
    make("op=dequant wq=nf4 n=4096 k=4096 c=f16 scale=nested", "gfx942", &set);
    assert_int_equal(plan_args(&set.plans[0], args), 6);
    assert_memory_equal(args, nested, sizeof nested);
    plan_explain(&set.plans[0], &text);
    assert_non_null(strstr(str_text(&text), "quern_dequant_nf4_f16_n4096_k4096_g64_nested: any M"));
    assert_non_null(strstr(str_text(&text), "bound by memory"));
    str_free(&text);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void test_declines(void **state)
{
    static const struct {
        const char *text, *target, *part;
    } cases[] = {
        {"op=dequant wq=int4 n=64 k=128 c=f32 layout=awq", "gfx1151", "no kernel reads layout=awq"},
        {"op=dequant wq=nf4 n=64 k=64 c=bf16 round=trunc", "gfx1151", "round=trunc"},
        {"op=dequant wq=nf4 n=1073741824 k=1073741824 c=f16", "gfx1151", "n=1073741824"},
        {"op=dequant wq=nf4 n=262144 k=524288 c=f16", "gfx1151", "fewer than 2^32 work-items"},
        {"wq=int4 n=64 k=128 a=f16 layout=gptq", "gfx1151", "layout=gptq"},
        {"wq=int4 n=64 k=128 a=f16 layout=awq", "gfx1151", "repack"},
        {"wq=int4 n=64 k=128 a=f16 layout=tileN", "gfx1151", "layout=k8"},
        {"wq=int4 n=134217729 k=128 a=f16", "gfx1151", "n=134217729"},
        {"wq=int4 n=1048576 k=8224 group=32 a=f16 layout=ck", "gfx1151", "4 GiB"},
        {"wq=mxfp4 n=64 k=128 a=f16 layout=tileN", "gfx1151", "layout=k8"},
        {"wq=none n=64 k=134217729 a=f16", "gfx1151", "k=134217729"},
        {"wq=fp8 n=64 k=128 a=bf16", "gfx1153", "than the 2.8 that the Radeon 820M has"},
        {"wq=fp8fnuz n=64 k=128 a=bf16", "gfx950", "has no instruction for wq=fp8fnuz"},
        {"wq=fp8 n=64 k=128 a=bf16", "gfx906", "takes 7.9 instructions"},
        {"wq=nf4 n=64 k=64 a=f16 layout=tileN", "gfx1151", "layout=bnb"},
        {"wq=nf4 n=64 k=64 a=bf16 round=trunc", "gfx1151", "round=trunc"},
        {"wq=nf4 n=134217729 k=64 a=f16", "gfx1151", "n=134217729"},
        {"wq=nf4 n=64 k=134217792 a=f16", "gfx1151", "k=134217792"},
        {"wq=none n=64 k=64 a=f32", "sm_90", "a=f32 on sm_90; there are kernels for a=f16, a=bf16"},
        {"wq=none n=64 k=64 a=f16", "sm_80", "wq=none a=f16 on sm_80"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct quern_problem p = problem_of(cases[i].text);
        struct plan_set set = {.count = 77};
        assert_int_equal(plan_make(&p, target_named(cases[i].target), &set), QUERN_E_DECLINED);
        if (!strstr(quern_last_error()->message, cases[i].part))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, quern_last_error()->message,
                     cases[i].part);
        assert_string_equal(quern_last_error()->stage, "plan");
        assert_int_equal(set.count, 77);
    }
}

/* ---- Arguments and explanation --------------------------------------------------------------- */

static void test_arguments(void **state)
{
    static const enum plan_arg with_bias[] = {PLAN_ARG_A,     PLAN_ARG_B,   PLAN_ARG_SCALES,
                                              PLAN_ARG_BIAS,  PLAN_ARG_C,   PLAN_ARG_M,
                                              PLAN_ARG_FIRST, PLAN_ARG_LDA, PLAN_ARG_LDC};
    static const enum plan_arg nested[] = {PLAN_ARG_ABSMAX8, PLAN_ARG_CODE, PLAN_ARG_OFFSET};
    enum plan_arg args[PLAN_ARG_COUNT];
    struct plan_set set;

    (void)state;
    make("wq=nf4 n=64 k=64 a=f16 bias=1", "gfx1151", &set);
    assert_int_equal(plan_args(&set.plans[0], args), 9);
    assert_memory_equal(args, with_bias, sizeof with_bias);
    make("wq=nf4 n=64 k=64 a=f16", "gfx1151", &set);
    assert_int_equal(plan_args(&set.plans[0], args), 8);
    assert_memory_equal(args, with_bias, 3 * sizeof *args);
    assert_memory_equal(args + 3, with_bias + 4, 5 * sizeof *args);
    make("wq=fp4 n=64 k=64 a=f16 scale=nested bias=1", "gfx1151", &set);
    assert_int_equal(plan_args(&set.plans[0], args), 12);
    assert_memory_equal(args, with_bias, 3 * sizeof *args);
    assert_memory_equal(args + 3, nested, sizeof nested);
    assert_memory_equal(args + 6, with_bias + 3, 6 * sizeof *args);
    make("wq=mxfp4 n=64 k=64 a=f16", "gfx1151", &set);
    assert_int_equal(plan_args(&set.plans[0], args), 8);
    assert_memory_equal(args, with_bias, 3 * sizeof *args);
    assert_memory_equal(args + 3, with_bias + 4, 5 * sizeof *args);
}

static void expect_explained(const struct plan *plan, const char *const *parts, size_t count)
{
    struct str text = {0};

    plan_explain(plan, &text);
    for (size_t i = 0; i < count; i++)
        if (!strstr(str_text(&text), parts[i]))
            fail_msg("\"%s\" is missing in\n%s", parts[i], str_text(&text));
    str_free(&text);
}

static void test_explain(void **state)
{
    static const char *const parts[] = {
        "quern_nf4_bf16_n4096_k4096_g64_m8: M = 5 to 8",
        "gfx1151 (Radeon 8060S)",
        "workgroups of",
        "32768 bytes of LDS",
        "issue slots per weight",
        "256 GB/s, 46.7 at the 80 % of it that streams get: bound by memory",
        "  rejected   "};
    static const char *const path[] = {
        " us of its path to the cache: bound by the path to the cache"};
    struct plan_set set;
    enum plan_bound bound;

    (void)state;
    make("wq=nf4 n=4096 k=4096 a=bf16", "gfx1151", &set);
    expect_explained(&set.plans[3], parts, sizeof parts / sizeof *parts);

    /* what people are told reckons with the path to the cache; families are not compared by it */
    make("wq=int4 group=128 n=4096 k=4096 a=f16", "gfx942", &set);
    const struct plan *const p = plan_for(&set, 64);
    expect_explained(p, path, 1);
    assert_true(plan_expected_cycles(p, 64, &bound) > plan_launch_cycles(p, 64));
    assert_int_equal(bound, PLAN_BOUND_CACHE_PATH);
    assert_true(plan_expected_cycles(p, 640, &bound) > 5 * plan_expected_cycles(p, 64, &bound));
    /* and with the bandwidth that streams get */
    assert_true(plan_expected_cycles(set.plans, 1, &bound) > plan_launch_cycles(set.plans, 1));
    assert_int_equal(bound, PLAN_BOUND_MEMORY);
}

/* Of a candidate: warps that hand registers over come in fours, ask for multiples of eight that a
 * lane can have, and together for no more than a multiprocessor's 65536 give so many warps. */
static void count_shares(void *user, const struct plan *p)
{
    const int64_t most = ring_consumer_registers(p), least = ring_other_registers(p);
    const int launch = 65536 / 32 / ((p->waves + 3) / 4 * 4) / 8 * 8;

    assert_int_equal(most != 0, least != 0);
    assert_int_equal(most != 0, ring_hands_over(p));
    if (!most)
        return;
    assert_int_equal(ring_consumers(p) % 4, 0);
    assert_int_equal(p->waves - ring_consumers(p), 4);
    assert_int_equal(most % 8, 0);
    assert_int_equal(least % 8, 0);
    assert_in_range(least, 24, launch);
    assert_in_range(most, launch, 255);
    assert_int_equal(plan_registers(p), ring_consumers(p) * most + 4 * least);
    assert_in_range(plan_registers(p), 1, (uintmax_t)p->waves * launch);
    assert_in_range(ring_registers(p), 1, most);
    ++*(int *)user;
}

/* Calls `fn` for the best candidates of each of a problem's kernels of ring on sm_90. */
static void ring_candidates(const char *problem, size_t most, plan_candidate_fn fn, void *user)
{
    struct plan_set set;

    make(problem, "sm_90", &set);
    for (size_t k = 0; k < set.count; k++)
        if (set.plans[k].family == &family_ring)
            assert_int_equal(plan_candidates(&set.plans[k], most, fn, user), QUERN_OK);
}

static void test_registers_are_shared_out(void **state)
{
    static const char *const problems[] = {
        "wq=nf4 n=28672 k=4096 a=bf16",
        "wq=int4 n=4096 k=14336 a=f16 zero=u8",
        "wq=mxfp4 n=23040 k=2880 a=bf16",
        "wq=fp8 n=5120 k=5120 a=fp8 c=bf16",
        "wq=none n=4096 k=4096 a=bf16 act=silu_mul glu=halves",
        "op=moe wq=mxfp4 n=5760 k=2880 a=bf16 experts=32 top_k=4"};
    int sharing = 0; /* candidates that share registers out anew */

    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        struct plan_set set;

        ring_candidates(problems[i], 4000, count_shares, &sharing);
        make(problems[i], "sm_100", &set);
        for (size_t k = 0; k < set.count; k++)
            assert_int_equal(plan_registers(&set.plans[k]), 0);
    }
    assert_in_range(sharing, 1000, INT_MAX);
}

static void check_columns(void *user, const struct plan *p)
{
    const int all = p->ring.k_warps * p->ring.units * p->ring.unit;
    const int overlap = all - p->ring.chunk;
    uint32_t grid[3], block[3];

    assert_in_range(p->ring.chunk, 1, all);
    if (overlap) {
        assert_true(p->ring.k_warps > 1 && overlap < p->ring.units * p->ring.unit);
        assert_int_equal(overlap % (p->ring.span * p->ring.unit), 0);
        assert_int_equal(p->problem.k % p->ring.chunk, 0);
        assert_int_equal(p->ring.portions, 1);
        ((int *)user)[0]++;
    }
    if (p->ring.seconds) {
        assert_true(p->walk_max && p->ring.scale_rows);
        for (unsigned units = 1; units <= 256; units *= 4) {
            plan_geometry(p, 2, units, grid, block);
            assert_true(p->row_groups <= (int64_t)p->walk_max * (grid[1] / plan_cluster(p)));
        }
        ((int *)user)[1]++;
    }
}

/* Of every candidate: columns that two consumers have are the last one's and the one's before it,
 * and a workgroup that keeps something of each tile has no more tiles than it has room for, on
 * parts of any size. */
static void test_columns_of_ring(void **state)
{
    static const char *const problems[] = {
        "wq=nf4 n=2560 k=9728 a=bf16",
        "wq=nf4 n=152064 k=448 a=bf16",
        "wq=mxfp4 n=64 k=32 a=bf16",
        "wq=mxfp4 n=5760 k=2880 a=f16",
        "wq=int4 group=64 n=152064 k=448 a=bf16 zero=u8",
        "wq=int4 n=5120 k=17408 a=bf16",
        "wq=nf4 scale=nested n=4096 k=14336 a=bf16",
        "wq=fp4 scale=nested n=130 k=384 a=f16",
        "wq=nf4 scale=nested n=262208 k=5376 a=bf16",
        "wq=nf4 scale=nested n=2048 k=192 a=bf16 act=silu_mul glu=halves",
        "op=moe wq=nf4 scale=nested n=5760 k=2880 a=bf16 experts=32 top_k=4",
        "wq=none n=129280 k=7168 a=bf16"};
    int seen[2] = {0}; /* candidates with overlap, and that keep second-level scales */

    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        ring_candidates(problems[i], 20000, check_columns, seen);
    assert_in_range(seen[0], 1000, INT_MAX);
    assert_in_range(seen[1], 1000, INT_MAX);
}

/* Of a mixture's kernels a multiprocessor holds one workgroup at a time. It has 1 KiB of shared
 * memory more than the largest workgroup may ask for, and takes 1 KiB of each (CUDA C++ programming
 * guide, "Shared memory" of compute capabilities 9.0 and later). */
static void test_workgroups_that_share_out_are_alone(void **state)
{
    static const char *const problems[] = {
        "op=moe wq=int4 group=128 n=1536 k=2048 a=bf16 experts=128 top_k=8",
        "op=moe wq=int4 group=128 n=2048 k=768 a=bf16 experts=128 top_k=8",
        "op=moe wq=none n=384 k=256 a=f16 experts=8 top_k=2",
        "op=moe wq=nf4 n=512 k=512 a=bf16 experts=4 top_k=2"};
    static const char *const targets[] = {"sm_90", "sm_100", "sm_120"};
    int seen = 0;

    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            const struct target *const target = target_named(targets[t]);
            struct plan_set set;

            make(problems[i], targets[t], &set);
            for (size_t k = 0; k < set.count; k++)
                if (plan_shares_out(&set.plans[k])) {
                    assert_true(2 * (plan_launch_lds(&set.plans[k]) + 1024) >
                                target->lds_bytes + 1024);
                    assert_in_range(plan_launch_lds(&set.plans[k]), 0, target->lds_bytes);
                    seen++;
                }
        }
    assert_in_range(seen, 12, INT_MAX);
}

/* A grid is of whole clusters on parts of any size, with no more than find room there at once, but
 * with as many as it takes for each to have room for its sums. A plan's shape is one of those that
 * it is chosen from, whatever else the set has. */
static void test_clusters(void **state)
{
    static const char *const problems[] = {
        "wq=nf4 n=2560 k=10240 a=bf16",  "wq=int4 n=5120 k=8192 a=f16",
        "wq=mxfp4 n=2048 k=8192 a=bf16", "wq=none n=2048 k=8192 a=bf16",
        "wq=nf4 n=1024 k=8192 a=bf16",   "wq=nf4 n=1024 k=8192 a=bf16 exact=batch_invariant",
        "wq=nf4 n=49152 k=16384 a=bf16"};
    static const unsigned units[] = {1, 3, 7, 16, 78, 114, 131, 132, 133};
    int seen[5] = {0};

    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        struct plan_set set;
        make(problems[i], "sm_90", &set);
        for (size_t j = 0; j < set.count; j++) {
            const struct plan *const p = &set.plans[j];
            struct plan again = *p;
            char shape[PLAN_SHAPE_MAX];
            plan_shape(p, shape);
            if (plan_reshape(&again, shape) != QUERN_OK)
                fail_msg("%s: %s", problems[i], quern_last_error()->message);
            if (plan_cluster(p) == 1)
                continue;
            seen[plan_cluster(p)]++;
            for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
                uint32_t grid[3], block[3];
                plan_geometry(p, 2, units[k], grid, block);
                const int64_t clusters = grid[1] / plan_cluster(p);
                assert_int_equal(grid[0], 2);
                assert_int_equal(grid[1] % plan_cluster(p), 0);
                assert_in_range(clusters, 1, p->row_groups);
                assert_true(clusters * p->walk_max >= p->row_groups);
                assert_true(grid[1] <= units[k] || clusters == 1 ||
                            (clusters - 1) * p->walk_max < p->row_groups);
            }
        }
    }
    assert_true(seen[2] && seen[4]);
    struct plan_set set;
    make(problems[0], "sm_120", &set); /* no such GPU has shown that its clusters do */
    for (size_t j = 0; j < set.count; j++)
        assert_int_equal(plan_cluster(&set.plans[j]), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registers_are_shared_out),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_columns_of_ring),
        cmocka_unit_test(test_workgroups_that_share_out_are_alone),
        cmocka_unit_test(test_every_m_is_covered_once),
        cmocka_unit_test(test_kernels_follow_each_other),
        cmocka_unit_test(test_least_time_is_chosen),
        cmocka_unit_test(test_whole_lines_of_a),
        cmocka_unit_test(test_launches_ask_no_model),
        cmocka_unit_test(test_finer_tiles),
        cmocka_unit_test(test_matrix_units),
        cmocka_unit_test(test_matrix_units_int4),
        cmocka_unit_test(test_no_more_than_asked_for),
        cmocka_unit_test(test_force),
        cmocka_unit_test(test_only_results_are_cut),
        cmocka_unit_test(test_shapes_fit),
        cmocka_unit_test(test_camping_grids),
        cmocka_unit_test(test_same_words_same_plan),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_groups_of_32),
        cmocka_unit_test(test_halves_of_tiles),
        cmocka_unit_test(test_small_layers_fill_the_part),
        cmocka_unit_test(test_tails),
        cmocka_unit_test(test_camping),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_dequant),
        cmocka_unit_test(test_declines),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_explain),
    };

    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
