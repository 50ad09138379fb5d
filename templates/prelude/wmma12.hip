/* SPDX-License-Identifier: MIT */
// Matrix instructions of gfx12: 16 rows of A times 16 rows of W, 16 along K, eight in each half of
// the wave. A lane holds one column of the result, of W's row lane % 16, and rows of A by tile_row.

typedef float tile __attribute__((ext_vector_type(8)));
typedef f16 f16x8 __attribute__((ext_vector_type(8)));
typedef bf16 bf16x8 __attribute__((ext_vector_type(8)));
typedef u32 operand __attribute__((ext_vector_type(4)));

constexpr u32 K_LANES = 2;     // lanes with parts of one row of an operand
constexpr u32 K_OF_LANE = 8;   // along K, of one instruction
constexpr u32 TILE_VALUES = 8; // of the result, in a lane
constexpr u32 HALF_BIT = 3;    // of a row of the result: tells lanes 0-15 from 16-31

DEVICE u32 tile_row(u32 value, u32 lane) { return lane / 16 * 8 + value; }

DEVICE tile multiply_add(operand a, operand w, tile sum)
{
    if constexpr (A_TYPE == F16)
        return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(
            __builtin_bit_cast(f16x8, a), __builtin_bit_cast(f16x8, w), sum);
    else
        return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(
            __builtin_bit_cast(bf16x8, a), __builtin_bit_cast(bf16x8, w), sum);
}
