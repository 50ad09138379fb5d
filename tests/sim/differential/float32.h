/* SPDX-License-Identifier: MIT */
/*
 * f32: correctly rounded operations, so that both sides must agree bit by bit; any NaN is as good
 * as another in a result of type f32. Signs of zeros count.
 */

FUNCTION2(f32, add_f32, f32, a, f32, b) { return a + b; }
FUNCTION2(f32, sub_f32, f32, a, f32, b) { return a - b; }
FUNCTION2(f32, mul_f32, f32, a, f32, b) { return a * b; }
FUNCTION2(f32, divide_f32, f32, a, f32, b) { return a / b; }
FUNCTION2(f32, divide_plain_f32, plain, a, plain, b) { return a / b; }
FUNCTION1(f32, reciprocal_f32, f32, a) { return 1.0f / a; }
FUNCTION1(f32, divide_f32_by_3, f32, a) { return a / 3.0f; }
FUNCTION1(f32, square_root_f32, f32, a) { return __builtin_sqrtf(a); }
FUNCTION1(f32, square_root_plain_f32, plain, a) { return __builtin_sqrtf(__builtin_fabsf(a)); }
FUNCTION3(f32, fused_multiply_add_f32, f32, a, f32, b, f32, c) { return __builtin_fmaf(a, b, c); }
FUNCTION3(f32, fused_multiply_add_plain_f32, plain, a, plain, b, plain, c)
{
    return __builtin_fmaf(a, b, c);
}
FUNCTION3(f32, fused_with_negations_f32, f32, a, f32, b, f32, c)
{
    return __builtin_fmaf(-a, b, -c);
}
FUNCTION2(f32, fused_cancellation_f32, plain, a, plain, b)
{
    return __builtin_fmaf(a, b, -(a * b));
}
FUNCTION2(f32, fused_constant_addend_f32, f32, a, f32, b) { return __builtin_fmaf(a, b, 1.5f); }
FUNCTION2(f32, fused_constant_factor_f32, f32, a, f32, b) { return __builtin_fmaf(a, 0.7f, b); }
FUNCTION3(f32, separate_multiply_add_f32, f32, a, f32, b, f32, c) { return a * b + c; }
FUNCTION3(f32, sum_of_three_f32, f32, a, f32, b, f32, c) { return a + b + c; }
FUNCTION2(f32x2, error_of_sum_f32, plain, a, plain, b)
{
    const f32 s = a + b, t = s - a;
    f32x2 r = {s, (a - (s - t)) + (b - t)};
    return r;
}
FUNCTION2(f32, minimum_f32, f32, a, f32, b) { return min_f32(a, b); }
FUNCTION2(f32, maximum_f32, f32, a, f32, b) { return max_f32(a, b); }
FUNCTION3(f32, minimum3_f32, f32, a, f32, b, f32, c) { return min_f32(min_f32(a, b), c); }
FUNCTION3(f32, maximum3_f32, f32, a, f32, b, f32, c) { return max_f32(max_f32(a, b), c); }
FUNCTION3(f32, maximum_of_minimum_f32, f32, a, f32, b, f32, c) { return max_f32(min_f32(a, b), c); }
/* Which zero a median of zeros is, is not said: + 0 makes it positive. */
FUNCTION3(f32, median_f32, f32, a, f32, b, f32, c) { return med3_f32(a, b, c) + 0.0f; }
FUNCTION1(f32, clamp_to_unit_f32, f32, a) { return min_f32(max_f32(a, 0.0f), 1.0f) + 0.0f; }
FUNCTION2(f32, lesser_by_comparison_f32, f32, a, f32, b) { return a < b ? a : b; }
FUNCTION2(f32, greater_by_comparison_f32, f32, a, f32, b) { return a >= b ? a : b; }
FUNCTION1(f32, floor_f32, f32, a) { return __builtin_floorf(a); }
FUNCTION1(f32, ceil_f32, f32, a) { return __builtin_ceilf(a); }
FUNCTION1(f32, trunc_f32, f32, a) { return __builtin_truncf(a); }
FUNCTION1(f32, rint_f32, f32, a) { return __builtin_rintf(a); }
FUNCTION1(f32, round_f32, f32, a) { return __builtin_roundf(a); }
FUNCTION1(f32, fract_f32, f32, a) { return fract_f32(a); }
FUNCTION1(f32, fract_by_floor_f32, f32, a) { return a - __builtin_floorf(a); }
FUNCTION2(f32, ldexp_f32, f32, a, exponent, n) { return __builtin_ldexpf(a, n); }
FUNCTION1(f32, frexp_mantissa_f32, f32, a) { return frexp_mant_f32(a); }
FUNCTION1(i32, frexp_exponent_f32, f32, a) { return frexp_exp_f32(a); }
FUNCTION2(f32, copy_sign_f32, f32, a, f32, b) { return __builtin_copysignf(a, b); }
FUNCTION1(u32, negate_f32, f32, a) { return bits_of_f32(-a) ^ bits_of_f32(a); }
FUNCTION2(f32, add_absolute_f32, f32, a, f32, b) { return __builtin_fabsf(a) + b; }
FUNCTION2(f32, sub_negated_absolute_f32, f32, a, f32, b) { return -__builtin_fabsf(a) - -b; }
FUNCTION2(f32, mul_negated_absolutes_f32, f32, a, f32, b)
{
    return -__builtin_fabsf(a) * __builtin_fabsf(b);
}
FUNCTION2(u32, comparisons_f32, f32, a, f32, b)
{
    return (u32)((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 |
                 (a > b) << 5);
}
FUNCTION2(u32, negated_comparisons_f32, f32, a, f32, b)
{
    return (u32)((!(a < b)) | (!(a <= b)) << 1 | (!(a >= b)) << 2 | (!(a > b)) << 3 |
                 __builtin_isunordered(a, b) << 4 | __builtin_islessgreater(a, b) << 5);
}
FUNCTION2(u32, quiet_comparisons_f32, f32, a, f32, b)
{
    return (u32)(__builtin_isunordered(a, b) | __builtin_islessgreater(a, b) << 1 |
                 __builtin_isgreater(a, b) << 2 | __builtin_isgreaterequal(a, b) << 3 |
                 __builtin_isless(a, b) << 4 | __builtin_islessequal(a, b) << 5 |
                 (__builtin_signbit(a) != 0) << 6 | (__builtin_isfinite(b) != 0) << 7);
}
FUNCTION1(u32, comparisons_with_constants_f32, f32, a)
{
    return (u32)((a < 0.5f) | (a > -4.0f) << 1 | (a == 1.0f) << 2 | (a != 0.0f) << 3 |
                 (a >= 0.15915494f) << 4 | (__builtin_fabsf(a) < 2.0f) << 5);
}
FUNCTION2(u32, class_by_builtin_f32, f32, a, u32, m) { return class_f32(a, m & 0x3ff); }
FUNCTION1(u32, classes_f32, f32, a)
{
    return (u32)((__builtin_isnan(a) != 0) | (__builtin_isinf(a) != 0) << 1 |
                 (__builtin_isfinite(a) != 0) << 2 | (__builtin_isnormal(a) != 0) << 3 |
                 (__builtin_signbit(a) != 0) << 4);
}
FUNCTION3(f32, select_f32, f32, a, f32, b, f32, c) { return a > 0 ? b : c; }
FUNCTION2(f32, hypotenuse_f32, plain, a, plain, b) { return __builtin_sqrtf(a * a + b * b); }
FUNCTION4(f32, polynomial_f32, plain, x, plain, a, plain, b, plain, c)
{
    return __builtin_fmaf(__builtin_fmaf(a, x, b), x, c);
}
FUNCTION4(f32, determinant_f32, plain, a, plain, b, plain, c, plain, d) { return a * d - b * c; }
FUNCTION4(f32x2, complex_product_f32, plain, a, plain, b, plain, c, plain, d)
{
    f32x2 r = {a * c - b * d, a * d + b * c};
    return r;
}
FUNCTION4(f32, interpolate_f32, plain, a, plain, b, plain, t, f32, d)
{
    return __builtin_fmaf(t, b - a, a) + d;
}
FUNCTION2(f32, scale_by_constants_f32, f32, a, f32, b)
{
    return a * 0.5f + b * 2.0f - a * -4.0f + b * 0.1f;
}
FUNCTION2(f32, half_of_sum_f32, f32, a, f32, b) { return (a + b) * 0.5f; }
FUNCTION2(f32, double_of_product_f32, f32, a, f32, b) { return a * b * 2.0f; }
FUNCTION1(f32, magic_round_f32, plain, a) { return (a + 12582912.0f) - 12582912.0f; }
FUNCTION1(u32, exponent_bits_f32, f32, a) { return bits_of_f32(a) >> 23 & 0xff; }
FUNCTION1(f32, from_fields_f32, u32, a) { return f32_of_bits(0x3f800000u | a >> 9) - 1.0f; }
FUNCTION1(u32, ordered_integer_f32, f32, a)
{
    const u32 b = bits_of_f32(a);
    return b >> 31 ? ~b : b | 0x80000000u;
}
FUNCTION1(f32, approximate_inverse_root_f32, plain, a)
{
    const f32 x = __builtin_fabsf(a) + 1.0f;
    f32 y = f32_of_bits(0x5f3759dfu - (bits_of_f32(x) >> 1));
    y = y * (1.5f - 0.5f * x * y * y);
    return y * (1.5f - 0.5f * x * y * y);
}
FUNCTION2(f32, average_of_denormals_f32, u32, a, u32, b)
{
    return f32_of_bits(a & 0x807fffff) * 0.5f + f32_of_bits(b & 0x807fffff);
}
FUNCTION2(f32, product_near_underflow_f32, u32, a, u32, b)
{
    return f32_of_bits((a & 0x807fffff) | 0x20000000) * f32_of_bits((b & 0x80ffffff) | 0x1f000000);
}
