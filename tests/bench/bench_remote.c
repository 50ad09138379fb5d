/* SPDX-License-Identifier: MIT */
/*
 * What a remote cache costs the host (docs/fleet.md): opening a context with one configured, one
 * kernel that comes from it, and fifty at once. tests/bench/fetch.py starts the server and fills it
 * with the layers of layer(). Nothing is compiled. Usage: bench_remote DIRECTORY URL KEYS, of which
 * the directory is made, and has no cache yet.
 */
#include "base/os.h"

#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS   50
#define SINGLES  20
#define TOGETHER 50

static void must(quern_status status, const char *what)
{
    if (status == QUERN_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, quern_last_error()->message);
    exit(1);
}

static double ms_since(uint64_t start)
{
    return (double)(os_now() - start) * 1e-6;
}

static struct quern_problem layer(int number)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    char text[64];

    snprintf(text, sizeof text, "wq=nf4 n=%d k=256 a=bf16", 64 + 16 * number);
    must(quern_problem_parse(text, &problem), text);
    return problem;
}

/* Without a remote if `url` is null. */
static quern_ctx *open_ctx(const char *directory, const char *url, const char *keys)
{
    struct quern_options o = QUERN_INIT(struct quern_options);
    quern_ctx *ctx;

    o.target = "gfx1030";
    o.allow_unverified = 1;
    o.jit = QUERN_JIT_OFF;
    o.cache_dir = directory;
    o.remote = url;
    o.remote_keys = url ? keys : NULL;
    must(quern_open(&o, &ctx), "quern_open");
    return ctx;
}

/* Milliseconds to open a context and close it, the least of ROUNDS. */
static double opening(const char *directory, const char *url, const char *keys)
{
    double least = 1e9;

    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t start = os_now();
        quern_close(open_ctx(directory, url, keys));
        const double ms = ms_since(start);
        least = ms < least ? ms : least;
    }
    return least;
}

/* Milliseconds until an op has its kernel from the remote. */
static double single(quern_ctx *ctx, int number)
{
    const struct quern_problem problem = layer(number);
    const uint64_t start = os_now();
    quern_op *op;

    must(quern_op_create_range(ctx, &problem, 1, 1, &op), "quern_op_create_range");
    const double ms = ms_since(start);
    quern_op_release(op);
    return ms;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    struct quern_layer layers[TOGETHER];
    struct quern_stats stats = QUERN_INIT(struct quern_stats);
    double singles[SINGLES];

    if (argc != 4) {
        fprintf(stderr, "usage: bench_remote DIRECTORY URL KEYS\n");
        return 2;
    }
    const double without = opening(argv[1], NULL, NULL);
    const double with = opening(argv[1], argv[2], argv[3]);
    quern_ctx *const ctx = open_ctx(argv[1], argv[2], argv[3]);
    printf("first %.3f\n", single(ctx, 0)); /* starts the helper, and asks for the list */
    for (int i = 0; i < SINGLES; i++)
        singles[i] = single(ctx, 1 + i);
    qsort(singles, SINGLES, sizeof *singles, compare);
    for (int i = 0; i < TOGETHER; i++)
        layers[i] = (struct quern_layer){layer(1 + SINGLES + i), 1, 1};
    const uint64_t start = os_now();
    must(quern_make(ctx, layers, TOGETHER, NULL, NULL), "quern_make");
    const double together = ms_since(start);
    must(quern_ctx_stats(ctx, &stats), "quern_ctx_stats");
    printf("opening %.3f %.3f\nsingle %.3f %.3f\ntogether %.3f\nhits %llu\n", without, with,
           singles[0], singles[SINGLES / 2], together, (unsigned long long)stats.hit_remote);
    quern_close(ctx);
    return 0;
}
