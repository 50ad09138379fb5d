/* SPDX-License-Identifier: MIT */
/*
 * CPU arithmetic: conversions, bitsandbytes' 4-bit quantiser against its own answers, test
 * operands. Run from the top of the tree.
 *
 * This file is long because it has every format of weights, each against a definition of its own.
 */
#include "base/os.h"
#include "quant/quant.h"

#include <quern/tool.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static bool same_float(float x, float y)
{
    return bits_of(x) == bits_of(y) || (isnan(x) && isnan(y));
}

static struct quern_problem problem_of(const char *text)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);

    if (quern_problem_parse(text, &p))
        fail_msg("%s: %s", text, quern_last_error()->message);
    return p;
}

/* ---- Conversions ----------------------------------------------------------------------------- */

/* The value of a 16-bit float by its definition. */
static double value_of(unsigned bits, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double mantissa = bits & ((1u << mantissa_bits) - 1);
    const double sign = bits >> 15 ? -1 : 1;

    if (!exponent)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (double)(1u << mantissa_bits), exponent - bias - mantissa_bits);
}

/* Every finite value converts back and forth, and between any two neighbours the midpoint goes to
 * the even one and the floats next to the midpoint to the nearer one. That fixes every float. */
static void check_format(uint16_t (*from)(float), float (*to)(uint16_t), int exponent_bits,
                         int mantissa_bits)
{
    const unsigned infinity = ((1u << exponent_bits) - 1) << mantissa_bits;

    for (unsigned h = 0; h < infinity; h++) {
        const double low = value_of(h, exponent_bits, mantissa_bits);
        /* beyond the largest value, rounding acts as if the exponent went on */
        const double high = h + 1 < infinity
                                ? value_of(h + 1, exponent_bits, mantissa_bits)
                                : 2 * low - value_of(h - 1, exponent_bits, mantissa_bits);
        const float middle = (float)((low + high) / 2);
        const unsigned even = h % 2 ? h + 1 : h;

        assert_true((double)to((uint16_t)h) == low);
        assert_true((double)to((uint16_t)(h | 0x8000)) == -low);
        assert_int_equal(from((float)low), h);
        assert_int_equal(from((float)-low), h | 0x8000);
        assert_int_equal(from(middle), even);
        assert_int_equal(from(-middle), even | 0x8000);
        assert_int_equal(from(nextafterf(middle, -INFINITY)), h);
        assert_int_equal(from(nextafterf(middle, INFINITY)), h + 1);
    }
    assert_int_equal(from(INFINITY), infinity);
    assert_int_equal(from(-INFINITY), infinity | 0x8000);
    assert_true(to((uint16_t)infinity) == INFINITY);
    for (unsigned h = infinity + 1; h < 0x8000; h++) {
        assert_true(isnan(to((uint16_t)h)));
        assert_true(isnan(to(from(to((uint16_t)h)))));
    }
    /* a NaN whose payload lies below the half's mantissa must not become infinity */
    const uint32_t low_nan = 0x7f800001;
    float nan;
    memcpy(&nan, &low_nan, sizeof nan);
    assert_true(isnan(to(from(nan))));
}

static void test_f16(void **state)
{
    (void)state;
    check_format(quant_f16_from_f32, quant_f32_from_f16, 5, 10);
}

static void test_bf16(void **state)
{
    (void)state;
    check_format(quant_bf16_from_f32, quant_f32_from_bf16, 8, 7);
}

static void test_load_store(void **state)
{
    static const enum quern_dtype types[] = {QUERN_F32, QUERN_F16, QUERN_BF16};

    (void)state;
    for (size_t t = 0; t < 3; t++) {
        uint32_t array[4] = {0};

        quant_store(types[t], array, 1, -1.5f);
        assert_true(quant_load(types[t], array, 0) == 0.0f);
        assert_true(quant_load(types[t], array, 1) == -1.5f);
        assert_true(quant_load(types[t], array, 2) == 0.0f);
    }
}

/* ---- bitsandbytes ---------------------------------------------------------------------------- */

/* tests/peers/make_golden.py describes the format. */
#define GOLDEN "tests/golden/quant/bitsandbytes.bin"

struct reader {
    const char *at, *end;
};

/* The next line of a record, without its newline. */
static void read_line(struct reader *r, char line[128])
{
    const char *const newline = memchr(r->at, '\n', (size_t)(r->end - r->at));

    assert_non_null(newline);
    const size_t n = (size_t)(newline - r->at);
    assert_true(n < 128);
    memcpy(line, r->at, n);
    line[n] = 0;
    r->at = newline + 1;
}

static void *read_bytes(struct reader *r, size_t bytes)
{
    void *const copy = malloc(bytes);

    assert_non_null(copy);
    assert_true((size_t)(r->end - r->at) >= bytes);
    memcpy(copy, r->at, bytes);
    r->at += bytes;
    return copy;
}

static void check_record(struct reader *r, const char *name, const char *line, const float *w,
                         size_t count)
{
    char word[8];
    size_t group, again;

    assert_int_equal(sscanf(line, "quantised %7s %zu %zu", word, &group, &again), 3);
    assert_int_equal(again, count);
    const enum quern_weight wq = strcmp(word, "nf4") ? QUERN_W_FP4 : QUERN_W_NF4;
    const size_t bytes = (count + 1) / 2, blocks = (count + group - 1) / group;
    uint8_t *const packed = read_bytes(r, bytes), *const our_packed = malloc(bytes);
    float *const absmax = read_bytes(r, 4 * blocks), *const our_absmax = malloc(4 * blocks);
    float *const weights = read_bytes(r, 4 * count), *const our_weights = malloc(4 * count);

    quant_quantise_4bit(wq, w, count, group, our_packed, our_absmax);
    for (size_t i = 0; i < bytes; i++)
        if (packed[i] != our_packed[i])
            fail_msg("%s, %s, group %zu: weights %zu and %zu (%a, %a) became %02x, not %02x", name,
                     word, group, 2 * i, 2 * i + 1, (double)w[2 * i],
                     2 * i + 1 < count ? (double)w[2 * i + 1] : 0.0, our_packed[i], packed[i]);
    for (size_t i = 0; i < blocks; i++)
        if (!same_float(absmax[i], our_absmax[i]))
            fail_msg("%s, %s, group %zu: absmax %zu is %a, not %a", name, word, group, i,
                     (double)our_absmax[i], (double)absmax[i]);
    quant_dequantise_4bit(wq, packed, absmax, count, group, our_weights);
    for (size_t i = 0; i < count; i++)
        if (!same_float(weights[i], our_weights[i]))
            fail_msg("%s, %s, group %zu: dequantised weight %zu is %a, not %a", name, word, group,
                     i, (double)our_weights[i], (double)weights[i]);
    free(packed), free(our_packed), free(absmax), free(our_absmax), free(weights),
        free(our_weights);
}

static void check_nested_record(struct reader *r, const char *name, const float *absmax,
                                size_t count)
{
    const size_t runs = (count + 255) / 256;
    uint8_t *const absmax8 = read_bytes(r, count), *const ours = malloc(count);
    float *const code = read_bytes(r, 1024), our_code[256];
    float *const scales = read_bytes(r, 4 * runs), *const our_scales = malloc(4 * runs);
    float *const offset = read_bytes(r, 4);
    float *const restored = read_bytes(r, 4 * count), *const our_restored = malloc(4 * count);

    quant_nest_code(our_code);
    for (int i = 0; i < 256; i++)
        if (!same_float(code[i], our_code[i]))
            fail_msg("%s: code %d is %a, not %a", name, i, (double)our_code[i], (double)code[i]);
    /* the offset is a mean, which torch adds up in an order of its own */
    assert_true(fabsf(quant_nest_offset(absmax, count) - *offset) <= 2e-6f * *offset);
    quant_nest(absmax, count, code, *offset, ours, our_scales);
    for (size_t i = 0; i < count; i++)
        if (absmax8[i] != ours[i])
            fail_msg("%s: absmax %zu (%a) became %u, not %u", name, i, (double)absmax[i], ours[i],
                     absmax8[i]);
    for (size_t i = 0; i < runs; i++)
        if (!same_float(scales[i], our_scales[i]))
            fail_msg("%s: scale %zu is %a, not %a", name, i, (double)our_scales[i],
                     (double)scales[i]);
    quant_unnest(absmax8, code, scales, *offset, count, our_restored);
    assert_memory_equal(restored, our_restored, 4 * count);
    free(absmax8), free(ours), free(code), free(scales), free(our_scales), free(offset);
    free(restored), free(our_restored);
}

static void test_golden(void **state)
{
    char *file, line[128], name[64] = "";
    size_t size, count = 0, checked = 0, nested = 0, again;
    float *w = NULL;

    (void)state;
    if (os_read_file(GOLDEN, 1 << 22, &file, &size))
        fail_msg("cannot read %s; run from the top of the tree", GOLDEN);
    struct reader r = {file, file + size};
    while (r.at < r.end) {
        read_line(&r, line);
        if (sscanf(line, "weights %63s %zu", name, &count) == 2) {
            free(w);
            w = read_bytes(&r, 4 * count);
        } else if (sscanf(line, "nested %zu", &again) == 1) {
            assert_int_equal(again, count);
            check_nested_record(&r, name, w, count);
            nested++;
        } else {
            check_record(&r, name, line, w, count);
            checked++;
        }
    }
    assert_true(checked >= 30 && nested >= 6);
    free(w);
    free(file);
}

/* Each of the sixteen values survives, at any absmax whose products are exact. */
static void test_codes_survive(void **state)
{
    (void)state;
    for (int q = 0; q < 2; q++) {
        const enum quern_weight wq = q ? QUERN_W_FP4 : QUERN_W_NF4;
        const float *const table = q ? quant_fp4 : quant_nf4;
        float w[32], absmax, back[32];
        uint8_t packed[16];

        for (int i = 0; i < 32; i++)
            w[i] = table[i % 16] * 0.25f;
        quant_quantise_4bit(wq, w, 32, 32, packed, &absmax);
        assert_true(absmax == 0.25f);
        quant_dequantise_4bit(wq, packed, &absmax, 32, 32, back);
        assert_memory_equal(w, back, sizeof w);
    }
}

/* Blocks that different threads quantise are none the worse for it: block by block gives the same.
 */
static void test_many_blocks(void **state)
{
    enum { COUNT = 300000, GROUP = 96 };
    float *const w = malloc(4 * COUNT), *const back = malloc(4 * COUNT);
    float *const absmax = malloc(4 * COUNT / GROUP);
    uint8_t *const packed = malloc(COUNT / 2);

    (void)state;
    assert_true(w && back && absmax && packed);
    for (int i = 0; i < COUNT; i++)
        w[i] = (float)(i % 1009 * 7919 % 10007 - 5003) / (float)(1 + i % 37);
    quant_quantise_4bit(QUERN_W_NF4, w, COUNT, GROUP, packed, absmax);
    quant_dequantise_4bit(QUERN_W_NF4, packed, absmax, COUNT, GROUP, back);
    for (int i = 0; i < COUNT; i += GROUP) {
        uint8_t one_packed[GROUP / 2];
        float one_absmax, one_back[GROUP];

        quant_quantise_4bit(QUERN_W_NF4, w + i, GROUP, GROUP, one_packed, &one_absmax);
        quant_dequantise_4bit(QUERN_W_NF4, one_packed, &one_absmax, GROUP, GROUP, one_back);
        assert_memory_equal(one_packed, packed + i / 2, GROUP / 2);
        assert_memory_equal(&one_absmax, absmax + i / GROUP, sizeof one_absmax);
        assert_memory_equal(one_back, back + i, sizeof one_back);
    }
    free(w), free(back), free(absmax), free(packed);
}

/* ---- The public functions -------------------------------------------------------------------- */

static void test_api_round_trip(void **state)
{
    enum { N = 6, K = 128 };
    const struct quern_problem p = problem_of("wq=nf4 n=6 k=128 group=32 a=bf16");
    struct quern_quantized q[QUERN_OPERANDS_MAX];
    float w[N * K], back[N * K], absmax[N * K / 32];
    uint8_t packed[N * K / 2];
    size_t count = 0;

    (void)state;
    for (int i = 0; i < N * K; i++)
        w[i] = (float)((i * 7919) % 1009 - 504) / 300.0f;
    quant_quantise_4bit(QUERN_W_NF4, w, N * K, 32, packed, absmax);
    assert_int_equal(quern_quantize(&p, w, q, &count), QUERN_OK);
    assert_int_equal(count, 2);
    assert_string_equal(q[0].name, "b");
    assert_int_equal(q[0].bytes, sizeof packed);
    assert_memory_equal(q[0].data, packed, sizeof packed);
    assert_string_equal(q[1].name, "scales");
    assert_int_equal(q[1].bytes, sizeof absmax);
    assert_memory_equal(q[1].data, absmax, sizeof absmax);

    assert_int_equal(quern_dequantize(&p, q, count, back), QUERN_OK);
    quant_dequantise_4bit(QUERN_W_NF4, packed, absmax, N * K, 32, w);
    assert_memory_equal(back, w, sizeof w);

    /* operands are found by name, and must fit exactly */
    const struct quern_quantized swapped[2] = {q[1], q[0]};
    assert_int_equal(quern_dequantize(&p, swapped, 2, back), QUERN_OK);
    assert_memory_equal(back, w, sizeof w);
    assert_int_equal(quern_dequantize(&p, q, 1, back), QUERN_E_ARGUMENT);
    assert_non_null(strstr(quern_last_error()->message, "scales is missing; expected b, scales"));
    q[0].bytes--;
    assert_int_equal(quern_dequantize(&p, q, 2, back), QUERN_E_BUFFER);
    assert_non_null(
        strstr(quern_last_error()->message, "383 bytes; the problem needs exactly 384"));
    quern_quantized_free(q, count);
    assert_null(q[0].data);
    assert_null(q[1].data);
    quern_quantized_free(NULL, 0);
}

/* Quantised and restored, every weight is within half a gap between values of what it was. */
static void check_restored(const char *text, double gap, size_t operands)
{
    enum { N = 8, K = 4096 };
    const struct quern_problem p = problem_of(text);
    struct quern_quantized q[QUERN_OPERANDS_MAX];
    struct quern_operand expected[QUERN_OPERANDS_MAX];
    float *const w = malloc(4 * N * K), *const back = malloc(4 * N * K);
    size_t count = 0, of_problem;

    for (int i = 0; i < N * K; i++)
        w[i] = sinf((float)i * 0.37f) * (0.5f + (float)(i / 4096 % 3));
    assert_int_equal(quern_quantize(&p, w, q, &count), QUERN_OK);
    assert_int_equal(count, operands);
    assert_int_equal(quern_problem_operands(&p, 1, expected, &of_problem), QUERN_OK);
    for (size_t i = 0; i < count; i++) { /* in the problem's order, between a and c */
        assert_string_equal(q[i].name, expected[i + 1].name);
        assert_int_equal(q[i].bytes, expected[i + 1].bytes);
    }
    assert_int_equal(quern_dequantize(&p, q, count, back), QUERN_OK);
    for (int i = 0; i < N * K; i++)
        if (!(fabs((double)(w[i] - back[i])) <= gap * (0.5 + i / 4096 % 3)))
            fail_msg("%s: weight %d, %g, came back as %g", text, i, (double)w[i], (double)back[i]);
    quern_quantized_free(q, count);
    free(w), free(back);
}

static void test_formats_restore(void **state)
{
    (void)state;
    check_restored("wq=nf4 n=8 k=4096 a=f16", 0.16, 2);
    check_restored("wq=nf4 n=8 k=4096 a=f16 scale=nested", 0.17, 5);
    check_restored("wq=fp4 n=8 k=4096 group=32 a=f16 scale=nested", 0.18, 5);
    check_restored("wq=mxfp4 n=8 k=4096 a=f16", 0.26, 2);
}

static void test_mxfp4(void **state)
{
    /* one block: its largest magnitude, 6.5 * 2^-3, decides on a scale of 2^-3 */
    static const struct {
        float w;
        unsigned code;
    } cases[] = {{6.5f, 7},   {6, 7},      {5.01f, 7},  {5, 6},     {3.5f, 6},  {3.49f, 5},
                 {2.51f, 5},  {2.5f, 4},   {1.75f, 4},  {1.74f, 3}, {1.26f, 3}, {1.25f, 2},
                 {0.75f, 2},  {0.74f, 1},  {0.26f, 1},  {0.25f, 0}, {0, 0},     {-0.0f, 8},
                 {-0.25f, 8}, {-0.26f, 9}, {-6.5f, 15}, {-5, 14},   {-1, 10},   {-2, 12}};
    enum { COUNT = sizeof cases / sizeof *cases };
    const struct quern_problem p = problem_of("wq=mxfp4 n=1 k=32 a=f32");
    float w[32] = {0}, back[32];
    uint8_t packed[16], scale;

    (void)state;
    for (int i = 0; i < COUNT; i++)
        w[i] = cases[i].w / 8;
    quant_quantise_mxfp4(w, 32, packed, &scale);
    assert_int_equal(scale, 127 - 3);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(packed[i / 2] >> i % 2 * 4 & 15, cases[i].code);
    const union operand_pointers in = {.b = packed, .scales = &scale};
    assert_int_equal(quant_dequantise(&p, &in, back), QUERN_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(back[i] == quant_e2m1[cases[i].code] / 8);
    assert_true(signbit(back[17]) && !signbit(back[16]));

    /* the ends of the scale's range */
    for (int i = 0; i < 32; i++)
        w[i] = 0;
    quant_quantise_mxfp4(w, 32, packed, &scale);
    assert_int_equal(scale, 0);
    w[3] = 0x1.8p127f;
    quant_quantise_mxfp4(w, 32, packed, &scale);
    assert_int_equal(scale, 252);
    assert_int_equal(packed[1], 0x70);
    w[3] = 0x1p-149f;
    quant_quantise_mxfp4(w, 32, packed, &scale);
    assert_int_equal(scale, 0);
    w[3] = -INFINITY;
    quant_quantise_mxfp4(w, 32, packed, &scale);
    assert_int_equal(scale, 255);
    assert_int_equal(quant_dequantise(&p, &in, back), QUERN_OK);
    for (int i = 0; i < 32; i++)
        assert_true(isnan(back[i]));
    assert_true(quant_f32_from_e8m0(0) == 0x1p-127f && quant_f32_from_e8m0(254) == 0x1p127f);
}

static void test_api_declines(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"wq=int4 n=32 k=128 a=f16 layout=tileN", "tileN"},
        {"wq=mxfp4 n=32 k=128 a=f16 layout=tileN", "tileN"},
        {"wq=fp4 n=32 k=128 a=f16 layout=tileN", "tileN"},
    };
    static float w[32 * 128];
    struct quern_quantized q[QUERN_OPERANDS_MAX];
    size_t count;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct quern_problem p = problem_of(cases[i].text);

        assert_int_equal(quern_quantize(&p, w, q, &count), QUERN_E_DECLINED);
        assert_non_null(strstr(quern_last_error()->message, cases[i].reason));
        assert_int_equal(quern_dequantize(&p, q, 0, w), QUERN_E_DECLINED);
    }
    struct quern_problem p = problem_of("wq=nf4 n=32 k=128 a=f16");
    assert_int_equal(quern_quantize(&p, NULL, q, &count), QUERN_E_ARGUMENT);
    assert_int_equal(quern_quantize(&p, w, NULL, &count), QUERN_E_ARGUMENT);
    assert_int_equal(quern_quantize(NULL, w, q, &count), QUERN_E_ARGUMENT);
    p.k = 100;
    assert_int_equal(quern_quantize(&p, w, q, &count), QUERN_E_PROBLEM);
}

static void *no_memory(size_t size)
{
    (void)size;
    return NULL;
}

static void *no_memory_for(size_t count, size_t size)
{
    (void)count, (void)size;
    return NULL;
}

static void test_no_memory(void **state)
{
    const struct quern_problem p = problem_of("wq=nf4 n=2 k=64 a=f32");
    const struct os real = os;
    struct quern_quantized q[QUERN_OPERANDS_MAX];
    float w[128] = {0}, a[64] = {0}, scales[2] = {0};
    uint8_t b[64] = {0};
    double y[2];
    size_t count;

    (void)state;
    os.malloc = no_memory;
    os.calloc = no_memory_for;
    const quern_status quantised = quern_quantize(&p, w, q, &count);
    const quern_status product =
        quant_reference(&p, &(union operand_pointers){.a = a, .b = b, .scales = scales}, 1, y);
    os = real;
    assert_int_equal(quantised, QUERN_E_MEMORY);
    assert_int_equal(product, QUERN_E_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_load_store),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_codes_survive),
        cmocka_unit_test(test_many_blocks),
        cmocka_unit_test(test_api_round_trip),
        cmocka_unit_test(test_formats_restore),
        cmocka_unit_test(test_mxfp4),
        cmocka_unit_test(test_api_declines),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
