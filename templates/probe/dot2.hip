/* SPDX-License-Identifier: MIT */
// v_dot2_bf16_bf16 of (x, 0) and (y, 0), whose product f32 holds exactly: the upper half of that,
// or the nearest bf16.

PROBE
{
    u32 values = 3;
    for (u32 i = 0; i < 16; i++) {
        const u32 x = 0x3f80 | (lane_of() * 5 + i * 7 + group_of()) % 128;
        const u32 y = 0x3f80 | (lane_of() * 3 + i * 11 + 1) % 128;
        const u32 exact = __builtin_bit_cast(u32, __builtin_bit_cast(float, x << 16) *
                                                      __builtin_bit_cast(float, y << 16));
        u32 got;
        asm volatile("v_dot2_bf16_bf16 %0, %1, %2, 0" : "=v"(got) : "v"(x), "v"(y));
        got &= 0xffff;
        values &= (got == exact >> 16 ? 1 : 0) |
                  (got == (exact + 0x7fff + (exact >> 16 & 1)) >> 16 ? 2 : 0);
    }
    answer(memory, values);
}
