/* SPDX-License-Identifier: MIT */
/*
 * The shortest way: open, make an op, launch. On the GPU of this machine, or with QUERN_TARGET=
 * gfx1151 on the software GPU.
 */
#include <quern/tool.h>

#include <stdio.h>
#include <string.h>

enum { M = 2, N = 64, K = 128, BLOCK = 64 };
static float a[M * K], absmax[N * K / BLOCK], c[M * N];
static unsigned char b[N * K / 2];

/* A host that owns GPU memory passes its own addresses instead. */
static void *place(quern_ctx *ctx, const void *from, size_t bytes, quern_buffer **buffer)
{
    if (quern_buffer_create(ctx, bytes, from ? QUERN_SIM_READ : QUERN_SIM_WRITE, NULL, buffer) ||
        (from && quern_buffer_write(*buffer, from, bytes)))
        return NULL; /* which the launch will refuse */
    return quern_buffer_address(*buffer);
}

int main(void)
{
    struct quern_problem layer;
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_buffer *memory[4] = {NULL};
    quern_ctx *ctx = NULL;
    quern_op *op = NULL;

    for (int i = 0; i < M * K; i++)
        a[i] = 1.0f;           /* row sums of W come out */
    memset(b, 0xf7, sizeof b); /* 1.0 and 0.0 in turn */
    for (int i = 0; i < N * K / BLOCK; i++)
        absmax[i] = 0.5f;
    int failed = quern_open(NULL, &ctx) || quern_problem_parse("wq=nf4 n=64 k=128 a=f32", &layer) ||
                 quern_op_create(ctx, &layer, M, &op);
    if (!failed) {
        args.a = place(ctx, a, sizeof a, &memory[0]);
        args.b = place(ctx, b, sizeof b, &memory[1]);
        args.scales = place(ctx, absmax, sizeof absmax, &memory[2]);
        args.c = place(ctx, NULL, sizeof c, &memory[3]);
        failed = quern_op_launch(op, &args, M, NULL) || quern_buffer_read(memory[3], c, sizeof c);
    }
    if (failed)
        fprintf(stderr, "%s\n", quern_last_error()->message);
    else
        printf("c[0] = %g, expected %g\n", (double)c[0], K / 2 * 0.5);
    for (int i = 0; i < 4; i++)
        quern_buffer_destroy(memory[i]);
    quern_op_release(op);
    quern_close(ctx);
    return failed;
}
