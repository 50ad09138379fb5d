/* SPDX-License-Identifier: MIT */
/*
 * What single GPU instructions do, in plain C, from the instruction set manuals and IEEE 754: the
 * twins of the builtins that gpu_side.h maps the same names to. They share nothing with the
 * software GPU, whose second opinion they are; clarity goes before speed.
 *
 * This file is long because it is a list of functions that both sides have, one for each sort of
 * instruction.
 */
#ifndef DIFFERENTIAL_TWINS_H
#define DIFFERENTIAL_TWINS_H

#include "cpu_side.h"

#include <math.h>

#define CAST(name, To, From)                                                                       \
    DEVICE To name(From value)                                                                     \
    {                                                                                              \
        To result;                                                                                 \
        memcpy(&result, &value, sizeof result);                                                    \
        return result;                                                                             \
    }
CAST(bits_of_f32, u32, f32)
CAST(f32_of_bits, f32, u32)
CAST(bits_of_f64, u64, f64)
CAST(f64_of_bits, f64, u64)
CAST(bits_of_f16, u16, f16)
CAST(f16_of_bits, f16, u16)
CAST(f16x2_of_bits, f16x2, u32)
CAST(u32_of_f16x2, u32, f16x2)

/* ---- Range-checked memory: out of range, loads give 0 and stores do nothing ------------------ */

#define BUFFER_LOAD(type)                                                                          \
    DEVICE type buffer_load_##type(const u8 *p, u32 bytes, u32 offset)                             \
    {                                                                                              \
        type value = 0;                                                                            \
        if (offset <= bytes - sizeof value)                                                        \
            memcpy(&value, p + offset, sizeof value);                                              \
        return value;                                                                              \
    }
#define BUFFER_STORE(type)                                                                         \
    DEVICE void buffer_store_##type(type value, u8 *p, u32 bytes, u32 offset)                      \
    {                                                                                              \
        if (offset <= bytes - sizeof value)                                                        \
            memcpy(p + offset, &value, sizeof value);                                              \
    }
BUFFER_LOAD(u8)
BUFFER_LOAD(u16)
BUFFER_LOAD(u32)
BUFFER_LOAD(u64)
BUFFER_STORE(u8)
BUFFER_STORE(u32)

/* ---- Bits ------------------------------------------------------------------------------------ */

DEVICE u64 reverse(u64 x, unsigned width)
{
    u64 r = 0;
    for (unsigned i = 0; i < width; i++)
        r |= (x >> i & 1) << (width - 1 - i);
    return r;
}
#define reverse64(x) reverse(x, 64)
#define reverse32(x) ((u32)reverse(x, 32))
#define reverse16(x) ((u16)reverse(x, 16))
#define reverse8(x)  ((u8)reverse(x, 8))

/* Selector bytes: 0-3 a byte of b, 4-7 of a; 8, 9, 10, 11 the sign of bits 15 and 31 of b and of a;
 * 12 gives 0, above 255. */
DEVICE u32 perm(u32 a, u32 b, u32 s)
{
    const u64 both = (u64)a << 32 | b;
    u32 r = 0;

    for (unsigned i = 0; i < 4; i++) {
        const u32 select = s >> 8 * i & 0xff;
        u32 byte = 0xff;
        if (select < 8)
            byte = both >> 8 * select & 0xff;
        else if (select < 12)
            byte = both >> (16 * (select - 8) + 15) & 1 ? 0xff : 0;
        else if (select == 12)
            byte = 0;
        r |= byte << 8 * i;
    }
    return r;
}

DEVICE u32 alignbit(u32 a, u32 b, u32 s) { return (u32)(((u64)a << 32 | b) >> (s & 31)); }
DEVICE u32 alignbyte(u32 a, u32 b, u32 s) { return (u32)(((u64)a << 32 | b) >> 8 * (s & 3)); }

DEVICE u32 ubfe(u32 x, u32 offset, u32 width)
{
    const u64 ones = ((u64)1 << (width & 31)) - 1;
    return (u32)(x >> (offset & 31) & ones);
}

DEVICE i32 sbfe(i32 x, u32 offset, u32 width)
{
    const u32 n = width & 31, field = ubfe((u32)x, offset, width);
    const int negative = n && (field >> (n - 1) & 1);
    return (i32)(negative ? field | ~((1u << n) - 1) : field);
}

/* Position from the top of the first bit unlike the sign; -1 if there is none. */
DEVICE i32 sffbh(i32 x)
{
    for (i32 i = 1; i < 32; i++)
        if ((x >> (31 - i) & 1) != (x >> 31 & 1))
            return i;
    return -1;
}

#define BYTE(x, i) ((u32)((x) >> 8 * (i)) & 0xff)
#define HALF(x, i) ((u32)((x) >> 16 * (i)) & 0xffff)

DEVICE u32 lerp_u8(u32 a, u32 b, u32 c)
{
    u32 r = 0;
    for (unsigned i = 0; i < 4; i++)
        r |= ((BYTE(a, i) + BYTE(b, i) + (BYTE(c, i) & 1)) >> 1) << 8 * i;
    return r;
}

DEVICE u32 distance(u32 a, u32 b) { return a > b ? a - b : b - a; }

DEVICE u32 sad_u8(u32 a, u32 b, u32 c)
{
    for (unsigned i = 0; i < 4; i++)
        c += distance(BYTE(a, i), BYTE(b, i));
    return c;
}

/* Bytes that are 0 in b do not count. */
DEVICE u32 msad_u8(u32 a, u32 b, u32 c)
{
    for (unsigned i = 0; i < 4; i++)
        c += BYTE(b, i) ? distance(BYTE(a, i), BYTE(b, i)) : 0;
    return c;
}

DEVICE u32 sad_hi_u8(u32 a, u32 b, u32 c) { return (sad_u8(a, b, 0) << 16) + c; }

DEVICE u32 sad_u16(u32 a, u32 b, u32 c)
{
    return c + distance(HALF(a, 0), HALF(b, 0)) + distance(HALF(a, 1), HALF(b, 1));
}

DEVICE u64 qsad_pk_u16_u8(u64 a, u32 b, u64 c)
{
    u64 r = 0;
    for (unsigned i = 0; i < 4; i++)
        r |= (u64)(sad_u8((u32)(a >> 8 * i), b, HALF(c, i)) & 0xffff) << 16 * i;
    return r;
}

DEVICE u64 mqsad_pk_u16_u8(u64 a, u32 b, u64 c)
{
    u64 r = 0;
    for (unsigned i = 0; i < 4; i++)
        r |= (u64)(msad_u8((u32)(a >> 8 * i), b, HALF(c, i)) & 0xffff) << 16 * i;
    return r;
}

DEVICE u32x4 mqsad_u32_u8(u64 a, u32 b, u64 low, u64 high)
{
    const u32x4 r = {msad_u8((u32)a, b, (u32)low), msad_u8((u32)(a >> 8), b, (u32)(low >> 32)),
                     msad_u8((u32)(a >> 16), b, (u32)high),
                     msad_u8((u32)(a >> 24), b, (u32)(high >> 32))};
    return r;
}

/* ---- Integer dots ---------------------------------------------------------------------------- */

DEVICE i64 element(u32 x, unsigned i, unsigned bits, int is_signed)
{
    const u32 field = x >> i * bits & ((1u << bits) - 1);
    return is_signed && field >> (bits - 1) ? (i64)field - ((i64)1 << bits) : (i64)field;
}

DEVICE i64 dot(u32 a, int a_signed, u32 b, int b_signed, unsigned bits)
{
    i64 sum = 0;
    for (unsigned i = 0; i < 32 / bits; i++)
        sum += element(a, i, bits, a_signed) * element(b, i, bits, b_signed);
    return sum;
}

/* Clamping acts on the exact sum. */
DEVICE u32 clamp_u32(i64 x) { return x < 0 ? 0 : x > UINT32_MAX ? UINT32_MAX : (u32)x; }
DEVICE i32 clamp_i32(i64 x)
{
    return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (i32)x;
}

DEVICE u32 dot_unsigned(u32 a, u32 b, u32 c, unsigned bits, int clamp)
{
    const i64 sum = dot(a, 0, b, 0, bits) + c;
    return clamp ? clamp_u32(sum) : (u32)sum;
}
DEVICE i32 dot_signed(int sa, u32 a, int sb, u32 b, i32 c, unsigned bits, int clamp)
{
    const i64 sum = dot(a, sa, b, sb, bits) + c;
    return clamp ? clamp_i32(sum) : (i32)(u32)sum;
}
#define udot4(a, b, c, clamp)          dot_unsigned(a, b, c, 8, clamp)
#define udot8(a, b, c, clamp)          dot_unsigned(a, b, c, 4, clamp)
#define sudot4(sa, a, sb, b, c, clamp) dot_signed(sa, (u32)(a), sb, (u32)(b), c, 8, clamp)
#define sudot8(sa, a, sb, b, c, clamp) dot_signed(sa, (u32)(a), sb, (u32)(b), c, 4, clamp)
#define sdot4(a, b, c, clamp)          dot_signed(1, (u32)(a), 1, (u32)(b), c, 8, clamp)
#define sdot8(a, b, c, clamp)          dot_signed(1, (u32)(a), 1, (u32)(b), c, 4, clamp)
DEVICE i32 sdot2(i16x2 a, i16x2 b, i32 c, int clamp)
{
    const i64 sum = (i64)a.x * b.x + (i64)a.y * b.y + c;
    return clamp ? clamp_i32(sum) : (i32)(u32)sum;
}
DEVICE u32 udot2(u16x2 a, u16x2 b, u32 c, int clamp)
{
    const u64 sum = (u64)a.x * b.x + (u64)a.y * b.y + c;
    return clamp && sum > UINT32_MAX ? UINT32_MAX : (u32)sum;
}

/* For operands whose sums and products are exact: then order and rounding do not matter. */
DEVICE f32 fdot2(f16x2 a, f16x2 b, f32 c)
{
    return (f32)((f64)a.x * b.x + (f64)a.y * b.y + (f64)c);
}

DEVICE f16 fdot2_f16(f16x2 a, f16x2 b, f16 c) { return (f16)fdot2(a, b, (f32)c); }
DEVICE f32 fdot2_f32_bf16(bf16x2 a, bf16x2 b, f32 c)
{
    const f64 low = (f64)f32_of_bits(a << 16) * f32_of_bits(b << 16);
    const f64 high = (f64)f32_of_bits(a & 0xffff0000u) * f32_of_bits(b & 0xffff0000u);
    return (f32)(low + high + (f64)c);
}
/* An exact result needs no rounding of its bits. */
DEVICE bf16 fdot2_bf16(bf16x2 a, bf16x2 b, bf16 c)
{
    return (bf16)(bits_of_f32(fdot2_f32_bf16(a, b, f32_of_bits((u32)c << 16))) >> 16);
}

/* ---- Saturation ------------------------------------------------------------------------------ */

#define SATURATING(name, type, wide, low, high, op)                                                \
    DEVICE type name(type a, type b)                                                               \
    {                                                                                              \
        const wide r = (wide)a op(wide) b;                                                         \
        return (type)(r < (wide)(low) ? (wide)(low) : r > (wide)(high) ? (wide)(high) : r);        \
    }
SATURATING(add_sat_u32, u32, i64, 0, UINT32_MAX, +)
SATURATING(sub_sat_u32, u32, i64, 0, UINT32_MAX, -)
SATURATING(add_sat_i32, i32, i64, INT32_MIN, INT32_MAX, +)
SATURATING(sub_sat_i32, i32, i64, INT32_MIN, INT32_MAX, -)
SATURATING(add_sat_u16, u16, i32, 0, UINT16_MAX, +)
SATURATING(sub_sat_u16, u16, i32, 0, UINT16_MAX, -)
SATURATING(add_sat_i16, i16, i32, INT16_MIN, INT16_MAX, +)
SATURATING(sub_sat_i16, i16, i32, INT16_MIN, INT16_MAX, -)
SATURATING(add_sat_u8, u8, i32, 0, UINT8_MAX, +)
SATURATING(add_sat_i8, i8, i32, INT8_MIN, INT8_MAX, +)
SATURATING(add_sat_u64, u64, __int128, 0, UINT64_MAX, +)
SATURATING(sub_sat_i64, i64, __int128, INT64_MIN, INT64_MAX, -)

/* ---- Conversions ----------------------------------------------------------------------------- */

/* Toward zero; what is out of range goes to its end, NaN to 0. */
#define CONVERSION(name, R, A, low, high)                                                          \
    DEVICE R name(A a)                                                                             \
    {                                                                                              \
        const f64 x = trunc((f64)a);                                                               \
        return isnan(x) ? 0 : x <= (f64)(low) ? (R)(low) : x >= (f64)(high) ? (R)(high) : (R)x;    \
    }
CONVERSION(cvt_i32_f32, i32, f32, INT32_MIN, INT32_MAX)
CONVERSION(cvt_u32_f32, u32, f32, 0, UINT32_MAX)
CONVERSION(cvt_i32_f64, i32, f64, INT32_MIN, INT32_MAX)
CONVERSION(cvt_u32_f64, u32, f64, 0, UINT32_MAX)
CONVERSION(cvt_i16_f16, i16, f16, INT16_MIN, INT16_MAX)
CONVERSION(cvt_u16_f16, u16, f16, 0, UINT16_MAX)

DEVICE f32 cvt_f32_ubyte1(u32 x) { return (f32)BYTE(x, 1); }
DEVICE f32 cvt_f32_ubyte2(u32 x) { return (f32)BYTE(x, 2); }
DEVICE f32 cvt_off_f32_i4(u32 x) { return (f32)element(x, 0, 4, 1) / 16; }

DEVICE u32 pack(u32 low, u32 high) { return (low & 0xffff) | high << 16; }

/* f16 from f32 toward zero: what is too large becomes the largest, infinity stays. */
DEVICE u16 f16_toward_zero(f32 x)
{
    const u16 sign = (u16)(bits_of_f32(x) >> 16 & 0x8000);
    f16 h;

    if (isinf(x))
        return sign | 0x7c00;
    h = (f16)x; /* to nearest; a step back if that went outward */
    if (isinf(h) || fabsf((f32)h) > fabsf(x))
        return sign | (u16)((bits_of_f16(h) & 0x7fff) - 1);
    return bits_of_f16(h);
}
DEVICE u32 cvt_pkrtz(f32 a, f32 b) { return pack(f16_toward_zero(a), f16_toward_zero(b)); }

DEVICE u16 norm_i16(f32 x)
{
    return (u16)(i16)(isnan(x) ? 0 : rint(fmin(fmax((f64)x, -1), 1) * 32767));
}
DEVICE u16 norm_u16(f32 x) { return isnan(x) ? 0 : (u16)rint(fmin(fmax((f64)x, 0), 1) * 65535); }
DEVICE u32 cvt_pknorm_i16(f32 a, f32 b) { return pack(norm_i16(a), norm_i16(b)); }
DEVICE u32 cvt_pknorm_u16(f32 a, f32 b) { return pack(norm_u16(a), norm_u16(b)); }

DEVICE u32 cvt_pk_i16(i32 a, i32 b)
{
    const i32 x = a < -32768 ? -32768 : a > 32767 ? 32767 : a;
    const i32 y = b < -32768 ? -32768 : b > 32767 ? 32767 : b;
    return pack((u32)x, (u32)y);
}
DEVICE u32 cvt_pk_u16(u32 a, u32 b) { return pack(a < 65535 ? a : 65535, b < 65535 ? b : 65535); }

DEVICE u32 cvt_pk_u8_f32(f32 x, u32 byte, u32 old)
{
    const u32 n = 8 * (byte & 3);
    const u32 value = x > 0 ? x < 255 ? (u32)rint((f64)x) : 255 : 0;
    return (old & ~(0xffu << n)) | value << n;
}

DEVICE f32 f32_of_bf16(u16 x) { return f32_of_bits((u32)x << 16); }

/* To nearest, ties to even. */
DEVICE u16 bf16_of_f32(f32 x)
{
    const u32 bits = bits_of_f32(x), rest = bits & 0xffff;
    const u16 down = (u16)(bits >> 16);

    if (isnan(x))
        return 0x7fc0;
    return (u16)(down + (rest > 0x8000 || (rest == 0x8000 && (down & 1))));
}

/* ---- Floats ---------------------------------------------------------------------------------- */

/* The number when the other is NaN; -0 below +0. */
#define MINIMUM(name, type, chosen)                                                                \
    DEVICE type name(type a, type b)                                                               \
    {                                                                                              \
        if (isnan(a))                                                                              \
            return b;                                                                              \
        if (isnan(b))                                                                              \
            return a;                                                                              \
        if (a == b)                                                                                \
            return (signbit((f64)a) != 0) == (chosen) ? a : b;                                     \
        return (a < b) == (chosen) ? a : b;                                                        \
    }
MINIMUM(min_f16, f16, 1)
MINIMUM(max_f16, f16, 0)
MINIMUM(min_f32, f32, 1)
MINIMUM(max_f32, f32, 0)
MINIMUM(min_f64, f64, 1)
MINIMUM(max_f64, f64, 0)

#define MEDIAN(name, type, min, max)                                                               \
    DEVICE type name(type a, type b, type c)                                                       \
    {                                                                                              \
        if (isnan(a) || isnan(b) || isnan(c))                                                      \
            return min(min(a, b), c);                                                              \
        return max(min(a, b), min(max(a, b), c));                                                  \
    }
MEDIAN(med3_f16, f16, min_f16, max_f16)
MEDIAN(med3_f32, f32, min_f32, max_f32)

/* Never rounds up to 1. */
DEVICE f32 fract_f32(f32 a) { return isfinite(a) ? min_f32(a - floorf(a), 0x1.fffffep-1f) : NAN; }
DEVICE f16 fract_f16(f16 a)
{
    const f16 f = (f16)(a - (f16)floorf(a));
    return !isfinite((f32)a) ? (f16)NAN : f < (f16)1.0f ? f : (f16)0x1.ffcp-1f;
}
DEVICE f64 fract_f64(f64 a)
{
    return isfinite(a) ? min_f64(a - floor(a), 0x1.fffffffffffffp-1) : (f64)NAN;
}

DEVICE f64 mantissa(f64 a)
{
    int e;
    return isfinite(a) ? frexp(a, &e) : a;
}
DEVICE int exponent_of(f64 a)
{
    int e = 0;
    if (isfinite(a))
        frexp(a, &e);
    return e;
}
#define frexp_mant_f16(a) ((f16)mantissa((f64)(a)))
#define frexp_mant_f32(a) ((f32)mantissa((f64)(a)))
#define frexp_mant_f64(a) mantissa(a)
#define frexp_exp_f16(a)  exponent_of((f64)(a))
#define frexp_exp_f32(a)  exponent_of((f64)(a))
#define frexp_exp_f64(a)  exponent_of(a)

/* Classes from bit 0: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal,
 * +normal, +inf. */
DEVICE u32 class_of(u64 magnitude, int negative, u64 infinity, u64 quiet, u64 smallest_normal)
{
    if (magnitude > infinity)
        return magnitude & quiet ? 1 : 0;
    const u32 step = magnitude == infinity          ? 3
                     : magnitude >= smallest_normal ? 2
                                                    : magnitude != 0;
    return negative ? 5 - step : 6 + step;
}
DEVICE u32 class_f16(f16 a, u32 m)
{
    const u32 b = bits_of_f16(a);
    return m >> class_of(b & 0x7fff, b >> 15, 0x7c00, 0x200, 0x400) & 1;
}
DEVICE u32 class_f32(f32 a, u32 m)
{
    const u32 b = bits_of_f32(a);
    return m >> class_of(b & 0x7fffffff, b >> 31, 0x7f800000, 0x400000, 0x800000) & 1;
}
DEVICE u32 class_f64(f64 a, u32 m)
{
    const u64 b = bits_of_f64(a), one = 1, infinity = 0x7ff * (one << 52);
    return m >> class_of(b & ~(one << 63), (int)(b >> 63), infinity, one << 51, one << 52) & 1;
}

/* ---- f16 ------------------------------------------------------------------------------------- */

/* x / 2^48 as f16, to nearest even. x is exact, so this rounds once. */
DEVICE f16 f16_of_fixed(__int128 x)
{
    const u16 sign = x < 0 ? 0x8000 : 0;
    const u128 magnitude = x < 0 ? (u128)-x : (u128)x;
    unsigned top = 0, shift;

    while (magnitude >> top > 1)
        top++;
    shift = top < 48 - 14 ? 48 - 24 : top - 10; /* the last place of denormals is 2^-24 */
    const u128 quotient = magnitude >> shift, rest = magnitude - (quotient << shift);
    const u128 half = (u128)1 << (shift - 1);
    u32 significand = (u32)quotient;
    significand += rest > half || (rest == half && (significand & 1));
    const u32 biased = shift - 24; /* of a significand without its leading bit: 0 for denormals */
    const u32 bits = (biased << 10) + significand;
    return f16_of_bits((u16)(sign | (bits > 0x7c00 ? 0x7c00 : bits)));
}

DEVICE f16 fma_f16(f16 a, f16 b, f16 c)
{
    if (!isfinite((f32)a) || !isfinite((f32)b) || !isfinite((f32)c))
        return (f16)((f32)a * (f32)b + (f32)c);
    const __int128 sum = (__int128)ldexp((f64)a * b, 48) + (__int128)ldexp((f64)c, 48);
    /* an exact zero has the sign that the float sum has */
    return sum ? f16_of_fixed(sum) : (f16)((f32)a * (f32)b + (f32)c);
}
DEVICE f16 sqrt_f16(f16 a) { return (f16)sqrt((f64)a); }
DEVICE f16 floor_f16(f16 a) { return (f16)floor((f64)a); }
DEVICE f16 ceil_f16(f16 a) { return (f16)ceil((f64)a); }
DEVICE f16 trunc_f16(f16 a) { return (f16)trunc((f64)a); }
DEVICE f16 rint_f16(f16 a) { return (f16)rint((f64)a); }
DEVICE f16 abs_f16(f16 a) { return f16_of_bits(bits_of_f16(a) & 0x7fff); }
DEVICE f16 ldexp_f16(f16 a, int e) { return (f16)ldexp((f64)a, e); }

/* ---- Pairs of 16-bit values ------------------------------------------------------------------ */

DEVICE f16x2 make_f16x2(f16 x, f16 y)
{
    const f16x2 r = {x, y};
    return r;
}
DEVICE u16x2 make_u16x2(u16 x, u16 y)
{
    const u16x2 r = {x, y};
    return r;
}

/* p and q are the two halves in turn. */
#define PAIR(name, type, part, ...)                                                                \
    DEVICE part part_##name(part p, part q) { return (part)(__VA_ARGS__); }                        \
    DEVICE type name(type a, type b)                                                               \
    {                                                                                              \
        const type r = {part_##name(a.x, b.x), part_##name(a.y, b.y)};                             \
        return r;                                                                                  \
    }
PAIR(add_f16x2, f16x2, f16, p + q)
PAIR(sub_f16x2, f16x2, f16, p - q)
PAIR(mul_f16x2, f16x2, f16, p *q)
PAIR(min_f16x2, f16x2, f16, min_f16(p, q))
PAIR(max_f16x2, f16x2, f16, max_f16(p, q))
PAIR(add_u16x2, u16x2, u16, p + q)
PAIR(sub_u16x2, u16x2, u16, p - q)
PAIR(mul_u16x2, u16x2, u16, (u32)p *q)
PAIR(min_u16x2, u16x2, u16, p < q ? p : q)
PAIR(max_u16x2, u16x2, u16, p > q ? p : q)
PAIR(min_i16x2, i16x2, i16, p < q ? p : q)
PAIR(max_i16x2, i16x2, i16, p > q ? p : q)
PAIR(shl_u16x2, u16x2, u16, p << (q & 15))
PAIR(shr_u16x2, u16x2, u16, p >> (q & 15))
PAIR(sar_i16x2, i16x2, i16, p >> (q & 15))
PAIR(add_sat_u16x2, u16x2, u16, add_sat_u16(p, q))
PAIR(sub_sat_u16x2, u16x2, u16, sub_sat_u16(p, q))
PAIR(add_sat_i16x2, i16x2, i16, add_sat_i16(p, q))
PAIR(sub_sat_i16x2, i16x2, i16, sub_sat_i16(p, q))

DEVICE f16x2 fma_f16x2(f16x2 a, f16x2 b, f16x2 c)
{
    return make_f16x2(fma_f16(a.x, b.x, c.x), fma_f16(a.y, b.y, c.y));
}
DEVICE f16x2 neg_f16x2(f16x2 a) { return make_f16x2(-a.x, -a.y); }

#endif
