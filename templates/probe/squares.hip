/* SPDX-License-Identifier: MIT */
// Matrix instructions of 4 by 4, four along K, of four lanes with the same four, sixteen side by
// side: a lane holds the column of the result that is W's row lane % 4, a row of A in each value.

typedef f32x4 tile;
typedef u32x2 operand;

constexpr u32 K_LANES = 1;
constexpr u32 K_OF_LANE = 4;
constexpr u32 TILE_VALUES = 4;

DEVICE u32 tile_row(u32 value, u32) { return value; }

DEVICE tile multiply_add(operand a, operand w, tile sum)
{
    return __builtin_amdgcn_mfma_f32_4x4x4f16(__builtin_bit_cast(f16x4, a),
                                              __builtin_bit_cast(f16x4, w), sum, 0, 0, 0);
}
