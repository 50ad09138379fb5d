/* SPDX-License-Identifier: MIT */
/*
 * One context, one op, many threads with a stream each. Needs a GPU; with HIP it is threads, with
 * CUDA threads_cuda. Nothing is locked: an op is immutable once it is made, and a launch touches
 * only its own arguments. Each thread chooses the GPU once, as for its own calls of the runtime.
 */
#include "../gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 96, K = 256, BLOCK = 64, THREADS = 4, ROUNDS = 8 };

static quern_op *op;
static void *weights, *scales;

/* Answers of a thread's number of rows; what is wrong counts up *user. */
static void *serve(void *user)
{
    int *const wrong = user;
    const int rows = *wrong;
    const size_t a_bytes = (size_t)rows * K * sizeof(float), c_bytes = (size_t)rows * N * 4;
    float *const host = malloc(a_bytes + c_bytes), *const c = host + rows * K;
    struct quern_args args = QUERN_INIT(struct quern_args);

    *wrong = 0;
    gpu_use();
    void *const stream = gpu_stream(), *const a_there = gpu_allocate(a_bytes),
                *const c_there = gpu_allocate(c_bytes);
    args.a = a_there;
    args.b = weights;
    args.scales = scales;
    args.c = c_there;
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < rows * K; i++)
            host[i] = (float)round;
        gpu_copy_to(a_there, host, a_bytes, stream);
        gpu_check(quern_op_launch(op, &args, rows, stream), "launching");
        gpu_copy_from(c, c_there, c_bytes, stream);
        gpu_wait(stream);
        for (int i = 0; i < rows * N; i++)
            *wrong += c[i] != (float)(round * K / 2);
    }
    gpu_free(a_there);
    gpu_free(c_there);
    gpu_stream_free(stream);
    free(host);
    return NULL;
}

int main(void)
{
    static unsigned char b[N * K / 2];
    static float absmax[N * K / BLOCK];
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_problem layer = QUERN_INIT(struct quern_problem);
    quern_ctx *ctx;
    pthread_t thread[THREADS];
    int result[THREADS], wrong = 0;

    memset(b, 0xf7, sizeof b); /* 1.0 and 0.0 in turn */
    for (size_t i = 0; i < sizeof absmax / sizeof *absmax; i++)
        absmax[i] = 1.0f;
    gpu_use();
    options.device = gpu_kind;
    gpu_check(quern_open(&options, &ctx), "opening the GPU");
    gpu_check(quern_problem_parse("wq=nf4 n=96 k=256 a=f32", &layer), "the layer");
    gpu_check(quern_op_create(ctx, &layer, 8, &op), "making kernels");
    weights = gpu_allocate(sizeof b);
    scales = gpu_allocate(sizeof absmax);
    void *const stream = gpu_stream();
    gpu_copy_to(weights, b, sizeof b, stream);
    gpu_copy_to(scales, absmax, sizeof absmax, stream);
    gpu_wait(stream);
    gpu_stream_free(stream);

    for (int i = 0; i < THREADS; i++) {
        result[i] = i + 1; /* rows in, wrong answers out */
        if (pthread_create(&thread[i], NULL, serve, &result[i]))
            return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        wrong += result[i];
    }
    printf("%d threads, %d launches each, %d wrong answers\n", THREADS, ROUNDS, wrong);
    gpu_free(weights);
    gpu_free(scales);
    quern_op_release(op);
    quern_close(ctx);
    return wrong != 0;
}
