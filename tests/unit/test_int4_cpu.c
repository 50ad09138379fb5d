/* SPDX-License-Identifier: MIT */
/* int4 on the CPU: layouts by their definition, quantiser, values, the reference product. */
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

static struct quern_problem problem_of(const char *text)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);

    if (quern_problem_parse(text, &p))
        fail_msg("%s: %s", text, quern_last_error()->message);
    return p;
}

static const enum quern_layout layouts[] = {QUERN_LAYOUT_K8, QUERN_LAYOUT_EXL, QUERN_LAYOUT_CK,
                                            QUERN_LAYOUT_GPTQ, QUERN_LAYOUT_AWQ};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

/* ---- Layouts --------------------------------------------------------------------------------- */

/* Where docs/formats.md says that weight (n, k) lies: which word, and which of its nibbles. */
static unsigned code_at(enum quern_layout layout, const uint32_t *b, size_t rows, size_t columns,
                        size_t n, size_t k)
{
    static const unsigned order[8] = {0, 4, 1, 5, 2, 6, 3, 7}; /* of element i: the nibble */

    switch (layout) {
    case QUERN_LAYOUT_K8:
        return b[n * (columns / 8) + k / 8] >> 4 * (k % 8) & 15;
    case QUERN_LAYOUT_EXL:
        return b[n * (columns / 8) + k / 8] >> 4 * order[k % 8] & 15;
    case QUERN_LAYOUT_CK:
        return b[(k / 32 * rows + n) * 4 + k % 32 / 8] >> 4 * order[k % 8] & 15;
    case QUERN_LAYOUT_GPTQ:
        return b[k / 8 * rows + n] >> 4 * (k % 8) & 15;
    default:
        return b[k * (rows / 8) + n / 8] >> 4 * order[n % 8] & 15;
    }
}

static void check_layouts(int64_t n, int64_t k)
{
    struct quern_problem p = problem_of("wq=int4 n=8 k=32 group=32 a=f16");
    const size_t bytes = (size_t)(n * k / 2);
    uint32_t *const from = malloc(bytes), *const to = malloc(bytes), *const back = malloc(bytes);

    p.n = n, p.k = k;
    for (size_t i = 0; i < LAYOUTS; i++) {
        if (layouts[i] == QUERN_LAYOUT_AWQ && n % 8)
            continue;
        p.layout = layouts[i];
        quant_random(&p, 1, (uint64_t)(n * k) + i, &(union operand_pointers){.b = from});
        for (size_t j = 0; j < LAYOUTS; j++) {
            struct quern_problem q = p;
            if (layouts[j] == QUERN_LAYOUT_AWQ && n % 8)
                continue;
            q.layout = layouts[j];
            assert_int_equal(quern_repack(&p, layouts[j], from, to), QUERN_OK);
            for (size_t r = 0; r < (size_t)n; r++)
                for (size_t c = 0; c < (size_t)k; c++)
                    if (code_at(p.layout, from, (size_t)n, (size_t)k, r, c) !=
                        code_at(q.layout, to, (size_t)n, (size_t)k, r, c))
                        fail_msg("%s to %s, n=%d k=%d: weight [%zu,%zu] is another",
                                 layout_name(p.layout), layout_name(q.layout), (int)n, (int)k, r,
                                 c);
            assert_int_equal(quern_repack(&q, p.layout, to, back), QUERN_OK);
            assert_memory_equal(back, from, bytes);
        }
    }
    free(from), free(to), free(back);
}

static void test_layouts(void **state)
{
    (void)state;
    check_layouts(8, 32);
    check_layouts(1, 32);
    check_layouts(131, 160); /* tiles that are not full, both ways */
    check_layouts(136, 416);
    check_layouts(264, 128);
}

static void test_repack_refuses(void **state)
{
    const struct quern_problem p = problem_of("wq=int4 n=4 k=32 group=32 a=f16");
    const struct quern_problem forty = problem_of("wq=int4 n=8 k=40 group=channel a=f16");
    const struct quern_problem nf4 = problem_of("wq=nf4 n=4 k=64 a=f16");
    const struct quern_problem tile = problem_of("wq=int4 n=4 k=32 group=32 a=f16 layout=tileN");
    uint32_t b[64] = {0}, out[64];

    (void)state;
    assert_int_equal(quern_repack(&p, QUERN_LAYOUT_EXL, b, out), QUERN_OK);
    assert_int_equal(quern_repack(&p, QUERN_LAYOUT_AWQ, b, out), QUERN_E_PROBLEM);
    assert_non_null(strstr(quern_last_error()->message, "n=4 is not a multiple of 8"));
    assert_int_equal(quern_repack(&forty, QUERN_LAYOUT_CK, b, out), QUERN_E_PROBLEM);
    assert_non_null(strstr(quern_last_error()->message, "k=40 is not a multiple of 32"));
    assert_int_equal(quern_repack(&p, QUERN_LAYOUT_TILEN, b, out), QUERN_E_DECLINED);
    assert_int_equal(quern_repack(&p, QUERN_LAYOUT_BNB, b, out), QUERN_E_PROBLEM);
    assert_int_equal(quern_repack(&tile, QUERN_LAYOUT_K8, b, out), QUERN_E_DECLINED);
    assert_int_equal(quern_repack(&nf4, QUERN_LAYOUT_K8, b, out), QUERN_E_DECLINED);
    assert_int_equal(quern_repack(&p, QUERN_LAYOUT_EXL, NULL, out), QUERN_E_ARGUMENT);
    assert_int_equal(quern_repack(&p, QUERN_LAYOUT_EXL, b, NULL), QUERN_E_ARGUMENT);
    assert_int_equal(quern_repack(&p, QUERN_LAYOUT_EXL, b, b + 8), QUERN_E_ARGUMENT);
    assert_int_equal(quern_repack(&p, QUERN_LAYOUT_EXL, (char *)b + 1, out), QUERN_E_ALIGN);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Quantised and restored, no weight is further off than half a step, rounding of s aside. */
static void check_restored(const char *text)
{
    enum { N = 16, K = 256 };
    const struct quern_problem p = problem_of(text);
    const size_t group = (size_t)problem_group(&p);
    struct quern_quantized q[QUERN_OPERANDS_MAX];
    float w[N * K], back[N * K];
    size_t count;

    for (int i = 0; i < N * K; i++)
        w[i] = sinf((float)i * 0.37f) * (0.5f + (float)(i / K % 3)) + (float)(i / K % 2) * 0.3f;
    assert_int_equal(quern_quantize(&p, w, q, &count), QUERN_OK);
    assert_int_equal(count, p.zero == QUERN_ZERO_NONE ? 2 : 3);
    assert_int_equal(quern_dequantize(&p, q, count, back), QUERN_OK);
    for (size_t i = 0; i < N * K; i++) {
        const double s = (double)quant_load(problem_scale_type(&p), q[1].data, i / group);
        if (!(fabs((double)w[i] - (double)back[i]) <= 0.54 * s))
            fail_msg("%s: weight %zu, %g, came back as %g; a step is %g", text, i, (double)w[i],
                     (double)back[i], s);
    }
    quern_quantized_free(q, count);
}

static void test_restored(void **state)
{
    (void)state;
    check_restored("wq=int4 n=16 k=256 a=f16");
    check_restored("wq=int4 n=16 k=256 group=32 a=bf16");
    check_restored("wq=int4 n=16 k=256 group=64 a=f16 scale=f32 zero=u8 layout=exl");
    check_restored("wq=int4 n=16 k=256 group=channel a=bf16 zero=u8 layout=gptq");
    check_restored("wq=int4 n=16 k=256 a=f16 zero=scaled layout=ck");
    check_restored("wq=int4 n=16 k=256 group=32 a=bf16 zero=scaled layout=awq");
}

/* Groups of zeros, of one value, of values that the scale's type cannot hold, and with a NaN. */
static void test_odd_groups(void **state)
{
    enum { N = 5, K = 32 };
    static const char *const zeros[] = {"none", "u8", "scaled"};
    float w[N * K] = {0}, back[N * K];

    (void)state;
    for (int i = 0; i < K; i++) {
        w[K + i] = 0.75f;
        w[2 * K + i] = i == 7 ? NAN : 1;
        w[3 * K + i] = i == 7 ? -INFINITY : 1;
        w[4 * K + i] = i % 2 ? 3e6f : -3e6f; /* a step is beyond f16 */
    }
    for (size_t z = 0; z < 3; z++) {
        struct quern_quantized q[QUERN_OPERANDS_MAX];
        char text[96];
        size_t count;

        snprintf(text, sizeof text, "wq=int4 n=5 k=32 group=32 a=f16 zero=%s", zeros[z]);
        const struct quern_problem p = problem_of(text);
        assert_int_equal(quern_quantize(&p, w, q, &count), QUERN_OK);
        assert_int_equal(quern_dequantize(&p, q, count, back), QUERN_OK);
        for (int i = 0; i < K; i++) {
            assert_true(back[i] == 0);
            assert_true(fabsf(back[K + i] - 0.75f) < 0.06f);
            assert_true(isnan(back[2 * K + i]) && isnan(back[3 * K + i]) && isnan(back[4 * K + i]));
        }
        quern_quantized_free(q, count);
    }
}

/* A zero point may be any byte. */
static void test_wide_zero(void **state)
{
    const struct quern_problem p = problem_of("wq=int4 n=1 k=32 group=32 a=f16 zero=u8");
    uint32_t b[4] = {0x76543210, 0xfedcba98, 0, ~0u};
    uint16_t scale = quant_f16_from_f32(0.25f);
    uint8_t zero = 200;
    const union operand_pointers in = {.b = b, .scales = &scale, .zeros = &zero};
    float w[32];

    (void)state;
    assert_int_equal(quant_dequantise(&p, &in, w), QUERN_OK);
    for (int i = 0; i < 16; i++)
        assert_true(w[i] == (float)(i - 200) * 0.25f);
    assert_true(w[16] == -50.0f && w[31] == -46.25f);
}

/* ---- The reference --------------------------------------------------------------------------- */

static void check_reference(const char *text, int64_t m)
{
    const struct quern_problem p = problem_of(text);
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    void *memory[QUERN_OPERANDS_MAX] = {0};
    union operand_pointers out = {0};
    const struct {
        const char *name;
        void **at;
    } places[] = {{"a", &out.a},
                  {"b", &out.b},
                  {"scales", &out.scales},
                  {"bias", &out.bias},
                  {"zeros", &out.zeros}};
    const size_t n = (size_t)p.n, k = (size_t)p.k, group = (size_t)problem_group(&p);
    const enum quern_dtype type = problem_scale_type(&p);
    double *const y = calloc((size_t)m * n, sizeof *y);
    size_t count;

    assert_int_equal(quern_problem_operands(&p, m, operands, &count), QUERN_OK);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < sizeof places / sizeof *places; j++)
            if (!strcmp(operands[i].name, places[j].name))
                *places[j].at = memory[i] = calloc(1, operands[i].bytes);
    quant_random(&p, m, 11, &out);
    const union operand_pointers in = {
        .a = out.a, .b = out.b, .scales = out.scales, .bias = out.bias, .zeros = out.zeros};
    if (quant_reference(&p, &in, m, y))
        fail_msg("%s: %s", text, quern_last_error()->message);
    for (size_t row = 0; row < (size_t)m; row++)
        for (size_t col = 0; col < n; col++) {
            long double sum = p.bias ? (long double)quant_load(p.c, out.bias, col) : 0;
            long double magnitude = 1;
            for (size_t i = 0; i < k; i++) {
                const size_t at = col * (k / group) + i / group;
                const int q = (int)code_at(p.layout, out.b, n, k, col, i);
                const int z = p.zero == QUERN_ZERO_U8 ? ((uint8_t *)out.zeros)[at] : 8;
                const long double s = (long double)quant_load(type, out.scales, at);
                const long double zs =
                    p.zero == QUERN_ZERO_SCALED ? (long double)quant_load(type, out.zeros, at) : 0;
                const long double term = ((long double)(q - z) * s - zs) *
                                         (long double)quant_load(p.a, out.a, row * k + i);
                sum += term;
                magnitude += fabsl(term);
            }
            if (fabsl(sum - (long double)y[row * n + col]) > 1e-15L * magnitude)
                fail_msg("%s: y[%zu,%zu] is %.17g, not %.17g", text, row, col, y[row * n + col],
                         (double)sum);
        }
    for (size_t i = 0; i < count; i++)
        free(memory[i]);
    free(y);
}

static void test_reference(void **state)
{
    (void)state;
    check_reference("wq=int4 n=5 k=256 a=f16", 3);
    check_reference("wq=int4 n=37 k=96 group=32 a=bf16 zero=u8 layout=exl bias=1", 2);
    check_reference("wq=int4 n=9 k=128 group=64 a=f16 scale=f32 zero=scaled layout=ck", 5);
    check_reference("wq=int4 n=16 k=192 group=64 a=bf16 zero=scaled layout=awq bias=1", 1);
    check_reference("wq=int4 n=7 k=104 group=channel a=f16 scale=bf16 zero=u8 layout=gptq", 4);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static size_t allocations_left;
static void *(*real_malloc)(size_t size);

static void *some_memory(size_t size)
{
    if (!allocations_left)
        return NULL;
    allocations_left--;
    return real_malloc(size);
}

/* Every allocation may fail: an error each time, nothing leaked (the sanitizers say), no crash. */
static void test_no_memory(void **state)
{
    const struct quern_problem p = problem_of("wq=int4 n=8 k=64 group=32 a=f16 zero=u8 layout=exl");
    const struct os real = os;
    uint32_t qweight[64] = {0}, qzeros[2] = {0};
    uint16_t scales[16] = {0};
    int32_t g_idx[64];
    float w[512] = {0};
    struct quern_checkpoint c = {.size = sizeof c,
                                 .kind = QUERN_CHECKPOINT_GPTQ,
                                 .qweight = qweight,
                                 .qweight_bytes = sizeof qweight,
                                 .scales = scales,
                                 .scales_bytes = sizeof scales,
                                 .qzeros = qzeros,
                                 .qzeros_bytes = sizeof qzeros,
                                 .g_idx = g_idx,
                                 .g_idx_bytes = sizeof g_idx};
    struct quern_quantized q[QUERN_OPERANDS_MAX];
    size_t count, failures = 0;

    (void)state;
    for (int i = 0; i < 64; i++)
        g_idx[i] = i % 2;
    real_malloc = real.malloc;
    for (int import = 0; import < 2; import++)
        for (size_t most = 0;; most++) {
            allocations_left = most;
            os.malloc = some_memory;
            const quern_status status =
                import ? quern_import(&p, &c, q, &count) : quern_quantize(&p, w, q, &count);
            os = real;
            if (status == QUERN_OK) {
                assert_true(most >= 3);
                assert_int_equal(count, import ? 4 : 3);
                quern_quantized_free(q, count);
                break;
            }
            assert_int_equal(status, QUERN_E_MEMORY);
            failures++;
        }
    assert_true(failures >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),   cmocka_unit_test(test_repack_refuses),
        cmocka_unit_test(test_restored),  cmocka_unit_test(test_odd_groups),
        cmocka_unit_test(test_wide_zero), cmocka_unit_test(test_reference),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
