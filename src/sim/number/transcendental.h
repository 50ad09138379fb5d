/* SPDX-License-Identifier: MIT */
/*
 * Reciprocals, square roots, exponentials and logarithms of f32 as RDNA 3 and RDNA 4 compute them,
 * bit for bit: a cubic in fixed point for each segment of the argument (cubics.h), of whose terms
 * the higher ones are cut or rounded to 24 bits on the way. docs/sim.md has the sources. All of it
 * is in integers, so that no mode of the host's counts. Denormals are zeros, in and out, whatever
 * the wave's mode says; NaNs become quiet.
 */
#ifndef QUERN_SIM_TRANSCENDENTAL_H
#define QUERN_SIM_TRANSCENDENTAL_H

#include "sim/number/cubics.h"
#include "sim/number/number.h"

#include <stdbool.h>

#define TRANS_INFINITY 0x7f800000u
#define TRANS_INVALID  0xffc00000u /* the root or logarithm of a negative number */
#define TRANS_QUIET    0x00400000u

/* x / 2^n to the nearest integer, ties to even. */
static inline uint64_t to_nearest(uint64_t x, unsigned n)
{
    const uint64_t half = (uint64_t)1 << (n - 1), rest = x & (2 * half - 1), down = x >> n;

    return down + (rest > half || (rest == half && (down & 1)));
}

/* x / 2^23, rounded to 24 significant bits: from 2^47 on the last bit is a zero. */
static inline uint64_t to_24_bits(uint64_t x)
{
    return x >> 47 ? to_nearest(x, 24) << 1 : to_nearest(x, 23);
}

/* The terms of second and third order at f, 24 bits of a segment, of which the upper 17 are
 * squared. `scale` is that of the quadratic coefficient, `cut` where the third is rounded. */
static inline uint64_t higher_terms(const struct cubic *c, uint64_t f, unsigned scale, unsigned cut)
{
    const uint64_t top = f >> 7;
    const uint64_t inner =
        ((uint64_t)c->quadratic << scale) - to_nearest(c->third * ((f >> 4) + 1), cut);

    return to_24_bits(inner * (top * top >> 10));
}

/* The exponent of a positive normal number, and whether it is odd, which is 1 also below 0. */
static inline int exponent_of_bits(uint32_t magnitude)
{
    return (int)(magnitude >> 23) - 127;
}

/* What NaN, zeros, infinities and (where it has no result) negative numbers give. True: *result is
 * it. */
static inline bool trans_special(uint32_t x, bool negative, uint32_t of_zero, uint32_t of_infinity,
                                 uint32_t *result)
{
    const uint32_t magnitude = x & 0x7fffffffu;

    *result = magnitude > TRANS_INFINITY    ? x | TRANS_QUIET
              : magnitude < 0x00800000u     ? of_zero
              : !negative && x >> 31        ? TRANS_INVALID
              : magnitude == TRANS_INFINITY ? of_infinity
                                            : 0;
    return magnitude < 0x00800000u || magnitude >= TRANS_INFINITY || (!negative && x >> 31);
}

/* 2 to the power of x as an f32 whose last bit is odd where it is not exact: rounded to a half, it
 * is as if it had been exact. (Of logarithms log2f's result does for every half.) */
static inline float exp_to_odd(float x)
{
    const double exact = exp2((double)x);
    const float near = (float)exact;
    const uint32_t bits = bits_of_f32(near) - (fabs((double)near) > fabs(exact));

    return f32_of(bits | ((double)near != exact));
}

static inline uint32_t rcp_bits(uint32_t x)
{
    const uint32_t sign = x & 0x80000000u, mantissa = x & 0x007fffffu;
    uint32_t result;

    if (trans_special(x, true, sign | TRANS_INFINITY, sign, &result))
        return result;
    const struct cubic *const c = &cubics_rcp[mantissa >> 18];
    const uint64_t f = (uint64_t)(mantissa & 0x3ffff) << 6, product = c->linear * f;
    const uint64_t linear = product >> 44 ? to_nearest(product, 21) : (product + 0x17ffff) >> 21;
    /* in units of 2^-35; the result is at most 1 */
    const uint64_t sum = (uint64_t)c->constant * 512 - linear * 64 + higher_terms(c, f, 8, 12);
    const int exponent = 126 - exponent_of_bits(x & 0x7fffffffu);
    result = ((uint32_t)exponent << 23) + (uint32_t)to_nearest(sum, 11) - 0x00800000u;
    return sign | (exponent < 0 || result < 0x00800000u ? 0 : result);
}

static inline uint32_t rsq_bits(uint32_t x)
{
    uint32_t result;

    if (trans_special(x, false, (x & 0x80000000u) | TRANS_INFINITY, 0, &result))
        return result;
    const int exponent = exponent_of_bits(x), odd = exponent & 1;
    const unsigned segment = x >> 18 & 31;
    const struct cubic *const c = &cubics_rsq[32 * odd + (int)segment];
    const uint64_t f = (uint64_t)(x & 0x3ffff) << 6;
    /* the last segment's linear term does not see two bits */
    const uint64_t product = c->linear * (segment == 31 ? f & ~(uint64_t)0x30 : f);
    const uint64_t linear = (product + (product >> 43 ? 0x17ffff : 0x1bffff)) >> 21;
    const uint64_t sum = (uint64_t)c->constant * 1024 - linear * 128 + higher_terms(c, f, 9, 11);
    return ((uint32_t)(126 - (exponent - odd) / 2) << 23) + (uint32_t)to_nearest(sum, 12) -
           0x00800000u;
}

static inline uint32_t sqrt_bits(uint32_t x)
{
    uint32_t result;

    if (trans_special(x, false, x & 0x80000000u, TRANS_INFINITY, &result))
        return result;
    const int exponent = exponent_of_bits(x), odd = exponent & 1;
    const struct cubic *const c = &cubics_sqrt[16 * odd + (int)(x >> 19 & 15)];
    const uint64_t t = x & 0x7ffff, product = c->linear * t;
    const uint64_t linear = (product + (product >> 40 ? 0x10000 : 0x8000)) >> 17;
    const uint64_t inner = (((uint64_t)c->quadratic << 19) - c->third * (2 * t + 1) + 0x400) >> 11;
    const uint64_t sum = ((uint64_t)c->constant << 10) + (linear << 7) -
                         to_24_bits(inner * ((t >> 2) * (t >> 2) >> 10));
    return ((uint32_t)((exponent - odd) / 2 + 127) << 23) + (uint32_t)to_nearest(sum, 12) -
           0x00800000u;
}

/* 2 to the power of x. The fraction of a negative x is the complement of that of its magnitude, not
 * one less it; arguments are cut to 29 bits behind the point. */
static inline uint32_t exp_bits(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffffu, exponent = magnitude >> 23;

    if (magnitude > TRANS_INFINITY)
        return x | TRANS_QUIET;
    if (exponent < 103) /* below 2^-24 */
        return 0x3f800000u;
    if (exponent >= 134) /* from 128 on */
        return x >> 31 ? 0 : TRANS_INFINITY;
    const uint64_t significand = (magnitude & 0x007fffffu) | 0x00800000u;
    const uint64_t fixed =
        exponent >= 121 ? significand << (exponent - 121) : significand >> (121 - exponent);
    const int64_t phase = x >> 31 ? ~(int64_t)fixed : (int64_t)fixed;
    const struct cubic *const c = &cubics_exp[phase >> 24 & 31];
    const uint64_t f = (uint64_t)phase & 0xffffff, upper = f >> 6, product = c->linear * f;
    const uint64_t linear = (product + (product >> 47 ? 1u << 23 : 1u << 22)) >> 24;
    const uint64_t inner = to_nearest(((uint64_t)c->quadratic << 7) + c->third * upper, 7);
    const uint64_t sum = ((c->constant + linear) << 8) + to_24_bits(inner * (upper * upper >> 12));
    const int64_t field = (phase >> 29) + 126;
    const int64_t result = field * 0x00800000 + (int64_t)to_nearest(sum, 13);
    return result < 0x00800000 ? 0 : LEAST((uint32_t)result, TRANS_INFINITY);
}

/* ---- Logarithms ------------------------------------------------------------------------------ */

/* A number of `bits` behind the point as an f32: cut off, or rounded away from zero. */
static inline uint32_t fixed_to_f32(uint64_t x, int bits, bool away)
{
    const int top = 63 - __builtin_clzll(x), extra = top - 23;
    const uint64_t cut = extra > 0 ? x >> extra : x << -extra;

    return ((uint32_t)(top - bits + 126) << 23) +
           (uint32_t)(cut + (away && extra > 0 && cut << extra != x));
}

static inline uint64_t even_from_25_bits(uint64_t x)
{
    return x >> 25 ? x & ~(uint64_t)1 : x;
}

/* The logarithm of 1 + n 2^-23, or less that of 1 - n 2^-24: what is small is taken with more bits,
 * in groups of four. */
static inline uint32_t log_of_one(bool below, uint64_t n)
{
    const unsigned row = below ? 3 + (n >> 17 != 0) : (n >> 16 != 0) + (n >> 17 != 0);
    const struct biased_cubic *const c = &cubics_log_of_one[row];
    unsigned scale = 0;

    while (scale < 16 && n << scale < 1u << 14)
        scale += 4;
    const uint64_t scaled = n << scale, linear = (c->of.linear * scaled >> 15) << 3;
    const uint64_t square = scaled * scaled >> (12 + scale), third = c->of.third * n + c->bias;
    const int64_t first = (int32_t)c->of.constant + (int64_t)linear;
    const uint64_t inner =
        below ? c->of.quadratic + (third >> 22) : c->of.quadratic - (third >> 23);
    const int64_t second = (int64_t)even_from_25_bits(inner * square >> (below ? 23 : 22));
    return fixed_to_f32((uint64_t)(below ? first + second : first - second),
                        (below ? 37 : 36) + (int)scale, true) |
           (below ? 0x80000000u : 0);
}

static inline uint32_t log_bits(uint32_t x)
{
    const uint32_t mantissa = x & 0x007fffffu;
    uint32_t result;

    if (trans_special(x, false, 0xff800000u, TRANS_INFINITY, &result))
        return result;
    const int exponent = exponent_of_bits(x);
    if (exponent == 0 && mantissa < 1u << 18)
        return mantissa ? log_of_one(false, mantissa) : 0;
    if (exponent == -1 && mantissa > 0x7c0000u)
        return log_of_one(true, 0x00800000u - mantissa);
    const struct biased_cubic *const c = &cubics_log[mantissa >> 17 == 3 ? 32 : mantissa >> 18];
    const uint64_t f = mantissa & 0x3ffff, square = f * f >> 12;
    const uint64_t inner = c->of.quadratic - ((c->of.third * f + c->bias) >> 23);
    const uint64_t linear = (c->of.linear * f >> 16) << 6;
    const int64_t sum = exponent * ((int64_t)1 << 36) + (int64_t)((uint64_t)c->of.constant << 6) +
                        (int64_t)linear - (int64_t)even_from_25_bits(inner * square >> 22);
    /* downwards, which of a negative number is away from zero */
    return sum < 0 ? 0x80000000u | fixed_to_f32((uint64_t)-sum, 36, true)
                   : fixed_to_f32((uint64_t)sum, 36, false);
}

#endif
