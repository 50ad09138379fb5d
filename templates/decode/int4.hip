/* SPDX-License-Identifier: MIT */
// The decoder of int4, in registers: the codes of a word become values of the type that they are
// multiplied in, by exact integer operations alone. A code q stands for CODE_BIAS + q, because its
// bits are put into the mantissa of a number whose last place is worth one; no subtraction, no
// conversion and no rounding per weight. What CODE_BIAS adds to a chunk's sum is taken off again:
// it is the sum that the same A gives with codes of 0 (see the sums of A in the family).
//
// f16: 1024 + q from bits 0-3 of a half, 64 + q from bits 4-7. bf16: 128 + q from bits 0-3.
// f32: q itself, by the conversion of a byte.

constexpr bool WIDE = PRODUCTS == PACKED || PRODUCTS == PLAIN; // f32 values

// Which two of a word's eight weights become pair p. A pair of nibbles p and p + 4 takes fewest
// instructions, because they lie in the two halves of the word already.
//   layouts exl, ck: nibbles p and p + 4 are k = 2p and 2p + 1.
//   layout k8: nibbles p and p + 4 are k = p and p + 4. Either A's values are brought into the same
//   pairs (A_PAIRED); or pair p is the two nibbles of byte p, k = 2p and 2p + 1 (BYTE_PAIRS).
constexpr bool A_PAIRED = WORD_ORDER == K8 && PAIRING == OF_A && !WIDE;
constexpr bool BYTE_PAIRS = WORD_ORDER == K8 && !A_PAIRED;

// What the decoder adds to a code, where it is the same for all.
constexpr bool ONE_BIAS = WIDE || A_TYPE == BF16;
constexpr float CODE_BIAS = WIDE ? 0 : 128;

template <bool> struct pair_type; // two decoded weights
template <> struct pair_type<true> { typedef f32x2 type; };
template <> struct pair_type<false> { typedef u32 type; };
typedef pair_type<WIDE>::type pair;

// Brings the eight values of A that a word meets into the decoder's pairs. `bytes` says for v_perm
// which bytes of two dwords make a pair of their lower, and of their upper halves; ZERO_BYTES gives
// zeros instead.
struct pair_bytes {
    u32 low, high;
};
constexpr pair_bytes PAIR_BYTES = {0x05040100, 0x07060302}, ZERO_BYTES = {0x0c0c0c0c, 0x0c0c0c0c};
template <class PAIRS> DEVICE void pair_up(PAIRS &a, const pair_bytes &bytes = PAIR_BYTES)
{
    if constexpr (A_PAIRED) {
        const u32 d0 = a[0], d1 = a[1], d2 = a[2], d3 = a[3];
        a[0] = __builtin_amdgcn_perm(d2, d0, bytes.low);
        a[1] = __builtin_amdgcn_perm(d2, d0, bytes.high);
        a[2] = __builtin_amdgcn_perm(d3, d1, bytes.low);
        a[3] = __builtin_amdgcn_perm(d3, d1, bytes.high);
    }
}

// Constants that the compiler keeps in a register of each lane: without VOP3_LITERAL an instruction
// reads only one scalar register, and no literal.
struct decoder {
    u32 low_magic, high_magic;
};
constexpr decoder DECODER = {A_TYPE == BF16 ? 0x43004300 : 0x64006400, 0x54005400};
DEVICE decoder make_decoder()
{
    return {opaque(DECODER.low_magic), A_TYPE == BF16 ? 0 : opaque(DECODER.high_magic)};
}

// Nibbles i and i + 4 of a word as pair i of f16: 1024 + q of even i, 64 + q of odd.
DEVICE void decode_halves(const decoder &d, u32 word, u32 (&w)[4])
{
    const u32 upper = word >> 8;

    w[0] = (word & 0x000f000f) | d.low_magic;
    w[1] = (word & 0x00f000f0) | d.high_magic;
    w[2] = (upper & 0x000f000f) | d.low_magic;
    w[3] = (upper & 0x00f000f0) | d.high_magic;
}

// The four pairs of a word.
DEVICE void decode_word(const decoder &d, u32 word, u32 (&w)[4])
{
    if constexpr (BYTE_PAIRS && A_TYPE == F16) { // both nibbles of a byte in both halves
        UNROLL for (u32 p = 0; p < 4; p++)
            w[p] = __builtin_amdgcn_perm(0x54006400, word, 0x07000500 | p << 16 | p) & 0xfff0ff0f;
    } else if constexpr (BYTE_PAIRS) {
        const u32 odd = word >> 4;
        UNROLL for (u32 p = 0; p < 4; p++)
            w[p] = (__builtin_amdgcn_perm(odd, word, 0x0c040c00 | p << 16 | p) & 0x000f000f) |
                   d.low_magic;
    } else if constexpr (A_TYPE == F16) {
        decode_halves(d, word, w);
    } else {
        UNROLL for (u32 p = 0; p < 4; p++)
            w[p] = (word >> 4 * p & 0x000f000f) | d.low_magic;
    }
}

// Shifts two words right by one 64-bit instruction. The bits of the second word that enter the
// first are masked out by the decoder. The compiler would see that and shift each word by itself,
// so the distance is hidden from it. The instruction itself must not be hidden, in assembly: the
// compiler counts no wait states before assembly, and an MFMA that is still writing the registers
// that the result gets would overwrite it.
template <u32 BITS> DEVICE void shift_words(const u32 (&words)[2], u32 (&to)[2])
{
    const u64 shifted = ((u64)words[1] << 32 | words[0]) >> opaque_scalar(BITS);
    to[0] = (u32)shifted, to[1] = (u32)(shifted >> 32);
}

// Decodes two words at once, by 9 (f16) or 11 instructions where 64 bits are shifted as fast as 32.
DEVICE void decode_two_words(const decoder &d, const u32 (&words)[2], u32 (&first)[4],
                             u32 (&second)[4])
{
    u32 by[4][2] = {{words[0], words[1]}};
    if constexpr (BYTE_PAIRS) {
        decode_word(d, words[0], first);
        decode_word(d, words[1], second);
    } else if constexpr (A_TYPE == F16) {
        shift_words<8>(words, by[1]);
        UNROLL for (u32 p = 0; p < 4; p++) {
            const u32 mask = p % 2 ? 0x00f000f0 : 0x000f000f;
            const u32 magic = p % 2 ? d.high_magic : d.low_magic;
            first[p] = (by[p / 2][0] & mask) | magic;
            second[p] = (by[p / 2][1] & mask) | magic;
        }
    } else {
        shift_words<4>(words, by[1]);
        shift_words<8>(words, by[2]);
        shift_words<12>(words, by[3]);
        UNROLL for (u32 p = 0; p < 4; p++) {
            first[p] = (by[p][0] & 0x000f000f) | d.low_magic;
            second[p] = (by[p][1] & 0x000f000f) | d.low_magic;
        }
    }
}

// The same in f32: v_cvt_f32_ubyte0 to 3 of the even and of the odd nibbles.
DEVICE void decode_word(const decoder &, u32 word, f32x2 (&w)[4])
{
    const u32 even = word & 0x0f0f0f0f, odd = word >> 4 & 0x0f0f0f0f;
    UNROLL for (u32 p = 0; p < 4; p++) {
        if constexpr (WORD_ORDER == K8) { // k = 2p, 2p + 1
            w[p] = f32x2{(float)(even >> 8 * p & 0xff), (float)(odd >> 8 * p & 0xff)};
        } else { // nibbles p and p + 4
            const u32 from = p % 2 ? odd : even;
            w[p] = f32x2{(float)(from >> 8 * (p / 2) & 0xff),
                         (float)(from >> 8 * (p / 2 + 2) & 0xff)};
        }
    }
}
DEVICE void decode_two_words(const decoder &d, const u32 (&words)[2], f32x2 (&first)[4],
                             f32x2 (&second)[4])
{
    decode_word(d, words[0], first);
    decode_word(d, words[1], second);
}
