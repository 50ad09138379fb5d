/* SPDX-License-Identifier: MIT */
/* How long a warm quern_op_launch takes up to the device call, and finding an op. Prints
 * nanoseconds. */
#include "dispatch/dispatch.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>

static quern_status launch_nothing(struct device *d, struct device_kernel *k,
                                   const struct device_launch *l)
{
    (void)d, (void)k, (void)l;
    return QUERN_OK;
}

#define ROUNDS 20
#define CALLS  200000

/* Nanoseconds of one call, the least of ROUNDS rounds: the machine may be busy with other things.
 */
static double best(void (*call)(void *user, int i), void *user)
{
    double least = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t start = os_now();
        for (int i = 0; i < CALLS; i++)
            call(user, i);
        const double ns = (double)(os_now() - start) / CALLS;
        if (ns < least)
            least = ns;
    }
    return least;
}

struct bench {
    quern_ctx *ctx;
    quern_op *op;
    struct quern_problem problem;
    struct quern_args args;
};

static void launch(void *user, int i)
{
    struct bench *const b = user;

    if (quern_op_launch(b->op, &b->args, 1 + i % 8, NULL) != QUERN_OK)
        abort();
}

static void create(void *user, int i)
{
    struct bench *const b = user;
    quern_op *op;

    (void)i;
    if (quern_op_create(b->ctx, &b->problem, 8, &op) != QUERN_OK)
        abort();
    quern_op_release(op);
}

int main(int argc, char **argv)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct bench b = {0};
    static _Alignas(16) char memory[16];

    options.target = "gfx1151";
    options.device = QUERN_DEVICE_SIM;
    options.cache_mode = QUERN_CACHE_OFF;
    options.worker_path = argc > 1 ? argv[1] : NULL;
    if (quern_open(&options, &b.ctx) != QUERN_OK ||
        quern_problem_parse("wq=nf4 n=4096 k=4096 a=bf16", &b.problem) != QUERN_OK ||
        quern_op_create(b.ctx, &b.problem, 8, &b.op) != QUERN_OK) {
        fprintf(stderr, "%s\n", quern_last_error()->message);
        return 1;
    }
    struct device_functions nothing = *b.ctx->device->functions;
    const struct device_functions *const real = b.ctx->device->functions;
    nothing.launch = launch_nothing;
    b.ctx->device->functions = &nothing;
    b.args = (struct quern_args){
        .size = sizeof b.args, .a = memory, .b = memory, .scales = memory, .c = memory};
    printf("launch up to the device call: %.1f ns\n", best(launch, &b));
    printf("create of a known op, and release: %.1f ns\n", best(create, &b));
    b.ctx->device->functions = real;
    quern_op_release(b.op);
    quern_close(b.ctx);
    return 0;
}
