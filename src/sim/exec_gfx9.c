/* SPDX-License-Identifier: MIT */
/* Vector ALU instructions of gfx9: rows in gfx9.def. */
#include "sim/fp8.h"

/* ---- Helpers of single instructions ---------------------------------------------------------- */

NUMBER float fp8_any_to_f32(uint32_t x, int fnuz)
{
    return pick_f32(fnuz, fp8_fnuz_to_f32(x), fp8_to_f32(x));
}

NUMBER float bf8_any_to_f32(uint32_t x, int fnuz)
{
    return pick_f32(fnuz, bf8_fnuz_to_f32(x), bf8_to_f32(x));
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

#define ROWS_FILE "sim/gfx9.def"
#define ROWS_NAME rows_gfx9
#include "sim/exec_rows.h"
