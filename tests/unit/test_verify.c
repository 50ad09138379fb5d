/* SPDX-License-Identifier: MIT */
/* What quern_verify takes for right: the arithmetic that kernels run with, and the tolerance. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_paths.h"

#include "dispatch/dispatch.h"
#include "quant/quant.h"

#include <quern/tool.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct quern_verification verify(const char *target, const char *text)
{
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem(text);
    quern_op *op;

    assert_int_equal(quern_op_create_range(ctx, &p, 1, 1, &op), QUERN_OK);
    if (quern_verify(op, 1, 20, QUERN_CHECK_FAST, &v) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    quern_op_release(op);
    quern_close(ctx);
    return v;
}

/* RDNA 3's adder of pairs loses more than rounding each product to f32 does: with these operands
 * 2.9e-7 of the largest result, not 1.9e-7. */
static void test_sums_are_the_hardware_s(void **state)
{
    const struct quern_verification v = verify("gfx1100", "wq=none n=128 k=4096 a=f16 c=f32");

    (void)state;
    assert_true(v.max_error > 2.4e-7 && v.max_error < 4e-7);
}

/*
 * A kernel that leaves out one product of K for one result. The error that is allowed is a fraction
 * t of the largest of all results, which of n results of K products, each of two numbers of the
 * standard deviations s and u, is about sqrt(2 ln n) sqrt(K) s u; a product is about s u. So the
 * typical one is seen while t < 1 / sqrt(2 ln n K). Some products are next to nothing; of all, nine
 * of ten must be seen, and every one that is as large as the average.
 */
static void test_one_dropped_product_is_seen(void **state)
{
    static const char *const types[] = {"a=f32", "a=f16 c=f32", "a=bf16 c=f32"};
    static const int depths[] = {512, 4096, 28672, 65536};

    (void)state;
    for (unsigned n = 0; n < 12; n++) {
        const int k = depths[n / 3], rows = 16;
        const size_t count = (size_t)rows * (size_t)k;
        union operand_pointers in = {0};
        double largest = 0, sum = 0, *const y = calloc((size_t)rows, sizeof *y);
        char text[96];
        snprintf(text, sizeof text, "wq=none n=%d k=%d %s", rows, k, types[n % 3]);
        const struct quern_problem p = t_problem(text);
        const double allowed = verify("gfx1100", text).tolerance;
        size_t seen = 0, large = 0, large_seen = 0;

        in.a = calloc((size_t)k, 4);
        in.b = calloc(count, 4);
        assert_true(y && in.a && in.b);
        quant_random(&p, 1, 20, &in);
        assert_int_equal(quant_reference(&p, &in, 1, y), QUERN_OK);
        for (int i = 0; i < rows; i++)
            largest = fmax(largest, fabs(y[i]));
        for (int pass = 0; pass < 2; pass++)
            for (size_t i = 0; i < count; i++) {
                const double product = fabs((double)quant_load(p.a, in.a, i % (size_t)k) *
                                            (double)quant_load(p.a, in.b, i));
                if (!pass) {
                    sum += product;
                    continue;
                }
                const bool rejected = product > allowed * largest;
                seen += rejected;
                large += product >= sum / (double)count;
                large_seen += rejected && product >= sum / (double)count;
            }
        if (seen < count / 10 * 9 || large_seen != large)
            fail_msg("%s: %zu of %zu are seen, %zu of %zu large ones", text, seen, count,
                     large_seen, large);
        free((void *)in.a);
        free((void *)in.b);
        free(y);
    }
}

/* How CDNA 4 adds products of f16 nobody has published: here the second candidate has an error of
 * 1.4e-7, the first of 1.1e-7. */
static void test_every_candidate_counts(void **state)
{
    static const char text[] = "wq=none n=64 k=1024 a=f16 c=f32";
    struct quern_verification v = {
        .max_error = INFINITY, .tolerance = 1.25e-7, .counts = QUERN_INIT(struct quern_sim_counts)};
    quern_ctx *const ctx = t_open("gfx950", t_cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem(text);
    quern_op *op;

    (void)state;
    assert_int_equal(quern_op_create_range(ctx, &p, 64, 64, &op), QUERN_OK);
    assert_int_equal(verify_within(op, 64, 20, QUERN_CHECK_FAST, &v), QUERN_E_VERIFY);
    assert_non_null(strstr(quern_last_error()->message, "by candidate 2; 1.25e-07 is allowed"));
    assert_true(v.max_error > 1.3e-7 && v.max_error < 1.5e-7);
    v.tolerance = 1.5e-7;
    assert_int_equal(verify_within(op, 64, 20, QUERN_CHECK_FAST, &v), QUERN_OK);
    assert_true(v.max_error > 1.3e-7 && v.max_error < 1.5e-7);
    quern_op_release(op);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_the_hardware_s),
        cmocka_unit_test(test_one_dropped_product_is_seen),
        cmocka_unit_test(test_every_candidate_counts),
    };
    return cmocka_run_group_tests_name("verify", tests, t_cache_make, t_cache_remove);
}
