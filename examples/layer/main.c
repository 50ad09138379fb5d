/* SPDX-License-Identifier: MIT */
/* One int4 layer with zero points, whose operands are packed by hand to show where each number is;
 * on a GPU, or with QUERN_TARGET=gfx1151 on a software one. docs/embedding.md says more. */
#include <quern/quern.h>

#include <stdint.h>
#include <stdio.h>

enum { M = 3, N = 64, K = 256, GROUP = 128 };
static const char text[] = "wq=int4 group=128 zero=u8 scale=f32 n=64 k=256 a=f32";
static float a[M][K], scales[N][K / GROUP], c[M][N];
static uint32_t b[N][K / 8];        /* eight codes in a word, the first in its lowest bits */
static uint8_t zeros[N][K / GROUP]; /* not packed, and nothing is added to them */

static unsigned code(int n, int k)
{
    return (unsigned)(n + 7 * k) % 16;
}

static void fill(void)
{
    for (int m = 0; m < M; m++)
        for (int k = 0; k < K; k++)
            a[m][k] = (float)((m + k) % 5 - 2);
    for (int n = 0; n < N; n++)
        for (int g = 0; g < K / GROUP; g++) {
            scales[n][g] = 0.25f * (float)(1 + (n + g) % 3);
            zeros[n][g] = (uint8_t)((3 * n + g) % 16);
        }
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++)
            b[n][k / 8] |= code(n, k) << 4 * (k % 8);
}

/* What the layer computes. */
static double expected(int m, int n)
{
    double sum = 0;

    for (int k = 0; k < K; k++)
        sum += (double)a[m][k] * scales[n][k / GROUP] * ((int)code(n, k) - zeros[n][k / GROUP]);
    return sum;
}

/* A host that owns GPU memory passes its own: these buffers are for programs that do not. */
static quern_status run(quern_ctx *ctx, quern_op *op, quern_buffer *memory[5])
{
    const void *const from[5] = {a, b, scales, zeros, c};
    const size_t bytes[5] = {sizeof a, sizeof b, sizeof scales, sizeof zeros, sizeof c};
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_status status = QUERN_OK;

    for (int i = 0; i < 5 && !status; i++) {
        status =
            quern_buffer_create(ctx, bytes[i], i < 4 ? QUERN_READ : QUERN_WRITE, NULL, &memory[i]);
        if (!status && i < 4)
            status = quern_buffer_write(memory[i], from[i], bytes[i]);
    }
    if (status)
        return status;
    args.a = quern_buffer_address(memory[0]);
    args.b = quern_buffer_address(memory[1]);
    args.scales = quern_buffer_address(memory[2]);
    args.zeros = quern_buffer_address(memory[3]);
    args.c = quern_buffer_address(memory[4]);
    status = quern_op_launch(op, &args, M, NULL);
    return status ? status : quern_buffer_read(memory[4], c, sizeof c);
}

int main(void)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    quern_buffer *memory[5] = {NULL};
    quern_ctx *ctx = NULL;
    quern_op *op = NULL;
    int wrong = 0;

    fill();
    if (quern_open(NULL, &ctx) || quern_problem_parse(text, &problem) ||
        quern_op_create(ctx, &problem, M, &op) || run(ctx, op, memory))
        return fprintf(stderr, "%s\n", quern_last_error()->message), 1;
    for (int i = 0; i < M * N; i++)
        wrong += (double)c[i / N][i % N] != expected(i / N, i % N);
    printf("c[%d][%d] = %g, expected %g; %d of %d are others\n", M - 1, N - 1,
           (double)c[M - 1][N - 1], expected(M - 1, N - 1), wrong, M * N);
    for (int i = 0; i < 5; i++)
        quern_buffer_destroy(memory[i]);
    quern_op_release(op);
    quern_close(ctx);
    return wrong != 0;
}
