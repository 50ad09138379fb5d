/* SPDX-License-Identifier: MIT */
/*
 * The three ways in which this program computes linear layers. Everything else of the encoder is
 * the same for all, in double, so that what differs between their answers comes from the linear
 * layers.
 */
#ifndef ENCODER_BACKEND_H
#define ENCODER_BACKEND_H

#include "model.h"

#include <quern/weights.h>

/* A group of weights that share a scale. */
#define BACKEND_GROUP 64

struct backend {
    /* y[rows][outputs] = x[rows][inputs] . weight^T + bias of the model's linear layer `index` */
    void (*apply)(struct backend *backend, size_t index, const double *x, size_t rows, double *y);
    void (*close)(struct backend *backend);
    char target[64]; /* of (c): what it runs on */
};

/* The weights of a linear layer, quantised; `operands` as quern_quantize gives them. */
struct quantised {
    struct quern_problem problem;
    struct quern_quantized operands[QUERN_OPERANDS_MAX];
    size_t count;
};

/* Quantises all linear layers to NF4 for activations of `dtype`. */
struct quantised *quantise_model(const struct model *model, enum quern_dtype dtype);
void quantised_free(struct quantised *quantised, size_t count);

/* (a) The model's own weights, on the CPU, in double. */
struct backend *backend_plain(const struct model *model);

/* (b) The values of the quantised weights, on the CPU, in double. */
struct backend *backend_nf4(const struct model *model, const struct quantised *quantised);

/*
 * (c) The quantised weights, by quern, on a software GPU of `target`, or (null) on the GPU that the
 * HIP runtime has. Makes an op for each layer:
 * kernels come from the cache or are compiled. The model and the weights must outlive it.
 */
struct backend *backend_quern(const struct model *model, const struct quantised *quantised,
                              const char *target);

#endif
