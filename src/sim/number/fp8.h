/* SPDX-License-Identifier: MIT */
/*
 * Eight-bit floats: e4m3 (fp8) and e5m2 (bf8), as OCP defines them and, for gfx942, as "FNUZ":
 * bias one higher, no infinities, no -0, and 0x80 is the NaN.
 *
 * Conversions to them round to nearest even; what is too large becomes the NaN (infinity in OCP's
 * e5m2), as the hardware does while FP16_OVFL of MODE is 0.
 */
#ifndef QUERN_SIM_FP8_H
#define QUERN_SIM_FP8_H

#include "sim/number/number.h"

/* x is a byte; its exponent and mantissa are put in place in an f32 and scaled: exact. */
NUMBER float fnuz_to_f32(uint32_t x, unsigned mantissa, int bias)
{
    const int32_t magnitude = (int32_t)(x & 0x7f);
    const uint32_t least =
        bits_of_f32((float)magnitude) - ((uint32_t)(bias - 1 + (int)mantissa) << 23);
    const uint32_t normal =
        ((uint32_t)magnitude << (23 - mantissa)) + ((uint32_t)(127 - bias) << 23);
    const uint32_t denormal = pick(magnitude == 0, 0, least);
    const uint32_t value = pick(magnitude < 1 << mantissa, denormal, normal);

    return f32_of(pick(x == 0x80, 0x7fc00000u, value | (x & 0x80) << 24));
}
NUMBER float fp8_fnuz_to_f32(uint32_t x)
{
    return fnuz_to_f32(x, 3, 8);
}
NUMBER float bf8_fnuz_to_f32(uint32_t x)
{
    return fnuz_to_f32(x, 2, 16);
}

/*
 * The magnitude of f in a format with `mantissa` bits and `bias`, rounded to nearest even, or with
 * `truncate` toward zero; `large` where it is more than `most`.
 */
NUMBER uint32_t f32_to_small(float f, unsigned mantissa, int bias, uint32_t most, uint32_t large,
                             int truncate)
{
    const uint32_t magnitude = bits_of_f32(f) & 0x7fffffffu;
    const unsigned drop = 23 - mantissa;
    const int32_t least_normal = (128 - bias) << 23;
    const uint32_t half = truncate ? 0 : (1u << (drop - 1)) - 1 + (magnitude >> drop & 1);
    const uint32_t normal = (magnitude - ((uint32_t)(127 - bias) << 23) + half) >> drop;
    /* the last place of a denormal becomes that of a number with the exponent 23 higher */
    const uint32_t anchor = (uint32_t)(128 - bias + (int)drop) << 23;
    const float sum = f32_of(magnitude) + f32_of(anchor);
    const uint32_t over = truncate ? sum - f32_of(anchor) > f32_of(magnitude) : 0;
    const uint32_t denormal = bits_of_f32(sum) - anchor - over;
    const uint32_t value = pick((int32_t)magnitude < least_normal, denormal, normal);

    /* what is huge would wrap */
    return pick((int32_t)magnitude >= 0x48800000 || value > most, large, value);
}

/* Stochastic rounding: random bits below the mantissa that is kept, then truncation. */
NUMBER float add_random(float f, uint32_t random, unsigned mantissa)
{
    const uint32_t bits = bits_of_f32(f);
    return f32_of(
        pick((bits & 0x7f800000u) == 0x7f800000u, bits, bits + (random >> (9 + mantissa))));
}

/* The same as RDNA 4 does it: what will be a denormal, below 2^least, is first aligned with one,
 * and what is shifted out is lost. */
NUMBER float add_random_aligned(float f, uint32_t random, unsigned mantissa, int least)
{
    const uint32_t bits = bits_of_f32(f);
    const int32_t exponent = (int32_t)(bits >> 23 & 0xff), low = least + 127;
    const uint32_t significand = (bits & 0x7fffff) | (uint32_t)(exponent != 0) << 23;
    const uint32_t shift = (uint32_t)pick(exponent < low, (uint32_t)(low - exponent), 0);
    const uint32_t sum = (significand >> pick(shift < 31, shift, 31)) + (random >> (9 + mantissa));
    const uint32_t value = bits_of_f32((float)(int32_t)sum) + ((uint32_t)(least - 23) << 23);

    return pick_f32(exponent < low, f32_of(pick(sum != 0, value, 0) | (bits & 0x80000000u)),
                    add_random(f, random, mantissa));
}

NUMBER uint32_t f32_to_fp8(float f, int fnuz, int truncate)
{
    const uint32_t sign = bits_of_f32(f) >> 24 & 0x80;
    const uint32_t ocp = f32_to_small(f, 3, 7, 0x7e, 0x7f, truncate) | sign;
    const uint32_t own = f32_to_small(f, 3, 8, 0x7f, 0x80, truncate);

    return pick(fnuz, own | pick(own == 0, 0, sign), ocp);
}

NUMBER uint32_t f32_to_bf8(float f, int fnuz, int truncate)
{
    const uint32_t bits = bits_of_f32(f), sign = bits >> 24 & 0x80;
    const uint32_t large = pick((int32_t)(bits & 0x7fffffff) > 0x7f800000, 0x7f, 0x7c);
    const uint32_t ocp = f32_to_small(f, 2, 15, 0x7b, large, truncate) | sign;
    const uint32_t own = f32_to_small(f, 2, 16, 0x7f, 0x80, truncate);

    return pick(fnuz, own | pick(own == 0, 0, sign), ocp);
}

/* A float of few bits without infinities and NaN: sign, exponent with `bias`, mantissa. */
NUMBER float small_to_f32(uint32_t x, unsigned bits, unsigned mantissa, int bias)
{
    const int32_t magnitude = (int32_t)(x & ((1u << (bits - 1)) - 1));
    const uint32_t least =
        bits_of_f32((float)magnitude) - ((uint32_t)(bias - 1 + (int)mantissa) << 23);
    const uint32_t normal =
        ((uint32_t)magnitude << (23 - mantissa)) + ((uint32_t)(127 - bias) << 23);
    const uint32_t denormal = pick(magnitude == 0, 0, least);

    return f32_of(pick(magnitude < 1 << mantissa, denormal, normal) | x >> (bits - 1) << 31);
}

/* The power of two that a scale's exponent says; NaN for the highest. */
NUMBER float exponent_of(float scale)
{
    const uint32_t exponent = bits_of_f32(scale) & 0x7f800000u;
    return f32_of(
        pick(exponent == 0, 0x00400000, pick(exponent == 0x7f800000u, 0x7fc00000, exponent)));
}

#endif
