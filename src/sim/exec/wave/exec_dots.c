/* SPDX-License-Identifier: MIT */
/*
 * Dots of floats. Fused: one product after the other is added in f32, the low one first, and where
 * there are two the addend and the result lose denormals whatever the mode says. Else as the
 * hardware's adders do it (adders.h).
 */
#include "sim/exec/tables.h"
#include "sim/exec/wave/adders.h"

#define V3(NAME, R, A, B, C, ...) VECTOR_BODY(NAME, R, 3, LET_3(A, B, C), __VA_ARGS__)

/* ---- One product after the other ------------------------------------------------------------- */

V3(dot2_any, f, p, p, f, dot2_f16(a, b, c))
/* gfx90a: denormals of the halves count as zeros */
V3(dot2_flushed, f, p, p, f, dot2_f16(flush_halves(a), flush_halves(b), c))

#if defined(__AVX2__) && defined(__F16C__)
INLINE __m256 flush_8(__m256 x)
{
    const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    const __m256 tiny = _mm256_cmp_ps(magnitude, _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
    return _mm256_andnot_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), tiny), x);
}

/* Eight lanes of dot2_f16: all sixteen products at once, then low and high ones apart. Products of
 * halves are exact, so adding them is the fused operation. */
INLINE __m256 dot2_8(const uint32_t *a, const uint32_t *b, __m256 c)
{
    const __m128i *const pa = (const __m128i *)(const void *)a;
    const __m128i *const pb = (const __m128i *)(const void *)b;
    const __m256 first =
        _mm256_mul_ps(_mm256_cvtph_ps(_mm_loadu_si128(pa)), _mm256_cvtph_ps(_mm_loadu_si128(pb)));
    const __m256 second = _mm256_mul_ps(_mm256_cvtph_ps(_mm_loadu_si128(pa + 1)),
                                        _mm256_cvtph_ps(_mm_loadu_si128(pb + 1)));
    const __m256d low = _mm256_castps_pd(_mm256_shuffle_ps(first, second, 0x88));
    const __m256d high = _mm256_castps_pd(_mm256_shuffle_ps(first, second, 0xdd));
    /* the shuffles work within 128 bits and leave pairs of lanes in the order 0 2 1 3 */
    const __m256 lows = _mm256_castpd_ps(_mm256_permute4x64_pd(low, 0xd8));
    const __m256 highs = _mm256_castpd_ps(_mm256_permute4x64_pd(high, 0xd8));

    return flush_8(_mm256_add_ps(_mm256_add_ps(flush_8(c), lows), highs));
}

BODY(fused_f32_f16)
{
    if (UNLIKELY(w->flush_halves))
        return x_dot2_flushed(w, i);
    if (UNLIKELY(!w->full || !(i->flags & INSN_SIMPLE)))
        return x_dot2_any(w, i);
    for (unsigned h = 0; h < w->halves; h++) {
        const uint32_t *const a = fast_source(w, i, 1, h), *const b = fast_source(w, i, 2, h);
        const float *const c = (const float *)(const void *)fast_source(w, i, 3, h);
        float *const d = (float *)(void *)vgpr(w, &i->op[0], h);
        for (unsigned l = 0; l < 32; l += 8)
            _mm256_storeu_ps(d + l, dot2_8(a + l, b + l, _mm256_loadu_ps(c + l)));
    }
    return i + 1;
}
#else
BODY(fused_f32_f16)
{
    return w->flush_halves ? x_dot2_flushed(w, i) : x_dot2_any(w, i);
}
#endif

V3(fused_f32_bf16, f, b, b, f, dot2_bf16(a, b, c))
V3(fused_f16_f16, h, p, p, h, dot2_f16(a, b, c))
V3(fused_bf16_bf16, w, b, b, w,
   w->adder == ADDER_NEAREST ? f32_to_bf16(dot2_bf16(a, b, bf16_to_f32(c)))
                             : bits_of_f32(dot2_bf16(a, b, bf16_to_f32(c))) >> 16)
V3(fused_fp8_fp8, f, u, u, f, dot4_fp8(a, b, c, 0, 0))
V3(fused_fp8_bf8, f, u, u, f, dot4_fp8(a, b, c, 0, 1))
V3(fused_bf8_fp8, f, u, u, f, dot4_fp8(a, b, c, 1, 0))
V3(fused_bf8_bf8, f, u, u, f, dot4_fp8(a, b, c, 1, 1))

/* ---- As the adders do it --------------------------------------------------------------------- */

V3(added_f32_f16, f, p, p, f, add_dot2(w->adder, false, ADDER_F32, a, b, c))
V3(added_f32_bf16, f, b, b, f, add_dot2(w->adder, true, ADDER_F32, a, b, c))
V3(added_f16_f16, h, p, p, h, add_dot2(w->adder, false, ADDER_F16, a, b, c))
V3(added_bf16_bf16, w, b, b, w,
   bits_of_f32(add_dot2(w->adder, true, ADDER_BF16, a, b, bf16_to_f32(c))) >> 16)
V3(added_fp8_fp8, f, u, u, f, add_dot4(a, b, c, 0, 0))
V3(added_fp8_bf8, f, u, u, f, add_dot4(a, b, c, 0, 1))
V3(added_bf8_fp8, f, u, u, f, add_dot4(a, b, c, 1, 0))
V3(added_bf8_bf8, f, u, u, f, add_dot4(a, b, c, 1, 1))

/* ---- The table ------------------------------------------------------------------------------- */

#define CHOICE(TYPES)                                                                              \
    BODY(TYPES)                                                                                    \
    {                                                                                              \
        const bool added = w->adder == ADDER_RDNA3 || w->adder == ADDER_RDNA4;                     \
        return added ? x_added_##TYPES(w, i) : x_fused_##TYPES(w, i);                              \
    }
CHOICE(f32_f16)
CHOICE(f32_bf16)
CHOICE(f16_f16)
CHOICE(bf16_bf16)
CHOICE(fp8_fp8)
CHOICE(fp8_bf8)
CHOICE(bf8_fp8)
CHOICE(bf8_bf8)

#define ROW_(NAME, OPERANDS, TYPES) {NAME, QUERN_CLASS_PACKED, UNDEF_ANY, OPERANDS, x_##TYPES}

const struct sim_row rows_dots[] = {ROW_("v_dot2_f32_f16", "=f0p1p2f3", f32_f16),
                                    ROW_("v_dot2c_f32_f16", "=f0p1p2+3", f32_f16),
                                    ROW_("v_dot2acc_f32_f16", "=f0p1p2+3", f32_f16),
                                    ROW_("v_dot2_f32_bf16", "=f0b1b2f3", f32_bf16),
                                    ROW_("v_dot2c_f32_bf16", "=f0b1b2+3", f32_bf16),
                                    ROW_("v_dot2acc_f32_bf16", "=f0b1b2+3", f32_bf16),
                                    ROW_("v_dot2_f16_f16", "=h0p1p2h3", f16_f16),
                                    ROW_("v_dot2_bf16_bf16", "=w0b1b2w3", bf16_bf16),
                                    ROW_("v_dot4_f32_fp8_fp8", "=f0u1u2f3", fp8_fp8),
                                    ROW_("v_dot4_f32_fp8_bf8", "=f0u1u2f3", fp8_bf8),
                                    ROW_("v_dot4_f32_bf8_fp8", "=f0u1u2f3", bf8_fp8),
                                    ROW_("v_dot4_f32_bf8_bf8", "=f0u1u2f3", bf8_bf8),
                                    {0}};
