/* SPDX-License-Identifier: MIT */
/*
 * What the library costs around its kernels: opening it, creating ops from a warm cache, finding a
 * known op among many, by one thread and by several. Prints the least of many rounds, as the
 * machine may be busy with other things. `bench_machinery DIRECTORY` keeps its cache there; the
 * first run fills it.
 */
#include "dispatch/dispatch.h"
#include "base/os.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MANY    1024
#define THREADS 4
#define ROUNDS  50
#define FINDS   (64 * MANY)

static const char layer[] = "wq=nf4 n=4096 k=4096 a=bf16";

static void must(quern_status status)
{
    if (status == QUERN_OK)
        return;
    fprintf(stderr, "%s\n", quern_last_error()->message);
    exit(1);
}

static quern_ctx *open_here(const char *directory)
{
    struct quern_options o = QUERN_INIT(struct quern_options);
    quern_ctx *ctx;

    o.device = QUERN_DEVICE_NONE;
    o.target = "gfx1151";
    o.cache_dir = directory;
    must(quern_open(&o, &ctx));
    return ctx;
}

static double microseconds_since(uint64_t start)
{
    return (double)(os_now() - start) * 1e-3;
}

static void least(double *least, double now)
{
    if (!*least || now < *least)
        *least = now;
}

/* Opening, and creating the op of a layer whose kernels are in the cache. */
static void open_and_create(const char *directory)
{
    double opening = 0, creating = 0;
    size_t kernels = 0;

    for (int round = 0; round < ROUNDS; round++) {
        struct quern_problem problem;
        quern_op *op;
        must(quern_problem_parse(layer, &problem));
        uint64_t start = os_now();
        quern_ctx *const ctx = open_here(directory);
        least(&opening, microseconds_since(start));
        start = os_now();
        must(quern_op_create(ctx, &problem, 8, &op));
        kernels = quern_op_kernel_count(op);
        if (round) /* the first may have compiled */
            least(&creating, microseconds_since(start) / (double)kernels);
        quern_op_release(op);
        quern_close(ctx);
    }
    printf("opening the library: %.0f us\n", opening);
    printf("creating an op from a warm cache: %.0f us a kernel, of %zu\n", creating, kernels);
}

struct finder {
    quern_ctx *ctx;
    const struct quern_problem *problems;
    size_t count;
    double ns;
};

static void *find_often(void *user)
{
    struct finder *const f = user;
    const uint64_t start = os_now();

    for (size_t i = 0; i < FINDS; i++) {
        quern_op *op;
        /* in no order that a processor could learn */
        if (quern_op_create(f->ctx, &f->problems[i * 389 % f->count], 1, &op) != QUERN_OK)
            abort();
        quern_op_release(op);
    }
    f->ns = (double)(os_now() - start) / FINDS;
    return NULL;
}

/* Nanoseconds of one call, on each of several threads at once: the slowest of them. */
static double find_on(const struct finder *what, int threads)
{
    double result = 0;

    for (int round = 0; round < ROUNDS; round++) {
        struct finder f[THREADS];
        pthread_t id[THREADS];
        double slowest = 0;
        for (int i = 0; i < threads; i++) {
            f[i] = *what;
            pthread_create(&id[i], NULL, find_often, &f[i]);
        }
        for (int i = 0; i < threads; i++) {
            pthread_join(id[i], NULL);
            slowest = f[i].ns > slowest ? f[i].ns : slowest;
        }
        least(&result, slowest);
    }
    return result;
}

/* Finding needs the ops alone, so all have the kernels of one, rather than a thousand compiles. */
static void find_known(const char *directory)
{
    static struct quern_problem problems[MANY];
    static quern_op *ops[MANY];
    quern_ctx *const ctx = open_here(directory);
    char text[64];
    quern_op *one;

    must(quern_problem_parse(layer, &problems[0]));
    must(quern_op_create(ctx, &problems[0], 1, &one));
    for (int i = 1; i < MANY; i++) {
        snprintf(text, sizeof text, "wq=nf4 n=%d k=%d a=bf16", 64 * (1 + i % 32),
                 64 * (1 + i / 32));
        must(quern_problem_parse(text, &problems[i]));
        must(quern_op_create_flags(ctx, &problems[i], 1, QUERN_OP_NO_COMPILE | QUERN_OP_NO_WAIT,
                                   &ops[i]));
        while (quern_op_ready(ops[i]) == QUERN_E_NOT_READY)
            os.nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        atomic_store(&ops[i]->kernels, atomic_load(&one->kernels));
        atomic_store(&ops[i]->covers, atomic_load(&one->covers));
    }
    const struct finder single = {ctx, problems, 1, 0}, many = {ctx, problems, MANY, 0};
    printf("creating and releasing a known op: %.1f ns\n", find_on(&single, 1));
    printf("the same, one of %d: %.1f ns\n", MANY, find_on(&many, 1));
    printf("the same, on %d threads at once: %.1f ns\n", THREADS, find_on(&many, THREADS));
    for (int i = 1; i < MANY; i++) {
        atomic_store(&ops[i]->kernels, NULL);
        quern_op_release(ops[i]);
    }
    quern_op_release(one);
    quern_close(ctx);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: bench_machinery DIRECTORY\n");
        return 2;
    }
    open_and_create(argv[1]);
    find_known(argv[1]);
    return 0;
}
