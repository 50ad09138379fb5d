/* SPDX-License-Identifier: MIT */
// Scales of weights that go to LDS decoded and scaled, in 16 bits. f16 has a narrow range: so a
// row's scales are divided by a power of two near the largest of them, and the row's results
// multiplied by it, in f32. bf16 has the range of f32 and needs none.

// What a row's scales are multiplied by, and its results; CODE_UNIT is part of the latter.
struct row_unit {
    float scales, results;
};

// PARTS neighbouring lanes share a row, `part` is the lane's place among them.
template <u32 PARTS> DEVICE row_unit unit_of_row(const row_scales &row, u32 part)
{
    if constexpr (A_TYPE != F16)
        return {1.0f, CODE_UNIT};
    constexpr u32 BLOCKS_OF_ROW = K / BLOCK, AT_ONCE = 4;
    float most = 0;
#pragma unroll 1
    for (u32 block = part; block < BLOCKS_OF_ROW; block += PARTS * AT_ONCE) {
        chunk_scale scale[AT_ONCE];
        u32 k[AT_ONCE];
        UNROLL for (u32 i = 0; i < AT_ONCE; i++) {
            k[i] = minimum(block + i * PARTS, BLOCKS_OF_ROW - 1) * BLOCK;
            scale[i] = load_scale(row, k[i]);
        }
        UNROLL for (u32 i = 0; i < AT_ONCE; i++)
            begin_scale(row, scale[i], k[i]);
        UNROLL for (u32 i = 0; i < AT_ONCE; i++)
            most = __builtin_fmaxf(most, __builtin_fabsf(scale_value(row, scale[i])));
    }
    UNROLL for (u32 other = 1; other < PARTS; other *= 2) {
        const int bits = __builtin_bit_cast(int, most);
        const int theirs = other == 1   ? __builtin_amdgcn_ds_swizzle(bits, 0x041f)
                           : other == 2 ? __builtin_amdgcn_ds_swizzle(bits, 0x081f)
                           : other == 4 ? __builtin_amdgcn_ds_swizzle(bits, 0x101f)
                                        : __builtin_amdgcn_ds_swizzle(bits, 0x201f);
        most = __builtin_fmaxf(most, __builtin_bit_cast(float, theirs));
    }
    // bounded, as 2^-exponent could overflow
    const int exponent = __builtin_amdgcn_frexp_expf(most);
    const int kept = exponent < -100 ? -100 : exponent;
    return {__builtin_amdgcn_ldexpf(1.0f, -kept), __builtin_amdgcn_ldexpf(CODE_UNIT, kept)};
}
