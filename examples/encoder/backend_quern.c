/* SPDX-License-Identifier: MIT */
/*
 * Back end (c): how a host uses quern. One context; one op for each layer (layers of the same shape
 * get the same op); weights placed in device memory once; a launch for all tokens of a sentence.
 */
#include "backend.h"

#include "../fail.h"
#include "number.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one layer has on the device. */
struct device_linear {
    quern_op *op;
    quern_buffer *b, *scales, *bias;
};

struct device {
    struct backend base;
    const struct model *model;
    enum quern_dtype dtype;
    quern_ctx *ctx;
    struct device_linear *linear;
    void *x; /* activations, in dtype, and results, in f32, on the host */
    float *y;
    quern_buffer *x_there, *y_there; /* and on the device */
};

/* A host with GPU memory of its own has no use for these; here they make the same program run on a
 * GPU and on the software GPU. */
static quern_buffer *place(struct device *d, const void *host, size_t bytes,
                           enum quern_access access, const char *name)
{
    quern_buffer *buffer;

    check(quern_buffer_create(d->ctx, bytes, access, name, &buffer), "allocating device memory");
    if (host)
        check(quern_buffer_write(buffer, host, bytes), "copying to the device");
    return buffer;
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
    check(quern_buffer_write(d->x_there, d->x, rows * linear->inputs * number_bytes(d->dtype)),
          "copying activations");
    args.a = quern_buffer_address(d->x_there);
    args.b = quern_buffer_address(at->b);
    args.scales = quern_buffer_address(at->scales);
    args.bias = quern_buffer_address(at->bias);
    args.c = quern_buffer_address(d->y_there);
    check(quern_op_launch(at->op, &args, (int64_t)rows, NULL), "launching");
    check(quern_buffer_read(d->y_there, d->y, rows * linear->outputs * sizeof *d->y),
          "copying results");
    for (size_t i = 0; i < rows * linear->outputs; i++)
        y[i] = (double)d->y[i];
}

static void close_device(struct backend *base)
{
    struct device *const d = (struct device *)base;

    for (size_t i = 0; i < d->model->linear_count; i++) {
        quern_buffer_destroy(d->linear[i].b);
        quern_buffer_destroy(d->linear[i].scales);
        quern_buffer_destroy(d->linear[i].bias);
        quern_op_release(d->linear[i].op);
    }
    quern_buffer_destroy(d->x_there);
    quern_buffer_destroy(d->y_there);
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
    struct quern_device_info info = QUERN_INIT(struct quern_device_info);
    const size_t widest = model->hidden > model->intermediate ? model->hidden : model->intermediate;
    const size_t most = model->token_limit * widest;

    if (target)
        options.device = QUERN_DEVICE_SIM;
    options.target = target;
    options.log = log_line;
    check(quern_open(&options, &d->ctx), target ? "opening a software GPU" : "opening the GPU");
    check(quern_ctx_device(d->ctx, &info), "opening a device");
    snprintf(d->base.target, sizeof d->base.target, "%s", info.target);
    d->base.apply = apply;
    d->base.close = close_device;
    d->model = model;
    d->dtype = quantised[0].problem.a;
    d->linear = allocate(model->linear_count, sizeof *d->linear);
    for (size_t i = 0; i < model->linear_count; i++) {
        const struct quern_quantized *const b = operand(&quantised[i], "b");
        const struct quern_quantized *const scales = operand(&quantised[i], "scales");
        struct device_linear *const at = &d->linear[i];

        check(quern_op_create(d->ctx, &quantised[i].problem, (int64_t)model->token_limit, &at->op),
              "making kernels");
        at->b = place(d, b->data, b->bytes, QUERN_READ, "b");
        at->scales = place(d, scales->data, scales->bytes, QUERN_READ, "scales");
        at->bias = place(d, model->linear[i].bias, model->linear[i].outputs * sizeof(float),
                         QUERN_READ, "bias");
    }
    d->x = allocate(most, number_bytes(d->dtype));
    d->y = allocate(most, sizeof *d->y);
    d->x_there = place(d, NULL, most * number_bytes(d->dtype), QUERN_READ, "a");
    d->y_there = place(d, NULL, most * sizeof *d->y, QUERN_WRITE, "c");
    return &d->base;
}
