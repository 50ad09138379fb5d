/* SPDX-License-Identifier: MIT */
/* How the promises of `exact` are kept, and what they cost: exact.h. */
#include "plan/exact.h"

/* The largest number of rows of A that a kernel for every M is judged by. */
#define EXACT_ROWS_MAX 1024

double exact_times(const struct plan_set *set, const struct plan_set *best, int64_t m)
{
    struct plan_slice slices[2];
    const double own = (double)plan_slices_cycles(slices, plan_slices(set, m, slices));

    return own / (double)plan_slices_cycles(slices, plan_slices(best, m, slices));
}

/* A kernel of a set as one for every M. */
static struct plan_set alone(const struct plan *p)
{
    struct plan_set set = {.count = 1, .m_max = p->m_tile, .plans = {*p}};

    set.plans[0].m_lo = 1;
    set.plans[0].m_hi = p->m_tile;
    set.plans[0].weights_once = false; /* slices of one launch share them */
    return set;
}

void exact_keep_one(struct plan_set *set)
{
    struct plan_set best = {0};
    double least = 0;

    for (size_t i = 0; i < set->count; i++) {
        const struct plan_set one = alone(&set->plans[i]);
        double sum = 0;

        for (int64_t m = 1; m <= EXACT_ROWS_MAX; m *= 2)
            sum += exact_times(&one, set, m);
        if (!best.count || sum < least) {
            best = one;
            least = sum;
        }
    }
    *set = best;
}
