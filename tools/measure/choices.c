/* SPDX-License-Identifier: MIT */
/* Made-up choices of experts: choices.h. */
#include "measure/choices.h"

#include <stdbool.h>

static uint64_t next_bits(uint64_t *state)
{
    return *state = *state * 6364136223846793005u + 1442695040888963407u;
}

static int32_t draw_evenly(uint64_t *state, int32_t experts)
{
    return (int32_t)((next_bits(state) >> 33) % (uint64_t)experts);
}

static int32_t draw_by_zipf(uint64_t *state, int32_t experts)
{
    const uint64_t bits = next_bits(state);
    double sum = 0;
    int32_t expert = 0;

    for (int32_t i = 1; i <= experts; i++)
        sum += 1.0 / i;
    double left = (double)(bits >> 11) * 0x1p-53 * sum;
    while (expert + 1 < experts && (left -= 1.0 / (expert + 1)) >= 0)
        expert++;
    return expert;
}

void choices_make_up(const struct quern_problem *p, int64_t m, int64_t shift, enum choices_law law,
                     int32_t *ids)
{
    uint64_t state = 1;

    for (int64_t i = 0; i < m * p->top_k; i++) {
        const int64_t first = i / p->top_k * p->top_k;
        const bool zipf = law == CHOICES_ZIPF;
        ids[i] = zipf ? draw_by_zipf(&state, p->experts) : draw_evenly(&state, p->experts);
        for (int64_t j = first; j < i && p->top_k <= p->experts; j++)
            if (ids[j] == ids[i]) { /* another one, and compare from the beginning */
                ids[i] = zipf ? draw_by_zipf(&state, p->experts) : (ids[i] + 1) % p->experts;
                j = first - 1;
            }
    }
    for (int64_t i = 0; i < m * p->top_k; i++)
        ids[i] = (int32_t)((ids[i] + shift) % p->experts);
}

int64_t choices_distinct(const struct quern_problem *p, int64_t m, const int32_t *ids)
{
    int64_t distinct = 0;

    for (int32_t expert = 0; expert < p->experts; expert++) {
        bool named = false;
        for (int64_t i = 0; i < m * p->top_k && !named; i++)
            named = ids[i] == expert;
        distinct += named;
    }
    return distinct;
}
