/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_paths.h"

#include "problem/problem.h"
#include "quant/quant.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *t_temp_dir(void)
{
    const char *const parent = getenv("TMPDIR");
    char path[512];

    snprintf(path, sizeof path, "%s/quern-test-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void t_remove(char *directory)
{
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(directory);
}

quern_ctx *t_open(const char *target, const char *directory, enum quern_jit jit)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    quern_ctx *ctx;

    options.device = QUERN_DEVICE_SIM;
    options.target = target;
    options.cache_dir = directory;
    options.jit = jit;
    options.jobs = 2;
    options.worker_path = t_worker_path();
    if (quern_open(&options, &ctx) != QUERN_OK)
        fail_msg("quern_open: %s", quern_last_error()->message);
    return ctx;
}

struct quern_problem t_problem(const char *text)
{
    struct quern_problem p;

    if (quern_problem_parse(text, &p) != QUERN_OK)
        fail_msg("%s: %s", text, quern_last_error()->message);
    return p;
}

static void *map(struct t_layer *l, int slot, void *host, size_t bytes,
                 enum quern_sim_access access, const char *name)
{
    if (!host)
        return NULL;
    assert_int_equal(
        quern_sim_map(quern_ctx_sim(l->ctx), host, bytes, access, name, &l->address[slot]),
        QUERN_OK);
    return (void *)(uintptr_t)l->address[slot];
}

void t_layer_make(struct t_layer *l, quern_ctx *ctx, const struct quern_problem *p, int64_t m,
                  int64_t lda, int64_t ldc, uint64_t seed)
{
    const int64_t groups = p->n * (p->k / problem_group(p));
    const unsigned ea = dtype_bytes(p->a), ec = dtype_bytes(p->c);

    *l = (struct t_layer){
        .ctx = ctx, .problem = *p, .m = m, .lda = lda ? lda : p->k, .ldc = ldc ? ldc : p->n};
    l->a = malloc((size_t)(m * p->k) * ea);
    l->b = malloc((size_t)(p->n * p->k / 2));
    l->scales = malloc((size_t)groups * 4);
    l->bias = p->bias ? malloc((size_t)p->n * ec) : NULL;
    l->c_bytes = (size_t)((m - 1) * l->ldc + p->n) * ec; /* no byte more than the last row needs */
    l->c = calloc(1, l->c_bytes);
    l->reference = malloc((size_t)(m * p->n) * sizeof(double));
    quant_random(p, m, seed, l->a, l->b, l->scales, l->bias);
    const size_t a_bytes = (size_t)((m - 1) * l->lda + p->k) * ea;
    l->a_padded = malloc(a_bytes);
    memset(l->a_padded, 0xff, a_bytes); /* NaN: padding that is used shows */
    for (int64_t i = 0; i < m; i++)
        memcpy((char *)l->a_padded + (size_t)(i * l->lda) * ea,
               (char *)l->a + (size_t)(i * p->k) * ea, (size_t)p->k * ea);
    const struct quant_operands in = {l->a, l->b, l->scales, l->bias};
    assert_int_equal(quant_reference(p, &in, m, l->reference), QUERN_OK);

    l->args = (struct quern_args)QUERN_INIT(struct quern_args);
    l->args.a = map(l, 0, l->a_padded, a_bytes, QUERN_SIM_READ, "a");
    l->args.b = map(l, 1, l->b, (size_t)(p->n * p->k / 2), QUERN_SIM_READ, "b");
    l->args.scales = map(l, 2, l->scales, (size_t)groups * 4, QUERN_SIM_READ, "scales");
    l->args.bias = map(l, 3, l->bias, (size_t)p->n * ec, QUERN_SIM_READ, "bias");
    l->args.c = map(l, 4, l->c, l->c_bytes, QUERN_SIM_WRITE, "c");
    l->args.lda = lda;
    l->args.ldc = ldc;
}

void t_layer_free(struct t_layer *l)
{
    for (int i = 0; i < 5; i++)
        if (l->address[i])
            quern_sim_unmap(quern_ctx_sim(l->ctx), l->address[i]);
    free(l->a);
    free(l->a_padded);
    free(l->b);
    free(l->scales);
    free(l->bias);
    free(l->c);
    free(l->reference);
}

double t_layer_error(const struct t_layer *l)
{
    double largest = 0, difference = 0;

    for (int64_t i = 0; i < l->m; i++)
        for (int64_t j = 0; j < l->problem.n; j++) {
            const double want = l->reference[i * l->problem.n + j];
            const double got = (double)quant_load(l->problem.c, l->c, (size_t)(i * l->ldc + j));
            if (!(fabs(got - want) <= difference))
                difference = isnan(got) ? INFINITY : fabs(got - want);
            largest = fmax(largest, fabs(want));
        }
    return difference / largest;
}
