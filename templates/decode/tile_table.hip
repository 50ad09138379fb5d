/* SPDX-License-Identifier: MIT */
// Scaled weights of NF4, FP4 and MXFP4 for mma_tile, decoded by plane_table.

DEVICE row_scales scales_of_tile_row(u32 first, u32 own, SCALE_OPERANDS)
{
    return scales_of_row(first + own, SCALE_NAMES);
}

DEVICE decoder make_tile_decoder() { return make_decoder(); }

// A chunk's scale as the decoder wants it: f16, in both halves of a dword; for bf16 in f32.
struct multiplier {
    u32 scale;
};
template <class UNIT>
DEVICE multiplier make_multiplier(const row_scales &row, const chunk_scale &chunk, const UNIT &unit)
{
    const float scale = scale_value(row, chunk) * unit.scales;

    if constexpr (A_TYPE == F16)
        return {__builtin_bit_cast(u32, (f16x2)((f16)scale))};
    else
        return {__builtin_bit_cast(u32, scale * BEFORE_CUT)};
}

// Eight weights in the order of k: those of f16 rounded, by one instruction for two.
DEVICE void decode_scaled(const decoder &d, u32 word, const multiplier &by, u32 (&pairs)[4])
{
    const u32 scale = by.scale;

    decode_word(d, word, pairs);
    UNROLL for (u32 p = 0; p < 4; p++) {
        const u32 pair = pairs[p];
        if constexpr (A_TYPE == F16)
            pairs[p] = __builtin_bit_cast(u32, __builtin_bit_cast(f16x2, pair) *
                                                   __builtin_bit_cast(f16x2, scale));
        else
            pairs[p] = cut(mix(pair, 0, __builtin_bit_cast(float, scale), 0),
                           mix(pair, 1, __builtin_bit_cast(float, scale), 0));
    }
}
