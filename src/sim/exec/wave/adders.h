/* SPDX-License-Identifier: MIT */
/*
 * How the hardware adds products of 16-bit floats, which is not how IEEE would: several at once, on
 * a common grid of bits, and what lies below the grid is discarded. docs/sim.md has the sources.
 */
#ifndef QUERN_SIM_ADDERS_H
#define QUERN_SIM_ADDERS_H

#include "sim/exec/wave/exec.h"

enum adder_result { ADDER_F32, ADDER_F16, ADDER_BF16 };

/* How products are added: those of a step at a time, and on RDNA 4 those of a group on a grid of
 * their own. ADDER_FUSED: one after the other, which the files of the instructions do. */
struct adder_model {
    enum sim_adder kind;
    unsigned step, group;
};

/* The adder of a target, and what an instruction asks of it. */
struct adder {
    struct adder_model model;
    float least[2]; /* the smallest normal numbers of A and of B */
    enum adder_result result;
};

/*
 * Of a form that has no published adder: which of its candidates the software GPU is asked for
 * (load.h), the first of which is the likeliest; or SIM_NO_CANDIDATE, where it adds fast: product
 * after product. Notes that such a form was met.
 */
int open_candidate(const struct wave *w);
struct adder_model open_model(const struct wave *w,
                              const struct adder_model candidates[SIM_CANDIDATES]);

/* Factors: those of row r and column c for a k are a[k * a_width + r] and b[k * b_width + c]. They
 * are taken for `count` k in the order that `order` says; null: upward. */
struct factors {
    const float *a, *b;
    size_t a_width, b_width;
    const uint8_t *order;
    unsigned count;
};

/*
 * Adds their products to rows of sums: sum[r * sum_width + c] is that of row r and column c, of
 * which there are 32 at most. A multiple of the step, or fewer than one, is added. Sums are numbers
 * of the type of the result. The host must not flush denormals.
 */
void add_rows(const struct adder *how, float *sum, size_t sum_width, unsigned rows,
              unsigned columns, const struct factors *factors);

/* What v_dot2_* gives: two pairs of 16 bits, and a number of the result's type. */
float add_dot2(enum sim_adder kind, bool bf16, enum adder_result result, uint32_t a, uint32_t b,
               float c);

/* What RDNA 4's v_dot4_f32_* give: four eight-bit floats each. */
float add_dot4(uint32_t a, uint32_t b, float c, bool a_bf8, bool b_bf8);

#endif
