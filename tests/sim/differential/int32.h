/* SPDX-License-Identifier: MIT */
/* 32-bit integers: arithmetic, division, comparison, selection. */

FUNCTION2(u32, add_u32, u32, a, u32, b) { return a + b; }
FUNCTION2(u32, sub_u32, u32, a, u32, b) { return a - b; }
FUNCTION2(u32, mul_u32, u32, a, u32, b) { return a * b; }
FUNCTION1(u32, negate_u32, u32, a) { return -a; }
FUNCTION3(u32, add3_u32, u32, a, u32, b, u32, c) { return a + b + c; }
FUNCTION3(u32, multiply_add_u32, u32, a, u32, b, u32, c) { return a * b + c; }
FUNCTION3(u32, xor_add_u32, u32, a, u32, b, u32, c) { return (a ^ b) + c; }
FUNCTION2(u32, mul_hi_u32, u32, a, u32, b) { return (u32)((u64)a * b >> 32); }
FUNCTION2(i32, mul_hi_i32, i32, a, i32, b) { return (i32)((i64)a * b >> 32); }
FUNCTION2(u64, mul_wide_u32, u32, a, u32, b) { return (u64)a * b; }
FUNCTION2(i64, mul_wide_i32, i32, a, i32, b) { return (i64)a * b; }
FUNCTION3(u64, multiply_add_wide_u32, u32, a, u32, b, u64, c) { return (u64)a * b + c; }
FUNCTION3(u64, multiply_add_wide_i32, i32, a, i32, b, u64, c) { return (u64)((i64)a * b) + c; }
FUNCTION2(u32, mul_u24, u32, a, u32, b) { return (a & 0xffffff) * (b & 0xffffff); }
FUNCTION2(u32, mul_i24, u32, a, u32, b)
{
    return (u32)((i32)(a << 8) >> 8) * (u32)((i32)(b << 8) >> 8);
}
FUNCTION2(u32, mul_hi_u24, u32, a, u32, b)
{
    return (u32)((u64)(a & 0xffffff) * (b & 0xffffff) >> 32);
}
FUNCTION2(i32, mul_hi_i24, u32, a, u32, b)
{
    const i64 x = (i32)(a << 8) >> 8, y = (i32)(b << 8) >> 8;
    return (i32)(x * y >> 32);
}
FUNCTION3(u32, multiply_add_u24, u32, a, u32, b, u32, c)
{
    return (a & 0xffffff) * (b & 0xffffff) + c;
}
FUNCTION3(u32, multiply_add_i24, u32, a, u32, b, u32, c)
{
    return (u32)((i32)(a << 8) >> 8) * (u32)((i32)(b << 8) >> 8) + c;
}
FUNCTION3(u32, multiply_add_u16, u32, a, u32, b, u32, c)
{
    return (a & 0xffff) * (b & 0xffff) + c;
}
FUNCTION3(u32, multiply_add_i16, i32, a, i32, b, u32, c)
{
    return (u32)((i32)(i16)a * (i16)b) + c;
}

FUNCTION2(u32, divide_u32, u32, a, u32, b) { return b ? a / b : ~0u; }
FUNCTION2(u32, remainder_u32, u32, a, u32, b) { return b ? a % b : a; }
FUNCTION2(i32, divide_i32, i32, a, i32, b)
{
    return b == 0 ? -1 : b == -1 ? (i32)-(u32)a : a / b;
}
FUNCTION2(i32, remainder_i32, i32, a, i32, b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
FUNCTION2(u32x2, divide_and_remainder_u32, u32, a, nonzero, b)
{
    u32x2 r = {a / b, a % b};
    return r;
}
FUNCTION1(u32, divide_u32_by_3, u32, a) { return a / 3; }
FUNCTION1(u32, divide_u32_by_7, u32, a) { return a / 7; }
FUNCTION1(u32, divide_u32_by_10, u32, a) { return a / 10; }
FUNCTION1(u32, divide_u32_by_641, u32, a) { return a / 641; }
FUNCTION1(u32, divide_u32_by_large, u32, a) { return a / 0xfffffffbu; }
FUNCTION1(u32, remainder_u32_by_1000, u32, a) { return a % 1000; }
FUNCTION1(i32, divide_i32_by_3, i32, a) { return a / 3; }
FUNCTION1(i32, divide_i32_by_minus_7, i32, a) { return a / -7; }
FUNCTION1(i32, divide_i32_by_16, i32, a) { return a / 16; }
FUNCTION1(i32, remainder_i32_by_8, i32, a) { return a % 8; }
FUNCTION1(i32, remainder_i32_by_10, i32, a) { return a % 10; }
FUNCTION2(i32, divide_floor_i32, i32, a, nonzero, b)
{
    const i32 d = (i32)(b >> 2) + 1, q = a / d;
    return q - (a % d < 0);
}
FUNCTION2(u32, average_u32, u32, a, u32, b) { return (a & b) + ((a ^ b) >> 1); }
FUNCTION2(u32, average_up_u32, u32, a, u32, b) { return (a | b) - ((a ^ b) >> 1); }

FUNCTION2(u32, minimum_u32, u32, a, u32, b) { return a < b ? a : b; }
FUNCTION2(u32, maximum_u32, u32, a, u32, b) { return a > b ? a : b; }
FUNCTION2(i32, minimum_i32, i32, a, i32, b) { return a < b ? a : b; }
FUNCTION2(i32, maximum_i32, i32, a, i32, b) { return a > b ? a : b; }
FUNCTION3(u32, minimum3_u32, u32, a, u32, b, u32, c)
{
    const u32 m = a < b ? a : b;
    return m < c ? m : c;
}
FUNCTION3(i32, maximum3_i32, i32, a, i32, b, i32, c)
{
    const i32 m = a > b ? a : b;
    return m > c ? m : c;
}
FUNCTION3(u32, median_u32, u32, a, u32, b, u32, c)
{
    const u32 low = a < b ? a : b, high = a < b ? b : a, m = high < c ? high : c;
    return low > m ? low : m;
}
FUNCTION3(i32, median_i32, i32, a, i32, b, i32, c)
{
    const i32 low = a < b ? a : b, high = a < b ? b : a, m = high < c ? high : c;
    return low > m ? low : m;
}
FUNCTION1(i32, clamp_i32_to_byte, i32, a) { return a < -128 ? -128 : a > 127 ? 127 : a; }
FUNCTION3(u32, minimum_of_maximum_u32, u32, a, u32, b, u32, c)
{
    const u32 m = a > b ? a : b;
    return m < c ? m : c;
}
FUNCTION3(i32, maximum_of_minimum_i32, i32, a, i32, b, i32, c)
{
    const i32 m = a < b ? a : b;
    return m > c ? m : c;
}
FUNCTION1(u32, absolute_i32, i32, a) { return a < 0 ? -(u32)a : (u32)a; }
FUNCTION2(u32, absolute_difference_u32, u32, a, u32, b) { return a > b ? a - b : b - a; }
FUNCTION2(u32, absolute_difference_i32, i32, a, i32, b)
{
    return a > b ? (u32)a - (u32)b : (u32)b - (u32)a;
}
FUNCTION1(i32, sign_i32, i32, a) { return (a > 0) - (a < 0); }
FUNCTION2(u32, comparisons_u32, u32, a, u32, b)
{
    return (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 | (a > b) << 5;
}
FUNCTION2(u32, comparisons_i32, i32, a, i32, b)
{
    return (u32)((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 |
                 (a > b) << 5);
}
FUNCTION1(u32, comparisons_with_constants, i32, a)
{
    return (u32)((a < 5) | (a <= -70000) << 1 | ((u32)a == 64) << 2 | (a != -16) << 3 |
                 ((u32)a >= 0x8000) << 4 | (a > 0x7fff) << 5);
}
FUNCTION4(u32, select_u32, u32, a, u32, b, u32, c, u32, d) { return a < b ? c : d; }
FUNCTION4(u32, select_by_and, u32, a, u32, b, u32, c, u32, d)
{
    return a < b && (c & 1) ? c + d : c - d;
}
FUNCTION4(u32, select_by_or, u32, a, u32, b, u32, c, u32, d)
{
    return a == b || c < d || (i32)d < 0 ? a ^ c : b ^ d;
}
FUNCTION2(u32, add_saturating_u32, u32, a, u32, b) { return add_sat_u32(a, b); }
FUNCTION2(u32, sub_saturating_u32, u32, a, u32, b) { return sub_sat_u32(a, b); }
FUNCTION2(i32, add_saturating_i32, i32, a, i32, b) { return add_sat_i32(a, b); }
FUNCTION2(i32, sub_saturating_i32, i32, a, i32, b) { return sub_sat_i32(a, b); }
FUNCTION2(u32, add_overflows_u32, u32, a, u32, b) { return a + b < a; }
FUNCTION2(u32, add_overflows_i32, i32, a, i32, b)
{
    i32 sum;
    return __builtin_add_overflow(a, b, &sum) ? 0x80000000u : (u32)sum;
}
FUNCTION2(u32, mul_overflows_i32, i32, a, i32, b)
{
    i32 product;
    return __builtin_mul_overflow(a, b, &product) ? 0x80000001u : (u32)product;
}
FUNCTION2(u32, mul_overflows_u32, u32, a, u32, b)
{
    u32 product;
    return __builtin_mul_overflow(a, b, &product) ? 1 : product;
}
FUNCTION2(u32, power_u32, u32, a, small, n)
{
    u32 r = 1;
    for (; n; n >>= 1, a *= a)
        if (n & 1)
            r *= a;
    return r;
}
FUNCTION4(u32, polynomial_u32, u32, x, u32, a, u32, b, u32, c) { return (a * x + b) * x + c; }
FUNCTION4(u32x4, prefix_sums_u32, u32, a, u32, b, u32, c, u32, d)
{
    u32x4 r = {a, a + b, a + b + c, a + b + c + d};
    return r;
}
FUNCTION4(u32x4, sort4_u32, u32, a, u32, b, u32, c, u32, d)
{
#define ORDER(p, q)                                                                                \
    {                                                                                              \
        const u32 low = p < q ? p : q;                                                             \
        q = p < q ? q : p;                                                                         \
        p = low;                                                                                   \
    }
    ORDER(a, b) ORDER(c, d) ORDER(a, c) ORDER(b, d) ORDER(b, c)
#undef ORDER
    u32x4 r = {a, b, c, d};
    return r;
}
FUNCTION2(u32, multiply_by_constants, u32, a, u32, b)
{
    return a * 5 + b * 9 - a * 0x10001 + b * 0xfffffff0u;
}
