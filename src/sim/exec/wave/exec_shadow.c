/* SPDX-License-Identifier: MIT */
/* The loop of the full check. See shadow.h; masks are in exec_masks.c. */
#include "sim/exec/wave/exec_masks.h"
#include "sim/launch.h"

/* ---- Places that undefined bits must not reach ----------------------------------------------- */

static const struct insn *must_be_defined(struct wave *w, const struct insn *i,
                                          const struct operand *o, const char *reach)
{
    const struct shadow_wave *const sw = w->shadow;

    if (!suspect(sw, o))
        return i;
    if (o->kind == OPERAND_SGPR) {
        for (unsigned k = 0; k < o->words; k++)
            if (sw->w.s[o->reg + k])
                return finding(w, i, -1, origin_of(sw, o), sw->w.s[o->reg + k], reach);
        return i;
    }
    for (unsigned k = 0; k < o->words; k++)
        for (unsigned l = 0; l < w->lanes; l++) {
            const uint32_t bits = vgpr(&sw->w, o, 0)[l + k * w->lanes] & w->mask[l];
            if (bits)
                return finding(w, i, (int)l, origin_of(sw, o), bits, reach);
        }
    return i;
}

static const struct insn *check_branch(struct wave *w, const struct insn *i, bool vcc)
{
    const struct wave *const s = &w->shadow->w;

    if (!vcc)
        return s->s[S_SCC] ? finding(w, i, -1, &w->shadow->scalar_origins[S_SCC], 1,
                                     "a branch condition (SCC)")
                           : i;
    for (unsigned k = 0; k < w->halves; k++)
        if (w->s[S_VCC + k] & ~s->s[S_VCC + k])
            return i; /* a defined bit that is set decides */
    for (unsigned k = 0; k < w->halves; k++)
        if (s->s[S_VCC + k])
            return finding(w, i, -1, &w->shadow->scalar_origins[S_VCC + k], s->s[S_VCC + k],
                           "a branch condition (VCC)");
    return i;
}

/* ---- Each instruction ------------------------------------------------------------------------ */

/* Before an instruction runs. Null when there is a finding. */
static const struct insn *step(struct wave *w, const struct insn *i, const struct sim_row *row)
{
    struct shadow_wave *const sw = w->shadow;
    bool any = false;

    switch (row->undef) {
    case UNDEF_IF_SCC:
        return check_branch(w, i, false);
    case UNDEF_IF_VCC:
        return check_branch(w, i, true);
    case UNDEF_ADDRESS:
        for (unsigned n = 1; n < 4; n++) {
            const struct operand *const o = &i->op[n];
            const bool address =
                n < 3 ? !(n == 2 && o->kind == OPERAND_VGPR) : o->kind == OPERAND_SGPR;
            if (o->kind && address && !must_be_defined(w, i, o, "an address"))
                return NULL;
        }
        return i;
    case UNDEF_MATRIX:
        return i;
    case UNDEF_INDEX_SOURCE:
    case UNDEF_INDEX_RESULT:
    case UNDEF_INDEX_BOTH:
    case UNDEF_INDEX_APART:
        return through_index(w, i, row);
    default:
        break;
    }
    for (unsigned n = 0; n < 5; n++)
        any = any || suspect(sw, &i->op[n]);
    if (row->undef == UNDEF_MUST) {
        for (unsigned n = 0; n < 5; n++)
            if (i->op[n].kind && !(i->op[n].mods & MOD_DST) &&
                !must_be_defined(w, i, &i->op[n], "control flow or a mode"))
                return NULL;
        for (unsigned n = 0; n < 5; n++)
            if (i->op[n].kind == OPERAND_SGPR && i->op[n].mods & MOD_DST)
                memset(&sw->w.s[i->op[n].reg], 0, 4u * i->op[n].words);
        return i;
    }
    if (row->class == QUERN_CLASS_SALU || row->scalar) {
        if (any || sw->w.s[S_SCC])
            return through_scalar(w, i, row);
        return i;
    }
    return any ? through_vector(w, i, row) : i;
}

void shadow_run(struct wave *w)
{
    const struct insn_note *const notes = w->group->run->module->notes;
    const struct late_insn *const lates = w->group->run->module->late;
    struct late_wave *const late = w->shadow->late;
    const struct insn *const first = w->group->insns;
    const struct insn *i = w->pc;

    while (i) {
        const struct insn *const at = i;
        const struct sim_row *const row = notes[at - first].row;
        const struct late_insn *const x = &lates[at - first];
        const struct insn *seen = at;
        struct insn moved;
        if (UNLIKELY(at->body == x_indexed)) {
            if (!index_registers(w, at, &moved))
                return;
            seen = &moved;
        }
        const bool near = UNLIKELY(late_near(late, x));
        if (near && !late_before(w, seen, x))
            return;
        if (row && row->class != QUERN_CLASS_WAIT && !step(w, seen, row))
            return;
        i = at->body(w, at);
        if (near)
            late_undo(w, seen);
        late->recent[late->issued++ % LATE_RECENT] = at;
        late->live |= x->first;
        if (x->acts)
            late_behind(w, at, x);
    }
}
