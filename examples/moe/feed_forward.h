/* SPDX-License-Identifier: MIT */
/* The feed-forward network of a BERT layer: y = GELU(x . up^T + up_bias) . down^T + down_bias. */
#ifndef MOE_FEED_FORWARD_H
#define MOE_FEED_FORWARD_H

#include "../safetensors.h"

#include <quern/weights.h>

/* Weights that share a scale. Experts are runs of columns of `down` and a multiple of this wide, so
 * that each weight has the same neighbours, and the same value, in an expert and in the whole. */
#define GROUP 64

struct feed_forward {
    size_t hidden, wide;
    const float *up, *up_bias;     /* [wide][hidden], [wide] */
    const float *down, *down_bias; /* [hidden][wide], [hidden] */
};

/* That of layer `layer` of a model, whose file keeps the weights. Fails with a message. */
struct feed_forward feed_forward_read(const struct safetensors *file, size_t layer);

/* An NF4 layer of n x k weights for activations in f32, with a bias. */
struct quern_problem feed_forward_problem(size_t n, size_t k);

double gelu(double x);

/* The whole layer in double on the CPU, with the values that its weights have in NF4: y is
 * [tokens][hidden], for x of that shape. */
void feed_forward_apply(const struct feed_forward *f, const float *x, size_t tokens, double *y);

#endif
