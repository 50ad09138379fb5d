/* SPDX-License-Identifier: MIT */
/*
 * Vector registers of RDNA that are read, or written by another unit, while the vector ALU may
 * still hold or write them. Two hazards, both of LLVM's GCNHazardRecognizer and Mesa's
 * aco_insert_NOPs. gfx11 in waves of 64 forwards a wrong half to an instruction that reads two
 * registers of which one was written before a scalar instruction wrote EXEC and the other after it,
 * few vector instructions apart (VALUPartialForwardingHazard). And loads from LDS that take no path
 * through the vector ALU (lds_direct_load, lds_param_load) wait for it, and for what memory reads
 * and writes, only as far as fields of theirs say (LdsDirectVALUHazard, LdsDirectVMEMHazard).
 *
 * What is known at a place of each register: how many vector instructions may have been issued
 * since the one that wrote it, all numbers that some path has as a bit each.
 */
#include "lint/scan.h"

#include <string.h>

enum {
    REGISTERS = 256,
    WAITED_FOR = 15, /* so many vector instructions back nothing is under way */
    AFTER_MAX = 4,   /* of forwarding: between the later write and the read */
    BETWEEN_MAX = 2  /* … and between the two writes */
};

/* What is known at a place. Numbers of vector instructions since something are bits 0 to 15. */
struct forward {
    uint16_t written[REGISTERS], touched[REGISTERS]; /* by the vector ALU: written; read, too */
    uint16_t exec;                                   /* by a scalar instruction */
    uint8_t memory[REGISTERS]; /* who may still read or write it: counters, a bit each */
    bool mixed[REGISTERS];     /* a transcendental instruction was issued since it was touched */
};

struct forwarding {
    const struct lint_scan *scan;
    bool partial; /* forwarding goes wrong on this target, in waves of this size */
};

static bool is_vector(const struct lint_insn *i)
{
    return (i->kinds & (LINT_VALU | LINT_WMMA | LINT_NOTHING)) != 0;
}

/* The vector registers of a range, by their numbers. */
static struct lint_range vectors(struct lint_range r)
{
    if (r.first < LINT_VGPR || r.first >= LINT_VGPR + REGISTERS)
        return (struct lint_range){0};
    return (struct lint_range){(uint16_t)(r.first - LINT_VGPR), r.count};
}

/* ---- One instruction ------------------------------------------------------------------------- */

static void forget_vector(struct forward *f)
{
    memset(f->written, 0, sizeof f->written);
    memset(f->touched, 0, sizeof f->touched);
    f->exec = 0;
}

static void issue_vector(struct forward *f, const struct lint_insn *insn)
{
    const bool trans = insn->kinds & LINT_TRANS;

    for (unsigned n = 0; n < REGISTERS; n++) {
        f->written[n] = (uint16_t)(f->written[n] << 1);
        f->touched[n] = (uint16_t)(f->touched[n] << 1);
        f->mixed[n] |= trans;
    }
    f->exec = (uint16_t)(f->exec << 1);
    memset(f->memory, 0, sizeof f->memory);
    for (size_t k = 0; k < (size_t)insn->def_count + insn->use_count; k++) {
        const bool def = k < insn->def_count;
        const struct lint_range r = vectors(def ? insn->defs[k] : insn->uses[k - insn->def_count]);
        for (unsigned n = r.first; n < (unsigned)r.first + r.count && n < REGISTERS; n++) {
            f->touched[n] = 1;
            f->mixed[n] = trans;
            if (def)
                f->written[n] = 1;
        }
    }
}

static void issue_memory(struct forward *f, const struct lint_insn *insn)
{
    const unsigned counter = insn->kinds & LINT_LDS     ? LINT_LDS_OPS
                             : insn->kinds & LINT_STORE ? LINT_STORES
                                                        : LINT_LOADS;

    forget_vector(f); /* memory waits for the vector ALU */
    for (size_t k = 0; k < (size_t)insn->def_count + insn->use_count; k++) {
        const struct lint_range r =
            vectors(k < insn->def_count ? insn->defs[k] : insn->uses[k - insn->def_count]);
        for (unsigned n = r.first; n < (unsigned)r.first + r.count && n < REGISTERS; n++)
            f->memory[n] |= (uint8_t)(1 << counter);
    }
}

static void step(void *user, void *state, size_t i)
{
    const struct forwarding *const w = user;
    const struct lint_insn *const insn = &w->scan->insns[i];
    struct forward *const f = state;
    uint8_t waited = 0;

    if (is_vector(insn))
        issue_vector(f, insn);
    else if (insn->kinds & (LINT_VMEM | LINT_LDS))
        issue_memory(f, insn);
    for (size_t d = 0; d < insn->def_count && insn->kinds & LINT_SALU; d++)
        if (insn->defs[d].first / 2 == LINT_EXEC / 2)
            f->exec |= 1;
    for (int c = 0; c < LINT_COUNTERS; c++)
        waited |= (uint8_t)((insn->waits[c] == 0) << c);
    if (insn->alu_waits & LINT_MEMORY_SOURCES)
        waited = 0xff;
    for (unsigned n = 0; n < REGISTERS && waited; n++)
        f->memory[n] &= (uint8_t)~waited;
    if (insn->alu_waits & LINT_VALU_VECTOR)
        forget_vector(f);
}

/* ---- What is wrong --------------------------------------------------------------------------- */

/* The last instruction before `i` that writes a register or, where asked, names it: for the
 * report's sake alone. */
static size_t toucher_of(const struct lint_scan *s, size_t i, unsigned reg, bool reads)
{
    const struct lint_range r = {(uint16_t)(LINT_VGPR + reg), 1};

    for (size_t n = i; n-- > 0;) {
        const struct lint_insn *const j = &s->insns[n];
        for (size_t k = 0; k < j->def_count; k++)
            if (lint_overlap(j->defs[k], r))
                return n;
        for (size_t k = 0; reads && k < j->use_count; k++)
            if (lint_overlap(j->uses[k], r))
                return n;
    }
    return i;
}

static unsigned least(uint16_t numbers)
{
    return (unsigned)__builtin_ctz(numbers);
}

/* Whether some path has a write of one register `after` vector instructions before the read, one of
 * the other before it, few apart, and a write of EXEC between the two. */
static bool torn(uint16_t later, uint16_t earlier, uint16_t exec, unsigned *after)
{
    for (unsigned p = 0; p <= AFTER_MAX; p++)
        for (unsigned q = p + 1; later >> p & 1 && q <= p + BETWEEN_MAX + 1; q++)
            if (earlier >> q & 1 && exec & ((2u << q) - (2u << p))) {
                *after = p;
                return true;
            }
    return false;
}

static void check_forwarding(const struct forwarding *w, const struct forward *f, size_t i)
{
    const struct lint_insn *const insn = &w->scan->insns[i];
    unsigned sources[2 * LINT_USES], count = 0, after;

    for (size_t k = 0; k < insn->use_count; k++) {
        const struct lint_range r = vectors(insn->uses[k]);
        for (unsigned n = 0; n < r.count && count < sizeof sources / sizeof *sources; n++)
            sources[count++] = r.first + n;
    }
    for (unsigned a = 0; a < count; a++)
        for (unsigned b = 0; b < count; b++)
            if (sources[a] != sources[b] &&
                torn(f->written[sources[a] % REGISTERS], f->written[sources[b] % REGISTERS],
                     f->exec, &after)) {
                lint_report(w->scan, QUERN_LINT_TOO_CLOSE,
                            "registers are read that were written around a write of EXEC",
                            toucher_of(w->scan, i, sources[b], false), i,
                            (struct lint_range){(uint16_t)(LINT_VGPR + sources[a]), 1},
                            AFTER_MAX + 1, after);
                return;
            }
}

static void check_direct(const struct forwarding *w, const struct forward *f, size_t i)
{
    const struct lint_insn *const insn = &w->scan->insns[i];
    const unsigned reg = vectors(insn->defs[0]).first;

    if (!vectors(insn->defs[0]).count)
        return;
    const uint16_t touched = f->touched[reg] & (uint16_t)((1 << WAITED_FOR) - 1);
    if (touched && insn->wait_vector > (f->mixed[reg] ? 0 : least(touched)))
        lint_report(w->scan, QUERN_LINT_TOO_CLOSE,
                    "LDS is loaded into a register that the vector ALU may still use",
                    toucher_of(w->scan, i, reg, true), i, insn->defs[0],
                    f->mixed[reg] ? WAITED_FOR : insn->wait_vector, least(touched));
    if (f->memory[reg] && insn->wait_memory)
        lint_report(w->scan, QUERN_LINT_TOO_CLOSE,
                    "LDS is loaded into a register that memory may still use",
                    toucher_of(w->scan, i, reg, true), i, insn->defs[0], 1, 0);
}

static void check(void *user, void *state, size_t i)
{
    const struct forwarding *const w = user;
    const struct lint_insn *const insn = &w->scan->insns[i];

    if (insn->kinds & LINT_LDS_DIRECT && insn->def_count)
        check_direct(w, state, i);
    else if (w->partial && insn->kinds & (LINT_VALU | LINT_WMMA))
        check_forwarding(w, state, i);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static bool join(void *into, const void *other)
{
    struct forward *const to = into;
    const struct forward *const from = other;
    unsigned more = from->exec & ~to->exec;

    for (unsigned n = 0; n < REGISTERS; n++) {
        more |= (from->written[n] & ~to->written[n]) | (from->touched[n] & ~to->touched[n]) |
                (from->memory[n] & ~to->memory[n]) | (from->mixed[n] && !to->mixed[n]);
        to->written[n] |= from->written[n];
        to->touched[n] |= from->touched[n];
        to->memory[n] |= from->memory[n];
        to->mixed[n] |= from->mixed[n];
    }
    to->exec |= from->exec;
    return more != 0;
}

quern_status lint_forward(const struct lint_scan *s)
{
    const struct forward nothing = {0};
    struct forwarding w = {
        .scan = s, .partial = s->target->capabilities & CAP_D16_CLOBBERS && s->wave_size == 64};
    bool direct = false;

    for (size_t i = 0; i < s->count; i++)
        direct |= (s->insns[i].kinds & LINT_LDS_DIRECT) != 0;
    if (!direct && !w.partial)
        return QUERN_OK;
    return lint_flow(s, &(struct lint_flow){.bytes = sizeof nothing,
                                            .begin = &nothing,
                                            .check = check,
                                            .step = step,
                                            .join = join,
                                            .user = &w});
}
