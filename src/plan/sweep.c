/* SPDX-License-Identifier: MIT */
/* At which M one family takes over from another: what `quern explain --m-sweep` says. */
#include "plan/exact.h"
#include "plan/family.h"
#include "target/rates.h"

#include <inttypes.h>
#include <stdio.h>

/* M of the table's last line. */
#define ROWS_MAX 2048

/* The model's choice for slices of m rows, or of as many as the family's kernels take at most. */
static bool choose(const struct plan_set *set, enum plan_units units, int m, struct plan *p)
{
    const struct plan *const largest = &set->plans[set->count - 1], *of_units = NULL;
    const int most = units == PLAN_UNITS_VECTOR ? PLAN_SIMT_M_MAX : PLAN_MMA_M_MAX;

    for (size_t i = 0; i < set->count; i++)
        if (plan_units(&set->plans[i]) == units)
            of_units = &set->plans[i];
    const struct family *const family = of_units ? of_units->family
                                        : units == PLAN_UNITS_VECTOR
                                            ? family_of(&largest->problem, largest->target, units)
                                            : NULL;
    if (!family)
        return false;
    if (units == PLAN_UNITS_TILES) {
        const struct plan *best = largest, *const other = largest - 1;
        if (set->count > 1 && plan_units(other) == PLAN_UNITS_TILES &&
            plan_launch_cycles(other, m) < plan_launch_cycles(best, m))
            best = other;
        *p = *best;
        return true;
    }
    *p = (struct plan){.problem = largest->problem,
                       .force = largest->force,
                       .target = largest->target,
                       .family = family};
    const int least = family->fewest_rows ? family->fewest_rows(p) : 1;
    p->m_hi = p->m_tile = m < least ? least : m < most ? m : most;
    for (const int *rows = family->m_tiles ? family->m_tiles(&p->problem) : NULL; rows && *rows;
         rows++) {
        p->m_hi = p->m_tile = *rows;
        if (m <= *rows)
            break;
    }
    return model_choose(NULL, p) == QUERN_OK;
}

bool plan_cost_of(const struct plan_set *set, enum plan_units units, int m, struct plan_cost *cost)
{
    const struct quern_problem *const q = &set->plans[0].problem;
    struct plan p;

    /* a kernel of op=moe has its blocks' rows, and no other can be put in its place */
    if (set->plans[0].block_rows || !choose(set, units, m, &p))
        return false;
    const int slices = (m + p.m_tile - 1) / p.m_tile;
    *cost = (struct plan_cost){
        .us = target_microseconds(p.target, (double)plan_expected_cycles(&p, m, NULL)),
        .slots = slices * (double)p.estimate.slots * p.wave_size / ((double)q->n * (double)q->k)};
    return true;
}

static void add_cost(struct str *out, const struct plan_set *set, enum plan_units units, int m)
{
    struct plan_cost cost;
    char text[40] = "-";

    if (plan_cost_of(set, units, m, &cost))
        snprintf(text, sizeof text, "%.1f us, %.2f slots", cost.us, cost.slots);
    str_addf(out, "  %-24s", text);
}

/* The kernels that serve m rows. */
static void add_kernels(struct str *out, const struct plan_set *set, int m)
{
    struct plan_slice slices[2];
    const size_t count = plan_slices(set, m, slices);

    for (size_t i = 0; i < count; i++) {
        str_addf(out, "%s%s", i ? ", then " : "", slices[i].plan->symbol);
        if (slices[i].slices > 1)
            str_addf(out, " in %s%" PRId64 " slices", slices[i].plan->block_rows ? "at most " : "",
                     slices[i].slices);
    }
    str_addf(out, ": %.1f us\n",
             target_microseconds(set->plans[0].target,
                                 (double)plan_expected_slices(slices, count, NULL)));
}

/* What the promises of a set's problem cost; nothing where there are none. */
static void add_promise(struct str *out, const struct plan_set *set)
{
    static const int64_t rows[] = {1, 8, 64, 512};
    const struct plan *const first = &set->plans[0];
    struct quern_problem problem = first->problem;
    struct plan_set without;

    problem.exact = 0;
    if (!first->problem.exact || plan_make(&problem, first->target, &without) != QUERN_OK)
        return;
    str_addf(out, "exact:%s%s modelled time against no promise",
             first->problem.exact & QUERN_EXACT_BATCH_INVARIANT ? " one kernel for every M;" : "",
             first->problem.exact & QUERN_EXACT_PRECISE ? " no scaled weight is rounded;" : "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        str_addf(out, "%s M = %d %.2f", i ? "," : "", (int)rows[i],
                 exact_times(set, &without, rows[i]));
    str_add(out, "\n");
}

void plan_explain_rows(const struct plan_set *set, int m, struct str *out)
{
    static const char *const names[] = {"vector units", "matrix units", "tiles in LDS"};
    struct plan_cost cost;

    str_addf(out, "%d rows by ", m);
    add_kernels(out, set, m);
    for (int units = PLAN_UNITS_VECTOR; units <= PLAN_UNITS_TILES; units++)
        if (plan_cost_of(set, (enum plan_units)units, m, &cost))
            str_addf(out, "  %-12s alone %.1f us\n", names[units], cost.us);
    add_promise(out, set);
}

void plan_explain_sweep(const struct plan_set *set, struct str *out)
{
    const struct plan *const first = &set->plans[0];

    if (plan_units(first) == PLAN_UNITS_NONE) {
        str_addf(out, "%s serves every M\n", first->symbol);
        return;
    }
    str_add(out, "modelled time, the longest of instructions, memory and the path to the cache; "
                 "issue slots per weight\n");
    str_addf(out, "%-9s  %-24s  %-24s  %-24s  kernel\n", "rows", "vector units", "matrix units",
             "tiles in LDS");
    for (int m = 1; m <= ROWS_MAX; m *= 2) {
        const int least = m > 2 ? m / 2 + 1 : m;
        char rows[24];
        snprintf(rows, sizeof rows, least < m ? "%d-%d" : "%d", least, m);
        str_addf(out, "%-9s", rows);
        for (int units = PLAN_UNITS_VECTOR; units <= PLAN_UNITS_TILES; units++)
            add_cost(out, set, (enum plan_units)units, m);
        str_add(out, "  ");
        add_kernels(out, set, m);
    }
    for (size_t i = 1; i < set->count; i++)
        if (set->plans[i].family != set->plans[i - 1].family)
            str_addf(out, "%s takes over from %s at M = %d\n", set->plans[i].family->name,
                     set->plans[i - 1].family->name, set->plans[i].m_lo);
    add_promise(out, set);
}
