/* SPDX-License-Identifier: MIT */
// v_dot2_bf16_bf16 leaves the lower bits of its result away, so that weights made by it, a code
// times a scale, are too small on average. Results are multiplied by what makes up for that.

// Of all factors the one with the least mean square of `weight - factor * cut`. Codes count alike,
// and scales have the mantissas of numbers of all sizes: m as often as 1/m says.
template <u32 COUNT> constexpr float restored(const float (&codes)[COUNT])
{
    double products = 0, squares = 0;
    for (u32 i = 0; i < COUNT; i++) {
        const u32 bits = __builtin_bit_cast(u32, codes[i]);
        const u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000; // to bf16
        for (u32 mantissa = 128; mantissa < 256; mantissa++) {
            const float weight = __builtin_bit_cast(float, rounded) * (float)mantissa;
            const u32 upper = __builtin_bit_cast(u32, weight) & 0xffff0000;
            const double cut = __builtin_bit_cast(float, upper);
            products += weight * cut / mantissa;
            squares += cut * cut / mantissa;
        }
    }
    return (float)(products / squares);
}

// The same of weights that have bits of all places. With mantissas m as above, half a unit of the
// last place, 2^-8, is lost of each: 2^-8 times the mean of m over the mean of m * m, 2/3.
constexpr float RESTORED_OF_ANY = 1 + 0x1p-8f * 2 / 3;
