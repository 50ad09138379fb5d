/* SPDX-License-Identifier: MIT */
// Scales of blocks: of 128 rows and 128 columns of W, f32 [N/128, K/128], and of 128 columns of
// each row of A, f32 [M, K/128], rounded up. A sum over columns of one block is multiplied by them.

constexpr u32 SCALE_BLOCK = 128;
constexpr u32 K_BLOCKS = (K + SCALE_BLOCK - 1) / SCALE_BLOCK; // of a row

// Where the scales of row n of W begin.
DEVICE const float *scales_of_row(const float *scales, u64 n)
{
    return scales + n / SCALE_BLOCK * K_BLOCKS;
}

// How many bytes behind that the scale of column k is.
constexpr u32 scale_offset(u32 k) { return k / SCALE_BLOCK * sizeof(float); }

// Whether `count` neighbours among `total` rows are always in one block of them, where the first
// has a multiple of `count` before it, or only the last one behind it.
constexpr bool in_one_block(u32 count, u32 total)
{
    return SCALE_BLOCK % count == 0 &&
           (total % count == 0 || total % SCALE_BLOCK >= count || total < count);
}
