/* SPDX-License-Identifier: MIT */
/* The smallest host: one NF4 linear layer on the software GPU. docs/embedding.md says more. */
#include <quern/quern.h>
#include <quern/sim.h>

#include <stdio.h>

enum { M = 3, N = 64, K = 128, BLOCK = 64 };
static float a[M][K], c[M][N], absmax[N][K / BLOCK];
static unsigned char b[N][K / 2];

static void *device(quern_sim *gpu, void *host, size_t bytes, enum quern_sim_access access)
{
    uint64_t address = 0;

    quern_sim_map(gpu, host, bytes, access, NULL, &address);
    return (void *)(uintptr_t)address;
}

int main(void)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_problem layer = QUERN_INIT(struct quern_problem);
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_ctx *ctx = NULL;
    quern_op *op = NULL;

    for (int i = 0; i < M * K; i++)
        a[i / K][i % K] = 1.0f; /* row sums of W come out */
    for (int i = 0; i < N * K / 2; i++)
        b[i / (K / 2)][i % (K / 2)] = 0xf7; /* 1.0 and 0.0 in turn */
    for (int i = 0; i < N * K / BLOCK; i++)
        absmax[i / (K / BLOCK)][i % (K / BLOCK)] = 0.5f;

    options.target = "gfx1151";
    if (quern_open(&options, &ctx) || quern_problem_parse("wq=nf4 n=64 k=128 a=f32", &layer) ||
        quern_op_create(ctx, &layer, 8, &op))
        goto failed;
    quern_sim *const gpu = quern_ctx_sim(ctx);
    args.a = device(gpu, a, sizeof a, QUERN_SIM_READ);
    args.b = device(gpu, b, sizeof b, QUERN_SIM_READ);
    args.scales = device(gpu, absmax, sizeof absmax, QUERN_SIM_READ);
    args.c = device(gpu, c, sizeof c, QUERN_SIM_WRITE);
    if (quern_op_launch(op, &args, M, NULL))
        goto failed;
    printf("c[0][0] = %g, c[%d][%d] = %g, expected %g\n", c[0][0], M - 1, N - 1, c[M - 1][N - 1],
           K / 2 * 0.5);
    quern_op_release(op);
    quern_close(ctx);
    return 0;
failed:
    fprintf(stderr, "%s\n", quern_last_error()->message);
    return 1;
}
