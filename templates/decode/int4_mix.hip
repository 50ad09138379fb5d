/* SPDX-License-Identifier: MIT */
// Codes of int4 through f16: a mask puts two codes into halves of a dword, and an instruction for
// mixed types multiplies one of them with an f32 and adds another. And scaled bf16 weights by that.

// For decode_halves.
DEVICE decoder make_mix_decoder() { return {opaque(0x64006400), opaque(0x54005400)}; }

// Half `half` of a pair of f16, times `factor`, plus `to`, in f32, rounded once.
DEVICE float mix(u32 pair, u32 half, float factor, float to)
{
    const f16x2 both = __builtin_bit_cast(f16x2, pair);
    const f16 one_half = half ? both.y : both.x;

    return __builtin_fmaf((float)one_half, factor, to);
}

// Which nibble of a word is half `half` of its pair p.
constexpr u32 nibble_of_pair(u32 p, u32 half) { return BYTE_PAIRS ? p * 2 + half : p + half * 4; }

// The upper halves of two dwords: of two f32, what bf16 has of them.
DEVICE u32 upper_halves(u32 low, u32 high)
{
    return __builtin_amdgcn_perm(high, low, 0x07060302);
}

// Weights are made in f32 and cut off, a pair by one instruction, where rounding would take two
// more. So that they are as near as rounded ones, they are made a little too large: by 3/8 of what
// the last place of a bf16 is worth if its mantissa is 1, and by 3/4 if it is almost 2. That is
// less than one, so that products which bf16 holds stay exact; and on average as much is added as
// is cut off (docs/kernels/mma_int4.md has the errors).
constexpr float BEFORE_CUT = 1 + 0x3p-10f;

struct cut_scale {
    float scale, low, high; // of a group; and what is added for codes of 1024 + q and of 64 + q
};

// For weights (q - zero) * scale + off; `zero` is an integer up to 255.
DEVICE cut_scale make_cut_scale(float scale, float zero, float off)
{
    // In 13 bits, so that products with 1024 + q, which has 11, are exact in f32, and a code of
    // `zero` is exactly nothing.
    const u32 upper = __builtin_bit_cast(u32, scale * BEFORE_CUT) & 0xfffff800;
    const float by = __builtin_bit_cast(float, upper), added = off * BEFORE_CUT;

    return {by, __builtin_fmaf(-1024.0f - zero, by, added),
            __builtin_fmaf(-64.0f - zero, by, added)};
}

// Eight weights, in the pairs of decode_word.
DEVICE void decode_and_cut(const decoder &d, u32 word, const cut_scale &by, u32 (&pairs)[4])
{
    u32 codes[4];
    decode_halves(d, word, codes);
    auto weight = [&](u32 n) {
        return __builtin_bit_cast(
            u32, mix(codes[n % 4], n / 4, by.scale, n % 2 ? by.high : by.low));
    };
    UNROLL for (u32 p = 0; p < 4; p++)
        pairs[p] = upper_halves(weight(nibble_of_pair(p, 0)), weight(nibble_of_pair(p, 1)));
}
