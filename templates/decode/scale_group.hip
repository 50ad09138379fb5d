/* SPDX-License-Identifier: MIT */
// Scales of int4: [N, K/BLOCK] in SCALE_TYPE; zero points beside them, as bytes, or scaled in the
// type of the scales. They are loaded as bits and converted when their chunk's turn comes.

template <bool> struct scale_bits_type { typedef u16 type; };
template <> struct scale_bits_type<true> { typedef u32 type; };
typedef scale_bits_type<SCALE_TYPE == F32>::type scale_bits;

template <bool> struct zero_bits_type { typedef u8 type; };
template <> struct zero_bits_type<true> { typedef scale_bits type; };
typedef zero_bits_type<ZERO == ZERO_SCALED>::type zero_bits;

#if HAS_ZEROS
#define SCALE_OPERANDS const scale_bits *__restrict scales, const zero_bits *__restrict zeros
#define SCALE_NAMES    scales, zeros
#define SCALES_OF_EXPERT(expert)                                                                   \
    scales += (expert) * ((u64)N * BLOCKS);                                                        \
    zeros += (expert) * ((u64)N * BLOCKS)
#else
#define SCALE_OPERANDS const scale_bits *__restrict scales
#define SCALE_NAMES    scales
// Makes the operands those of one expert, where there are several (prelude/moe.hip).
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)
#endif

// What a wave knows of the groups of its rows of W.
struct row_scales {
    const u8 *scales, *zeros; // of the first row
    u32 offset;               // in elements, of this lane's first row from there
};

// `first` is the same in all lanes; `own` is what the lane's row lies beyond it.
DEVICE row_scales scales_of_rows(u32 first, u32 own, SCALE_OPERANDS)
{
    row_scales rows = {(const u8 *)(scales + (u64)first * BLOCKS), 0, own * BLOCKS};
#if HAS_ZEROS
    rows.zeros = (const u8 *)(zeros + (u64)first * BLOCKS);
#endif
    return rows;
}

// Where block `same` + `own` lies. In a base kernel a 64-bit address of each row would take three
// instructions; an offset of 32 bits takes one.
template <u32 SIZE> DEVICE const u8 *block_at(const u8 *first, u32 same, u32 own)
{
    return KNOWN ? first + same * SIZE + own * SIZE : first + (same * SIZE + own * SIZE);
}

// Loads the scale, or zero point, of the block that lies `same` + `own` blocks behind the first of
// the lane's first row; `same` is equal in all lanes. Those of COUNT neighbouring blocks, as many
// as a word holds, come in one load, and are taken apart only when they are needed.
template <u32 COUNT = 1> DEVICE u32 scale_of_block(const row_scales &from, u32 same, u32 own)
{
    const u8 *const at = block_at<sizeof(scale_bits)>(from.scales, same, from.offset + own);
    return COUNT == 1 ? *(const scale_bits *)at : *(const u32 *)at;
}
template <u32 COUNT = 1> DEVICE u32 zero_of_block(const row_scales &from, u32 same, u32 own)
{
    const u8 *const at = block_at<sizeof(zero_bits)>(from.zeros, same, from.offset + own);
    return COUNT == 1                       ? *(const zero_bits *)at
           : COUNT * sizeof(zero_bits) == 2 ? *(const u16 *)at
                                            : *(const u32 *)at;
}

// Load the scale, or zero point, of the lane's row `row` at column k.
DEVICE u32 load_scale(const row_scales &from, u32 row, u32 k)
{
    return scale_of_block(from, row * BLOCKS, k / BLOCK);
}
DEVICE u32 load_zero(const row_scales &from, u32 row, u32 k)
{
    return zero_of_block(from, row * BLOCKS, k / BLOCK);
}

template <u32 COUNT> DEVICE u32 load_scales(const row_scales &from, u32 k)
{
    return scale_of_block<COUNT>(from, 0, k / BLOCK);
}
template <u32 COUNT> DEVICE u32 load_zeros(const row_scales &from, u32 k)
{
    return ZERO == ZERO_NONE ? 0 : zero_of_block<COUNT>(from, 0, k / BLOCK);
}
// Takes the bits of block `index`, of type BITS_OF, out of a word with those of COUNT blocks.
template <u32 COUNT, class BITS_OF> DEVICE u32 bits_of_block(u32 word, u32 index)
{
    constexpr u32 BITS = sizeof(BITS_OF) * 8;
    return COUNT == 1 ? word : word >> index % COUNT * BITS & ((1u << BITS % 32) - 1);
}
// How many blocks' scales or zero points, of `bytes` each, one load brings: as many as fill a word
// or half of one, where rows have `blocks` blocks, and a step needs `spans` of them.
constexpr u32 blocks_in_word(u32 bytes, u32 blocks, u32 spans)
{
    for (u32 some = 4 / bytes; some > 1; some /= 2)
        if (blocks % some == 0 && spans % some == 0)
            return some;
    return 1;
}

DEVICE float scale_value(u32 bits)
{
    if constexpr (SCALE_TYPE == F32)
        return __builtin_bit_cast(float, bits);
    else if constexpr (SCALE_TYPE == BF16) // the upper half of an f32
        return __builtin_bit_cast(float, bits << 16);
    else
        return (float)__builtin_bit_cast(f16, (u16)bits);
}
DEVICE float zero_value(u32 bits)
{
    if constexpr (ZERO == ZERO_U8)
        return (float)(bits & 0xff);
    else
        return scale_value(bits);
}
