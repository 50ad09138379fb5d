/* SPDX-License-Identifier: MIT */
/*
 * Where the vendor's matrix library is faster: from some number of rows on, it takes less time to
 * dequantise the weights to 16 bits once and multiply them by hipBLASLt or cuBLASLt than to decode
 * them anew for every slice of A, as quern's kernels do. All functions are pure.
 */
#ifndef QUERN_PLAN_BLAS_CHOICE_H
#define QUERN_PLAN_BLAS_CHOICE_H

#include "plan/plan.h"

struct plan_blas {
    int64_t from;           /* the library serves so many rows and more, a power of two; 0: none */
    bool dequant;           /* the weights are quantised: the kernel `weights` writes them first */
    struct plan weights;    /* a plan of op=dequant; unused without `dequant` */
    int64_t weight_bytes;   /* what that kernel writes; 0 without `dequant` */
    double own_us, blas_us; /* modelled, for `from` rows */
};

/* The fewest rows that the library is considered for: those of one of its tiles. */
#define PLAN_BLAS_LEAST 64
/* The most rows of one product; a launch of more rows makes several products. */
#define PLAN_BLAS_ROWS 8192

/* Compares the modelled times of a set's kernels with the library's. It is considered for layers
 * with 16-bit activations and results, and without a bias, whose address would have to be put into
 * the product's descriptor at each launch. */
struct plan_blas plan_blas_choose(const struct plan_set *set);

/* Appends, for people, what a launch of m rows does if the host gives workspace; nothing if
 * the library is not used for so few. */
void plan_blas_explain(const struct plan_blas *b, int64_t m, struct str *out);

#endif
