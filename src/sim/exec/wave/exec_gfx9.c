/* SPDX-License-Identifier: MIT */
/* Vector ALU instructions of gfx9: rows in exec_gfx9.def. */
#include "sim/exec/wave/exec.h"
#include "sim/number/fp8.h"

/* ---- Helpers of single instructions ---------------------------------------------------------- */

NUMBER float fp8_any_to_f32(uint32_t x, int fnuz)
{
    return pick_f32(fnuz, fp8_fnuz_to_f32(x), fp8_to_f32(x));
}

NUMBER float bf8_any_to_f32(uint32_t x, int fnuz)
{
    return pick_f32(fnuz, bf8_fnuz_to_f32(x), bf8_to_f32(x));
}

/* RDNA 4's conversions to eight bits: any NaN becomes one and the same, and stochastic rounding is
 * after the alignment of denormals. Captured on gfx1201 (bjacob/goc). */
#define IS_RDNA4 ((w->target->capabilities & CAP_WMMA_128B) != 0)

NUMBER uint32_t any_to_fp8(float f, int fnuz, int rdna4, int truncate)
{
    return pick(rdna4 & (f != f), 0xff, f32_to_fp8(f, fnuz, truncate));
}

NUMBER uint32_t any_to_bf8(float f, int fnuz, int rdna4, int truncate)
{
    return pick(rdna4 & (f != f), 0xfe, f32_to_bf8(f, fnuz, truncate));
}

NUMBER float any_random(float f, uint32_t random, unsigned mantissa, int rdna4)
{
    return pick_f32(rdna4, add_random_aligned(f, random, mantissa, mantissa == 3 ? -6 : -14),
                    add_random(f, random, mantissa));
}

NUMBER uint32_t place_byte(uint32_t old, uint32_t x, unsigned byte)
{
    const unsigned shift = 8 * (byte & 3);
    return (old & ~(0xffu << shift)) | x << shift;
}

NUMBER uint32_t truncate_bf16(float f)
{
    const uint32_t bits = bits_of_f32(f);
    return pick((int32_t)(bits & 0x7fffffff) > 0x7f800000, bits >> 16 | 0x40, bits >> 16);
}

NUMBER uint32_t sat_i8(int32_t x)
{
    return (uint32_t)(x < -128 ? -128 : x > 127 ? 127 : x);
}

/* NaN if either is one. */
NUMBER float minimum_f32(float a, float b)
{
    return pick_f32(a != a, a, pick_f32(b != b, b, min_f32(a, b)));
}

NUMBER float maximum_f32(float a, float b)
{
    return pick_f32(a != a, a, pick_f32(b != b, b, max_f32(a, b)));
}

NUMBER uint32_t byte_of(uint32_t x, const struct insn *i)
{
    return x >> 8 * (2 * (i->extra[1] & 1) + (i->extra[1] >> 1 & 1)) & 0xff;
}

NUMBER uint32_t word_of(uint32_t x, const struct insn *i)
{
    return x >> 16 * (i->extra[1] & 1) & 0xffff;
}

/* Of a stochastic conversion to four bits: two numbers, of one random number. */
NUMBER uint32_t pack_fp4_random(float low, float high, uint32_t random, float scale)
{
    const float x = add_random(low / scale, random, 1), y = add_random(high / scale, random, 1);
    return f32_to_small(x, 1, 1, 7, 7, 1) | (bits_of_f32(x) >> 28 & 8) |
           f32_to_small(y, 1, 1, 7, 7, 1) << 4 | (bits_of_f32(y) >> 28 & 8) << 4;
}

NUMBER float fp4_to_f32(uint32_t x)
{
    return small_to_f32(x, 4, 1, 1);
}

/* Two numbers divided by a scale, each rounded to the nearest of e2m1; what is too large becomes
 * the largest. */
NUMBER uint32_t pack_fp4(float low, float high, float scale)
{
    const float x = low / scale, y = high / scale;
    return f32_to_small(x, 1, 1, 7, 7, 0) | (bits_of_f32(x) >> 28 & 8) |
           f32_to_small(y, 1, 1, 7, 7, 0) << 4 | (bits_of_f32(y) >> 28 & 8) << 4;
}

/* four sources, the last of them the destination's old bits */
VECTOR_BODY(sr_pk_fp4_f32, u, 4, LET_4(r, u, f, u),
            place_byte(d, pack_fp4_random(a.low, a.high, b, exponent_of(c)), i->extra[1] >> 2))
VECTOR_BODY(sr_pk_fp4_f16, u, 4, LET_4(u, u, f, u),
            place_byte(d, pack_fp4_random(LOW_F16(a), HIGH_F16(a), b, exponent_of(c)),
                       i->extra[1] >> 2))
VECTOR_BODY(sr_pk_fp4_bf16, u, 4, LET_4(u, u, f, u),
            place_byte(d,
                       pack_fp4_random(f32_of(a << 16), f32_of(a & 0xffff0000u), b, exponent_of(c)),
                       i->extra[1] >> 2))
#define SR_BYTE(NAME, A, CODE, MANTISSA, VALUE)                                                    \
    VECTOR_BODY(NAME, u, 4, LET_4(A, u, f, u),                                                     \
                place_byte(d, CODE(add_random((VALUE) / exponent_of(c), b, MANTISSA), 0, 1),       \
                           i->extra[1] >> 2))
SR_BYTE(sr_fp8_f32, f, f32_to_fp8, 3, a)
SR_BYTE(sr_bf8_f32, f, f32_to_bf8, 2, a)
SR_BYTE(sr_fp8_f16, u, f32_to_fp8, 3, LOW_F16(a))
SR_BYTE(sr_bf8_f16, u, f32_to_bf8, 2, LOW_F16(a))
SR_BYTE(sr_fp8_bf16, u, f32_to_fp8, 3, f32_of(a << 16))
SR_BYTE(sr_bf8_bf16, u, f32_to_bf8, 2, f32_of(a << 16))
VECTOR_BODY(pk_fp4_f32, u, 4, LET_4(f, f, f, u),
            place_byte(d, pack_fp4(a, b, exponent_of(c)), i->extra[1] >> 2))

#define ROWS_FILE "sim/exec/wave/exec_gfx9.def"
#define ROWS_NAME rows_gfx9
#include "sim/exec/wave/exec_rows.h"
