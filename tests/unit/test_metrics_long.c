/* SPDX-License-Identifier: MIT */
/*
 * What shipped kernels ask of the parts of a GPU besides instructions, counted on the software GPU:
 * layers of language models on six parts, one row of A and several. Where a layer misses what is
 * asked of all (t_metrics.h), its own bound stands here and the reason in docs/kernels.md.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_metrics.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const targets[] = {"gfx1100", "gfx1151", "gfx1201",
                                      "gfx90a",  "gfx942",  "gfx950"};

/* Shares of memory time that the issue port takes where more than 0.8 is. More than 1 stands where
 * another bound than memory is allowed: A in f32 keeps CDNA's path to the cache busy for longer. */
static const struct {
    const char *target, *words; /* words that the problem begins with */
    int n, k, m;                /* 0: any */
    double port;
} bounds[] = {
    {"gfx950", "wq=nf4 a=bf16", 0, 4096, 4, 0.84},
    {"gfx942", "wq=nf4 a=f32", 0, 0, 1, 1.01},
    {"gfx950", "wq=nf4 a=f32", 0, 0, 1, 1.01},
    {"gfx950", "wq=nf4", 0, 2560, 1, 0.96},
    {"gfx950", "wq=nf4 a=bf16 scale=nested", 0, 4096, 1, 0.87},
};

static double port_max(const char *target, const char *words, int n, int k, int m)
{
    for (size_t i = 0; i < COUNT(bounds); i++)
        if (!strcmp(bounds[i].target, target) &&
            !strncmp(bounds[i].words, words, strlen(bounds[i].words)) &&
            (!bounds[i].n || bounds[i].n == n) && (!bounds[i].k || bounds[i].k == k) &&
            (!bounds[i].m || bounds[i].m == m))
            return bounds[i].port;
    return 0;
}

struct layers {
    const char *words;
    int n, k, m;
};

static void check(const struct layers *layers, size_t count)
{
    for (size_t t = 0; t < COUNT(targets); t++) {
        quern_ctx *const ctx = t_open(targets[t], t_cache, QUERN_JIT_ON);
        for (size_t i = 0; i < count; i++) {
            const struct layers *const l = &layers[i];
            char text[96];
            snprintf(text, sizeof text, "%s n=%d k=%d", l->words, l->n, l->k);
            const struct t_metrics x = t_metrics_of(ctx, targets[t], text, l->m);
            t_metrics_check(targets[t], text, l->m,
                            port_max(targets[t], l->words, l->n, l->k, l->m), &x);
        }
        quern_close(ctx);
    }
}

static void nf4(void **state)
{
    static const struct layers layers[] = {
        {"wq=nf4 a=f16", 4096, 4096, 1},    {"wq=nf4 a=bf16", 4096, 4096, 1},
        {"wq=nf4 a=bf16", 8192, 8192, 1},   {"wq=nf4 a=bf16", 24576, 4096, 1},
        {"wq=nf4 a=bf16", 4096, 12288, 1},  {"wq=nf4 a=bf16", 19456, 2560, 1},
        {"wq=nf4 a=bf16", 1024, 4096, 1},   {"wq=nf4 a=bf16", 512, 2880, 1},
        {"wq=nf4 a=f32", 4096, 4096, 1},    {"wq=nf4 a=f32", 24576, 4096, 1},
        {"wq=nf4 a=f32", 19456, 2560, 1},   {"wq=nf4 a=bf16 scale=nested", 4096, 4096, 1},
        {"wq=mxfp4 a=bf16", 5760, 2880, 1}, {"wq=nf4 a=bf16", 4096, 4096, 4},
        {"wq=nf4 a=bf16", 24576, 4096, 4},
    };

    (void)state;
    check(layers, COUNT(layers));
}

static void int4(void **state)
{
    static const struct layers layers[] = {
        {"wq=int4 a=f16 zero=u8", 4096, 4096, 1},
        {"wq=int4 a=f16 zero=u8", 24576, 4096, 1},
        {"wq=int4 a=bf16 zero=u8", 4096, 4096, 1},
        {"wq=int4 a=bf16 zero=u8", 24576, 4096, 1},
    };

    (void)state;
    check(layers, COUNT(layers));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nf4), cmocka_unit_test(int4)};

    return cmocka_run_group_tests_name("metrics", tests, t_cache_make, t_cache_remove);
}
