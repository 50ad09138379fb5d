/* SPDX-License-Identifier: MIT */
#include "feed_forward.h"

#include "../fail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct feed_forward feed_forward_read(const struct safetensors *file, size_t layer)
{
    struct feed_forward f;
    char name[128];

    snprintf(name, sizeof name, "encoder.layer.%zu.intermediate.dense.weight", layer);
    f.wide = safetensors_size(file, name, 0);
    f.hidden = safetensors_size(file, name, 1);
    f.up = safetensors_f32(file, name, 2, (const size_t[]){f.wide, f.hidden});
    snprintf(name, sizeof name, "encoder.layer.%zu.intermediate.dense.bias", layer);
    f.up_bias = safetensors_f32(file, name, 1, &f.wide);
    snprintf(name, sizeof name, "encoder.layer.%zu.output.dense.weight", layer);
    f.down = safetensors_f32(file, name, 2, (const size_t[]){f.hidden, f.wide});
    snprintf(name, sizeof name, "encoder.layer.%zu.output.dense.bias", layer);
    f.down_bias = safetensors_f32(file, name, 1, &f.hidden);
    return f;
}

struct quern_problem feed_forward_problem(size_t n, size_t k)
{
    return (struct quern_problem){
        .size = sizeof(struct quern_problem),
        .wq = QUERN_W_NF4,
        .group = GROUP,
        .a = QUERN_F32,
        .n = (int64_t)n,
        .k = (int64_t)k,
        .bias = 1,
    };
}

double gelu(double x)
{
    return x * 0.5 * (1 + erf(x / sqrt(2.0)));
}

/* The values that n x k weights have in NF4. */
static float *quantised(const float *weights, size_t n, size_t k)
{
    const struct quern_problem problem = feed_forward_problem(n, k);
    struct quern_quantized operands[QUERN_OPERANDS_MAX];
    float *const values = allocate(n * k, sizeof *values);
    size_t count;

    check(quern_quantize(&problem, weights, operands, &count), "quantising");
    check(quern_dequantize(&problem, operands, count, values), "dequantising");
    quern_quantized_free(operands, count);
    return values;
}

/* One row of a product: n sums of k terms, and the bias. */
static void multiply(const float *weights, const float *bias, size_t n, size_t k, const double *x,
                     double *y)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = (double)bias[i];
        for (size_t j = 0; j < k; j++)
            y[i] += (double)weights[i * k + j] * x[j];
    }
}

void feed_forward_apply(const struct feed_forward *f, const float *x, size_t tokens, double *y)
{
    float *const up = quantised(f->up, f->wide, f->hidden);
    float *const down = quantised(f->down, f->hidden, f->wide);
    double *const token = allocate(f->hidden + f->wide, sizeof *token), *const h =
                                                                            token + f->hidden;

    for (size_t t = 0; t < tokens; t++) {
        for (size_t i = 0; i < f->hidden; i++)
            token[i] = (double)x[t * f->hidden + i];
        multiply(up, f->up_bias, f->wide, f->hidden, token, h);
        for (size_t i = 0; i < f->wide; i++)
            h[i] = gelu(h[i]);
        multiply(down, f->down_bias, f->hidden, f->wide, h, y + t * f->hidden);
    }
    free(up);
    free(down);
    free(token);
}
