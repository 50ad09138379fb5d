/* SPDX-License-Identifier: MIT */
// Scales are powers of two: u8 [N, K/BLOCK] standing for 2^(s-127), 255 for NaN.

#define SCALE_OPERANDS const u8 *__restrict scales
#define SCALE_NAMES    scales
// Makes the operands those of one expert, where there are several (prelude/moe.hip).
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)

// What a wave knows of the scales of one row of W, and what a lane has loaded for its next chunk.
struct row_scales {
    const u8 *blocks;
};
struct chunk_scale {
    u32 exponent;
};

DEVICE float power_of_two(u32 exponent)
{
    const float value = __builtin_amdgcn_ldexpf(0x1p-127f, (int)exponent);
    return exponent == 255 ? __builtin_nanf("") : value;
}

DEVICE row_scales scales_of_row(u32 n, SCALE_OPERANDS) { return {scales + (u64)n * BLOCKS}; }
// Loads the scale of the block at column k, or of one so many blocks further on.
DEVICE chunk_scale load_scale(const row_scales &row, u32 k, u32 further = 0)
{
    return {(row.blocks + further)[k / BLOCK]};
}
// Called when a chunk's weights have arrived, ahead of the loads of A.
DEVICE void begin_scale(const row_scales &, chunk_scale &, u32) {}
// Makes scale_value of it zero: no float is so small.
DEVICE void make_zero(const row_scales &, chunk_scale &chunk) { chunk.exponent = (u32)-256; }
DEVICE float scale_value(const row_scales &, const chunk_scale &chunk)
{
    return power_of_two(chunk.exponent);
}

// The scale of one block of the flattened [N, K]; all lanes share `first`.
DEVICE float scale_of_block(u64 first, u32 block, SCALE_OPERANDS)
{
    return power_of_two((scales + first)[block]);
}
