/* SPDX-License-Identifier: MIT */
/*
 * Results that come late, while a wave runs in the full check: see late.h. Before an instruction it
 * is asked which of its sources may not be there; they are undefined while it runs. Behind it what
 * it began is noted, and what a wait says to be done.
 * This file is long because counters, pairs and scalar registers make the same registers undefined
 * for the same instruction, and undo it together.
 */
#include "sim/exec/wave/exec_masks.h"
#include "sim/launch.h"

#include <limits.h>

/* A register, and the rule that it breaks, from 1 on, or 0 and a counter: how much was needed, and
 * how much there was. */
static uint64_t late_where(bool scalar, unsigned reg, unsigned rule, unsigned counter,
                           unsigned needed, unsigned found)
{
    return reg | (uint64_t)scalar << 16 | (uint64_t)rule << 24 | (uint64_t)counter << 32 |
           (uint64_t)needed << 40 | (uint64_t)found << 48;
}

/* ---- Registers that are undefined for one instruction ---------------------------------------- */

static void poison_one(struct wave *w, bool scalar, unsigned reg, uint64_t lanes, struct origin o)
{
    struct shadow_wave *const s = w->shadow;
    struct late_wave *const l = s->late;

    if (l->poisoned_count == LATE_POISONED || (scalar && (reg & ~1u) == S_EXEC))
        return;
    struct late_poisoned *const p = &l->poisoned[l->poisoned_count++];
    struct origin *const origin = scalar ? &s->scalar_origins[reg] : &s->origins[reg];
    *p = (struct late_poisoned){.reg = (uint16_t)reg,
                                .scalar = scalar,
                                .where = origin->where,
                                .kind = origin->kind,
                                .insn = origin->insn};
    *origin = o;
    if (scalar) {
        p->row[0] = s->w.s[reg];
        s->w.s[reg] = 0xffffffffu;
        return;
    }
    uint32_t *const row = s->w.v + (size_t)reg * w->lanes;
    memcpy(p->row, row, w->lanes * sizeof *row);
    p->flag = s->flags[reg];
    s->flags[reg] = 1;
    for (unsigned n = 0; n < w->lanes; n++)
        row[n] |= lanes >> n & 1 ? 0xffffffffu : 0;
}

static bool is_written(const struct insn *i, bool scalar, unsigned reg)
{
    const unsigned kind = scalar ? OPERAND_SGPR : OPERAND_VGPR;

    for (unsigned n = 0; n < 6; n++)
        if (i->op[n].kind == kind && i->op[n].mods & MOD_DST && reg >= i->op[n].reg &&
            reg < i->op[n].reg + i->op[n].words)
            return true;
    return false;
}

/* Undoes it, but for what the instruction has written. */
static void restore(struct wave *w, const struct insn *i)
{
    struct shadow_wave *const s = w->shadow;
    struct late_wave *const l = s->late;

    while (l->poisoned_count) {
        const struct late_poisoned *const p = &l->poisoned[--l->poisoned_count];
        const struct origin origin = {p->kind, p->insn, p->where};
        if (is_written(i, p->scalar, p->reg))
            continue;
        (p->scalar ? s->scalar_origins : s->origins)[p->reg] = origin;
        if (p->scalar) {
            s->w.s[p->reg] = p->row[0];
            continue;
        }
        memcpy(s->w.v + (size_t)p->reg * w->lanes, p->row, w->lanes * sizeof *p->row);
        s->flags[p->reg] = p->flag;
    }
}

/* What an instruction has written is not what is there in the end. */
static void spoil(struct wave *w, const struct insn *i, uint64_t where, uint32_t insn)
{
    struct shadow_wave *const s = w->shadow;

    for (unsigned n = 0; n < 6; n++) {
        const struct operand *const o = &i->op[n];
        if (!(o->mods & MOD_DST))
            continue;
        for (unsigned k = 0; k < o->words; k++) {
            const struct origin origin = {.kind = ORIGIN_LATE,
                                          .insn = insn,
                                          .where = (where & ~(uint64_t)0x1ffff) | (o->reg + k) |
                                                   (uint64_t)(o->kind == OPERAND_SGPR) << 16};
            if (o->kind == OPERAND_VGPR) {
                uint32_t *const row = vgpr(&s->w, o, 0) + k * w->lanes;
                for (unsigned lane = 0; lane < w->lanes; lane++)
                    row[lane] |= w->mask[lane];
                s->flags[o->reg + k] = 1;
                s->origins[o->reg + k] = origin;
            } else if (o->kind == OPERAND_SGPR && !in_exec(o)) {
                s->w.s[o->reg + k] = 0xffffffffu;
                s->scalar_origins[o->reg + k] = origin;
            }
        }
    }
}

static uint32_t number_of(const struct wave *w, const struct insn *i)
{
    return (uint32_t)(i - w->group->insns);
}

/* ---- Counters -------------------------------------------------------------------------------- */

static struct late_operation *operation_at(struct late_wave *l, unsigned c, unsigned k)
{
    return &l->queue[c].of[(l->queue[c].first + k) % LATE_QUEUE];
}

/* Operations of one kind end in the order of issue; nothing is known of others. */
static bool in_order(struct late_wave *l, unsigned c)
{
    for (unsigned k = 0; k < l->queue[c].count; k++) {
        const struct late_operation *const o = operation_at(l, c, k);
        if (!o->ordered || o->kind != operation_at(l, c, 0)->kind)
            return false;
    }
    return true;
}

static void note_owed(struct late_wave *l, const struct operand *o)
{
    for (unsigned k = 0; k < o->words; k++)
        if (o->kind == OPERAND_VGPR)
            l->vectors |= (uint64_t)1 << (o->reg + k) % 64;
        else if (o->kind == OPERAND_SGPR && o->reg + k < 128)
            l->scalars[(o->reg + k) / 64] |= (uint64_t)1 << (o->reg + k) % 64;
}

static void end_first(struct wave *w, unsigned c)
{
    struct late_wave *const l = w->shadow->late;
    const struct late_operation *const o = operation_at(l, c, 0);

    for (unsigned part = 0; part < o->lds_count; part++)
        if (l->lds[(o->lds + part) % LATE_SLOTS].direct)
            shadow_mark_lds(w->group->shadow, &l->lds[(o->lds + part) % LATE_SLOTS], 0);
    l->queue[c].first = (l->queue[c].first + 1) % LATE_QUEUE;
    l->queue[c].count--;
}

static void wait_for(struct wave *w, const struct late_insn *x)
{
    struct late_wave *const l = w->shadow->late;

    for (unsigned c = 0; c < LATE_COUNTERS; c++)
        if (x->waits[c] != LATE_NO_WAIT && (!x->waits[c] || in_order(l, c)))
            while (l->queue[c].count > x->waits[c])
                end_first(w, c);
    l->vectors = l->scalars[0] = l->scalars[1] = 0;
    for (unsigned c = 0; c < LATE_COUNTERS; c++)
        for (unsigned k = 0; k < l->queue[c].count; k++)
            if (operation_at(l, c, k)->loads)
                note_owed(l, &operation_at(l, c, k)->insn->op[0]);
}

static void begin(struct wave *w, const struct insn *i, const struct late_insn *x)
{
    struct late_wave *const l = w->shadow->late;

    const uint8_t noted = (uint8_t)((l->lds_next - l->lds_noted) % LATE_SLOTS);

    for (unsigned c = 0; c < LATE_COUNTERS; c++) {
        if (!(x->raises >> c & 1))
            continue;
        if (l->queue[c].count == LATE_QUEUE) /* counters have fewer bits than that */
            end_first(w, c);
        *operation_at(l, c, l->queue[c].count++) = (struct late_operation){
            i, exec_bits(w), x->operation, x->ordered, x->loads, noted, (uint8_t)l->lds_noted};
    }
    if (x->loads)
        note_owed(l, &i->op[0]);
    if (l->lds_noted && l->lds[noted].direct)
        shadow_mark_lds(w->group->shadow, &l->lds[noted], (uint8_t)((w->number + 1) | LDS_DIRECT));
    l->lds_noted = 0;
}

/* The registers of an instruction that an operation still owes. */
static void check_owed(struct wave *w, const struct insn *i, const struct late_insn *x, unsigned c,
                       unsigned k)
{
    struct late_wave *const l = w->shadow->late;
    const struct late_operation *const due = operation_at(l, c, k);
    const struct operand *const to = &due->insn->op[0];
    const bool ordered = in_order(l, c), scalar = to->kind == OPERAND_SGPR;
    const unsigned needed = ordered ? l->queue[c].count - k - 1 : 0;

    for (unsigned n = 0; n < 6; n++) {
        const struct operand *const o = &i->op[n];
        if (o->kind != to->kind)
            continue;
        for (unsigned r = o->reg; r < o->reg + o->words; r++) {
            if (r < to->reg || r >= to->reg + to->words)
                continue;
            const uint64_t where = late_where(scalar, r, 0, c, needed, 0);
            if (!(o->mods & MOD_DST))
                poison_one(w, scalar, r, due->exec,
                           (struct origin){ORIGIN_LATE, number_of(w, due->insn), where});
            else if (!(x->loads && x->raises >> c & 1 && ordered && x->ordered &&
                       x->operation == due->kind)) {
                l->spoils = where | (uint64_t)1 << 63;
                l->spoiler = number_of(w, due->insn);
            }
        }
    }
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static const struct insn *issued_before(const struct late_wave *l, unsigned back)
{
    return l->recent[(l->issued - back) % LATE_RECENT];
}

/* Whether a later instruction has written a register that an earlier one did. */
static bool overwritten(const struct late_wave *l, unsigned back, const struct operand *o,
                        unsigned reg)
{
    for (unsigned k = 1; k < back; k++)
        if (is_written(issued_before(l, k), o->kind == OPERAND_SGPR, reg))
            return true;
    return false;
}

static bool is_about(const struct late_rule *r, const struct operand *o)
{
    const bool vector = o->kind == OPERAND_VGPR;

    return r->registers == LATE_ANY      ? true
           : r->registers == LATE_VECTOR ? vector
           : r->registers == LATE_VCC    ? !vector && (o->reg & ~1) == S_VCC
                                         : o->kind == OPERAND_SGPR && !in_exec(o);
}

static bool same_range(const struct operand *a, const struct operand *b)
{
    return a->kind == b->kind && a->reg == b->reg && a->words == b->words;
}

/* What a matrix instruction adds to: sparse ones of gfx9 to their result. */
static unsigned addend_of(const struct sim_row *row)
{
    return strstr(row->name, "mfmac") || strstr(row->name, "wmmac") ? 0 : 3;
}

/* Whether the operand of the second instruction is one that the rule is about; `to` is the first's.
 */
static bool matters(const struct wave *w, const struct late_rule *r, const struct insn *first,
                    const struct operand *to, const struct insn *i, unsigned n)
{
    const struct insn_note *const notes = w->group->run->module->notes;
    const struct sim_row *const row = notes[number_of(w, first)].row;
    const struct operand *const o = &i->op[n];
    const bool written = o->mods & MOD_DST;

    switch (r->meeting) {
    case LATE_READ:
        return !written;
    case LATE_AS_FACTOR:
        return !written && (n == 1 || n == 2 ||
                            (n == 3 && !same_range(o, &i->op[0]) && r->registers == LATE_VECTOR &&
                             o->words < 4));
    case LATE_AS_ADDEND:
        return n == addend_of(row) && !same_range(o, to);
    case LATE_AS_SAME:
        return n == addend_of(row) && same_range(o, to);
    case LATE_ADDEND_LOST:
    case LATE_DATA_LOST:
        return written;
    case LATE_NOT_SUMMED:
        return i->body != first->body || n == 1 || n == 2;
    case LATE_LANE:
        return n == 2;
    default:
        return true;
    }
}

/* The operands of the first that a rule is about. */
static bool endangers(const struct wave *w, const struct late_rule *r, const struct insn *first,
                      unsigned n)
{
    const struct insn_note *const notes = w->group->run->module->notes;
    const struct operand *const o = &first->op[n];

    if (r->meeting == LATE_ADDEND_LOST)
        return n == addend_of(notes[number_of(w, first)].row) && o->kind == OPERAND_VGPR;
    if (r->meeting == LATE_DATA_LOST)
        return o->kind == OPERAND_VGPR && !(o->mods & MOD_DST) && o->words > 2;
    return o->mods & MOD_DST && is_about(r, o);
}

/* How many instructions back a vector register was written, by the vector ALU and with no wait for
 * that since, and how many vector instructions that is; 0: it was not, as far as that is known. */
static unsigned written_back(const struct wave *w, unsigned reg, unsigned *vectors)
{
    const struct quern_sim_module *const m = w->group->run->module;
    const struct late_wave *const l = w->shadow->late;

    *vectors = 0;
    for (unsigned back = 1; back < LATE_RECENT && back <= l->issued; back++) {
        const struct insn *const i = issued_before(l, back);
        const uint32_t kinds = m->late[number_of(w, i)].kinds;
        if (kinds & (LATE_VMEM | LATE_LDS | LATE_VALU_DONE))
            return 0;
        if (kinds & (LATE_VALU | LATE_WMMA) && is_written(i, false, reg))
            return back;
        *vectors +=
            kinds & (LATE_VALU | LATE_WMMA | LATE_VECTOR_NOP) && m->late[number_of(w, i)].states;
    }
    return 0;
}

/* gfx11 in waves of 64: EXEC was written `back` instructions ago. An instruction that reads a
 * register written up to two vector instructions before that, and another written behind it and up
 * to four ago, gets halves of a forwarded one that do not belong together. Of the operands written
 * behind it only the last counts, as LLVM has it; Mesa, and src/lint, take each of them. */
static void meet_around(struct wave *w, const struct insn *i, unsigned back, unsigned rule)
{
    unsigned reg = 0, behind = UINT_MAX, before = UINT_MAX; /* vector instructions ago */

    for (unsigned n = 0; n < 6; n++) {
        const struct operand *const o = &i->op[n];
        unsigned last = 0, ago = 0, which = 0, vectors;
        for (unsigned k = 0; o->kind == OPERAND_VGPR && !(o->mods & MOD_DST) && k < o->words; k++) {
            const unsigned written = written_back(w, o->reg + k, &vectors);
            if (written && (!last || written < last))
                last = written, ago = vectors, which = o->reg + k;
        }
        if (last > back && ago < before)
            before = ago;
        if (last && last < back && ago < behind)
            behind = ago, reg = which;
    }
    if (behind <= 4 && before <= behind + 3)
        poison_one(w, false, reg, exec_bits(w),
                   (struct origin){ORIGIN_LATE, number_of(w, issued_before(w->shadow->late, back)),
                                   late_where(false, reg, rule, 0, 5, behind)});
}

/* A pair that is too close: what of it is not there. False when the wave was stopped. */
static bool meet(struct wave *w, const struct late_rule *r, unsigned back, const struct insn *i,
                 unsigned needed, unsigned found)
{
    struct late_wave *const l = w->shadow->late;
    const struct insn *const first = issued_before(l, back);
    const struct quern_sim_module *const module = w->group->run->module;
    const unsigned rule = (unsigned)(r - module->late_rules) + 1;
    const uint32_t who = number_of(w, first);

    if (r->meeting == LATE_AROUND) {
        if (w->lanes == 64)
            meet_around(w, i, back, rule);
        return true;
    }
    if (r->meeting == LATE_REGARDLESS) {
        l->spoils = late_where(false, 0, rule, 0, needed, found) | (uint64_t)1 << 63;
        l->spoiler = who;
        return true;
    }
    for (unsigned n = 0; n < 6; n++) {
        const struct operand *const to = &first->op[n];
        if (!endangers(w, r, first, n))
            continue;
        for (unsigned m = 0; m < 6; m++) {
            const struct operand *const o = &i->op[m];
            if (o->kind != to->kind || !matters(w, r, first, to, i, m))
                continue;
            for (unsigned reg = o->reg; reg < o->reg + o->words; reg++) {
                if (reg < to->reg || reg >= to->reg + to->words ||
                    (!r->counted && overwritten(l, back, to, reg)))
                    continue;
                const bool scalar = o->kind == OPERAND_SGPR;
                const uint64_t where = late_where(scalar, reg, rule, 0, needed, found);
                const struct origin origin = {ORIGIN_LATE, who, where};
                if (r->meeting == LATE_DATA_LOST)
                    return finding(w, i, -1, &origin, 0xffffffffu, "a store to memory") != NULL;
                if (r->meeting == LATE_ADDEND_LOST)
                    spoil(w, first, where, number_of(w, i));
                else if (!(o->mods & MOD_DST))
                    poison_one(w, scalar, reg, exec_bits(w), origin);
                else {
                    l->spoils = where | (uint64_t)1 << 63;
                    l->spoiler = who;
                }
            }
        }
    }
    return true;
}

/* Looks back for the first of a pair. */
static bool check_rule(struct wave *w, const struct insn *i, unsigned rule)
{
    const struct quern_sim_module *const m = w->group->run->module;
    const struct late_rule *const r = &m->late_rules[rule];
    struct late_wave *const l = w->shadow->late;
    unsigned most = 0, states = 0, of_two = 0;
    bool behind = !r->behind, near = false;

    for (unsigned n = 0; n < 4; n++) /* more passes need more, but for a row of two passes alone */
        most = r->states[m->late_place][n] > most ? r->states[m->late_place][n] : most;
    for (unsigned back = 1; back < LATE_RECENT && back <= l->issued && states < most; back++) {
        const struct insn *const first = issued_before(l, back);
        const struct late_insn *const x = &m->late[number_of(w, first)];
        const unsigned needed = r->states[m->late_place][x->passes];
        if (x->first >> rule & 1 && states < needed) {
            near = true;
            if (behind && of_two < 2 && !meet(w, r, back, i, needed, states))
                return false;
        }
        if (x->kinds & r->ends)
            break;
        behind |= (x->kinds & r->behind) != 0;
        of_two += (x->kinds & r->two_of) != 0;
        states += !r->counted ? x->states : (x->kinds & r->counted) != 0 && x->states;
    }
    if (!near)
        l->live &= ~((uint64_t)1 << rule);
    return true;
}

/* ---- Scalar registers of RDNA ---------------------------------------------------------------- */

static const uint64_t vcc_only = (uint64_t)3 << (S_VCC - 64);

/* What a vector instruction reads of them may be kept, and read again in the place of what is
 * written there later: on gfx12 any, in pairs; on gfx11, in waves of 64, masks of lanes, in the
 * place of what scalar instructions write (as Mesa has it; LLVM of 2026, as the scan, takes vector
 * ones as well, LLVM 21 does not). */
static void note_scalars(struct wave *w, const struct insn *i, const struct late_insn *x)
{
    const enum late_place place = w->group->run->module->late_place;
    struct late_wave *const l = w->shadow->late;
    const bool vector = x->kinds & (LATE_VALU | LATE_WMMA), gfx12 = place == LATE_GFX12;

    if (!gfx12 && w->lanes == 32)
        return;
    if (x->kinds & LATE_LDS_PAUSE) {
        if (++l->pauses >= w->lanes / 8)
            l->kept[0] = l->kept[1] = 0;
        return;
    }
    l->pauses = 0;
    for (unsigned n = 0; n < 2; n++) {
        const uint64_t vcc = n ? vcc_only : 0;
        if (x->alu_waits & LATE_OF_VALU)
            l->by_valu[n] &= vcc;
        if (x->alu_waits & LATE_OF_VALU_VCC)
            l->by_valu[n] &= ~vcc;
        if (x->alu_waits & LATE_OF_SALU || (gfx12 && x->kinds & LATE_BRINGS))
            l->by_salu[n] = 0;
        if (x->alu_waits & LATE_OF_SALU && !gfx12)
            l->kept[n] = 0;
        if (gfx12 && x->kinds & LATE_BRINGS)
            l->by_valu[n] = 0;
        /* a scalar instruction waits for what vector ones write, of VCC or of the others */
        if (x->kinds & LATE_SALU && x->reads[n] & l->kept[n] & vcc)
            l->by_valu[n] &= ~vcc;
    }
    if (x->kinds & LATE_SALU &&
        (x->reads[0] & l->kept[0] || x->reads[1] & l->kept[1] & ~vcc_only)) {
        l->by_valu[0] = 0;
        l->by_valu[1] &= vcc_only;
    }
    for (unsigned n = 0; n < 2 && vector; n++) {
        const uint64_t read = x->reads[n], even = 0x5555555555555555u;
        if (gfx12)
            l->kept[n] |= read | (read & even) << 1 | (read >> 1 & even);
    }
    /* of gfx11 the last ones alone: reads of others, or of a literal, put an end to them, but a
     * read of another mask does not to what was written since (Mesa) */
    if (vector && !gfx12 &&
        (x->kinds & LATE_LITERAL || x->reads[0] || x->reads[1] & ~((uint64_t)3 << 62)))
        for (unsigned n = 0; n < 2; n++)
            l->kept[n] = l->by_salu[n] = x->kinds & LATE_LANE_MASK ? l->kept[n] & l->by_salu[n] : 0;
    for (unsigned n = 1; n < 6 && vector && !gfx12 && x->kinds & LATE_LANE_MASK; n++)
        if (i->op[n].type == 'm' && i->op[n].kind == OPERAND_SGPR && !(i->op[n].mods & MOD_DST))
            for (unsigned k = i->op[n].reg; k < i->op[n].reg + i->op[n].words; k++)
                l->kept[k / 64 & 1] |= (uint64_t)1 << k % 64;
    for (unsigned n = 0; n < 2; n++) {
        const uint64_t anew =
            x->writes[n] & l->kept[n] & (n ? ((uint64_t)1 << 60) - 1 : ~(uint64_t)0);
        if (vector && gfx12)
            l->by_valu[n] |= anew;
        else if (x->kinds & LATE_SALU)
            l->by_salu[n] |= anew;
        EACH_BIT (bit, anew)
            l->writer[64 * n + bit] = number_of(w, i);
    }
}

static void check_scalars(struct wave *w, const struct late_insn *x)
{
    struct late_wave *const l = w->shadow->late;
    const bool vector = x->kinds & (LATE_VALU | LATE_WMMA);

    if (!vector && !(x->kinds & LATE_SALU))
        return;
    for (unsigned n = 0; n < 2; n++)
        EACH_BIT (bit, x->reads[n] & l->kept[n] & (l->by_salu[n] | (vector ? l->by_valu[n] : 0))) {
            const unsigned reg = 64 * n + (unsigned)bit;
            poison_one(
                w, true, reg, 0,
                (struct origin){ORIGIN_LATE, l->writer[reg], late_where(true, reg, 1, 0, 0, 0)});
        }
}

/* ---- LDS ------------------------------------------------------------------------------------- */

void late_note_lds(struct wave *w, const struct insn *i, const struct access *a, unsigned bytes)
{
    const struct late_insn *const x = &w->group->run->module->late[number_of(w, i)];
    struct late_wave *const l = w->shadow->late;
    struct late_lds *const to = &l->lds[l->lds_next++ % LATE_SLOTS];

    l->lds_noted++;
    EACH_BIT (lane, a->active) {
        to->at[lane] = (uint32_t)(a->at[lane] - w->group->lds);
    }
    to->active = a->active;
    to->bytes = bytes;
    to->direct = x->kinds & LATE_VMEM && x->kinds & LATE_USES_M0;
}

bool late_check_lds(struct wave *w, const struct insn *i, unsigned lane, uint64_t at,
                    unsigned bytes)
{
    const uint8_t *const by = w->group->shadow->lds_writer;

    for (uint64_t n = at; n < at + bytes; n++)
        if (by[n] && (by[n] & LDS_DIRECT || by[n] != w->number + 1)) {
            fault(w, i, (int)lane,
                  "LDS byte 0x%llx is read, which wave %u has written and not waited for%s",
                  (unsigned long long)n, (by[n] & ~LDS_DIRECT) - 1u,
                  by[n] & LDS_DIRECT ? "" : " before the barrier");
            return false;
        }
    return true;
}

/* ---- Each instruction ------------------------------------------------------------------------ */

const struct insn *late_before(struct wave *w, const struct insn *i, const struct late_insn *x)
{
    struct late_wave *const l = w->shadow->late;

    for (unsigned c = 0; c < LATE_COUNTERS; c++)
        for (unsigned k = 0; k < l->queue[c].count; k++)
            if (operation_at(l, c, k)->loads)
                check_owed(w, i, x, c, k);
    EACH_BIT (rule, x->second & l->live)
        if (!check_rule(w, i, (unsigned)rule))
            return NULL;
    if (l->by_valu[0] | l->by_valu[1] | l->by_salu[0] | l->by_salu[1])
        check_scalars(w, x);
    return i;
}

void late_undo(struct wave *w, const struct insn *i)
{
    struct late_wave *const l = w->shadow->late;

    restore(w, i);
    if (l->spoils)
        spoil(w, i, l->spoils & ~((uint64_t)1 << 63), l->spoiler);
    l->spoils = 0;
}

void late_behind(struct wave *w, const struct insn *i, const struct late_insn *x)
{
    if (x->raises)
        begin(w, i, x);
    if (w->group->run->module->late_place >= LATE_GFX11_0)
        note_scalars(w, i, x);
    if (x->waits[0] != LATE_NO_WAIT || x->waits[1] != LATE_NO_WAIT || x->waits[2] != LATE_NO_WAIT ||
        x->waits[3] != LATE_NO_WAIT)
        wait_for(w, x);
}
