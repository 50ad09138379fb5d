/* SPDX-License-Identifier: MIT */
/* Floats of eight bits and fewer on gfx9: in two flavours, and gfx950's conversions. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "every/gfx9_values.h"

/* ---- Small floats by search ------------------------------------------------------------------ */

static const struct format {
    unsigned exponent, mantissa;
    int bias;
    unsigned most;                 /* code of the largest number */
    unsigned large, infinity, nan; /* codes of what is larger, of infinity, of NaN */
    bool no_minus_zero;
} fp8 = {4, 3, 7, 0x7e, 0x7f, 0x7f, 0x7f, false}, bf8 = {5, 2, 15, 0x7b, 0x7c, 0x7c, 0x7f, false},
  fp8_fnuz = {4, 3, 8, 0x7f, 0x80, 0x80, 0x80, true},
  bf8_fnuz = {5, 2, 16, 0x7f, 0x80, 0x80, 0x80, true}, fp4 = {2, 1, 1, 7, 7, 7, 7, false};

/* The number of a code without sign; also of the code above the largest, had it one. */
static double number_of(const struct format *f, unsigned code)
{
    const unsigned e = code >> f->mantissa, m = code & ((1u << f->mantissa) - 1);

    return e ? ldexp(m + (double)(1u << f->mantissa), (int)e - f->bias - (int)f->mantissa)
             : ldexp(m, 1 - f->bias - (int)f->mantissa);
}

static double decode(const struct format *f, unsigned code)
{
    const unsigned magnitude = code & ((1u << (f->exponent + f->mantissa)) - 1);
    const double sign = code >> (f->exponent + f->mantissa) & 1 ? -1 : 1;

    if (f->no_minus_zero ? code == 0x80 : magnitude > f->most)
        return f->infinity != f->nan && magnitude == f->infinity ? sign * (double)INFINITY
                                                                 : (double)NAN;
    return sign * number_of(f, magnitude);
}

/* To nearest, of two equally near the even code; or the next toward zero. */
static unsigned encode(const struct format *f, double x, bool truncate)
{
    const unsigned sign_bit = 1u << (f->exponent + f->mantissa), sign = signbit(x) ? sign_bit : 0;
    const double magnitude = fabs(x);
    unsigned code = 0;

    if (isnan(x))
        return f->nan | sign;
    if (isinf(x))
        return f->infinity | sign;
    while (code <= f->most && number_of(f, code + 1) <= magnitude)
        code++;
    const double below = magnitude - number_of(f, code), above = number_of(f, code + 1) - magnitude;
    if (code <= f->most && !truncate && (below > above || (below == above && code & 1)))
        code++;
    if (code > f->most)
        code = f->large;
    return f->no_minus_zero && code == 0 ? 0 : code | sign;
}

/* NaNs of a format may differ in the sign. */
static bool same_code(const struct format *f, unsigned x, unsigned y)
{
    return x == y || (isnan(decode(f, x)) && isnan(decode(f, y)));
}

/* ---- gfx942 and gfx950: FNUZ and OCP --------------------------------------------------------- */

static void check_eight_bits(const char *target, const struct format *f, const struct format *b,
                             enum quern_sim_isa isa)
{
    uint64_t random = 5;
    struct t_gpu g;

    t_gpu_open(&g, target, "", QUERN_CHECK_FULL, isa, 0);
    load(&g, "r[0] = __builtin_amdgcn_cvt_pk_fp8_f32(x, y, u, false);\n"
             "r[1] = __builtin_amdgcn_cvt_pk_fp8_f32(x, y, u, true);\n"
             "r[2] = __builtin_amdgcn_cvt_pk_bf8_f32(x, y, u, false);\n"
             "r[3] = __builtin_amdgcn_cvt_sr_fp8_f32(x, v, u, 0);\n"
             "r[4] = __builtin_amdgcn_cvt_sr_fp8_f32(x, v, u, 1);\n"
             "r[5] = __builtin_amdgcn_cvt_sr_fp8_f32(x, v, u, 2);\n"
             "r[6] = __builtin_amdgcn_cvt_sr_bf8_f32(x, v, u, 3);\n"
             "r[7] = B(__builtin_amdgcn_cvt_f32_fp8(u, 0));\n"
             "r[8] = B(__builtin_amdgcn_cvt_f32_fp8(u, 3));\n"
             "r[9] = B(__builtin_amdgcn_cvt_f32_bf8(u, 1));\n"
             "const f2 p = __builtin_amdgcn_cvt_pk_f32_fp8(u, true);\n"
             "const f2 q = __builtin_amdgcn_cvt_pk_f32_bf8(u, false);\n"
             "r[10] = B(p.x); r[11] = B(p.y); r[12] = B(q.x); r[13] = B(q.y);\n");
    for (unsigned round = 0; round < 20; round++) {
        draw_all(&random);
        run(&g);
        for (unsigned n = 0; n < ITEMS; n++) {
            const uint32_t *const r = memory.r + VALUES * n, u = memory.u[4 * n];
            const uint32_t v = memory.u[4 * n + 1];
            const float x = memory.x[4 * n], y = memory.x[4 * n + 1];
            const float xr = isfinite(x) ? float_of(bits_of(x) + (v >> 12)) : x;
            const float xb = isfinite(x) ? float_of(bits_of(x) + (v >> 11)) : x;
            const struct {
                uint32_t got;
                unsigned byte;
                const struct format *format;
                unsigned want;
                uint32_t others; /* bits that stay as they were in u */
            } codes[] = {{r[0], 0, f, encode(f, (double)x, false), 0xffff0000u},
                         {r[0], 1, f, encode(f, (double)y, false), 0xffff0000u},
                         {r[1], 2, f, encode(f, (double)x, false), 0xffff},
                         {r[1], 3, f, encode(f, (double)y, false), 0xffff},
                         {r[2], 0, b, encode(b, (double)x, false), 0xffff0000u},
                         {r[2], 1, b, encode(b, (double)y, false), 0xffff0000u},
                         {r[3], 0, f, encode(f, (double)xr, true), 0xffffff00u},
                         {r[4], 1, f, encode(f, (double)xr, true), 0xffff00ffu},
                         {r[5], 2, f, encode(f, (double)xr, true), 0xff00ffffu},
                         {r[6], 3, b, encode(b, (double)xb, true), 0x00ffffffu}};
            for (unsigned k = 0; k < COUNT(codes); k++) {
                const unsigned got = codes[k].got >> 8 * codes[k].byte & 255;
                if (!same_code(codes[k].format, got, codes[k].want) ||
                    (codes[k].got ^ u) & codes[k].others)
                    fail_msg("%s: result %u of %a, %a: 0x%02x, not 0x%02x, in 0x%08x over 0x%08x",
                             target, k, (double)x, (double)y, got, codes[k].want, codes[k].got, u);
            }
            const float want[7] = {(float)decode(f, u & 255),      (float)decode(f, u >> 24),
                                   (float)decode(b, u >> 8 & 255), (float)decode(f, u >> 16 & 255),
                                   (float)decode(f, u >> 24),      (float)decode(b, u & 255),
                                   (float)decode(b, u >> 8 & 255)};
            for (unsigned k = 0; k < 7; k++)
                if (r[7 + k] != bits_of(want[k]) && !(isnan(want[k]) && isnan(float_of(r[7 + k]))))
                    fail_msg("%s: number %u of 0x%08x is %a, not %a", target, k, u,
                             (double)float_of(r[7 + k]), (double)want[k]);
        }
    }
    t_gpu_close(&g);
}

static void eight_bits_fnuz(void **state)
{
    (void)state;
    check_eight_bits("gfx942", &fp8_fnuz, &bf8_fnuz, QUERN_ISA_AUTO);
}

static void eight_bits_ocp(void **state)
{
    (void)state;
    check_eight_bits("gfx950", &fp8, &bf8, QUERN_ISA_X86_64);
}

/* ---- gfx950's conversions -------------------------------------------------------------------- */

static uint32_t bf16_of(double d)
{
    const uint32_t u = bits_of((float)d);
    return isnan(d) ? 0x7fc0 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

static bool same_half(uint32_t x, uint32_t y, uint32_t infinity)
{
    return x == y || ((x & 0x7fff) > infinity && (y & 0x7fff) > infinity);
}

static bool same_pair(uint32_t x, uint32_t y, uint32_t infinity)
{
    return same_half(x & 0xffff, y & 0xffff, infinity) && same_half(x >> 16, y >> 16, infinity);
}

static uint32_t next_random(uint32_t u)
{
    /* a shift register whose feedback is 0xc5 */
    return u << 1 ^ (u & 0x80000000u ? 0xc5u : 0);
}

static int clamp(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

static void conversions_of_gfx950(void **state)
{
    uint64_t random = 6;
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx950", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    load(&g, "f2 xy = {x, y}; r[0] = B(__builtin_convertvector(xy, h2));\n"
             "r[1] = B(__builtin_convertvector(xy, b2));\n"
             "r[2] = B(__builtin_amdgcn_cvt_sr_f16_f32(A<h2>(u), x, v, true));\n"
             "r[3] = B(__builtin_amdgcn_cvt_sr_bf16_f32(A<b2>(u), x, v, false));\n"
             "r[4] = __builtin_amdgcn_prng_b32(u);\n"
             "r[5] = __builtin_amdgcn_ashr_pk_i8_i32(u, v, 20);\n"
             "r[6] = __builtin_amdgcn_ashr_pk_u8_i32(u, v, 20);\n"
             "u32 o; __asm__(\"v_minimum3_f32 %0, %1, %2, %3\" : \"=v\"(o) : \"v\"(x), \"v\"(y), "
             "\"v\"(s)); r[7] = o;\n"
             "__asm__(\"v_maximum3_f32 %0, %1, %2, %3\" : \"=v\"(o) : \"v\"(x), \"v\"(y), "
             "\"v\"(s)); r[8] = o;\n"
             "__asm__(\"v_pk_minimum3_f16 %0, %1, %2, %1\" : \"=v\"(o) : \"v\"(u), \"v\"(v)); r[9] "
             "= o;\n"
             "__asm__(\"v_pk_maximum3_f16 %0, %1, %2, %2\" : \"=v\"(o) : \"v\"(u), \"v\"(v)); "
             "r[10] = o;\n");
    for (unsigned round = 0; round < 20; round++) {
        draw_all(&random);
        run(&g);
        for (unsigned n = 0; n < ITEMS; n++) {
            const uint32_t *const r = memory.r + VALUES * n, u = memory.u[4 * n];
            const uint32_t v = memory.u[4 * n + 1];
            const float x = memory.x[4 * n], y = memory.x[4 * n + 1], s = memory.x[4 * n + 2];
            assert_true(same_pair(r[0], half_bits((double)x) | half_bits((double)y) << 16, 0x7c00));
            assert_true(same_pair(r[1], bf16_of((double)x) | bf16_of((double)y) << 16, 0x7f80));
            /* of a normal half, thirteen random bits count */
            if (fabsf(x) >= 0x1p-14f && fabsf(x) < 65504) {
                const uint32_t moved = (bits_of(x) + (v >> 19)) & ~0x1fffu;
                assert_int_equal(r[2], half_bits((double)float_of(moved)) << 16 | (u & 0xffff));
            }
            if (isfinite(x))
                assert_int_equal(r[3], (bits_of(x) + (v >> 16)) >> 16 | (u & 0xffff0000u));
            assert_int_equal(r[4], next_random(u));
            const int a = (int)u >> 20, b = (int)v >> 20;
            assert_int_equal(r[5] & 0xffff,
                             (clamp(a, -128, 127) & 255) | (clamp(b, -128, 127) & 255) << 8);
            assert_int_equal(r[6] & 0xffff, clamp(a, 0, 255) | clamp(b, 0, 255) << 8);
            if (isnan(x) || isnan(y)) {
                assert_true(isnan(float_of(r[7])) && isnan(float_of(r[8])));
            } else {
                assert_true(float_of(r[7]) == fminf(fminf(x, y), s));
                assert_true(float_of(r[8]) == fmaxf(fmaxf(x, y), s));
            }
            for (unsigned h = 0; h < 32; h += 16) {
                const float c = half_of(u >> h), d = half_of(v >> h);
                const float low = half_of(r[9] >> h), high = half_of(r[10] >> h);
                if (isnan(c) || isnan(d))
                    assert_true(isnan(low) && isnan(high));
                else
                    assert_true(low == fminf(c, d) && high == fmaxf(c, d));
            }
        }
    }
    t_gpu_close(&g);
}

static void scaled_conversions_of_gfx950(void **state)
{
    uint64_t random = 7;
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx950", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    load(&g, "r[0] = B(__builtin_amdgcn_cvt_scalef32_pk_f16_fp4(u, s, 0));\n"
             "r[1] = B(__builtin_amdgcn_cvt_scalef32_pk_bf16_fp4(u, s, 1));\n"
             "const f2 p = __builtin_amdgcn_cvt_scalef32_pk_f32_fp4(u, s, 2);\n"
             "r[2] = B(p.x); r[3] = B(p.y);\n"
             "r[4] = B(__builtin_amdgcn_cvt_scalef32_f32_fp8(u, s, 2));\n"
             "r[5] = B(__builtin_amdgcn_cvt_scalef32_f16_bf8(A<h2>(v), u, s, 3, true));\n"
             "r[6] = B(__builtin_amdgcn_cvt_scalef32_pk_f16_fp8(u, s, true));\n"
             "r[7] = B(__builtin_amdgcn_cvt_scalef32_pk_bf16_bf8(u, s, false));\n"
             "r[8] = B(__builtin_amdgcn_cvt_scalef32_pk_fp8_f32(A<s2>(v), x, y, s, true));\n"
             "r[9] = B(__builtin_amdgcn_cvt_scalef32_pk_bf8_f32(A<s2>(v), x, y, s, false));\n"
             "r[10] = B(__builtin_amdgcn_cvt_scalef32_pk_fp8_f16(A<s2>(v), A<h2>(u), s, true));\n"
             "r[11] = B(__builtin_amdgcn_cvt_scalef32_pk_bf8_bf16(A<s2>(v), A<b2>(u), s, false));\n"
             "r[12] = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(v, x, y, s, 2);\n"
             "r[13] = __builtin_amdgcn_cvt_scalef32_pk_fp4_f16(v, A<h2>(u), s, 1);\n"
             "r[14] = __builtin_amdgcn_cvt_scalef32_pk_fp4_bf16(v, A<b2>(u), s, 3);\n");
    for (unsigned round = 0; round < 20; round++) {
        draw_all(&random);
        run(&g);
        for (unsigned n = 0; n < ITEMS; n++) {
            const uint32_t *const r = memory.r + VALUES * n, u = memory.u[4 * n];
            const uint32_t v = memory.u[4 * n + 1];
            const double x = (double)memory.x[4 * n], y = (double)memory.x[4 * n + 1];
            /* only the exponent of the scale counts */
            const double s = (double)float_of(bits_of(memory.x[4 * n + 2]) & 0x7f800000u);
            const double four[8] = {decode(&fp4, u & 15),       decode(&fp4, u >> 4 & 15),
                                    decode(&fp4, u >> 8 & 15),  decode(&fp4, u >> 12 & 15),
                                    decode(&fp4, u >> 16 & 15), decode(&fp4, u >> 20 & 15)};
            const double fp[4] = {decode(&fp8, u & 255), decode(&fp8, u >> 8 & 255),
                                  decode(&fp8, u >> 16 & 255), decode(&fp8, u >> 24)};
            const double bf[4] = {decode(&bf8, u & 255), decode(&bf8, u >> 8 & 255),
                                  decode(&bf8, u >> 16 & 255), decode(&bf8, u >> 24)};
            assert_int_equal(r[0], half_bits(four[0] * s) | half_bits(four[1] * s) << 16);
            assert_int_equal(r[1], bf16_of(four[2] * s) | bf16_of(four[3] * s) << 16);
            assert_int_equal(r[2], bits_of((float)(four[4] * s)));
            assert_int_equal(r[3], bits_of((float)(four[5] * s)));
            assert_true(isnan(fp[2]) ? isnan(float_of(r[4])) : r[4] == bits_of((float)(fp[2] * s)));
            assert_true(same_half(r[5] >> 16, half_bits(bf[3] * s), 0x7c00));
            assert_int_equal(r[5] & 0xffff, v & 0xffff);
            assert_true(same_pair(r[6], half_bits(fp[2] * s) | half_bits(fp[3] * s) << 16, 0x7c00));
            assert_true(same_pair(r[7], bf16_of(bf[0] * s) | bf16_of(bf[1] * s) << 16, 0x7f80));
            const double h[2] = {(double)half_of(u), (double)half_of(u >> 16)};
            const double b[2] = {(double)float_of(u << 16), (double)float_of(u & 0xffff0000u)};
            const struct {
                uint32_t got;
                unsigned shift, bits;
                const struct format *format;
                double value;
            } codes[] = {
                {r[8], 16, 8, &fp8, x},     {r[8], 24, 8, &fp8, y},     {r[9], 0, 8, &bf8, x},
                {r[9], 8, 8, &bf8, y},      {r[10], 16, 8, &fp8, h[0]}, {r[10], 24, 8, &fp8, h[1]},
                {r[11], 0, 8, &bf8, b[0]},  {r[11], 8, 8, &bf8, b[1]},  {r[12], 16, 4, &fp4, x},
                {r[12], 20, 4, &fp4, y},    {r[13], 8, 4, &fp4, h[0]},  {r[13], 12, 4, &fp4, h[1]},
                {r[14], 24, 4, &fp4, b[0]}, {r[14], 28, 4, &fp4, b[1]}};
            for (unsigned k = 0; k < COUNT(codes); k++) {
                /* a quotient of f32 and a power of two, exact unless it leaves the range of f32 */
                const double quotient = (double)(float)(codes[k].value / s);
                const unsigned got = codes[k].got >> codes[k].shift & ((1u << codes[k].bits) - 1);
                const unsigned want = encode(codes[k].format, quotient, false);
                if (got != want && !(isnan(quotient) && (codes[k].format == &fp4 ||
                                                         isnan(decode(codes[k].format, got)))))
                    fail_msg("code %u of %a scaled by %a: 0x%x, not 0x%x", k, codes[k].value, s,
                             got, want);
            }
            assert_int_equal(r[8] & 0xffff, v & 0xffff);
            assert_int_equal(r[12] & 0xff00ffffu, v & 0xff00ffffu);
            assert_int_equal(r[14] & 0x00ffffff, v & 0x00ffffff);
        }
    }
    t_gpu_close(&g);
}

static void other_scaled_conversions_of_gfx950(void **state)
{
    uint64_t random = 8;
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx950", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    load(&g, "r[0] = B(__builtin_amdgcn_cvt_scalef32_f32_bf8(u, s, 1));\n"
             "r[1] = B(__builtin_amdgcn_cvt_scalef32_f16_fp8(A<h2>(v), u, s, 1, false));\n"
             "r[2] = B(__builtin_amdgcn_cvt_scalef32_pk_bf16_fp8(u, s, true));\n"
             "r[3] = B(__builtin_amdgcn_cvt_scalef32_pk_f16_bf8(u, s, false));\n"
             "const f2 p = __builtin_amdgcn_cvt_scalef32_pk_f32_fp8(u, s, true);\n"
             "const f2 q = __builtin_amdgcn_cvt_scalef32_pk_f32_bf8(u, s, false);\n"
             "r[4] = B(p.x); r[5] = B(p.y); r[6] = B(q.x); r[7] = B(q.y);\n"
             "r[8] = B(__builtin_amdgcn_cvt_scalef32_pk_bf8_f16(A<s2>(v), A<h2>(u), s, false));\n"
             "r[9] = B(__builtin_amdgcn_cvt_scalef32_pk_fp8_bf16(A<s2>(v), A<b2>(u), s, true));\n");
    for (unsigned round = 0; round < 20; round++) {
        draw_all(&random);
        run(&g);
        for (unsigned n = 0; n < ITEMS; n++) {
            const uint32_t *const r = memory.r + VALUES * n, u = memory.u[4 * n];
            const uint32_t v = memory.u[4 * n + 1];
            const double s = (double)float_of(bits_of(memory.x[4 * n + 2]) & 0x7f800000u);
            double fp[4], bf[4];
            for (unsigned k = 0; k < 4; k++) {
                fp[k] = decode(&fp8, u >> 8 * k & 255) * s;
                bf[k] = decode(&bf8, u >> 8 * k & 255) * s;
            }
            assert_true(same_half(r[1] & 0xffff, half_bits(fp[1]), 0x7c00));
            assert_int_equal(r[1] >> 16, v >> 16);
            assert_true(same_pair(r[2], bf16_of(fp[2]) | bf16_of(fp[3]) << 16, 0x7f80));
            assert_true(same_pair(r[3], half_bits(bf[0]) | half_bits(bf[1]) << 16, 0x7c00));
            const struct {
                uint32_t got;
                double value;
            } singles[] = {
                {r[0], bf[1]}, {r[4], fp[2]}, {r[5], fp[3]}, {r[6], bf[0]}, {r[7], bf[1]}};
            for (unsigned k = 0; k < COUNT(singles); k++)
                assert_true(isnan(singles[k].value)
                                ? isnan(float_of(singles[k].got))
                                : singles[k].got == bits_of((float)singles[k].value));
            for (unsigned k = 0; k < 2; k++) {
                const float to_bf8 = (float)((double)half_of(u >> 16 * k) / s);
                const float to_fp8 = (float)((double)float_of(k ? u & 0xffff0000u : u << 16) / s);
                const unsigned a = r[8] >> 8 * k & 255, b = r[9] >> (16 + 8 * k) & 255;
                assert_true(isnan(to_bf8) ? isnan(decode(&bf8, a))
                                          : a == encode(&bf8, (double)to_bf8, false));
                assert_true(isnan(to_fp8) ? isnan(decode(&fp8, b))
                                          : b == encode(&fp8, (double)to_fp8, false));
            }
            assert_int_equal(r[8] >> 16, v >> 16);
            assert_int_equal(r[9] & 0xffff, v & 0xffff);
        }
    }
    t_gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_bits_fnuz),
        cmocka_unit_test(eight_bits_ocp),
        cmocka_unit_test(conversions_of_gfx950),
        cmocka_unit_test(scaled_conversions_of_gfx950),
        cmocka_unit_test(other_scaled_conversions_of_gfx950),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
