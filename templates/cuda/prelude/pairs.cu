/* SPDX-License-Identifier: MIT */
// What a 4-bit code stands for, in units of CODE_UNIT, as bits of A_TYPE.

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
    return HIGH_NIBBLE_FIRST ? high | low << 16 : low | high << 16;
}
