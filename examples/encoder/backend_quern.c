/* SPDX-License-Identifier: MIT */
/*
 * Back end (c): how a host uses quern. One context; one op for each layer (layers of the same shape
 * get the same op); weights placed in device memory once; a launch for all tokens of a sentence.
 */
#include "backend.h"

#include "fail.h"
#include "number.h"

#include <quern/sim.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one layer has on the device. */
struct device_linear {
    quern_op *op;
    uint64_t b, scales, bias;
};

struct device {
    struct backend base;
    const struct model *model;
    enum quern_dtype dtype;
    quern_ctx *ctx;
    quern_sim *sim;
    struct device_linear *linear;
    void *x; /* activations, in dtype, and results, in f32: host memory that the device sees */
    float *y;
    uint64_t x_address, y_address;
};

static uint64_t map(struct device *d, const void *host, size_t bytes, enum quern_sim_access access,
                    const char *name)
{
    uint64_t address;

    /* the software GPU keeps what it was told to read only as it is */
    check(quern_sim_map(d->sim, (void *)(uintptr_t)host, bytes, access, name, &address),
          "mapping memory");
    return address;
}

static const struct quern_quantized *operand(const struct quantised *q, const char *name)
{
    for (size_t i = 0; i < q->count; i++)
        if (!strcmp(q->operands[i].name, name))
            return &q->operands[i];
    fail("quern_quantize gave no operand %s", name);
}

static void apply(struct backend *base, size_t index, const double *x, size_t rows, double *y)
{
    struct device *const d = (struct device *)base;
    const struct linear *const linear = &d->model->linear[index];
    const struct device_linear *const at = &d->linear[index];
    struct quern_args args = QUERN_INIT(struct quern_args);

    for (size_t i = 0; i < rows * linear->inputs; i++)
        number_store(d->dtype, d->x, i, (float)x[i]);
    args.a = (const void *)(uintptr_t)d->x_address;
    args.b = (const void *)(uintptr_t)at->b;
    args.scales = (const void *)(uintptr_t)at->scales;
    args.bias = (const void *)(uintptr_t)at->bias;
    args.c = (void *)(uintptr_t)d->y_address;
    check(quern_op_launch(at->op, &args, (int64_t)rows, NULL), "launching");
    for (size_t i = 0; i < rows * linear->outputs; i++)
        y[i] = (double)d->y[i];
}

static void close_device(struct backend *base)
{
    struct device *const d = (struct device *)base;

    for (size_t i = 0; i < d->model->linear_count; i++) {
        check(quern_sim_unmap(d->sim, d->linear[i].b), "unmapping memory");
        check(quern_sim_unmap(d->sim, d->linear[i].scales), "unmapping memory");
        check(quern_sim_unmap(d->sim, d->linear[i].bias), "unmapping memory");
        quern_op_release(d->linear[i].op);
    }
    check(quern_sim_unmap(d->sim, d->x_address), "unmapping memory");
    check(quern_sim_unmap(d->sim, d->y_address), "unmapping memory");
    quern_close(d->ctx);
    free(d->linear);
    free(d->x);
    free(d->y);
    free(d);
}

static void log_line(void *user, enum quern_log_level level, const char *line)
{
    (void)user, (void)level;
    fprintf(stderr, "encoder: quern: %s\n", line);
}

struct backend *backend_quern(const struct model *model, const struct quantised *quantised,
                              const char *target)
{
    struct device *const d = allocate(1, sizeof *d);
    struct quern_options options = QUERN_INIT(struct quern_options);
    const size_t widest = model->hidden > model->intermediate ? model->hidden : model->intermediate;
    const size_t most = model->token_limit * widest;

    options.device = QUERN_DEVICE_SIM;
    options.target = target;
    options.log = log_line;
    check(quern_open(&options, &d->ctx), "opening a software GPU");
    d->base = (struct backend){.apply = apply, .close = close_device};
    d->model = model;
    d->dtype = quantised[0].problem.a;
    d->sim = quern_ctx_sim(d->ctx);
    if (!d->sim)
        fail("there is no software GPU for %s; try gfx1151", target);
    d->linear = allocate(model->linear_count, sizeof *d->linear);
    for (size_t i = 0; i < model->linear_count; i++) {
        const struct quern_quantized *const b = operand(&quantised[i], "b");
        const struct quern_quantized *const scales = operand(&quantised[i], "scales");
        struct device_linear *const at = &d->linear[i];

        check(quern_op_create(d->ctx, &quantised[i].problem, (int64_t)model->token_limit, &at->op),
              "making kernels");
        at->b = map(d, b->data, b->bytes, QUERN_SIM_READ, "b");
        at->scales = map(d, scales->data, scales->bytes, QUERN_SIM_READ, "scales");
        at->bias = map(d, model->linear[i].bias, model->linear[i].outputs * sizeof(float),
                       QUERN_SIM_READ, "bias");
    }
    d->x = allocate(most, number_bytes(d->dtype));
    d->y = allocate(most, sizeof *d->y);
    d->x_address = map(d, d->x, most * number_bytes(d->dtype), QUERN_SIM_READ, "a");
    d->y_address = map(d, d->y, most * sizeof *d->y, QUERN_SIM_WRITE, "c");
    return &d->base;
}
