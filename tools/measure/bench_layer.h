/* SPDX-License-Identifier: MIT */
/*
 * A layer with made-up operands on the software GPU, on which kernels of different makers can run
 * one after another, and the error of what they write. For quern bench. Layers of op=gemm, and of
 * op=moe with its experts drawn evenly (choices.h).
 */
#ifndef TOOLS_BENCH_LAYER_H
#define TOOLS_BENCH_LAYER_H

#include "command/command.h"

/* Zero-initialise it, and its args by QUERN_INIT; end it with bench_layer_free. */
struct bench_layer {
    struct quern_problem problem;
    char text[QUERN_TEXT_MAX];
    struct quern_quantized weights[QUERN_OPERANDS_MAX];
    size_t weight_count;
    void *a, *bias, *c;
    float *a_value, *w_value, *bias_value; /* the operands' exact values, for the reference */
    int32_t *ids;                          /* of op=moe: the experts of each token */
    int32_t *rows, *experts, rows_used;    /* likewise: the blocks of the kernel that runs */
    quern_sim *sim;
    struct quern_args args; /* the operands for m rows, as addresses on the software GPU */
};

/* Makes operands for up to m_max rows of layer->problem, and maps the weights on a new software GPU
 * of the target, with the disassembler of `ctx`. */
int bench_layer_make(struct bench_layer *layer, int64_t m_max, quern_ctx *ctx, const char *target,
                     const struct quern_options *library);
/* Maps a and c for m rows, c filled with NaN, so that results which a kernel does not write count
 * as wrong; of op=moe the choices in blocks of `block_rows` too. Unmaps what was there before. */
int bench_layer_rows(struct bench_layer *layer, int64_t m, int block_rows);
/* The largest error of the results for m rows that are in c, beside the largest result. One that is
 * NaN or infinite makes it infinite. */
double bench_layer_error(const struct bench_layer *layer, int64_t m);
/* The weights that m rows need: those of the experts that are chosen, once. */
double bench_layer_weights(const struct bench_layer *layer, int64_t m);
void bench_layer_free(struct bench_layer *layer);

#endif
