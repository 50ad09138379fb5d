/* SPDX-License-Identifier: MIT */
// What becomes of gate and up. Infinities and NaN give what PyTorch's operations in f32 give: the
// comparisons of the bounds are false for NaN, which so passes.

enum act { SILU_MUL, SWIGLU_OAI };

DEVICE float logistic(float x) { return 1.0f / (1.0f + exponential(-x)); }

DEVICE float activated(float gate, float up)
{
    if (ACT == SILU_MUL)
        return gate * logistic(gate) * up;
    const float g = gate > 7.0f ? 7.0f : gate, u = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return g * logistic(1.702f * g) * (u + 1.0f);
}
