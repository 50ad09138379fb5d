/* SPDX-License-Identifier: MIT */
// Values of W and of A as they lie in memory, `raw` being the dwords that one lane has loaded: in
// pairs of f32, or as pairs of 16 bits where they are that already. SIZE is in bytes.

template <u32 TYPE> struct number;

template <> struct number<F32> {
    static constexpr u32 SIZE = 4;
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        return {__builtin_bit_cast(float, raw[2 * p]), __builtin_bit_cast(float, raw[2 * p + 1])};
    }
    DEVICE u32 halves(const u32 *raw, u32 p) { return raw[p]; }
};

template <> struct number<F16> {
    static constexpr u32 SIZE = 2;
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        const f16x2 both = __builtin_bit_cast(f16x2, raw[p]);
        return {(float)both.x, (float)both.y};
    }
    DEVICE u32 halves(const u32 *raw, u32 p) { return raw[p]; }
};

template <> struct number<BF16> { // the upper half of an f32
    static constexpr u32 SIZE = 2;
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        const u32 low = raw[p] << 16, high = raw[p] & 0xffff0000;
        return {__builtin_bit_cast(float, low), __builtin_bit_cast(float, high)};
    }
    DEVICE u32 halves(const u32 *raw, u32 p) { return raw[p]; }
};
