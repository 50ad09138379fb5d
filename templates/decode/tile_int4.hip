/* SPDX-License-Identifier: MIT */
// The decoder of mma_tile's int4 weights: eight codes become eight 16-bit weights, scaled and
// without their zero points. Codes are put into the mantissas of numbers as in decode/int4. What
// that adds is taken off together with the zero point, exactly, before the one product that rounds.

struct chunk_scale {
    u32 scale, zero; // as they lie in memory
};

DEVICE row_scales scales_of_tile_row(u32 first, u32 own, SCALE_OPERANDS)
{
    return scales_of_rows(first, own, SCALE_NAMES);
}
DEVICE chunk_scale load_scale(const row_scales &row, u32 k)
{
    return {load_scale(row, 0, k), ZERO == ZERO_NONE ? 0 : load_zero(row, 0, k)};
}
DEVICE decoder make_tile_decoder() { return A_TYPE == BF16 ? make_mix_decoder() : make_decoder(); }
DEVICE void begin_scale(const row_scales &, chunk_scale &, u32) {}
DEVICE float scale_value(const row_scales &, const chunk_scale &chunk)
{
    return scale_value(chunk.scale);
}
constexpr float CODE_UNIT = 1.0f;

// The zero point of codes, and what is taken off scaled weights, in f32.
DEVICE float zero_of_codes(const chunk_scale &chunk)
{
    return ZERO == ZERO_U8 ? zero_value(chunk.zero) : 8.0f;
}
DEVICE float zero_of_weights(const chunk_scale &chunk)
{
    return ZERO == ZERO_SCALED ? zero_value(chunk.zero) : 0.0f;
}

DEVICE u32 both_halves(u32 half) { return half | half << 16; }
DEVICE u32 f16_bits(float value) { return __builtin_bit_cast(u16, (f16)value); }

// A chunk's scale as the decoder wants it. f16: zero: pairs of -(1024 + z) and of -(64 + z); scale,
// and rest, which is added at the end: pairs. bf16: as decode/int4_mix has them, in f32.
struct multiplier {
    u32 zero[2], scale, rest;
};
template <class UNIT>
DEVICE multiplier make_multiplier(const row_scales &, const chunk_scale &chunk, const UNIT &unit)
{
    const float scale = scale_value(chunk.scale) * unit.scales, zero = zero_of_codes(chunk);
    const float rest = zero_of_weights(chunk) * unit.scales;

    if constexpr (A_TYPE == F16) {
        const u32 low = f16_bits(-1024.0f - zero), high = f16_bits(-64.0f - zero);
        return {{BYTE_PAIRS ? low | high << 16 : both_halves(low), both_halves(high)},
                both_halves(f16_bits(scale)),
                both_halves(f16_bits(-rest))};
    } else {
        const cut_scale by = make_cut_scale(scale, zero, -rest);
        return {{__builtin_bit_cast(u32, by.low), __builtin_bit_cast(u32, by.high)},
                __builtin_bit_cast(u32, by.scale), 0};
    }
}

// Eight weights in the order of k.
DEVICE void decode_scaled(const decoder &d, u32 word, const multiplier &by, u32 (&pairs)[4])
{
    if constexpr (A_TYPE == F16) {
        decode_word(d, word, pairs);
        const f16x2 scale = __builtin_bit_cast(f16x2, by.scale);
        const f16x2 rest = __builtin_bit_cast(f16x2, by.rest);
        UNROLL for (u32 p = 0; p < 4; p++) {
            const u32 zero = by.zero[BYTE_PAIRS ? 0 : p % 2];
            const f16x2 code = __builtin_bit_cast(f16x2, pairs[p]) +
                               __builtin_bit_cast(f16x2, zero);
            const f16x2 weight = ZERO == ZERO_SCALED
                                     ? __builtin_elementwise_fma(code, scale, rest)
                                     : code * scale;
            pairs[p] = __builtin_bit_cast(u32, weight);
        }
    } else {
        decode_and_cut(d, word,
                       {__builtin_bit_cast(float, by.scale), __builtin_bit_cast(float, by.zero[0]),
                        __builtin_bit_cast(float, by.zero[1])},
                       pairs);
    }
}
