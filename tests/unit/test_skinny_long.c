/* SPDX-License-Identifier: MIT */
/*
 * Skinny kernels for every M of a grid of N, K and targets, which test_skinny samples; and what
 * they cost, counted on the grids that are shipped, N = K = 4096: issue slots per weight within
 * budgets, lines of memory used whole, no spills. An hour of work: with --long only, as far as time
 * goes (t_explore.h).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_explore.h"
#include "t_runs.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *const targets[] = {"gfx90a",  "gfx942",  "gfx950",
                                      "gfx1100", "gfx1151", "gfx1201"};
/* ---- The grid -------------------------------------------------------------------------------- */

static const int ms[] = {1, 2, 3, 4, 5, 8}, ns[] = {1, 15, 16, 127, 2048, 4096, 8193},
                 ks[] = {8, 64, 1032, 4096, 8192 + 16, 14336};

/* One N and K with all M: types of A take turns, so that every target meets each with each of K. */
static void run_case(void *user, size_t index)
{
    static const char *const words[] = {"wq=none a=f16", "wq=none a=bf16", "wq=fp8 a=fp8",
                                        "wq=fp8 a=f16",  "wq=none a=f32",  "wq=fp8fnuz a=fp8fnuz"};
    const size_t target = index % COUNT(targets), size = index / COUNT(targets);
    const int n = ns[size % COUNT(ns)], k = ks[size / COUNT(ns)];
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    char text[128];
    quern_op *op;

    (void)user;
    /* the two large ones have only the types that the kernels are most used with */
    snprintf(text, sizeof text, "%s n=%d k=%d bias=%d",
             words[(size + target) % ((int64_t)n * k > 1 << 24 ? 2 : COUNT(words))], n, k,
             (int)(size + target) % 2);
    quern_ctx *const ctx = t_open(targets[target], t_cache, QUERN_JIT_ON);
    if (quern_problem_parse(text, &p) != QUERN_OK || quern_op_create(ctx, &p, 8, &op) != QUERN_OK) {
        t_runs_failed(text, targets[target], 0);
    } else {
        for (int m = 0; m < COUNT(ms); m++)
            if (quern_verify(op, ms[m], index, QUERN_CHECK_FULL, &v) != QUERN_OK)
                t_runs_failed(text, targets[target], ms[m]);
        quern_op_release(op);
    }
    quern_close(ctx);
}

static void test_grid(void **state)
{
    (void)state;
    t_explore_part((size_t)(COUNT(targets) * COUNT(ns) * COUNT(ks)), 1, run_case, NULL);
    t_runs_expect_none();
}

/* ---- Costs ----------------------------------------------------------------------------------- */

#define SIZE    4096
#define WEIGHTS ((double)SIZE * SIZE)

static const int rows[] = {1, 2, 4, 8};
static const struct {
    const char *target, *words;
    double slots[4]; /* for each of rows */
} budgets[] = {
    {"gfx1151", "wq=none a=f16", {0.6, 0.95, 1.6, 3.1}},
    {"gfx1151", "wq=none a=bf16", {0.6, 0.95, 1.6, 3.1}},
    {"gfx1100", "wq=none a=bf16", {0.65, 1.05, 1.75, 3.4}},
    {"gfx1201", "wq=none a=f16", {0.6, 0.9, 1.5, 3.0}},
    {"gfx1201", "wq=none a=bf16", {0.6, 0.9, 1.5, 3.0}},
    {"gfx950", "wq=none a=bf16", {0.8, 0.95, 0.95, 1.55}},
    {"gfx90a", "wq=none a=bf16", {0.8, 0.95, 0.95, 1.5}},
    {"gfx942", "wq=none a=bf16", {0.85, 1.4, 2.4, 1.45}},
    {"gfx90a", "wq=none a=f32", {1.2, 2.3, 3.9, 7.2}},
    {"gfx1201", "wq=fp8 a=fp8", {0.45, 0.75, 1.35, 2.7}},
    {"gfx950", "wq=fp8 a=fp8", {0.6, 0.6, 0.6, 0.6}},
    {"gfx942", "wq=fp8fnuz a=fp8fnuz", {0.5, 0.5, 0.5, 0.5}},
    {"gfx942", "wq=fp8 a=fp8", {2.75, 2.75, 2.75, 2.75}},
    {"gfx1201", "wq=fp8 a=bf16", {1.55, 1.9, 3.05, 5.2}},
    {"gfx950", "wq=fp8 a=bf16", {1.35, 1.55, 1.5, 2.2}},
    {"gfx942", "wq=fp8 a=bf16", {3.5, 3.55, 3.55, 4.2}},
    {"gfx90a", "wq=fp8 a=f16", {3.85, 4.5, 4.1, 4.5}},
    {"gfx90a", "wq=fp8 a=bf16", {5.3, 6.1, 6.1, 6.2}},
    {"gfx1151", "wq=fp8 a=bf16", {4.25, 5.5, 7.1, 9.7}},
};

static void check_costs(quern_op *op, const char *target, const char *words, int m, double budget)
{
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    const struct quern_sim_counts *const c = &v.counts;

    if (quern_verify(op, m, 1, QUERN_CHECK_FAST, &v) != QUERN_OK)
        fail_msg("%s %s m=%d: %s", target, words, m, quern_last_error()->message);
    const double slots =
        (double)(c->instructions - c->classes[QUERN_CLASS_WAIT]) * c->wave_size / WEIGHTS;
    const double lines = (double)c->lines128 * 128 / (double)(c->bytes_read + c->bytes_written);
    print_message("%s %s m=%d: %.2f slots per weight of %.2f, %.2f times the bytes in lines\n",
                  target, words, m, slots, budget, lines);
    assert_true(slots <= budget);
    /* every line that a load touches is used whole; only A of 16 bits beside fp8 is read by two
     * loads of every other 16 bytes */
    assert_true(lines <= (strstr(words, "fp8 a=bf16") || strstr(words, "fp8 a=f16") ? 2 : 1.02));
    assert_int_equal(quern_op_kernel(op, 0, &info), QUERN_OK);
    assert_int_equal(info.resources.scratch_bytes, 0);
}

static void test_costs(void **state)
{
    struct t_walk walk = t_walk(COUNT(budgets), 1);

    (void)state;
    for (size_t i; t_walk_next(&walk, &i);) {
        quern_ctx *const ctx = t_open(budgets[i].target, t_cache, QUERN_JIT_ON);
        for (int j = 0; j < COUNT(rows); j++) {
            char text[96];
            quern_op *op;
            snprintf(text, sizeof text, "%s n=%d k=%d", budgets[i].words, SIZE, SIZE);
            const struct quern_problem p = t_problem(text);
            if (quern_op_create_range(ctx, &p, rows[j], rows[j], &op) != QUERN_OK)
                fail_msg("%s on %s: %s", text, budgets[i].target, quern_last_error()->message);
            check_costs(op, budgets[i].target, budgets[i].words, rows[j], budgets[i].slots[j]);
            quern_op_release(op);
        }
        quern_close(ctx);
    }
}

/* All types on layers of all kinds, compiled alone. */
enum { TYPES = 8 };
static void compile_case(void *user, size_t index)
{
    static const char *const words[TYPES] = {
        "wq=none a=f32", "wq=none a=f16", "wq=none a=bf16",   "wq=fp8 a=fp8",
        "wq=fp8 a=f16",  "wq=fp8 a=bf16", "wq=fp8fnuz a=f16", "wq=fp8fnuz a=fp8fnuz"};
    static const int sizes[][2] = {{1024, 4096}, {19456, 2560}, {28672, 8192}, {128256, 4096}};
    const size_t target = index / TYPES, which = index % TYPES;
    quern_ctx *const ctx = t_open(targets[target], t_cache, QUERN_JIT_ON);

    (void)user;
    for (int i = 0; i < COUNT(sizes); i++) {
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        struct quern_problem p = QUERN_INIT(struct quern_problem);
        char text[96];
        quern_op *op;
        snprintf(text, sizeof text, "%s n=%d k=%d", words[which], sizes[i][0], sizes[i][1]);
        if (quern_problem_parse(text, &p) != QUERN_OK ||
            quern_op_create(ctx, &p, 8, &op) != QUERN_OK) {
            t_runs_failed(text, targets[target], 0);
            continue;
        }
        for (size_t k = 0; quern_op_kernel(op, k, &info) == QUERN_OK; k++)
            if (info.resources.scratch_bytes)
                t_runs_failed(text, targets[target], (int)k);
        quern_op_release(op);
    }
    quern_close(ctx);
}

static void test_no_spills(void **state)
{
    (void)state;
    t_explore_part((size_t)COUNT(targets) * TYPES, 1, compile_case, NULL);
    t_runs_expect_none();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_costs),
                                       cmocka_unit_test(test_no_spills),
                                       cmocka_unit_test(test_grid)};

    return cmocka_run_group_tests_name("skinny", tests, t_cache_make, t_cache_remove);
}
