/* SPDX-License-Identifier: MIT */
/* CPU arithmetic: number formats, quantise, dequantise, and the double-precision reference. */
#ifndef QUERN_QUANT_QUANT_H
#define QUERN_QUANT_QUANT_H

#include "problem/operands.h"
#include "problem/problem.h"

#include <stddef.h>
#include <stdint.h>

/* The value of each 4-bit code at scale 1: bitsandbytes' tables, and E2M1 of MXFP4. */
extern const float quant_nf4[16];
extern const float quant_fp4[16];
extern const float quant_e2m1[16];
const float *quant_values(enum quern_weight wq);

/* Conversions, round to nearest even; NaN stays NaN. */
uint16_t quant_f16_from_f32(float x);
float quant_f32_from_f16(uint16_t x);
uint16_t quant_bf16_from_f32(float x);
float quant_f32_from_bf16(uint16_t x);

/*
 * Conversions of e4m3, as OCP defines it or FNUZ. From f32 they round to nearest even; values
 * beyond the largest become the largest, infinities and NaN become NaN.
 */
float quant_f32_from_fp8(uint8_t x, bool fnuz);
uint8_t quant_fp8_from_f32(float x, bool fnuz);
float quant_fp8_largest(bool fnuz);

/* Reads or writes element i of an array of type t as a float. */
float quant_load(enum quern_dtype t, const void *array, size_t i);
void quant_store(enum quern_dtype t, void *array, size_t i, float x);

/*
 * Blockwise 4-bit quantisation of nf4 or fp4 in bitsandbytes' way, bit for bit: absmax = max |w|
 * over each run of `group` weights of the flattened [N,K]; code = the table value that w/absmax is
 * nearest to, the lower of two at equal distance; two codes a byte, the high nibble first. NaN and
 * infinite weights spoil their block as they do there. The last block may be short; packed has
 * (count+1)/2 bytes, absmax ⌈count/group⌉ floats.
 */
void quant_quantise_4bit(enum quern_weight wq, const float *w, size_t count, size_t group,
                         uint8_t *packed, float *absmax);
void quant_dequantise_4bit(enum quern_weight wq, const uint8_t *packed, const float *absmax,
                           size_t count, size_t group, float *w);

/* The value of an e8m0 scale: 2^(s-127), or NaN for 255. */
float quant_f32_from_e8m0(uint8_t s);

/* MXFP4 of whole blocks of 32, rounded to nearest even; two codes a byte, the low nibble first. A
 * block with a NaN or an infinity becomes NaN. */
void quant_quantise_mxfp4(const float *w, size_t count, uint8_t *packed, uint8_t *scales);

/*
 * Nested absmax in bitsandbytes' way. The code is its "dynamic" map, sorted; 256 neighbouring
 * absmax share a scale. absmax = code[absmax8] * scale + offset, both operations rounded to float.
 * The offset is the mean of all absmax, here the nearest float to it; scales has ⌈count/256⌉
 * floats.
 */
void quant_nest_code(float code[OPERAND_NEST]);
float quant_nest_offset(const float *absmax, size_t count);
void quant_nest(const float *absmax, size_t count, const float code[OPERAND_NEST], float offset,
                uint8_t *absmax8, float *scales);
void quant_unnest(const uint8_t *absmax8, const float code[OPERAND_NEST], const float *scales,
                  float offset, size_t count, float *absmax);

/*
 * Quantises w, f32 [N,K], to int4 in the problem's layout (docs/formats.md). A code q stands for
 * (q - z)·s, with the scale s and zero point z of its group, z = 8 without zero points; with scaled
 * zero points zs it stands for (q - 8)·s - zs. Without zero points s = 2 max|w| / 15, and q is the
 * nearest code; with them the group's range, stretched to hold zero, is cut into 15 steps. s is
 * rounded to its type before codes are chosen. A group with a NaN or an infinity, or whose s is
 * beyond its type, becomes NaN. zeros is null when the problem has none. Blocks. QUERN_E_MEMORY.
 */
quern_status quant_quantise_int4(const struct quern_problem *problem, const float *w, void *b,
                                 void *scales, void *zeros);

/* Dequantises row `row` of int4 weights whose words are those of layout k8. In double (q - z)·s is
 * exact, and (q - 8)·s - zs rounded once; in f32 both are rounded once. */
void quant_int4_row(const struct quern_problem *problem, const uint32_t *k8, const void *scales,
                    const void *zeros, size_t row, double *w);
void quant_int4_row_f32(const struct quern_problem *problem, const uint32_t *k8, const void *scales,
                        const void *zeros, size_t row, float *w);

/* Dequantises all rows, in any of int4's layouts. QUERN_E_MEMORY. */
quern_status quant_dequantise_int4(const struct quern_problem *problem,
                                   const union operand_pointers *in, float *w);

/*
 * Weights of layout dense. quant_dense_row gives row `row` times b_scale, exactly;
 * quant_dequantise_dense all rows, rounded once; quant_quantise_dense rounds f32 [N,K] to nearest,
 * with the scale of fp8, or of each of its blocks, that makes the largest finite |w| there the
 * type's largest value. b_scale is null where the problem has none. The last two block.
 */
bool quant_is_dense(const struct quern_problem *problem);
void quant_dense_row(const struct quern_problem *problem, const union operand_pointers *in,
                     size_t row, double *w);
void quant_dequantise_dense(const struct quern_problem *problem, const union operand_pointers *in,
                            float *w);
void quant_quantise_dense(const struct quern_problem *problem, const float *w, void *b,
                          float *b_scale);

/*
 * Converts packed int4 weights of a normalised problem from its layout to another, both one of k8,
 * exl, ck, gptq, awq. b and out have N·K/2 bytes each, are aligned to 4, and do not overlap.
 * Blocks, on all CPUs. QUERN_E_DECLINED for other weights; QUERN_E_PROBLEM when `to` needs N or K
 * to be another multiple.
 */
bool quant_is_packed_int4(const struct quern_problem *problem);
quern_status quant_repack(const struct quern_problem *problem, enum quern_layout to, const void *b,
                          void *out);
/* The same from layout gptq, N a multiple of 8, with columns in another order: column j of the
 * result is column perm[j] of b. perm may be null: columns keep their order. */
quern_status quant_repack_columns(const struct quern_problem *problem, enum quern_layout to,
                                  const void *b, const uint32_t *perm, void *out);

/*
 * Whether these functions take the weights of a normalised problem: nf4 and fp4 in layout bnb,
 * mxfp4 in layout k8, int4 in layouts k8, exl, ck, gptq and awq, the others in layout dense.
 * QUERN_E_DECLINED says which layouts they would take.
 */
quern_status quant_accepts(const struct quern_problem *problem);

/* The scales of all N*K/group blocks as floats; not for int4 and layout dense. */
void quant_scales(const struct quern_problem *problem, const union operand_pointers *in,
                  float *scales);

/*
 * The weights of an accepted problem, f32 [N,K]: code value times scale (int4: by its formula),
 * rounded once. Blocks. QUERN_E_MEMORY.
 */
quern_status quant_dequantise(const struct quern_problem *problem, const union operand_pointers *in,
                              float *w);

/*
 * y[m,N] = A . dequantised(W)^T + bias in double precision, on all CPUs, for a normalised problem;
 * with act, y[m,N/2] is what that makes of gate and up.
 * Weights are dequantised exactly (code value times scale, one product, in double), and every sum
 * has one order: the same operands give the same bits on any machine. Blocks. Errors:
 * QUERN_E_DECLINED as of quant_accepts, and for op=dequant; QUERN_E_ARGUMENT, QUERN_E_MEMORY.
 */
quern_status quant_reference(const struct quern_problem *problem, const union operand_pointers *in,
                             int64_t m, double *y);

/*
 * Fills operands for a test of an accepted problem: activations ~ N(0,1), random codes, bias ~
 * N(0,1). Unquantised weights ~ N(0,1)/sqrt(K); those in fp8 are any finite code, scaled to be at
 * most 4/sqrt(K), and a_scale is 1.25; with scale=block128 the scale of each block is that times
 * [0.125,1.125), and a_scale is uniform there. Absmax are uniform in [0.5,1.5)/sqrt(K); nested ones
 * have bitsandbytes' code, an offset of 1/sqrt(K) and second scales uniform in
 * [0.25,0.75)/sqrt(K); MXFP4's powers of two are the four about 1/(2 sqrt(K)). A function of the
 * seed alone, the same on every machine. Buffers have the sizes of the problem's operands; null
 * ones are left out. Blocks. QUERN_E_MEMORY, of op=moe alone.
 */
quern_status quant_random(const struct quern_problem *problem, int64_t m, uint64_t seed,
                          const union operand_pointers *out);
/* The `index`-th output of SplitMix64 (Steele, Lea, Flood 2014) started at `seed`. */
static inline uint64_t quant_random_at(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/*
 * Mixtures of experts (moe.c), of a problem with block_rows. quant_moe_align puts the choices
 * topk_ids [m, top_k], i32, into blocks: rows, experts and rows_used are as quern.h describes them,
 * experts of unused blocks -1; a choice of no expert 0…experts-1 is in no block. quant_random_ids
 * is what quant_random does for op=moe_align: each token's experts differ, but one choice in 16 is
 * no expert's. The other two are what quant_reference and quant_random do for op=moe, by what they
 * do for each expert's op=gemm (`of_expert`): y[m·top_k, N] is NaN in rows that no block names.
 * They block. QUERN_E_MEMORY.
 */
void quant_moe_align(const struct quern_problem *problem, int64_t m, const int32_t *topk_ids,
                     int32_t *rows, int32_t *experts, int32_t *rows_used);
void quant_random_ids(const struct quern_problem *problem, int64_t m, uint64_t seed, int32_t *ids);
typedef quern_status quant_reference_fn(const struct quern_problem *problem,
                                        const union operand_pointers *in, int64_t m, double *y);
typedef quern_status quant_random_fn(const struct quern_problem *problem, int64_t m, uint64_t seed,
                                     const union operand_pointers *out);
quern_status quant_reference_moe(const struct quern_problem *problem,
                                 const union operand_pointers *in, int64_t m, double *y,
                                 quant_reference_fn *of_expert);
quern_status quant_random_moe(const struct quern_problem *problem, int64_t m, uint64_t seed,
                              const union operand_pointers *out, quant_random_fn *of_expert);

#endif
