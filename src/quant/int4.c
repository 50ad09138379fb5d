/* SPDX-License-Identifier: MIT */
/* int4 groups: quantise and dequantise. Words are those of layout k8; layout.c has the others. */
#include "quant/quant.h"

#include "base/os.h"
#include "base/thread.h"

#include <math.h>
#include <string.h>

#define STEPS  15 /* between the least and the largest code */
#define MIDDLE 8  /* the code of zero, where there are no zero points */

/* ---- Quantise -------------------------------------------------------------------------------- */

struct quantise {
    const struct quern_problem *problem;
    const float *w;
    uint32_t *k8;
    void *scales, *zeros;
};

/* The nearest integer, ties to even, within 0 … 15. NaN becomes 0. */
static unsigned nearest_code(double x)
{
    return x >= STEPS ? STEPS : x > 0 ? (unsigned)nearbyint(x) : 0;
}

static void quantise_group(const struct quantise *q, const float *w, size_t count, uint32_t *k8,
                           size_t at)
{
    const enum quern_dtype type = problem_scale_type(q->problem);
    const bool symmetric = q->problem->zero == QUERN_ZERO_NONE;
    double least = 0, most = 0;
    bool finite = true;

    for (size_t i = 0; i < count; i++) {
        finite &= isfinite(w[i]) != 0;
        least = fmin(least, (double)w[i]);
        most = fmax(most, (double)w[i]);
    }
    const double range = symmetric ? 2 * fmax(-least, most) : most - least;
    quant_store(type, q->scales, at, finite ? (float)(range / STEPS) : NAN);
    const double s = (double)quant_load(type, q->scales, at);
    const bool usable = s > 0 && isfinite(s);
    const unsigned z = symmetric || !usable ? MIDDLE : nearest_code(-least / s);
    for (size_t i = 0; i < count; i++) {
        const unsigned code = usable ? nearest_code((double)w[i] / s + z) : z;
        k8[i / 8] |= code << i % 8 * 4;
    }
    /* the whole group is to be NaN; with the scale ∞, code 8 would give 0·∞ and others ∞ */
    if (!usable && s != 0)
        quant_store(type, q->scales, at, NAN);
    if (q->problem->zero == QUERN_ZERO_U8)
        ((uint8_t *)q->zeros)[at] = (uint8_t)z;
    else if (q->problem->zero == QUERN_ZERO_SCALED)
        quant_store(type, q->zeros, at, ((float)z - MIDDLE) * quant_load(type, q->scales, at));
}

static void quantise_row(void *user, size_t row)
{
    const struct quantise *const q = user;
    const size_t k = (size_t)q->problem->k, group = (size_t)problem_group(q->problem);
    uint32_t *const words = q->k8 + row * (k / 8);

    memset(words, 0, k / 2);
    for (size_t first = 0; first < k; first += group)
        quantise_group(q, q->w + row * k + first, group, words + first / 8,
                       (row * k + first) / group);
}

quern_status quant_quantise_int4(const struct quern_problem *problem, const float *w, void *b,
                                 void *scales, void *zeros)
{
    const bool in_place = problem->layout == QUERN_LAYOUT_K8;
    const size_t bytes = (size_t)problem->n * (size_t)problem->k / 2;
    void *const own = in_place ? NULL : os.malloc(bytes);
    struct quern_problem k8 = *problem;
    quern_status status = QUERN_OK;

    FAIL_IF(!in_place && !own, QUERN_E_MEMORY, "no memory for %zu bytes of packed weights", bytes);
    struct quantise q = {problem, w, in_place ? b : own, scales, zeros};
    parallel_for((size_t)problem->n, os_cpu_count(), quantise_row, &q);
    k8.layout = QUERN_LAYOUT_K8;
    if (!in_place)
        status = quant_repack(&k8, problem->layout, own, b);
    os.free(own);
    return status;
}

/* ---- Dequantise ------------------------------------------------------------------------------ */

/* The value of each of a group's sixteen codes; `at` is the group's index. */
static void group_values(const struct quern_problem *p, const void *scales, const void *zeros,
                         size_t at, double value[16])
{
    const enum quern_dtype type = problem_scale_type(p);
    const double s = (double)quant_load(type, scales, at);
    const double zs = p->zero == QUERN_ZERO_SCALED ? (double)quant_load(type, zeros, at) : 0;
    const int z = p->zero == QUERN_ZERO_U8 ? ((const uint8_t *)zeros)[at] : MIDDLE;

    for (int code = 0; code < 16; code++) {
        value[code] = (code - z) * s;
        if (p->zero == QUERN_ZERO_SCALED)
            value[code] -= zs;
    }
}

/* The same in f32, rounded once. To round group_values' doubles would round twice where scaled zero
 * points are subtracted. */
static void group_values_f32(const struct quern_problem *p, const void *scales, const void *zeros,
                             size_t at, float value[16])
{
    const enum quern_dtype type = problem_scale_type(p);
    const float s = quant_load(type, scales, at);
    double exact[16];

    if (p->zero == QUERN_ZERO_SCALED) {
        const float zs = quant_load(type, zeros, at);
        for (int code = 0; code < 16; code++)
            value[code] = fmaf((float)(code - MIDDLE), s, -zs);
        return;
    }
    group_values(p, scales, zeros, at, exact);
    for (int code = 0; code < 16; code++)
        value[code] = (float)exact[code];
}

void quant_int4_row(const struct quern_problem *p, const uint32_t *k8, const void *scales,
                    const void *zeros, size_t row, double *w)
{
    const size_t k = (size_t)p->k, group = (size_t)problem_group(p);
    const uint32_t *const words = k8 + row * (k / 8);
    double value[16];

    for (size_t i = 0; i < k; i++) {
        if (i % group == 0)
            group_values(p, scales, zeros, (row * k + i) / group, value);
        w[i] = value[words[i / 8] >> i % 8 * 4 & 15];
    }
}

void quant_int4_row_f32(const struct quern_problem *p, const uint32_t *k8, const void *scales,
                        const void *zeros, size_t row, float *w)
{
    const size_t k = (size_t)p->k, group = (size_t)problem_group(p);
    const uint32_t *const words = k8 + row * (k / 8);
    float value[16];

    for (size_t i = 0; i < k; i++) {
        if (i % group == 0)
            group_values_f32(p, scales, zeros, (row * k + i) / group, value);
        w[i] = value[words[i / 8] >> i % 8 * 4 & 15];
    }
}

struct dequantise {
    const struct quern_problem *problem;
    const uint32_t *k8;
    const union operand_pointers *in;
    float *w;
};

static void dequantise_row(void *user, size_t row)
{
    const struct dequantise *const d = user;

    quant_int4_row_f32(d->problem, d->k8, d->in->scales, d->in->zeros, row,
                       d->w + row * (size_t)d->problem->k);
}

quern_status quant_dequantise_int4(const struct quern_problem *problem,
                                   const union operand_pointers *in, float *w)
{
    const bool in_place = problem->layout == QUERN_LAYOUT_K8;
    const size_t bytes = (size_t)problem->n * (size_t)problem->k / 2;
    void *const own = in_place ? NULL : os.malloc(bytes);
    quern_status status = QUERN_OK;

    FAIL_IF(!in_place && !own, QUERN_E_MEMORY, "no memory for %zu bytes of packed weights", bytes);
    if (!in_place)
        status = quant_repack(problem, QUERN_LAYOUT_K8, in->b, own);
    if (status == QUERN_OK) {
        struct dequantise d = {problem, in_place ? in->b : own, in, w};
        parallel_for((size_t)problem->n, os_cpu_count(), dequantise_row, &d);
    }
    os.free(own);
    return status;
}
