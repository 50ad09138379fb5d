/* SPDX-License-Identifier: MIT */
/* One kernel's instructions as its scans see them: shared by the files of this folder alone. */
#ifndef QUERN_LINT_SCAN_H
#define QUERN_LINT_SCAN_H

#include "base/error.h"
#include "lint/insn.h"
#include "lint/lint.h"

struct lint_scan {
    const struct target *target;
    unsigned wave_size;
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

/* Where a jump to a computed address, instruction `at`, leads: a byte offset, or -1 (jump.c). */
int64_t lint_jump(const struct lint_insn *insns, size_t at);

/* Tells of one finding: the instructions by their numbers (finding.c). */
void lint_report(const struct lint_scan *s, enum quern_lint_rule rule, const char *what,
                 size_t first, size_t second, struct lint_range registers, unsigned needed,
                 unsigned found);

/* What a scalar register is known to be: one of low to high, of numbers with a sign or without.
 * Only the register is remembered that a path has branched on last. */
struct lint_values {
    uint16_t reg;
    bool known, is_signed;
    int64_t low, high;
};
/* A branch that is taken if a register is one of some values, or none of them; of any other branch
 * nothing is known. */
struct lint_test {
    struct lint_values values;
    bool if_outside;
};
/* The test of the branch that ends a block (condition.c). */
struct lint_test lint_test_of(const struct lint_scan *s, size_t first, size_t branch);
/* What is known behind an instruction. */
void lint_forget(struct lint_values *f, const struct lint_insn *i);
/* What is known where a branch was taken, or not; false: it cannot be. */
bool lint_take(struct lint_values *f, const struct lint_test *t, bool taken);

/* What a rule keeps track of along all paths that can be taken (flow.c). */
struct lint_flow {
    size_t bytes;      /* of a state: what is known at a place, copied as plain bytes */
    const void *begin; /* the state at a kernel's begin */
    /* Called once for each instruction, with the final state in front of it: reports findings. */
    void (*check)(void *user, void *state, size_t i);
    /* Makes the state in front of an instruction that behind it. */
    void (*step)(void *user, void *state, size_t i);
    /* Adds another path's state to a place's; true if that changed it. */
    bool (*join)(void *to, const void *from);
    void *user;
};
quern_status lint_flow(const struct lint_scan *s, const struct lint_flow *flow);

/* Pairs of instructions that are too close (hazard.c). */
quern_status lint_hazards(const struct lint_scan *s);
/* Scalar registers that vector instructions read before they were written anew (stale.c). */
quern_status lint_stale(const struct lint_scan *s);
/* Vector registers around writes of EXEC, and loads from LDS past the vector ALU (forward.c). */
quern_status lint_forward(const struct lint_scan *s);
/* Registers that a load still owes (owed.c). */
quern_status lint_owed(const struct lint_scan *s);

#endif
