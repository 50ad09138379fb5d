/* SPDX-License-Identifier: MIT */
/*
 * Where a maker's matrix library is the better way: from some number of rows on, weights that are
 * made 16-bit once and multiplied by hipBLASLt take less time than kernels that decode them anew
 * for every slice of A. All functions are pure.
 */
#ifndef QUERN_PLAN_BLAS_CHOICE_H
#define QUERN_PLAN_BLAS_CHOICE_H

#include "plan/plan.h"

struct plan_blas {
    int64_t from;           /* rows, a power of two, from which on; 0: never */
    bool dequant;           /* the weights have to be made 16-bit first, by this: */
    struct plan weights;    /* of op=dequant */
    int64_t weight_bytes;   /* what it writes; 0 without */
    double own_us, blas_us; /* modelled, for `from` rows */
};

/* The fewest rows that hipBLASLt is considered for: one tile of its. */
#define PLAN_BLAS_LEAST 64
/* The most rows that one product takes; more are several. */
#define PLAN_BLAS_ROWS 8192

/* Decides from the modelled time of a set's largest kernel, for layers with 16-bit activations and
 * results, and without a bias: a product's descriptor would have to name it at each launch. */
struct plan_blas plan_blas_choose(const struct plan_set *set);

/* Appends what a launch of m rows does with workspace, for people; nothing if m is too few. */
void plan_blas_explain(const struct plan_blas *b, int64_t m, struct str *out);

#endif
