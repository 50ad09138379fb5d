/* SPDX-License-Identifier: MIT */
/*
 * bitsandbytes' blockwise 4-bit quantiser, as its 0.50 release computes it on a CPU: scale a block
 * by the reciprocal of its largest magnitude, clamp to ±1, and count the bounds that lie below.
 */
#include "quant/quant.h"

#include "base/os.h"
#include "base/thread.h"

#include <math.h>
#include <string.h>

/* An absmax smaller than this is replaced by it before it is inverted: of a block of zeros it is 0.
 */
#define ABSMAX_LEAST 1e-38f

#define BOUNDS 15

/* Weights that one thread takes at a time, about. */
#define RUN_WEIGHTS 65536

/* Midpoints between neighbouring table values, and the code of each interval between them. */
struct intervals {
    float bound[BOUNDS];
    uint8_t code[BOUNDS + 1];
};

/* The codes by increasing value. FP4 has two zeros: 0 comes first, so that exact zero becomes 0 and
 * what lies between zero and the first positive midpoint becomes 8. */
static const uint8_t nf4_order[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const uint8_t fp4_order[16] = {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3};

static struct intervals intervals_of(enum quern_weight wq)
{
    const uint8_t *const order = wq == QUERN_W_FP4 ? fp4_order : nf4_order;
    const float *const value = quant_values(wq);
    struct intervals v;

    memcpy(v.code, order, sizeof v.code);
    for (int i = 0; i < BOUNDS; i++)
        v.bound[i] = (value[order[i]] + value[order[i + 1]]) / 2;
    return v;
}

/* The largest magnitude; NaN if there is one. */
static float absmax_of(const float *w, size_t count)
{
    uint32_t most = 0;

    /* magnitudes order like their bit patterns, and NaN above all */
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &w[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float absmax;
    memcpy(&absmax, &most, sizeof absmax);
    return isnan(absmax) ? NAN : absmax;
}

/* One interval index a weight, into index[0…count-1]. NaN lies above every bound. */
static void classify(const struct intervals *v, const float *w, size_t count, float factor,
                     bool divide, uint8_t *index)
{
    for (size_t i = 0; i < count; i++) {
        float x = divide ? w[i] / factor : w[i] * factor;
        int below = 0;

        x = x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
        for (int j = 0; j < BOUNDS; j++)
            below += !(x <= v->bound[j]);
        index[i] = (uint8_t)below;
    }
}

/* One call, cut into runs of whole blocks for the threads. */
struct job {
    struct intervals intervals;
    const float *value; /* by code */
    const float *w;
    float *out;
    size_t count, group, run; /* run: weights, even, so that no two runs share a byte */
    const uint8_t *packed;
    bool low_first; /* which nibble of a packed byte is the first weight */
    const float *absmax;
    uint8_t *packed_out;
    float *absmax_out;
};

static void quantise_block(const struct job *job, size_t first)
{
    const size_t left = job->count - first, n = left < job->group ? left : job->group;
    /* bitsandbytes divides an incomplete block at the end by its absmax, and stores it raised to
     * ABSMAX_LEAST; other blocks are multiplied by the reciprocal */
    const bool last = n < job->group;
    const float most = absmax_of(job->w + first, n);
    const float raised = most < ABSMAX_LEAST ? ABSMAX_LEAST : most;
    uint8_t index[256];

    job->absmax_out[first / job->group] = last ? raised : most;
    for (size_t done = 0; done < n; done += sizeof index) {
        const size_t part = n - done < sizeof index ? n - done : sizeof index;

        classify(&job->intervals, job->w + first + done, part, last ? raised : 1.0f / raised, last,
                 index);
        for (size_t i = 0; i < part; i++) {
            const size_t at = first + done + i;
            const unsigned code = job->intervals.code[index[i]];

            if (at % 2)
                job->packed_out[at / 2] |= (uint8_t)code;
            else
                job->packed_out[at / 2] = (uint8_t)(code << 4);
        }
    }
}

static size_t run_end(const struct job *job, size_t i)
{
    return job->count - i * job->run < job->run ? job->count : (i + 1) * job->run;
}

static void quantise_run(void *user, size_t i)
{
    const struct job *const job = user;

    for (size_t first = i * job->run; first < run_end(job, i); first += job->group)
        quantise_block(job, first);
}

static void dequantise_run(void *user, size_t i)
{
    const struct job *const job = user;

    for (size_t at = i * job->run; at < run_end(job, i); at++) {
        const unsigned byte = job->packed[at / 2];
        const unsigned code = (at % 2 != 0) == job->low_first ? byte >> 4 : byte & 15;
        job->out[at] = job->value[code] * job->absmax[at / job->group];
    }
}

static void run_all(struct job *job, void (*function)(void *user, size_t i))
{
    job->run = 2 * job->group * (RUN_WEIGHTS / (2 * job->group) + 1);
    parallel_for((job->count + job->run - 1) / job->run, os_cpu_count(), function, job);
}

void quant_quantise_4bit(enum quern_weight wq, const float *w, size_t count, size_t group,
                         uint8_t *packed, float *absmax)
{
    struct job job = {.intervals = intervals_of(wq),
                      .w = w,
                      .count = count,
                      .group = group,
                      .packed_out = packed,
                      .absmax_out = absmax};

    run_all(&job, quantise_run);
    if (count % 2) /* the unused nibble is the code that zero has: that of interval 7 */
        packed[count / 2] |= job.intervals.code[7];
}

void quant_dequantise_4bit(enum quern_weight wq, const uint8_t *packed, const float *absmax,
                           size_t count, size_t group, float *w)
{
    struct job job = {.value = quant_values(wq),
                      .out = w,
                      .count = count,
                      .group = group,
                      .packed = packed,
                      .absmax = absmax};

    run_all(&job, dequantise_run);
}

/* ---- Weights of a problem -------------------------------------------------------------------- */

quern_status quant_accepts(const struct quern_problem *p)
{
    const enum quern_layout own = p->wq == QUERN_W_MXFP4 ? QUERN_LAYOUT_K8 : QUERN_LAYOUT_BNB;

    if (quant_is_packed_int4(p) || quant_is_dense(p))
        return QUERN_OK;
    FAIL_IF(p->layout != own, QUERN_E_DECLINED,
            "layout=tileN is made by repacking; the CPU's arithmetic takes wq=%s in layout=%s",
            weight_name(p->wq),
            p->wq == QUERN_W_INT4    ? "k8, exl, ck, gptq or awq"
            : own == QUERN_LAYOUT_K8 ? "k8"
                                     : "bnb");
    return QUERN_OK;
}

void quant_scales(const struct quern_problem *p, const union operand_pointers *in, float *scales)
{
    const size_t blocks = (size_t)p->n * (size_t)(p->k / problem_group(p));

    if (p->scale == QUERN_SCALE_NESTED)
        quant_unnest(in->absmax8, in->code, in->scales, *(const float *)in->offset, blocks, scales);
    else if (p->scale == QUERN_SCALE_E8M0)
        for (size_t i = 0; i < blocks; i++)
            scales[i] = quant_f32_from_e8m0(((const uint8_t *)in->scales)[i]);
    else
        memcpy(scales, in->scales, blocks * sizeof *scales);
}

quern_status quant_dequantise(const struct quern_problem *p, const union operand_pointers *in,
                              float *w)
{
    const size_t count = (size_t)p->n * (size_t)p->k, group = (size_t)problem_group(p);

    if (p->wq == QUERN_W_INT4)
        return quant_dequantise_int4(p, in, w);
    if (quant_is_dense(p)) {
        quant_dequantise_dense(p, in, w);
        return QUERN_OK;
    }
    float *const scales = os.malloc(count / group * sizeof *scales);
    FAIL_IF(!scales, QUERN_E_MEMORY, "no memory for %zu scales", count / group);
    quant_scales(p, in, scales);
    struct job job = {.value = quant_values(p->wq),
                      .out = w,
                      .count = count,
                      .group = group,
                      .packed = in->b,
                      .low_first = p->layout == QUERN_LAYOUT_K8,
                      .absmax = scales};
    run_all(&job, dequantise_run);
    os.free(scales);
    return QUERN_OK;
}
