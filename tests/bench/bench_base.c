/* SPDX-License-Identifier: MIT */
/*
 * How long a host waits for its first launch on an empty cache, where the library has base kernels
 * (`make base` before): from quern_open to the end of the launch, on a device that does nothing,
 * without a compiler and with one; and then until the op's own kernels have taken over. Each time
 * in a process of its own. Prints the least and the median of many.
 */
#include "dispatch/dispatch.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 25
#define TARGET "gfx1151"
#define LAYER  "wq=nf4 n=4096 k=4096 a=bf16"

static void must(quern_status status)
{
    if (status == QUERN_OK)
        return;
    fprintf(stderr, "bench_base: %s\n", quern_last_error()->message);
    exit(1);
}

/* ---- A device that does nothing -------------------------------------------------------------- */

static quern_status load(struct device *d, const struct object *object, const char *symbol,
                         uint32_t dynamic_lds, struct device_kernel **kernel)
{
    static char loaded;

    (void)d, (void)object, (void)symbol, (void)dynamic_lds;
    *kernel = (struct device_kernel *)&loaded;
    return QUERN_OK;
}

static void unload(struct device *d, struct device_kernel *kernel)
{
    (void)d, (void)kernel;
}

static quern_status launch(struct device *d, struct device_kernel *k, const struct device_launch *l)
{
    (void)d, (void)k, (void)l;
    return QUERN_OK;
}

static void end(struct device *d)
{
    (void)d;
}

static const struct device_functions functions = {
    .load = load, .unload = unload, .launch = launch, .close = end};

/* ---- One host -------------------------------------------------------------------------------- */

struct waited {
    double launched_ms, own_ms; /* since quern_open began, since the first launch */
};

static double ms_since(uint64_t start)
{
    return (double)(os_now() - start) * 1e-6;
}

static struct waited host(const char *cache, bool compiler, int64_t m_max)
{
    static struct device device = {.functions = &functions};
    static _Alignas(16) char memory[16];
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct quern_args args = QUERN_INIT(struct quern_args);
    struct quern_options o = QUERN_INIT(struct quern_options);
    struct waited w = {0};
    quern_ctx *ctx;
    quern_op *op;

    o.device = QUERN_DEVICE_NONE;
    o.target = TARGET;
    o.cache_dir = cache;
    o.rocm_path = compiler ? NULL : "/nowhere";
    o.log_level = QUERN_LOG_ERROR;
    args.a = args.b = args.scales = args.c = memory;
    must(quern_problem_parse(LAYER, &problem));

    uint64_t start = os_now();
    must(quern_open(&o, &ctx));
    device.id = ctx->id;
    device.facts.compute_units = ctx->id.target->cus;
    ctx->device = &device;
    /* without a compiler base kernels serve a host that asks for nothing */
    must(quern_op_create_flags(ctx, &problem, m_max, compiler ? QUERN_OP_BASE : 0, &op));
    must(quern_op_launch(op, &args, 1, NULL));
    w.launched_ms = ms_since(start);
    if (atomic_load(&op->kernels) || !ctx->base.file) {
        fprintf(stderr, "bench_base: this library has no base kernels for %s: run make base\n",
                TARGET);
        exit(1);
    }
    start = os_now();
    while (compiler && quern_op_ready(op) == QUERN_E_NOT_READY)
        usleep(100);
    w.own_ms = ms_since(start);
    must(compiler ? quern_op_ready(op) : QUERN_OK);
    quern_op_release(op);
    quern_close(ctx);
    return w;
}

/* The same in a new process, with a new cache. */
static struct waited host_apart(bool compiler, int64_t m_max)
{
    char cache[] = "/tmp/bench_base.XXXXXX", command[64];
    struct waited w = {0};
    int out[2], status;

    if (!mkdtemp(cache) || pipe(out))
        exit(1);
    const pid_t child = fork();
    if (child == 0) {
        w = host(cache, compiler, m_max);
        _exit(write(out[1], &w, sizeof w) != sizeof w);
    }
    close(out[1]);
    const bool told = read(out[0], &w, sizeof w) == sizeof w;
    close(out[0]);
    waitpid(child, &status, 0);
    snprintf(command, sizeof command, "rm -rf %s", cache);
    if (system(command) || !told || status)
        exit(1);
    return w;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print(const char *what, double of[ROUNDS])
{
    qsort(of, ROUNDS, sizeof *of, ascending);
    printf("%-58s %7.2f ms  (median %.2f)\n", what, of[0], of[ROUNDS / 2]);
}

int main(void)
{
    for (int64_t m_max = 1; m_max <= 8; m_max += 7) {
        printf("%s on %s, an op for %d rows\n", LAYER, TARGET, (int)m_max);
        for (int compiler = 0; compiler < 2; compiler++) {
            double launched[ROUNDS], own[ROUNDS];
            for (int i = 0; i < ROUNDS; i++) {
                const struct waited w = host_apart(compiler, m_max);
                launched[i] = w.launched_ms;
                own[i] = w.own_ms;
            }
            print(compiler ? "the same with a compiler"
                           : "from quern_open to its first launch, without a compiler",
                  launched);
            if (compiler)
                print("from then until its own kernels serve", own);
        }
    }
    return 0;
}
