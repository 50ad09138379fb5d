/* SPDX-License-Identifier: MIT */
/*
 * Pairs of instructions between which there is no interlock. The rows are those of LLVM's
 * GCNHazardRecognizer (2026). gfx90a, gfx942 and gfx950 have many; every instruction that is issued
 * counts there as one wait state, and s_nop N as N + 1. On gfx11 and gfx12 the hardware waits by
 * itself but for a few pairs, whose distance is counted in vector instructions. LLVM inserts what
 * is missing between instructions that it knows, but does not look into inline assembly; so what
 * this finds in compiled code is next to assembly, or in code that was written by hand.
 * This file is long because half of it is the table, with a line for each column.
 */
#include "lint/scan.h"

#include "base/os.h"

#include <string.h>

/* Processors with rows of their own, by the names that LLVM's tables go by. */
enum place { GFX90A, GFX942, GFX950, GFX11_0, GFX11_5, GFX12, PLACES };

/* Which registers of the two instructions a row is about. */
enum meeting {
    READ,         /* the second reads what the first wrote */
    TOUCHED,      /* it reads or overwrites it */
    AS_A_OR_B,    /* it reads it as A, B or indices of a matrix instruction */
    AS_C,         /* a matrix instruction adds to registers that overlap it (its C) … */
    AS_SAME_C,    /* … or to exactly the same registers */
    LAST_READ,    /* it reads it as its last operand: the number of a lane */
    C_WRITTEN,    /* it overwrites what the first adds to */
    DATA_WRITTEN, /* it overwrites what the first stores */
    NOT_SUMMED,   /* it reads or overwrites it, but not as what the same dot product adds to */
    REGARDLESS    /* whatever it reads and writes */
};

#define NO 0
/* The same for every number of passes, and for some targets only. */
#define ALL(n)               {n, n, n, n}
#define RDNA(n11, n115, n12) {[GFX11_0] = ALL(n11), [GFX11_5] = ALL(n115), [GFX12] = ALL(n12)}

/* Wait states by place, and of matrix instructions by the first one's passes: 2, 4, 8, 16. */
struct hazard {
    const char *rule;
    uint32_t first, second; /* kinds, one of which each must be */
    uint32_t not_second;    /* kinds that the second must not be */
    enum meeting meeting;
    enum { ANY_REGISTER, SCALAR, VECTOR, EXEC_ONLY, VCC_ONLY, M0_ONLY, HARDWARE } registers;
    uint8_t states[PLACES][4];
    /* What follows is zero where every instruction counts and only distance helps. */
    uint32_t counted;     /* kinds that count, each as one */
    uint32_t or_two_of;   /* kinds of which two will do */
    uint32_t ends;        /* kinds of which one will do */
    uint8_t or_alu_wait;  /* bits of enum lint_alu_wait, one of which will do */
    uint32_t only_behind; /* kinds of which one must stand between for the row to apply */
};

#define MEMORY      (LINT_VMEM | LINT_LDS)
#define VECTOR_UNIT (LINT_VALU | LINT_MFMA)
#define RDNA_VECTOR (LINT_VALU | LINT_WMMA)
#define DGEMM       (LINT_DGEMM_4 | LINT_DGEMM_16)

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
     LINT_XDL,
     0,
     AS_C,
     ANY_REGISTER,
     {{2, 4, 8, 16}, {3, 5, 9, 17}, {4, 6, 10, 18}}},
    {"a matrix instruction of f32 or f64 adds to part of what another is writing",
     LINT_XDL,
     LINT_SGEMM | DGEMM,
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
    {"a matrix instruction of f64 adds to what a 4x4 one is writing",
     LINT_DGEMM_4,
     DGEMM,
     0,
     AS_SAME_C,
     ANY_REGISTER,
     {ALL(4), ALL(4), ALL(4)}},
    {"a matrix instruction of f64 adds to part of what a 4x4 one is writing",
     LINT_DGEMM_4,
     DGEMM,
     0,
     AS_C,
     ANY_REGISTER,
     {ALL(4), ALL(4), ALL(4)}},
    {"a matrix instruction of f64 adds to part of what a 16x16 one is writing",
     LINT_DGEMM_16,
     DGEMM,
     0,
     AS_C,
     ANY_REGISTER,
     {ALL(9), ALL(9), ALL(17)}},
    {"a matrix instruction adds to part of what one of f64 (4x4) is writing",
     LINT_DGEMM_4,
     LINT_XDL | LINT_SGEMM,
     0,
     AS_C,
     ANY_REGISTER,
     {ALL(NO), ALL(4), ALL(4)}},
    {"a matrix instruction adds to part of what one of f64 (16x16) is writing",
     LINT_DGEMM_16,
     LINT_XDL | LINT_SGEMM,
     0,
     AS_C,
     ANY_REGISTER,
     {ALL(NO), ALL(9), ALL(17)}},
    {"a matrix instruction adds to what one of two passes is writing",
     LINT_XDL | LINT_SGEMM,
     LINT_XDL | LINT_SGEMM,
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
     LINT_VALU | MEMORY,
     0,
     C_WRITTEN,
     ANY_REGISTER,
     {{1, 3, 7, 15}, {1, 3, 7, 15}, {1, 3, 7, 15}}},
    /* another matrix instruction between the two has the pipe for two wait states at least, and the
     * second waits for that by itself */
    {"a matrix instruction reads what the vector ALU has just written",
     LINT_VALU,
     LINT_MFMA,
     0,
     READ,
     VECTOR,
     {ALL(2), ALL(2), ALL(2)},
     .ends = LINT_MFMA},
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
     VECTOR_UNIT | MEMORY,
     0,
     NOT_SUMMED,
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
     LINT_PERMLANE,
     0,
     READ,
     VECTOR,
     {ALL(NO), ALL(NO), ALL(2)}},
    {"lanes are exchanged behind a write of EXEC by the vector ALU",
     LINT_VALU,
     LINT_PERMLANE,
     0,
     TOUCHED,
     EXEC_ONLY,
     {ALL(NO), ALL(NO), ALL(4)}},
    {"v_fma_f64 follows a matrix instruction of f64",
     DGEMM,
     LINT_FMA_F64,
     0,
     REGARDLESS,
     ANY_REGISTER,
     {ALL(2), ALL(2), ALL(2)}},
    {"memory reads what the vector ALU wrote before a matrix instruction of f64",
     LINT_VALU,
     MEMORY,
     0,
     READ,
     VECTOR,
     {ALL(2), ALL(NO), ALL(NO)},
     .only_behind = DGEMM},
    {"a hardware register is read or set behind s_setreg",
     LINT_SALU,
     LINT_SALU,
     0,
     TOUCHED,
     HARDWARE,
     {ALL(2), ALL(2), ALL(2)}},
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

    /* gfx11 and gfx12 */
    {"a matrix instruction reads as factor or index what the one before it is writing", LINT_WMMA,
     LINT_WMMA, 0, AS_A_OR_B, VECTOR, RDNA(1, 1, 1), .counted = RDNA_VECTOR | LINT_NOTHING},
    {"the result of a transcendental instruction is read", LINT_TRANS, RDNA_VECTOR, 0, READ, VECTOR,
     RDNA(6, NO, NO), .counted = RDNA_VECTOR | LINT_NOTHING, .or_two_of = LINT_TRANS,
     .ends = MEMORY, .or_alu_wait = LINT_VALU_VECTOR},
    {"lanes are exchanged behind v_cmpx", LINT_VALU, LINT_PERMLANE, 0, TOUCHED, EXEC_ONLY,
     RDNA(1, 1, 1), .counted = RDNA_VECTOR},
};

/* ---- Meetings -------------------------------------------------------------------------------- */

static struct lint_range registers_of(const struct hazard *h, struct lint_range r)
{
    const bool vector = r.first >= LINT_VGPR && r.first < LINT_HARDWARE;
    const bool wanted = h->registers == ANY_REGISTER || (h->registers == VECTOR && vector) ||
                        (h->registers == SCALAR && !vector && r.first != LINT_EXEC) ||
                        (h->registers == HARDWARE && r.first >= LINT_HARDWARE) ||
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

static bool same_mnemonic(const struct lint_insn *i, const struct lint_insn *j)
{
    const size_t n = strcspn(i->text, " ");

    return !strncmp(i->text, j->text, n) && j->text[n] == ' ';
}

/* The registers of `r`, which the first instruction, `i`, wrote or read, that instruction `j` uses
 * in the way that the row is about. */
static struct lint_range meeting_of(const struct hazard *h, struct lint_range r,
                                    const struct lint_insn *i, const struct lint_insn *j)
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
        at = meets_any(r, j->uses, j->use_count < 2 ? j->use_count : 2);
        return at.count || j->use_count < 4 ? at : meets_any(r, j->uses + 3, 1);
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
    case NOT_SUMMED:
        if (same_mnemonic(i, j))
            return meets_any(r, j->uses, j->use_count < 2 ? j->use_count : 2);
        at = meets_any(r, j->uses, j->use_count);
        return at.count ? at : meets_any(r, j->defs, j->def_count);
    case REGARDLESS:
        return r;
    }
    return at;
}

/* The registers that the first instruction of a pair puts in danger: `to` gets their ranges. */
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

/* How far a walk has come at a place. */
struct progress {
    struct lint_range registers; /* that are still in danger */
    uint8_t states;              /* wait states that were passed */
    uint8_t of_two;              /* instructions of the row's or_two_of that were passed */
    bool behind;                 /* one of the row's only_behind was passed */
};

/* The last visit of a walk to an instruction. */
struct visit {
    uint32_t walk; /* the walk's number */
    struct progress with;
};

/* A walk from one instruction over all that can follow it within some wait states. */
struct walk {
    const struct lint_scan *scan;
    const struct hazard *hazard;
    struct visit *visits; /* of each instruction */
    size_t from;
    uint32_t number;
    unsigned needed;
    bool reported;
};

/* What is left of a range without `gone`; all of it where two parts would be left. */
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

/* Whether the walk was at this instruction with no less in danger. */
static bool been_here(const struct walk *w, uint32_t at, const struct progress *p)
{
    struct visit *const v = &w->visits[at];
    const bool been = v->walk == w->number && v->with.states <= p->states &&
                      v->with.of_two <= p->of_two && v->with.behind == p->behind &&
                      v->with.registers.first <= p->registers.first &&
                      v->with.registers.first + v->with.registers.count >=
                          p->registers.first + p->registers.count;

    if (!been)
        *v = (struct visit){w->number, *p};
    return been;
}

/* Takes a walk past an instruction. False: behind it nothing is in danger any more. */
static bool pass(const struct hazard *h, const struct lint_insn *j, struct progress *p)
{
    if (j->kinds & h->ends || j->alu_waits & h->or_alu_wait)
        return false;
    /* a register that is written again is out of danger: from here on the later result is read. Not
     * so on RDNA, whose transcendental unit may write after that */
    for (size_t n = 0; n < j->def_count && h->meeting != C_WRITTEN && !h->counted; n++)
        p->registers = without(p->registers, j->defs[n]);
    p->states =
        (uint8_t)(p->states + (!h->counted ? j->wait_states : (j->kinds & h->counted) != 0));
    p->of_two = (uint8_t)(p->of_two + ((j->kinds & h->or_two_of) != 0));
    p->behind |= (j->kinds & h->only_behind) != 0;
    return p->registers.count && p->of_two < 2;
}

static void walk_on(struct walk *w, struct progress p, uint32_t at)
{
    const struct hazard *const h = w->hazard;

    while (at != LINT_NOWHERE && p.states < w->needed && !w->reported && !been_here(w, at, &p)) {
        const struct lint_insn *const j = &w->scan->insns[at];
        if (j->kinds & h->second && !(j->kinds & h->not_second) && (p.behind || !h->only_behind)) {
            const struct lint_range met = meeting_of(h, p.registers, &w->scan->insns[w->from], j);
            if (met.count) {
                w->reported = true;
                lint_report(w->scan, QUERN_LINT_TOO_CLOSE, h->rule, w->from, at, met, w->needed,
                            p.states);
                return;
            }
        }
        if (!pass(h, j, &p))
            return;
        const uint32_t *const next = lint_successors(w->scan, at);
        if (next[1] != LINT_NOWHERE)
            walk_on(w, p, next[1]);
        at = next[0];
    }
}

static unsigned states_of(const struct hazard *h, enum place place, const struct lint_insn *i)
{
    const unsigned by_passes = i->passes <= 2 ? 0 : i->passes <= 4 ? 1 : i->passes <= 8 ? 2 : 3;

    return h->states[place][i->kinds & LINT_MFMA ? by_passes : 0];
}

static void check_from(const struct lint_scan *s, enum place place, size_t i, struct visit *visits,
                       uint32_t *walks)
{
    const struct lint_insn *const insn = &s->insns[i];

    for (size_t n = 0; n < sizeof hazards / sizeof *hazards; n++) {
        const struct hazard *const h = &hazards[n];
        struct lint_range registers[LINT_DEFS];
        if (!(insn->kinds & h->first) || !states_of(h, place, insn))
            continue;
        const size_t count = endangered(h, insn, registers);
        for (size_t k = 0; k < count; k++) {
            struct walk w = {s, h, visits, i, ++*walks, states_of(h, place, insn), false};
            const uint32_t *const next = lint_successors(s, i);
            for (int way = 0; way < 2; way++)
                if (next[way] != LINT_NOWHERE)
                    walk_on(&w, (struct progress){.registers = registers[k]}, next[way]);
        }
    }
}

/* ---- Instructions that are wrong alone ------------------------------------------------------- */

/* Whether any instruction names a register. */
static bool is_named(const struct lint_scan *s, struct lint_range r)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct lint_insn *const j = &s->insns[i];
        if (meets_any(r, j->uses, j->use_count).count || meets_any(r, j->defs, j->def_count).count)
            return true;
    }
    return false;
}

/* gfx90a takes the wrong amount for a shift of 64 bits from the last of eight registers, where the
 * next one is not the kernel's. */
static void check_shift(const struct lint_scan *s, size_t i)
{
    const struct lint_insn *const insn = &s->insns[i];
    const struct lint_range amount = insn->uses[0];

    if (insn->kinds & LINT_SHIFT_64 && insn->use_count && amount.first >= LINT_VGPR &&
        (amount.first - LINT_VGPR) % 8 == 7 &&
        (amount.first == LINT_VGPR + 255 ||
         !is_named(s, (struct lint_range){(uint16_t)(amount.first + 1), 1})))
        lint_report(s, QUERN_LINT_TOO_CLOSE, "a shift of 64 bits by the last of eight registers", i,
                    i, amount, 1, 0);
}

/* A product of 32 bits that is added to 64 must not write to the registers of its factors: gfx1100
 * to gfx1103 write the lower half of the sum before they have read the factors for the upper half.
 * The number that is added may overlap: LLVM leaves its upper half undefined where only the lower
 * half of the sum matters, and reuses the register. */
static void check_mad(const struct lint_scan *s, size_t i)
{
    const struct lint_insn *const insn = &s->insns[i];
    const struct lint_range met =
        insn->kinds & LINT_MAD_64 && insn->def_count && insn->use_count > 1
            ? meets_any(insn->defs[0], insn->uses, insn->use_count - 1u)
            : (struct lint_range){0};

    if (met.count)
        lint_report(s, QUERN_LINT_TOO_CLOSE, "a sum of 64 bits goes where a factor is", i, i, met,
                    1, 0);
}

/* Which column of the rows holds for a target. */
static enum place place_of(const struct target *t)
{
    if (t->capabilities & CAP_MFMA)
        return t->capabilities & CAP_MFMA_WIDE_K ? GFX950
               : t->capabilities & CAP_MFMA_FP8  ? GFX942
                                                 : GFX90A;
    return t->capabilities & CAP_SPLIT_BARRIER ? GFX12 : t->trans_races ? GFX11_0 : GFX11_5;
}

quern_status lint_hazards(const struct lint_scan *s)
{
    const enum place place = place_of(s->target);
    struct visit *const visits = os.calloc(s->count + 1, sizeof *visits);
    uint32_t walks = 0;

    FAIL_IF(!visits, QUERN_E_MEMORY, "out of memory for a scan of %zu instructions", s->count);
    for (size_t i = 0; i < s->count; i++) {
        check_from(s, place, i, visits, &walks);
        if (place == GFX90A)
            check_shift(s, i);
        if (place == GFX11_0)
            check_mad(s, i);
    }
    os.free(visits);
    return QUERN_OK;
}
