/* SPDX-License-Identifier: MIT */
// Reads values of W and of A that are plain numbers out of `raw`, the dwords that a lane has
// loaded: as pairs of f32, or, if they have 16 bits, as pairs of those. SIZE is an element's bytes,
// UNIT the worth of a value. Unlike fp8's, their NaNs need no examine().

template <u32 TYPE> struct number;
struct plain_number {
    static constexpr bool NOTES_NAN = false;
    static constexpr float UNIT = 1.0f;
    DEVICE void examine(u32 &, u32 &) {}
};

template <> struct number<F32> : plain_number {
    static constexpr u32 SIZE = 4;
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        return {__builtin_bit_cast(float, raw[2 * p]), __builtin_bit_cast(float, raw[2 * p + 1])};
    }
    template <element> DEVICE u32 halves(const u32 *raw, u32 p) { return raw[p]; }
};

template <> struct number<F16> : plain_number {
    static constexpr u32 SIZE = 2;
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        const f16x2 both = __builtin_bit_cast(f16x2, raw[p]);
        return {(float)both.x, (float)both.y};
    }
    template <element> DEVICE u32 halves(const u32 *raw, u32 p) { return raw[p]; }
};

template <> struct number<BF16> : plain_number { // the upper half of an f32
    static constexpr u32 SIZE = 2;
    DEVICE f32x2 pair(const u32 *raw, u32 p)
    {
        const u32 low = raw[p] << 16, high = raw[p] & 0xffff0000;
        return {__builtin_bit_cast(float, low), __builtin_bit_cast(float, high)};
    }
    template <element> DEVICE u32 halves(const u32 *raw, u32 p) { return raw[p]; }
};
