/* SPDX-License-Identifier: MIT */
/*
 * Number formats of operands: conversions to and from f32, and arrays of any of them. The
 * eight-bit floats are e4m3: as OCP defines it (no infinities; 0x7f and 0xff are NaN), and "FNUZ"
 * as gfx942 has it (half the value for the same bits, no -0, and 0x80 is the only NaN).
 */
#include "quant/quant.h"

#include <math.h>
#include <string.h>

#define OCP_MAX    448.0f
#define FNUZ_MAX   240.0f
#define OCP_NAN    0x7f
#define FNUZ_NAN   0x80
#define MANTISSA   3
#define OCP_LEAST  (-9) /* exponent of the smallest denormal */
#define FNUZ_LEAST (-10)

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* bits >> shift, rounded to nearest, ties to even; 1 <= shift <= 31 */
static uint32_t round_shift(uint32_t bits, unsigned shift)
{
    const uint32_t half = UINT32_C(1) << (shift - 1);

    return (bits + (half - 1) + ((bits >> shift) & 1)) >> shift;
}

uint16_t quant_f16_from_f32(float x)
{
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

    if (magnitude > 0x7f800000) /* NaN: keep the payload's top, and make it quiet */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude >= 0x47800000) /* 2^16 and up */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000) /* 2^-14 and up: normal; a carry runs into the exponent, or to ∞ */
        return (uint16_t)(sign | round_shift(magnitude - 0x38000000, 13));
    if (magnitude < 0x33000000) /* below half the least denormal */
        return (uint16_t)sign;
    const unsigned exponent = magnitude >> 23;
    const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | round_shift(mantissa, 126 - exponent));
}

float quant_f32_from_f16(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, magnitude = x & 0x7fff;

    if (magnitude >= 0x7c00)
        return float_of(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x400)
        return float_of(sign | ((magnitude << 13) + 0x38000000));
    const float value = (float)magnitude * 0x1p-24f; /* exact */
    return sign ? -value : value;
}

uint16_t quant_bf16_from_f32(float x)
{
    const uint32_t bits = bits_of(x);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)round_shift(bits, 16);
}

float quant_f32_from_bf16(uint16_t x)
{
    return float_of((uint32_t)x << 16);
}

float quant_fp8_largest(bool fnuz)
{
    return fnuz ? FNUZ_MAX : OCP_MAX;
}

float quant_f32_from_fp8(uint8_t x, bool fnuz)
{
    const int magnitude = x & 0x7f, exponent = magnitude >> MANTISSA;
    const int mantissa = magnitude & ((1 << MANTISSA) - 1);
    const int least = fnuz ? FNUZ_LEAST : OCP_LEAST;

    if (fnuz ? x == FNUZ_NAN : magnitude == OCP_NAN)
        return NAN;
    const float value = exponent ? ldexpf((float)(mantissa + 8), least + exponent - 1)
                                 : ldexpf((float)mantissa, least);
    return x & 0x80 ? -value : value;
}

uint8_t quant_fp8_from_f32(float x, bool fnuz)
{
    const float most = quant_fp8_largest(fnuz), magnitude = fabsf(x);
    const int least = fnuz ? FNUZ_LEAST : OCP_LEAST;
    const bool negative = signbit(x);
    int exponent;

    if (isnan(x) || isinf(x))
        return fnuz ? FNUZ_NAN : OCP_NAN;
    if (magnitude >= most) {
        const uint8_t largest = fnuz ? 0x7f : 0x7e;
        return negative ? largest | 0x80 : largest;
    }
    /* `place` is the exponent of the last mantissa bit, at least that of the smallest denormal */
    const bool zero = frexpf(magnitude, &exponent) == 0;
    const int place = zero || exponent - 1 - MANTISSA < least ? least : exponent - 1 - MANTISSA;
    /* ldexpf is exact, so that rintf alone rounds, to nearest even; where it rounds up to the next
     * power of two, the sum below carries into the exponent, as it should */
    const int units = (int)rintf(ldexpf(magnitude, -place));
    const uint8_t bits = (uint8_t)(((place - least) << MANTISSA) + units);
    return negative && !(fnuz && !bits) ? bits | 0x80 : bits;
}

float quant_load(enum quern_dtype t, const void *array, size_t i)
{
    switch (t) {
    case QUERN_F32:
        return ((const float *)array)[i];
    case QUERN_F16:
        return quant_f32_from_f16(((const uint16_t *)array)[i]);
    case QUERN_BF16:
        return quant_f32_from_bf16(((const uint16_t *)array)[i]);
    case QUERN_DT_FP8:
    case QUERN_DT_FP8FNUZ:
        return quant_f32_from_fp8(((const uint8_t *)array)[i], t == QUERN_DT_FP8FNUZ);
    }
    return NAN;
}

void quant_store(enum quern_dtype t, void *array, size_t i, float x)
{
    switch (t) {
    case QUERN_F32:
        ((float *)array)[i] = x;
        break;
    case QUERN_F16:
        ((uint16_t *)array)[i] = quant_f16_from_f32(x);
        break;
    case QUERN_BF16:
        ((uint16_t *)array)[i] = quant_bf16_from_f32(x);
        break;
    case QUERN_DT_FP8:
    case QUERN_DT_FP8FNUZ:
        ((uint8_t *)array)[i] = quant_fp8_from_f32(x, t == QUERN_DT_FP8FNUZ);
        break;
    }
}
