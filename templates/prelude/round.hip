/* SPDX-License-Identifier: MIT */
// f32 in the type of C: to nearest, ties to even; or bf16 by leaving the lower bits away.
template <class T, bool TRUNCATED> DEVICE T rounded(float value)
{
    if constexpr (TRUNCATED && __is_same(T, bf16))
        return __builtin_bit_cast(bf16, (u16)(__builtin_bit_cast(u32, value) >> 16));
    else
        return (T)value;
}
