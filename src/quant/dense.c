/* SPDX-License-Identifier: MIT */
/* Weights in layout dense: numbers of one type each, and their scales, where they have any: one for
 * all of them, or one for each block. */
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

/* The scale of the weight in a row and a column. */
static float scale_of(const struct quern_problem *p, const float *scales, size_t row, size_t column)
{
    const size_t blocks = (size_t)problem_scale_blocks(p->k);

    return !scales ? 1.0f
           : p->scale == QUERN_SCALE_BLOCK128
               ? scales[row / PROBLEM_BLOCK * blocks + column / PROBLEM_BLOCK]
               : *scales;
}

void quant_dense_row(const struct quern_problem *p, const union operand_pointers *in, size_t row,
                     double *w)
{
    const enum quern_dtype type = problem_weight_type(p);
    const size_t k = (size_t)p->k;

    for (size_t i = 0; i < k; i++) /* exact: 24 bits times 24 */
        w[i] =
            (double)quant_load(type, in->b, row * k + i) * (double)scale_of(p, in->b_scale, row, i);
}

struct job {
    const struct quern_problem *problem;
    enum quern_dtype type;
    size_t count;
    const float *w, *scales;
    float *w_out;
    const void *b;
    void *b_out;
};

static size_t run_end(const struct job *job, size_t i)
{
    return job->count - i * RUN < RUN ? job->count : (i + 1) * RUN;
}

static float scale_at(const struct job *job, size_t at)
{
    const size_t k = (size_t)job->problem->k;

    return scale_of(job->problem, job->scales, at / k, at % k);
}

static void dequantise_run(void *user, size_t i)
{
    const struct job *const job = user;

    for (size_t at = i * RUN; at < run_end(job, i); at++)
        job->w_out[at] = quant_load(job->type, job->b, at) * scale_at(job, at);
}

static void quantise_run(void *user, size_t i)
{
    const struct job *const job = user;

    for (size_t at = i * RUN; at < run_end(job, i); at++)
        quant_store(job->type, job->b_out, at, job->w[at] / scale_at(job, at));
}

static void run_all(struct job *job, void (*function)(void *user, size_t i))
{
    parallel_for((job->count + RUN - 1) / RUN, os_cpu_count(), function, job);
}

void quant_dequantise_dense(const struct quern_problem *p, const union operand_pointers *in,
                            float *w)
{
    struct job job = {.problem = p,
                      .type = problem_weight_type(p),
                      .count = (size_t)p->n * (size_t)p->k,
                      .w_out = w,
                      .scales = in->b_scale,
                      .b = in->b};

    run_all(&job, dequantise_run);
}

/* The scale of `rows` rows of `columns` weights; rows are k apart. */
static float choose_scale(const struct job *job, const float *w, size_t rows, size_t columns)
{
    float most = 0;

    for (size_t row = 0; row < rows; row++, w += job->problem->k)
        for (size_t i = 0; i < columns; i++)
            if (fabsf(w[i]) > most && !isinf(w[i])) /* false for a NaN, too */
                most = fabsf(w[i]);
    const float scale = most / quant_fp8_largest(job->type == QUERN_DT_FP8FNUZ);
    /* 1 if all weights are zero, or so small that the scale is */
    return scale > 0 ? scale : 1.0f;
}

static void choose_block_scales(const struct job *job, float *b_scale)
{
    const size_t n = (size_t)job->problem->n, k = (size_t)job->problem->k;

    for (size_t row = 0; row < n; row += PROBLEM_BLOCK)
        for (size_t i = 0; i < k; i += PROBLEM_BLOCK)
            *b_scale++ = choose_scale(job, job->w + row * k + i,
                                      n - row < PROBLEM_BLOCK ? n - row : PROBLEM_BLOCK,
                                      k - i < PROBLEM_BLOCK ? k - i : PROBLEM_BLOCK);
}

void quant_quantise_dense(const struct quern_problem *p, const float *w, void *b, float *b_scale)
{
    struct job job = {.problem = p,
                      .type = problem_weight_type(p),
                      .count = (size_t)p->n * (size_t)p->k,
                      .w = w,
                      .scales = b_scale,
                      .b_out = b};

    if (b_scale && p->scale == QUERN_SCALE_BLOCK128)
        choose_block_scales(&job, b_scale);
    else if (b_scale)
        *b_scale = choose_scale(&job, w, (size_t)p->n, (size_t)p->k);
    run_all(&job, quantise_run);
}
