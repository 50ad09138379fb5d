/* SPDX-License-Identifier: MIT */
// Matrix instructions of gfx90a and gfx942: 32 rows of A times 32 rows of W, 8 along K, four in
// each half of the wave. A lane holds one column of the result, of W's row lane % 32, and rows of A
// by tile_row.

typedef float tile __attribute__((ext_vector_type(16)));
typedef u32x2 operand;

constexpr u32 K_LANES = 2;      // lanes with parts of one row of an operand
constexpr u32 K_OF_LANE = 4;    // along K, of one instruction
constexpr u32 TILE_VALUES = 16; // of the result, in a lane
constexpr u32 HALF_BIT = 2;     // of a row of the result: tells lanes 0-31 from 32-63

DEVICE u32 tile_row(u32 value, u32 lane) { return value / 4 * 8 + lane / 32 * 4 + value % 4; }

DEVICE tile multiply_add(operand a, operand w, tile sum)
{
    if constexpr (A_TYPE == F16)
        return __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(f16x4, a),
                                                    __builtin_bit_cast(f16x4, w), sum, 0, 0, 0);
    else
        return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(
            __builtin_bit_cast(i16x4, a), __builtin_bit_cast(i16x4, w), sum, 0, 0, 0);
}
