/* SPDX-License-Identifier: MIT */
// Matrix instructions of gfx950: 16 rows of A times 16 rows of W, 32 along K, eight in each quarter
// of the wave. A lane holds one column of the result, of W's row lane % 16, and rows of A by
// tile_row.

typedef f32x4 tile;
typedef f16 f16x8 __attribute__((ext_vector_type(8)));
typedef bf16 bf16x8 __attribute__((ext_vector_type(8)));
typedef u32x4 operand;

constexpr u32 K_LANES = 4;     // lanes with parts of one row of an operand
constexpr u32 K_OF_LANE = 8;   // along K, of one instruction
constexpr u32 TILE_VALUES = 4; // of the result, in a lane
constexpr u32 HALF_BIT = 2;    // of a row of the result: tells lanes 0-15 from 16-31

DEVICE u32 tile_row(u32 value, u32 lane) { return lane / 16 * 4 + value; }

DEVICE tile multiply_add(operand a, operand w, tile sum)
{
    if constexpr (A_TYPE == F16)
        return __builtin_amdgcn_mfma_f32_16x16x32_f16(__builtin_bit_cast(f16x8, a),
                                                      __builtin_bit_cast(f16x8, w), sum, 0, 0, 0);
    else
        return __builtin_amdgcn_mfma_f32_16x16x32_bf16(
            __builtin_bit_cast(bf16x8, a), __builtin_bit_cast(bf16x8, w), sum, 0, 0, 0);
}
