/* SPDX-License-Identifier: MIT */
/*
 * Kernels for hundreds of rows, on tiles that go through LDS: right on one target of each kind of
 * matrix instruction for rows that fill slices, do not, or are more than one; with ends of N inside
 * of tiles, an odd number of steps, every format, layout and kind of zero point, and scales that no
 * f16 holds. In full checking mode against the double reference.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_explore.h"
#include "t_metrics.h"
#include "t_runs.h"

#include "base/thread.h"
#include "plan/plan.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Of the largest result. Rounding that one to f16 may cost 4.9e-4 by itself, and the rounding of
 * each weight comes on top: with few results, as here, more of it shows than in whole layers. */
#define F16_ERROR       7.3e-4
#define BF16_ERROR      5e-3
#define LAYER_F16_ERROR 5.4e-4 /* what is promised of those */

static const char *const targets[] = {"gfx1201", "gfx1151", "gfx942", "gfx90a", "gfx950"};
static const char *const problems[] = {
    "wq=nf4 n=37 k=256 a=bf16",
    "wq=fp4 n=130 k=96 group=32 a=f16 bias=1",
    "wq=nf4 n=170 k=480 group=32 a=f16 scale=nested c=f32",
    "wq=mxfp4 n=45 k=160 a=bf16 bias=1",
    "wq=mxfp4 n=261 k=64 a=f16",
    "wq=int4 n=300 k=128 a=f16",
    "wq=int4 n=40 k=192 group=64 a=f16 zero=u8 bias=1",
    "wq=int4 n=129 k=256 a=f16 zero=scaled layout=exl",
    "wq=int4 n=66 k=160 group=32 a=f16 zero=u8 layout=ck",
    "wq=int4 n=41 k=256 group=channel a=bf16",
    "wq=int4 n=130 k=128 a=bf16 zero=u8 layout=exl c=f32",
    "wq=int4 n=64 k=96 group=32 a=bf16 zero=scaled layout=ck bias=1",
    "wq=int4 n=37 k=128 group=32 a=bf16 zero=u8 scale=f32",
};

static quern_ctx *contexts[COUNT(targets)];

/* Notes a failure of ours: a figure, and the problem, in the place of its text. */
static void failed(const char *format, double figure, const char *problem, const char *target,
                   int m)
{
    char text[160];

    snprintf(text, sizeof text, format, figure, problem);
    t_runs_failed(text, target, m);
}

static void verify(quern_op *op, const char *text, size_t target, int m, double limit)
{
    struct quern_verification v = QUERN_INIT(struct quern_verification);

    if (quern_verify(op, m, (uint64_t)m, QUERN_CHECK_FULL, &v) != QUERN_OK)
        t_runs_failed(text, targets[target], m);
    else if (!(v.max_error <= limit))
        failed("an error of %g in %s", v.max_error, text, targets[target], m);
}

static void run(void *user, size_t index)
{
    const size_t t = index % COUNT(targets), i = index / COUNT(targets);
    struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
    quern_op *op;
    int tile;

    (void)user;
    if ((i + t) % (T_SANITIZED ? 5 : 4))
        return;
    if (t_tile_op(contexts[t], targets[t], problems[i], &op, &tile) != QUERN_OK ||
        quern_op_kernel(op, 0, &info) != QUERN_OK) {
        t_runs_failed(problems[i], targets[t], 0);
        return;
    }
    if (info.resources.scratch_bytes)
        failed("%g bytes of scratch for %s", info.resources.scratch_bytes, problems[i], targets[t],
               tile);
    static const int rows[] = {1, 7, 16, 33};
    const double limit = strstr(problems[i], "a=f16") ? F16_ERROR : BF16_ERROR;
    verify(op, problems[i], t, rows[(i + t) % COUNT(rows)], limit);
    verify(op, problems[i], t, tile + 1, limit);
    if (!T_SANITIZED)
        verify(op, problems[i], t, tile, limit);
    quern_op_release(op);
}

static void test_problems(void **state)
{
    (void)state;
    parallel_for(COUNT(problems) * COUNT(targets), 2, run, NULL);
    t_runs_expect_none();
}

/* Scaled weights of bf16 are cut off, and made a little too large before. Products that bf16 holds
 * stay exact, as all of MXFP4's do; NF4's are as near as rounded ones. By v_dot2_bf16_bf16 errors
 * were 1.2e-3 of MXFP4, on RDNA 3, and 3e-3 of NF4. Outside check-long each target has one of
 * them. */
static void test_cut_weights(void **state)
{
    static const struct {
        const char *text;
        double limit;
    } cases[] = {{"wq=mxfp4 n=512 k=512 a=bf16 c=f32", 1e-6},
                 {"wq=nf4 n=512 k=512 a=bf16 c=f32", 2.4e-3}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases) * COUNT(targets); i++) {
        const size_t t = i / COUNT(cases);
        const double limit = cases[i % COUNT(cases)].limit;
        struct quern_verification v = QUERN_INIT(struct quern_verification);
        quern_op *op;
        int tile;
        if (!t_takes(i % COUNT(cases) + t + 1, 2)) /* of RDNA 3 MXFP4 */
            continue;
        assert_int_equal(
            t_tile_op(contexts[t], targets[t], cases[i % COUNT(cases)].text, &op, &tile), QUERN_OK);
        if (!T_SANITIZED)
            assert_int_equal(quern_verify(op, tile, 0, QUERN_CHECK_FAST, &v), QUERN_OK);
        if (!(v.max_error <= limit))
            fail_msg("%s on %s: an error of %g", cases[i % COUNT(cases)].text, targets[t],
                     v.max_error);
        quern_op_release(op);
    }
}

/* Every M of the contract with few columns: on the kernels that dispatch picks for it, and on tiles
 * from where layers with many columns have them. Each target has one of the layers, and both in
 * check-long. */
static void rows_of(void *user, size_t index)
{
    static const char *const texts[] = {"wq=int4 n=48 k=128 a=f16 zero=u8",
                                        "wq=nf4 n=48 k=128 a=bf16"};
    static const int rows[] = {1, 7, 16, 33, 300}, tiled[] = {256, 2048, 3968};
    const size_t t = index % COUNT(targets), i = index / COUNT(targets);
    const struct quern_problem p = t_problem(texts[i]);
    const double limit = i ? BF16_ERROR : LAYER_F16_ERROR;
    quern_op *op, *tiles;
    int tile;

    (void)user;
    if (!t_takes(t + i, 2))
        return;
    if (quern_op_create(contexts[t], &p, 4096, &op) != QUERN_OK ||
        t_tile_op(contexts[t], targets[t], texts[i], &tiles, &tile) != QUERN_OK) {
        t_runs_failed(texts[i], targets[t], 4096);
        return;
    }
    for (size_t j = 0; j < COUNT(rows); j++)
        verify(op, texts[i], t, rows[j], limit);
    for (size_t j = 0; j < (T_SANITIZED ? 1 : COUNT(tiled)); j++)
        verify(tiles, texts[i], t, tiled[j], limit);
    quern_op_release(op);
    quern_op_release(tiles);
}

static void test_rows(void **state)
{
    (void)state;
    parallel_for((T_SANITIZED ? 1 : 2) * COUNT(targets), 2, rows_of, NULL);
    t_runs_expect_none();
}

/* Rows of A and C that are longer than K and N: nothing but the rows themselves is touched, and
 * columns of C that are not aligned are stored one by one. Rows too far apart for offsets of 32
 * bits take other kernels, which this op does not have. */
static void test_strides(void **state)
{
    static const char text[] = "wq=nf4 n=45 k=128 a=f16 bias=1";
    const struct quern_problem p = t_problem(text);

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t += T_SANITIZED ? 2 : 1)
        for (int odd = 0; odd < 2; odd++) {
            struct t_layer layer;
            quern_op *op;
            int tile;
            assert_int_equal(t_tile_op(contexts[t], targets[t], text, &op, &tile), QUERN_OK);
            t_layer_make(&layer, contexts[t], &p, tile + 19, p.k + 2, p.n + 3 + odd, t);
            if (quern_op_launch(op, &layer.args, tile + 19, NULL) != QUERN_OK)
                fail_msg("%s: %s", targets[t], quern_last_error()->message);
            const double error = t_layer_error(&layer);
            if (!(error <= F16_ERROR))
                fail_msg("%s: error %g", targets[t], error);
            layer.args.lda = PLAN_TILE_LDA_MAX + 2;
            assert_int_equal(quern_op_launch(op, &layer.args, 1, NULL), QUERN_E_ARGUMENT);
            assert_non_null(strstr(quern_last_error()->message, "lda is 4194306"));
            t_layer_free(&layer);
            quern_op_release(op);
        }
}

/* Takes the scales of every other row far down and those between far up, beyond what f16 holds. */
static void stretch(void *user, const struct quern_problem *p, int64_t m,
                    const union operand_pointers *operands)
{
    float *const scales = operands->scales;
    const int64_t groups = p->k / p->group;

    (void)m;
    for (int64_t i = 0; i < p->n * groups; i++)
        scales[i] *= *(const float *)user;
}

static void test_scales_beyond_f16(void **state)
{
    static const char text[] = "wq=nf4 n=40 k=256 a=f16 c=f32";
    static const float factors[] = {0x1p-40f, 0x1p30f, 0};
    const struct quern_problem p = t_problem(text);

    (void)state;
    for (size_t i = 0; i < COUNT(factors); i++)
        for (size_t t = 0; t < 3; t++) {
            struct t_layer layer;
            quern_op *op;
            int tile;
            assert_int_equal(t_tile_op(contexts[t], targets[t], text, &op, &tile), QUERN_OK);
            t_layer_make_edited(&layer, contexts[t], &p, 20, stretch, (void *)&factors[i], t);
            assert_int_equal(quern_op_launch(op, &layer.args, 20, NULL), QUERN_OK);
            const double error = t_layer_error(&layer);
            if (factors[i] > 0 && !(error <= F16_ERROR))
                fail_msg("%s, scales times %g: error %g", targets[t], (double)factors[i], error);
            for (int64_t j = 0; !(factors[i] > 0) && j < p.n; j++)
                assert_true(t_layer_result(&layer, 19, j) == 0);
            t_layer_free(&layer);
            quern_op_release(op);
        }
}

/* Counts matrix instructions whose three operands start in one bank of registers, which costs gfx11
 * two cycles each; in the second place all of them. */
static void count_conflict(void *user, uint64_t offset, unsigned size, const char *text)
{
    unsigned *const counts = user, d, a, b, c;

    (void)offset, (void)size;
    if (sscanf(text, "v_wmma_%*s v[%u:%*u], v[%u:%*u], v[%u:%*u], v[%u", &d, &a, &b, &c) == 4) {
        counts[0] += a % 4 == b % 4 && b % 4 == c % 4;
        counts[1]++;
    }
}

static void test_banks_of_registers(void **state)
{
    static const char *const texts[] = {"wq=int4 n=19456 k=2560 a=f16 zero=u8",
                                        "wq=nf4 n=4096 k=4096 a=bf16",
                                        "wq=int4 n=4096 k=14336 a=bf16"};

    (void)state;
    for (size_t i = 0; i < (T_SANITIZED ? 1 : COUNT(texts)); i++) {
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        unsigned counts[2] = {0};
        quern_op *op;
        int tile;
        assert_int_equal(t_tile_op(contexts[1], "gfx1151", texts[i], &op, &tile), QUERN_OK);
        assert_int_equal(quern_op_kernel(op, 0, &info), QUERN_OK);
        t_each_instruction(contexts[1], &info, count_conflict, counts);
        assert_true(counts[1] >= 32);
        if (counts[0])
            fail_msg("%s: %u of %u products have their operands in one bank", texts[i], counts[0],
                     counts[1]);
        quern_op_release(op);
    }
}

/* The other matrix instruction of gfx9, which the model hardly ever prefers. */
static void test_other_instruction(void **state)
{
    static const char text[] = "wq=int4 n=130 k=192 group=64 a=f16 zero=u8 bias=1";
    static struct quern_shape shapes[64];
    const struct quern_problem p = t_problem(text);
    const char *const words = "products=";

    (void)state;
    for (size_t t = 2; t < COUNT(targets); t++) {
        size_t count = COUNT(shapes), other = 1;
        struct plan_set set;
        quern_op *op;
        assert_int_equal(plan_make(&p, target_named(targets[t]), &set), QUERN_OK);
        assert_int_equal(quern_op_shapes(contexts[t], &p, set.m_max, shapes, &count), QUERN_OK);
        const int chosen = atoi(strstr(shapes[0].words, words) + strlen(words));
        while (other < count && atoi(strstr(shapes[other].words, words) + strlen(words)) == chosen)
            other++;
        assert_true(other < count);
        assert_int_equal(
            quern_op_create_shape(contexts[t], &p, set.m_max, shapes[other].words, &op), QUERN_OK);
        verify(op, text, t, 131, F16_ERROR);
        quern_op_release(op);
    }
    t_runs_expect_none();
}

/* The same words give the same bits, whatever the other rows of A are, and in every slice. */
static void test_rows_do_not_mix(void **state)
{
    static const char text[] = "wq=int4 n=32 k=128 a=bf16 zero=u8";
    const struct quern_problem p = t_problem(text);
    struct t_layer few, many;
    quern_op *op;
    int tile;

    (void)state;
    assert_int_equal(t_tile_op(contexts[0], targets[0], text, &op, &tile), QUERN_OK);
    t_layer_make(&few, contexts[0], &p, tile + 3, 0, 0, 7);
    t_layer_make(&many, contexts[0], &p, tile + 3, 0, 0, 7);
    assert_int_equal(quern_op_launch(op, &few.args, 3, NULL), QUERN_OK);
    assert_int_equal(quern_op_launch(op, &many.args, tile + 3, NULL), QUERN_OK);
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

    for (size_t t = 0; t < COUNT(targets) && !failed; t++)
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
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_cut_weights),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_scales_beyond_f16),
        cmocka_unit_test(test_rows_do_not_mix),
        cmocka_unit_test(test_other_instruction),
        cmocka_unit_test(test_banks_of_registers),
    };

    return cmocka_run_group_tests_name("tile", tests, set_up, tear_down);
}
