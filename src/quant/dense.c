/* SPDX-License-Identifier: MIT */
/* Weights in layout dense: numbers of one type each, with at most one scale for all of them. */
#include "quant/quant.h"

#include "base/os.h"
#include "base/thread.h"

#include <math.h>

/* Weights that one thread takes at a time. */
#define RUN 65536

bool quant_is_dense(const struct quern_problem *p)
{
    return p->layout == QUERN_LAYOUT_DENSE;
}

static float scale_of(const void *scale)
{
    return scale ? *(const float *)scale : 1.0f;
}

void quant_dense_row(const struct quern_problem *p, const union operand_pointers *in, size_t row,
                     double *w)
{
    const enum quern_dtype type = problem_weight_type(p);
    const double scale = (double)scale_of(in->b_scale);
    const size_t k = (size_t)p->k;

    for (size_t i = 0; i < k; i++) /* exact: 24 bits times 24 */
        w[i] = (double)quant_load(type, in->b, row * k + i) * scale;
}

struct job {
    enum quern_dtype type;
    size_t count;
    const float *w;
    float *w_out, scale;
    const void *b;
    void *b_out;
};

static size_t run_end(const struct job *job, size_t i)
{
    return job->count - i * RUN < RUN ? job->count : (i + 1) * RUN;
}

static void dequantise_run(void *user, size_t i)
{
    const struct job *const job = user;

    for (size_t at = i * RUN; at < run_end(job, i); at++)
        job->w_out[at] = quant_load(job->type, job->b, at) * job->scale;
}

static void quantise_run(void *user, size_t i)
{
    const struct job *const job = user;

    for (size_t at = i * RUN; at < run_end(job, i); at++)
        quant_store(job->type, job->b_out, at, job->w[at] / job->scale);
}

static void run_all(struct job *job, void (*function)(void *user, size_t i))
{
    parallel_for((job->count + RUN - 1) / RUN, os_cpu_count(), function, job);
}

void quant_dequantise_dense(const struct quern_problem *p, const union operand_pointers *in,
                            float *w)
{
    struct job job = {.type = problem_weight_type(p),
                      .count = (size_t)p->n * (size_t)p->k,
                      .w_out = w,
                      .scale = scale_of(in->b_scale),
                      .b = in->b};

    run_all(&job, dequantise_run);
}

void quant_quantise_dense(const struct quern_problem *p, const float *w, void *b, float *b_scale)
{
    struct job job = {.type = problem_weight_type(p),
                      .count = (size_t)p->n * (size_t)p->k,
                      .w = w,
                      .scale = 1.0f,
                      .b_out = b};
    float most = 0;

    for (size_t i = 0; b_scale && i < job.count; i++)
        if (fabsf(w[i]) > most && !isinf(w[i])) /* false for a NaN, too */
            most = fabsf(w[i]);
    if (b_scale) {
        const float scale = most / quant_fp8_largest(job.type == QUERN_DT_FP8FNUZ);
        /* 1 if all weights are zero, or so small that the scale is */
        *b_scale = job.scale = scale > 0 ? scale : 1.0f;
    }
    run_all(&job, quantise_run);
}
