/* SPDX-License-Identifier: MIT */
/* Instructions for which the compiler's vector code is several times slower than what the host can
 * do. */
#include "sim/exec/tables.h"

#define V3(NAME, R, A, B, C, ...) VECTOR_BODY(NAME, R, 3, LET_3(A, B, C), __VA_ARGS__)

/* ---- v_perm_b32 ------------------------------------------------------------------------------ */

V3(perm_any, u, u, u, u, perm_b32(a, b, c))

#ifdef __AVX2__
/*
 * Eight lanes: the bytes of a and of b are shuffled by the selectors, within the dword of the lane;
 * selectors from 13 on give 0xff, 12 gives 0. Those from 8 to 11 are left to perm_any.
 */
INLINE __m256i perm_8(__m256i a, __m256i b, __m256i s)
{
    const __m256i dwords = _mm256_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0, 0x0c0c0c0c,
                                            0x08080808, 0x04040404, 0);
    const __m256i at = _mm256_or_si256(_mm256_and_si256(s, _mm256_set1_epi8(3)), dwords);
    const __m256i from_a = _mm256_cmpgt_epi8(s, _mm256_set1_epi8(3));
    const __m256i byte =
        _mm256_blendv_epi8(_mm256_shuffle_epi8(b, at), _mm256_shuffle_epi8(a, at), from_a);
    const __m256i constant = _mm256_cmpgt_epi8(s, _mm256_set1_epi8(7));
    const __m256i ones = _mm256_cmpgt_epi8(s, _mm256_set1_epi8(12));

    return _mm256_or_si256(_mm256_andnot_si256(constant, byte), ones);
}

/* Whether every selector of the row is one that perm_8 does. */
INLINE bool perm_plain(const uint32_t *s)
{
    __m256i other = _mm256_setzero_si256();

    for (unsigned l = 0; l < 32; l += 8) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(s + l));
        const __m256i sign =
            _mm256_cmpeq_epi8(_mm256_and_si256(x, _mm256_set1_epi8(0x0c)), _mm256_set1_epi8(8));
        /* bytes above 15 are taken for negative or large ones elsewhere */
        const __m256i large = _mm256_and_si256(x, _mm256_set1_epi8((char)0xf0));
        other = _mm256_or_si256(other, _mm256_or_si256(sign, large));
    }
    return _mm256_testz_si256(other, other);
}

static const struct insn *x_v_perm_b32(struct wave *w, const struct insn *i)
{
    const struct insn *const x =
        w->full && !(i->flags & (INSN_SIMPLE | INSN_COMPLEX)) ? with_rows(w, i, 3) : i;

    if (UNLIKELY(!w->full || i->flags & INSN_COMPLEX || !perm_plain(fast_source(w, x, 3, 0)) ||
                 (w->halves == 2 && !perm_plain(fast_source(w, x, 3, 1)))))
        return x_perm_any(w, i);
    for (unsigned h = 0; h < w->halves; h++) {
        const uint32_t *const a = fast_source(w, x, 1, h), *const b = fast_source(w, x, 2, h);
        const uint32_t *const s = fast_source(w, x, 3, h);
        uint32_t *const d = vgpr(w, &x->op[0], h);
        for (unsigned l = 0; l < 32; l += 8)
            _mm256_storeu_si256((__m256i *)(void *)(d + l),
                                perm_8(_mm256_loadu_si256((const __m256i *)(const void *)(a + l)),
                                       _mm256_loadu_si256((const __m256i *)(const void *)(b + l)),
                                       _mm256_loadu_si256((const __m256i *)(const void *)(s + l))));
    }
    return i + 1;
}
#else
#define x_v_perm_b32 x_perm_any
#endif

/* ---- v_dot2_f32_f16 -------------------------------------------------------------------------- */

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

static const struct insn *x_v_dot2_f32_f16(struct wave *w, const struct insn *i)
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
static const struct insn *x_v_dot2_f32_f16(struct wave *w, const struct insn *i)
{
    return w->flush_halves ? x_dot2_flushed(w, i) : x_dot2_any(w, i);
}
#endif

const struct sim_row rows_hand[] = {
    {"v_perm_b32", QUERN_CLASS_VALU, UNDEF_PERM, "=u0u1u2u3", x_v_perm_b32},
    {"v_dot2_f32_f16", QUERN_CLASS_PACKED, UNDEF_ANY, "=f0p1p2f3", x_v_dot2_f32_f16},
    {"v_dot2c_f32_f16", QUERN_CLASS_PACKED, UNDEF_ANY, "=f0p1p2+3", x_v_dot2_f32_f16},
    {"v_dot2acc_f32_f16", QUERN_CLASS_PACKED, UNDEF_ANY, "=f0p1p2+3", x_v_dot2_f32_f16},
    {0}};
