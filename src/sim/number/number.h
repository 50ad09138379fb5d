/* SPDX-License-Identifier: MIT */
/*
 * Number formats. Everything here is branch-free where lane loops use it, so that compilers turn it
 * into vector code, and gives the same bits with every instruction set.
 *
 * This file is long because every format has its conversions with and without the host's
 * instructions, and those two must be read side by side.
 */
#ifndef QUERN_SIM_NUMBER_H
#define QUERN_SIM_NUMBER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#define NUMBER static inline __attribute__((always_inline))

NUMBER float f32_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

NUMBER uint32_t bits_of_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

NUMBER double f64_of(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, 8);
    return d;
}

NUMBER uint64_t bits_of_f64(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, 8);
    return bits;
}

/* condition ? a : b without a branch: compilers vectorise masks more surely than they do ?: */
NUMBER uint32_t pick(int condition, uint32_t a, uint32_t b)
{
    const uint32_t mask = 0u - (uint32_t)(condition != 0);
    return (a & mask) | (b & ~mask);
}

NUMBER float pick_f32(int condition, float a, float b)
{
    return f32_of(pick(condition, bits_of_f32(a), bits_of_f32(b)));
}

/* h holds a half in its low 16 bits and nothing above. A denormal half is read by putting its bits
 * below 0.5, so that no denormal f32 occurs, which the float mode might flush. */
NUMBER float f16_to_f32(uint32_t h)
{
    const int32_t magnitude = (int32_t)(h & 0x7fff);
    const uint32_t sign = (h & 0x8000) << 16;
    const uint32_t normal =
        ((uint32_t)magnitude << 13) + 0x38000000u + pick(magnitude >= 0x7c00, 0x38000000u, 0);
    const uint32_t denormal = bits_of_f32(f32_of(0x3f000000u | (uint32_t)magnitude) - 0.5f);

    return f32_of(pick(magnitude < 0x400, denormal, normal) | sign);
}

/* Rounds to nearest even. */
NUMBER uint32_t f32_to_f16(float f)
{
    const uint32_t bits = bits_of_f32(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    const int32_t m = (int32_t)magnitude;
    /* normal halves: re-bias, and round by adding half of the last place, less one when it is even
     */
    const uint32_t normal = (magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13;
    /* denormal halves: the addition of 0.5 rounds at 2^-24 */
    const uint32_t denormal = bits_of_f32(f32_of(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t finite = pick(m < 0x38800000, denormal, normal);
    const uint32_t bounded = pick(m >= 0x477ff000, 0x7c00, finite);

    return pick(m > 0x7f800000, 0x7e00 | (magnitude >> 13 & 0x3ff), bounded) | sign;
}

NUMBER float bf16_to_f32(uint32_t b)
{
    return f32_of(b << 16);
}

/* Rounds to nearest even; NaNs stay NaNs. */
NUMBER uint32_t f32_to_bf16(float f)
{
    const uint32_t bits = bits_of_f32(f);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

    return pick((int32_t)(bits & 0x7fffffff) > 0x7f800000, bits >> 16 | 0x40, rounded);
}

/*
 * a + b with the bits lost in rounding made sticky: when the sum is inexact and its last bit is
 * even, the neighbour on the side of the exact sum is taken. Rounding that to a format of at most
 * 22 bits is the same as rounding the exact sum.
 */
NUMBER float add_odd(float a, float b)
{
    const float s = a + b, t = s - a;
    const float error = (a - (s - t)) + (b - t);
    const uint32_t bits = bits_of_f32(s);
    const uint32_t odd = bits + 1 - 2 * ((bits ^ bits_of_f32(error)) >> 31);
    const uint32_t even = (bits & 1) - 1; /* all ones */
    const uint32_t finite = pick((int32_t)(bits & 0x7fffffff) < 0x7f800000, even, 0);

    return f32_of(pick(error != 0, (odd & finite) | (bits & ~finite), bits));
}

/* fma of halves, rounded once: products of halves are exact in f32. */
NUMBER float fma_f16(float a, float b, float c)
{
    return add_odd(a * b, c);
}

NUMBER float flush_f32(float f)
{
    const uint32_t bits = bits_of_f32(f);
    return f32_of(pick((bits & 0x7f800000u) != 0, bits, bits & 0x80000000u));
}

/* a * b + c of f32 in double, with the last bit odd where it is inexact (see add_odd). The product
 * is exact, so rounding the result to f32, scaled or not, is the only rounding. */
NUMBER double fma_odd(float a, float b, float c)
{
    const double product = (double)a * (double)b, addend = (double)c;
    const double s = product + addend, t = s - product;
    const double error = (product - (s - t)) + (addend - t);
    const uint64_t bits = bits_of_f64(s);
    const uint64_t odd = bits + 1 - 2 * ((bits ^ bits_of_f64(error)) >> 63);
    const uint64_t use = ((bits & 1) - 1) & (0 - (uint64_t)(error != 0)) &
                         (0 - (uint64_t)((bits >> 52 & 2047) != 2047));

    return f64_of((odd & use) | (bits & ~use));
}

#ifdef __FMA__
NUMBER float fma_f32(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
#else
NUMBER float fma_f32(float a, float b, float c)
{
    return (float)fma_odd(a, b, c);
}
#endif

/* a * b + c of f32 with the last bit odd where it is inexact, for a result of at most 22 bits. */
NUMBER float fma_f32_odd(float a, float b, float c)
{
    const double d = fma_odd(a, b, c);
    const float near = (float)d;
    const uint32_t bits = bits_of_f32(near);
    const int inexact = ((double)near != d) & (d == d) & (near != 0);
    const uint32_t down = bits - (uint32_t)(fabs((double)near) > fabs(d));

    return f32_of(pick(inexact, down | 1, bits));
}

/* A product of which a factor is zero is +0. Denormals do not count, whatever the mode. */
NUMBER float fma_dx9_zero(float a, float b, float c)
{
    const float x = flush_f32(a), y = flush_f32(b), z = flush_f32(c);
    return pick_f32((x == 0) | (y == 0), 0.0f + z, flush_f32(fma_f32(x, y, z)));
}

/* A signalling NaN becomes a quiet one. */
NUMBER uint32_t quiet_f16(uint32_t h)
{
    return h | (uint32_t)((h & 0x7fff) > 0x7c00) << 9;
}

/* IEEE 754-2008 minNum and maxNum with -0 below +0, as the hardware orders them. */
NUMBER float min_f32(float a, float b)
{
    const int a_first = (a < b) | ((a == b) & (int)(bits_of_f32(a) >> 31)) | (b != b);
    return pick_f32(a_first & (a == a), a, b);
}

NUMBER float max_f32(float a, float b)
{
    const int a_first = (a > b) | ((a == b) & (int)(~bits_of_f32(a) >> 31)) | (b != b);
    return pick_f32(a_first & (a == a), a, b);
}

/* The same of IEEE 754-2019's minimum and maximum: NaN if either is one. */
NUMBER float lesser_f32(float a, float b)
{
    return pick_f32(a != a, a, pick_f32(b != b, b, min_f32(a, b)));
}

NUMBER float greater_f32(float a, float b)
{
    return pick_f32(a != a, a, pick_f32(b != b, b, max_f32(a, b)));
}

NUMBER double min_f64(double a, double b)
{
    const double least = a < b || (a == b && (bits_of_f64(a) >> 63)) ? a : b;
    return a != a ? b : b != b ? a : least;
}

NUMBER double max_f64(double a, double b)
{
    const double most = a > b || (a == b && !(bits_of_f64(a) >> 63)) ? a : b;
    return a != a ? b : b != b ? a : most;
}

/* Conversions that saturate and turn NaN into 0. */
NUMBER int32_t f32_to_i32(float f)
{
    const int in = (f >= -0x1p31f) & (f < 0x1p31f);
    const uint32_t value = (uint32_t)(int32_t)pick_f32(in, f, 0);
    const uint32_t low = pick(f < -0x1p31f, 0x80000000u, value);
    return (int32_t)pick(f >= 0x1p31f, 0x7fffffffu, low);
}

NUMBER uint32_t f32_to_u32(float f)
{
    const int in_low = (f > 0) & (f < 0x1p31f), in_high = (f >= 0x1p31f) & (f < 0x1p32f);
    const uint32_t low = (uint32_t)(int32_t)pick_f32(in_low, f, 0);
    const uint32_t high = 0x80000000u + (uint32_t)(int32_t)pick_f32(in_high, f - 0x1p31f, 0);
    return pick(f >= 0x1p32f, 0xffffffffu, pick(in_high, high, low));
}

NUMBER int32_t f64_to_i32(double d)
{
    return d >= 0x1p31 ? INT32_MAX : d <= -0x1p31 ? INT32_MIN : d != d ? 0 : (int32_t)d;
}

NUMBER uint32_t f64_to_u32(double d)
{
    return d >= 0x1p32 ? UINT32_MAX : d > 0 ? (uint32_t)d : 0;
}

/* u32 to f32 rounds to nearest even; by halves, both of which are exact. */
NUMBER float u32_to_f32(uint32_t u)
{
    return (float)(int32_t)(u >> 16) * 0x1p16f + (float)(int32_t)(u & 0xffff);
}

NUMBER uint32_t mul_hi_u32(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
NUMBER uint32_t mul_hi_i32(int32_t a, int32_t b)
{
    return (uint32_t)((uint64_t)((int64_t)a * b) >> 32);
}

#define LEAST(a, b)   ((a) < (b) ? (a) : (b))
#define MOST(a, b)    ((a) > (b) ? (a) : (b))
#define ABSDIFF(a, b) ((a) > (b) ? (a) - (b) : (b) - (a))

/* ---- Float helpers of single instructions ---------------------------------------------------- */

NUMBER float med3_f32(float a, float b, float c)
{
    const float middle = max_f32(min_f32(a, b), min_f32(max_f32(a, b), c));
    return pick_f32((a != a) | (b != b) | (c != c), min_f32(min_f32(a, b), c), middle);
}

/* Below 1 even where the subtraction would round up to it. */
NUMBER float fract_f32(float a)
{
    const float f = a - floorf(a);
    return pick_f32(f >= 1, 0x1.fffffep-1f, f);
}

NUMBER float frexp_mantissa(float a)
{
    int e;
    return isfinite(a) ? frexpf(a, &e) : a;
}

NUMBER int32_t frexp_exponent(float a)
{
    int e = 0;
    if (isfinite(a))
        frexpf(a, &e);
    return e;
}

/* Sine and cosine of 2 pi a. */
NUMBER float sin_turns(float a)
{
    return (float)sin(6.283185307179586 * ((double)a - floor(a)));
}
NUMBER float cos_turns(float a)
{
    return (float)cos(6.283185307179586 * ((double)a - floor(a)));
}

/* What a fused product is where it is not a number, as a gfx1201 gives it: the default NaN for zero
 * times infinity, and where no operand is a NaN; else the first NaN of the operands, quiet. */
NUMBER float nan_of_fma_f32(float a, float b, float c)
{
    const int invalid = (a == 0 && isinf(b)) || (isinf(a) && b == 0);
    const float first = a != a ? a : b != b ? b : c;

    return f32_of(invalid || first == first ? 0xffc00000u : bits_of_f32(first) | 0x400000);
}
NUMBER double nan_of_fma_f64(double a, double b, double c)
{
    const int invalid = (a == 0 && isinf(b)) || (isinf(a) && b == 0);
    const double first = a != a ? a : b != b ? b : c;

    return f64_of(invalid || first == first ? 0xfff8000000000000u
                                            : bits_of_f64(first) | 0x8000000000000);
}

/* The last step of a division but one: undoes what v_div_scale did to n or d, in one rounding. The
 * scaled quotient c tells which way. */
NUMBER float div_fmas_f32(float a, float b, float c, uint32_t undo)
{
    const int large = (bits_of_f32(c) >> 23 & 255) > 127;
    const float r =
        undo ? (float)(fma_odd(a, b, c) * (large ? 0x1p64 : 0x1p-64)) : fma_f32(a, b, c);
    return r == r ? r : nan_of_fma_f32(a, b, c);
}

/* As fma_odd, of f64 in the format of twice as many bits. */
NUMBER __float128 fma_odd_f64(double a, double b, double c)
{
    const __float128 product = (__float128)a * b, addend = c;
    __float128 s = product + addend;
    const __float128 t = s - product, error = (product - (s - t)) + (addend - t);
    unsigned __int128 bits;

    memcpy(&bits, &s, sizeof bits);
    if (error != 0 && s - s == 0 && !(bits & 1))
        bits += (error < 0) == (s < 0) ? 1 : -1;
    memcpy(&s, &bits, sizeof bits);
    return s;
}

NUMBER double div_fmas_f64(double a, double b, double c, uint32_t undo)
{
    const int large = (bits_of_f64(c) >> 52 & 2047) > 1023;
    const double r =
        undo ? (double)(fma_odd_f64(a, b, c) * (large ? 0x1p128 : 0x1p-128)) : fma(a, b, c);
    return r == r ? r : nan_of_fma_f64(a, b, c);
}

/* The last step of a division: q is about n / d, which special values replace. */
NUMBER float div_fixup_f32(float q, float d, float n)
{
    const uint32_t sign = (bits_of_f32(d) ^ bits_of_f32(n)) & 0x80000000u;

    if (n != n)
        return f32_of(bits_of_f32(n) | 0x400000);
    if (d != d)
        return f32_of(bits_of_f32(d) | 0x400000);
    if ((d == 0 && n == 0) || (isinf(d) && isinf(n)))
        return f32_of(0xffc00000u);
    if (d == 0 || isinf(n))
        return f32_of(0x7f800000u | sign);
    if (isinf(d) || n == 0)
        return f32_of(sign);
    if ((int)(bits_of_f32(n) >> 23 & 255) - (int)(bits_of_f32(d) >> 23 & 255) < -150)
        return f32_of(sign);
    /* the refinement of a quotient that overflows ends in NaN */
    return f32_of((q != q ? 0x7f800000u : bits_of_f32(q) & 0x7fffffff) | sign);
}

NUMBER double div_fixup_f64(double q, double d, double n)
{
    const uint64_t sign = (bits_of_f64(d) ^ bits_of_f64(n)) & 0x8000000000000000u;

    if (n != n)
        return f64_of(bits_of_f64(n) | 0x8000000000000u);
    if (d != d)
        return f64_of(bits_of_f64(d) | 0x8000000000000u);
    if ((d == 0 && n == 0) || (isinf(d) && isinf(n)))
        return f64_of(0xfff8000000000000u);
    if (d == 0 || isinf(n))
        return f64_of(0x7ff0000000000000u | sign);
    if (isinf(d) || n == 0)
        return f64_of(sign);
    if ((int)(bits_of_f64(n) >> 52 & 2047) - (int)(bits_of_f64(d) >> 52 & 2047) < -1075)
        return f64_of(sign);
    return f64_of((q != q ? 0x7ff0000000000000u : bits_of_f64(q) & 0x7fffffffffffffffu) | sign);
}

/* Rounds toward zero; overflow gives the largest finite half. */
NUMBER uint32_t f32_to_f16_rtz(float f)
{
    const uint32_t bits = bits_of_f32(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    const int32_t m = (int32_t)magnitude;
    const uint32_t normal = (magnitude - 0x38000000u) >> 13;
    /* denormal halves: as many times 2^-24 as go into it, from the rounded number by taking one off
     */
    const float sum = f32_of(magnitude) + 0.5f;
    const uint32_t over = (uint32_t)(sum - 0.5f > f32_of(magnitude));
    const uint32_t denormal = bits_of_f32(sum) - 0x3f000000u - over;
    const uint32_t finite = pick(m < 0x38800000, denormal, normal);
    const uint32_t bounded = pick(m >= 0x47800000, pick(m >= 0x7f800000, 0x7c00, 0x7bff), finite);

    return pick(m > 0x7f800000, 0x7e00 | (magnitude >> 13 & 0x3ff), bounded) | sign;
}

NUMBER uint32_t sat_i16(int32_t x)
{
    return (uint32_t)(x < -32768 ? -32768 : x > 32767 ? 32767 : x) & 0xffff;
}
NUMBER int32_t saturate_i32(int64_t x)
{
    return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
}
NUMBER uint32_t saturate_u32(uint64_t x)
{
    return x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}
NUMBER uint32_t sat_u16(int32_t x)
{
    return (uint32_t)(x < 0 ? 0 : x > 65535 ? 65535 : x);
}
NUMBER uint32_t sat_u8(int32_t x)
{
    return (uint32_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}
/* Numbers of -1 to 1 and of 0 to 1 as integers of 16 bits. The product is rounded once, to an
 * integer, as captured on gfx1201 (bjacob/goc): in f32 it would be rounded before, and a number
 * that is just below a half and an integer could become that. */
NUMBER uint32_t norm_i16(float f)
{
    const double bounded = f != f ? 0 : f < -1 ? -1 : f > 1 ? 1 : f;
    return (uint32_t)(int32_t)rint(bounded * 32767) & 0xffff;
}
NUMBER uint32_t norm_u16(float f)
{
    const double bounded = f > 0 ? f > 1 ? 1 : f : 0;
    return (uint32_t)(int32_t)rint(bounded * 65535);
}

/* ---- Packed values --------------------------------------------------------------------------- */

#define LOW_F16(x)  f16_to_f32((x) & 0xffff)
#define HIGH_F16(x) f16_to_f32((x) >> 16)

/* Two f32 in a register pair. */
struct f32x2 {
    float low, high;
};

NUMBER uint32_t pack_16(uint32_t low, uint32_t high)
{
    return (low & 0xffff) | high << 16;
}
NUMBER uint32_t pack_f16(float low, float high)
{
    return f32_to_f16(low) | f32_to_f16(high) << 16;
}
NUMBER struct f32x2 pack_f32(float low, float high)
{
    return (struct f32x2){low, high};
}

/* ---- Dots ------------------------------------------------------------------------------------ */

/* Denormals of both halves become zeros. */
NUMBER uint32_t flush_halves(uint32_t x)
{
    return x & (pick((x & 0x7c00) != 0, 0xffff, 0x8000) |
                pick((x & 0x7c000000) != 0, 0xffff0000u, 0x80000000u));
}

NUMBER float dot2_f16(uint32_t a, uint32_t b, float c)
{
    const float low = fma_f32(LOW_F16(a), LOW_F16(b), flush_f32(c));
    return flush_f32(fma_f32(HIGH_F16(a), HIGH_F16(b), low));
}

NUMBER float dot2_bf16(uint32_t a, uint32_t b, float c)
{
    const float low = fma_f32(f32_of(a << 16), f32_of(b << 16), flush_f32(c));
    return flush_f32(fma_f32(f32_of(a & 0xffff0000u), f32_of(b & 0xffff0000u), low));
}

NUMBER uint32_t dot4(uint32_t a, uint32_t b, int a_signed, int b_signed)
{
    uint32_t sum = 0;
    for (unsigned n = 0; n < 32; n += 8) {
        const uint32_t x = a >> n & 0xff, y = b >> n & 0xff;
        sum += (a_signed ? (uint32_t)(int8_t)x : x) * (b_signed ? (uint32_t)(int8_t)y : y);
    }
    return sum;
}

NUMBER uint32_t dot8(uint32_t a, uint32_t b, int a_signed, int b_signed)
{
    uint32_t sum = 0;
    for (unsigned n = 0; n < 32; n += 4) {
        const uint32_t x = a >> n & 15, y = b >> n & 15;
        sum += (a_signed ? (x ^ 8) - 8 : x) * (b_signed ? (y ^ 8) - 8 : y);
    }
    return sum;
}

/* OCP e4m3fn and e5m2 in the low byte. */
NUMBER float fp8_to_f32(uint32_t x)
{
    const uint32_t magnitude = x & 0x7f, sign = (x & 0x80) << 24;
    const uint32_t normal = (magnitude << 20) + 0x3c000000u;
    const uint32_t denormal = bits_of_f32((float)(int32_t)magnitude * 0x1p-9f);
    const uint32_t value = magnitude < 8 ? denormal : normal;

    return f32_of((magnitude == 0x7f ? 0x7fc00000u : value) | sign);
}

NUMBER float bf8_to_f32(uint32_t x)
{
    return f16_to_f32((x & 0xff) << 8);
}

NUMBER float dot4_fp8(uint32_t a, uint32_t b, float c, int a_bf8, int b_bf8)
{
    float sum = c;
    for (unsigned n = 0; n < 32; n += 8) {
        const uint32_t x = a >> n & 0xff, y = b >> n & 0xff;
        sum = fma_f32(a_bf8 ? bf8_to_f32(x) : fp8_to_f32(x), b_bf8 ? bf8_to_f32(y) : fp8_to_f32(y),
                      sum);
    }
    return sum;
}

/* 53 bits of 2 / pi for the reduction of arguments of sines: those of a segment, further on by what
 * makes a large argument an integer. `count` bits stand behind the point, and zeros behind them:
 * 1201 by the manuals, 1184 as gfx1201 was seen to do (bjacob/goc). */
NUMBER double trig_preop_f64(double a, uint32_t segment, unsigned count)
{
    static const uint64_t two_over_pi[] = {
        0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
        0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
        0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
        0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
        0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b0000};
    const unsigned words = sizeof two_over_pi / sizeof *two_over_pi;
    const unsigned exponent = bits_of_f64(a) >> 52 & 0x7ff;
    const unsigned at = (segment & 31) * 53 + (exponent > 1077 ? exponent - 1077 : 0);
    const uint64_t first = at / 64 < words ? two_over_pi[at / 64] : 0;
    const uint64_t second = at / 64 + 1 < words ? two_over_pi[at / 64 + 1] : 0;
    const uint64_t bits = at % 64 ? first << at % 64 | second >> (64 - at % 64) : first;
    const unsigned left = at < count ? count - at : 0;
    const uint64_t there = left >= 64 ? bits : left ? bits >> (64 - left) << (64 - left) : 0;

    return ldexp((double)(there >> 11), (exponent >= 1968 ? 128 : 0) - 53 - (int)at);
}

/* ---- f16 and f64 helpers of single instructions ---------------------------------------------- */

NUMBER float fract_f16(float a)
{
    const float f = a - floorf(a);
    return f >= 0x1.ffcp-1f ? 0x1.ffcp-1f : f;
}

/* Of infinities and NaN it is NaN, which fmin would drop. */
NUMBER double fract_f64(double a)
{
    const double f = a - floor(a);
    return f >= 1 ? 0x1.fffffffffffffp-1 : f;
}

NUMBER double frexp_mantissa_f64(double a)
{
    int e;
    return isfinite(a) ? frexp(a, &e) : a;
}

NUMBER int32_t frexp_exponent_f64(double a)
{
    int e = 0;
    if (isfinite(a))
        frexp(a, &e);
    return e;
}

#endif
