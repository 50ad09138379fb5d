/* SPDX-License-Identifier: MIT */
/* CPU arithmetic: number formats, quantise, dequantise, and the double-precision reference. */
#ifndef QUERN_QUANT_QUANT_H
#define QUERN_QUANT_QUANT_H

#include "problem/problem.h"

#include <stddef.h>
#include <stdint.h>

/* bitsandbytes' code tables: the value of each 4-bit code at absmax 1. */
extern const float quant_nf4[16];
extern const float quant_fp4[16];

/* Conversions, round to nearest even; NaN stays NaN. */
uint16_t quant_f16_from_f32(float x);
float quant_f32_from_f16(uint16_t x);
uint16_t quant_bf16_from_f32(float x);
float quant_f32_from_bf16(uint16_t x);

/* Reads or writes element i of an array of type t (f32, f16 or bf16, no other) as a float. */
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

/* The operands of one linear layer on the CPU; those that a problem has not are null. */
struct quant_operands {
    const void *a; /* [M,K] in problem->a, packed */
    const void *b;
    const void *scales;
    const void *bias; /* [N] in problem->c */
};

/*
 * y[m,N] = A . dequantised(W)^T + bias in double precision, on all CPUs, for a normalised problem.
 * Weights are dequantised exactly (code value times absmax, one product, in double), and every sum
 * has one order: the same operands give the same bits on any machine. Blocks. Errors:
 * QUERN_E_DECLINED for what is not nf4 or fp4 with scale=f32, layout=bnb; QUERN_E_ARGUMENT,
 * QUERN_E_MEMORY.
 */
quern_status quant_reference(const struct quern_problem *problem, const struct quant_operands *in,
                             int64_t m, double *y);

/*
 * Fills operands for a test of a normalised nf4 or fp4 problem: activations ~ N(0,1), random codes,
 * absmax uniform in [0.5,1.5)/sqrt(K), bias ~ N(0,1). A function of the seed alone, the same on
 * every machine. Buffers have the sizes of the problem's operands; null ones are left out. Blocks.
 */
void quant_random(const struct quern_problem *problem, int64_t m, uint64_t seed, void *a, void *b,
                  void *scales, void *bias);

#endif
