/* SPDX-License-Identifier: MIT */
// Scaled weights of NF4, FP4 and MXFP4 for mma_tile, decoded by plane_table.

DEVICE row_scales scales_of_tile_row(u32 first, u32 own, SCALE_OPERANDS)
{
    return scales_of_row(first + own, SCALE_NAMES);
}

DEVICE decoder make_tile_decoder() { return make_decoder(); }

// A chunk's scale as the decoder wants it: in both halves of a dword, in one, or in f32.
struct multiplier {
    u32 scale;
};
template <class UNIT>
DEVICE multiplier make_multiplier(const row_scales &row, const chunk_scale &chunk, const UNIT &unit)
{
    const float scale = scale_value(row, chunk) * unit.scales;

    if constexpr (A_TYPE == F16)
        return {__builtin_bit_cast(u32, (f16x2)((f16)scale))};
    else if constexpr (SCALED_BY_DOTS)
        return {(u32)__builtin_bit_cast(u16, (bf16)scale)};
    else
        return {__builtin_bit_cast(u32, scale)};
}

// Two weights times their scale, rounded to nearest: f16 in one instruction; bf16 by dot products
// with (scale, 0) and (0, scale) that have a bf16 result, where there are such, and rounded toward
// zero; else in f32.
constexpr float RESTORED = CUT_BY_DOTS ? restored(CODE) : 1.0f;
DEVICE u32 scale_pair(u32 pair, u32 scale)
{
    if constexpr (A_TYPE == F16) {
        return __builtin_bit_cast(u32, __builtin_bit_cast(f16x2, pair) *
                                           __builtin_bit_cast(f16x2, scale));
    } else if constexpr (SCALED_BY_DOTS) {
        u32 both;
        asm("v_dot2_bf16_bf16 %0, %1, %2, 0" : "=v"(both) : "v"(pair), "v"(scale));
        asm("v_dot2_bf16_bf16 %0, %1, %2, 0 op_sel:[0,0,0,1]"
            : "+v"(both) : "v"(pair), "v"(scale << 16));
        return both;
    } else {
        const float s = __builtin_bit_cast(float, scale);
        const f32x2 value = {__builtin_bit_cast(float, pair << 16),
                             __builtin_bit_cast(float, pair & 0xffff0000)};
        return pack_bf16(value * s);
    }
}

// Eight weights in the order of k.
DEVICE void decode_scaled(const decoder &d, u32 word, const multiplier &by, u32 (&pairs)[4])
{
    decode_word(d, word, pairs);
    UNROLL for (u32 p = 0; p < 4; p++)
        pairs[p] = scale_pair(pairs[p], by.scale);
}
