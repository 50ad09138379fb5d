/* SPDX-License-Identifier: MIT */
/*
 * Counters: registers that a load still owes. A load from memory, a read of LDS and a scalar load
 * write their registers when they please; an instruction that reads or overwrites one before a wait
 * that proves the load done gets whatever is there. The rules are those of LLVM's
 * SIInsertWaitcnts. Operations of one kind on a counter end in the order of issue, so that a wait
 * for N proves that all but the last N are done. Operations of two kinds on one counter end in no
 * order, and scalar loads never do: there only a wait for 0 proves anything.
 *
 * What is known of each register at a place: how many operations were issued on its counter after
 * the one that owes it, the fewest over all paths.
 */
#include "lint/scan.h"

#include <string.h>

enum { LDS_WRITTEN = LINT_REGISTERS, OWED_COUNT, NOT_OWED = 255, MOST = 254 };

/* What is under way at a place in the code. */
struct owed {
    /* by counter: operations issued on it after the one that owes the register; NOT_OWED: none
     * does. Two counters can owe one register: flat loads raise that of memory and that of LDS */
    uint8_t age[LINT_COUNTERS][OWED_COUNT];
    uint8_t kinds[LINT_COUNTERS]; /* of operations that may be under way, a bit each */
};

enum operation { PLAIN_LOAD = 1, LDS_OPERATION = 2, SCALAR_LOAD = 4, FLAT_LOAD = 8 };

struct analysis {
    const struct lint_scan *scan;
    /* counters that are one on this target, by the number of the first */
    uint8_t same[LINT_COUNTERS];
    bool flat_in_order; /* on both counters, as from gfx10 on */
};

/* ---- One instruction ------------------------------------------------------------------------- */

/* What an instruction raises: counters as bits, and the kind of operation on each. */
static uint8_t raises(const struct analysis *a, const struct lint_insn *i,
                      uint8_t kinds[LINT_COUNTERS])
{
    uint8_t counters = 0;

    memset(kinds, 0, LINT_COUNTERS);
    if (i->kinds & LINT_SMEM) {
        counters |= 1 << LINT_SCALAR_LOADS;
        kinds[LINT_SCALAR_LOADS] = SCALAR_LOAD;
    }
    if (i->kinds & LINT_LDS) {
        counters |= 1 << LINT_LDS_OPS;
        kinds[LINT_LDS_OPS] = LDS_OPERATION;
    }
    if (i->kinds & LINT_VMEM) {
        const enum lint_counter c = i->kinds & LINT_STORE ? LINT_STORES : LINT_LOADS;
        counters |= (uint8_t)(1 << c);
        kinds[c] = PLAIN_LOAD;
        if (i->kinds & LINT_FLAT) { /* LDS's counter as well */
            counters |= 1 << LINT_LDS_OPS;
            kinds[LINT_LDS_OPS] = a->flat_in_order ? LDS_OPERATION : FLAT_LOAD;
            kinds[c] = a->flat_in_order ? PLAIN_LOAD : FLAT_LOAD;
        }
    }
    return counters;
}

static bool in_order(uint8_t kinds)
{
    return kinds == PLAIN_LOAD || kinds == LDS_OPERATION;
}

static void wait_for(const struct analysis *a, struct owed *o, const struct lint_insn *i)
{
    for (int c = 0; c < LINT_COUNTERS; c++) {
        const uint8_t n = i->waits[c], counter = a->same[c];
        if (n == LINT_NO_WAIT || (n && !in_order(o->kinds[counter])))
            continue;
        for (int r = 0; r < OWED_COUNT; r++)
            o->age[counter][r] = o->age[counter][r] >= n ? NOT_OWED : o->age[counter][r];
        if (!n)
            o->kinds[counter] = 0;
    }
}

static void raise(struct owed *o, int counter, uint8_t kind)
{
    o->kinds[counter] |= kind;
    for (int r = 0; r < OWED_COUNT; r++)
        o->age[counter][r] = (uint8_t)(o->age[counter][r] + (o->age[counter][r] < MOST));
}

static void owe(struct owed *o, struct lint_range r, int counter)
{
    memset(o->age[counter] + r.first, 0, r.count);
}

/* The counter that owes a register of a range, with the first such register in *reg; -1: none does.
 * Counter `but` is left out. */
static int owed_in(const struct owed *o, struct lint_range r, int but, int *reg)
{
    for (int c = 0; c < LINT_COUNTERS; c++)
        for (unsigned k = 0; c != but && k < r.count; k++)
            if (o->age[c][r.first + k] != NOT_OWED) {
                *reg = r.first + (int)k;
                return c;
            }
    return -1;
}

/* Takes registers as no longer owed, once they are reported: every further use would be reported,
 * too. */
static void forgive(struct owed *o, struct lint_range r)
{
    for (int c = 0; c < LINT_COUNTERS; c++)
        memset(o->age[c] + r.first, NOT_OWED, r.count);
}

/* The last instruction before `i` that loads a register: for the report's sake alone. */
static size_t loader_of(const struct lint_scan *s, size_t i, int reg)
{
    const struct lint_range r = {(uint16_t)reg, 1};

    for (size_t back = 1; back < s->count; back++) {
        const size_t n = (i + s->count - back) % s->count;
        const struct lint_insn *const insn = &s->insns[n];
        if (!(insn->kinds & (LINT_VMEM | LINT_LDS | LINT_SMEM)))
            continue;
        if (reg == LDS_WRITTEN && insn->kinds & LINT_LDS && insn->kinds & LINT_STORE)
            return n;
        for (size_t d = 0; d < insn->def_count; d++)
            if (lint_overlap(insn->defs[d], r))
                return n;
    }
    return i;
}

/* The most that a wait may leave under way for a register to be there. */
static unsigned most_left(const struct owed *o, int counter, int reg)
{
    return in_order(o->kinds[counter]) ? o->age[counter][reg] : 0;
}

static void check(const struct analysis *a, struct owed *o, size_t i)
{
    const struct lint_insn *const insn = &a->scan->insns[i];
    uint8_t kinds[LINT_COUNTERS];
    const uint8_t raised = raises(a, insn, kinds);
    int own = -1; /* a load's own counter: loads of one kind may write over each other, in order */

    for (int c = 0; c < LINT_COUNTERS; c++)
        if (raised & 1 << c && in_order(kinds[c] | o->kinds[a->same[c]]))
            own = a->same[c];
    for (size_t n = 0; n < (size_t)insn->use_count + insn->def_count; n++) {
        const bool use = n < insn->use_count;
        const struct lint_range r = use ? insn->uses[n] : insn->defs[n - insn->use_count];
        int reg;
        const int counter = owed_in(o, r, use ? -1 : own, &reg);
        if (counter < 0)
            continue;
        lint_report(a->scan, QUERN_LINT_OWED,
                    use ? "a register is read that a load still owes"
                        : "a register is overwritten that a load still owes",
                    loader_of(a->scan, i, reg), i, (struct lint_range){(uint16_t)reg, 1},
                    most_left(o, counter, reg), 0);
        forgive(o, r);
    }
    const struct lint_range lds = {LDS_WRITTEN, 1};
    int reg;
    const int counter = insn->kinds & LINT_BARRIER ? owed_in(o, lds, -1, &reg) : -1;
    if (counter >= 0) {
        lint_report(a->scan, QUERN_LINT_OWED, "LDS is written and not waited for at a barrier",
                    loader_of(a->scan, i, reg), i, (struct lint_range){0},
                    most_left(o, counter, reg), 0);
        forgive(o, lds);
    }
}

/* Makes what is under way in front of an instruction what is under way behind it. */
static void step(const struct analysis *a, struct owed *o, size_t i)
{
    const struct lint_insn *const insn = &a->scan->insns[i];
    uint8_t kinds[LINT_COUNTERS];
    const uint8_t raised = raises(a, insn, kinds);

    if (insn->kinds & LINT_WAIT)
        wait_for(a, o, insn);
    for (int c = 0; c < LINT_COUNTERS; c++)
        if (raised & 1 << c)
            raise(o, a->same[c], kinds[c]);
    for (int c = 0; c < LINT_COUNTERS; c++) {
        if (!(raised & 1 << c))
            continue;
        if (c == LINT_LDS_OPS && insn->kinds & LINT_STORE)
            owe(o, (struct lint_range){LDS_WRITTEN, 1}, a->same[c]);
        if (c == LINT_LOADS && insn->kinds & LINT_TO_LDS)
            owe(o, (struct lint_range){LDS_WRITTEN, 1}, a->same[c]);
        for (size_t d = 0; d < insn->def_count; d++)
            owe(o, insn->defs[d], a->same[c]);
    }
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static void step_at(void *user, void *state, size_t i)
{
    step(user, state, i);
}

static void check_at(void *user, void *state, size_t i)
{
    check(user, state, i);
}

static bool join(void *into, const void *other)
{
    struct owed *const to = into;
    const struct owed *const from = other;
    bool more = false;

    for (int c = 0; c < LINT_COUNTERS; c++) {
        for (int r = 0; r < OWED_COUNT; r++)
            if (from->age[c][r] < to->age[c][r]) { /* NOT_OWED is the greatest */
                to->age[c][r] = from->age[c][r];
                more = true;
            }
        more |= (from->kinds[c] & ~to->kinds[c]) != 0;
        to->kinds[c] |= from->kinds[c];
    }
    return more;
}

quern_status lint_owed(const struct lint_scan *s)
{
    const bool one_for_memory = !s->target->store_counter;
    const bool one_for_lds = !(s->target->capabilities & CAP_SPLIT_BARRIER); /* and scalar loads */
    struct analysis a = {.scan = s,
                         .flat_in_order = s->target->store_counter,
                         .same = {LINT_LOADS, one_for_memory ? LINT_LOADS : LINT_STORES,
                                  LINT_LDS_OPS, one_for_lds ? LINT_LDS_OPS : LINT_SCALAR_LOADS}};
    struct owed nothing = {0};

    memset(nothing.age, NOT_OWED, sizeof nothing.age);
    return lint_flow(s, &(struct lint_flow){.bytes = sizeof nothing,
                                            .begin = &nothing,
                                            .check = check_at,
                                            .step = step_at,
                                            .join = join,
                                            .user = &a});
}
