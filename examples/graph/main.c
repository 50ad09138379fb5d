/* SPDX-License-Identifier: MIT */
/*
 * A decoding step as a graph: two layers captured once, replayed for every token. Needs a GPU; with
 * HIP it is graph, with CUDA graph_cuda. What matters for quern is the order: every op exists
 * before the capture begins; inside it quern_op_launch records kernels and does nothing else.
 */
#include "../gpu.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 256, BLOCK = 64, TOKENS = 4, LAYERS = 2 };

static void *on_gpu(const void *from, size_t bytes, void *stream)
{
    void *const there = gpu_allocate(bytes);

    if (from)
        gpu_copy_to(there, from, bytes, stream);
    return there;
}

int main(void)
{
    static unsigned char b[WIDTH * WIDTH / 2];
    static float absmax[WIDTH * WIDTH / BLOCK], x[WIDTH];
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_args args[LAYERS] = {QUERN_INIT(struct quern_args), QUERN_INIT(struct quern_args)};
    struct quern_problem layer = QUERN_INIT(struct quern_problem);
    quern_ctx *ctx;
    quern_op *op, *again;

    memset(b, 0xf7, sizeof b); /* 1.0 and 0.0 in turn */
    for (size_t i = 0; i < sizeof absmax / sizeof *absmax; i++)
        absmax[i] = 1.0f / (WIDTH / 2); /* so that each layer gives the mean of every other input */

    gpu_use();
    options.device = gpu_kind;
    gpu_check(quern_open(&options, &ctx), "opening the GPU");
    gpu_check(quern_problem_parse("wq=nf4 n=256 k=256 a=f32", &layer), "the layer");
    gpu_check(quern_op_create(ctx, &layer, 1, &op), "making kernels");

    void *const stream = gpu_stream();
    void *const state[LAYERS + 1] = {on_gpu(NULL, sizeof x, stream), on_gpu(NULL, sizeof x, stream),
                                     on_gpu(NULL, sizeof x, stream)};
    void *const weights = on_gpu(b, sizeof b, stream);
    void *const scales = on_gpu(absmax, sizeof absmax, stream);
    for (int i = 0; i < LAYERS; i++) {
        args[i].a = state[i];
        args[i].b = weights;
        args[i].scales = scales;
        args[i].c = state[i + 1];
    }

    gpu_capture(stream);
    /* a host that looks its ops up as it goes asks like this: nothing is compiled in a capture */
    gpu_check(quern_op_create_on(ctx, &layer, 1, stream, &again), "finding the op");
    for (int i = 0; i < LAYERS; i++)
        gpu_check(quern_op_launch(again, &args[i], 1, stream), "launching");
    void *const graph = gpu_capture_end(stream);

    for (int token = 1; token <= TOKENS; token++) {
        for (int i = 0; i < WIDTH; i++)
            x[i] = (float)token;
        gpu_copy_to(state[0], x, sizeof x, stream);
        gpu_replay(graph, stream);
        gpu_copy_from(x, state[LAYERS], sizeof x, stream);
        gpu_wait(stream);
        printf("token %d: %g\n", token, (double)x[0]);
    }

    gpu_graph_free(graph);
    gpu_stream_free(stream);
    for (int i = 0; i <= LAYERS; i++)
        gpu_free(state[i]);
    gpu_free(weights);
    gpu_free(scales);
    quern_op_release(again);
    quern_op_release(op);
    quern_close(ctx);
    return 0;
}
