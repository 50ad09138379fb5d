/* SPDX-License-Identifier: MIT */
// Weights of bf16 from values in f16, by an instruction for mixed types: it multiplies a half of a
// dword with an f32 and adds another, rounded once, in f32; the upper half is what bf16 has of
// that.

// Half `half` of a pair of f16, times `factor`, plus `to`.
DEVICE float mix(u32 pair, u32 half, float factor, float to)
{
    const f16x2 both = __builtin_bit_cast(f16x2, pair);
    const f16 one_half = half ? both.y : both.x;
    float sum = __builtin_fmaf((float)one_half, factor, to);

    if (HAS_MFMA) // or the compiler makes a packed instruction of two, behind conversions
        computed(sum);
    return sum;
}

// The upper halves of two dwords: of two f32, what bf16 has of them.
DEVICE u32 upper_halves(u32 low, u32 high)
{
    return __builtin_amdgcn_perm(high, low, 0x07060302);
}
DEVICE u32 cut(float low, float high)
{
    return upper_halves(__builtin_bit_cast(u32, low), __builtin_bit_cast(u32, high));
}

// Scaled weights are made in f32 and cut off, a pair by one instruction, where rounding would take
// two more. So that they are as near as rounded ones, they are made a little too large: by 3/8 of
// what the last place of a bf16 is worth if its mantissa is 1, and by 3/4 if it is almost 2. That
// is less than one, so that products which bf16 holds stay exact; and on average as much is added
// as is cut off (docs/kernels/mma_int4.md has the errors).
constexpr float BEFORE_CUT = 1 + 0x3p-10f;
