/* SPDX-License-Identifier: MIT */
/*
 * One context, one op, many threads with a stream each. Needs a GPU and the HIP runtime. Nothing is
 * locked: an op is immutable once it is made, and a launch touches only its own arguments. Each
 * thread sets the device once, as for its own HIP calls.
 */
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <quern/quern.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 96, K = 256, BLOCK = 64, THREADS = 4, ROUNDS = 8 };

static quern_op *op;
static void *weights, *scales;

static void hip(hipError_t error, const char *doing)
{
    if (error != hipSuccess) {
        fprintf(stderr, "threads: %s: %s\n", doing, hipGetErrorName(error));
        exit(1);
    }
}

static void check(quern_status status, const char *doing)
{
    if (status != QUERN_OK) {
        fprintf(stderr, "threads: %s: %s\n", doing, quern_last_error()->message);
        exit(1);
    }
}

/* Answers of a thread's number of rows; what is wrong counts up *user. */
static void *serve(void *user)
{
    int *const wrong = user;
    const int rows = *wrong;
    const size_t a_bytes = (size_t)rows * K * sizeof(float), c_bytes = (size_t)rows * N * 4;
    float *const host = malloc(a_bytes + c_bytes), *const c = host + rows * K;
    struct quern_args args = QUERN_INIT(struct quern_args);
    hipStream_t stream;
    void *there[2];

    *wrong = 0;
    hip(hipSetDevice(0), "choosing the device");
    hip(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "making a stream");
    hip(hipMalloc(&there[0], a_bytes), "allocating");
    hip(hipMalloc(&there[1], c_bytes), "allocating");
    args.a = there[0];
    args.b = weights;
    args.scales = scales;
    args.c = there[1];
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < rows * K; i++)
            host[i] = (float)round;
        hip(hipMemcpyAsync(there[0], host, a_bytes, hipMemcpyHostToDevice, stream), "copying");
        check(quern_op_launch(op, &args, rows, stream), "launching");
        hip(hipMemcpyAsync(c, there[1], c_bytes, hipMemcpyDeviceToHost, stream), "copying");
        hip(hipStreamSynchronize(stream), "waiting");
        for (int i = 0; i < rows * N; i++)
            *wrong += c[i] != (float)(round * K / 2);
    }
    hip(hipFree(there[0]), "freeing");
    hip(hipFree(there[1]), "freeing");
    hip(hipStreamDestroy(stream), "freeing");
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
    options.device = QUERN_DEVICE_HIP;
    check(quern_open(&options, &ctx), "opening the GPU");
    check(quern_problem_parse("wq=nf4 n=96 k=256 a=f32", &layer), "the layer");
    check(quern_op_create(ctx, &layer, 8, &op), "making kernels");
    hip(hipMalloc(&weights, sizeof b), "allocating");
    hip(hipMalloc(&scales, sizeof absmax), "allocating");
    hip(hipMemcpy(weights, b, sizeof b, hipMemcpyHostToDevice), "copying");
    hip(hipMemcpy(scales, absmax, sizeof absmax, hipMemcpyHostToDevice), "copying");

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
    hip(hipFree(weights), "freeing");
    hip(hipFree(scales), "freeing");
    quern_op_release(op);
    quern_close(ctx);
    return wrong != 0;
}
