/* SPDX-License-Identifier: MIT */
// Scaled weights of bf16 from int4 codes, which masks make f16 of, two at once.

// For decode_halves.
DEVICE decoder make_mix_decoder() { return {opaque(0x64006400), opaque(0x54005400)}; }

// Which nibble of a word is half `half` of its pair p.
constexpr u32 nibble_of_pair(u32 p, u32 half) { return BYTE_PAIRS ? p * 2 + half : p + half * 4; }

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
    auto weight = [&](u32 n) INLINE {
        return mix(codes[n % 4], n / 4, by.scale, n % 2 ? by.high : by.low);
    };
    UNROLL for (u32 p = 0; p < 4; p++)
        pairs[p] = cut(weight(nibble_of_pair(p, 0)), weight(nibble_of_pair(p, 1)));
}
