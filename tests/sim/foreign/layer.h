/* SPDX-License-Identifier: MIT */
/*
 * A 4-bit linear layer with random operands in bitsandbytes' layout, and its product in double
 * precision. Written from the published layout alone; nothing of the library's own quantisation is
 * used, so that a shared mistake cannot hide.
 */
#ifndef FOREIGN_LAYER_H
#define FOREIGN_LAYER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum layer_type { LAYER_F32, LAYER_F16, LAYER_BF16 };
enum layer_quant { LAYER_FP4 = 1, LAYER_NF4 = 2 }; /* as the kernels number them */

struct layer_shape {
    int n, k, block;
};

struct layer {
    enum layer_type type; /* of a, bias and c */
    enum layer_quant quant;
    bool nested, bias;
    int m, n, k, block;
    double a_scale; /* a is uniform in ±a_scale */
};

struct layer_data {
    struct layer layer;
    void *a, *bias, *c;
    uint8_t *b, *absmax8;
    float *absmax, *code, *offset;
    size_t a_bytes, b_bytes, c_bytes, bias_bytes, absmax_bytes, absmax8_bytes;
    double *a_value, *w_value, *bias_value; /* exact */
};

static const char *const layer_type_names[] = {"f32", "f16", "bf16"};

/* The values that bitsandbytes gives the codes, as f32. */
static const float layer_codes[3][16] = {
    [LAYER_FP4] = {0.0f, 0.005208333333f, 0.66666667f, 1.0f, 0.33333333f, 0.5f, 0.16666667f, 0.25f,
                   -0.0f, -0.005208333333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f,
                   -0.25f},
    [LAYER_NF4] = {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
                   -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
                   0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,
                   0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
                   0.7229568362236023f, 1.0f},
};

static uint64_t layer_random(uint64_t *seed)
{
    *seed += 0x9e3779b97f4a7c15;
    uint64_t z = *seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Uniform in [lo, hi). */
static double layer_uniform(uint64_t *seed, double lo, double hi)
{
    return lo + (hi - lo) * (double)(layer_random(seed) >> 11) * 0x1p-53;
}

static size_t layer_bytes(enum layer_type type)
{
    return type == LAYER_F32 ? 4 : 2;
}

/* Stores the nearest value of the type and returns it. */
static double layer_store(enum layer_type type, void *array, size_t i, double value)
{
    if (type == LAYER_F32)
        return ((float *)array)[i] = (float)value;
    if (type == LAYER_F16)
        return (double)(((_Float16 *)array)[i] = (_Float16)value);
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    bits += 0x7fff + (bits >> 16 & 1);
    ((uint16_t *)array)[i] = (uint16_t)(bits >> 16);
    bits &= 0xffff0000;
    float rounded;
    memcpy(&rounded, &bits, 4);
    return rounded;
}

static double layer_load(enum layer_type type, const void *array, size_t i)
{
    if (type == LAYER_F32)
        return ((const float *)array)[i];
    if (type == LAYER_F16)
        return (double)((const _Float16 *)array)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)array)[i] << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* The scale of each block: f32, or a byte that selects from a table, times a factor for each 256
 * blocks, plus an offset. */
static void layer_make_scales(struct layer_data *d, double *scale, uint64_t *seed)
{
    const struct layer *const l = &d->layer;
    const size_t blocks = (size_t)l->n * (size_t)l->k / (size_t)l->block;
    const size_t scales = l->nested ? (blocks + 255) / 256 : blocks;

    d->absmax_bytes = scales * 4;
    d->absmax = malloc(d->absmax_bytes);
    for (size_t i = 0; i < scales; i++)
        d->absmax[i] = (float)layer_uniform(seed, 0.25, 1);
    if (!l->nested) {
        for (size_t i = 0; i < blocks; i++)
            scale[i] = d->absmax[i];
        return;
    }
    d->absmax8_bytes = blocks;
    d->absmax8 = malloc(blocks);
    d->code = malloc(256 * sizeof(float));
    d->offset = malloc(sizeof(float));
    *d->offset = (float)layer_uniform(seed, 0.5, 1);
    for (unsigned i = 0; i < 256; i++)
        d->code[i] = (float)layer_uniform(seed, -0.5, 0.5);
    for (size_t i = 0; i < blocks; i++) {
        d->absmax8[i] = (uint8_t)layer_random(seed);
        scale[i] = (double)d->code[d->absmax8[i]] * d->absmax[i / 256] + *d->offset;
    }
}

static struct layer_data layer_make(const struct layer *layer, uint64_t seed)
{
    struct layer_data d = {.layer = *layer};
    const enum layer_type type = layer->type;
    const size_t m = (size_t)layer->m, n = (size_t)layer->n, k = (size_t)layer->k;
    const size_t block = (size_t)layer->block;
    double *const scale = malloc(n * k / block * sizeof *scale);

    d.a_bytes = m * k * layer_bytes(type);
    d.b_bytes = n * k / 2;
    d.c_bytes = m * n * layer_bytes(type);
    d.a = malloc(d.a_bytes);
    d.b = malloc(d.b_bytes);
    d.c = malloc(d.c_bytes);
    d.a_value = malloc(m * k * sizeof(double));
    d.w_value = malloc(n * k * sizeof(double));
    d.bias_value = calloc(n, sizeof(double));
    for (size_t i = 0; i < m * k; i++)
        d.a_value[i] =
            layer_store(type, d.a, i, layer_uniform(&seed, -layer->a_scale, layer->a_scale));
    if (layer->bias) {
        d.bias_bytes = n * layer_bytes(type);
        d.bias = malloc(d.bias_bytes);
        for (size_t i = 0; i < n; i++)
            d.bias_value[i] = layer_store(type, d.bias, i, layer_uniform(&seed, -8, 8));
    }
    layer_make_scales(&d, scale, &seed);
    for (size_t i = 0; i < n * k / 2; i++) {
        /* the high half is the weight of the lower k */
        d.b[i] = (uint8_t)layer_random(&seed);
        d.w_value[2 * i] = layer_codes[layer->quant][d.b[i] >> 4] * scale[2 * i / block];
        d.w_value[2 * i + 1] = layer_codes[layer->quant][d.b[i] & 15] * scale[2 * i / block];
    }
    free(scale);
    return d;
}

static void layer_free(struct layer_data *d)
{
    void *const all[] = {d->a,    d->bias,   d->c,       d->b,       d->absmax8,   d->absmax,
                         d->code, d->offset, d->a_value, d->w_value, d->bias_value};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *d = (struct layer_data){0};
}

/* One element of the product, without bias. */
static double layer_dot(const struct layer_data *d, int row, int column)
{
    const double *const a = d->a_value + (size_t)row * (size_t)d->layer.k;
    const double *const w = d->w_value + (size_t)column * (size_t)d->layer.k;
    double sum = 0;

    for (int i = 0; i < d->layer.k; i++)
        sum += a[i] * w[i];
    return sum;
}

typedef double (*layer_dot_fn)(const struct layer_data *d, int row, int column);

/* max |c − reference| ÷ max |reference|; not a number counts as infinite. */
static double layer_error(const struct layer_data *d, layer_dot_fn dot)
{
    const struct layer *const l = &d->layer;
    double worst = 0, largest = 0;

    for (int row = 0; row < l->m; row++)
        for (int column = 0; column < l->n; column++) {
            const double reference = dot(d, row, column) + d->bias_value[column];
            const size_t at = (size_t)row * (size_t)l->n + (size_t)column;
            const double error = fabs(layer_load(l->type, d->c, at) - reference);
            if (!(error <= worst))
                worst = isnan(error) ? INFINITY : error;
            if (fabs(reference) > largest)
                largest = fabs(reference);
        }
    return worst / largest;
}

#endif
