/* SPDX-License-Identifier: MIT */
/*
 * f16 alone and packed, bf16 through f32, dots of pairs. Every operation is rounded to f16 by a
 * cast: C would keep intermediate results in f32.
 */

FUNCTION2(f16, add_f16, f16, a, f16, b) { return (f16)(a + b); }
FUNCTION2(f16, sub_f16, f16, a, f16, b) { return (f16)(a - b); }
FUNCTION2(f16, mul_f16, f16, a, f16, b) { return (f16)(a * b); }
FUNCTION2(f16, divide_f16, f16, a, f16, b) { return (f16)(a / b); }
FUNCTION1(f16, reciprocal_f16, f16, a) { return (f16)((f16)1.0f / a); }
FUNCTION1(f16, square_root_f16, f16, a) { return sqrt_f16(a); }
FUNCTION3(f16, fused_multiply_add_f16, f16, a, f16, b, f16, c) { return fma_f16(a, b, c); }
FUNCTION3(f16, fused_with_negations_f16, f16, a, f16, b, f16, c)
{
    return fma_f16((f16)-a, b, (f16)-c);
}
FUNCTION2(f16, fused_constant_addend_f16, f16, a, f16, b) { return fma_f16(a, b, (f16)1.5f); }
FUNCTION2(f16, fused_constant_factor_f16, f16, a, f16, b) { return fma_f16(a, (f16)0.7f, b); }
FUNCTION3(f16, separate_multiply_add_f16, f16, a, f16, b, f16, c)
{
    const f16 p = (f16)(a * b);
    return (f16)(p + c);
}
FUNCTION2(f16, minimum_f16, f16, a, f16, b) { return min_f16(a, b); }
FUNCTION2(f16, maximum_f16, f16, a, f16, b) { return max_f16(a, b); }
FUNCTION3(f16, minimum3_f16, f16, a, f16, b, f16, c) { return min_f16(min_f16(a, b), c); }
FUNCTION3(f16, median_f16, f16, a, f16, b, f16, c)
{
    return (f16)(med3_f16(a, b, c) + (f16)0.0f);
}
FUNCTION2(f16, lesser_by_comparison_f16, f16, a, f16, b) { return a < b ? a : b; }
FUNCTION1(f16, floor_f16, f16, a) { return floor_f16(a); }
FUNCTION1(f16, ceil_f16, f16, a) { return ceil_f16(a); }
FUNCTION1(f16, trunc_f16, f16, a) { return trunc_f16(a); }
FUNCTION1(f16, rint_f16, f16, a) { return rint_f16(a); }
FUNCTION2(f16, ldexp_f16, f16, a, exponent, n) { return ldexp_f16(a, n); }
FUNCTION1(f16, fract_f16, f16, a) { return fract_f16(a); }
FUNCTION1(f16, frexp_mantissa_f16, f16, a) { return frexp_mant_f16(a); }
FUNCTION1(i32, frexp_exponent_f16, f16, a) { return frexp_exp_f16(a); }
/* C negates in f32, which makes a signalling NaN quiet. */
FUNCTION1(u16, negate_f16, f16, a)
{
    return a != a ? 1 : (u16)(bits_of_f16((f16)-a) ^ bits_of_f16(abs_f16(a)));
}
FUNCTION2(f16, add_absolute_f16, f16, a, f16, b) { return (f16)(abs_f16(a) + (f16)-b); }
FUNCTION2(u32, comparisons_f16, f16, a, f16, b)
{
    return (u32)((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a >= b) << 4 |
                 (a > b) << 5);
}
FUNCTION2(u32, negated_comparisons_f16, f16, a, f16, b)
{
    return (u32)((!(a < b)) | (!(a <= b)) << 1 | (!(a >= b)) << 2 | (!(a > b)) << 3 |
                 (a != a) << 4);
}
FUNCTION2(u32, class_by_builtin_f16, f16, a, u32, m) { return class_f16(a, m & 0x3ff); }
FUNCTION3(f16, select_f16, f16, a, f16, b, u32, c) { return c & 2 ? a : b; }
FUNCTION3(f32, mixed_multiply_add, f16, a, f16, b, f32, c)
{
    return __builtin_fmaf((f32)a, (f32)b, c);
}
FUNCTION3(f32, mixed_with_negations, f16, a, f32, b, f16, c)
{
    return __builtin_fmaf(-(f32)a, b, __builtin_fabsf((f32)c));
}
/* Such a sum rounded to f16 is no function here: compilers make one instruction of it, which rounds
 * once, or two, as they like. */
FUNCTION3(f32, mixed_high_halves, f16x2, a, f16x2, b, f32, c)
{
    return __builtin_fmaf((f32)a.y, (f32)b.x, c) + (f32)a.x;
}

/* ---- Packed ---------------------------------------------------------------------------------- */

FUNCTION2(f16x2, add_f16x2, f16x2, a, f16x2, b) { return add_f16x2(a, b); }
FUNCTION2(f16x2, sub_f16x2, f16x2, a, f16x2, b) { return sub_f16x2(a, b); }
FUNCTION2(f16x2, mul_f16x2, f16x2, a, f16x2, b) { return mul_f16x2(a, b); }
FUNCTION3(f16x2, fused_multiply_add_f16x2, f16x2, a, f16x2, b, f16x2, c)
{
    return fma_f16x2(a, b, c);
}
FUNCTION2(f16x2, minimum_f16x2, f16x2, a, f16x2, b) { return min_f16x2(a, b); }
FUNCTION2(f16x2, maximum_f16x2, f16x2, a, f16x2, b) { return max_f16x2(a, b); }
FUNCTION2(f16x2, negated_operands_f16x2, f16x2, a, f16x2, b)
{
    return add_f16x2(neg_f16x2(a), neg_f16x2(b));
}
FUNCTION3(f16x2, one_half_negated_f16x2, f16x2, a, f16x2, b, f16x2, c)
{
    return fma_f16x2(make_f16x2((f16)-a.x, a.y), make_f16x2(b.x, (f16)-b.y), c);
}
FUNCTION3(f16x2, crossed_halves_f16x2, f16x2, a, f16x2, b, f16x2, c)
{
    return fma_f16x2(make_f16x2(a.y, a.x), make_f16x2(b.x, b.x), make_f16x2(c.y, c.y));
}
FUNCTION1(f16x2, constant_operands_f16x2, f16x2, a)
{
    return fma_f16x2(a, make_f16x2((f16)0.5f, (f16)0.5f), make_f16x2((f16)1.0f, (f16)-4.0f));
}
FUNCTION2(f16x2, halves_of_two_f16x2, f16x2, a, f16x2, b)
{
    return mul_f16x2(make_f16x2(a.x, b.y), make_f16x2(b.x, a.y));
}
FUNCTION2(f16, horizontal_sum_f16x2, f16x2, a, f16x2, b)
{
    const f16x2 s = add_f16x2(a, b);
    return (f16)(s.x + s.y);
}
FUNCTION4(f16x2, select_halves_f16x2, f16x2, a, f16x2, b, f16, c, f16, d)
{
    return make_f16x2(c < d ? a.x : b.x, c > d ? a.y : b.y);
}
FUNCTION2(f16x2, clamped_to_unit_f16x2, f16x2, a, f16x2, b)
{
    const f16x2 zero = make_f16x2((f16)0.0f, (f16)0.0f), one = make_f16x2((f16)1.0f, (f16)1.0f);
    return add_f16x2(min_f16x2(max_f16x2(mul_f16x2(a, b), zero), one), zero);
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

FUNCTION2(bf16, add_bf16, bf16, a, bf16, b) { return bf16_of_f32(f32_of_bf16(a) + f32_of_bf16(b)); }
FUNCTION2(bf16, mul_bf16, bf16, a, bf16, b) { return bf16_of_f32(f32_of_bf16(a) * f32_of_bf16(b)); }
FUNCTION3(f32, fused_multiply_add_bf16, bf16, a, bf16, b, f32, c)
{
    return __builtin_fmaf(f32_of_bf16(a), f32_of_bf16(b), c);
}
FUNCTION3(f32, pair_products_bf16, bf16x2, a, bf16x2, b, f32, c)
{
    const f32 low = __builtin_fmaf(f32_of_bits(a << 16), f32_of_bits(b << 16), c);
    return __builtin_fmaf(f32_of_bits(a & 0xffff0000u), f32_of_bits(b & 0xffff0000u), low);
}
FUNCTION4(f32, interleaved_products_bf16, bf16x2, a, bf16x2, b, plain, c, plain, d)
{
    return f32_of_bits(a << 16) * c + f32_of_bits(b & 0xffff0000u) * d;
}

/* ---- Dots: with operands whose products and sums are exact ----------------------------------- */

FUNCTION3(f32, dot2_f16_exact, whole16x2, a, whole16x2, b, i16, c) { return fdot2(a, b, (f32)c); }
FUNCTION4(f32, dot2_f16_chain, whole16x2, a, whole16x2, b, whole16x2, c, whole16x2, d)
{
    return fdot2(a, b, fdot2(c, d, fdot2(a, d, 0.25f)));
}
#undef NEEDS
#define NEEDS DOT2_BF16
#if HAS(DOT2_BF16)
FUNCTION3(f32, dot2_bf16_exact, tinybf16x2, a, tinybf16x2, b, i16, c)
{
    return fdot2_f32_bf16(a, b, (f32)c);
}
#endif
#undef NEEDS
#define NEEDS DOT2_16
#if HAS(DOT2_16)
FUNCTION3(f16, dot2_f16_to_f16, tiny16x2, a, tiny16x2, b, tiny16, c) { return fdot2_f16(a, b, c); }
FUNCTION3(bf16, dot2_bf16_to_bf16, tinybf16x2, a, tinybf16x2, b, tinybf16, c)
{
    return fdot2_bf16(a, b, c);
}
#endif
#undef NEEDS
#define NEEDS 0
