/* SPDX-License-Identifier: MIT */
/* What instruction bodies share: special operands, results that are more than a store, the loop. */
#include "sim/exec/wave/exec.h"
#include "sim/exec/track.h"

const uint32_t *splat(struct wave *w, const struct operand *o, uint32_t *temp)
{
    const unsigned lanes = w->lanes;

    if (o->type == 'm') {
        const uint64_t bits = lane_mask(w, o);
        for (unsigned h = 0; h < w->halves; h++)
            spread_bits((uint32_t)(bits >> 32 * h), temp + 32 * h);
        return temp;
    }
    for (unsigned k = 0; k < (o->words > 1 ? 2 : 1); k++) {
        const uint32_t value = o->kind == OPERAND_SGPR ? w->s[o->reg + k] : 0;
        for (unsigned h = 0; h < lanes / 32; h++) {
            uint32_t *const to = temp + k * lanes + 32 * h;
            LANES to[l] = value;
        }
    }
    return temp;
}

const struct insn *with_rows(struct wave *w, const struct insn *i, unsigned sources)
{
    w->plain = *i;
    for (unsigned n = 1; n <= sources; n++) {
        struct operand *const o = &w->plain.op[n];
        if (o->kind == OPERAND_VGPR || o->kind == OPERAND_CONST)
            continue;
        o->rows = splat(w, &i->op[n], w->rows[n - 1]);
        o->kind = OPERAND_CONST;
    }
    return &w->plain;
}

/* ---- Special operands ------------------------------------------------------------------------ */

static uint32_t select_part(uint32_t x, unsigned select, bool sign)
{
    switch (select) {
    case SELECT_BYTE_0:
    case SELECT_BYTE_1:
    case SELECT_BYTE_2:
    case SELECT_BYTE_3:
        x = x >> 8 * (select - SELECT_BYTE_0) & 0xff;
        return sign ? (uint32_t)(int8_t)x : x;
    case SELECT_WORD_0:
    case SELECT_WORD_1:
        x = x >> 16 * (select - SELECT_WORD_0) & 0xffff;
        return sign ? (uint32_t)(int16_t)x : x;
    default:
        break;
    }
    if (select >= SELECT_PAIR) {
        const unsigned low = (select - SELECT_PAIR) & 1, high = (select - SELECT_PAIR) >> 1;
        return (x >> 16 * low & 0xffff) | x >> 16 * high << 16;
    }
    return x;
}

/* The bits that abs clears and neg inverts, in the word that holds them. */
static void modify(uint32_t *row, unsigned lanes, const struct operand *o)
{
    uint32_t clear = 0, invert = 0;

    switch (o->type) {
    case 'h':
        clear = o->mods & MOD_ABS ? 0x8000 : 0;
        invert = o->mods & MOD_NEG ? 0x8000 : 0;
        break;
    case 'r':
        for (unsigned l = 0; l < lanes; l++) {
            row[l] ^= o->mods & MOD_NEG ? 0x80000000u : 0;
            row[l + lanes] ^= o->mods & MOD_NEG_HIGH ? 0x80000000u : 0;
        }
        return;
    case 'p':
    case 'b':
        invert = (o->mods & MOD_NEG ? 0x8000u : 0) | (o->mods & MOD_NEG_HIGH ? 0x80000000u : 0);
        break;
    case 'd':
        row += lanes;
        /* fall through */
    default:
        clear = o->mods & MOD_ABS ? 0x80000000u : 0;
        invert = o->mods & MOD_NEG ? 0x80000000u : 0;
        break;
    }
    for (unsigned l = 0; l < lanes; l++)
        row[l] = (row[l] & ~clear) ^ invert;
}

const uint32_t *fetch(struct wave *w, const struct insn *i, unsigned n, unsigned h, uint32_t *temp)
{
    const struct operand *const o = &i->op[n];
    const unsigned lanes = w->lanes;
    const uint32_t *from;
    ROW splatted[128];

    /* all lanes are fetched in the first round: in the second, the first half is overwritten */
    if (h)
        return temp;
    if (o->kind == OPERAND_VGPR)
        from = vgpr(w, o, 0);
    else if (o->kind == OPERAND_CONST)
        from = o->rows;
    else
        from = splat(w, o, splatted);
    for (unsigned k = 0; k < (o->words > 1 ? 2 : 1); k++) {
        uint32_t *const to = temp + k * lanes;
        const bool chosen = o->type == 'r' && o->select != SELECT_ALL;
        const unsigned word = chosen ? (o->select - SELECT_PAIR) >> k & 1 : k;
        const uint32_t *const row = from + word * lanes;
        if (n == 1 && i->flags & INSN_DPP)
            for (unsigned l = 0; l < lanes; l++) {
                const unsigned s = i->lanes[l];
                to[l] =
                    s != LANE_NONE && (i->flags & INSN_FETCH_INACTIVE || w->mask[s]) ? row[s] : 0;
            }
        else
            memcpy(to, row, lanes * sizeof *to);
    }
    if (o->type == 'g') {
        for (unsigned l = 0; l < lanes && o->select != SELECT_ALL; l++)
            temp[l] = bits_of_f32(f16_to_f32(select_part(temp[l], o->select, false)));
    } else if (o->type != 'r' && o->select != SELECT_ALL)
        for (unsigned l = 0; l < lanes; l++)
            temp[l] = select_part(temp[l], o->select, o->mods & MOD_SEXT);
    if (o->mods & (MOD_NEG | MOD_ABS | MOD_NEG_HIGH))
        modify(temp, lanes, o);
    return temp;
}

const uint32_t *source(struct wave *w, const struct insn *i, unsigned n, unsigned h, uint32_t *temp)
{
    const struct operand *const o = &i->op[n];

    if (UNLIKELY(i->flags & INSN_COMPLEX))
        return fetch(w, i, n, h, temp) + 32 * h;
    if (LIKELY(o->kind == OPERAND_VGPR))
        return vgpr(w, o, h);
    if (o->kind == OPERAND_CONST)
        return o->rows + 32 * h;
    return splat(w, o, temp) + 32 * h;
}

/* ---- Results --------------------------------------------------------------------------------- */

static float clamp_f32(float f)
{
    return f > 1 ? 1 : f > 0 ? f : 0;
}

/*
 * The modifiers mul:2, mul:4 and div:2, applied to what is rounded already: denormals and zeros of
 * either sign become +0, whatever the mode says, and what would be below the normal range before it
 * is rounded again a zero of its sign. Captured on gfx1201 (bjacob/goc), taken for all.
 */
static float scaled(float f, unsigned omod, float least)
{
    static const float factors[4] = {1, 2, 4, 0.5f};

    if (!omod)
        return f;
    if (fabsf(f) < least)
        return 0;
    return fabsf(f) < least / factors[omod] ? copysignf(0, f) : f * factors[omod];
}

static double scaled_f64(double d, unsigned omod)
{
    static const double factors[4] = {1, 2, 4, 0.5};

    if (!omod)
        return d;
    if (fabs(d) < 0x1p-1022)
        return 0;
    return fabs(d) < 0x1p-1022 / factors[omod] ? copysign(0, d) : d * factors[omod];
}

static void scale_and_clamp(const struct insn *i, uint32_t *r, char type)
{
    const bool clamp = i->flags & INSN_CLAMP;

    LANES
    {
        if (type == 'f') {
            const float f = scaled(f32_of(r[l]), i->omod, 0x1p-126f);
            r[l] = bits_of_f32(clamp ? clamp_f32(f) : f);
        } else if (type == 'h' || type == 'j' || type == 'J') {
            const float f = scaled(f16_to_f32(r[l]), i->omod, 0x1p-14f);
            r[l] = f32_to_f16(clamp ? clamp_f32(f) : f);
        } else if (type == 'p') {
            const float low = f16_to_f32(r[l] & 0xffff), high = f16_to_f32(r[l] >> 16);
            r[l] = f32_to_f16(clamp_f32(low)) | f32_to_f16(clamp_f32(high)) << 16;
        } else if (type == 'd') {
            double d = scaled_f64(f64_of(r[l] | (uint64_t)r[l + 64] << 32), i->omod);
            d = !clamp ? d : d > 1 ? 1 : d > 0 ? d : 0;
            r[l] = (uint32_t)bits_of_f64(d);
            r[l + 64] = (uint32_t)(bits_of_f64(d) >> 32);
        }
    }
}

/* SDWA: puts the result into a part of the register, and something into the rest. */
static uint32_t place(uint32_t old, uint32_t x, unsigned select, unsigned unused)
{
    unsigned shift, bits;

    if (select == SELECT_ALL)
        return x;
    if (select >= SELECT_WORD_0) {
        shift = 16 * (select - SELECT_WORD_0);
        bits = 16;
    } else {
        shift = 8 * (select - SELECT_BYTE_0);
        bits = 8;
    }
    const uint32_t field = ((1u << bits) - 1) << shift;
    const uint32_t value = x << shift & field;
    if (unused == UNUSED_PRESERVE)
        return (old & ~field) | value;
    if (unused == UNUSED_SEXT && x >> (bits - 1) & 1)
        return value | ~((1u << (shift + bits - 1)) | ((1u << (shift + bits - 1)) - 1));
    return value;
}

void commit(struct wave *w, const struct insn *i, unsigned h, uint32_t *r, char type)
{
    const struct operand *const o = &i->op[0];
    const uint32_t *mask = w->mask + 32 * h;
    const bool half = type == 'h' || type == 'w' || type == 'j' || type == 'J';
    uint32_t keep = half && i->keeps_half ? 0xffff0000u : 0;
    ROW writes[32];

    if (i->flags & INSN_COMPLEX) {
        if (i->omod || i->flags & INSN_CLAMP)
            scale_and_clamp(i, r, type);
        if (i->flags & INSN_DPP) {
            LANES
            {
                const unsigned lane = 32 * h + l, s = i->lanes[lane];
                const bool read = s != LANE_NONE && (i->flags & INSN_FETCH_INACTIVE || w->mask[s]);
                const bool on =
                    i->write_rows >> (l / 4 % 4) & 1 && i->write_rows >> (4 + lane / 16) & 1;
                writes[l] = on && (read || i->flags & INSN_BOUND_CTRL) ? mask[l] : 0;
            }
            mask = writes;
        }
        if (i->flags & INSN_SDWA) {
            const uint32_t *const d = vgpr(w, o, h);
            LANES r[l] = place(d[l], r[l], i->dst_select, i->dst_unused);
            keep = 0;
        } else if (i->flags & INSN_DST_HIGH) {
            LANES r[l] <<= 16;
            keep = 0xffff;
        }
    }
    for (unsigned k = 0; k < (type == 'd' || type == 'q' || type == 'r' ? 2 : 1); k++) {
        uint32_t *const d = vgpr(w, o, h) + k * w->lanes;
        const uint32_t *const x = r + 64 * k;
        IVDEP LANES
        {
            const uint32_t m = mask[l] & ~keep;
            d[l] = (x[l] & m) | (d[l] & ~m);
        }
    }
}

/* ---- Running --------------------------------------------------------------------------------- */

void exec_changed(struct wave *w)
{
    w->full = true;
    for (unsigned h = 0; h < w->halves; h++) {
        spread_bits(w->s[S_EXEC + h], w->mask + 32 * h);
        w->full = w->full && w->s[S_EXEC + h] == 0xffffffffu;
    }
}

BODY_OF(unknown, fault(w, i, -1, "unknown instruction"))
BODY_OF(past_end, fault(w, i, -1, "the code runs past the end of its symbol"))
static void run(struct wave *w)
{
    const struct insn *i = w->pc;

    while (i)
        i = i->body(w, i);
}

static const struct sim_row *const tables[] = {
    rows_hand,   rows_dots,   rows_valu,    rows_trans,  rows_half,   rows_wide,
    rows_carry,  rows_pack,   rows_compare, rows_cross,  rows_scalar, rows_flow,
    rows_memory, rows_lds,    rows_matrix,  rows_mfma,   rows_smfmac, rows_movrel,
    rows_gfx9,   rows_blocks, rows_index,   rows_direct, NULL};

const struct sim_bodies sim_bodies = {
    .tables = tables,
    .unknown = x_unknown,
    .past_end = x_past_end,
    .indexed = x_indexed,
    .run = run,
    .run_full = shadow_run,
    .read_exec = exec_changed,
};
