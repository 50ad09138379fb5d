/* SPDX-License-Identifier: MIT */
/*
 * Kernels on matrix units at full size. Those of layers of language models compile without spills,
 * and those of N = K = 4096 keep to their budgets of issue slots for every M, counted on the
 * software GPU. Minutes of work: with --long only, as far as time goes (t_explore.h).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_explore.h"

#include <stdatomic.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const targets[] = {"gfx1201", "gfx1151", "gfx1102",
                                      "gfx942",  "gfx90a",  "gfx950"};
static const int tiles[] = {16, 32, 64};

/* Rows that camp and rows that do not, few tiles and many, K of many factors and of few. */
static const struct {
    int n, k;
} layers[] = {{4096, 1024},  {1024, 3072},  {6144, 2560}, {19456, 2560}, {2560, 9728},
              {4096, 12288}, {51200, 5120}, {512, 2048},  {8192, 28672}, {30720, 3840},
              {3840, 15360}, {2880, 2880},  {5760, 2880}, {130, 4160},   {1000, 96}};

static char *cache;
static quern_ctx *contexts[COUNT(targets)];
static atomic_int failed;
static char failure[768]; /* the first */

static void fail_case(const char *text, const char *target, const char *what)
{
    if (!atomic_fetch_add(&failed, 1))
        snprintf(failure, sizeof failure, "%s on %s: %s", text, target, what);
}

/* ---- Spills ---------------------------------------------------------------------------------- */

static void compile(void *user, size_t index)
{
    static const char *const formats[] = {"wq=nf4 group=32 a=bf16", "wq=mxfp4 a=bf16",
                                          "wq=nf4 group=32 a=f16 scale=nested"};
    const size_t t = index % COUNT(targets), i = index / COUNT(targets);
    char text[128];
    quern_op *op;

    (void)user;
    snprintf(text, sizeof text, "%s n=%d k=%d", formats[(i + t) % 3], layers[i].n, layers[i].k);
    const struct quern_problem p = t_problem(text);
    for (size_t j = 0; j < COUNT(tiles); j++) {
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        if (quern_op_create_range(contexts[t], &p, tiles[j], tiles[j], &op) != QUERN_OK) {
            fail_case(text, targets[t], quern_last_error()->message);
            continue;
        }
        if (quern_op_kernel(op, 0, &info) != QUERN_OK || info.resources.scratch_bytes)
            fail_case(text, targets[t], info.symbol);
        quern_op_release(op);
    }
}

static void test_no_spills(void **state)
{
    (void)state;
    t_explore_part(COUNT(layers) * COUNT(targets), 1, compile, NULL);
    if (atomic_load(&failed))
        fail_msg("%d cases failed; %s", atomic_load(&failed), failure);
}

/* ---- Issue slots ----------------------------------------------------------------------------- */

static void test_budgets(void **state)
{
    static const int rows[] = {1, 5, 16, 32, 64};
    static const struct {
        const char *target;
        int n;
        double slots[3];    /* per weight, up to 16, 32, 64 rows of A */
        const char *format; /* null: nf4 */
    } budgets[] = {
        {"gfx1201", 4096, {2.3, 3.4, 5.1}, "int4 zero=u8"},
        {"gfx1151", 4096, {3.1, 4.1, 6.0}, "int4 zero=u8"},
        {"gfx942", 4096, {2.7, 3.8, 5.5}, "int4 zero=u8"},
        {"gfx90a", 4096, {2.7, 4.4, 5.6}, "int4 zero=u8"},
        {"gfx950", 4096, {2.7, 3.4, 5.0}, "int4 zero=u8"},
        {"gfx942", 16384, {2.5, 3.8, 5.5}, "int4 zero=u8"},
        {"gfx950", 16384, {2.4, 3.4, 5.0}, "int4 zero=u8"},
        {"gfx1201", 4096, {2.3, 3.4, 5.0}},
        {"gfx1151", 4096, {3.1, 3.9, 5.5}},
        {"gfx942", 4096, {2.7, 3.4, 5.0}},
        {"gfx90a", 4096, {2.7, 3.4, 5.0}},
        {"gfx950", 4096, {2.7, 3.4, 5.0}},
        {"gfx942", 16384, {2.2, 3.4, 5.0}},
        {"gfx950", 16384, {2.2, 3.4, 5.0}},
    };

    struct t_walk walk = t_walk(COUNT(budgets) * COUNT(rows) * 2, 1);

    (void)state;
    for (size_t at; t_walk_next(&walk, &at);) {
        const size_t i = at / 2 / COUNT(rows);
        const int m = rows[at / 2 % COUNT(rows)], tile = m <= 16 ? 0 : m <= 32 ? 1 : 2;
        struct quern_verification v = QUERN_INIT(struct quern_verification);
        const struct quern_sim_counts *const c = &v.counts;
        quern_ctx *const ctx = t_open(budgets[i].target, cache, QUERN_JIT_ON);
        char text[64];
        quern_op *op;
        snprintf(text, sizeof text, "wq=%s n=%d k=4096 a=%s",
                 budgets[i].format ? budgets[i].format : "nf4", budgets[i].n,
                 at % 2 ? "f16" : "bf16");
        const struct quern_problem p = t_problem(text);
        /* the kernel on matrix units, also where another would be chosen */
        if (quern_op_create_range(ctx, &p, tiles[tile], tiles[tile], &op) != QUERN_OK ||
            quern_verify(op, m, 1, QUERN_CHECK_FAST, &v) != QUERN_OK)
            fail_msg("%s m=%d on %s: %s", text, m, budgets[i].target, quern_last_error()->message);
        const double slots = (double)(c->instructions - c->classes[QUERN_CLASS_WAIT]) *
                             c->wave_size / ((double)p.n * (double)p.k);
        print_message("%s m=%d on %s: %.2f slots per weight of %.2f\n", text, m, budgets[i].target,
                      slots, budgets[i].slots[tile]);
        assert_true(slots <= budgets[i].slots[tile]);
        quern_op_release(op);
        quern_close(ctx);
    }
}

static int set_up(void **state)
{
    (void)state;
    cache = t_temp_dir();
    for (size_t t = 0; t < COUNT(targets); t++)
        contexts[t] = t_open(targets[t], cache, QUERN_JIT_ON);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++)
        quern_close(contexts[t]);
    t_remove(cache);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_spills),
                                       cmocka_unit_test(test_budgets)};

    return cmocka_run_group_tests_name("mma", tests, set_up, tear_down);
}
