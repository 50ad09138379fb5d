/* SPDX-License-Identifier: MIT */
/*
 * Wait states: pairs of instructions between which gfx90a, gfx942 and gfx950 have no interlock. The
 * rows are those of LLVM's GCNHazardRecognizer (2026), which counts every instruction that is
 * issued as one wait state and s_nop N as N + 1. LLVM inserts what is missing between instructions
 * that it knows, but does not look into inline assembly; so what this finds in compiled code is
 * next to assembly, or in code that was written by hand.
 */
#include "lint/scan.h"

/* Processors with rows of their own, by the names that LLVM's tables go by. */
enum place { GFX90A, GFX942, GFX950, PLACES };

/* Which registers of the two instructions a row is about. */
enum meeting {
    READ,        /* the second reads what the first wrote */
    TOUCHED,     /* it reads or overwrites it */
    AS_A_OR_B,   /* it reads it as A or B of a matrix instruction */
    AS_C,        /* it adds to it: other registers of a matrix instruction's C that overlap */
    AS_SAME_C,   /* … or exactly the same */
    LAST_READ,   /* it reads it as its last operand: the number of a lane */
    C_WRITTEN,   /* it overwrites what the first adds to */
    DATA_WRITTEN /* it overwrites what the first stores */
};

#define NO 0
/* The same for every number of passes. */
#define ALL(n) {n, n, n, n}

/* Wait states by place, and of matrix instructions by the first one's passes: 2, 4, 8, 16. */
struct hazard {
    const char *rule;
    uint32_t first, second; /* kinds, one of which each must be */
    uint32_t not_second;    /* kinds that the second must not be */
    enum meeting meeting;
    enum { ANY_REGISTER, SCALAR, VECTOR, EXEC_ONLY, VCC_ONLY, M0_ONLY } registers;
    uint8_t states[PLACES][4];
};

#define MEMORY      (LINT_VMEM | LINT_LDS)
#define VECTOR_UNIT (LINT_VALU | LINT_MFMA)

static const struct hazard hazards[] = {
    /* matrix instructions */
    {"a matrix instruction reads A or B that another is writing",
     LINT_XDL,
     LINT_MFMA,
     0,
     AS_A_OR_B,
     ANY_REGISTER,
     {{5, 5, 11, 19}, {5, 7, 11, 19}, {5, 8, 12, 20}}},
    {"a matrix instruction reads A or B that one of f32 is writing",
     LINT_SGEMM,
     LINT_MFMA,
     0,
     AS_A_OR_B,
     ANY_REGISTER,
     {ALL(NO), {4, 6, 10, 18}, {4, 6, 10, 18}}},
    {"a matrix instruction reads A or B that one of f64 (4x4) is writing",
     LINT_DGEMM_4,
     LINT_MFMA,
     0,
     AS_A_OR_B,
     ANY_REGISTER,
     {ALL(6), ALL(6), ALL(6)}},
    {"a matrix instruction reads A or B that one of f64 (16x16) is writing",
     LINT_DGEMM_16,
     LINT_MFMA,
     0,
     AS_A_OR_B,
     ANY_REGISTER,
     {ALL(11), ALL(11), ALL(19)}},
    {"a matrix instruction adds to part of what another is writing",
     LINT_XDL,
     LINT_XDL | LINT_SGEMM,
     0,
     AS_C,
     ANY_REGISTER,
     {{2, 4, 8, 16}, {3, 5, 9, 17}, {3, 6, 10, 18}}},
    {"a matrix instruction of f64 adds to part of what another is writing",
     LINT_XDL,
     LINT_DGEMM_4 | LINT_DGEMM_16,
     0,
     AS_C,
     ANY_REGISTER,
     {{3, 5, 9, 17}, {3, 5, 9, 17}, {3, 6, 10, 18}}},
    {"a matrix instruction of f32 adds to part of what one like it is writing",
     LINT_SGEMM,
     LINT_SGEMM,
     0,
     AS_C,
     ANY_REGISTER,
     {ALL(NO), {2, 4, 8, 16}, {2, 4, 8, 16}}},
    {"a matrix instruction of f64 adds to part of what a 4x4 one is writing",
     LINT_DGEMM_4,
     LINT_DGEMM_4 | LINT_DGEMM_16,
     0,
     AS_C,
     ANY_REGISTER,
     {ALL(4), ALL(4), ALL(4)}},
    {"a matrix instruction of f64 adds to part of what a 16x16 one is writing",
     LINT_DGEMM_16,
     LINT_DGEMM_4 | LINT_DGEMM_16,
     0,
     AS_C,
     ANY_REGISTER,
     {ALL(9), ALL(9), ALL(17)}},
    {"a matrix instruction adds to what one of two passes is writing",
     LINT_XDL,
     LINT_XDL,
     0,
     AS_SAME_C,
     ANY_REGISTER,
     {ALL(NO), {2, NO, NO, NO}, {2, NO, NO, NO}}},
    {"what a matrix instruction is writing is read or overwritten",
     LINT_XDL,
     LINT_VALU | MEMORY,
     0,
     TOUCHED,
     ANY_REGISTER,
     {{5, 5, 11, 19}, {5, 7, 11, 19}, {5, 8, 12, 20}}},
    {"what a matrix instruction of f32 is writing is read or overwritten",
     LINT_SGEMM,
     LINT_VALU | MEMORY,
     0,
     TOUCHED,
     ANY_REGISTER,
     {ALL(NO), {4, 6, 10, 18}, {4, 6, 10, 18}}},
    {"what a matrix instruction of f64 (4x4) is writing is read or overwritten",
     LINT_DGEMM_4,
     LINT_VALU,
     0,
     TOUCHED,
     ANY_REGISTER,
     {ALL(6), ALL(6), ALL(6)}},
    {"what a matrix instruction of f64 (4x4) is writing is stored",
     LINT_DGEMM_4,
     MEMORY,
     0,
     TOUCHED,
     ANY_REGISTER,
     {ALL(9), ALL(9), ALL(9)}},
    {"what a matrix instruction of f64 (16x16) is writing is read or overwritten",
     LINT_DGEMM_16,
     LINT_VALU,
     0,
     TOUCHED,
     ANY_REGISTER,
     {ALL(11), ALL(11), ALL(19)}},
    {"what a matrix instruction of f64 (16x16) is writing is stored",
     LINT_DGEMM_16,
     MEMORY,
     0,
     TOUCHED,
     ANY_REGISTER,
     {ALL(18), ALL(18), ALL(18)}},
    {"what a matrix instruction adds to is overwritten while it reads",
     LINT_XDL,
     LINT_VALU,
     0,
     C_WRITTEN,
     ANY_REGISTER,
     {{1, 3, 7, 15}, {1, 3, 7, 15}, {1, 3, 7, 15}}},
    {"a matrix instruction reads what the vector ALU has just written",
     LINT_VALU,
     LINT_MFMA,
     0,
     READ,
     VECTOR,
     {ALL(2), ALL(2), ALL(2)}},
    {"a matrix instruction follows a write of EXEC by the vector ALU",
     LINT_VALU,
     LINT_MFMA,
     0,
     TOUCHED,
     EXEC_ONLY,
     {ALL(4), ALL(4), ALL(4)}},

    /* dot products */
    {"what a dot product is writing is read or overwritten",
     LINT_DOT,
     VECTOR_UNIT,
     LINT_DOT,
     TOUCHED,
     VECTOR,
     {ALL(3), ALL(3), ALL(3)}},

    /* the vector ALU and what is around it */
    {"memory is addressed by what the vector ALU has just put into a scalar register",
     LINT_VALU,
     LINT_VMEM,
     0,
     READ,
     SCALAR,
     {ALL(5), ALL(5), ALL(5)}},
    {"DPP reads what the vector ALU has just written",
     LINT_VALU,
     LINT_DPP,
     0,
     READ,
     VECTOR,
     {ALL(2), ALL(2), ALL(2)}},
    {"DPP follows a write of EXEC by the vector ALU",
     LINT_VALU,
     LINT_DPP,
     0,
     TOUCHED,
     EXEC_ONLY,
     {ALL(5), ALL(5), ALL(5)}},
    {"v_div_fmas follows a write of VCC by the vector ALU",
     LINT_VALU,
     LINT_DIV_FMAS,
     0,
     READ,
     VCC_ONLY,
     {ALL(4), ALL(4), ALL(4)}},
    {"a lane is chosen by what the vector ALU has just put into a scalar register",
     LINT_VALU,
     LINT_LANE_NUMBER,
     0,
     LAST_READ,
     SCALAR,
     {ALL(4), ALL(4), ALL(4)}},
    {"a lane of what the vector ALU has just written is read",
     LINT_VALU,
     LINT_READLANE,
     0,
     READ,
     VECTOR,
     {ALL(NO), ALL(1), ALL(1)}},
    {"the vector ALU reads a scalar register that it has just written",
     LINT_VALU,
     LINT_VALU,
     LINT_DIV_FMAS,
     READ,
     SCALAR,
     {ALL(NO), ALL(2), ALL(2)}},
    {"a lane is read or written behind a write of EXEC by the vector ALU",
     LINT_VALU,
     LINT_READLANE | LINT_LANE_NUMBER,
     0,
     TOUCHED,
     EXEC_ONLY,
     {ALL(NO), ALL(4), ALL(4)}},
    {"the result of a transcendental instruction is read",
     LINT_TRANS,
     LINT_VALU,
     LINT_TRANS,
     READ,
     VECTOR,
     {ALL(NO), ALL(1), ALL(1)}},
    {"a register of which a part was just written is read or overwritten",
     LINT_PARTIAL,
     LINT_VALU,
     0,
     TOUCHED,
     VECTOR,
     {ALL(NO), ALL(1), ALL(1)}},
    {"lanes of what the vector ALU has just written are exchanged",
     LINT_VALU,
     LINT_SWAP,
     0,
     READ,
     VECTOR,
     {ALL(NO), ALL(NO), ALL(2)}},
    {"M0 is used behind a scalar instruction that writes it",
     LINT_SALU,
     LINT_USES_M0,
     0,
     TOUCHED,
     M0_ONLY,
     {ALL(1), ALL(1), ALL(1)}},
    {"what a store of more than 64 bits takes is overwritten",
     LINT_WIDE_STORE,
     VECTOR_UNIT,
     0,
     DATA_WRITTEN,
     VECTOR,
     {ALL(1), ALL(2), ALL(2)}},
};

/* ---- Meetings -------------------------------------------------------------------------------- */

static struct lint_range registers_of(const struct hazard *h, struct lint_range r)
{
    const bool vector = r.first >= LINT_VGPR;
    const bool wanted = h->registers == ANY_REGISTER || (h->registers == VECTOR && vector) ||
                        (h->registers == SCALAR && !vector && r.first != LINT_EXEC) ||
                        (h->registers == EXEC_ONLY && r.first / 2 == LINT_EXEC / 2) ||
                        (h->registers == VCC_ONLY && r.first / 2 == LINT_VCC / 2) ||
                        (h->registers == M0_ONLY && r.first == LINT_M0);

    return wanted ? r : (struct lint_range){0};
}

static struct lint_range common_part(struct lint_range a, struct lint_range b)
{
    const unsigned first = a.first > b.first ? a.first : b.first;
    const unsigned end_a = a.first + a.count, end_b = b.first + b.count;
    const unsigned end = end_a < end_b ? end_a : end_b;

    if (!lint_overlap(a, b))
        return (struct lint_range){0};
    return (struct lint_range){(uint16_t)first, (uint16_t)(end - first)};
}

static struct lint_range meets_any(struct lint_range r, const struct lint_range *with, size_t count)
{
    for (size_t n = 0; n < count; n++)
        if (lint_overlap(r, with[n]))
            return common_part(r, with[n]);
    return (struct lint_range){0};
}

/* The registers by which instruction `j` meets `r`, which the first wrote or read. */
static struct lint_range meeting_of(const struct hazard *h, struct lint_range r,
                                    const struct lint_insn *j)
{
    struct lint_range at = {0};

    switch (h->meeting) {
    case READ:
        return meets_any(r, j->uses, j->use_count);
    case TOUCHED:
        if (h->registers == EXEC_ONLY || h->registers == M0_ONLY)
            return r; /* used without being named */
        at = meets_any(r, j->uses, j->use_count);
        return at.count ? at : meets_any(r, j->defs, j->def_count);
    case AS_A_OR_B:
        return meets_any(r, j->uses, j->use_count < 2 ? j->use_count : 2);
    case AS_C:
    case AS_SAME_C:
        if (j->use_count < 3)
            return at;
        if ((j->uses[2].first == r.first && j->uses[2].count == r.count) !=
            (h->meeting == AS_SAME_C))
            return at;
        return meets_any(r, j->uses + 2, 1);
    case LAST_READ:
        return j->use_count ? meets_any(r, &j->uses[j->use_count - 1], 1) : at;
    case C_WRITTEN:
    case DATA_WRITTEN:
        return meets_any(r, j->defs, j->def_count);
    }
    return at;
}

/* What the first instruction of a pair leaves in danger. */
static size_t endangered(const struct hazard *h, const struct lint_insn *i,
                         struct lint_range to[LINT_DEFS])
{
    size_t count = 0;

    if (h->meeting == C_WRITTEN) {
        to[0] = i->use_count > 2 ? i->uses[2] : (struct lint_range){0};
        return to[0].count > 0;
    }
    if (h->meeting == DATA_WRITTEN) { /* the widest operand is the data */
        to[0] = (struct lint_range){0};
        for (size_t n = 0; n < i->use_count; n++)
            if (i->uses[n].first >= LINT_VGPR && i->uses[n].count > to[0].count)
                to[0] = i->uses[n];
        return to[0].count > 2;
    }
    for (size_t n = 0; n < i->def_count; n++) {
        const struct lint_range r = registers_of(h, i->defs[n]);
        if (r.count)
            to[count++] = r;
    }
    return count;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

/* A walk from one instruction over all that can follow it within some wait states. */
struct walk {
    const struct lint_scan *scan;
    const struct hazard *hazard;
    size_t from;
    unsigned needed;
    bool reported;
};

/* What is left of a range; all of it where that would be two parts. */
static struct lint_range without(struct lint_range r, struct lint_range gone)
{
    const unsigned end = r.first + r.count, gone_end = gone.first + gone.count;

    if (!lint_overlap(r, gone))
        return r;
    if (gone.first <= r.first)
        return (struct lint_range){(uint16_t)gone_end,
                                   (uint16_t)(gone_end < end ? end - gone_end : 0)};
    return gone_end >= end ? (struct lint_range){r.first, (uint16_t)(gone.first - r.first)} : r;
}

static void walk_on(struct walk *w, struct lint_range registers, uint32_t at, unsigned states)
{
    while (at != LINT_NOWHERE && states < w->needed && !w->reported) {
        const struct lint_insn *const j = &w->scan->insns[at];
        const struct hazard *const h = w->hazard;
        if (j->kinds & h->second && !(j->kinds & h->not_second)) {
            const struct lint_range met = meeting_of(h, registers, j);
            if (met.count) {
                w->reported = true;
                lint_report(w->scan, QUERN_LINT_TOO_CLOSE, h->rule, w->from, at, met, w->needed,
                            states);
                return;
            }
        }
        /* of what is written anew, the later result is read from here on */
        for (size_t n = 0; n < j->def_count && h->meeting != C_WRITTEN; n++)
            registers = without(registers, j->defs[n]);
        if (!registers.count)
            return;
        states += j->wait_states;
        const uint32_t *const next = lint_successors(w->scan, at);
        if (next[1] != LINT_NOWHERE)
            walk_on(w, registers, next[1], states);
        at = next[0];
    }
}

static unsigned states_of(const struct hazard *h, enum place place, const struct lint_insn *i)
{
    const unsigned by_passes = i->passes <= 2 ? 0 : i->passes <= 4 ? 1 : i->passes <= 8 ? 2 : 3;

    return h->states[place][i->kinds & LINT_MFMA ? by_passes : 0];
}

static void check_from(const struct lint_scan *s, enum place place, size_t i)
{
    const struct lint_insn *const insn = &s->insns[i];

    for (size_t n = 0; n < sizeof hazards / sizeof *hazards; n++) {
        const struct hazard *const h = &hazards[n];
        struct lint_range registers[LINT_DEFS];
        if (!(insn->kinds & h->first) || !states_of(h, place, insn))
            continue;
        const size_t count = endangered(h, insn, registers);
        for (size_t k = 0; k < count; k++) {
            struct walk w = {s, h, i, states_of(h, place, insn), false};
            const uint32_t *const next = lint_successors(s, i);
            for (int way = 0; way < 2; way++)
                if (next[way] != LINT_NOWHERE)
                    walk_on(&w, registers[k], next[way], 0);
        }
    }
}

/* gfx90a takes the wrong amount for a shift of 64 bits from the last of eight registers. */
static void check_shift(const struct lint_scan *s, size_t i)
{
    const struct lint_insn *const insn = &s->insns[i];

    if (insn->kinds & LINT_SHIFT_64 && insn->use_count && insn->uses[0].first >= LINT_VGPR &&
        (insn->uses[0].first - LINT_VGPR) % 8 == 7)
        lint_report(s, QUERN_LINT_TOO_CLOSE, "a shift of 64 bits by the last of eight registers", i,
                    i, insn->uses[0], 1, 0);
}

/* Which column of the rows holds for a target; PLACES: none does. */
static enum place place_of(const struct target *t)
{
    if (!(t->capabilities & CAP_MFMA_BF16_1K))
        return PLACES;
    return t->capabilities & CAP_MFMA_WIDE_K ? GFX950
           : t->capabilities & CAP_MFMA_FP8  ? GFX942
                                             : GFX90A;
}

void lint_hazards(const struct lint_scan *s)
{
    const enum place place = place_of(s->target);

    for (size_t i = 0; i < s->count && place != PLACES; i++) {
        check_from(s, place, i);
        if (place == GFX90A)
            check_shift(s, i);
    }
}
