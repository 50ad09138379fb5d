/* SPDX-License-Identifier: MIT */
/* Vector registers by number: M0 says how far from the named registers those that are meant are.
 * And v_mqsad_u32_u8, whose result takes four registers. */
#include "sim/launch.h"
#include "sim/track.h"

#define BODY(NAME) static const struct insn *x_##NAME(struct wave *w, const struct insn *i)

/* ---- v_movrels, v_movreld, v_movrelsd, v_swaprel --------------------------------------------- */

bool index_operands(struct wave *w, struct insn *i, const struct insn *at, unsigned how)
{
    const unsigned limit = w->group->run->module->vgpr_limit;
    const uint32_t m0 = w->s[S_M0];

    for (unsigned n = 0; n < 2; n++) {
        struct operand *const o = &i->op[n];
        const uint32_t by = !(how & INDEX_APART) ? m0 : n ? m0 & 0x3ff : m0 >> 16 & 0x3ff;
        if (!(how & (n ? INDEX_SOURCE : INDEX_RESULT)) || o->kind != OPERAND_VGPR)
            continue;
        if (by >= limit || o->reg + by >= limit) {
            fault(w, at, -1,
                  "M0 is 0x%x: %u registers beyond v%u is outside the %u vector registers of the "
                  "wave",
                  m0, by, o->reg, limit);
            return false;
        }
        o->reg = (uint16_t)(o->reg + by);
        o->offset += (uint64_t)by * w->lanes * 4;
    }
    return true;
}

INLINE const struct insn *move_by_number(struct wave *w, const struct insn *i, unsigned how)
{
    struct insn m = *i;
    ROW temp[128], r[128];

    if (!index_operands(w, &m, i, how))
        return NULL;
    for (unsigned h = 0; h < w->halves; h++) {
        const uint32_t *const from = source(w, &m, 1, h, temp);
        LANES r[l] = from[l];
        commit(w, &m, h, r, 'u');
    }
    return i + 1;
}
BODY(v_movrels_b32) { return move_by_number(w, i, INDEX_SOURCE); }
BODY(v_movreld_b32) { return move_by_number(w, i, INDEX_RESULT); }
BODY(v_movrelsd_b32) { return move_by_number(w, i, INDEX_SOURCE | INDEX_RESULT); }
BODY(v_movrelsd_2_b32)
{
    return move_by_number(w, i, INDEX_SOURCE | INDEX_RESULT | INDEX_APART);
}

/* ---- v_mqsad_u32_u8 -------------------------------------------------------------------------- */

BODY(v_mqsad_u32_u8)
{
    const unsigned lanes = w->lanes;
    struct insn m = *i;
    ROW ta[128], tb[128], tc[128], r[4][128];

    for (unsigned h = 0; h < w->halves; h++) {
        const uint32_t *const a = source(w, i, 1, h, ta), *const b = source(w, i, 2, h, tb);
        const uint32_t *const c = source(w, i, 3, h, tc);
        for (unsigned k = 0; k < 4; k++)
            LANES
            {
                const uint64_t bytes = a[l] | (uint64_t)a[l + lanes] << 32;
                r[k][l] = msad_u8((uint32_t)(bytes >> 8 * k), b[l]) + c[l + k * lanes];
            }
        for (unsigned k = 0; k < 4; k++) {
            m.op[0].offset = i->op[0].offset + (uint64_t)k * lanes * 4;
            commit(w, &m, h, r[k], 'u');
        }
    }
    return i + 1;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define ROW_(NAME, UNDEF, OPERANDS)                                                                \
    {#NAME, QUERN_CLASS_VALU, UNDEF_##UNDEF, OPERANDS, x_##NAME},

const struct sim_row rows_movrel[] = {
    ROW_(v_movrels_b32, INDEX_SOURCE, "=u0u1")
    ROW_(v_movreld_b32, INDEX_RESULT, "=u0u1")
    ROW_(v_movrelsd_b32, INDEX_BOTH, "=u0u1")
    ROW_(v_movrelsd_2_b32, INDEX_APART, "=u0u1")
    ROW_(v_mqsad_u32_u8, ANY, "=v40q1u2v43")
    {0}};
