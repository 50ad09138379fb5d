/* SPDX-License-Identifier: MIT */
// v_dot2_bf16_bf16 drops the lower bits of its result, so that weights made by it, a code times a
// scale, are too small on average. Results are multiplied by a factor that makes up for that.

// The factor with the least mean square of `weight - factor * cut`. All codes are taken to be
// equally frequent, and a mantissa m of scales to occur in proportion to 1/m, as in numbers of all
// sizes.
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
