/* SPDX-License-Identifier: MIT */
/*
 * From LLVM's text of an instruction to struct insn; parse.h says how. This file is long because
 * the grammar's kinds of operand, constants and modifiers all fill the same structure, and a new
 * one has to be told from each of the others.
 */
#include "sim/decode/parse.h"
#include "sim/decode/text.h"
#include "sim/number/number.h"

#include <quern/tool.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- Operands -------------------------------------------------------------------------------- */

/* Rows of equal lanes for a constant: a pointer that stays valid as long as the pool. */
static const uint32_t *constant_rows(struct parser *p, uint64_t value, unsigned words, bool mask)
{
    const unsigned lanes = p->lanes;
    uint32_t *const rows = pool_take(&p->pool, (size_t)2 * lanes * sizeof *rows, 64);

    if (!rows) {
        p->failed = true;
        return NULL;
    }
    for (unsigned l = 0; l < lanes; l++) {
        rows[l] = mask ? 0u - (uint32_t)(value >> l & 1) : (uint32_t)value;
        rows[l + lanes] = words > 1 ? (uint32_t)(value >> 32) : 0;
    }
    return rows;
}

static uint32_t both_halves(uint32_t low)
{
    return (low & 0xffff) * 0x10001u;
}

/* The bits of a floating-point constant in the operand's type. Pairs of bf16 have the upper half of
 * an f32's in both halves, not rounded (captures: docs/sim.md). Integers that are 64 bits wide take
 * those of an f64, narrower ones, packed pairs too, those of an f32. */
static uint64_t float_bits(char type, double value)
{
    switch (type) {
    case 'h':
    case 'w':
    case 'p':
        return f32_to_f16((float)value);
    case 'b':
        return both_halves(bits_of_f32((float)value) >> 16);
    case 'd':
    case 'q':
    case 't':
        return bits_of_f64(value);
    default:
        return bits_of_f32((float)value);
    }
}

static unsigned words_of_type(const struct parser *p, char type)
{
    switch (type) {
    case 'd':
    case 'q':
    case 'r':
    case 't':
        return 2;
    case 'm':
    case 'e':
        return p->lanes / 32;
    case 'n':
        return 64 / p->lanes;
    case 'N':
        return 128 / p->lanes;
    case 'T':
        return 4;
    case 'o':
        return 8;
    case 'z':
        return 16;
    case 'Z':
        return 32;
    default:
        return 1;
    }
}

static bool scalar_type(char type)
{
    return strchr("stTXIme", type) != NULL;
}

static bool parse_constant(struct parser *p, const struct sim_row *row, const char *text, char type,
                           struct operand *o)
{
    const bool hex = strstr(text, "0x") != NULL, is_float = !hex && strchr(text, '.');
    const unsigned words = words_of_type(p, type);
    char *end;
    uint64_t value;

    if (is_float) {
        const double number = strtod(text, &end);
        value = float_bits(type, number);
        /* matrices of 16-bit floats have such a C in both halves */
        if (!strncmp(row->name, "v_wmma_f16_", 11))
            value = both_halves(f32_to_f16((float)number));
        else if (!strncmp(row->name, "v_wmma_bf16_", 12))
            value = float_bits('b', number);
    } else {
        value = *text == '-' ? 0 - strtoull(text + 1, &end, 0) : strtoull(text, &end, 0);
        /* a 32-bit literal is the high word of an f64, and is extended for integers */
        if (hex && type == 'd')
            value <<= 32;
        else if (hex && words == 2 && strstr(row->name, "_i64"))
            value = (uint64_t)(int64_t)(int32_t)value;
    }
    if (*end)
        return false;
    if (type == 'h' || type == 'w')
        value &= 0xffff;
    else if (type == 'b' && !hex)
        value = both_halves((uint32_t)value);
    o->kind = OPERAND_CONST;
    o->words = (uint8_t)words;
    o->number = is_float;
    if (row->class == QUERN_CLASS_SALU || row->class == QUERN_CLASS_SMEM ||
        row->class == QUERN_CLASS_BRANCH || row->scalar || (scalar_type(type) && type != 'm'))
        o->value = value;
    else
        o->rows = constant_rows(p, value, words, type == 'm');
    return true;
}

static bool set_register(struct parser *p, const struct sim_row *row, const struct text_register *r,
                         char type, bool wide, struct operand *o, struct parsed *parsed)
{
    unsigned words = type == 'D' || type == 'X' || type == 'a' || type == 'A' ? r->count
                     : wide                                                   ? o->words
                            : words_of_type(p, type);
    const bool mask = type == 'm' || type == 'e';

    o->words = (uint8_t)words;
    if (r->file == FILE_VGPR || r->file == FILE_AGPR) {
        const unsigned first = r->index + (r->file == FILE_AGPR ? p->agpr_offset : 0);
        /* the disassembler takes any wave for one of 32 lanes */
        if (mask || strchr("stTX", type) || (r->count != words && !strchr("nN", type)))
            return false;
        o->kind = OPERAND_VGPR;
        o->reg = (uint16_t)first;
        o->offset = (uint64_t)first * p->lanes * 4;
        /* of a matrix the text may say more registers than a wave of 64 uses: the body checks */
        const unsigned last = row->class == QUERN_CLASS_MATRIX ? first + 1 : first + words;
        if (last > parsed->vgprs)
            parsed->vgprs = last;
        return true;
    }
    /* the disassembler does not know the wave size, so of a lane mask only the first register
     * counts; 16-bit operands and the like may name a pair of which the low register is meant */
    if (!mask && r->count != words)
        return false;
    o->kind = OPERAND_SGPR;
    o->reg = (uint16_t)r->index;
    if (r->index + words > S_COUNT)
        return false;
    return true;
}

/* ttmp7 and the like hold what the hardware set up; writing them is the trap handler's. */
static bool parse_operand(struct parser *p, const struct sim_row *row, const char *text, char type,
                          bool dst, bool wide, struct operand *o, struct parsed *parsed)
{
    char body[64];
    struct text_register r;

    o->type = (uint8_t)type;
    if (!strcmp(text, "off") || !strcmp(text, "null")) {
        o->kind = OPERAND_NONE;
        o->reg = S_SINK;
        o->words = (uint8_t)words_of_type(p, type);
        if (!strcmp(text, "null") && !dst && type != 'a' && type != 'A')
            return parse_constant(p, row, "0", type, o);
        return true;
    }
    if (!text_strip_modifiers(text, body, sizeof body, &o->mods))
        return false;
    if (text_register(body, &r)) {
        if (r.half == 'h')
            o->select = SELECT_WORD_1;
        if (r.file == FILE_APERTURE) {
            o->kind = OPERAND_CONST;
            o->words = 2;
            const uint64_t value = (uint64_t)r.index << 32;
            if (row->class == QUERN_CLASS_SALU)
                o->value = value;
            else
                o->rows = constant_rows(p, words_of_type(p, type) == 2 ? value : r.index, 2, false);
            return true;
        }
        return set_register(p, row, &r, type, wide, o, parsed);
    }
    if (dst)
        return false;
    /* a sign in front of a number is part of it */
    if (o->mods & MOD_NEG && (isdigit((unsigned char)body[0]))) {
        char number[66] = "-";
        strcat(number, body);
        o->mods &= (uint8_t)~MOD_NEG;
        return parse_constant(p, row, number, type, o);
    }
    return parse_constant(p, row, body, type, o);
}

/* ---- Modifiers ------------------------------------------------------------------------------- */

static bool is_source(const struct operand *o)
{
    return o->type && strchr("fuihwdqpkbgr", o->type);
}

static bool half_type(char type)
{
    return type == 'h' || type == 'w';
}

/* op_sel picks halves of 16-bit operands: one bit for each source, then one for the destination. */
static void apply_op_sel(struct parser *p, struct insn *i, const struct text_modifiers *m,
                         unsigned sources)
{
    const unsigned unsaid = p->unsaid.op_sel;
    const unsigned op_sel =
        m->op_sel ? m->op_sel : (unsaid & ((1u << sources) - 1)) | unsaid >> 3 << sources;

    i->extra[1] = (uint8_t)op_sel;
    for (unsigned n = 0; n < sources && n < 3; n++) {
        struct operand *const o = &i->op[n + 1];
        const unsigned low = op_sel >> n & 1, high = m->op_sel_hi >> n & 1;
        if (o->type == 'p' || o->type == 'k' || o->type == 'b' || o->type == 'r') {
            const unsigned select = SELECT_PAIR + low + 2 * high;
            o->select = (uint8_t)(select == SELECT_PAIR_NATURAL ? SELECT_ALL : select);
            o->mods |= (uint8_t)((m->neg_lo >> n & 1 ? MOD_NEG : 0) |
                                 (m->neg_hi >> n & 1 ? MOD_NEG_HIGH : 0));
        } else if (o->type == 'g') {
            if (high && m->has_op_sel_hi && o->number && o->rows) /* the constant is a half */
                o->rows = constant_rows(p, bits_of_f32(f16_to_f32(f32_to_f16(f32_of(o->rows[0])))),
                                        1, false);
            else if (high && m->has_op_sel_hi)
                o->select = low ? SELECT_WORD_1 : SELECT_WORD_0;
        } else if (half_type((char)o->type) && low) {
            o->select = SELECT_WORD_1;
        }
    }
    if (half_type((char)i->op[0].type) && op_sel >> sources & 1)
        i->flags |= INSN_DST_HIGH;
}

static const uint8_t *dpp_lanes(struct parser *p, const struct text_modifiers *m)
{
    uint8_t *const lanes = pool_take(&p->pool, 64, 1);

    if (!lanes) {
        p->failed = true;
        return NULL;
    }
    for (unsigned l = 0; l < 64; l++)
        lanes[l] = (uint8_t)text_dpp_lane(m, l);
    return lanes;
}

static bool apply_modifiers(struct parser *p, const struct sim_row *row,
                            const struct text_modifiers *m, unsigned sources, struct insn *i)
{
    i->offset += m->offset;
    i->extra[0] = (uint8_t)(m->offset1 | m->neg_lo);
    if (row->class == QUERN_CLASS_MATRIX)
        i->extra[0] |= (uint8_t)(m->neg_hi << 4);
    i->extra[2] = (uint8_t)(m->cbsz | m->bitop3);
    i->extra[3] = (uint8_t)(m->abid | m->blgp << 4);
    i->omod = p->ieee ? 0 : m->omod;
    if (row->class == QUERN_CLASS_VMEM || row->class == QUERN_CLASS_LDS) {
        i->flags |=
            (m->glc ? INSN_RETURNS : 0) | (m->idxen ? INSN_IDXEN : 0) | (m->offen ? INSN_OFFEN : 0);
        if (i->op[1].kind == OPERAND_VGPR && i->op[1].words == 2)
            i->flags |= INSN_ADDRESS_64;
        return !m->gds;
    }
    apply_op_sel(p, i, m, sources);
    if (row->class == QUERN_CLASS_MATRIX)
        i->extra[1] |= (uint8_t)((m->op_sel_hi & 7) << 4); /* which byte of the scales */
    if (m->clamp)
        i->flags |= INSN_CLAMP;
    if (m->dpp) {
        i->flags |= INSN_DPP | (m->bound_ctrl ? INSN_BOUND_CTRL : 0) |
                    (m->fetch_inactive ? INSN_FETCH_INACTIVE : 0);
        i->write_rows = (uint8_t)(m->bank_mask | m->row_mask << 4);
        i->lanes = dpp_lanes(p, m);
    }
    if (m->sdwa) {
        i->flags |= INSN_SDWA;
        i->dst_select = m->dst_sel;
        i->dst_unused = m->dst_unused;
        i->op[1].select = m->src0_sel;
        i->op[2].select = m->src1_sel;
    }
    return true;
}

/*
 * What a 16-bit result does to the other half of its register: on newer targets it stays. On gfx9
 * most instructions clear it; those that are new there keep it (LLVM's zeroesHigh16BitsOfDest).
 */
static bool keeps_half(const struct parser *p, const struct sim_row *row, char type)
{
    static const char *const keeping[] = {
        "v_mad_f16",          "v_mad_u16",         "v_mad_i16",        "v_fma_f16",
        "v_div_fixup_f16",    "v_med3_f16",        "v_med3_i16",       "v_med3_u16",
        "v_min3_f16",         "v_min3_i16",        "v_min3_u16",       "v_max3_f16",
        "v_max3_i16",         "v_max3_u16",        "v_add_i16",        "v_sub_i16",
        "v_bitop3_b16",       "v_sat_pk_u8_i16",   "v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32",
        "v_cvt_norm_i16_f16", "v_cvt_norm_u16_f16"};

    if (p->keeps_halves || type == 'j' || type == 'J')
        return true;
    for (size_t n = 0; n < sizeof keeping / sizeof *keeping; n++) {
        const size_t length = strlen(keeping[n]);
        if (!strncmp(row->name, keeping[n], length) &&
            (!row->name[length] || !strcmp(row->name + length, "_clamp")))
            return true;
    }
    return !strncmp(row->name, "v_cvt_scalef32_", 15) || !strncmp(row->name, "v_cvt_sr_", 9);
}

/* Whether the fast path of a vector body will do. */
static void classify(struct insn *i)
{
    bool complex = i->omod || i->flags & (INSN_CLAMP | INSN_DPP | INSN_SDWA | INSN_DST_HIGH);
    bool simple = i->op[0].kind == OPERAND_VGPR;

    if (i->op[0].type == 'j' || i->op[0].type == 'J')
        complex = true;
    if (i->op[0].type == 'J')
        i->flags |= INSN_DST_HIGH;
    if (i->op[0].select == SELECT_WORD_1) { /* v0.h */
        i->flags |= INSN_DST_HIGH;
        complex = true;
    }
    for (unsigned n = 1; n < 5; n++) {
        const struct operand *const o = &i->op[n];
        if (o->mods & MOD_DST)
            continue;
        complex = complex || (is_source(o) && (o->mods || o->select != SELECT_ALL));
        simple = simple && o->kind != OPERAND_SGPR;
    }
    i->flags |= complex ? INSN_COMPLEX : simple ? INSN_SIMPLE : 0;
}

/* ---- One instruction ------------------------------------------------------------------------- */

/* How many operands of the text an operand list takes: least and most. */
static void count_operands(const char *list, unsigned *least, unsigned *most)
{
    *least = *most = 0;
    for (; *list && *list != '|'; list++) {
        const bool dst = *list == '=';
        list += dst;
        const char type = *list;
        if (type == '*') {
            *most = TEXT_OPERANDS_MAX;
            continue;
        }
        list += type == 'v' ? 2 : 1; /* now at the place */
        if (type == '+')
            continue;
        ++*most;
        if (type != 'e' && (type != 'm' || dst))
            ++*least;
    }
}

/* An operand that is no value: a branch's label, a 16-bit constant, the operands that
 * s_set_gpr_idx_on moves, a hardware register. False when the text is none of its kind. */
static bool fill_other(const struct parser *p, char type, const char *text, uint64_t offset,
                       struct insn *i, struct operand *o, struct parsed *parsed)
{
    static const char *const names[] = {"SRC0", "SRC1", "SRC2", "DST"};
    char *end;

    if (type == 'R')
        return text_hardware_register(text, &i->offset);
    if (type == 'L') {
        const int64_t to = quern_branch_target(text, offset);
        if (to == -1)
            return false;
        i->offset = (int32_t)to;
        parsed->branch = true;
        if (o == &i->op[1])
            o->value = p->guest + offset + 4;
        return true;
    }
    o->kind = OPERAND_CONST;
    o->type = 'I';
    if (type == 'I') {
        o->value = (uint64_t)(int64_t)(int16_t)strtol(text, &end, 0);
        return !*end;
    }
    for (unsigned n = 0; n < 4; n++)
        o->value |= (uint64_t)(strstr(text, names[n]) != NULL) << n;
    return !strncmp(text, "gpr_idx(", 8);
}

/* The text of a short encoding does not say that a register is an upper half, or number 128 and on.
 */
static void raise_register(const struct parser *p, struct operand *o, struct parsed *parsed)
{
    if (o->kind != OPERAND_VGPR)
        return;
    if (half_type((char)o->type)) {
        o->select = SELECT_WORD_1;
        return;
    }
    o->reg = (uint16_t)(o->reg + 128);
    o->offset = (uint64_t)o->reg * p->lanes * 4;
    if (o->reg + o->words > parsed->vgprs)
        parsed->vgprs = o->reg + o->words;
}

static bool fill_operands(struct parser *p, const struct sim_row *row, const char *list,
                          const struct text_insn *t, uint64_t offset, struct insn *i,
                          struct parsed *parsed, unsigned *sources)
{
    unsigned next = 0, least, most;

    count_operands(list, &least, &most);
    bool short_by_one = t->count < most;
    for (; *list && *list != '|'; list++) {
        const bool dst = *list == '=';
        if (dst)
            list++;
        if (*list == '*')
            return true;
        const char type = *list++;
        const unsigned width = type == 'v' ? (unsigned)(*list++ - '0') : 0;
        struct operand *const o = &i->op[*list - '0'];
        const unsigned place = (unsigned)(*list - '0');
        if (type == '+') {
            *o = i->op[0];
            o->mods &= (uint8_t)~MOD_DST;
            continue;
        }
        if (!dst && place >= 1 && place <= 3 && place > *sources)
            *sources = place;
        o->words = (uint8_t)width;
        if (type == 'e' && short_by_one) {
            *o = (struct operand){.type = 'e', .reg = S_SINK, .mods = MOD_DST};
            i->flags |= INSN_WRITES_EXEC;
            short_by_one = false;
            continue;
        }
        if (type == 'm' && !dst && short_by_one) {
            *o = (struct operand){
                .kind = OPERAND_SGPR, .type = 'm', .reg = S_VCC, .words = (uint8_t)(p->lanes / 32)};
            short_by_one = false;
            continue;
        }
        if (next == t->count)
            return false;
        const char *const text = t->operands[next++];
        if (type == 'e')
            i->flags |= INSN_WRITES_EXEC;
        if (strchr("LIGR", type) ? !fill_other(p, type, text, offset, i, o, parsed)
                                 : !parse_operand(p, row, text, type == 'v' ? 'u' : type, dst,
                                                  width != 0, o, parsed))
            return false;
        if (p->unsaid.high >> (place == 1 ? 1 : dst ? 0 : 2) & 1)
            raise_register(p, o, parsed);
        if (type == 'e' && p->unsaid.has_mask)
            o->reg = p->unsaid.mask;
        if (dst)
            o->mods |= MOD_DST;
        if (dst && o->kind == OPERAND_SGPR && o->reg <= S_EXEC + 1 && o->reg + o->words > S_EXEC)
            i->flags |= INSN_WRITES_EXEC;
    }
    return next == t->count;
}

static bool parse_one(struct parser *p, const char *text, uint64_t offset, struct insn *i,
                      const struct sim_row **found, struct parsed *parsed)
{
    struct text_insn t;
    unsigned sources = 0;

    if (!text_split(text, &t))
        return false;
    const struct sim_row *row = NULL;
    /* a load to LDS has an operand less than one to registers */
    if (t.modifiers.lds && strlen(t.mnemonic) + 4 < sizeof t.mnemonic)
        strcat(t.mnemonic, "_lds");
    if (t.modifiers.clamp) {
        /* saturating integer instructions are rows of their own */
        char name[sizeof t.mnemonic + 8];
        strcpy(name, t.mnemonic);
        text_strip_suffix(name);
        strcat(name, "_clamp");
        row = row_index_find(p->index, name);
        if (row)
            t.modifiers.clamp = false;
    }
    if (!row)
        row = row_index_find(p->index, t.mnemonic);
    if (!row && text_strip_suffix(t.mnemonic))
        row = row_index_find(p->index, t.mnemonic);
    if (!row)
        return false;
    /* The bit does not clamp the sum of the f32 dots to [0, 1]: ROCm's device library always sets
     * it, and kernels that use it (bitsandbytes' f16 ones) give right answers on RDNA 3 hardware.
     */
    if (!strncmp(row->name, "v_dot2_f32_", 11))
        t.modifiers.clamp = false;
    *found = row;
    i->pc = p->guest + offset + 4;
    for (const char *list = row->operands; list; list = strchr(list, '|')) {
        unsigned least, most;
        list += *list == '|';
        count_operands(list, &least, &most);
        if (t.count < least || t.count > most)
            continue;
        if (!fill_operands(p, row, list, &t, offset, i, parsed, &sources))
            return false;
        if (t.modifiers.clamp && strchr("uwkq", i->op[0].type))
            return false;
        if (!apply_modifiers(p, row, &t.modifiers, sources, i))
            return false;
        i->keeps_half = keeps_half(p, row, (char)i->op[0].type);
        if (!strchr("stTXmeI", i->op[0].type))
            classify(i);
        else
            for (unsigned n = 1; n < 4; n++)
                if (is_source(&i->op[n]) && (i->op[n].mods || i->op[n].select != SELECT_ALL ||
                                             i->flags & (INSN_DPP | INSN_SDWA)))
                    i->flags |= INSN_COMPLEX;
        i->body = row->body;
        return true;
    }
    return false;
}

static bool reads(const struct insn *i, const struct operand *written)
{
    for (unsigned n = 1; n < 5; n++)
        if (i->op[n].kind == OPERAND_VGPR && i->op[n].reg == written->reg)
            return true;
    return false;
}

static bool writes_vector(const struct insn *i)
{
    return i->op[0].kind == OPERAND_VGPR && i->op[0].mods & MOD_DST && i->op[0].words == 1;
}

/*
 * Both halves of a VOPD pair read their sources before either writes. They are run one after the
 * other, in the order in which neither reads what the other wrote; when each reads the other's
 * result, the first writes to a spare register, which a third instruction moves to its place.
 */
static void order_pair(struct parser *p, struct parsed *parsed)
{
    struct insn *const x = &parsed->insns[0], *const y = &parsed->insns[1];
    const bool y_reads_x = reads(y, &x->op[0]), x_reads_y = reads(x, &y->op[0]);

    parsed->count = 2;
    if (y_reads_x && !x_reads_y) {
        const struct insn swap = *x;
        const struct sim_row *const row = parsed->rows[0];
        *x = *y;
        *y = swap;
        parsed->rows[0] = parsed->rows[1];
        parsed->rows[1] = row;
    } else if (y_reads_x && x_reads_y) {
        struct insn *const move = &parsed->insns[2];
        const struct sim_row *const row = row_index_find(p->index, "v_mov_b32");
        *move = (struct insn){.body = row->body, .flags = INSN_SIMPLE | INSN_SECOND};
        move->op[0] = x->op[0];
        move->op[0].type = 'u';
        x->op[0].reg = (uint16_t)p->vgpr_limit;
        x->op[0].offset = (uint64_t)p->vgpr_limit * p->lanes * 4;
        move->op[1] = x->op[0];
        move->op[1].mods = 0;
        parsed->rows[2] = row;
        parsed->count = 3;
    }
    y->flags |= INSN_SECOND;
}

void parse_insn(struct parser *parser, const char *text, uint64_t offset, struct parsed *parsed)
{
    const char *const both = strstr(text, " :: ");

    *parsed = (struct parsed){.count = 1};
    if (both) {
        char first[TEXT_BYTES];
        const size_t n = (size_t)(both - text);
        if (n < sizeof first) {
            memcpy(first, text, n);
            first[n] = 0;
            if (parse_one(parser, first, offset, &parsed->insns[0], &parsed->rows[0], parsed) &&
                parse_one(parser, both + 4, offset, &parsed->insns[1], &parsed->rows[1], parsed) &&
                writes_vector(&parsed->insns[0]) && writes_vector(&parsed->insns[1])) {
                order_pair(parser, parsed);
                return;
            }
        }
    } else if (parse_one(parser, text, offset, &parsed->insns[0], &parsed->rows[0], parsed)) {
        return;
    }
    *parsed = (struct parsed){.count = 1, .insns[0].body = parser->bodies->unknown};
}
