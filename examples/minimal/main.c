/* SPDX-License-Identifier: MIT */
/* Open, make an op, launch: on a GPU, or with QUERN_TARGET=gfx1151 on a software one. */
#include <quern/quern.h>

#include <stdio.h>
#include <string.h>

enum { M = 2, N = 64, K = 128, BLOCK = 64 };
static float a[M * K], absmax[N * K / BLOCK], c[M * N];
static unsigned char b[N * K / 2];

int main(void)
{
    const void *from[4] = {a, b, absmax, c};
    const size_t bytes[4] = {sizeof a, sizeof b, sizeof absmax, sizeof c};
    struct quern_args args = QUERN_INIT(struct quern_args);
    struct quern_problem layer = QUERN_INIT(struct quern_problem);
    quern_buffer *memory[4] = {NULL};
    quern_ctx *ctx = NULL;
    quern_op *op = NULL;

    for (int i = 0; i < M * K; i++)
        a[i] = 1.0f, absmax[i / 2] = 0.5f; /* row sums of W come out, */
    memset(b, 0xf7, sizeof b);             /* whose weights are 1.0 and 0.0 in turn, times 0.5 */
    int failed = quern_open(NULL, &ctx) || quern_problem_parse("wq=nf4 n=64 k=128 a=f32", &layer) ||
                 quern_op_create(ctx, &layer, M, &op);
    for (int i = 0; i < 4 && !failed; i++) /* a host that owns GPU memory passes its own */
        failed = quern_buffer_create(ctx, bytes[i], QUERN_READ_WRITE, NULL, &memory[i]) ||
                 quern_buffer_write(memory[i], from[i], bytes[i]);
    args.a = quern_buffer_address(memory[0]), args.b = quern_buffer_address(memory[1]);
    args.scales = quern_buffer_address(memory[2]), args.c = quern_buffer_address(memory[3]);
    if (failed || quern_op_launch(op, &args, M, NULL) || quern_buffer_read(memory[3], c, sizeof c))
        return fprintf(stderr, "%s\n", quern_last_error()->message), 1;
    printf("c[0] = %g, expected %g\n", (double)c[0], K / 2 * 0.5);
    for (int i = 0; i < 4; i++)
        quern_buffer_destroy(memory[i]);
    quern_op_release(op);
    quern_close(ctx);
}
