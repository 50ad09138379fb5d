/* SPDX-License-Identifier: MIT */
// The conversion of f32 to bf16, of numbers halfway between two bf16 and just beside.

PROBE
{
    u32 values = 3;
    for (u32 i = 0; i < 16; i++) {
        const u32 bits = 0x3f807ffe + ((group_of() * WAVE + lane_of()) << 16) + i % 5;
        const float value = __builtin_bit_cast(float, bits);
        const u32 got = __builtin_bit_cast(u32, __builtin_convertvector(f32x2{value, 0}, bf16x2));
        values &= ((got & 0xffff) == (bits + 0x7fff + (bits >> 16 & 1)) >> 16 ? 1 : 0) |
                  ((got & 0xffff) == bits >> 16 ? 2 : 0);
    }
    answer(memory, values);
}
