/* SPDX-License-Identifier: MIT */
// Scaled weights of bf16 from codes, one instruction for each: v_dot2_bf16_bf16 of
// (128 + q, 128 + z) with (scale, -scale), of processors that have it. It rounds toward zero.

constexpr float CENTRED_CODES[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constexpr float RESTORED = ZERO == ZERO_SCALED ? RESTORED_OF_ANY : restored(CENTRED_CODES);

struct dot_scale {
    u32 zero;  // 128 and 128 + z, which is exact up to 255
    u32 scale; // and its negative
    u32 rest;  // one bf16 that is added: the rest of a zero point above 127, or a scaled zero point
};

DEVICE u32 nearest_bf16(float value) { return (__builtin_bit_cast(u32, value) + 0x8000) >> 16; }

// `scale` is a bf16; `zero` a zero point of codes, up to 255; `off` is added to weights.
DEVICE dot_scale make_dot_scale(u32 scale, float zero, float off)
{
    const float exact = ZERO == ZERO_U8 ? __builtin_fminf(zero, 127.0f) : zero;
    const float value = __builtin_bit_cast(float, scale << 16);
    const u32 biased = __builtin_bit_cast(u32, 128.0f + exact) & 0xffff0000;

    return {biased | 0x4300, scale | (scale ^ 0x8000) << 16,
            nearest_bf16(ZERO == ZERO_U8 ? (exact - zero) * value : off)};
}

// Eight weights, in the pairs of decode_word.
DEVICE void decode_by_dots(u32 word, const dot_scale &by, u32 (&pairs)[4])
{
#if SCALED_BY_DOTS // not every processor knows the instruction
    // a code takes the place of the lowest byte
    const u32 nibbles[2] = {word & 0x0f0f0f0f, word >> 4 & 0x0f0f0f0f};
    UNROLL for (u32 p = 0; p < 4; p++) {
        const u32 first = BYTE_PAIRS ? 2 * p : p, second = BYTE_PAIRS ? 2 * p + 1 : p + 4;
        const u32 x = __builtin_amdgcn_perm(nibbles[first % 2], by.zero, 0x03020104 + first / 2);
        const u32 y = __builtin_amdgcn_perm(nibbles[second % 2], by.zero, 0x03020104 + second / 2);
        if constexpr (ZERO == ZERO_NONE) {
            asm("v_dot2_bf16_bf16 %0, %1, %2, 0" : "=v"(pairs[p]) : "v"(x), "v"(by.scale));
            asm("v_dot2_bf16_bf16 %0, %1, %2, 0 op_sel:[0,0,0,1]"
                : "+v"(pairs[p]) : "v"(y), "v"(by.scale));
        } else {
            asm("v_dot2_bf16_bf16 %0, %1, %2, %3"
                : "=v"(pairs[p]) : "v"(x), "v"(by.scale), "v"(by.rest));
            asm("v_dot2_bf16_bf16 %0, %1, %2, %3 op_sel:[0,0,0,1]"
                : "+v"(pairs[p]) : "v"(y), "v"(by.scale), "v"(by.rest));
        }
    }
#endif
}
