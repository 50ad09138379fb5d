/* SPDX-License-Identifier: MIT */
/* Made-up choices of experts: choices.h. */
#include "measure/choices.h"

#include <stdbool.h>

void choices_make_up(const struct quern_problem *p, int64_t m, int64_t shift, int32_t *ids)
{
    uint64_t state = 1;

    for (int64_t i = 0; i < m * p->top_k; i++) {
        const int64_t first = i / p->top_k * p->top_k;
        state = state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((state >> 33) % (uint64_t)p->experts);
        for (int64_t j = first; j < i && p->top_k <= p->experts; j++)
            if (ids[j] == ids[i]) { /* the next one, and compare from the beginning */
                ids[i] = (ids[i] + 1) % p->experts;
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
