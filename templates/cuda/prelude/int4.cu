/* SPDX-License-Identifier: MIT */
// int4 codes as pairs of A_TYPE by masks, without a table: a code becomes the upper four bits of
// the mantissa of a number from 16 to 31. OFFSET + q is exact in f16 and in bf16; the offset is
// taken off a block's sums, as a multiple of the sum of A there. Sixteen, and not the 64 or 128
// that a code lower in the mantissa would bring, because what is taken off must stay small beside
// what is left.

constexpr u32 TABLE_BYTES = 0;
constexpr bool BY_OFFSET = true;
constexpr u32 CODE_BIT = A_TYPE == F16 ? 6 : 3; // of a half where a code goes
constexpr u32 OFFSETS = A_TYPE == F16 ? 0x4c004c00 : 0x41804180;
constexpr u32 ONES = A_TYPE == F16 ? 0x3c003c00 : 0x3f803f80;
constexpr float NO_ZERO = 24; // OFFSET + q of what stands for 0, where there are no zero points

// Pair `index` of a word: its nibbles `index` and `index` + 4.
DEVICE u32 pair_of_word(u32 word, u32 index, u32 copy)
{
    const u32 from = index * 4;
    const u32 moved = from > CODE_BIT ? word >> (from - CODE_BIT) : word << (CODE_BIT - from);
    return and_or(moved, 0x000f000f << CODE_BIT, OFFSETS);
}

// Puts eight neighbours of A into the order of a word's pairs.
DEVICE void order_a(u32 *to)
{
    if constexpr (WORD_ORDER == K8) {
        const u32 a[4] = {to[0], to[1], to[2], to[3]};
        to[0] = byte_permute(a[0], a[2], 0x5410), to[1] = byte_permute(a[0], a[2], 0x7632);
        to[2] = byte_permute(a[1], a[3], 0x5410), to[3] = byte_permute(a[1], a[3], 0x7632);
    }
}

DEVICE void build_table(u32) {}
