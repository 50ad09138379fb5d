/* SPDX-License-Identifier: MIT */
// The scales of blocks of W, by how the problem keeps them: SCALES is F32 for one number a block;
// NESTED for a byte a block that stands for code[byte] * scales[block / 256] + offset, as
// bitsandbytes has it; E8M0 for a byte a block that stands for 2^(byte - 127), 255 for NaN.

enum scale_kind { PLAIN, NESTED, E8M0 };

#if SCALE_IS_NESTED
#define SCALE_OPERANDS                                                                             \
    const float *scales, const u8 *absmax8, const float *code, const float *offset
#define SCALE_NAMES scales, absmax8, code, offset
constexpr u32 NEST = 256; // absmax that share a second scale
#elif SCALE_IS_E8M0
#define SCALE_OPERANDS const u8 *scales
#define SCALE_NAMES    scales
#else
#define SCALE_OPERANDS const float *scales
#define SCALE_NAMES    scales
#endif

constexpr u32 BLOCKS = K / BLOCK; // of a row

// What was loaded for a number of neighbouring blocks; begin_scales starts the loads, scale_at
// makes a number of what has come. COUNT divides BLOCKS and 256.
template <u32 COUNT> struct loaded_scales {
    u32 bits[COUNT];
    float second;
};

template <u32 COUNT> DEVICE void load_words(const u32 *from, u32 (&bits)[COUNT])
{
    if constexpr (COUNT == 4) {
        const u32x4 v = ldg((const u32x4 *)from);
        bits[0] = v.x, bits[1] = v.y, bits[2] = v.z, bits[3] = v.w;
    } else if constexpr (COUNT == 2) {
        const u32x2 v = ldg((const u32x2 *)from);
        bits[0] = v.x, bits[1] = v.y;
    } else {
        UNROLL for (u32 i = 0; i < COUNT; i++)
            bits[i] = ldg(from + i);
    }
}
template <u32 COUNT> DEVICE void load_bytes(const u8 *from, u32 (&bits)[COUNT])
{
    if constexpr (COUNT == 4) {
        const u32 v = ldg((const u32 *)from);
        UNROLL for (u32 i = 0; i < 4; i++)
            bits[i] = v >> 8 * i & 255;
    } else if constexpr (COUNT == 2) {
        const u32 v = ldg((const u16 *)from);
        bits[0] = v & 255, bits[1] = v >> 8;
    } else {
        UNROLL for (u32 i = 0; i < COUNT; i++)
            bits[i] = ldg(from + i);
    }
}

template <u32 COUNT> DEVICE loaded_scales<COUNT> begin_scales(u64 block, SCALE_OPERANDS)
{
    loaded_scales<COUNT> s = {};
#if SCALE_IS_NESTED
    load_bytes<COUNT>(absmax8 + block, s.bits);
    s.second = ldg(scales + block / NEST);
#elif SCALE_IS_E8M0
    load_bytes<COUNT>(scales + block, s.bits);
#else
    load_words<COUNT>((const u32 *)(scales + block), s.bits);
#endif
    return s;
}

// `codes`: where in shared memory the 256 numbers of `code` are; `shift`: *offset.
template <u32 COUNT>
DEVICE float scale_at(const loaded_scales<COUNT> &s, u32 i, u32 codes, float shift)
{
#if SCALE_IS_NESTED
    return sum(product(lds<float>(codes + s.bits[i] * 4), s.second), shift);
#elif SCALE_IS_E8M0
    return as_float(s.bits[i] == 255 ? 0x7fc00000u : s.bits[i] ? s.bits[i] << 23 : 0x00400000u);
#else
    return as_float(s.bits[i]);
#endif
}
