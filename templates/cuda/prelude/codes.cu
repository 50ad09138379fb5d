/* SPDX-License-Identifier: MIT */
// What a 4-bit code stands for: a number, or bits of the 16-bit type that it is multiplied in.

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
