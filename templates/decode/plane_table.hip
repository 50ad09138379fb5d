/* SPDX-License-Identifier: MIT */
// The decoder of mma_tile's weights by table: the sixteen values are in registers, as f16, in one
// table of their upper bytes and one of their lower bytes. v_perm_b32 looks four codes up in eight
// bytes; each code's fourth bit chooses between the results of two such look-ups. Where all lower
// bytes are zero, as for FP4 and E2M1, half the instructions do.

struct byte_plane {
    u32 codes[4]; // of codes 0 to 3, 4 to 7 and so on
};

constexpr u32 code_bits(u32 code)
{
    return __builtin_bit_cast(u16, (f16)CODE[code]);
}

constexpr byte_plane make_plane(u32 shift)
{
    byte_plane plane = {};
    for (u32 code = 0; code < 16; code++)
        plane.codes[code / 4] |= (code_bits(code) >> shift & 0xff) << code % 4 * 8;
    return plane;
}
constexpr byte_plane UPPER = make_plane(8), LOWER = make_plane(0);
constexpr bool HAS_LOWER = LOWER.codes[0] | LOWER.codes[1] | LOWER.codes[2] | LOWER.codes[3];

// What a lane keeps. Without VOP3_LITERAL an instruction reads no literal and only one scalar
// register: constants must be in registers of the lane.
struct decoder {
    byte_plane upper, lower;
};
DEVICE decoder make_decoder()
{
    decoder d = {UPPER, LOWER};
    if constexpr (!HAS_VOP3_LITERAL)
        UNROLL for (u32 i = 0; i < 4; i++) {
            d.upper.codes[i] = opaque(d.upper.codes[i]);
            if (HAS_LOWER)
                d.lower.codes[i] = opaque(d.lower.codes[i]);
        }
    return d;
}

DEVICE u32 look_up(const byte_plane &plane, u32 low, u32 high)
{
    const u32 first = __builtin_amdgcn_perm(plane.codes[1], plane.codes[0], low);
    const u32 second = __builtin_amdgcn_perm(plane.codes[3], plane.codes[2], low);
    return __builtin_amdgcn_perm(second, first, high);
}

// The four pairs of a word of eight codes, in the order of k.
DEVICE void decode_word(const decoder &d, u32 word, u32 (&pairs)[4])
{
    const u32 odd = word >> 4; // nibbles of each byte above the lower ones
    UNROLL for (u32 half = 0; half < 2; half++) {
        // bytes of `word` are the lower nibbles, bytes 4 and up those of `odd` the upper ones
        const u32 select = HIGH_NIBBLE_FIRST ? 0x01050004 : 0x05010400;
        const u32 codes = __builtin_amdgcn_perm(odd, word, select + half * 0x02020202);
        const u32 low = codes & 0x07070707;
        const u32 high = (codes >> 1 & 0x04040404) | 0x03020100;
        const u32 upper = look_up(d.upper, low, high);
        const u32 lower = HAS_LOWER ? look_up(d.lower, low, high) : 0;
        pairs[half * 2] = __builtin_amdgcn_perm(upper, lower, HAS_LOWER ? 0x05010400 : 0x050c040c);
        pairs[half * 2 + 1] =
            __builtin_amdgcn_perm(upper, lower, HAS_LOWER ? 0x07030602 : 0x070c060c);
    }
}
