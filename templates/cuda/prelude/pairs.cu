/* SPDX-License-Identifier: MIT */
// Codes as pairs of A_TYPE, by a table of all 256 pairs of codes in units of CODE_UNIT, which has a
// copy for each lane: one byte permute makes an address of a byte and the lane, one load gets two
// weights. A pair of the table takes 256 bytes, so that its byte is a whole byte of the address;
// its copies are the first 128, and the other half is free.

constexpr u32 TABLE = 0, TABLE_BYTES = 65536;
constexpr bool BY_OFFSET = false; // numbers are what they stand for
constexpr u32 ONES = 0;
constexpr float NO_ZERO = 0;

struct code_bits {
    u16 bits[16];
};
constexpr code_bits make_code_bits()
{
    code_bits values = {};
    for (u32 i = 0; i < 16; i++)
        values.bits[i] = (u16)constant_bits(A_TYPE, CODE[i]);
    return values;
}
constexpr code_bits CODE_BITS = make_code_bits();

// The two weights of a byte, that of the lower k in the lower half.
DEVICE u32 pair_of(u32 byte)
{
    const u32 high = CODE_BITS.bits[byte >> 4], low = CODE_BITS.bits[byte & 15];
    return WORD_ORDER == BNB ? high | low << 16 : low | high << 16;
}

DEVICE void build_table(u32 items)
{
    for (u32 i = item(); i < 256 * 8; i += items) {
        const u32 pair = pair_of(i / 8);
        sts<u32x4>(TABLE + i / 8 * 256 + i % 8 * 16, {pair, pair, pair, pair});
    }
}

// The pair of byte `index` of a word, by the lane's copy.
DEVICE u32 pair_of_word(u32 word, u32 index, u32 copy)
{
    return lds<u32>(TABLE + byte_permute(word, copy, 0x5504 | index << 4));
}

// Pairs are neighbours, as A's are.
DEVICE void order_a(u32 *) {}
