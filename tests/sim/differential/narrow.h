/* SPDX-License-Identifier: MIT */
/* 8-bit and 16-bit integers, alone and packed; sums of differences and integer dots. */

FUNCTION2(u16, add_u16, u16, a, u16, b) { return (u16)(a + b); }
FUNCTION2(u16, sub_u16, u16, a, u16, b) { return (u16)(a - b); }
FUNCTION2(u16, mul_u16, u16, a, u16, b) { return (u16)((u32)a * b); }
FUNCTION3(u16, multiply_add_narrow_u16, u16, a, u16, b, u16, c) { return (u16)((u32)a * b + c); }
FUNCTION2(u32, mul_wide_u16, u16, a, u16, b) { return (u32)a * b; }
FUNCTION2(i32, mul_wide_i16, i16, a, i16, b) { return a * b; }
FUNCTION2(u16, divide_u16, u16, a, u16, b) { return b ? a / b : 0xffff; }
FUNCTION2(u16, remainder_u16, u16, a, u16, b) { return b ? a % b : a; }
FUNCTION2(i16, divide_i16, i16, a, i16, b) { return b ? (i16)(a / b) : -1; }
FUNCTION2(i16, remainder_i16, i16, a, i16, b) { return b ? (i16)(a % b) : a; }
FUNCTION2(u16, minimum_u16, u16, a, u16, b) { return a < b ? a : b; }
FUNCTION2(i16, maximum_i16, i16, a, i16, b) { return a > b ? a : b; }
FUNCTION3(u16, median_u16, u16, a, u16, b, u16, c)
{
    const u16 low = a < b ? a : b, high = a < b ? b : a, m = high < c ? high : c;
    return low > m ? low : m;
}
FUNCTION3(i16, minimum3_i16, i16, a, i16, b, i16, c)
{
    const i16 m = a < b ? a : b;
    return m < c ? m : c;
}
FUNCTION2(u16, shift_left_u16, u16, a, shift5, n) { return (u16)(a << (n & 15)); }
FUNCTION2(u16, shift_right_u16, u16, a, shift5, n) { return a >> (n & 15); }
FUNCTION2(i16, shift_right_i16, i16, a, shift5, n) { return a >> (n & 15); }
FUNCTION2(u32, comparisons_u16, u16, a, u16, b)
{
    return (u32)((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 |
                 (a > b) << 5);
}
FUNCTION2(u32, comparisons_i16, i16, a, i16, b)
{
    return (u32)((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 |
                 (a > b) << 5);
}
FUNCTION2(u16, add_saturating_u16, u16, a, u16, b) { return add_sat_u16(a, b); }
FUNCTION2(u16, sub_saturating_u16, u16, a, u16, b) { return sub_sat_u16(a, b); }
FUNCTION2(i16, add_saturating_i16, i16, a, i16, b) { return add_sat_i16(a, b); }
FUNCTION2(i16, sub_saturating_i16, i16, a, i16, b) { return sub_sat_i16(a, b); }
FUNCTION1(u32, sign_extend_bytes, u32, a)
{
    return (u32)(i8)a + ((u32)(i8)(a >> 8) << 4) + (u32)(i8)(a >> 16) - (u32)(i8)(a >> 24);
}
FUNCTION1(i32, sign_extend_halves, u32, a) { return (i16)a - (i16)(a >> 16); }
FUNCTION2(u16, bitwise_u16, u16, a, u16, b) { return (u16)((a & ~b) | (a ^ (b << 1))); }
FUNCTION3(u16, select_u16, u16, a, u16, b, u32, c) { return c & 8 ? a : b; }
FUNCTION1(u16, swap_bytes_u16, u16, a) { return (u16)(a << 8 | a >> 8); }
FUNCTION1(u16, reverse_u16, u16, a) { return reverse16(a); }
FUNCTION1(u16, count_bits_u16, u16, a)
{
    return (u16)(__builtin_popcount(a) | (a ? __builtin_clz(a) - 16 : 16) << 8);
}
FUNCTION2(u8, add_u8, u8, a, u8, b) { return (u8)(a + b); }
FUNCTION2(u8, sub_u8, u8, a, u8, b) { return (u8)(a - b); }
FUNCTION2(u8, mul_u8, u8, a, u8, b) { return (u8)(a * b); }
FUNCTION2(i8, divide_i8, i8, a, i8, b) { return b ? (i8)(a / b) : -1; }
FUNCTION2(u8, remainder_u8, u8, a, u8, b) { return b ? a % b : a; }
FUNCTION2(i8, maximum_i8, i8, a, i8, b) { return a > b ? a : b; }
FUNCTION2(u8, add_saturating_u8, u8, a, u8, b) { return add_sat_u8(a, b); }
FUNCTION2(i8, add_saturating_i8, i8, a, i8, b) { return add_sat_i8(a, b); }
FUNCTION1(u8, reverse_u8, u8, a) { return reverse8(a); }

/* ---- Packed ---------------------------------------------------------------------------------- */

FUNCTION2(u16x2, add_u16x2, u16x2, a, u16x2, b) { return add_u16x2(a, b); }
FUNCTION2(u16x2, sub_u16x2, u16x2, a, u16x2, b) { return sub_u16x2(a, b); }
FUNCTION2(u16x2, mul_u16x2, u16x2, a, u16x2, b) { return mul_u16x2(a, b); }
FUNCTION3(u16x2, multiply_add_u16x2, u16x2, a, u16x2, b, u16x2, c)
{
    return add_u16x2(mul_u16x2(a, b), c);
}
FUNCTION2(u16x2, minimum_u16x2, u16x2, a, u16x2, b) { return min_u16x2(a, b); }
FUNCTION2(u16x2, maximum_u16x2, u16x2, a, u16x2, b) { return max_u16x2(a, b); }
FUNCTION2(i16x2, minimum_i16x2, i16x2, a, i16x2, b) { return min_i16x2(a, b); }
FUNCTION2(i16x2, maximum_i16x2, i16x2, a, i16x2, b) { return max_i16x2(a, b); }
FUNCTION2(u16x2, shift_left_u16x2, u16x2, a, u16x2, b) { return shl_u16x2(a, b); }
FUNCTION2(u16x2, shift_right_u16x2, u16x2, a, u16x2, b) { return shr_u16x2(a, b); }
FUNCTION2(i16x2, shift_right_i16x2, i16x2, a, i16x2, b) { return sar_i16x2(a, b); }
FUNCTION2(u16x2, add_saturating_u16x2, u16x2, a, u16x2, b) { return add_sat_u16x2(a, b); }
FUNCTION2(u16x2, sub_saturating_u16x2, u16x2, a, u16x2, b) { return sub_sat_u16x2(a, b); }
FUNCTION2(i16x2, add_saturating_i16x2, i16x2, a, i16x2, b) { return add_sat_i16x2(a, b); }
FUNCTION2(i16x2, sub_saturating_i16x2, i16x2, a, i16x2, b) { return sub_sat_i16x2(a, b); }
FUNCTION2(u16x2, crossed_halves_u16x2, u16x2, a, u16x2, b)
{
    const u16x2 x = make_u16x2(a.y, a.x), y = make_u16x2(b.y, b.y);
    return sub_u16x2(add_u16x2(x, b), y);
}
FUNCTION1(u16x2, clamp_u16x2, u16x2, a)
{
    return min_u16x2(max_u16x2(a, make_u16x2(100, 20000)), make_u16x2(1000, 40000));
}
FUNCTION2(u16x2, scaled_by_low_half_u16x2, u16x2, a, u16x2, b)
{
    return mul_u16x2(a, make_u16x2(b.x, b.x));
}
/* Bytes in words, no carry crosses. */
FUNCTION2(u32, add_bytes, u32, a, u32, b)
{
    return ((a & 0x7f7f7f7f) + (b & 0x7f7f7f7f)) ^ ((a ^ b) & 0x80808080);
}
FUNCTION2(u32, average_bytes, u32, a, u32, b) { return (a & b) + (((a ^ b) & 0xfefefefe) >> 1); }

/* ---- Differences, dots ----------------------------------------------------------------------- */

FUNCTION3(u32, lerp_bytes, u32, a, u32, b, u32, c) { return lerp_u8(a, b, c); }
FUNCTION3(u32, sum_of_differences_u8, u32, a, u32, b, u32, c) { return sad_u8(a, b, c); }
FUNCTION3(u32, masked_sum_of_differences_u8, u32, a, u32, b, u32, c) { return msad_u8(a, b, c); }
FUNCTION3(u32, high_sum_of_differences_u8, u32, a, u32, b, u32, c) { return sad_hi_u8(a, b, c); }
FUNCTION3(u32, sum_of_differences_u16, u32, a, u32, b, u32, c) { return sad_u16(a, b, c); }
FUNCTION3(u32, sum_of_differences_u32, u32, a, u32, b, u32, c)
{
    return (a > b ? a - b : b - a) + c;
}
/* Sums that fit: whether more would wrap or saturate, the manuals do not say. */
FUNCTION3(u64, quad_sums_of_differences, u64, a, u32, b, u64, c)
{
    return qsad_pk_u16_u8(a, b, c & 0x7fff7fff7fff7fffu);
}
FUNCTION3(u64, masked_quad_sums_of_differences, u64, a, u32, b, u64, c)
{
    return mqsad_pk_u16_u8(a, b, c & 0x7fff7fff7fff7fffu);
}
FUNCTION4(u32x4, masked_sums_of_differences, u64, a, u32, b, u64, c, u64, d)
{
    return mqsad_u32_u8(a, b, c, d);
}
FUNCTION3(u32, dot4_unsigned, u32, a, u32, b, u32, c) { return udot4(a, b, c, false); }
FUNCTION3(u32, dot4_unsigned_clamped, u32, a, u32, b, u32, c) { return udot4(a, b, c, true); }
FUNCTION3(u32, dot8_unsigned, u32, a, u32, b, u32, c) { return udot8(a, b, c, false); }
FUNCTION3(u32, dot8_unsigned_clamped, u32, a, u32, b, u32, c) { return udot8(a, b, c, true); }

#undef NEEDS
#define NEEDS SUDOT
#if HAS(SUDOT)
FUNCTION3(i32, dot4_signed_signed, i32, a, i32, b, i32, c)
{
    return sudot4(true, a, true, b, c, false);
}
FUNCTION3(i32, dot4_unsigned_signed, i32, a, i32, b, i32, c)
{
    return sudot4(false, a, true, b, c, false);
}
FUNCTION3(i32, dot4_signed_unsigned_clamped, i32, a, i32, b, i32, c)
{
    return sudot4(true, a, false, b, c, true);
}
FUNCTION3(i32, dot8_signed_signed, i32, a, i32, b, i32, c)
{
    return sudot8(true, a, true, b, c, false);
}
FUNCTION3(i32, dot8_unsigned_signed_clamped, i32, a, i32, b, i32, c)
{
    return sudot8(false, a, true, b, c, true);
}
#endif
#undef NEEDS
#define NEEDS SDOT
#if HAS(SDOT)
FUNCTION3(i32, dot4_signed, i32, a, i32, b, i32, c) { return sdot4(a, b, c, false); }
FUNCTION3(i32, dot8_signed, i32, a, i32, b, i32, c) { return sdot8(a, b, c, false); }
FUNCTION3(i32, dot8_signed_clamped, i32, a, i32, b, i32, c) { return sdot8(a, b, c, true); }
FUNCTION3(i32, dot2_signed, i16x2, a, i16x2, b, i32, c) { return sdot2(a, b, c, false); }
FUNCTION3(i32, dot2_signed_clamped, i16x2, a, i16x2, b, i32, c) { return sdot2(a, b, c, true); }
FUNCTION3(u32, dot2_unsigned, u16x2, a, u16x2, b, u32, c) { return udot2(a, b, c, false); }
#endif
#undef NEEDS
#define NEEDS 0
