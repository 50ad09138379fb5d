/* SPDX-License-Identifier: MIT */
/* How fast one core repacks int4 weights, between all layouts: bytes of weights a second. */
#include "problem/problem.h"

#include <quern/quern.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPEATS 9

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

/* The best of a few runs, in GB/s. */
static double measure(const struct quern_problem *p, enum quern_layout to, const void *b, void *out)
{
    const double bytes = (double)p->n * (double)p->k / 2;
    double best = 0;

    for (int i = 0; i < REPEATS; i++) {
        const double start = cpu_ns();
        if (quern_repack(p, to, b, out) != QUERN_OK) {
            fprintf(stderr, "%s\n", quern_last_error()->message);
            exit(1);
        }
        const double rate = bytes / (cpu_ns() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

int main(void)
{
    struct quern_problem p;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    if (sched_setaffinity(0, sizeof one, &one))
        perror("sched_setaffinity");
    if (quern_problem_parse("wq=int4 n=4096 k=4096 a=f16", &p))
        return 1;
    const size_t bytes = (size_t)p.n * (size_t)p.k / 2;
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
    printf("\n");
    free(b);
    free(out);
    return 0;
}
