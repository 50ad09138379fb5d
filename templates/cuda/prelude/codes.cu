/* SPDX-License-Identifier: MIT */
// What a 4-bit code stands for, as a number.

struct code_values {
    float value[16];
};
constexpr code_values make_values()
{
    code_values values = {};
    for (u32 i = 0; i < 16; i++)
        values.value[i] = CODE[i] * CODE_UNIT;
    return values;
}
constexpr code_values VALUES = make_values();

// Weight `index` of the eight of a word, as a code.
DEVICE u32 code_of_word(u32 word, u32 index)
{
    const u32 nibble = WORD_ORDER == BNB   ? index ^ 1
                       : WORD_ORDER == EXL ? index / 2 + index % 2 * 4
                                           : index;
    return word >> 4 * nibble & 15;
}
