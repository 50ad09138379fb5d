/* SPDX-License-Identifier: MIT */
/*
 * Stale scalar registers of gfx11 (in waves of 64) and gfx12. The hardware may keep a value that a
 * vector instruction read from a scalar register, and give it to a later vector instruction
 * although the register was written meanwhile, unless s_wait_alu (s_waitcnt_depctr on gfx11) stands
 * between the write and the read. On gfx11 only registers that were read as a mask of lanes are
 * kept, until a vector instruction reads another scalar register or a literal (Mesa's
 * aco_insert_NOPs: VALUMaskWriteHazard). On gfx12 any register is kept, in pairs, until ds_nop was
 * issued often enough; new values from a scalar load or a buffer load are seen, and a scalar
 * instruction that reads what a vector instruction wrote waits by itself (LLVM's
 * AMDGPUWaitSGPRHazards).
 */
#include "lint/scan.h"

#include <string.h>

enum { STALE_REGISTERS = 124, PAUSES_MAX = 8 };
static const char kept_of_scalar[] =
    "a scalar register is read that a vector instruction read before it was written anew";

/* What is known at a place; of registers by number. */
struct stale {
    bool kept[STALE_REGISTERS];       /* a vector instruction has read it */
    uint8_t written[STALE_REGISTERS]; /* since then: bits of enum lint_alu_wait */
    uint32_t writer[STALE_REGISTERS]; /* which instruction did; for the report's sake alone */
    uint8_t pauses;                   /* ds_nop in a row, the fewest over all paths */
};

struct keeping {
    const struct lint_scan *scan;
    bool masks_only; /* gfx11 */
    uint8_t pauses;  /* so many ds_nop empty what is kept */
};

static bool is_vector(const struct lint_insn *i)
{
    return (i->kinds & (LINT_VALU | LINT_WMMA)) != 0;
}

static bool is_vcc(unsigned reg)
{
    return reg / 2 == LINT_VCC / 2;
}

/* ---- One instruction ------------------------------------------------------------------------- */

/* Notes what a vector instruction reads. */
static void keep(const struct keeping *k, struct stale *s, const struct lint_insn *i)
{
    if (k->masks_only && i->kinds & LINT_LANE_MASK && i->use_count) {
        const struct lint_range r = i->uses[i->use_count - 1];
        for (unsigned n = 0; n < STALE_REGISTERS; n++) /* what was written since is not forgotten */
            s->kept[n] &= s->written[n] != 0;
        for (unsigned n = r.first; n < (unsigned)r.first + r.count && n < STALE_REGISTERS; n++)
            s->kept[n] = true;
        return;
    }
    if (k->masks_only && i->literal)
        memset(s->kept, 0, sizeof s->kept);
    for (size_t u = 0; u < i->use_count; u++)
        for (unsigned n = i->uses[u].first; n < (unsigned)i->uses[u].first + i->uses[u].count;
             n++) {
            if (n >= STALE_REGISTERS)
                break;
            if (k->masks_only) {
                memset(s->kept, 0, sizeof s->kept);
                return;
            }
            s->kept[n & ~1u] = s->kept[n | 1] = true;
        }
}

static void wait_for(const struct keeping *k, struct stale *s, const struct lint_insn *i)
{
    if (k->masks_only && i->alu_waits & LINT_SALU_SCALAR)
        memset(s->kept, 0, sizeof s->kept);
    for (unsigned n = 0; n < STALE_REGISTERS; n++)
        s->written[n] &= (uint8_t)~i->alu_waits;
}

static void write_anew(struct stale *s, const struct lint_insn *insn, size_t i)
{
    for (size_t d = 0; d < insn->def_count; d++)
        for (unsigned n = insn->defs[d].first;
             n < (unsigned)insn->defs[d].first + insn->defs[d].count && n < STALE_REGISTERS; n++) {
            if (!s->kept[n])
                continue;
            s->written[n] |= !is_vector(insn) ? LINT_SALU_SCALAR
                             : is_vcc(n)      ? LINT_VALU_VCC
                                              : LINT_VALU_SCALAR;
            s->writer[n] = (uint32_t)i;
        }
}

/* A scalar instruction that reads one of these waits for what vector instructions write. */
static void read_by_scalar(struct stale *s, const struct lint_insn *insn)
{
    for (size_t u = 0; u < insn->use_count; u++) {
        const unsigned first = insn->uses[u].first;
        if (first >= STALE_REGISTERS || !s->kept[first])
            continue;
        for (unsigned n = 0; n < STALE_REGISTERS; n++)
            if (is_vcc(n) == is_vcc(first))
                s->written[n] &= (uint8_t)~(LINT_VALU_SCALAR | LINT_VALU_VCC);
    }
}

static void step(void *user, void *state, size_t i)
{
    const struct keeping *const k = user;
    const struct lint_insn *const insn = &k->scan->insns[i];
    struct stale *const s = state;
    const bool brings =
        insn->kinds & LINT_SMEM || (insn->kinds & LINT_VMEM && insn->text[0] == 'b');

    if (insn->kinds & LINT_LDS_PAUSE) {
        s->pauses = (uint8_t)(s->pauses + (s->pauses < PAUSES_MAX));
        if (s->pauses >= k->pauses)
            memset(s->kept, 0, sizeof s->kept);
        return;
    }
    s->pauses = 0;
    wait_for(k, s, insn);
    if (brings && !k->masks_only)
        memset(s->written, 0, sizeof s->written);
    else if (insn->kinds & LINT_SALU)
        read_by_scalar(s, insn);
    if (is_vector(insn))
        keep(k, s, insn);
    if (is_vector(insn) || insn->kinds & LINT_SALU)
        write_anew(s, insn, i);
}

static void check(void *user, void *state, size_t i)
{
    const struct keeping *const k = user;
    const struct lint_insn *const insn = &k->scan->insns[i];
    struct stale *const s = state;
    const bool vector = is_vector(insn);

    if (!vector && !(insn->kinds & LINT_SALU))
        return;
    for (size_t u = 0; u < insn->use_count; u++)
        for (unsigned n = insn->uses[u].first;
             n < (unsigned)insn->uses[u].first + insn->uses[u].count; n++) {
            if (n >= STALE_REGISTERS || !s->kept[n] ||
                !(s->written[n] & (vector ? 0xff : LINT_SALU_SCALAR)))
                continue;
            lint_report(k->scan, QUERN_LINT_TOO_CLOSE, kept_of_scalar, s->writer[n], i,
                        (struct lint_range){(uint16_t)n, 1}, 1, 0);
            s->written[n] = 0;
        }
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static bool join(void *into, const void *other)
{
    struct stale *const to = into;
    const struct stale *const from = other;
    bool more = from->pauses < to->pauses;

    for (unsigned n = 0; n < STALE_REGISTERS; n++) {
        more |= (from->kept[n] && !to->kept[n]) || from->written[n] & ~to->written[n];
        if (from->written[n] & ~to->written[n])
            to->writer[n] = from->writer[n];
        to->kept[n] |= from->kept[n];
        to->written[n] |= from->written[n];
    }
    to->pauses = from->pauses < to->pauses ? from->pauses : to->pauses;
    return more;
}

quern_status lint_stale(const struct lint_scan *s)
{
    const struct stale nothing = {0};
    const bool gfx12 = s->target->capabilities & CAP_SPLIT_BARRIER;
    const bool gfx11 = s->target->capabilities & CAP_D16_CLOBBERS;
    struct keeping k = {.scan = s, .masks_only = gfx11, .pauses = s->wave_size == 64 ? 8 : 4};

    if (!gfx12 && !(gfx11 && s->wave_size == 64))
        return QUERN_OK;
    return lint_flow(s, &(struct lint_flow){.bytes = sizeof nothing,
                                            .begin = &nothing,
                                            .check = check,
                                            .step = step,
                                            .join = join,
                                            .user = &k});
}
