/* SPDX-License-Identifier: MIT */
/*
 * What matrix instructions spend their time on, written so that it runs in the host's vector
 * registers: rows of f16 to rows of f32, and sums of products of rows. For the files of exec/.
 */
#ifndef QUERN_SIM_MATRIX_ROWS_H
#define QUERN_SIM_MATRIX_ROWS_H

#include "sim/exec/wave/exec.h"

/* Rows that are stored and loaded whole: across cache lines, each would cost two accesses. */
#define FLOATS float __attribute__((aligned(64)))

/* A row (what FORM makes it) for each of the forms of a matrix instruction whose A and B are fp8 or
 * bf8, each on its own. The arguments behind the name are those in front of the types. */
#define EIGHT_BITS(FORM, NAME, ...)                                                                \
    FORM(NAME##_fp8_fp8, __VA_ARGS__, FP8, FP8, F32)                                               \
    FORM(NAME##_fp8_bf8, __VA_ARGS__, FP8, BF8, F32)                                               \
    FORM(NAME##_bf8_fp8, __VA_ARGS__, BF8, FP8, F32)                                               \
    FORM(NAME##_bf8_bf8, __VA_ARGS__, BF8, BF8, F32)

/*
 * low[n] and high[n] = the two f16 of from[n], for `count` elements, a multiple of 16. What
 * f16_to_f32 gives, but that NaNs become quiet, as in the products they are for. Compilers do not
 * turn a loop over f16_to_f32 into the one instruction that the host may have for it.
 */
INLINE void widen_f16(float *low, float *high, const uint32_t *from, unsigned count)
{
#if defined __AVX512F__
    for (unsigned n = 0; n < count; n += 16) {
        const __m512i words = _mm512_loadu_si512(from + n);
        const __m256i upper = _mm512_cvtepi32_epi16(_mm512_srli_epi32(words, 16));
        _mm512_storeu_ps(low + n, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)));
        _mm512_storeu_ps(high + n, _mm512_cvtph_ps(upper));
    }
#elif defined __F16C__ && defined __AVX2__
    const __m256i apart = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    for (unsigned n = 0; n < count; n += 8) {
        const __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)(from + n));
        const __m256i halves =
            _mm256_permute4x64_epi64(_mm256_shuffle_epi8(words, apart), _MM_SHUFFLE(3, 1, 2, 0));
        _mm256_storeu_ps(low + n, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
        _mm256_storeu_ps(high + n, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
    }
#else
    for (unsigned n = 0; n < count; n++) {
        low[n] = f16_to_f32(from[n] & 0xffff);
        high[n] = f16_to_f32(from[n] >> 16);
    }
#endif
}

/*
 * to[q][c] = from[q][c] + the sum over k of a[k · a_width + q] · b[k · b_width + c], for 16 rows q
 * and 16 columns c: k upward, each step one fused multiply-add. Left to themselves, compilers keep
 * the sums in memory; and what is stored by halves and loaded whole waits for the store.
 */
INLINE void add_products(float *const to[16], const float *const from[16], const float *a,
                         unsigned a_width, const float *b, unsigned b_width, unsigned count)
{
#if defined __AVX512F__
    for (unsigned r = 0; r < 16; r += 8) {
        __m512 s[8];
        for (unsigned q = 0; q < 8; q++)
            s[q] = _mm512_loadu_ps(from[r + q]);
        for (unsigned k = 0; k < count; k++) {
            const __m512 y = _mm512_loadu_ps(b + k * b_width);
            for (unsigned q = 0; q < 8; q++)
                s[q] = _mm512_fmadd_ps(_mm512_set1_ps(a[k * a_width + r + q]), y, s[q]);
        }
        for (unsigned q = 0; q < 8; q++)
            _mm512_storeu_ps(to[r + q], s[q]);
    }
#elif defined __FMA__ && defined __AVX2__
    for (unsigned r = 0; r < 16; r += 4) {
        __m256 s[4][2];
        for (unsigned q = 0; q < 8; q++)
            s[q / 2][q % 2] = _mm256_loadu_ps(from[r + q / 2] + q % 2 * 8);
        for (unsigned k = 0; k < count; k++) {
            const __m256 y = _mm256_loadu_ps(b + k * b_width);
            const __m256 z = _mm256_loadu_ps(b + k * b_width + 8);
            for (unsigned q = 0; q < 4; q++) {
                const __m256 x = _mm256_set1_ps(a[k * a_width + r + q]);
                s[q][0] = _mm256_fmadd_ps(x, y, s[q][0]);
                s[q][1] = _mm256_fmadd_ps(x, z, s[q][1]);
            }
        }
        for (unsigned q = 0; q < 8; q++)
            _mm256_storeu_ps(to[r + q / 2] + q % 2 * 8, s[q / 2][q % 2]);
    }
#else
    for (unsigned q = 0; q < 16; q++) {
        float sum[16];
        memcpy(sum, from[q], sizeof sum);
        for (unsigned k = 0; k < count; k++)
            for (unsigned c = 0; c < 16; c++)
                sum[c] = fma_f32(a[k * a_width + q], b[k * b_width + c], sum[c]);
        memcpy(to[q], sum, sizeof sum);
    }
#endif
}

/* The same where every product is exact, as those of 16 and of 8 bits but bf16 are: no need of a
 * fused step on hosts that have none. */
INLINE void add_exact_products(float *const to[16], const float *const from[16], const float *a,
                               unsigned a_width, const float *b, unsigned b_width, unsigned count)
{
#ifdef __FMA__
    add_products(to, from, a, a_width, b, b_width, count);
#else
    for (unsigned q = 0; q < 16; q++) {
        float sum[16];
        memcpy(sum, from[q], sizeof sum);
        for (unsigned k = 0; k < count; k++)
            for (unsigned c = 0; c < 16; c++)
                sum[c] += a[k * a_width + q] * b[k * b_width + c];
        memcpy(to[q], sum, sizeof sum);
    }
#endif
}

#endif
