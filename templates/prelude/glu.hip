/* SPDX-License-Identifier: MIT */
// What becomes of gate and up. Infinities and NaN give what PyTorch's operations in f32 give: the
// comparisons of the bounds are false for NaN, which so passes.

enum act { SILU_MUL, SWIGLU_OAI };

DEVICE float logistic(float x)
{
    return __builtin_amdgcn_rcpf(1.0f + __builtin_elementwise_exp(-x));
}

DEVICE float activated(float gate, float up)
{
    if constexpr (ACT == SILU_MUL)
        return gate * logistic(gate) * up;
    const float g = gate > 7.0f ? 7.0f : gate, u = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return g * logistic(1.702f * g) * (u + 1.0f);
}

// The same where the lane whose number differs in bit 0 has the other row of the pair: in even
// lanes, `own` is the gate. Others get what nobody stores.
DEVICE float activated_of_two(float own)
{
    const u32 bits = __builtin_bit_cast(u32, own);
    const u32 other = __builtin_amdgcn_update_dpp(0, bits, 0xb1, 0xf, 0xf, true); // [1,0,3,2]
    return activated(own, __builtin_bit_cast(float, other));
}
