/* SPDX-License-Identifier: MIT */
/*
 * gfx9's way to index registers: between s_set_gpr_idx_on and s_set_gpr_idx_off the vector register
 * of chosen operands is moved by the number in M0. The loader gives the instructions between them
 * the body x_indexed, which runs their own on a copy with the registers that are meant.
 */
#include "sim/launch.h"
#include "sim/exec/track.h"

/* Bits 0-7 of M0 are the index; bits 12-15 choose sources 0, 1, 2 and the destination. */
enum { INDEX_MASK = 0xff, MODE_SHIFT = 12 };

INLINE const struct insn *set_m0(struct wave *w, const struct insn *i, uint32_t value)
{
    w->s[S_M0] = value;
    if (w->shadow)
        w->shadow->w.s[S_M0] = 0;
    return i + 1;
}

BODY(s_set_gpr_idx_on)
{
    return set_m0(w, i,
                  (scalar32(w, &i->op[1]) & INDEX_MASK) |
                      ((uint32_t)i->op[2].value & 15) << MODE_SHIFT | (w->s[S_M0] & 0xffff0f00u));
}

BODY(s_set_gpr_idx_idx)
{
    return set_m0(w, i,
                  (w->s[S_M0] & ~(uint32_t)INDEX_MASK) | (scalar32(w, &i->op[1]) & INDEX_MASK));
}

BODY(s_set_gpr_idx_mode)
{
    return set_m0(w, i, (w->s[S_M0] & 0xffff0fffu) | ((uint32_t)i->op[1].value & 15) << MODE_SHIFT);
}

BODY(s_set_gpr_idx_off)
{
    (void)w;
    return i + 1;
}

bool index_registers(struct wave *w, const struct insn *i, struct insn *moved)
{
    const unsigned index = w->s[S_M0] & INDEX_MASK, mode = w->s[S_M0] >> MODE_SHIFT & 15;
    const unsigned limit = w->group->run->module->vgpr_limit;

    *moved = *i;
    for (unsigned n = 0; n < 4; n++) {
        struct operand *const o = &moved->op[n];
        const bool chosen = mode >> (n ? n - 1 : 3) & 1;
        if (!chosen || o->kind != OPERAND_VGPR)
            continue;
        if (o->reg + index + o->words > limit) {
            fault(w, i, -1, "register v%u is indexed by %u: the wave has %u", o->reg, index, limit);
            return false;
        }
        o->reg = (uint16_t)(o->reg + index);
        o->offset += (uint64_t)index * w->lanes * 4;
    }
    return true;
}

const struct insn *x_indexed(struct wave *w, const struct insn *i)
{
    struct insn moved;

    if (!index_registers(w, i, &moved))
        return NULL;
    return w->group->run->module->notes[i - w->group->insns].row->body(w, &moved) ? i + 1 : NULL;
}

#define ROW_(NAME, OPERANDS) {#NAME, QUERN_CLASS_SALU, UNDEF_MUST, OPERANDS, x_##NAME},

/* clang-format off */
const struct sim_row rows_index[] = {
    ROW_(s_set_gpr_idx_on, "s1G2")
    ROW_(s_set_gpr_idx_idx, "s1")
    ROW_(s_set_gpr_idx_mode, "G1")
    ROW_(s_set_gpr_idx_off, "")
    {0}};
/* clang-format on */
