/* SPDX-License-Identifier: MIT */
#include "t_number.h"

#include "t_gpu.h"

#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

float t_f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

uint32_t t_f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

double t_f64(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, 8);
    return d;
}

uint64_t t_f64_bits(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, 8);
    return bits;
}

unsigned t_bits_of(enum t_type t)
{
    switch (t) {
    case F64:
        return 64;
    case F16:
    case BF16:
        return 16;
    case FP8:
    case BF8:
    case I8:
    case U8:
        return 8;
    case FP6:
    case BF6:
        return 6;
    case FP4:
    case I4:
    case U4:
        return 4;
    default:
        return 32;
    }
}

/* A float of `exponent` and `mantissa` bits. */
static double small_value(uint32_t x, unsigned exponent, unsigned mantissa, int bias)
{
    const uint32_t e = x >> mantissa & ((1u << exponent) - 1), m = x & ((1u << mantissa) - 1);
    const double value = e ? ldexp(m + (double)(1u << mantissa), (int)e - bias - (int)mantissa)
                           : ldexp(m, 1 - bias - (int)mantissa);
    return x >> (exponent + mantissa) & 1 ? -value : value;
}

double t_value_of(enum t_type t, uint32_t x, bool fnuz)
{
    _Float16 h;
    const uint16_t low = (uint16_t)x;

    switch (t) {
    case F32:
        return (double)t_f32(x);
    case XF32: {
        const double value = (double)t_f32(x);
        int e;
        if (!isfinite(value))
            return value;
        frexp(value, &e);
        e = e < -125 ? -125 : e; /* of denormals the places are those of the least normal */
        return ldexp(trunc(ldexp(value, 11 - e)), e - 11);
    }
    case F16:
        memcpy(&h, &low, 2);
        return (double)h;
    case BF16:
        return (double)t_f32(x << 16);
    case FP8:
        if (fnuz ? (x & 0xff) == 0x80 : (x & 0x7f) == 0x7f)
            return (double)NAN;
        return small_value(x & 0xff, 4, 3, fnuz ? 8 : 7);
    case BF8:
        if (fnuz ? (x & 0xff) == 0x80 : (x & 0x7f) > 0x7c)
            return (double)NAN;
        if (!fnuz && (x & 0x7f) == 0x7c)
            return x & 0x80 ? -(double)INFINITY : (double)INFINITY;
        return small_value(x & 0xff, 5, 2, fnuz ? 16 : 15);
    case FP6:
        return small_value(x & 63, 2, 3, 1);
    case BF6:
        return small_value(x & 63, 3, 2, 3);
    case FP4:
        return small_value(x & 15, 2, 1, 1);
    case U8:
        return x & 255;
    case I8:
        return (int8_t)x;
    case U4:
        return x & 15;
    case I4:
        return (int)((x & 15) ^ 8) - 8;
    default:
        return (int32_t)x;
    }
}

uint64_t t_draw(enum t_type t, bool special, uint64_t *random)
{
    static const uint32_t f32s[] = {0,          0x80000000, 1,          0x807fffff, 0x00400000,
                                    0x00800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                    0x3f801fff, 0x3f801000, 0x3f803000};
    static const uint16_t f16s[] = {0, 0x8000, 1, 0x83ff, 0x0200, 0x0400, 0x7bff, 0x7c00, 0x7e00};
    const uint64_t bits = t_random(random), choice = t_random(random);
    const bool odd = special && choice % 40 == 0;
    const double moderate = ((double)(bits & 0xfffff) - 0x80000) / 0x10000;
    _Float16 h = (_Float16)moderate;
    uint16_t half;

    switch (t) {
    case F32:
    case XF32:
        return odd ? f32s[choice / 40 % COUNT(f32s)]
                   : t_f32_bits((float)moderate * (float)(bits >> 40 & 0xffff));
    case F16:
        memcpy(&half, &h, 2);
        return odd ? f16s[choice / 40 % COUNT(f16s)] : half;
    case BF16:
        return (odd ? f32s[choice / 40 % COUNT(f32s)] : t_f32_bits((float)moderate)) >> 16;
    case F64: {
        const double d =
            odd ? (double)t_f32(f32s[choice / 40 % COUNT(f32s)]) : moderate * (double)(bits >> 20);
        return t_f64_bits(d);
    }
    case FP8:
    case BF8: {
        const uint64_t x = bits & 0xff;
        /* NaN and infinity only now and then */
        return odd || ((x & 0x7f) < (t == FP8 ? 0x7f : 0x7c) && x != 0x80) ? x : x & 0x83;
    }
    default:
        return bits & (((uint64_t)1 << t_bits_of(t)) - 1);
    }
}

uint32_t t_draw_small(enum t_type t, bool special, uint64_t *random)
{
    static const uint32_t f16s[] = {0x7c00, 0xfc00, 0x7e01, 0x8000, 0, 0x0001},
                          bf16s[] = {0x7f80, 0xff80, 0x7fc1, 0x8000, 0, 0x0080},
                          fp8s[] = {0x7f, 0xff, 0x80, 0, 0x01, 0x81},
                          bf8s[] = {0x7c, 0xfc, 0x7e, 0x80, 0, 0x01};
    const uint32_t n = (uint32_t)t_random(random), pick = n >> 16 & 0xff;
    const float f = (float)((int)(n % 33) - 16) / 8;
    const _Float16 h = (_Float16)f;
    uint16_t u;

    memcpy(&u, &h, 2);
    if (special && pick < 6 && t >= F16 && t <= BF8)
        return (t == F16 ? f16s : t == BF16 ? bf16s : t == FP8 ? fp8s : bf8s)[pick];
    switch (t) {
    case F16:
        return u;
    case BF16:
        return t_f32_bits(f) >> 16;
    case FP8: /* exponents near the bias */
        return (n & 0x87) | (4 + (n >> 8) % 5) << 3;
    case BF8:
        return (n & 0x83) | (12 + (n >> 8) % 5) << 2;
    default:
        return n & ((1u << t_bits_of(t)) - 1);
    }
}
