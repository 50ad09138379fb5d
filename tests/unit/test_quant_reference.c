/* SPDX-License-Identifier: MIT */
/* The product in double that kernels are held to: against the formula, in any order, refusals; and
 * the operands that tests are made of. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/os.h"
#include "quant/quant.h"
#include "t_context.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Operands of a problem filled at random, and the reference's answer. */
struct layer {
    struct quern_problem problem;
    union operand_pointers in;
    double *y;
};

static struct layer make_layer(const char *text, int64_t m, uint64_t seed)
{
    struct layer l = {.problem = t_problem(text)};
    const size_t n = (size_t)l.problem.n, k = (size_t)l.problem.k;

    l.in.a = calloc((size_t)m * k, dtype_bytes(l.problem.a));
    l.in.b = malloc(n * k / 2);
    l.in.scales = malloc(4 * n * k / (size_t)problem_group(&l.problem));
    l.in.bias = l.problem.bias ? calloc(n, dtype_bytes(l.problem.c)) : NULL;
    l.y = calloc((size_t)m * n, sizeof *l.y);
    assert_true(l.in.a && l.in.b && l.in.scales && l.y);
    if (l.problem.scale == QUERN_SCALE_NESTED) {
        l.in.absmax8 = malloc(n * k / (size_t)problem_group(&l.problem));
        l.in.code = malloc(256 * sizeof(float));
        l.in.offset = malloc(sizeof(float));
        assert_true(l.in.absmax8 && l.in.code && l.in.offset);
    }
    quant_random(&l.problem, m, seed, &l.in);
    return l;
}

static void free_layer(struct layer *l)
{
    free(l->in.a), free(l->in.b), free(l->in.scales), free(l->in.bias), free(l->y);
    free(l->in.absmax8), free(l->in.code), free(l->in.offset);
}

static void run_reference(struct layer *l, int64_t m)
{
    if (quant_reference(&l->problem, &l->in, m, l->y))
        fail_msg("%s", quern_last_error()->message);
}

static long double scale_by_formula(const struct layer *l, size_t block)
{
    if (l->problem.scale == QUERN_SCALE_F32)
        return (long double)((float *)l->in.scales)[block];
    if (l->problem.scale == QUERN_SCALE_E8M0)
        return ldexpl(1, ((uint8_t *)l->in.scales)[block] - 127);
    const float product = ((float *)l->in.code)[((uint8_t *)l->in.absmax8)[block]] *
                          ((float *)l->in.scales)[block / 256];
    return (long double)(product + *(float *)l->in.offset);
}

/* The product by its formula, in long double. */
static void check_layer(const char *text, int64_t m)
{
    struct layer l = make_layer(text, m, 7);
    const size_t n = (size_t)l.problem.n, k = (size_t)l.problem.k;
    const size_t group = (size_t)problem_group(&l.problem);
    const float *const table = quant_values(l.problem.wq);
    const bool low_first = l.problem.layout == QUERN_LAYOUT_K8;
    const uint8_t *const b = l.in.b;

    run_reference(&l, m);
    for (size_t row = 0; row < (size_t)m; row++)
        for (size_t col = 0; col < n; col++) {
            long double sum = l.in.bias ? (long double)quant_load(l.problem.c, l.in.bias, col) : 0;
            long double magnitude = 1;

            for (size_t i = 0; i < k; i++) {
                const size_t at = col * k + i;
                const unsigned code = at % 2 == low_first ? b[at / 2] >> 4 : b[at / 2] & 15u;
                const long double term = (long double)table[code] *
                                         scale_by_formula(&l, at / group) *
                                         (long double)quant_load(l.problem.a, l.in.a, row * k + i);
                sum += term;
                magnitude += fabsl(term);
            }
            if (fabsl(sum - (long double)l.y[row * n + col]) > 1e-15L * magnitude)
                fail_msg("%s, m=%d: y[%zu,%zu] is %.17g, not %.17g", text, (int)m, row, col,
                         l.y[row * n + col], (double)sum);
        }
    free_layer(&l);
}

static void test_reference_formula(void **state)
{
    (void)state;
    check_layer("wq=nf4 n=5 k=64 a=f32", 1);
    check_layer("wq=nf4 n=8 k=192 group=32 a=f16 bias=1", 3);
    check_layer("wq=fp4 n=33 k=256 group=128 a=bf16 bias=1 c=f32", 4);
    check_layer("wq=fp4 n=1 k=4096 group=4096 a=bf16", 9);
    check_layer("wq=nf4 n=300 k=64 a=f32 bias=1", 65);
    check_layer("wq=nf4 n=37 k=384 group=32 scale=nested a=bf16", 2);
    check_layer("wq=fp4 n=7 k=128 scale=nested a=f32 bias=1", 5);
    check_layer("wq=mxfp4 n=19 k=160 a=f16 bias=1", 3);
}

/* Enough work for several parts: the same bits on one CPU, and row by row. */
static void test_reference_order(void **state)
{
    enum { N = 1031, K = 1024, M = 5 };
    struct layer l = make_layer("wq=nf4 n=1031 k=1024 a=bf16 bias=1", M, 99);
    double *const all = malloc(sizeof(double) * N * M);
    cpu_set_t usual, one;

    (void)state;
    assert_non_null(all);
    run_reference(&l, M);
    memcpy(all, l.y, sizeof(double) * N * M);

    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof usual, &usual), 0);
    for (int cpu = 0; !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &usual))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    struct layer alone = make_layer("wq=nf4 n=1031 k=1024 a=bf16 bias=1", M, 99);
    run_reference(&alone, M);
    assert_int_equal(sched_setaffinity(0, sizeof usual, &usual), 0);
    assert_memory_equal(alone.in.a, l.in.a, 2 * K * M);
    assert_memory_equal(alone.in.b, l.in.b, N * K / 2);
    assert_memory_equal(alone.in.scales, l.in.scales, 4 * N * K / 64);
    assert_memory_equal(alone.y, all, sizeof(double) * N * M);
    free_layer(&alone);

    for (int m = 0; m < M; m++) {
        const union operand_pointers in = {
            .a = (uint16_t *)l.in.a + m * K, .b = l.in.b, .scales = l.in.scales, .bias = l.in.bias};
        assert_int_equal(quant_reference(&l.problem, &in, 1, l.y), QUERN_OK);
        assert_memory_equal(l.y, all + m * N, sizeof(double) * N);
    }
    free(all);
    free_layer(&l);
}

static void test_reference_refuses(void **state)
{
    const struct quern_problem p = t_problem("wq=nf4 n=2 k=64 a=f32");
    const struct quern_problem with_bias = t_problem("wq=nf4 n=2 k=64 a=f32 bias=1");
    const struct quern_problem tiles = t_problem("wq=nf4 n=2 k=64 a=f32 layout=tileN");
    float a[64] = {0}, scales[2] = {0}, bias[2] = {0};
    uint8_t b[64] = {0};
    double y[2];
    const union operand_pointers in = {.a = a, .b = b, .scales = scales};
    const union operand_pointers in_bias = {.a = a, .b = b, .scales = scales, .bias = bias};

    (void)state;
    assert_int_equal(quant_reference(&p, &in, 1, y), QUERN_OK);
    assert_int_equal(quant_reference(&p, &in, 0, y), QUERN_E_ARGUMENT);
    assert_int_equal(quant_reference(&p, &in_bias, 1, y), QUERN_E_ARGUMENT);
    assert_non_null(strstr(quern_last_error()->message, "bias is given, but the problem has none"));
    assert_int_equal(quant_reference(&with_bias, &in, 1, y), QUERN_E_ARGUMENT);
    assert_non_null(strstr(quern_last_error()->message, "bias is null"));
    assert_int_equal(quant_reference(&with_bias, &in_bias, 1, y), QUERN_OK);
    assert_int_equal(quant_reference(&tiles, &in, 1, y), QUERN_E_DECLINED);
    assert_non_null(strstr(quern_last_error()->message, "tileN"));
}

/* ---- Test operands --------------------------------------------------------------------------- */

static void test_random_distribution(void **state)
{
    enum { N = 512, K = 512, M = 64 };
    struct layer l = make_layer("wq=nf4 n=512 k=512 a=f32 bias=1", M, 3);
    const float *const a = l.in.a, *const scales = l.in.scales;
    unsigned seen[16] = {0};
    double sum = 0, squares = 0, least = 9, most = 0;

    (void)state;
    for (int i = 0; i < M * K; i++) {
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
    }
    assert_true(fabs(sum / (M * K)) < 0.02);
    assert_true(fabs(squares / (M * K) - 1) < 0.03);
    for (int i = 0; i < N * K / 64; i++) {
        least = fmin(least, (double)scales[i]);
        most = fmax(most, (double)scales[i]);
    }
    assert_true(least >= 0.5 / sqrt(K) && least < 0.51 / sqrt(K));
    assert_true(most > 1.49 / sqrt(K) && most <= 1.5 / sqrt(K));
    for (int i = 0; i < N * K / 2; i++)
        seen[((uint8_t *)l.in.b)[i] & 15]++;
    for (int i = 0; i < 16; i++)
        assert_true(seen[i] > N * K / 2 / 16 * 9 / 10 && seen[i] < N * K / 2 / 16 * 11 / 10);
    /* operands are independent: the bias does not repeat the activations */
    assert_memory_not_equal(l.in.bias, l.in.a, N * sizeof(float));
    free_layer(&l);
}

/* Known answers: operands made today and in ten years are the same, whatever the machine. */
static void test_random_fixed(void **state)
{
    struct layer l = make_layer("wq=nf4 n=4 k=64 a=f32 bias=1", 1, 1);
    struct layer again = make_layer("wq=nf4 n=4 k=64 a=f32 bias=1", 1, 1);
    struct layer other = make_layer("wq=nf4 n=4 k=64 a=f32 bias=1", 1, 2);

    (void)state;
    assert_memory_equal(l.in.a, again.in.a, 64 * sizeof(float));
    assert_memory_equal(l.in.b, again.in.b, 128);
    assert_memory_not_equal(l.in.a, other.in.a, 64 * sizeof(float));
    assert_memory_not_equal(l.in.b, other.in.b, 128);
    assert_true(((float *)l.in.a)[0] == 0x1.737p-3f && ((float *)l.in.a)[63] == 0x1.98eap-1f);
    assert_true(((uint8_t *)l.in.b)[0] == 0x68 && ((uint8_t *)l.in.b)[127] == 0x49);
    assert_true(((float *)l.in.scales)[3] == 0x1.1dc776p-4f);
    assert_true(((float *)l.in.bias)[3] == -0x1.174p-3f);
    free_layer(&l);
    free_layer(&again);
    free_layer(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_formula), cmocka_unit_test(test_reference_order),
        cmocka_unit_test(test_reference_refuses), cmocka_unit_test(test_random_distribution),
        cmocka_unit_test(test_random_fixed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
