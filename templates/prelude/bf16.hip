/* SPDX-License-Identifier: MIT */
// Two f32 as bf16, rounded to nearest; ties away from zero where there is no instruction for it.
DEVICE u32 pack_bf16(f32x2 value)
{
#if HAS_CVT_PK_BF16
    return __builtin_bit_cast(u32, __builtin_convertvector(value, bf16x2));
#else
    const float x = value.x, y = value.y;
    return __builtin_amdgcn_perm(__builtin_bit_cast(u32, y) + 0x8000,
                                 __builtin_bit_cast(u32, x) + 0x8000, 0x07060302);
#endif
}
