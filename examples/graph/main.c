/* SPDX-License-Identifier: MIT */
/*
 * A decoding step as a graph: two layers captured once, replayed for every token. Needs a GPU and
 * the HIP runtime. What matters for quern is the order: every op exists before the capture begins;
 * inside it quern_op_launch records kernels and does nothing else.
 */
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <quern/quern.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 256, BLOCK = 64, TOKENS = 4, LAYERS = 2 };

static void hip(hipError_t error, const char *doing)
{
    if (error != hipSuccess) {
        fprintf(stderr, "graph: %s: %s\n", doing, hipGetErrorName(error));
        exit(1);
    }
}

static void check(quern_status status, const char *doing)
{
    if (status != QUERN_OK) {
        fprintf(stderr, "graph: %s: %s\n", doing, quern_last_error()->message);
        exit(1);
    }
}

static void *on_gpu(const void *from, size_t bytes)
{
    void *there;

    hip(hipMalloc(&there, bytes), "allocating");
    if (from)
        hip(hipMemcpy(there, from, bytes, hipMemcpyHostToDevice), "copying");
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
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;

    memset(b, 0xf7, sizeof b); /* 1.0 and 0.0 in turn */
    for (size_t i = 0; i < sizeof absmax / sizeof *absmax; i++)
        absmax[i] = 1.0f / (WIDTH / 2); /* so that each layer gives the mean of every other input */

    options.device = QUERN_DEVICE_HIP;
    check(quern_open(&options, &ctx), "opening the GPU");
    check(quern_problem_parse("wq=nf4 n=256 k=256 a=f32", &layer), "the layer");
    check(quern_op_create(ctx, &layer, 1, &op), "making kernels");

    void *const state[LAYERS + 1] = {on_gpu(NULL, sizeof x), on_gpu(NULL, sizeof x),
                                     on_gpu(NULL, sizeof x)};
    const void *const weights = on_gpu(b, sizeof b), *const scales = on_gpu(absmax, sizeof absmax);
    for (int i = 0; i < LAYERS; i++) {
        args[i].a = state[i];
        args[i].b = weights;
        args[i].scales = scales;
        args[i].c = state[i + 1];
    }

    hip(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "making a stream");
    hip(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), "capturing");
    /* a host that looks its ops up as it goes asks like this: nothing is compiled in a capture */
    check(quern_op_create_on(ctx, &layer, 1, stream, &again), "finding the op");
    for (int i = 0; i < LAYERS; i++)
        check(quern_op_launch(again, &args[i], 1, stream), "launching");
    hip(hipStreamEndCapture(stream, &graph), "ending the capture");
    hip(hipGraphInstantiate(&exec, graph, NULL, NULL, 0), "making the graph");

    for (int token = 1; token <= TOKENS; token++) {
        for (int i = 0; i < WIDTH; i++)
            x[i] = (float)token;
        hip(hipMemcpyAsync(state[0], x, sizeof x, hipMemcpyHostToDevice, stream), "copying");
        hip(hipGraphLaunch(exec, stream), "replaying");
        hip(hipMemcpyAsync(x, state[LAYERS], sizeof x, hipMemcpyDeviceToHost, stream), "copying");
        hip(hipStreamSynchronize(stream), "waiting");
        printf("token %d: %g\n", token, (double)x[0]);
    }

    hip(hipGraphExecDestroy(exec), "freeing");
    hip(hipGraphDestroy(graph), "freeing");
    hip(hipStreamDestroy(stream), "freeing");
    for (int i = 0; i <= LAYERS; i++)
        hip(hipFree(state[i]), "freeing");
    hip(hipFree((void *)weights), "freeing");
    hip(hipFree((void *)scales), "freeing");
    quern_op_release(again);
    quern_op_release(op);
    quern_close(ctx);
    return 0;
}
