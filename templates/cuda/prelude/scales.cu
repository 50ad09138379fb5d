/* SPDX-License-Identifier: MIT */
// The scales of blocks of W, by how the problem keeps them: one number a block, of SCALE_TYPE; or,
// where SCALE_IS_NESTED, a byte a block that stands for code[byte] * scales[block / 256] + offset,
// as bitsandbytes has it; or, where SCALE_IS_E8M0, a byte that stands for 2^(byte - 127), 255 for
// NaN. Beside scales, where HAS_ZEROS, the zero points of int4, as bytes or scaled.

enum word_order { BNB, K8, EXL }; // what nibbles of eight weights are: the formats page says it
enum zero_kind { ZERO_NONE, ZERO_U8, ZERO_SCALED };

typedef element_of<SCALE_TYPE>::type scale_element;
template <bool> struct zero_element_of { typedef u8 type; };
template <> struct zero_element_of<true> { typedef scale_element type; };
typedef zero_element_of<ZERO == ZERO_SCALED>::type zero_element;

// Of each kind: the operands of a kernel, before others, and which of them has a number or a byte
// for each block.
#if SCALE_IS_NESTED
#define SCALE_OPERANDS                                                                             \
    const float *scales, const u8 *absmax8, const float *code, const float *offset,
#define SCALE_NAMES  scales, absmax8, code, offset,
#define BLOCK_SCALES absmax8
// Makes the operands those of one expert, where there are several (cuda/prelude/moe.cu).
#define SCALES_OF_EXPERT(expert)                                                                   \
    scales += (expert) * (((u64)N * BLOCKS + NEST - 1) / NEST);                                    \
    absmax8 += (expert) * ((u64)N * BLOCKS);                                                       \
    offset += (expert)
typedef u8 block_scale;
constexpr u32 NEST = 256; // absmax that share a second scale
#elif SCALE_IS_E8M0
#define SCALE_OPERANDS const u8 *scales,
#define SCALE_NAMES    scales,
#define BLOCK_SCALES   scales
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)
typedef u8 block_scale;
#else
#if HAS_ZEROS
#define SCALE_OPERANDS const scale_element *scales, const zero_element *zeros,
#define SCALE_NAMES    scales, zeros,
#define SCALES_OF_EXPERT(expert)                                                                   \
    scales += (expert) * ((u64)N * BLOCKS);                                                        \
    zeros += (expert) * ((u64)N * BLOCKS)
#else
#define SCALE_OPERANDS const scale_element *scales,
#define SCALE_NAMES    scales,
#define SCALES_OF_EXPERT(expert) scales += (expert) * ((u64)N * BLOCKS)
#endif
#define BLOCK_SCALES scales
typedef scale_element block_scale;
#endif
#define UNIT_OF_SUMS CODE_UNIT // what remains to be multiplied by
#define LATE_UNIT              // which is no operand

// COUNT neighbouring numbers, 1, 2 or 4, in the words that they come in: begin_scales starts a load
// whose result nobody looks at before the step that it is for. Taking a word apart as soon as it is
// loaded would make the warp wait for memory there.
template <class T, u32 COUNT> struct neighbours {
    static constexpr u32 IN_WORD = 4 / sizeof(T), BITS = 8 * sizeof(T);
    u32 words[divide_up(COUNT, IN_WORD)];

    DEVICE u32 at(u32 i) const
    {
        return words[i / IN_WORD] >> i % IN_WORD * BITS & 0xffffffff >> (32 - BITS);
    }
};
template <class T, u32 COUNT> DEVICE neighbours<T, COUNT> load_some(const T *from)
{
    static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "a load has no other sizes");
    if constexpr (COUNT * sizeof(T) == 16) {
        const u32x4 v = ldg((const u32x4 *)from);
        return {{v.x, v.y, v.z, v.w}};
    } else if constexpr (COUNT * sizeof(T) == 8) {
        const u32x2 v = ldg((const u32x2 *)from);
        return {{v.x, v.y}};
    } else if constexpr (COUNT * sizeof(T) == 4) {
        return {{ldg((const u32 *)from)}};
    } else if constexpr (COUNT * sizeof(T) == 2) {
        return {{ldg((const u16 *)from)}};
    } else {
        return {{ldg((const u8 *)from)}};
    }
}

// What was loaded for a number of neighbouring blocks; scale_at makes a number of what has come.
// COUNT divides BLOCKS and 256.
template <u32 COUNT> struct loaded_scales {
    neighbours<block_scale, COUNT> scales;
    neighbours<zero_element, COUNT> zeros;
    u32 second;
};

template <u32 COUNT> DEVICE loaded_scales<COUNT> begin_scales(SCALE_OPERANDS u64 block)
{
    loaded_scales<COUNT> s = {};
    s.scales = load_some<block_scale, COUNT>(BLOCK_SCALES + block);
#if SCALE_IS_NESTED
    s.second = ldg((const u32 *)scales + block / NEST);
#endif
#if HAS_ZEROS
    s.zeros = load_some<zero_element, COUNT>(zeros + block);
#endif
    return s;
}

// The same from shared memory, where a copy of neighbours begins at `at`, and one of their zero
// points at `zeros_at`. `block` counts from there.
template <class T, u32 COUNT> DEVICE neighbours<T, COUNT> take_some(u32 at)
{
    if constexpr (COUNT * sizeof(T) == 16) {
        const u32x4 v = lds<u32x4>(at);
        return {{v.x, v.y, v.z, v.w}};
    } else if constexpr (COUNT * sizeof(T) == 8) {
        const u32x2 v = lds<u32x2>(at);
        return {{v.x, v.y}};
    } else if constexpr (COUNT * sizeof(T) == 4) {
        return {{lds<u32>(at)}};
    } else if constexpr (COUNT * sizeof(T) == 2) {
        return {{lds<u16>(at)}};
    } else {
        return {{lds<u8>(at)}};
    }
}
template <u32 COUNT> DEVICE loaded_scales<COUNT> take_scales(u32 at, u32 zeros_at, u32 block)
{
    loaded_scales<COUNT> s = {};
    s.scales = take_some<block_scale, COUNT>(at + block * sizeof(block_scale));
    if (HAS_ZEROS)
        s.zeros = take_some<zero_element, COUNT>(zeros_at + block * sizeof(zero_element));
    return s;
}

constexpr u32 SCALE_BYTES = sizeof(block_scale), ZERO_BYTES = HAS_ZEROS ? sizeof(zero_element) : 0;

// Bulk copies are of multiples of 16 bytes, from such multiples. So what is in front of numbers of
// `bytes` bytes from number `first` on, and behind the last of `count`, may come with them. The
// plan copies so only where whole rows are such multiples, or a copy could leave the operand.
DEVICE u32 bytes_before(u64 first, u32 bytes) { return (u32)first * bytes % 16; }
DEVICE u32 copied_bytes(u64 first, u32 count, u32 bytes)
{
    return divide_up(bytes_before(first, bytes) + count * bytes, 16) * 16;
}

// Starts a bulk copy of them. ALIGNED: they are such multiples themselves.
template <bool ALIGNED, class T>
DEVICE void copy_numbers(u32 to, const T *from, u64 first, u32 count, u32 barrier, bool once)
{
    if (ALIGNED)
        bulk_copy(to, from + first, count * sizeof(T), barrier, once);
    else
        bulk_copy(to, (const u8 *)(from + first) - bytes_before(first, sizeof(T)),
                  copied_bytes(first, count, sizeof(T)), barrier, once);
}

// The same of `count` neighbouring blocks' from `block` on, to `to`, and their zero points.
template <bool ALIGNED>
DEVICE void copy_scales(SCALE_OPERANDS u64 block, u32 count, u32 to, u32 zeros_to, u32 barrier,
                        bool once)
{
    copy_numbers<ALIGNED>(to, BLOCK_SCALES, block, count, barrier, once);
#if HAS_ZEROS
    copy_numbers<ALIGNED>(zeros_to, zeros, block, count, barrier, once);
#endif
}

constexpr u32 LINE_BLOCKS = 128 / sizeof(block_scale); // whose scales a line of memory holds

DEVICE void prefetch_scales(SCALE_OPERANDS u64 block)
{
    prefetch(BLOCK_SCALES + block);
#if HAS_ZEROS
    prefetch(zeros + block);
#endif
}

// `codes`: where in shared memory the 256 numbers of `code` are; `shift`: *offset.
template <u32 COUNT>
DEVICE float scale_at(const loaded_scales<COUNT> &s, u32 i, u32 codes, float shift)
{
#if SCALE_IS_NESTED
    return sum(product(lds<float>(codes + s.scales.at(i) * 4), as_float(s.second)), shift);
#elif SCALE_IS_E8M0
    // 0 stands for 2^-127, below normal numbers, and 255 for NaN: infinity times zero is.
    const float power = larger(as_float(s.scales.at(i) << 23), as_float(1u << 22));
    return fused(power, 0.0f, power);
#else
    return widen<SCALE_TYPE>(s.scales.at(i));
#endif
}
// A weight is (its code's value - shift_at) * scale_at - extra_at.
template <u32 COUNT> DEVICE float shift_at(const loaded_scales<COUNT> &s, u32 i)
{
    return ZERO == ZERO_U8 ? (float)s.zeros.at(i) - 8.0f : 0.0f;
}
template <u32 COUNT> DEVICE float extra_at(const loaded_scales<COUNT> &s, u32 i)
{
    return ZERO == ZERO_SCALED ? widen<SCALE_TYPE>(s.zeros.at(i)) : 0.0f;
}
