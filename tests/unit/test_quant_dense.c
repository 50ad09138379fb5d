/* SPDX-License-Identifier: MIT */
/* CPU arithmetic of weights in layout dense: e4m3 by its definition, code by code; quantising and
 * back; the reference product with its scales. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"

#include "quant/quant.h"

#include <math.h>
#include <string.h>

/* ---- e4m3 ------------------------------------------------------------------------------------ */

/* A sign, four bits of exponent, three of mantissa. */
static double value_of(unsigned code, bool fnuz)
{
    const int bias = fnuz ? 8 : 7, exponent = (int)(code >> 3 & 15);
    const double mantissa = (code & 7) / 8.0, sign = code & 0x80 ? -1 : 1;

    if (fnuz ? code == 0x80 : (code & 0x7f) == 0x7f)
        return NAN;
    return exponent ? sign * ldexp(1 + mantissa, exponent - bias)
                    : sign * ldexp(mantissa, 1 - bias);
}

/* Every code is its value and comes back; midpoints go to the even code, and the floats next to
 * them to the nearer one. That fixes every float. */
static void check_codes(bool fnuz)
{
    for (unsigned code = 0; code < 256; code++) {
        const double want = value_of(code, fnuz);
        const float got = quant_f32_from_fp8((uint8_t)code, fnuz);
        if (isnan(want)) {
            assert_true(isnan(got));
            assert_true(isnan(quant_f32_from_fp8(quant_fp8_from_f32(got, fnuz), fnuz)));
            continue;
        }
        assert_true((double)got == want && !signbit(got) == !signbit(want));
        assert_int_equal(quant_fp8_from_f32(got, fnuz), code);
        const double next = value_of((code & 0x7f) + 1, fnuz);
        if ((code & 0x7f) == 0x7f || isnan(next))
            continue;
        const float middle = (float)((fabs(want) + next) / 2);
        const unsigned sign = code & 0x80, low = code & 0x7f;
        const float way = sign ? -middle : middle;
        assert_int_equal(quant_fp8_from_f32(way, fnuz) & 0x7f, low + (low & 1));
        assert_int_equal(quant_fp8_from_f32(nextafterf(way, 0), fnuz) & 0x7f, low);
        assert_int_equal(quant_fp8_from_f32(nextafterf(way, way * 2), fnuz), (low + 1) | sign);
    }
}

static void test_fp8(void **state)
{
    (void)state;
    check_codes(false);
    check_codes(true);
    /* published: largest and smallest values, and one */
    assert_true(quant_f32_from_fp8(0x7e, false) == 448 && quant_f32_from_fp8(0x7f, true) == 240);
    assert_true(quant_f32_from_fp8(0x01, false) == 0x1p-9f);
    assert_true(quant_f32_from_fp8(0x01, true) == 0x1p-10f);
    assert_true(quant_f32_from_fp8(0x38, false) == 1 && quant_f32_from_fp8(0x40, true) == 1);
    assert_int_equal(quant_fp8_from_f32(1e30f, false), 0x7e);
    assert_int_equal(quant_fp8_from_f32(-1e30f, true), 0xff);
    assert_int_equal(quant_fp8_from_f32(INFINITY, false), 0x7f);
    assert_int_equal(quant_fp8_from_f32(-INFINITY, true), 0x80);
    assert_int_equal(quant_fp8_from_f32(-0.0f, false), 0x80);
    assert_int_equal(quant_fp8_from_f32(-0.0f, true), 0);
    assert_int_equal(quant_fp8_from_f32(-1e-9f, true), 0);
}

/* ---- Weights --------------------------------------------------------------------------------- */

enum { N = 3, K = 40 };

/* Quantised and back, the largest error is half a unit in the last place. */
static void check_round_trip(const char *text, size_t operands, double relative)
{
    const struct quern_problem p = t_problem(text);
    struct quern_quantized q[QUERN_OPERANDS_MAX];
    float w[N * K], back[N * K];
    size_t count;

    for (int i = 0; i < N * K; i++)
        w[i] = ldexpf((float)(i * 37 % 101 - 50), -8); /* the largest is 50/256 */
    assert_int_equal(quern_quantize(&p, w, q, &count), QUERN_OK);
    assert_int_equal(count, operands);
    assert_string_equal(q[0].name, "b");
    assert_int_equal(quern_dequantize(&p, q, count, back), QUERN_OK);
    for (int i = 0; i < N * K; i++)
        assert_true(fabs((double)back[i] - (double)w[i]) <= relative * fabs((double)w[i]) + 1e-5);
    quern_quantized_free(q, count);
}

static void test_round_trip(void **state)
{
    (void)state;
    check_round_trip("wq=none n=3 k=40 a=f32", 1, 0);
    check_round_trip("wq=none n=3 k=40 a=f16", 1, 0x1p-11);
    check_round_trip("wq=none n=3 k=40 a=bf16", 1, 0x1p-8);
    check_round_trip("wq=fp8 n=3 k=40 a=fp8", 2, 0x1p-4 + 1e-6);
    check_round_trip("wq=fp8fnuz n=3 k=40 a=bf16", 2, 0x1p-4 + 1e-6);
    check_round_trip("wq=fp8 scale=block128 n=3 k=40 a=bf16", 2, 0x1p-4 + 1e-6);
}

/* What cannot be scaled: zeros keep a scale of 1, and a NaN stays one. */
static void test_odd_weights(void **state)
{
    const struct quern_problem p = t_problem("wq=fp8 n=1 k=4 a=fp8");
    const float zeros[4] = {0}, odd[4] = {NAN, -448, INFINITY, 224};
    struct quern_quantized q[QUERN_OPERANDS_MAX];
    float back[4];
    size_t count;

    (void)state;
    assert_int_equal(quern_quantize(&p, zeros, q, &count), QUERN_OK);
    assert_string_equal(q[1].name, "b_scale");
    assert_true(*(const float *)q[1].data == 1);
    quern_quantized_free(q, count);
    assert_int_equal(quern_quantize(&p, odd, q, &count), QUERN_OK);
    assert_int_equal(quern_dequantize(&p, q, count, back), QUERN_OK);
    assert_true(isnan(back[0]) && back[1] == -448 && isnan(back[2]) && back[3] == 224);
    quern_quantized_free(q, count);
}

/* ---- The reference --------------------------------------------------------------------------- */

static void test_reference(void **state)
{
    const struct quern_problem p = t_problem("wq=fp8 n=2 k=3 a=fp8 c=f32 bias=1");
    uint8_t a[3] = {0x38, 0xc0, 0x01}, b[6] = {0x40, 0x38, 0x7e, 0x80, 0xb8, 0x00};
    float a_scale = 0.5f, b_scale = 3, bias[2] = {10, -1};
    union operand_pointers in = {
        .a = a, .b = b, .bias = bias, .a_scale = &a_scale, .b_scale = &b_scale};
    double y[2];

    (void)state;
    /* a = 1, -2, 2^-9; rows of W = 2, 1, 448 and -0, -1, 0 */
    assert_int_equal(quant_reference(&p, &in, 1, y), QUERN_OK);
    assert_true(y[0] == (2 - 2 + 448 / 512.0) * 1.5 + 10 && y[1] == 2 * 1.5 - 1);
    in.b_scale = NULL;
    assert_int_equal(quant_reference(&p, &in, 1, y), QUERN_E_ARGUMENT);
    assert_non_null(strstr(quern_last_error()->message, "b_scale is null"));
}

/* ---- Scales of blocks ------------------------------------------------------------------------ */

enum { BLOCKS_N = 130, BLOCKS_K = 300 }; /* two by three blocks */

/* Each block's largest weight becomes the largest value: 448 times its scale. */
static void test_block_scales(void **state)
{
    const struct quern_problem p = t_problem("wq=fp8 scale=block128 n=130 k=300 a=bf16");
    static float w[BLOCKS_N * BLOCKS_K], back[BLOCKS_N * BLOCKS_K];
    struct quern_quantized q[QUERN_OPERANDS_MAX];
    size_t count;

    (void)state;
    for (int n = 0; n < BLOCKS_N; n++)
        for (int k = 0; k < BLOCKS_K; k++)
            w[n * BLOCKS_K + k] = (n % 2 ? 448.0f : 28.0f) * (float)(1 << (n / 128 * 3 + k / 128));
    assert_int_equal(quern_quantize(&p, w, q, &count), QUERN_OK);
    assert_int_equal(count, 2);
    assert_int_equal(q[1].bytes, 2 * 3 * sizeof(float));
    for (int i = 0; i < 6; i++)
        assert_true(((const float *)q[1].data)[i] == (float)(1 << i));
    assert_int_equal(quern_dequantize(&p, q, count, back), QUERN_OK);
    assert_memory_equal(back, w, sizeof w);
    quern_quantized_free(q, count);
}

/* y = sum of w · s · a · s', by hand: rows of W in two blocks, columns in two. */
static void test_block_reference(void **state)
{
    const struct quern_problem p = t_problem("wq=fp8 scale=block128 n=130 k=129 a=fp8 c=f32");
    static uint8_t a[2 * 129], b[130 * 129];
    const float a_scale[] = {0.5f, 3, 2, 0.25f}, b_scale[] = {1, 2, 4, 8};
    const union operand_pointers in = {
        .a = a, .b = b, .a_scale = (void *)a_scale, .b_scale = (void *)b_scale};
    double y[2 * 130];

    (void)state;
    memset(a, 0x38, sizeof a); /* 1 */
    memset(b, 0x40, sizeof b); /* 2 */
    assert_int_equal(quant_reference(&p, &in, 2, y), QUERN_OK);
    assert_true(y[0] == 128 * 2 * 0.5 * 1 + 2 * 3 * 2 && y[127] == y[0]);
    assert_true(y[128] == 128 * 2 * 0.5 * 4 + 2 * 3 * 8 && y[129] == y[128]);
    assert_true(y[130] == 128 * 2 * 2 * 1 + 2 * 0.25 * 2 && y[258] == 128 * 2 * 2 * 4 + 4);
}

/* Scales that a kernel is verified with are far apart, so that another block's is seen. */
static void test_random_scales(void **state)
{
    const struct quern_problem p = t_problem("wq=fp8 scale=block128 n=500 k=500 a=fp8");
    float a_scale[7 * 4], b_scale[4 * 4];
    const union operand_pointers out = {.a_scale = a_scale, .b_scale = b_scale};

    (void)state;
    quant_random(&p, 7, 1, &out);
    for (int i = 1; i < 7 * 4; i++)
        assert_true(fabs((double)a_scale[i] / (double)a_scale[i - 1] - 1) > 0.01);
    for (int i = 1; i < 4 * 4; i++)
        assert_true(fabs((double)b_scale[i] / (double)b_scale[i - 1] - 1) > 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp8),           cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_odd_weights),   cmocka_unit_test(test_reference),
        cmocka_unit_test(test_block_scales),  cmocka_unit_test(test_block_reference),
        cmocka_unit_test(test_random_scales),
    };

    return cmocka_run_group_tests_name("quant_dense", tests, NULL, NULL);
}
