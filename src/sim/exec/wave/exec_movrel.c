/* SPDX-License-Identifier: MIT */
/* Registers by number: M0 says how far from the named registers those that are meant are.
 * And v_mqsad_u32_u8, whose result takes four registers. */
#include "sim/launch.h"
#include "sim/exec/track.h"

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
BODY(v_movrels_b32)
{
    return move_by_number(w, i, INDEX_SOURCE);
}
BODY(v_movreld_b32)
{
    return move_by_number(w, i, INDEX_RESULT);
}
BODY(v_movrelsd_b32)
{
    return move_by_number(w, i, INDEX_SOURCE | INDEX_RESULT);
}
BODY(v_movrelsd_2_b32)
{
    return move_by_number(w, i, INDEX_SOURCE | INDEX_RESULT | INDEX_APART);
}

/* ---- s_movrels, s_movreld, s_movrelsd_2 ------------------------------------------------------ */

/* Its own full check: what is copied may be undefined, M0 may not. */
INLINE const struct insn *scalar_by_number(struct wave *w, const struct insn *i, unsigned words,
                                           unsigned how)
{
    struct shadow_wave *const sw = w->shadow;
    const uint32_t m0 = w->s[S_M0];
    const uint32_t down = how & INDEX_APART ? m0 & 0x3ff : m0;
    const uint32_t up = how & INDEX_APART ? m0 >> 16 & 0x3ff : m0;
    const bool constant = i->op[1].kind == OPERAND_CONST; /* of s_movreld */
    const uint64_t from = constant ? 0 : i->op[1].reg + (uint64_t)(how & INDEX_SOURCE ? down : 0);
    const uint64_t to = i->op[0].reg + (uint64_t)(how & INDEX_RESULT ? up : 0);

    if (UNLIKELY(sw && sw->w.s[S_M0]))
        return finding(w, i, -1, &sw->scalar_origins[S_M0], sw->w.s[S_M0], "a register number");
    if (from + words > S_VCC || to + words > S_VCC)
        return fault(w, i, -1, "M0 is 0x%x: s%llu is no general scalar register", m0,
                     (unsigned long long)(from + words > S_VCC ? from : to));
    const uint64_t value = words == 1 ? scalar32(w, &i->op[1]) : scalar64(w, &i->op[1]);
    uint32_t parts[2] = {(uint32_t)value, (uint32_t)(value >> 32)};
    if (!constant)
        memcpy(parts, w->s + from, 4 * words);
    memcpy(w->s + to, parts, 4 * words);
    for (unsigned k = 0; k < words && sw; k++) {
        sw->w.s[to + k] = constant ? 0 : sw->w.s[from + k];
        sw->scalar_origins[to + k] = sw->scalar_origins[from + k];
    }
    return i + 1;
}
BODY(s_movrels_b32)
{
    return scalar_by_number(w, i, 1, INDEX_SOURCE);
}
BODY(s_movrels_b64)
{
    return scalar_by_number(w, i, 2, INDEX_SOURCE);
}
BODY(s_movreld_b32)
{
    return scalar_by_number(w, i, 1, INDEX_RESULT);
}
BODY(s_movreld_b64)
{
    return scalar_by_number(w, i, 2, INDEX_RESULT);
}
BODY(s_movrelsd_2_b32)
{
    return scalar_by_number(w, i, 1, INDEX_SOURCE | INDEX_RESULT | INDEX_APART);
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

#define ROW_(NAME, UNDEF, OPERANDS) {#NAME, QUERN_CLASS_VALU, UNDEF_##UNDEF, OPERANDS, x_##NAME},

/* clang-format off */
const struct sim_row rows_movrel[] = {
    ROW_(v_movrels_b32, INDEX_SOURCE, "=u0u1")
    ROW_(v_movreld_b32, INDEX_RESULT, "=u0u1")
    ROW_(v_movrelsd_b32, INDEX_BOTH, "=u0u1")
    ROW_(v_movrelsd_2_b32, INDEX_APART, "=u0u1")
    {"s_movrels_b32", QUERN_CLASS_SALU, UNDEF_MATRIX, "=s0s1", x_s_movrels_b32},
    {"s_movrels_b64", QUERN_CLASS_SALU, UNDEF_MATRIX, "=t0t1", x_s_movrels_b64},
    {"s_movreld_b32", QUERN_CLASS_SALU, UNDEF_MATRIX, "=s0s1", x_s_movreld_b32},
    {"s_movreld_b64", QUERN_CLASS_SALU, UNDEF_MATRIX, "=t0t1", x_s_movreld_b64},
    {"s_movrelsd_2_b32", QUERN_CLASS_SALU, UNDEF_MATRIX, "=s0s1", x_s_movrelsd_2_b32},
    ROW_(v_mqsad_u32_u8, ANY, "=v40q1u2v43")
    {0}};
/* clang-format on */
