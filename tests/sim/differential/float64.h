/* SPDX-License-Identifier: MIT */
/* f64, as float32.h. */

FUNCTION2(f64, add_f64, f64, a, f64, b) { return a + b; }
FUNCTION2(f64, sub_f64, f64, a, f64, b) { return a - b; }
FUNCTION2(f64, mul_f64, f64, a, f64, b) { return a * b; }
FUNCTION2(f64, divide_f64, f64, a, f64, b) { return a / b; }
FUNCTION1(f64, reciprocal_f64, f64, a) { return 1.0 / a; }
FUNCTION1(f64, square_root_f64, f64, a) { return __builtin_sqrt(a); }
FUNCTION3(f64, fused_multiply_add_f64, f64, a, f64, b, f64, c) { return __builtin_fma(a, b, c); }
FUNCTION3(f64, fused_with_negations_f64, f64, a, f64, b, f64, c)
{
    return __builtin_fma(-a, b, -__builtin_fabs(c));
}
FUNCTION2(f64, fused_constants_f64, f64, a, f64, b)
{
    return __builtin_fma(a, 4.0, b) + __builtin_fma(a, b, 0.1);
}
FUNCTION3(f64, separate_multiply_add_f64, f64, a, f64, b, f64, c) { return a * b + c; }
FUNCTION2(f64x2, error_of_sum_f64, f64, a, f64, b)
{
    const f64 s = a + b, t = s - a;
    f64x2 r = {s, (a - (s - t)) + (b - t)};
    return r;
}
FUNCTION2(f64, minimum_f64, f64, a, f64, b) { return min_f64(a, b); }
FUNCTION2(f64, maximum_f64, f64, a, f64, b) { return max_f64(a, b); }
FUNCTION2(f64, lesser_by_comparison_f64, f64, a, f64, b) { return a < b ? a : b; }
FUNCTION1(f64, floor_f64, f64, a) { return __builtin_floor(a); }
FUNCTION1(f64, ceil_f64, f64, a) { return __builtin_ceil(a); }
FUNCTION1(f64, trunc_f64, f64, a) { return __builtin_trunc(a); }
FUNCTION1(f64, rint_f64, f64, a) { return __builtin_rint(a); }
FUNCTION1(f64, round_f64, f64, a) { return __builtin_round(a); }
FUNCTION1(f64, fract_f64, f64, a) { return fract_f64(a); }
FUNCTION2(f64, ldexp_f64, f64, a, exponent, n) { return __builtin_ldexp(a, n); }
FUNCTION1(f64, frexp_mantissa_f64, f64, a) { return frexp_mant_f64(a); }
FUNCTION1(i32, frexp_exponent_f64, f64, a) { return frexp_exp_f64(a); }
FUNCTION2(f64, copy_sign_f64, f64, a, f64, b) { return __builtin_copysign(a, b); }
FUNCTION1(u64, negate_f64, f64, a) { return bits_of_f64(-a) ^ bits_of_f64(a); }
FUNCTION2(u32, comparisons_f64, f64, a, f64, b)
{
    return (u32)((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 |
                 (a > b) << 5);
}
FUNCTION2(u32, negated_comparisons_f64, f64, a, f64, b)
{
    return (u32)((!(a < b)) | (!(a <= b)) << 1 | (!(a >= b)) << 2 | (!(a > b)) << 3 |
                 __builtin_isunordered(a, b) << 4 | __builtin_islessgreater(a, b) << 5);
}
FUNCTION2(u32, class_by_builtin_f64, f64, a, u32, m) { return class_f64(a, m & 0x3ff); }
FUNCTION3(f64, select_f64, f64, a, f64, b, f64, c) { return a > 0 ? b : c; }
FUNCTION2(f64, scale_by_constants_f64, f64, a, f64, b) { return a * 0.5 + b * 2.0 - a * 0.1; }
FUNCTION4(f64, polynomial_f64, f64, x, f64, a, f64, b, f64, c)
{
    return __builtin_fma(__builtin_fma(a, x, b), x, c);
}
FUNCTION2(f64, distance_f64, plain, a, plain, b)
{
    const f64 x = a, y = b;
    return __builtin_sqrt(x * x + y * y) / (1.0 + x * x);
}
FUNCTION2(f64, product_near_underflow_f64, u64, a, u64, b)
{
    return f64_of_bits((a & 0x800fffffffffffff) | 0x2000000000000000) *
           f64_of_bits((b & 0x801fffffffffffff) | 0x1fe0000000000000);
}
FUNCTION1(f64, newton_root_f64, plain, a)
{
    const f64 x = a * (f64)a + 1;
    f64 y = x;
    for (int i = 0; i < 4; i++)
        y = 0.5 * (y + x / y);
    return y;
}
