/* SPDX-License-Identifier: MIT */
/*
 * libquern_bnb.so: bitsandbytes' fused 4-bit products, made by quern. The three cgemm_4bit_… have
 * the names and the arguments of bitsandbytes' native libraries for ROCm and CUDA (0.50), so that a
 * host that calls one of these can call this one; docs/bitsandbytes.md shows how.
 *
 *     out[M,N] = a[M,K] . W[N,K]^T (+ bias)       everything row-major and packed
 *
 * They work on the thread's current HIP or CUDA device, on `stream`, and do not wait. A shape that
 * is seen for the first time compiles its kernels, and blocks for as long as that takes, unless the
 * cache or QUERN_MANIFEST had them; while `stream` is being captured nothing is compiled or loaded.
 *
 * There is no result, so errors are told as bitsandbytes' launches tell them: by the last error
 * that the HIP or CUDA runtime keeps for the thread (here always hipErrorInvalidValue or its like),
 * which frameworks ask for after they launch; `out` is then left alone. The reason is in
 * quern_bnb_last_error, and the first of each kind is a line on stderr. All functions are
 * thread-safe.
 */
#ifndef QUERN_BNB_H
#define QUERN_BNB_H

#include <quern/quern.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * a, bias (null: none) and out have the type of the name. b: u8 [N,K/2], the high nibble first.
 * absmax: f32 [N*K/blocksize]. With nested absmax, absmax_8bit is u8 [N*K/blocksize], absmax_code
 * f32 [256], absmax f32, one for each 256 of absmax_8bit, and absmax_offset one f32; else all three
 * are null. blocksize: 32, 64, 128, … 4096, with no default. quant_type: 1 is FP4, 2 is NF4.
 * stream: hipStream_t or CUstream.
 */
QUERN_API void cgemm_4bit_bf16(const void *a, const void *b, const void *absmax,
                               const void *absmax_8bit, const void *absmax_code,
                               const void *absmax_offset, void *out, const void *bias, int32_t m,
                               int32_t n, int32_t k, int32_t blocksize, int32_t quant_type,
                               void *stream);
QUERN_API void cgemm_4bit_fp16(const void *a, const void *b, const void *absmax,
                               const void *absmax_8bit, const void *absmax_code,
                               const void *absmax_offset, void *out, const void *bias, int32_t m,
                               int32_t n, int32_t k, int32_t blocksize, int32_t quant_type,
                               void *stream);
QUERN_API void cgemm_4bit_fp32(const void *a, const void *b, const void *absmax,
                               const void *absmax_8bit, const void *absmax_code,
                               const void *absmax_offset, void *out, const void *bias, int32_t m,
                               int32_t n, int32_t k, int32_t blocksize, int32_t quant_type,
                               void *stream);

/* What became of the thread's latest cgemm_4bit_…: a quern_status. */
QUERN_API int quern_bnb_last_status(void);
/* Why it failed, in one sentence; "" if it did not. Valid until the thread's next call. */
QUERN_API const char *quern_bnb_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
