/* SPDX-License-Identifier: MIT */
/*
 * What the formulas of vector.inc and scalar.inc are written with: the bits of an operand as a
 * number, numbers as bits, and the longer definitions of AMD's ISA documents. Shares no code with
 * the software GPU.
 *
 * This file is long because it has a formula for every instruction of the software GPU.
 */
#ifndef EVERY_FORMULAS_H
#define EVERY_FORMULAS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef _Float16 f16;
typedef __int128 i128;

#define FORMULA static inline __attribute__((unused))

/* ---- Bits to numbers ------------------------------------------------------------------------- */
FORMULA float f32(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, 4);
    return f;
}
FORMULA double f64(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, 8);
    return d;
}
FORMULA f16 half(uint64_t bits)
{
    const uint16_t low = (uint16_t)bits;
    f16 h;
    memcpy(&h, &low, 2);
    return h;
}
FORMULA f16 lo(uint64_t bits)
{
    return half(bits);
}
FORMULA f16 hi(uint64_t bits)
{
    return half(bits >> 16);
}
FORMULA float bf_high(uint64_t bits)
{
    return f32(bits & 0xffff0000u);
}
FORMULA uint64_t u(uint64_t bits)
{
    return (uint32_t)bits;
}
FORMULA int64_t s(uint64_t bits)
{
    return (int32_t)bits;
}
FORMULA uint32_t w(uint64_t bits)
{
    return (uint16_t)bits;
}
FORMULA int32_t h(uint64_t bits)
{
    return (int16_t)bits;
}

/* ---- Numbers to bits ------------------------------------------------------------------------- */
FORMULA uint32_t bits32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}
FORMULA uint64_t bits64(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, 8);
    return bits;
}
FORMULA uint64_t bits16(f16 value)
{
    uint16_t bits;
    memcpy(&bits, &value, 2);
    return bits;
}
FORMULA uint64_t pair(f16 low, f16 high)
{
    return bits16(low) | bits16(high) << 16;
}
FORMULA uint64_t words(uint64_t low, uint64_t high)
{
    return (low & 0xffff) | (high & 0xffff) << 16;
}
FORMULA uint64_t floats(float low, float high)
{
    return bits32(low) | (uint64_t)bits32(high) << 32;
}
FORMULA uint64_t to_bf16(float f)
{
    const uint64_t bits = bits32(f), half_way = (bits & 0xffff) == 0x8000;
    return isnan(f) ? 0x7fff : (bits >> 16) + (half_way ? bits >> 16 & 1 : bits >> 15 & 1);
}

/* ---- Rounding and limits --------------------------------------------------------------------- */
/* a float as such, whatever precision the compiler computes in */
FORMULA float round32(float f)
{
    volatile float rounded = f;
    return rounded;
}
FORMULA float flush(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}
FORMULA f16 toward_zero(float f)
{
    const f16 nearest = (f16)f;
    return isfinite(f) && fabsf((float)nearest) > fabsf(f) ? half(bits16(nearest) - 1) : nearest;
}
FORMULA uint64_t clip_integer(i128 value, i128 least, i128 most)
{
    return (uint64_t)(value < least ? least : value > most ? most : value);
}
FORMULA uint64_t clip_float(double value, i128 least, i128 most)
{
    return isnan(value)             ? 0
           : value <= (double)least ? (uint64_t)least
           : value >= (double)most  ? (uint64_t)most
                                    : (uint64_t)(int64_t)value;
}
#define clip(VALUE, LEAST, MOST)                                                                   \
    _Generic((VALUE),                                                                              \
        float: clip_float,                                                                         \
        double: clip_float,                                                                        \
        f16: clip_float,                                                                           \
        default: clip_integer)(VALUE, LEAST, MOST)
FORMULA uint64_t snorm(float f)
{
    return isnan(f) ? 0 : (uint64_t)(int64_t)rint(32767.0 * (f < -1 ? -1 : f > 1 ? 1 : f));
}
FORMULA uint64_t unorm(float f)
{
    return isnan(f) ? 0 : (uint64_t)rint(65535.0 * (f < 0 ? 0 : f > 1 ? 1 : f));
}

/* ---- Floats ---------------------------------------------------------------------------------- */
/* of a number and a NaN the number */
FORMULA float least(float p, float q)
{
    return isnan(p) ? q : isnan(q) ? p : p < q ? p : q;
}
FORMULA float most(float p, float q)
{
    return isnan(p) ? q : isnan(q) ? p : p > q ? p : q;
}
FORMULA float nan_or(float (*choose)(float, float), float p, float q)
{
    return isnan(p) || isnan(q) ? NAN : choose(p, q);
}
FORMULA double least64(double p, double q)
{
    return isnan(p) ? q : isnan(q) ? p : p < q ? p : q;
}
FORMULA double most64(double p, double q)
{
    return isnan(p) ? q : isnan(q) ? p : p > q ? p : q;
}
FORMULA float middle(float p, float q, float r)
{
    if (isnan(p) || isnan(q) || isnan(r))
        return least(least(p, q), r);
    return most(least(p, q), least(most(p, q), r));
}
FORMULA f16 fma16(f16 p, f16 q, f16 r)
{
    return (f16)((__float128)p * q + r);
}
FORMULA double scale(double value, int by)
{
    return ldexp(value, by);
}
FORMULA uint64_t exponent(double value)
{
    int e = 0;
    if (isfinite(value))
        frexp(value, &e);
    return (uint64_t)(int64_t)e;
}
/* an angle counted in whole turns */
FORMULA double turn(float f)
{
    return 2 * 3.14159265358979323846 * ((double)f - floor((double)f));
}
/* gfx90a takes denormal halves for zeros in dots */
static bool flushes_halves, is_gfx12;
FORMULA float factor(f16 value)
{
    const float f = value;
    return flushes_halves && fabsf(f) < 0x1p-14f ? copysignf(0, f) : f;
}
FORMULA float dot2(float a, float b, float c, float d, float addend)
{
    /* the products are exact; each addition rounds */
    const float first = (float)((double)a * b + flush(addend));
    return flush((float)((double)c * d + first));
}

/* ---- Division: quotient q of a numerator n and a denominator d ------------------------------- */
FORMULA double fixup(double q, double d, double n)
{
    const double sign = signbit(d) != signbit(n) ? -1 : 1;
    if (isnan(n) || isnan(d))
        return NAN;
    if ((d == 0 && n == 0) || (isinf(d) && isinf(n)))
        return NAN;
    if (d == 0 || isinf(n))
        return sign * INFINITY;
    if (isinf(d) || n == 0)
        return sign * 0;
    /* an approximation that overflowed on the way */
    return isnan(q) ? sign * INFINITY : copysign(q, sign);
}
/* the same, and a quotient under half of the least denormal is 0 */
FORMULA float fixup32(float q, float d, float n)
{
    const bool plain = isfinite(d) && isfinite(n) && d != 0;
    const bool under = (bits32(n) >> 23 & 255) + 150 < (bits32(d) >> 23 & 255);
    return plain && under ? copysignf(0, signbit(d) != signbit(n) ? -1 : 1) : (float)fixup(q, d, n);
}
FORMULA double fixup64(double q, double d, double n)
{
    const bool plain = isfinite(d) && isfinite(n) && d != 0;
    const bool under = (bits64(n) >> 52 & 2047) + 1075 < (bits64(d) >> 52 & 2047);
    return plain && under ? copysign(0, signbit(d) != signbit(n) ? -1 : 1) : fixup(q, d, n);
}
FORMULA float scaled_fma(float p, float q, float r, int by)
{
    return (float)(((__float128)p * q + r) * (__float128)ldexp(1, by));
}
FORMULA double scaled_fma64(double p, double q, double r, int by)
{
    return (double)(((__float128)p * q + r) * (__float128)ldexp(1, by));
}
/* By how many binary places v_div_scale moves the denominator (0) or the numerator (1), and whether
 * the quotient is to be moved back. */
struct division_scaling {
    bool nan, back;
    int places[2];
};
/* By the biased exponents; see exec_carry.c for who probed them. */
FORMULA struct division_scaling division_scaling(bool zero, int d, int n, int far, int huge,
                                                 int tiny, int by)
{
    struct division_scaling s = {.nan = zero, .back = abs(n - d) >= far};

    if (n - d >= far)
        s.places[0] = by;
    else if (d >= huge)
        s.places[0] = -by, s.places[1] = s.back ? 0 : -by;
    else if (s.back)
        s.places[1] = by;
    else if (d == 0 || n <= tiny)
        s.places[0] = s.places[1] = by;
    return s;
}
FORMULA struct division_scaling division_scaling32(float d, float n)
{
    return division_scaling(d == 0 || n == 0, bits32(d) >> 23 & 255, bits32(n) >> 23 & 255, 96, 253,
                            24, 64);
}
FORMULA struct division_scaling division_scaling64(double d, double n)
{
    return division_scaling(d == 0 || n == 0, bits64(d) >> 52 & 2047, bits64(n) >> 52 & 2047, 768,
                            2045, 53, 128);
}
/* One after the other: the bits of 2 / pi that v_trig_preop_f64 gives, by digits of 24 bits as
 * libraries of sines have them; the 1201st is the last. */
FORMULA float normal32(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}
FORMULA float fma_dx9(float x, float y, float z)
{
    const float a = normal32(x), b = normal32(y), c = normal32(z);
    return a == 0 || b == 0 ? c + 0.0f : normal32(fmaf(a, b, c));
}
FORMULA uint32_t quieted16(uint64_t x)
{
    const uint32_t h = x & 0xffff;
    return (h & 0x7c00) == 0x7c00 && h & 0x3ff ? h | 0x200 : h;
}
/* Rounded once: of the sum of 113 bits the last is made odd where it is inexact. */
FORMULA f16 once16(float x, float y, float z)
{
    const __float128 p = (__float128)x * y, sum = p + z, back = sum - p;
    const __float128 rest = (p - (sum - back)) + (z - back);
    unsigned __int128 bits_;
    __float128 odd;

    memcpy(&bits_, &sum, sizeof bits_);
    if (rest != 0 && isfinite((double)sum) && !(bits_ & 1))
        bits_ += (rest < 0) == (sum < 0) ? 1 : -1;
    memcpy(&odd, &bits_, sizeof odd);
    return (f16)odd;
}
FORMULA double digits_of_two_over_pi(double x, uint32_t segment)
{
    static const uint32_t digits[] = {
        0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041, 0xfe5163,
        0xabdebb, 0xc561b7, 0x246e3a, 0x424dd2, 0xe00649, 0x2eea09, 0xd1921c, 0xfe1deb, 0x1cb129,
        0xa73ee8, 0x8235f5, 0x2ebb44, 0x84e99c, 0x7026b4, 0x5f7e41, 0x3991d6, 0x398353, 0x39f49c,
        0x845f8b, 0xbdf928, 0x3b1ff8, 0x97ffde, 0x05980f, 0xef2f11, 0x8b5a0a, 0x6d1f6d, 0x367ecf,
        0x27cb09, 0xb74f46, 0x3f669e, 0x5fea2d, 0x7527ba, 0xc7ebe5, 0xf17b3d, 0x0739f7, 0x8a5292,
        0xea6bfb, 0x5fb11f, 0x8d5d08, 0x560330, 0x46fc7b, 0x6babf0};
    uint64_t bits;
    double sum = 0;
    memcpy(&bits, &x, 8);
    const int exponent = bits >> 52 & 2047, large = exponent > 1077 ? exponent - 1077 : 0;
    const int first = (int)(segment % 32) * 53 + large;
    for (int n = first; n < first + 53 && n < (is_gfx12 ? 1184 : 1201); n++)
        sum += ldexp(digits[n / 24] >> (23 - n % 24) & 1, first - n - 1);
    return ldexp(sum, (exponent >= 1968 ? 128 : 0) - first);
}
FORMULA float division_scale(float d, float n, int which)
{
    const struct division_scaling a = division_scaling32(d, n);
    /* what is both is scaled as the denominator where only that is, and so on */
    const int places =
        bits32(d) == bits32(n) && !a.places[which] ? a.places[!which] : a.places[which];
    return a.nan ? NAN : (float)ldexp(which ? n : d, places);
}
FORMULA double division_scale64(double d, double n, int which)
{
    const struct division_scaling a = division_scaling64(d, n);
    const int places =
        bits64(d) == bits64(n) && !a.places[which] ? a.places[!which] : a.places[which];
    return a.nan ? NAN : ldexp(which ? n : d, places);
}
FORMULA uint64_t division_unscales(float d, float n)
{
    return division_scaling32(d, n).back;
}

/* ---- Classes: a bit for each ----------------------------------------------------------------- */
FORMULA uint64_t class_of(int kind, bool negative, bool quiet)
{
    return kind == FP_NAN         ? (quiet ? 2 : 1)
           : kind == FP_INFINITE  ? (negative ? 4 : 512)
           : kind == FP_NORMAL    ? (negative ? 8 : 256)
           : kind == FP_SUBNORMAL ? (negative ? 16 : 128)
                                  : (negative ? 32 : 64);
}
FORMULA uint64_t class_of_float(float f, bool quiet)
{
    return class_of(fpclassify(f), signbit(f), quiet);
}
FORMULA uint64_t class_of_double(double d, bool quiet)
{
    return class_of(fpclassify(d), signbit(d), quiet);
}
FORMULA uint64_t class_of_half(uint64_t x)
{
    const bool small = (x & 0x7c00) == 0 && (x & 0x3ff);
    return class_of(small ? FP_SUBNORMAL : fpclassify((float)half(x)), x >> 15 & 1, x >> 9 & 1);
}

/* ---- Integers -------------------------------------------------------------------------------- */
FORMULA uint64_t field(uint64_t x, uint64_t offset, uint64_t width)
{
    uint64_t r = 0;
    for (uint64_t n = 0; n < width && offset + n < 64; n++)
        r |= (x >> (offset + n) & 1) << n;
    return r;
}
FORMULA uint64_t signed_field(uint64_t x, uint64_t width)
{
    const uint64_t sign = width ? (uint64_t)1 << (width - 1) : 0, low = field(x, 0, width);
    return low & sign ? low - 2 * sign : low;
}
/* bits of a number of `size` bits, its sign continued */
FORMULA uint64_t signed_part(int64_t x, uint64_t offset, uint64_t width, uint64_t size)
{
    const uint64_t part = (uint64_t)(x >> offset);
    return width >= size ? part : signed_field(part, width);
}
FORMULA uint64_t mirror(uint64_t x, unsigned size)
{
    uint64_t r = 0;
    for (unsigned n = 0; n < size; n++)
        r |= (x >> n & 1) << (size - 1 - n);
    return r;
}
FORMULA uint64_t ones(uint64_t x)
{
    uint64_t count = 0;
    for (; x; x &= x - 1)
        count++;
    return count;
}
/* -1 if there is no bit that is set */
FORMULA uint64_t leading_zeros(uint64_t x, unsigned size)
{
    for (unsigned n = 0; n < size; n++)
        if (x >> (size - 1 - n) & 1)
            return n;
    return UINT64_MAX;
}
FORMULA uint64_t trailing_zeros(uint64_t x, unsigned size)
{
    for (unsigned n = 0; n < size; n++)
        if (x >> n & 1)
            return n;
    return UINT64_MAX;
}
/* leading bits that equal the sign; -1 if all do */
FORMULA uint64_t sign_run(uint64_t x, unsigned size)
{
    for (unsigned n = 1; n < size; n++)
        if ((x >> (size - 1 - n) & 1) != (x >> (size - 1) & 1))
            return n;
    return UINT64_MAX;
}
FORMULA uint64_t truth_table(unsigned table, uint64_t x, uint64_t y, uint64_t z)
{
    uint64_t r = 0;
    for (unsigned n = 0; n < 32; n++) {
        const unsigned index =
            (unsigned)(x >> n & 1) * 4 + (unsigned)(y >> n & 1) * 2 + (unsigned)(z >> n & 1);
        r |= (uint64_t)(table >> index & 1) << n;
    }
    return r;
}
FORMULA uint64_t bytes_by_selector(uint64_t x, uint64_t y, uint32_t selectors)
{
    const uint64_t all = u(x) << 32 | u(y);
    uint64_t r = 0;
    for (unsigned n = 0; n < 32; n += 8) {
        const unsigned sel = selectors >> n & 255;
        const uint64_t byte = sel < 8     ? all >> 8 * sel & 255
                              : sel < 12  ? (all >> (16 * (sel - 8) + 15) & 1) * 255
                              : sel == 12 ? 0
                                          : 255;
        r |= byte << n;
    }
    return r;
}
FORMULA uint64_t sorted(int64_t p, int64_t q, int64_t r, unsigned place)
{
    int64_t v[3] = {p, q, r};
    for (unsigned n = 0; n < 3; n++)
        for (unsigned k = 0; k < 2; k++)
            if (v[k] > v[k + 1]) {
                const int64_t t = v[k];
                v[k] = v[k + 1];
                v[k + 1] = t;
            }
    return (uint64_t)v[place];
}
/* sum of the differences of parts of `size` bits */
FORMULA uint64_t differences(uint64_t x, uint64_t y, unsigned size)
{
    uint64_t sum = 0;
    for (unsigned n = 0; n < 32; n += size) {
        const uint64_t p = field(x, n, size), q = field(y, n, size);
        sum += p > q ? p - q : q - p;
    }
    return sum;
}
/* the same of bytes, of which those do not count that are 0 in y */
FORMULA uint64_t masked_differences(uint64_t x, uint64_t y)
{
    uint64_t sum = 0;
    for (unsigned n = 0; n < 32; n += 8)
        if (field(y, n, 8))
            sum += differences(field(x, n, 8), field(y, n, 8), 8);
    return sum;
}
/* of the four windows of four bytes that begin in the first four of x, each added to a part of z */
FORMULA uint64_t four_differences(uint64_t x, uint64_t y, uint64_t z, bool masked)
{
    uint64_t sums = 0;
    for (unsigned n = 0; n < 4; n++) {
        const uint64_t window = u(x >> 8 * n);
        const uint64_t sum = masked ? masked_differences(window, y) : differences(window, y, 8);
        sums |= (uint64_t)w(sum + (z >> 16 * n)) << 16 * n;
    }
    return sums;
}
/* of each byte; the lowest bit of one of z says whether halves are rounded up */
FORMULA uint64_t mean_bytes(uint64_t x, uint64_t y, uint64_t z)
{
    uint64_t means = 0;
    for (unsigned n = 0; n < 32; n += 8)
        means |= (field(x, n, 8) + field(y, n, 8) + field(z, n, 1)) / 2 << n;
    return means;
}
FORMULA int64_t dot(uint64_t x, uint64_t y, unsigned size, bool x_signed, bool y_signed)
{
    int64_t sum = 0;
    for (unsigned n = 0; n < 32; n += size) {
        const uint64_t p = field(x, n, size), q = field(y, n, size);
        sum += (int64_t)(x_signed ? signed_field(p, size) : p) *
               (int64_t)(y_signed ? signed_field(q, size) : q);
    }
    return sum;
}
FORMULA uint64_t doubled_bits(uint64_t x)
{
    uint64_t r = 0;
    for (unsigned n = 0; n < 32; n++)
        r |= (x >> n & 1) * 3 << 2 * n;
    return r;
}
FORMULA uint64_t quad_bits(uint64_t x)
{
    uint64_t r = 0;
    for (unsigned n = 0; n < 64; n++)
        r |= (x >> n & 1) << n / 4;
    return r;
}

FORMULA uint64_t quads(uint64_t x)
{
    uint64_t r = 0;
    for (unsigned n = 0; n < 64; n++)
        r |= (uint64_t)((x >> (n & ~3u) & 15) != 0) << n;
    return r;
}

/* ---- 8-bit floats: OCP e4m3 (3 bits of mantissa) and e5m2 (2) -------------------------------- */
FORMULA float small_float(uint64_t byte, unsigned mantissa_bits)
{
    const unsigned mantissa = byte & ((1u << mantissa_bits) - 1), e = (byte & 127) >> mantissa_bits;
    const int bias = mantissa_bits == 3 ? 7 : 15;
    double value;
    if (mantissa_bits == 3 && (byte & 127) == 127)
        return NAN;
    if (mantissa_bits == 2 && e == 31)
        value = mantissa ? NAN : INFINITY;
    else if (e)
        value = ldexp(mantissa + (1u << mantissa_bits), (int)e - bias - (int)mantissa_bits);
    else
        value = ldexp(mantissa, 1 - bias - (int)mantissa_bits);
    return (float)(byte & 128 ? -value : value);
}
FORMULA float dot_fp8(uint64_t x, uint64_t y, float addend, unsigned mx, unsigned my)
{
    float sum = addend;
    for (unsigned n = 0; n < 32; n += 8)
        sum = fmaf(small_float(x >> n & 255, mx), small_float(y >> n & 255, my), sum);
    return sum;
}

#endif
