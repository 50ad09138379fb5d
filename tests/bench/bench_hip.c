/* SPDX-License-Identifier: MIT */
/*
 * What a launch on a GPU costs the thread that makes it, but for the HIP runtime's own work: quern
 * on fakehip, whose launches return at once. Also the entry point of libquern_bnb, which asks for
 * the current device and finds the op anew each time. Prints nanoseconds.
 */
#include "fakehip.h"

#include "base/os.h"

#include <quern/bnb.h>
#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 40
#define CALLS  50000

struct bench {
    quern_op *op;
    struct quern_args args;
};

static void launch(const struct bench *b, int i)
{
    if (quern_op_launch(b->op, &b->args, 1 + i % 8, NULL) != QUERN_OK)
        abort();
}

static void launch_bnb(const struct bench *b, int i)
{
    const struct quern_args *const a = &b->args;

    cgemm_4bit_bf16(a->a, a->b, a->scales, NULL, NULL, NULL, a->c, NULL, 1 + i % 8, 4096, 4096, 64,
                    2, NULL);
    if (quern_bnb_last_status() != QUERN_OK)
        abort();
}

/* Of one call, the least of ROUNDS rounds: the machine may be busy with other things. */
static double best(void (*call)(const struct bench *b, int i), const struct bench *b)
{
    double least = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t start = os_now();
        for (int i = 0; i < CALLS; i++)
            call(b, i);
        const double ns = (double)(os_now() - start) / CALLS;
        if (ns < least)
            least = ns;
    }
    return least;
}

int main(void)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct bench b = {0};
    quern_ctx *ctx;
    static _Alignas(16) char memory[16];

    /* nothing of the user's is touched, and no other GPU is met */
    if (setenv("QUERN_CACHE_MODE", "off", 1) || setenv("FAKEHIP_DEVICES", "gfx1151", 1))
        return 1;
    options.device = QUERN_DEVICE_HIP;
    if (quern_open(&options, &ctx) != QUERN_OK ||
        quern_problem_parse("wq=nf4 n=4096 k=4096 a=bf16", &problem) != QUERN_OK ||
        quern_op_create(ctx, &problem, 8, &b.op) != QUERN_OK) {
        fprintf(stderr, "%s\n", quern_last_error()->message);
        return 1;
    }
    b.args = (struct quern_args){
        .size = sizeof b.args, .a = memory, .b = memory, .scales = memory, .c = memory};
    fakehip_empty_launches(true);
    launch_bnb(&b, 0); /* opens its context */
    printf("quern_op_launch: %.1f ns\n", best(launch, &b));
    printf("cgemm_4bit_bf16: %.1f ns\n", best(launch_bnb, &b));
    quern_op_release(b.op);
    quern_close(ctx);
    return 0;
}
