/* SPDX-License-Identifier: MIT */
// Weights that are numbers, of W_BITS: 16, of A's own type, or eight, e4m3 with one scale for all
// of W, or one for each block of 128 rows and 128 columns (and one for as many columns of a row of
// A, where that is e4m3). In front of a family they take the places of codes, scales of blocks and
// tables of pairs.

#if BLOCK_SCALED
#define BLOCK 128
#undef BLOCKS
#define BLOCKS divide_up(K, BLOCK)
#undef SCALE_ROW
#define SCALE_ROW(n) ((n) / BLOCK * BLOCKS)
#undef SCALE_COUNT
#define SCALE_COUNT ((u64)divide_up(N, BLOCK) * BLOCKS)
#undef NEIGHBOURS_AT_ONCE
#define NEIGHBOURS_AT_ONCE false // operands start at any multiple of four bytes
#undef A_BLOCK_SCALED
#define A_BLOCK_SCALED A_IS_FP8
#else
#define BLOCK K // a row is one block, whose scale comes with the sums
#endif
#if W_BITS == 8
#if A_IS_FP8
#define SCALE_OPERANDS const float *a_scale, const float *b_scale,
#define SCALE_NAMES    a_scale, b_scale,
#define UNIT_OF_SUMS   (BLOCK_SCALED ? 1.0f : product(ldg_late(a_scale), ldg(b_scale)))
#define LATE_UNIT      a_scale // that UNIT_OF_SUMS loads, and the launch in front may write
#define SCALES_OF_EXPERT(expert) b_scale += (expert) * (BLOCK_SCALED ? SCALE_COUNT : (u64)1)
#else
#define SCALE_OPERANDS const float *b_scale,
#define SCALE_NAMES    b_scale,
#define UNIT_OF_SUMS   (BLOCK_SCALED ? 1.0f : ldg(b_scale))
#define LATE_UNIT
#define SCALES_OF_EXPERT(expert) b_scale += (expert) * (BLOCK_SCALED ? SCALE_COUNT : (u64)1)
#endif
#else
#define SCALE_OPERANDS
#define SCALE_NAMES
#define UNIT_OF_SUMS 1.0f
#define LATE_UNIT
#define SCALES_OF_EXPERT(expert)
#endif

enum zero_kind { ZERO_NONE, ZERO_U8, ZERO_SCALED };
constexpr u32 TABLE_BYTES = 0, LINE_BLOCKS = BLOCK_SCALED ? 32 : 1, ONES = 0;
constexpr bool BY_OFFSET = false;
constexpr float NO_ZERO = 0;

#if BLOCK_SCALED
template <u32> struct loaded_scales { float scale; };
template <u32 COUNT> DEVICE loaded_scales<COUNT> begin_scales(SCALE_OPERANDS u64 block)
{
    return {ldg(b_scale + block)};
}
DEVICE void prefetch_scales(SCALE_OPERANDS u64 block) { prefetch(b_scale + block); }
DEVICE float scale_at(loaded_scales<1> s, u32, u32, float) { return s.scale; }
#else
template <u32> struct loaded_scales {};
template <u32 COUNT> DEVICE loaded_scales<COUNT> begin_scales(SCALE_OPERANDS u64) { return {}; }
DEVICE void prefetch_scales(SCALE_OPERANDS u64) {}
DEVICE float scale_at(loaded_scales<1>, u32, u32, float) { return 1; }
#endif
// No scales are copied to shared memory.
constexpr u32 SCALE_BYTES = 0, ZERO_BYTES = 0;
template <u32 COUNT> DEVICE loaded_scales<COUNT> take_scales(u32, u32, u32) { return {}; }
DEVICE u32 bytes_before(u64, u32) { return 0; }
DEVICE u32 copied_bytes(u64, u32, u32) { return 0; }
template <bool> DEVICE void copy_scales(SCALE_OPERANDS u64, u32, u32, u32, u32, bool) {}
DEVICE float shift_at(loaded_scales<1>, u32) { return 0; }
DEVICE float extra_at(loaded_scales<1>, u32) { return 0; }
DEVICE void build_table(u32) {}
DEVICE void order_a(u32 *) {}

// Two e4m3, as they lie in the lower half of a word, as two numbers of MMA_TYPE. Both types hold
// every value of e4m3, and NaN stays NaN.
DEVICE u32 two_of_fp8(u32 bytes)
{
    const u32 halves = widen_fp8x2(bytes);
    return MMA_TYPE == F16 ? halves
                           : round_bf16x2(widen_f16(halves & 0xffff), widen_f16(halves >> 16));
}

// Pair `index` of a word of W, neighbours along K.
DEVICE u32 pair_of_word(u32 word, u32 index, u32)
{
    return W_BITS == 8 ? two_of_fp8(index ? word >> 16 : word & 0xffff) : word;
}
