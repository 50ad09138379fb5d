/* SPDX-License-Identifier: MIT */
/*
 * Nested absmax: bitsandbytes' 8-bit blockwise quantiser, applied to absmax less their mean. It is
 * rounded where bitsandbytes' portable implementation rounds. bitsandbytes' CPU library looks codes
 * up in an approximate table, and differs from both next to the bounds between two codes.
 */
#include "quant/quant.h"

#include <math.h>
#include <stdlib.h>

/* Second scales smaller than this are replaced by it before they are inverted: where all absmax are
 * equal the scale is 0. */
#define SCALE_LEAST 1e-38f

/* Exponents of ten in the code, from 10^-6 to 10^0. */
#define DECADES 7

/* Value i of `count` from 0.1 to 1, counted from the nearer end, as torch.linspace rounds it. */
static float spaced(int i, int count)
{
    const float step = (1.0f - 0.1f) / (float)(count - 1);

    return i < count / 2 ? fmaf(step, (float)i, 0.1f) : fmaf(-step, (float)(count - 1 - i), 1.0f);
}

static int ascending(const void *p, const void *q)
{
    const float x = *(const float *)p, y = *(const float *)q;

    return (x > y) - (x < y);
}

void quant_nest_code(float code[OPERAND_NEST])
{
    size_t count = 0;

    for (int decade = 0; decade < DECADES; decade++) {
        const float scale = (float)pow(10, decade - (DECADES - 1));
        const int bounds = (1 << decade) + 1;

        for (int i = 0; i + 1 < bounds; i++) {
            const float middle = (spaced(i, bounds) + spaced(i + 1, bounds)) / 2;

            code[count++] = scale * middle;
            code[count++] = -scale * middle;
        }
    }
    code[count++] = 0;
    code[count] = 1;
    qsort(code, OPERAND_NEST, sizeof *code, ascending);
}

float quant_nest_offset(const float *absmax, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += (double)absmax[i];
    return (float)(sum / (double)count);
}

/* The index of the value of the code that x is nearest to; NaN takes the last. */
static uint8_t nearest(const float code[OPERAND_NEST], float x)
{
    size_t low = 0, high = OPERAND_NEST - 1;

    x = x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (x <= (code[middle] + code[middle + 1]) / 2)
            high = middle;
        else
            low = middle + 1;
    }
    return (uint8_t)low;
}

void quant_nest(const float *absmax, size_t count, const float code[OPERAND_NEST], float offset,
                uint8_t *absmax8, float *scales)
{
    for (size_t first = 0; first < count; first += OPERAND_NEST) {
        const size_t left = count - first, n = left < OPERAND_NEST ? left : OPERAND_NEST;
        /* bitsandbytes divides a short last run by its scale, and stores the raised scale */
        const bool last = n < OPERAND_NEST;
        float most = 0;

        for (size_t i = 0; i < n; i++) {
            const float magnitude = fabsf(absmax[first + i] - offset);
            if (!(magnitude <= most)) /* true for a NaN, which becomes the run's scale */
                most = magnitude;
            if (isnan(most))
                break;
        }
        const float raised = most < SCALE_LEAST ? SCALE_LEAST : most, inverse = 1.0f / raised;
        scales[first / OPERAND_NEST] = last ? raised : most;
        for (size_t i = 0; i < n; i++) {
            const float x = absmax[first + i] - offset;
            absmax8[first + i] = nearest(code, last ? x / raised : x * inverse);
        }
    }
}

void quant_unnest(const uint8_t *absmax8, const float code[OPERAND_NEST], const float *scales,
                  float offset, size_t count, float *absmax)
{
    for (size_t i = 0; i < count; i++) {
        const float product = code[absmax8[i]] * scales[i / OPERAND_NEST];

        absmax[i] = product + offset;
    }
}
