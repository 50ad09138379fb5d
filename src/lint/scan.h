/* SPDX-License-Identifier: MIT */
/* One kernel's instructions as its scans see them: shared by the files of this room alone. */
#ifndef QUERN_LINT_SCAN_H
#define QUERN_LINT_SCAN_H

#include "base/error.h"
#include "lint/insn.h"
#include "lint/lint.h"

struct lint_scan {
    const struct target *target;
    const char *kernel;
    const struct lint_insn *insns; /* by offset */
    size_t count;
    const uint32_t *next; /* for each: the two that may follow it, or LINT_NOWHERE */
    quern_lint_fn fn;
    void *user;
};
#define LINT_NOWHERE UINT32_MAX

static inline const uint32_t *lint_successors(const struct lint_scan *s, size_t i)
{
    return s->next + 2 * i;
}

/* Tells of one finding: the instructions by their numbers (finding.c). */
void lint_report(const struct lint_scan *s, enum quern_lint_rule rule, const char *what,
                 size_t first, size_t second, struct lint_range registers, unsigned needed,
                 unsigned found);

/* Pairs of instructions that are too close (hazard.c). */
void lint_hazards(const struct lint_scan *s);
/* Registers that a load still owes (owed.c). */
quern_status lint_owed(const struct lint_scan *s);

#endif
