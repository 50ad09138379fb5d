/* SPDX-License-Identifier: MIT */
/*
 * Kernels on matrix units: every number of rows that they take, right on one target of each kind of
 * matrix instruction, with ends of N and M inside of tiles, blocks shorter and longer than a step,
 * and results of other types. In full checking mode against the double reference.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_runs.h"

#include "base/thread.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const targets[] = {"gfx1201", "gfx1151", "gfx942", "gfx90a", "gfx950"};
static const char *const problems[] = {
    "wq=nf4 n=37 k=256 a=bf16",
    "wq=fp4 n=130 k=96 group=32 a=f16 c=bf16 bias=1",
    "wq=nf4 n=17 k=4160 a=f16 c=f32 scale=nested",
    "wq=mxfp4 n=45 k=1056 a=bf16 bias=1",
    "wq=fp4 n=64 k=2560 group=256 a=bf16 c=f32",
};

static quern_ctx *contexts[COUNT(targets)];
/* Runs the kernel for `tile` rows with m of them, m from `from` in steps of `step` up to `to`. */
static void run(size_t target, const char *text, int tile, int from, int step, int to)
{
    const struct quern_problem p = t_problem(text);
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    quern_op *op;

    if (quern_op_create_range(contexts[target], &p, tile, tile, &op) != QUERN_OK ||
        quern_op_kernel(op, 0, &info) != QUERN_OK) {
        t_runs_failed(text, targets[target], tile);
        return;
    }
    char name[8];
    snprintf(name, sizeof name, "_m%d", tile);
    if (!strstr(info.symbol, name) || info.resources.scratch_bytes)
        t_runs_failed("another kernel, or one that spills", targets[target], tile);
    for (int m = from; m <= to; m += step)
        if (quern_verify(op, m, (uint64_t)m, QUERN_CHECK_FULL, &v) != QUERN_OK)
            t_runs_failed(text, targets[target], m);
    quern_op_release(op);
}

/* One tile of A: every M. */
static void one_tile(void *user, size_t i)
{
    (void)user;
    run(i, problems[i % COUNT(problems)], 16, 1, T_SANITIZED ? 5 : 1, 16);
}

/* The formats with one, two and four tiles in turn; one row more than whole slices, too. */
static void formats(void *user, size_t index)
{
    const size_t t = index % COUNT(targets), i = index / COUNT(targets);
    const int tile = 16 << (t + i) % 3;

    (void)user;
    if (T_SANITIZED && i % 3)
        return;
    run(t, problems[i], tile, tile / 2 + 1, tile / 2 - 1, tile);
    run(t, problems[i], tile, 2 * tile + 1, 1, 2 * tile + 1);
}

static void check(void (*function)(void *, size_t), size_t count)
{
    parallel_for(count, 2, function, NULL);
    t_runs_expect_none();
}

static void test_one_tile(void **state)
{
    (void)state;
    check(one_tile, COUNT(targets));
}

static void test_formats(void **state)
{
    (void)state;
    check(formats, COUNT(targets) * COUNT(problems));
}

/* Rows of A and C that are longer than K and N: nothing but the rows themselves is touched. */
static void test_strides(void **state)
{
    static const char *const texts[] = {"wq=nf4 n=45 k=128 a=f16 bias=1",
                                        "wq=int4 n=45 k=256 a=bf16 zero=u8 bias=1"};

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(targets); i += T_SANITIZED ? 3 : 1) {
        const struct quern_problem p = t_problem(texts[i % 2]);
        const size_t t = i / 2;
        struct t_layer layer;
        quern_op *op;
        assert_int_equal(quern_op_create_range(contexts[t], &p, 16, 16, &op), QUERN_OK);
        t_layer_make(&layer, contexts[t], &p, 19, p.k + 2, p.n + 3, t);
        if (quern_op_launch(op, &layer.args, 19, NULL) != QUERN_OK)
            fail_msg("%s: %s", targets[t], quern_last_error()->message);
        const double error = t_layer_error(&layer);
        if (!(error <= 5e-3))
            fail_msg("%s: error %g", targets[t], error);
        t_layer_free(&layer);
        quern_op_release(op);
    }
}

/* The same words give the same bits, whatever the other rows of A are. */
static void test_rows_do_not_mix(void **state)
{
    const struct quern_problem p = t_problem("wq=nf4 n=32 k=128 a=bf16");
    struct t_layer few, many;
    quern_op *op;

    (void)state;
    assert_int_equal(quern_op_create_range(contexts[0], &p, 16, 16, &op), QUERN_OK);
    t_layer_make(&few, contexts[0], &p, 16, 0, 0, 7);
    t_layer_make(&many, contexts[0], &p, 16, 0, 0, 7);
    assert_int_equal(quern_op_launch(op, &few.args, 3, NULL), QUERN_OK);
    assert_int_equal(quern_op_launch(op, &many.args, 16, NULL), QUERN_OK);
    t_layer_error(&few);
    t_layer_error(&many);
    assert_memory_equal(few.c, many.c, (size_t)(3 * p.n * 2));
    t_layer_free(&few);
    t_layer_free(&many);
    quern_op_release(op);
}

static int set_up(void **state)
{
    const int failed = t_cache_make(state);

    for (size_t t = 0; !failed && t < COUNT(targets); t++)
        contexts[t] = t_open(targets[t], t_cache, QUERN_JIT_ON);
    return failed;
}

static int tear_down(void **state)
{
    for (size_t t = 0; t < COUNT(targets); t++)
        quern_close(contexts[t]);
    return t_cache_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_tile),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_rows_do_not_mix),
    };

    return cmocka_run_group_tests_name("mma", tests, set_up, tear_down);
}
