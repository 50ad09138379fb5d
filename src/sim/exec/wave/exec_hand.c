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

BODY(v_perm_b32)
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

const struct sim_row rows_hand[] = {
    {"v_perm_b32", QUERN_CLASS_VALU, UNDEF_PERM, "=u0u1u2u3", x_v_perm_b32}, {0}};
