/* SPDX-License-Identifier: MIT */
/* Back ends (a) and (b): the product in double, by the host's compiler. */
#include "backend.h"

#include "../fail.h"

#include <stdlib.h>
#include <string.h>

/* Rows of x that are multiplied at once, one in each lane of a vector. */
#define LANES 8
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

struct cpu {
    struct backend base;
    const struct model *model;
    float **weights; /* [linear_count], or null: the model's own */
    lanes *x;        /* [largest number of inputs], rows in lanes */
};

static void apply(struct backend *base, size_t index, const double *x, size_t rows, double *y)
{
    struct cpu *const cpu = (struct cpu *)base;
    const struct linear *const linear = &cpu->model->linear[index];
    const float *const weights = cpu->weights ? cpu->weights[index] : linear->weight;
    const size_t inputs = linear->inputs, outputs = linear->outputs;

    for (size_t first = 0; first < rows; first += LANES) {
        const size_t count = rows - first < LANES ? rows - first : LANES;

        for (size_t i = 0; i < inputs; i++)
            for (size_t r = 0; r < LANES; r++)
                cpu->x[i][r] = r < count ? x[(first + r) * inputs + i] : 0;
        for (size_t o = 0; o < outputs; o++) {
            const float *const w = weights + o * inputs;
            lanes sum = {0};

            for (size_t i = 0; i < inputs; i++)
                sum += (double)w[i] * cpu->x[i];
            for (size_t r = 0; r < count; r++)
                y[(first + r) * outputs + o] = sum[r] + (double)linear->bias[o];
        }
    }
}

static void close_cpu(struct backend *base)
{
    struct cpu *const cpu = (struct cpu *)base;

    for (size_t i = 0; cpu->weights && i < cpu->model->linear_count; i++)
        free(cpu->weights[i]);
    free(cpu->weights);
    free(cpu->x);
    free(cpu);
}

struct backend *backend_plain(const struct model *model)
{
    struct cpu *const cpu = allocate(1, sizeof *cpu);
    const size_t most = model->hidden > model->intermediate ? model->hidden : model->intermediate;

    cpu->base = (struct backend){.apply = apply, .close = close_cpu};
    cpu->model = model;
    cpu->x = aligned_alloc(sizeof(lanes), most * sizeof(lanes));
    if (!cpu->x)
        fail("out of memory (%zu bytes)", most * sizeof(lanes));
    return &cpu->base;
}

struct backend *backend_nf4(const struct model *model, const struct quantised *quantised)
{
    struct cpu *const cpu = (struct cpu *)backend_plain(model);

    cpu->weights = allocate(model->linear_count, sizeof *cpu->weights);
    for (size_t i = 0; i < model->linear_count; i++) {
        const struct linear *const linear = &model->linear[i];

        cpu->weights[i] = allocate(linear->outputs * linear->inputs, sizeof(float));
        check(quern_dequantize(&quantised[i].problem, quantised[i].operands, quantised[i].count,
                               cpu->weights[i]),
              "dequantising");
    }
    return &cpu->base;
}

struct quantised *quantise_model(const struct model *model, enum quern_dtype dtype)
{
    struct quantised *const all = allocate(model->linear_count, sizeof *all);

    for (size_t i = 0; i < model->linear_count; i++) {
        const struct linear *const linear = &model->linear[i];

        all[i].problem = (struct quern_problem){
            .size = sizeof all[i].problem,
            .wq = QUERN_W_NF4,
            .group = BACKEND_GROUP,
            .a = dtype,
            .c = QUERN_F32,
            .n = (int64_t)linear->outputs,
            .k = (int64_t)linear->inputs,
            .bias = 1,
        };
        check(quern_quantize(&all[i].problem, linear->weight, all[i].operands, &all[i].count),
              "quantising");
    }
    return all;
}

void quantised_free(struct quantised *quantised, size_t count)
{
    for (size_t i = 0; i < count; i++)
        quern_quantized_free(quantised[i].operands, quantised[i].count);
    free(quantised);
}
