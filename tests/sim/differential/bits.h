/* SPDX-License-Identifier: MIT */
/* Bits: logic, shifts, rotations, fields, counts, byte permutations, codes. */

FUNCTION2(u32, and_u32, u32, a, u32, b) { return a & b; }
FUNCTION2(u32, or_u32, u32, a, u32, b) { return a | b; }
FUNCTION2(u32, xor_u32, u32, a, u32, b) { return a ^ b; }
FUNCTION2(u32, xnor_u32, u32, a, u32, b) { return ~(a ^ b); }
FUNCTION2(u32, and_not_u32, u32, a, u32, b) { return a & ~b; }
FUNCTION2(u32, or_not_u32, u32, a, u32, b) { return a | ~b; }
FUNCTION2(u32, nand_nor_u32, u32, a, u32, b) { return ~(a & b) - ~(a | b); }
FUNCTION1(u32, not_u32, u32, a) { return ~a; }
FUNCTION3(u32, and_or_u32, u32, a, u32, b, u32, c) { return (a & b) | c; }
FUNCTION3(u32, or3_u32, u32, a, u32, b, u32, c) { return a | b | c; }
FUNCTION3(u32, xor3_u32, u32, a, u32, b, u32, c) { return a ^ b ^ c; }
FUNCTION3(u32, choose_bits, u32, a, u32, b, u32, c) { return (a & b) | (~a & c); }
FUNCTION3(u32, majority_bits, u32, a, u32, b, u32, c) { return (a & b) | (b & c) | (a & c); }
FUNCTION2(u32, shift_left_u32, u32, a, shift5, n) { return a << n; }
FUNCTION2(u32, shift_right_u32, u32, a, shift5, n) { return a >> n; }
FUNCTION2(i32, shift_right_i32, i32, a, shift5, n) { return a >> n; }
FUNCTION2(u32, shift_by_masked_count, u32, a, u32, n) { return a << (n & 31) ^ a >> (~n & 31); }
FUNCTION1(u32, shift_by_constants, u32, a) { return a << 5 ^ a >> 7 ^ a << 31 ^ a >> 16; }
FUNCTION2(u32, shift_constant_left, u32, a, shift5, n) { return 1u << n ^ 0x12345678u >> n ^ a; }
FUNCTION3(u32, shift_add_u32, u32, a, shift5, n, u32, b) { return (a << n) + b; }
FUNCTION3(u32, add_shift_u32, u32, a, u32, b, shift5, n) { return (a + b) << n; }
FUNCTION3(u32, shift_or_u32, u32, a, shift5, n, u32, b) { return a << n | b; }
FUNCTION2(u32, shift_add_by_constants, u32, a, u32, b)
{
    return ((a << 1) + b) ^ ((a << 2) + b) ^ ((a << 3) + b) ^ ((b << 4) + a);
}
FUNCTION2(u32, rotate_left_u32, u32, a, shift5, n) { return a << n | a >> (-n & 31); }
FUNCTION2(u32, rotate_right_u32, u32, a, shift5, n) { return a >> n | a << (-n & 31); }
FUNCTION1(u32, rotate_by_constants, u32, a)
{
    return (a << 7 | a >> 25) ^ (a << 16 | a >> 16) ^ (a >> 2 | a << 30);
}
FUNCTION3(u32, align_bits, u32, a, u32, b, u32, c) { return alignbit(a, b, c); }
FUNCTION3(u32, align_bytes, u32, a, u32, b, u32, c) { return alignbyte(a, b, c); }
FUNCTION2(u32, funnel_shift_by_constants, u32, a, u32, b)
{
    return (u32)(((u64)a << 32 | b) >> 9) ^ (u32)(((u64)b << 32 | a) >> 24);
}
FUNCTION3(u32, extract_field_u32, u32, a, shift5, offset, shift5, width)
{
    return a >> offset & ((1u << width) - 1);
}
FUNCTION3(u32, extract_field_by_builtin_u32, u32, a, shift5, offset, shift5, width)
{
    return ubfe(a, offset, width);
}
FUNCTION3(i32, extract_field_by_builtin_i32, i32, a, shift5, offset, shift5, width)
{
    return sbfe(a, offset, width);
}
FUNCTION1(u32, extract_constant_fields_u32, u32, a)
{
    return (a >> 3 & 31) + (a >> 12 & 0xfff) + (a >> 24) + (a >> 16 & 0xff);
}
FUNCTION1(i32, extract_constant_fields_i32, i32, a)
{
    return ((i32)((u32)a << 20) >> 28) + ((i32)((u32)a << 3) >> 27) + (a >> 29);
}
FUNCTION4(u32, insert_field, u32, a, u32, b, shift5, offset, shift5, width)
{
    const u32 ones = ((1u << width) - 1) << offset;
    return (a & ~ones) | (b << offset & ones);
}
FUNCTION2(u32, insert_constant_field, u32, a, u32, b)
{
    return (a & ~0x00fff000u) | (b << 12 & 0x00fff000u);
}
FUNCTION2(u32, make_mask, shift5, width, shift5, offset) { return ((1u << width) - 1) << offset; }
FUNCTION2(u32, set_clear_flip_test_bit, u32, a, shift5, n)
{
    return (a | 1u << n) + (a & ~(1u << n)) * 3 + (a ^ 1u << n) * 5 + (a >> n & 1);
}
FUNCTION1(u32, population_count_u32, u32, a) { return (u32)__builtin_popcount(a); }
FUNCTION2(u32, population_count_accumulated, u32, a, u32, b)
{
    return (u32)__builtin_popcount(a) + b;
}
FUNCTION1(u32, leading_zeros_u32, u32, a) { return a ? (u32)__builtin_clz(a) : 32; }
FUNCTION1(u32, trailing_zeros_u32, u32, a) { return a ? (u32)__builtin_ctz(a) : 32; }
FUNCTION1(u32, first_bit_or_minus_one, u32, a) { return a ? (u32)__builtin_ctz(a) : ~0u; }
FUNCTION1(i32, sign_bits_by_builtin, i32, a) { return sffbh(a); }
FUNCTION1(i32, redundant_sign_bits, i32, a)
{
    const u32 x = (u32)(a ^ a >> 31);
    return x ? __builtin_clz(x) - 1 : 31;
}
FUNCTION1(u32, parity_u32, u32, a) { return (u32)__builtin_popcount(a) & 1; }
FUNCTION1(u32, reverse_u32, u32, a) { return reverse32(a); }
FUNCTION1(u32, swap_bytes_u32, u32, a) { return __builtin_bswap32(a); }
FUNCTION1(u32, isolate_and_clear_lowest_bit, u32, a) { return (a & -a) ^ (a & (a - 1)) << 1; }
FUNCTION1(u32, next_power_of_two, u32, a)
{
    return a <= 1 ? 1 : a > 0x80000000u ? 0 : 1u << (32 - __builtin_clz(a - 1));
}
FUNCTION3(u32, permute_bytes, u32, a, u32, b, u32, s) { return perm(a, b, s & 0x07070707); }
FUNCTION3(u32, permute_bytes_any_selector, u32, a, u32, b, u32, s) { return perm(a, b, s); }
FUNCTION3(u32, permute_bytes_low_selectors, u32, a, u32, b, u32, s)
{
    return perm(a, b, s & 0x0f0f0f0f);
}
FUNCTION2(u32, permute_bytes_constant_selector, u32, a, u32, b)
{
    return perm(a, b, 0x07020500) ^ perm(b, a, 0x0c0c0104) ^ perm(a, b, 0x0d0a0b09);
}
FUNCTION2(u32, interleave_bytes, u32, a, u32, b)
{
    return (a & 0xff) | (b & 0xff) << 8 | (a & 0xff00) << 8 | (b & 0xff00) << 16;
}
FUNCTION2(u32, pack_halves, u32, a, u32, b) { return (a & 0xffff) | b << 16; }
FUNCTION2(u32, pack_high_halves, u32, a, u32, b) { return a >> 16 | (b & 0xffff0000u); }
FUNCTION2(u32, pack_mixed_halves, u32, a, u32, b)
{
    return (a >> 16 | b << 16) + (a << 16 | b >> 16);
}
FUNCTION1(u32, spread_nibbles, u32, a)
{
    return (a & 15) | (a & 0xf0) << 4 | (a & 0xf00) << 8 | (a & 0xf000) << 12;
}
FUNCTION1(u32, interleave_bits, u32, a)
{
    u32 x = a & 0xffff, y = a >> 16;
    x = (x | x << 8) & 0x00ff00ff, y = (y | y << 8) & 0x00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f, y = (y | y << 4) & 0x0f0f0f0f;
    x = (x | x << 2) & 0x33333333, y = (y | y << 2) & 0x33333333;
    x = (x | x << 1) & 0x55555555, y = (y | y << 1) & 0x55555555;
    return x | y << 1;
}
FUNCTION1(u32, gray_code_and_back, u32, a)
{
    u32 g = a ^ a >> 1;
    g ^= g >> 16;
    g ^= g >> 8;
    g ^= g >> 4;
    g ^= g >> 2;
    g ^= g >> 1;
    return g ^ (a ^ a >> 1) << 1;
}
FUNCTION1(u32, zero_byte_mask, u32, a)
{
    return ~(((a & 0x7f7f7f7f) + 0x7f7f7f7f) | a | 0x7f7f7f7f);
}
FUNCTION1(u32, next_same_popcount, nonzero, a)
{
    const u32 low = a & -a, ripple = a + low;
    return ripple ? ripple | ((a ^ ripple) >> 2) / low : 0;
}
FUNCTION1(u32, xorshift, u32, a)
{
    a ^= a << 13;
    a ^= a >> 17;
    return a ^ a << 5;
}
FUNCTION1(u32, mix_u32, u32, a)
{
    a ^= a >> 16;
    a *= 0x85ebca6b;
    a ^= a >> 13;
    a *= 0xc2b2ae35;
    return a ^ a >> 16;
}
FUNCTION4(u32x4, quarter_round, u32, a, u32, b, u32, c, u32, d)
{
    a += b, d ^= a, d = d << 16 | d >> 16;
    c += d, b ^= c, b = b << 12 | b >> 20;
    a += b, d ^= a, d = d << 8 | d >> 24;
    c += d, b ^= c, b = b << 7 | b >> 25;
    u32x4 r = {a, b, c, d};
    return r;
}
FUNCTION1(u64, interleave_with_itself, u32, a)
{
    u64 x = a;
    x = (x | x << 16) & 0x0000ffff0000ffffull;
    x = (x | x << 8) & 0x00ff00ff00ff00ffull;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
    x = (x | x << 2) & 0x3333333333333333ull;
    x = (x | x << 1) & 0x5555555555555555ull;
    return x | x << 1;
}
FUNCTION2(u32, carryless_multiply, u32, a, u32, b)
{
    u32 r = 0;
    for (u32 i = 0; i < 32; i++)
        r ^= b >> i & 1 ? a << i : 0;
    return r;
}
FUNCTION1(u32, hamming_code, u32, a)
{
    const u32 d = a & 0x7ff;
    const u32 p1 = (u32)__builtin_popcount(d & 0x55b) & 1;
    const u32 p2 = (u32)__builtin_popcount(d & 0x66d) & 1;
    const u32 p4 = (u32)__builtin_popcount(d & 0x78e) & 1;
    const u32 p8 = (u32)__builtin_popcount(d & 0x7f0) & 1;
    return d << 4 | p8 << 3 | p4 << 2 | p2 << 1 | p1;
}
