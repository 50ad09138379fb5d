/* SPDX-License-Identifier: MIT */
// Matrix instructions of gfx90a and gfx942: 16 rows of A times 16 rows of W, 16 along K, four in
// each quarter of the wave. A lane holds one column of the result, of W's row lane % 16, and rows
// of A by tile_row.

typedef f32x4 tile;
typedef u32x2 operand;

constexpr u32 K_LANES = 4;     // lanes with parts of one row of an operand
constexpr u32 K_OF_LANE = 4;   // along K, of one instruction
constexpr u32 TILE_VALUES = 4; // of the result, in a lane
constexpr u32 HALF_BIT = 2;    // of a row of the result: tells lanes 0-15 from 16-31

DEVICE u32 tile_row(u32 value, u32 lane) { return lane / 16 * 4 + value; }

DEVICE tile multiply_add(operand a, operand w, tile sum)
{
    if constexpr (A_TYPE == F16)
        return __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(f16x4, a),
                                                     __builtin_bit_cast(f16x4, w), sum, 0, 0, 0);
    else
        return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(
            __builtin_bit_cast(i16x4, a), __builtin_bit_cast(i16x4, w), sum, 0, 0, 0);
}
