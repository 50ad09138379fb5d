/* SPDX-License-Identifier: MIT */
/* Instruction counts, from the control flow: flow[n] is how much more often instruction n was
 * executed than the one before it. */
#include "sim/launch.h"

const char *quern_sim_class_name(enum quern_sim_class c)
{
    static const char *const names[QUERN_CLASS_COUNT] = {
        [QUERN_CLASS_VALU] = "valu",     [QUERN_CLASS_PACKED] = "packed",
        [QUERN_CLASS_TRANS] = "trans",   [QUERN_CLASS_SALU] = "salu",
        [QUERN_CLASS_SMEM] = "smem",     [QUERN_CLASS_VMEM] = "vmem",
        [QUERN_CLASS_LDS] = "lds",       [QUERN_CLASS_MATRIX] = "matrix",
        [QUERN_CLASS_BRANCH] = "branch", [QUERN_CLASS_WAIT] = "wait"};

    return (unsigned)c < QUERN_CLASS_COUNT ? names[c] : "unknown";
}

void counts_add(const struct quern_sim_module *module, const int64_t *flow,
                struct quern_sim_counts *counts)
{
    int64_t executed = 0;

    for (size_t n = 0; n < module->insn_count; n++) {
        const struct sim_row *const row = module->notes[n].row;
        executed += flow[n];
        if (!row || executed <= 0 || module->insns[n].flags & INSN_SECOND)
            continue;
        counts->instructions += (uint64_t)executed;
        counts->classes[row->class] += (uint64_t)executed;
    }
}
