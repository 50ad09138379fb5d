/* SPDX-License-Identifier: MIT */
// Codes as pairs of A_TYPE, by a table of all 256 pairs of codes in units of CODE_UNIT, which has a
// copy for each lane: one byte permute makes an address of a byte and the lane, one load gets two
// weights. A pair of the table takes 256 bytes, so that its byte is a whole byte of the address;
// its copies are the first 128, and the other half is free.

constexpr u32 TABLE = 0, TABLE_BYTES = 65536;
constexpr bool BY_OFFSET = false; // numbers are what they stand for
constexpr u32 ONES = 0;
constexpr float NO_ZERO = 0;

// Byte `byte` of what four codes from `first` on stand for.
constexpr u32 four_bytes(u32 first, u32 byte)
{
    u32 bytes = 0;
    for (u32 i = 0; i < 4; i++)
        bytes |= (constant_bits(A_TYPE, CODE[first + i]) >> 8 * byte & 255) << 8 * i;
    return bytes;
}
template <u32 BYTE> DEVICE u32 bytes_of(u32 low, u32 high)
{
    constexpr u32 FIRST[4] = {four_bytes(0, BYTE), four_bytes(4, BYTE), four_bytes(8, BYTE),
                              four_bytes(12, BYTE)};
    const u32 selector = (low & 7) | (high & 7) << 8;
    const u32 upper = (low & 8 ? 0xff : 0) | (high & 8 ? 0xff0000 : 0);
    return (byte_permute(FIRST[0], FIRST[1], selector) & ~upper) |
           (byte_permute(FIRST[2], FIRST[3], selector) & upper);
}

// The two weights of a byte, that of the lower k in the lower half. Values are parts of
// instructions: a table of them in memory would cost its latency before a kernel's first product.
DEVICE u32 pair_of(u32 byte)
{
    const u32 low = WORD_ORDER == BNB ? byte >> 4 : byte & 15;
    const u32 high = WORD_ORDER == BNB ? byte & 15 : byte >> 4;
    return byte_permute(bytes_of<0>(low, high), bytes_of<1>(low, high), 0x6240);
}

DEVICE void build_table(u32 items)
{
    for (u32 i = item(); i < 256 * 8; i += items) {
        const u32 pair = pair_of(i / 8);
        sts<u32x4>(TABLE + i / 8 * 256 + i % 8 * 16, {pair, pair, pair, pair});
    }
}

// The pair of byte `index` of a word, by the lane's copy, whose top byte is the window's.
DEVICE u32 pair_of_word(u32 word, u32 index, u32 copy)
{
    static_assert(TABLE == 0, "an address is put together from bytes");
    return lds_in_window<u32>(byte_permute(word, copy, 0x7504 | index << 4));
}

// Pairs are neighbours, as A's are.
DEVICE void order_a(u32 *) {}
