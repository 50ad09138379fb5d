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

#if SCALE_IS_NESTED
#define SCALE_OPERANDS                                                                             \
    const float *scales, const u8 *absmax8, const float *code, const float *offset
#define SCALE_NAMES scales, absmax8, code, offset
constexpr u32 NEST = 256; // absmax that share a second scale
#elif SCALE_IS_E8M0
#define SCALE_OPERANDS const u8 *scales
#define SCALE_NAMES    scales
#elif HAS_ZEROS
#define SCALE_OPERANDS const scale_element *scales, const zero_element *zeros
#define SCALE_NAMES    scales, zeros
#else
#define SCALE_OPERANDS const scale_element *scales
#define SCALE_NAMES    scales
#endif

constexpr u32 BLOCKS = K / BLOCK; // of a row

// What was loaded for a number of neighbouring blocks; begin_scales starts the loads, scale_at
// makes a number of what has come. COUNT divides BLOCKS and 256.
template <u32 COUNT> struct loaded_scales {
    u32 bits[COUNT], zeros[COUNT];
    float second;
};

// COUNT neighbours, as bits, by one load where they are 2 or 4.
template <u32 COUNT> DEVICE void load_some(const float *from, u32 (&bits)[COUNT])
{
    if constexpr (COUNT == 4) {
        const u32x4 v = ldg((const u32x4 *)from);
        bits[0] = v.x, bits[1] = v.y, bits[2] = v.z, bits[3] = v.w;
    } else if constexpr (COUNT == 2) {
        const u32x2 v = ldg((const u32x2 *)from);
        bits[0] = v.x, bits[1] = v.y;
    } else {
        UNROLL for (u32 i = 0; i < COUNT; i++)
            bits[i] = ldg((const u32 *)from + i);
    }
}
template <u32 COUNT> DEVICE void load_some(const u16 *from, u32 (&bits)[COUNT])
{
    if constexpr (COUNT == 4) {
        const u32x2 v = ldg((const u32x2 *)from);
        bits[0] = v.x & 0xffff, bits[1] = v.x >> 16, bits[2] = v.y & 0xffff, bits[3] = v.y >> 16;
    } else if constexpr (COUNT == 2) {
        const u32 v = ldg((const u32 *)from);
        bits[0] = v & 0xffff, bits[1] = v >> 16;
    } else {
        UNROLL for (u32 i = 0; i < COUNT; i++)
            bits[i] = ldg(from + i);
    }
}
template <u32 COUNT> DEVICE void load_some(const u8 *from, u32 (&bits)[COUNT])
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
    load_some<COUNT>(absmax8 + block, s.bits);
    s.second = ldg(scales + block / NEST);
#else
    load_some<COUNT>(scales + block, s.bits);
#endif
#if HAS_ZEROS
    load_some<COUNT>(zeros + block, s.zeros);
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
    return widen<SCALE_TYPE>(s.bits[i]);
#endif
}
// A weight is (its code's value - shift_at) * scale_at - extra_at.
template <u32 COUNT> DEVICE float shift_at(const loaded_scales<COUNT> &s, u32 i)
{
    return ZERO == ZERO_U8 ? (float)s.zeros[i] - 8.0f : 0.0f;
}
template <u32 COUNT> DEVICE float extra_at(const loaded_scales<COUNT> &s, u32 i)
{
    return ZERO == ZERO_SCALED ? widen<SCALE_TYPE>(s.zeros[i]) : 0.0f;
}
