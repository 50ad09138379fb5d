/* SPDX-License-Identifier: MIT */
// Scales are plain absmax: f32 [N, K/BLOCK].

#define SCALE_OPERANDS const float *__restrict scales
#define SCALE_NAMES    scales
// Makes the operands those of one expert, where there are several (prelude/moe.hip).
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)

// What a wave knows of the scales of one row of W, and what a lane has loaded for its next chunk.
struct row_scales {
    const u8 *blocks;
};
struct chunk_scale {
    float value;
};

DEVICE row_scales scales_of_row(u32 n, SCALE_OPERANDS)
{
    return {(const u8 *)(scales + (u64)n * BLOCKS)};
}
// Loads the scale of the block at column k, or of one so many blocks further on.
DEVICE chunk_scale load_scale(const row_scales &row, u32 k, u32 further = 0)
{
    return {*(const float *)(row.blocks + further * 4 + k / BLOCK * 4)};
}
// Called when a chunk's weights have arrived, ahead of the loads of A.
DEVICE void begin_scale(const row_scales &, chunk_scale &, u32) {}
// Makes scale_value of it zero.
DEVICE void make_zero(const row_scales &, chunk_scale &chunk) { chunk.value = 0; }
DEVICE float scale_value(const row_scales &, const chunk_scale &chunk) { return chunk.value; }

// The scale of one block of the flattened [N, K]; all lanes share `first`.
DEVICE float scale_of_block(u64 first, u32 block, SCALE_OPERANDS)
{
    return (scales + first)[block];
}
