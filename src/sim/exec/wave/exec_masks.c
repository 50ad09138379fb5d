/* SPDX-License-Identifier: MIT */
/* How undefined bits go through registers. See shadow.h. */
#include "sim/exec/wave/exec_masks.h"
#include "sim/launch.h"

/* ---- What is undefined ----------------------------------------------------------------------- */

const struct origin *origin_of(const struct shadow_wave *s, const struct operand *o)
{
    static const struct origin none;

    for (unsigned k = 0; k < o->words; k++) {
        if (o->kind == OPERAND_VGPR && s->flags[o->reg + k])
            return &s->origins[o->reg + k];
        if (o->kind == OPERAND_SGPR && !in_exec(o) && s->w.s[o->reg + k])
            return &s->scalar_origins[o->reg + k];
    }
    return &none;
}

struct origin first_origin(const struct shadow_wave *s, const struct insn *i, bool scc)
{
    for (unsigned n = 0; n < 6; n++)
        if (i->op[n].kind && !(i->op[n].mods & MOD_DST) && suspect(s, &i->op[n]))
            return *origin_of(s, &i->op[n]);
    for (unsigned n = 0; n < 6; n++)
        if (i->op[n].kind && suspect(s, &i->op[n]))
            return *origin_of(s, &i->op[n]);
    return scc ? s->scalar_origins[S_SCC] : (struct origin){0};
}

void note_result(struct shadow_wave *s, const struct operand *o, struct origin origin)
{
    const unsigned lanes = s->w.lanes;

    for (unsigned k = 0; k < o->words; k++) {
        if (o->kind == OPERAND_VGPR) {
            const uint32_t *const row = vgpr(&s->w, o, 0) + k * lanes;
            uint32_t any = 0;
            for (unsigned l = 0; l < lanes; l++)
                any |= row[l];
            s->flags[o->reg + k] = any != 0;
            if (any)
                s->origins[o->reg + k] = origin;
        } else if (o->kind == OPERAND_SGPR && s->w.s[o->reg + k]) {
            s->scalar_origins[o->reg + k] = origin;
        }
    }
}

/* ---- Masks through vector instructions ------------------------------------------------------- */

static const uint32_t zeros[4 * 64] __attribute__((aligned(64)));

/* Makes an operand a defined one. */
static void make_defined(struct operand *o, bool scalar)
{
    o->kind = OPERAND_CONST;
    if (scalar || strchr("stTX", o->type))
        o->value = 0;
    else
        o->rows = zeros;
}

/* The instruction as it is run on masks: no arithmetic modifiers, constants fully defined. */
static struct insn on_masks(const struct insn *i, bool keep_constants, bool scalar)
{
    struct insn m = *i;

    m.omod = 0;
    m.flags &= (uint16_t)~(INSN_CLAMP | INSN_WRITES_EXEC);
    for (unsigned n = 0; n < 5; n++) {
        struct operand *const o = &m.op[n];
        o->mods &= MOD_SEXT | MOD_DST;
        if ((o->kind == OPERAND_CONST && !keep_constants) || (in_exec(o) && !(o->mods & MOD_DST)))
            make_defined(o, scalar);
    }
    return m;
}

static void follow_exec(struct wave *w)
{
    struct wave *const s = &w->shadow->w;

    s->full = w->full;
    memcpy(s->mask, w->mask, sizeof s->mask);
    s->s[S_EXEC] = w->s[S_EXEC];
    s->s[S_EXEC + 1] = w->s[S_EXEC + 1];
}

/* Rows for source() to fetch an instruction's operands into: each operand's mask and its value have
 * one of their own. source() fetches all lanes of a wave at its first half, and at the second hands
 * out the same rows: they must live, and must not be shared, until both halves are done. */
struct fetched {
    ROW masks[5][128], values[5][128];
};

/* All source masks of a lane together, in a row. */
static void any_row(struct wave *s, const struct insn *m, unsigned h, struct fetched *f,
                    uint32_t *r)
{
    memset(r, 0, 32 * sizeof *r);
    for (unsigned n = 1; n < 5; n++) {
        const struct operand *const o = &m->op[n];
        if (!o->kind || o->mods & MOD_DST)
            continue;
        const uint32_t *const p = source(s, m, n, h, f->masks[n]);
        const uint32_t relevant = o->type == 'h' || o->type == 'w' ? 0xffff : 0xffffffffu;
        for (unsigned k = 0; k < (o->type == 'm' ? 1 : o->words); k++)
            LANES r[l] |= p[l + k * s->lanes] & relevant;
    }
}

static void halves_row(struct wave *s, const struct insn *m, unsigned h, struct fetched *f,
                       uint32_t *r)
{
    memset(r, 0, 32 * sizeof *r);
    for (unsigned n = 1; n < 4; n++)
        if (m->op[n].kind && !(m->op[n].mods & MOD_DST)) {
            const uint32_t *const p = source(s, m, n, h, f->masks[n]);
            LANES r[l] |= p[l];
        }
    LANES r[l] = (r[l] & 0xffff ? 0xffff : 0) | (r[l] >> 16 ? 0xffff0000u : 0);
}

#define TWO_AND(ma, mb, a, b) (((ma) & ((mb) | (b))) | ((mb) & ((ma) | (a))))
#define TWO_OR(ma, mb, a, b)  (((ma) & ((mb) | ~(b))) | ((mb) & ((ma) | ~(a))))

/* Masks of the result in r (word k at r + 64 k), by the kind of the row. */
static void result_rows(struct wave *w, const struct insn *i, const struct insn *m,
                        enum undef_kind kind, unsigned h, struct fetched *f, uint32_t *r)
{
    struct wave *const s = &w->shadow->w;
    const unsigned lanes = w->lanes;
    const bool wide = i->op[0].words > 1;
    const uint32_t *mask[3] = {zeros, zeros, zeros}, *value[3] = {zeros, zeros, zeros};

    for (unsigned n = 0; n < 3; n++)
        if (i->op[n + 1].kind && !(i->op[n + 1].mods & MOD_DST)) {
            mask[n] = source(s, m, n + 1, h, f->masks[n + 1]);
            value[n] = source(w, i, n + 1, h, f->values[n + 1]);
        }
    for (unsigned k = 0; k < (wide ? 2 : 1); k++) {
        const uint32_t *const ma = mask[0] + k * lanes, *const mb = mask[1] + k * lanes;
        const uint32_t *const mc = mask[2] + (i->op[3].words > 1 ? k * lanes : 0);
        const uint32_t *const a = value[0] + k * lanes, *const b = value[1] + k * lanes;
        const uint32_t *const c = value[2] + (i->op[3].words > 1 ? k * lanes : 0);
        uint32_t *const to = r + 64 * k;
        switch (kind) {
        case UNDEF_BITS:
            LANES to[l] = ma[l] | mb[l] | mc[l];
            break;
        case UNDEF_AND:
            LANES to[l] = TWO_AND(ma[l], mb[l], a[l], b[l]);
            break;
        case UNDEF_OR:
            LANES
            {
                const uint32_t two = TWO_OR(ma[l], mb[l], a[l], b[l]);
                to[l] = TWO_OR(two, mc[l], a[l] | b[l], c[l]);
            }
            break;
        case UNDEF_AND_OR:
            LANES
            {
                const uint32_t two = TWO_AND(ma[l], mb[l], a[l], b[l]);
                to[l] = TWO_OR(two, mc[l], a[l] & b[l], c[l]);
            }
            break;
        case UNDEF_BITSEL:
            LANES to[l] = (ma[l] & (mb[l] | mc[l] | (b[l] ^ c[l]))) |
                          (~ma[l] & ((a[l] & mb[l]) | (~a[l] & mc[l])));
            break;
        case UNDEF_SELECT:
            LANES to[l] = mc[l] ? ma[l] | mb[l] | (a[l] ^ b[l]) : c[l] ? mb[l] : ma[l];
            break;
        case UNDEF_WORDS:
            LANES to[l] = ma[l] | mb[l] | mc[l] ? 0xffffffffu : 0;
            break;
        default:
            break;
        }
    }
}

static void carry_rows(const struct insn *i, struct wave *s, const struct insn *m, unsigned h,
                       struct fetched *f, uint32_t *r)
{
    ROW low[32], high[32];

    memset(low, 0, sizeof low);
    memset(high, 0, sizeof high);
    for (unsigned n = 1; n < 4; n++)
        if (m->op[n].kind && !(m->op[n].mods & MOD_DST)) {
            const uint32_t *const p = source(s, m, n, h, f->masks[n]);
            LANES low[l] |= p[l];
            if (m->op[n].words > 1 && m->op[n].type != 'm')
                LANES high[l] |= p[l + s->lanes];
        }
    LANES
    {
        const uint32_t up = low[l] | (0 - low[l]);
        r[l] = up;
        r[l + 64] = low[l] ? 0xffffffffu : high[l] | (0 - high[l]);
    }
    (void)i;
}

/* The selectors of v_perm_b32 for its masks, in the spare rows of operand `o`: those that make 0xff
 * make 0, which is defined. */
static void selectors(struct wave *w, const struct insn *i, struct operand *o, unsigned spare)
{
    struct wave *const s = &w->shadow->w;
    ROW temp[128];

    o->kind = OPERAND_VGPR;
    o->reg = (uint16_t)spare;
    o->offset = (uint64_t)spare * w->lanes * 4;
    for (unsigned h = 0; h < w->halves; h++) {
        const uint32_t *const real = source(w, i, 3, h, temp);
        uint32_t *const to = vgpr(s, o, h);
        LANES
        {
            uint32_t bytes = 0;
            for (unsigned n = 0; n < 32; n += 8) {
                const uint32_t select = real[l] >> n & 0xff;
                bytes |= (select > 12 ? 12 : select) << n;
            }
            to[l] = bytes;
        }
    }
}

/* Rows whose body moves bits: it is run on masks, with the operands that say where to as they are.
 */
static void move(struct wave *w, const struct insn *i, const struct sim_row *row, unsigned moved)
{
    struct wave *const s = &w->shadow->w;
    const unsigned lanes = w->lanes, spare = w->group->run->module->vgpr_limit + 1;
    struct insn m = on_masks(i, true, false);
    uint64_t lost[64] = {0}; /* lanes whose control is undefined */
    uint64_t any = 0;

    for (unsigned n = 1; n < 4; n++) {
        struct operand *const o = &m.op[n];
        const struct operand *const real = &i->op[n];
        if (!real->kind || real->mods & MOD_DST)
            continue;
        if (moved >> (n - 1) & 1) {
            if (o->kind == OPERAND_CONST)
                make_defined(o, false);
            continue;
        }
        o->mods = real->mods;
        if (real->kind == OPERAND_VGPR) {
            o->reg = (uint16_t)(spare + 2 * (n - 1));
            o->offset = (uint64_t)o->reg * lanes * 4;
            memcpy(vgpr(s, o, 0), vgpr(w, real, 0), (size_t)real->words * lanes * 4);
            for (unsigned k = 0; k < real->words; k++)
                for (unsigned l = 0; l < lanes; l++)
                    lost[l] |= vgpr(s, real, 0)[l + k * lanes] & w->mask[l];
        } else if (real->kind == OPERAND_SGPR) {
            o->reg = (uint16_t)(S_SPARE + 2 * (n - 1));
            o->kind = OPERAND_SGPR;
            for (unsigned k = 0; k < real->words && k < 2; k++) {
                s->s[o->reg + k] = w->s[real->reg + k];
                if (!in_exec(real) && s->s[real->reg + k])
                    memset(lost, 0xff, sizeof lost);
            }
        } else if (real->kind == OPERAND_CONST) {
            *o = *real;
        }
    }
    if (row->undef == UNDEF_PERM)
        selectors(w, i, &m.op[3], spare + 4);
    /* a source that is also EXEC or a constant is defined */
    m.body = row->body;
    m.body(s, &m);
    for (unsigned l = 0; l < lanes; l++)
        any |= lost[l];
    if (any && i->op[0].kind == OPERAND_VGPR)
        for (unsigned k = 0; k < i->op[0].words; k++)
            for (unsigned l = 0; l < lanes; l++)
                vgpr(s, &i->op[0], 0)[l + k * lanes] |= lost[l] ? w->mask[l] : 0;
    else if (any && i->op[0].kind == OPERAND_SGPR)
        for (unsigned k = 0; k < i->op[0].words; k++)
            s->s[i->op[0].reg + k] = 0xffffffffu;
}

/* A vector instruction of which a source or the old result has undefined bits. */
const struct insn *through_vector(struct wave *w, const struct insn *i, const struct sim_row *row)
{
    struct shadow_wave *const sw = w->shadow;
    struct wave *const s = &sw->w;
    const struct origin origin = first_origin(sw, i, false);
    uint64_t lanes_undefined = 0;

    follow_exec(w);
    if (row->undef >= UNDEF_MOVE_1 && row->undef <= UNDEF_PERM) {
        static const uint8_t moved[] = {1, 2, 3, 5, 3};
        move(w, i, row, moved[row->undef - UNDEF_MOVE_1]);
    } else {
        const struct insn m = on_masks(i, false, false);
        struct fetched f;
        for (unsigned h = 0; h < w->halves; h++) {
            ROW r[128], any[32];
            any_row(s, &m, h, &f, any);
            LANES lanes_undefined |= (uint64_t)(any[l] != 0) << (l + 32 * h);
            switch (row->undef) {
            case UNDEF_NONE:
                memset(r, 0, sizeof r);
                break;
            case UNDEF_ANY:
                LANES r[l] = r[l + 64] = any[l] ? 0xffffffffu : 0;
                break;
            case UNDEF_BYTE_0:
            case UNDEF_BYTE_1:
            case UNDEF_BYTE_2:
            case UNDEF_BYTE_3:
                LANES r[l] = any[l] >> 8 * (row->undef - UNDEF_BYTE_0) & 0xff ? 0xffffffffu : 0;
                break;
            case UNDEF_CARRY:
                carry_rows(i, s, &m, h, &f, r);
                break;
            case UNDEF_HALVES:
                halves_row(s, &m, h, &f, r);
                break;
            default:
                result_rows(w, i, &m, row->undef, h, &f, r);
                break;
            }
            if (i->op[0].kind == OPERAND_VGPR) {
                if (i->op[0].type == 'h' || i->op[0].type == 'w' || i->op[0].type == 'j' ||
                    i->op[0].type == 'J')
                    LANES r[l] &= 0xffff;
                commit(s, &m, h, r, (char)i->op[0].type);
                /* v_mqsad_u32_u8: all words of the result are as undefined as the first */
                struct insn further = m;
                for (unsigned k = 1; i->op[0].type == 'u' && k < i->op[0].words; k++) {
                    further.op[0].offset += (uint64_t)s->lanes * 4;
                    commit(s, &further, h, r, 'u');
                }
            }
        }
        lanes_undefined &= exec_bits(w);
        if (i->flags & INSN_WRITES_EXEC && lanes_undefined)
            return finding(w, i, __builtin_ctzll(lanes_undefined), &origin, 0xffffffffu, "EXEC");
        for (unsigned n = 0; n < 5; n += 4)
            if (i->op[n].mods & MOD_DST && i->op[n].kind == OPERAND_SGPR)
                set_lane_mask(s, &i->op[n], lanes_undefined);
    }
    for (unsigned n = 0; n < 5; n++)
        if (i->op[n].kind && i->op[n].mods & MOD_DST)
            note_result(sw, &i->op[n], origin);
    return i;
}

/* Moves between registers that M0 chooses: M0 must be defined, then they are like any move. */
const struct insn *through_index(struct wave *w, const struct insn *i, const struct sim_row *row)
{
    static const struct sim_row move_row = {.undef = UNDEF_BITS};
    static const uint8_t how[] = {INDEX_SOURCE, INDEX_RESULT, INDEX_SOURCE | INDEX_RESULT,
                                  INDEX_SOURCE | INDEX_RESULT | INDEX_APART};
    struct shadow_wave *const sw = w->shadow;
    struct insn m = *i;

    if (sw->w.s[S_M0])
        return finding(w, i, -1, &sw->scalar_origins[S_M0], sw->w.s[S_M0], "a register number");
    if (!index_operands(w, &m, i, how[row->undef - UNDEF_INDEX_SOURCE]))
        return NULL;
    if (suspect(sw, &m.op[0]) || suspect(sw, &m.op[1]))
        through_vector(w, &m, &move_row);
    return i;
}

/* ---- Masks through scalar instructions ------------------------------------------------------- */

static uint64_t scalar_mask(const struct wave *s, const struct operand *o)
{
    if (o->kind != OPERAND_SGPR || in_exec(o) || o->mods & MOD_DST)
        return 0;
    return s->s[o->reg] | (o->words > 1 ? (uint64_t)s->s[o->reg + 1] << 32 : 0);
}

/* The mask of a row of UNDEF_MOVE_*: its body, run on the masks ma and mb of its sources in place
 * of those that it moves. All bits where the other source, which says how far, has undefined
 * ones. */
static uint64_t move_masks(struct wave *w, const struct insn *i, const struct sim_row *row,
                           uint64_t ma, uint64_t mb)
{
    static const uint8_t moved[] = {1, 2, 3, 5};
    struct wave *const s = &w->shadow->w;
    struct insn m = on_masks(i, true, true);

    follow_exec(w);
    for (unsigned n = 1; n < 3; n++)
        if (!(moved[row->undef - UNDEF_MOVE_1] >> (n - 1) & 1)) {
            m.op[n] = i->op[n];
            if (i->op[n].kind == OPERAND_SGPR) {
                m.op[n].reg = (uint16_t)(S_SPARE + 2 * n);
                s->s[m.op[n].reg] = w->s[i->op[n].reg];
                s->s[m.op[n].reg + 1] = w->s[i->op[n].reg + 1];
            }
        } else if (m.op[n].kind == OPERAND_CONST) {
            m.op[n].value = 0;
        }
    /* into a spare register, which may be as wide as the destination */
    m.op[0].reg = S_SPARE + 6;
    m.body = row->body;
    m.body(s, &m);
    if ((row->undef == UNDEF_MOVE_1 && mb) || (row->undef == UNDEF_MOVE_2 && ma))
        return ~(uint64_t)0;
    return s->s[S_SPARE + 6] | (uint64_t)s->s[S_SPARE + 7] << 32;
}

const struct insn *through_scalar(struct wave *w, const struct insn *i, const struct sim_row *row)
{
    struct shadow_wave *const sw = w->shadow;
    struct wave *const s = &sw->w;
    const uint64_t ma = scalar_mask(s, &i->op[1]), mb = scalar_mask(s, &i->op[2]);
    const uint64_t mc = scalar_mask(s, &i->op[3]);
    const uint64_t a = scalar64(w, &i->op[1]), b = scalar64(w, &i->op[2]);
    const uint64_t all = ma | mb | mc;
    const bool scc = s->s[S_SCC], dst = i->op[0].mods & MOD_DST && i->op[0].kind == OPERAND_SGPR;
    const struct origin origin = first_origin(sw, i, scc);
    uint64_t r = all ? ~(uint64_t)0 : 0;
    bool new_scc = all != 0;

    switch (row->undef) {
    case UNDEF_NONE:
        r = 0;
        break;
    case UNDEF_BITS:
        r = ma | mb;
        break;
    case UNDEF_AND:
        r = TWO_AND(ma, mb, a, b);
        break;
    case UNDEF_AND_NOT:
        r = TWO_AND(ma, mb, a, ~b);
        break;
    case UNDEF_OR:
        r = TWO_OR(ma, mb, a, b);
        break;
    case UNDEF_CARRY:
        r = all | (0 - all);
        break;
    case UNDEF_SCC:
        r = scc               ? all | (row->writes_scc ? ~(uint64_t)0 : a ^ b)
            : row->writes_scc ? all | (0 - all)
            : w->s[S_SCC]     ? ma
                              : mb;
        new_scc = all || scc;
        break;
    case UNDEF_BIT:
        new_scc = mb || ma >> (b & (i->op[1].words > 1 ? 63 : 31)) & 1;
        break;
    case UNDEF_MOVE_1:
    case UNDEF_MOVE_2:
    case UNDEF_MOVE_12:
    case UNDEF_MOVE_13:
        r = move_masks(w, i, row, ma, mb);
        new_scc = r != 0;
        break;
    case UNDEF_EXEC: {
        /* only bits that the operation can let through; an and-type one lets none outside EXEC */
        const uint64_t e = exec_bits(w);
        const uint64_t reach = strstr(row->name, "s_and_saveexec") ? ma & e : ma;
        if (reach)
            return finding(w, i, __builtin_ctzll(reach), &origin, 0xffffffffu, "EXEC");
        r = 0;
        new_scc = false;
        break;
    }
    default:
        break;
    }
    if (i->op[0].words <= 1)
        r = (uint32_t)r;
    if (i->flags & INSN_WRITES_EXEC && row->undef != UNDEF_EXEC) {
        if (w->lanes == 32 && in_exec(&i->op[0]))
            r = (uint32_t)r;
        if (r)
            return finding(w, i, __builtin_ctzll(r), &origin, 0xffffffffu, "EXEC");
    } else if (dst) {
        s->s[i->op[0].reg] = (uint32_t)r;
        if (i->op[0].words > 1)
            s->s[i->op[0].reg + 1] = (uint32_t)(r >> 32);
        note_result(sw, &i->op[0], origin);
    }
    s->s[S_SCC] = row->writes_scc ? new_scc : scc;
    if (row->writes_scc && new_scc)
        sw->scalar_origins[S_SCC] = origin;
    return i;
}
