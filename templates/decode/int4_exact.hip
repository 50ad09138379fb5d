/* SPDX-License-Identifier: MIT */
// Decodes int4 codes to q - z, from which CODE_BIAS and the zero point have been taken off, or to
// weights. q - z is exact in f16, by one packed addition for two codes, and in bf16, where it is
// made in f32 and cut off. A weight, (q - z) * s or (q - 8) * s - zs, is made in f32 and rounded
// once by an instruction of its own; where q - z and the scale are f16, by one packed operation;
// CUT, as in decode/int4_mix.

// How codes become f32 on processors with SDWA, for bf16. BY_SIXTEENTHS: an instruction converts a
// signed nibble, in any byte, to sixteenths. It makes (q - 8) / 16 of codes whose upper bit is
// flipped; results are multiplied by sixteen in the end.
// BY_FP8, where each group has a zero point, or weights are scaled: two codes at once are converted
// as 8-bit floats, whose smallest sixteen values, 0 to 15, are multiples of the smallest.
// BY_MIX, where the processor cannot convert 8-bit floats: codes become f16 by masks, and an
// instruction converts an f16 to f32 and subtracts the zero point.
constexpr float FP8_UNIT = HAS_FP8_FNUZ ? 1024 : 512; // the smallest 8-bit float is 1 / FP8_UNIT
constexpr bool F32_CODES = A_TYPE == BF16 && HAS_SDWA && EXACT && !CUT;
constexpr bool BY_FP8 = F32_CODES && HAS_FP8_CVT && (SCALED || ZERO == ZERO_U8);
constexpr bool BY_MIX = F32_CODES && !BY_FP8 && !SCALED && ZERO == ZERO_U8;
constexpr bool BY_SIXTEENTHS = F32_CODES && !BY_FP8 && !BY_MIX;
constexpr float CODE_UNIT = BY_FP8 ? FP8_UNIT : BY_SIXTEENTHS ? 16 : 1;
constexpr float CODE_MIDDLE = BY_SIXTEENTHS ? 8 : 0; // the conversion has subtracted it already

// What is added to decoded codes to give q - z.
struct exact_zero {
    u32 even, odd;   // in f16: -(bias + z), for the even and the odd pairs of a word
    float wide;      // in f32: what is left of -z, in units of CODE_UNIT
    float low, high; // BY_MIX: what even and odd would be, in f32
};
DEVICE u32 halves(f16 low, f16 high) { return __builtin_bit_cast(u32, f16x2{low, high}); }
DEVICE u32 add_halves(u32 a, u32 b)
{
    return __builtin_bit_cast(u32,
                              __builtin_bit_cast(f16x2, a) + __builtin_bit_cast(f16x2, b));
}

// For the zero point in byte `index` of `word`; without zero points that is 8.
DEVICE exact_zero make_exact_zero(u32 word, u32 index)
{
    float z = (float)(word >> 8 * index & 0xff);
    if (A_TYPE == BF16 && !BY_SIXTEENTHS)
        computed(z); // of a constant the compiler would make an integer subtraction for each code
    const float wide = (CODE_MIDDLE - z) / CODE_UNIT;
    // -(1024 + z), twice, whose last place is one
    const u32 low = __builtin_amdgcn_perm(0xe4e4e4e4, word, 0x04000400 + index * 0x10001);
    if constexpr (BY_MIX)
        return {0, 0, 0, -1024.0f - z, -64.0f - z};
    else if constexpr (BYTE_PAIRS)
        return {add_halves(low, halves(0, 960)), add_halves(low, halves(0, 960)), wide};
    else
        return {low, add_halves(low, halves(960, 960)), wide};
}

// q - z of the word's pairs, in place.
DEVICE void subtract_zero(u32 (&w)[4], const exact_zero &zero)
{
    UNROLL for (u32 p = 0; p < 4; p++) {
        w[p] = add_halves(w[p], p % 2 ? zero.odd : zero.even);
    }
}

// A word's codes, each as a byte: conversions take any byte of a register, but a nibble only at a
// byte's lower end. computed() keeps the compiler from taking nibbles out one by one.
struct code_bytes {
    u32 even, odd;
};
DEVICE code_bytes bytes_of(u32 word)
{
    code_bytes c = {word & 0x0f0f0f0f, word >> 4 & 0x0f0f0f0f};
    if constexpr (BY_SIXTEENTHS) {
        c.even = word ^ 0x88888888;
        computed(c.even);
        c.odd = c.even >> 4;
    }
    computed(c.even);
    computed(c.odd);
    return c;
}
// A sixteenth of the signed number in the four low bits, by a builtin rather than assembly, because
// the compiler counts no wait states between a matrix instruction and assembly. Before LLVM 21
// there is no such builtin: two shifts, a conversion and a product make the same value.
DEVICE float sixteenths(u32 nibble)
{
#if __has_builtin(__builtin_amdgcn_cvt_off_f32_i4)
    return __builtin_amdgcn_cvt_off_f32_i4(nibble);
#else
    return (float)((int)(nibble << 28) >> 28) * 0.0625f;
#endif
}
DEVICE float code_of(u32 bytes, u32 byte)
{
    const u32 one = bytes >> 8 * byte & 0xff; // part of the conversion: it selects the byte
    return BY_SIXTEENTHS ? sixteenths(one) : (float)one;
}
DEVICE f32x2 code_pair(const code_bytes &c, u32 p)
{
#if HAS_FP8_CVT // not every processor knows the instruction
    if constexpr (BY_FP8) { // two neighbouring bytes
        const u32 from = p / 2 ? c.odd : c.even;
        return p % 2 ? __builtin_amdgcn_cvt_pk_f32_fp8(from, true)
                     : __builtin_amdgcn_cvt_pk_f32_fp8(from, false);
    }
#endif
    if constexpr (BYTE_PAIRS)
        return {code_of(c.even, p), code_of(c.odd, p)};
    const u32 from = p % 2 ? c.odd : c.even;
    return {code_of(from, p / 2), code_of(from, p / 2 + 2)};
}

// Pair p of a word, in f32. `made(i)` gives the pair that code_pair makes for i; BY_FP8 that is two
// neighbouring bytes, so that pair p is put together from two of them.
template <class MADE> DEVICE f32x2 pair_of_codes(u32 p, MADE made)
{
    if constexpr (BY_FP8) {
        const u32 n = nibble_of_pair(p, 0), m = nibble_of_pair(p, 1);
        return {made(n % 2 * 2 + n / 4)[n / 2 % 2], made(m % 2 * 2 + m / 4)[m / 2 % 2]};
    }
    return made(p);
}

// The factor of one is hidden from the compiler, so that an instruction adds to an f16.
DEVICE void decode_by_mix(const decoder &d, u32 word, const exact_zero &zero, u32 (&w)[4])
{
    u32 codes[4];
    decode_halves(d, word, codes);
    auto exact = [&](u32 n) INLINE {
        return mix(codes[n % 4], n / 4, opaque_scalar(1.0f), n % 2 ? zero.high : zero.low);
    };
    UNROLL for (u32 p = 0; p < 4; p++)
        w[p] = cut(exact(nibble_of_pair(p, 0)), exact(nibble_of_pair(p, 1)));
}

// q - z of a word, in the pairs of decode_word.
DEVICE void decode_exactly(const decoder &d, u32 word, const exact_zero &zero, u32 (&w)[4])
{
    if constexpr (A_TYPE == F16) {
        decode_word(d, word, w);
        subtract_zero(w, zero);
    } else if constexpr (BY_MIX) {
        decode_by_mix(d, word, zero, w);
    } else {
        const code_bytes codes = bytes_of(word);
        auto exact = [&](u32 i) INLINE {
            return ZERO == ZERO_NONE && BY_SIXTEENTHS ? code_pair(codes, i)
                                                      : code_pair(codes, i) + zero.wide;
        };
        UNROLL for (u32 p = 0; p < 4; p++) {
            const f32x2 pair = pair_of_codes(p, exact);
            w[p] = cut(pair.x, pair.y);
        }
    }
}

// What makes weights of a word's codes, in the pairs of decode_word.
struct weight_scale {
    exact_zero zero;
    u32 packed, packed_off; // scale and off as pairs of f16, where the scale is f16
    float scale, off; // a weight is code * scale + off
    cut_scale cut;
};
constexpr bool PACKED_SCALE = A_TYPE == F16 && SCALE_TYPE == F16;

DEVICE weight_scale make_weight_scale(u32 scale_bits, u32 zero_bits)
{
    weight_scale s = {};
    s.scale = scale_value(scale_bits);
    const u32 byte = ZERO == ZERO_U8 ? zero_bits & 0xff : 8;
    const float zero = (float)byte;
    if constexpr (A_TYPE == F16) {
        s.zero = make_exact_zero(byte, 0);
        s.packed = scale_bits << 16 | (scale_bits & 0xffff);
        s.packed_off = (zero_bits << 16 | (zero_bits & 0xffff)) ^ 0x80008000;
        s.off = ZERO == ZERO_SCALED ? -zero_value(zero_bits) : 0.0f;
    } else if constexpr (CUT) {
        s.cut = make_cut_scale(s.scale, zero, ZERO == ZERO_SCALED ? -zero_value(zero_bits) : 0);
    } else {
        s.off = (CODE_MIDDLE - zero) / CODE_UNIT * s.scale; // exact, but for scales in f32
        if (ZERO == ZERO_SCALED)
            s.off -= zero_value(zero_bits) / CODE_UNIT;
        s.scale = s.scale == s.scale ? s.scale : __builtin_bit_cast(float, 0x7fc00000);
        s.off = s.off == s.off ? s.off : __builtin_bit_cast(float, 0x7fc00000);
    }
    return s;
}

static_assert(HAS_CVT_PK_BF16 || !SCALED || CUT || A_TYPE == F16, "one instruction rounds two");
DEVICE void dequantise_word(const decoder &d, u32 word, const weight_scale &s, u32 (&w)[4])
{
    if constexpr (A_TYPE == F16) {
        decode_word(d, word, w);
        subtract_zero(w, s.zero);
        UNROLL for (u32 p = 0; p < 4; p++) {
            const u32 codes = w[p], scale = s.packed;
            const f16x2 q = __builtin_bit_cast(f16x2, codes);
            const u32 off = s.packed_off;
            if constexpr (PACKED_SCALE && ZERO == ZERO_SCALED)
                w[p] = __builtin_bit_cast(
                    u32, __builtin_elementwise_fma(q, __builtin_bit_cast(f16x2, scale),
                                                   __builtin_bit_cast(f16x2, off)));
            else if constexpr (PACKED_SCALE)
                w[p] = __builtin_bit_cast(u32, q * __builtin_bit_cast(f16x2, scale));
            else
                w[p] = halves((f16)__builtin_fmaf((float)q.x, s.scale, s.off),
                              (f16)__builtin_fmaf((float)q.y, s.scale, s.off));
        }
    } else if constexpr (CUT) {
        decode_and_cut(d, word, s.cut, w);
    } else {
        const code_bytes codes = bytes_of(word);
        auto weights = [&](u32 i) INLINE {
            const f32x2 scale = s.scale, off = s.off;
            return __builtin_elementwise_fma(code_pair(codes, i), scale, off);
        };
        UNROLL for (u32 p = 0; p < 4; p++)
            w[p] = __builtin_bit_cast(
                u32, __builtin_convertvector(pair_of_codes(p, weights), bf16x2));
    }
}
