/* SPDX-License-Identifier: MIT */
/* 64-bit and 128-bit integers: carry chains, products, division, shifts. */

FUNCTION2(u64, add_u64, u64, a, u64, b) { return a + b; }
FUNCTION2(u64, sub_u64, u64, a, u64, b) { return a - b; }
FUNCTION2(u64, mul_u64, u64, a, u64, b) { return a * b; }
FUNCTION1(u64, negate_u64, u64, a) { return -a; }
FUNCTION1(u64, square_u64, u64, a) { return a * a; }
FUNCTION3(u64, multiply_add_u64, u64, a, u64, b, u64, c) { return a * b + c; }
FUNCTION2(u64, mul_hi_u64, u64, a, u64, b) { return (u64)((u128)a * b >> 64); }
FUNCTION2(i64, mul_hi_i64, i64, a, i64, b) { return (i64)((__int128)a * b >> 64); }
FUNCTION2(u64x2, mul_wide_u64, u64, a, u64, b)
{
    const u128 p = (u128)a * b;
    u64x2 r = {(u64)p, (u64)(p >> 64)};
    return r;
}
FUNCTION4(u64x2, add_u128, u64, a, u64, b, u64, c, u64, d)
{
    const u128 s = ((u128)b << 64 | a) + ((u128)d << 64 | c);
    u64x2 r = {(u64)s, (u64)(s >> 64)};
    return r;
}
FUNCTION4(u64x2, sub_u128, u64, a, u64, b, u64, c, u64, d)
{
    const u128 s = ((u128)b << 64 | a) - ((u128)d << 64 | c);
    u64x2 r = {(u64)s, (u64)(s >> 64)};
    return r;
}
FUNCTION4(u64x2, mul_u128, u64, a, u64, b, u64, c, u64, d)
{
    const u128 s = ((u128)b << 64 | a) * ((u128)d << 64 | c);
    u64x2 r = {(u64)s, (u64)(s >> 64)};
    return r;
}
FUNCTION3(u64x2, shift_left_u128, u64, a, u64, b, shift6, n)
{
    const u128 s = ((u128)b << 64 | a) << (2 * n + 1);
    u64x2 r = {(u64)s, (u64)(s >> 64)};
    return r;
}
FUNCTION3(u64x2, shift_right_i128, u64, a, u64, b, shift6, n)
{
    const __int128 s = (__int128)((u128)b << 64 | a) >> (2 * n);
    u64x2 r = {(u64)s, (u64)(s >> 64)};
    return r;
}
FUNCTION4(u32, comparisons_u128, u64, a, u64, b, u64, c, u64, d)
{
    const u128 x = (u128)b << 64 | a, y = (u128)d << 64 | c;
    return (x < y) | (x == y) << 1 | ((__int128)x < (__int128)y) << 2;
}
FUNCTION3(u64, add_carry_out_u64, u64, a, u64, b, u64, c)
{
    const u64 s = a + b, t = s + c;
    return t + (s < a) + (t < s);
}
FUNCTION2(u64, carry_chain_of_words, u64, a, u64, b)
{
    const u64 low = (a & 0xffffffff) + (b & 0xffffffff);
    const u64 high = (a >> 32) + (b >> 32) + (low >> 32);
    return (low & 0xffffffff) | high << 32;
}
FUNCTION2(u64, divide_u64, u64, a, u64, b) { return b ? a / b : ~(u64)0; }
FUNCTION2(u64, remainder_u64, u64, a, u64, b) { return b ? a % b : a; }
FUNCTION2(i64, divide_i64, i64, a, i64, b)
{
    return b == 0 ? -1 : b == -1 ? (i64)-(u64)a : a / b;
}
FUNCTION2(i64, remainder_i64, i64, a, i64, b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
FUNCTION2(u64, divide_u64_by_u32, u64, a, nonzero, b) { return a / b; }
FUNCTION1(u64, divide_u64_by_10, u64, a) { return a / 10; }
FUNCTION1(u64, remainder_u64_by_1000000007, u64, a) { return a % 1000000007; }
FUNCTION1(i64, divide_i64_by_minus_3, i64, a) { return a / -3; }
FUNCTION1(i64, divide_i64_by_1024, i64, a) { return a / 1024; }
FUNCTION2(u64, shift_left_u64, u64, a, shift6, n) { return a << n; }
FUNCTION2(u64, shift_right_u64, u64, a, shift6, n) { return a >> n; }
FUNCTION2(i64, shift_right_i64, i64, a, shift6, n) { return a >> n; }
FUNCTION1(u64, shift_left_u64_by_constants, u64, a) { return a << 3 ^ a << 32 ^ a << 45; }
FUNCTION1(i64, shift_right_i64_by_constants, i64, a) { return a >> 1 ^ a >> 32 ^ a >> 63; }
FUNCTION2(u64, rotate_left_u64, u64, a, shift6, n) { return a << n | a >> (-n & 63); }
FUNCTION1(u64, rotate_u64_by_constants, u64, a)
{
    return (a << 13 | a >> 51) ^ (a << 32 | a >> 32) ^ (a << 47 | a >> 17);
}
FUNCTION2(u64, minimum_u64, u64, a, u64, b) { return a < b ? a : b; }
FUNCTION2(i64, maximum_i64, i64, a, i64, b) { return a > b ? a : b; }
FUNCTION1(u64, absolute_i64, i64, a) { return a < 0 ? -(u64)a : (u64)a; }
FUNCTION2(u32, comparisons_u64, u64, a, u64, b)
{
    return (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 | (a > b) << 5;
}
FUNCTION2(u32, comparisons_i64, i64, a, i64, b)
{
    return (u32)((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 |
                 (a > b) << 5);
}
FUNCTION3(u64, bitwise_u64, u64, a, u64, b, u64, c)
{
    return (a & b) ^ (~b & c) ^ (a | c) ^ ~(a ^ c);
}
FUNCTION3(u64, select_u64, u64, a, u64, b, u32, c) { return c & 1 ? a : b; }
FUNCTION1(u32, population_count_u64, u64, a) { return (u32)__builtin_popcountll(a); }
FUNCTION1(u32, leading_zeros_u64, u64, a) { return a ? (u32)__builtin_clzll(a) : 64; }
FUNCTION1(u32, trailing_zeros_u64, u64, a) { return a ? (u32)__builtin_ctzll(a) : 64; }
FUNCTION1(u64, reverse_u64, u64, a) { return reverse64(a); }
FUNCTION1(u64, swap_bytes_u64, u64, a) { return __builtin_bswap64(a); }
FUNCTION3(u64, extract_u64, u64, a, shift6, n, shift5, width)
{
    return a >> n & (((u64)1 << width) - 1);
}
FUNCTION2(u64, add_saturating_u64, u64, a, u64, b) { return add_sat_u64(a, b); }
FUNCTION2(i64, sub_saturating_i64, i64, a, i64, b) { return sub_sat_i64(a, b); }
FUNCTION2(u64, mul_overflows_u64, u64, a, u64, b)
{
    u64 product;
    return __builtin_mul_overflow(a, b, &product) ? ~(u64)0 : product;
}
FUNCTION2(u64, lowest_and_highest_bit, u64, a, u64, b)
{
    const u64 low = a & -a;
    u64 high = b;
    high |= high >> 1;
    high |= high >> 2;
    high |= high >> 4;
    high |= high >> 8;
    high |= high >> 16;
    high |= high >> 32;
    return low ^ (high - (high >> 1));
}
FUNCTION1(u64, mix_u64, u64, a)
{
    a ^= a >> 33;
    a *= 0xff51afd7ed558ccdull;
    a ^= a >> 33;
    a *= 0xc4ceb9fe1a85ec53ull;
    return a ^ a >> 33;
}
FUNCTION2(u64, multiply_modulo_2_61, u64, a, u64, b)
{
    const u64 m = ((u64)1 << 61) - 1;
    const u128 p = (u128)(a & m) * (b & m);
    u64 r = ((u64)p & m) + (u64)(p >> 61);
    r = (r & m) + (r >> 61);
    return r >= m ? r - m : r;
}
FUNCTION2(u64, interleave_words, u32, a, u32, b)
{
    return ((u64)a << 32 | b) + ((u64)b << 32 | a);
}
