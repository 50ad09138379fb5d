/* SPDX-License-Identifier: MIT */
/* How fast one core repacks int4 weights, between all layouts and out of checkpoints, scales, zero
 * points and act-order too: bytes of weights a second. */
#include "problem/problem.h"

#include <quern/tool.h>

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPEATS 9
enum { N = 4096, K = 4096, GROUP = 128 };

static const enum quern_layout layouts[] = {QUERN_LAYOUT_K8, QUERN_LAYOUT_EXL, QUERN_LAYOUT_CK,
                                            QUERN_LAYOUT_GPTQ, QUERN_LAYOUT_AWQ};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

/* What this process has had of the CPU: other processes do not count. */
static double cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void must(quern_status status)
{
    if (status == QUERN_OK)
        return;
    fprintf(stderr, "%s\n", quern_last_error()->message);
    exit(1);
}

/* The rate of one run that took so long since `start`, if it is the best, in GB/s. */
static void note_rate(double start, double *best)
{
    const double rate = (double)N * K / 2 / (cpu_ns() - start);

    *best = rate > *best ? rate : *best;
}

static double measure(const struct quern_problem *p, enum quern_layout to, const void *b, void *out)
{
    double best = 0;

    for (int i = 0; i < REPEATS; i++) {
        const double start = cpu_ns();
        must(quern_repack(p, to, b, out));
        note_rate(start, &best);
    }
    return best;
}

static double measure_import(const struct quern_problem *p, const struct quern_checkpoint *from)
{
    struct quern_quantized made[QUERN_OPERANDS_MAX];
    double best = 0;
    size_t count;

    for (int i = 0; i < REPEATS; i++) {
        const double start = cpu_ns();
        must(quern_import(p, from, made, &count));
        note_rate(start, &best);
        quern_quantized_free(made, count);
    }
    return best;
}

/* Of layers with zero points, in f16, to the layouts that kernels read; `b` is any weights. */
static void bench_checkpoints(struct quern_problem *p, const void *b)
{
    static const struct {
        const char *name;
        enum quern_checkpoint_kind kind;
        bool ordered;
    } rows[] = {{"gptq", QUERN_CHECKPOINT_GPTQ, false},
                {"gptq, act-order", QUERN_CHECKPOINT_GPTQ, true},
                {"awq", QUERN_CHECKPOINT_AWQ, false},
                {"compressed", QUERN_CHECKPOINT_COMPRESSED, false},
                {"compressed, act-order", QUERN_CHECKPOINT_COMPRESSED, true}};
    static uint16_t scales[N * (K / GROUP)];
    static int32_t g_idx[K];

    for (size_t i = 0; i < K; i++)
        g_idx[i] = (int32_t)(i * 1597 % K / GROUP); /* 1597 is odd: each place once */
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        scales[i] = 0x2c00;
    p->zero = QUERN_ZERO_U8;
    printf("\nof a checkpoint's layer, zero=u8, group=%d:\n%-22s", GROUP, "");
    for (size_t j = 0; j < 3; j++)
        printf("%8s", layout_name(layouts[j]));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct quern_checkpoint from = {.size = sizeof from,
                                              .kind = rows[i].kind,
                                              .qweight = b,
                                              .qweight_bytes = (size_t)N * K / 2,
                                              .scales = scales,
                                              .scales_bytes = sizeof scales,
                                              .qzeros = b, /* any zero points too */
                                              .qzeros_bytes = (size_t)N * (K / GROUP) / 2,
                                              .g_idx = rows[i].ordered ? g_idx : NULL,
                                              .g_idx_bytes = sizeof g_idx};
        printf("\n%-22s", rows[i].name);
        for (size_t j = 0; j < 3; j++) {
            p->layout = layouts[j];
            printf("%8.2f", measure_import(p, &from));
        }
    }
    printf("\n");
}

int main(void)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof one, &one))
        perror("sched_setaffinity");
    if (quern_problem_parse("wq=int4 n=8 k=128 a=f16", &p))
        return 1;
    p.n = N, p.k = K, p.group = GROUP;
    const size_t bytes = (size_t)N * K / 2;
    void *const b = malloc(bytes), *const out = malloc(bytes);
    if (!b || !out)
        return 1;
    memset(b, 0x5a, bytes);
    printf("GB/s of one core, N = K = 4096, from the left to the top:\n%-6s", "");
    for (size_t j = 0; j < LAYOUTS; j++)
        printf("%8s", layout_name(layouts[j]));
    for (size_t i = 0; i < LAYOUTS; i++) {
        p.layout = layouts[i];
        printf("\n%-6s", layout_name(p.layout));
        for (size_t j = 0; j < LAYOUTS; j++)
            printf("%8.2f", measure(&p, layouts[j], b, out));
    }
    bench_checkpoints(&p, b);
    free(b);
    free(out);
    return 0;
}
