/* SPDX-License-Identifier: MIT */
// f32 in the type of C: to nearest, ties to even; or bf16 by leaving the lower bits away.
template <class T> DEVICE T rounded(float value, bool truncated)
{
    if constexpr (__is_same(T, bf16))
        if (truncated)
            return __builtin_bit_cast(bf16, (u16)(__builtin_bit_cast(u32, value) >> 16));
    return (T)value;
}
