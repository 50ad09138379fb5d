/* SPDX-License-Identifier: MIT */
// Scales are absmax quantised in their turn, as bitsandbytes does it: 8 bits an absmax, which stand
// for code[absmax8] * scales + offset. 256 absmax of the flattened [N, K/BLOCK] share one of
// `scales`.
//
// The 256 codes are looked up in memory, where their eight lines stay in the nearest cache. In LDS,
// beside the table of pairs, they would cost a compute unit one of its workgroups.

#define SCALE_OPERANDS                                                                             \
    const float *__restrict scales, const u8 *__restrict absmax8, const float *__restrict code,    \
        const float *__restrict offset
#define SCALE_NAMES scales, absmax8, code, offset
// Makes the operands those of one expert, where there are several (prelude/moe.hip).
#define SCALES_OF_EXPERT(expert)                                                                   \
    scales += (expert) * (((u64)N * BLOCKS + NEST - 1) / NEST);                                    \
    absmax8 += (expert) * ((u64)N * BLOCKS);                                                       \
    offset += (expert)

constexpr u32 NEST = 256;                 // absmax that share a second scale
constexpr bool ONE_SEAM = KNOWN && BLOCKS <= NEST; // at most two second scales in a row

// What a wave knows of the scales of one row of W, and what a lane has loaded for its next chunk.
struct row_scales {
    const u8 *blocks;
    const u8 *code;
    const u8 *second;    // the second scale of the row's first block
    u32 start;           // that block's place among those that share it
    float before, after; // with ONE_SEAM: the second scales on both sides of k = seam
    u32 seam;
    float offset;
};
struct chunk_scale {
    u32 quantised;
    float second, code;
};

DEVICE row_scales scales_of_row(u32 n, SCALE_OPERANDS)
{
    const u64 first = (u64)n * BLOCKS;
    const float *const second = scales + first / NEST;
    row_scales row = {absmax8 + first, (const u8 *)code, (const u8 *)second, (u32)(first % NEST)};

    row.offset = *offset;
    if (ONE_SEAM) {
        row.before = *second;
        row.after = scales[(first + BLOCKS - 1) / NEST];
        row.seam = (NEST - row.start) * BLOCK;
    }
    return row;
}
// Loads the scale of the block at column k, or of one so many blocks further on.
DEVICE chunk_scale load_scale(const row_scales &row, u32 k, u32 further = 0)
{
    chunk_scale chunk = {(row.blocks + further)[k / BLOCK]};

    if (!ONE_SEAM)
        chunk.second = *(const float *)(row.second + (row.start + k / BLOCK + further) / NEST * 4);
    return chunk;
}
// Called when a chunk's weights have arrived, ahead of the loads of A.
DEVICE void begin_scale(const row_scales &row, chunk_scale &chunk, u32 k)
{
    chunk.code = *(const float *)(row.code + chunk.quantised * 4);
    if (ONE_SEAM) // no row has a seam inside when BLOCKS divides NEST
        chunk.second = NEST % BLOCKS == 0 || k < row.seam ? row.before : row.after;
}
// Makes scale_value of it zero.
DEVICE void make_zero(const row_scales &row, chunk_scale &chunk)
{
    chunk.code = -row.offset;
    chunk.second = 1;
}
DEVICE float scale_value(const row_scales &row, const chunk_scale &chunk)
{
    return __builtin_fmaf(chunk.code, chunk.second, row.offset);
}

// The scale of one block of the flattened [N, K], rounded where bitsandbytes rounds it; all lanes
// share `first`.
DEVICE float scale_of_block(u64 first, u32 block, SCALE_OPERANDS)
{
#pragma clang fp contract(off)
    const u32 place = first % NEST + block;
    const float product = code[(absmax8 + first)[block]] * (scales + first / NEST)[place / NEST];
    return product + *offset;
}
