/* SPDX-License-Identifier: MIT */
/* Where families take over from each other: what `quern explain --m-sweep` says. */
#include "plan/family.h"
#include "target/rates.h"

#include <inttypes.h>
#include <stdio.h>

/* The model's choice for slices of m_tile rows; false when the family has none. */
static bool choose(const struct plan *like, enum plan_family family, int m_tile, struct plan *p)
{
    *p = (struct plan){.problem = like->problem,
                       .force = like->force,
                       .target = like->target,
                       .family = family,
                       .m_hi = m_tile,
                       .m_tile = m_tile};
    return model_choose(decode_family_by(family)->model, NULL, p) == QUERN_OK;
}

/* Appends what m rows take in slices of m_tile: the longer of issue and memory. */
static void add_cost(struct str *out, const struct plan *like, enum plan_family family, int m_tile,
                     int m)
{
    const struct quern_problem *const q = &like->problem;
    struct plan p;

    if (!choose(like, family, m_tile, &p)) {
        str_addf(out, "  %-24s", "-");
        return;
    }
    const int slices = (m + m_tile - 1) / m_tile;
    const int64_t row = q->k * dtype_bytes(q->a) + q->n * dtype_bytes(q->c);
    const double kernel = (double)slices * (double)p.estimate.kernel_cycles;
    const double memory = (double)p.estimate.memory_cycles +
                          target_memory_cycles(p.target, (double)(row * (m - m_tile)));
    const double slots =
        (double)slices * (double)p.estimate.slots * p.wave_size / ((double)q->n * (double)q->k);
    char text[40];

    snprintf(text, sizeof text, "%.1f us, %.2f slots",
             target_microseconds(p.target, kernel > memory ? kernel : memory), slots);
    str_addf(out, "  %-24s", text);
}

/* The kernel that serves m rows: slices of the largest, beyond that one's. */
static const struct plan *serves(const struct plan_set *set, int m)
{
    return plan_for(set, m < set->m_max ? m : set->m_max);
}

void plan_explain_sweep(const struct plan_set *set, struct str *out)
{
    const struct plan *const first = &set->plans[0];
    const struct decode_family *const mma = matrix_family_of(&first->problem, first->target);

    if (first->family == FAMILY_DEQUANT) {
        str_addf(out, "%s serves every M\n", first->symbol);
        return;
    }
    str_add(out, "modelled time, the longer of instructions and memory; issue slots per weight\n");
    str_addf(out, "%-8s  %-24s  %-24s  kernel\n", "rows", "vector units", "matrix units");
    for (int m = 1; m <= PLAN_M_MAX; m *= 2) {
        const int least = m > 2 ? m / 2 + 1 : m;
        char rows[24];
        snprintf(rows, sizeof rows, least < m ? "%d-%d" : "%d", least, m);
        str_addf(out, "%-8s", rows);
        add_cost(out, first, decode_family_of(&first->problem)->id,
                 m < PLAN_SIMT_M_MAX ? m : PLAN_SIMT_M_MAX, m);
        if (mma)
            add_cost(out, first, mma->id, m < 16 ? 16 : m, m);
        else
            str_addf(out, "  %-24s", "-");
        const struct plan *const p = serves(set, m);
        str_addf(out, "  %s%s\n", p->symbol, m > set->m_max ? ", in slices" : "");
    }
    for (size_t i = 1; i < set->count; i++)
        if (set->plans[i].family != set->plans[i - 1].family)
            str_addf(out, "%s takes over from %s at M = %d\n",
                     decode_family_by(set->plans[i].family)->name,
                     decode_family_by(set->plans[i - 1].family)->name, set->plans[i].m_lo);
}
