/* SPDX-License-Identifier: MIT */
/* What is known of instructions whose results come late before they run: see late.h. */
#include "sim/check/late.h"

#include "base/os.h"
#include "sim/check/shadow.h"
#include "sim/launch.h"
#include "target/rates.h"

#include <stdlib.h>
#include <string.h>

/* ---- The rules ------------------------------------------------------------------------------- */

#define MFMA          (LATE_XDL | LATE_SGEMM | DGEMM)
#define DGEMM         (LATE_DGEMM_4 | LATE_DGEMM_16)
#define MEMORY        (LATE_VMEM | LATE_LDS)
#define EACH(n)       {n, n, n, n}
#define GFX9(a, b, c) {EACH(a), EACH(b), EACH(c)}
#define RDNA(n11, n115, n12)                                                                       \
    {[LATE_GFX11_0] = EACH(n11), [LATE_GFX11_5] = EACH(n115), [LATE_GFX12] = EACH(n12)}
#define RDNA_VECTOR (LATE_VALU | LATE_WMMA)

/* Of gfx90a, gfx942 and gfx950, by 2, 4, 8 and 16 passes of four cycles where the first is a matrix
 * instruction. */
const struct late_rule late_rules[] = {
    {"a matrix result, as a factor",
     LATE_XDL,
     MFMA,
     0,
     LATE_AS_FACTOR,
     LATE_ANY,
     {{5, 5, 11, 19}, {5, 7, 11, 19}, {5, 8, 12, 20}}},
    {"a matrix result, as a factor",
     LATE_SGEMM,
     MFMA,
     0,
     LATE_AS_FACTOR,
     LATE_ANY,
     {EACH(0), {4, 6, 10, 18}, {4, 6, 10, 18}}},
    {"a matrix result, as a factor", LATE_DGEMM_4, MFMA, 0, LATE_AS_FACTOR, LATE_ANY,
     GFX9(6, 6, 6)},
    {"a matrix result, as a factor", LATE_DGEMM_16, MFMA, 0, LATE_AS_FACTOR, LATE_ANY,
     GFX9(11, 11, 19)},
    {"part of a matrix result, as an addend",
     LATE_XDL,
     LATE_XDL,
     0,
     LATE_AS_ADDEND,
     LATE_ANY,
     {{2, 4, 8, 16}, {3, 5, 9, 17}, {4, 6, 10, 18}}},
    {"part of a matrix result, as an addend",
     LATE_XDL,
     LATE_SGEMM | DGEMM,
     0,
     LATE_AS_ADDEND,
     LATE_ANY,
     {{3, 5, 9, 17}, {3, 5, 9, 17}, {3, 6, 10, 18}}},
    {"part of a matrix result, as an addend",
     LATE_SGEMM,
     LATE_SGEMM,
     0,
     LATE_AS_ADDEND,
     LATE_ANY,
     {EACH(0), {2, 4, 8, 16}, {2, 4, 8, 16}}},
    {"part of a matrix result, as an addend", LATE_DGEMM_4, DGEMM, 0, LATE_AS_ADDEND, LATE_ANY,
     GFX9(4, 4, 4)},
    {"a matrix result of f64, as an addend", LATE_DGEMM_4, DGEMM, 0, LATE_AS_SAME, LATE_ANY,
     GFX9(4, 4, 4)},
    {"part of a matrix result, as an addend", LATE_DGEMM_16, DGEMM, 0, LATE_AS_ADDEND, LATE_ANY,
     GFX9(9, 9, 17)},
    {"part of a matrix result, as an addend", LATE_DGEMM_4, LATE_XDL | LATE_SGEMM, 0,
     LATE_AS_ADDEND, LATE_ANY, GFX9(0, 4, 4)},
    {"part of a matrix result, as an addend", LATE_DGEMM_16, LATE_XDL | LATE_SGEMM, 0,
     LATE_AS_ADDEND, LATE_ANY, GFX9(0, 9, 17)},
    {"a matrix result of two passes, as an addend",
     LATE_XDL | LATE_SGEMM,
     LATE_XDL | LATE_SGEMM,
     0,
     LATE_AS_SAME,
     LATE_ANY,
     {EACH(0), {2, 0, 0, 0}, {2, 0, 0, 0}}},
    {"a matrix result",
     LATE_XDL,
     LATE_VALU | MEMORY,
     0,
     LATE_TOUCHED,
     LATE_ANY,
     {{5, 5, 11, 19}, {5, 7, 11, 19}, {5, 8, 12, 20}}},
    {"a matrix result",
     LATE_SGEMM,
     LATE_VALU | MEMORY,
     0,
     LATE_TOUCHED,
     LATE_ANY,
     {EACH(0), {4, 6, 10, 18}, {4, 6, 10, 18}}},
    {"a matrix result", LATE_DGEMM_4, LATE_VALU, 0, LATE_TOUCHED, LATE_ANY, GFX9(6, 6, 6)},
    {"a matrix result", LATE_DGEMM_4, MEMORY, 0, LATE_TOUCHED, LATE_ANY, GFX9(9, 9, 9)},
    {"a matrix result", LATE_DGEMM_16, LATE_VALU, 0, LATE_TOUCHED, LATE_ANY, GFX9(11, 11, 19)},
    {"a matrix result", LATE_DGEMM_16, MEMORY, 0, LATE_TOUCHED, LATE_ANY, GFX9(18, 18, 18)},
    {"what a matrix instruction still adds to",
     LATE_XDL,
     LATE_VALU,
     0,
     LATE_ADDEND_LOST,
     LATE_ANY,
     {{1, 3, 7, 15}, {1, 3, 7, 15}, {1, 3, 7, 15}}},
    /* one between the two has the matrix pipe for as long, and the second waits for the pipe */
    {"a vector result, in a matrix instruction", LATE_VALU, MFMA, 0, LATE_READ, LATE_VECTOR,
     GFX9(2, 2, 2), .ends = MFMA},
    {"EXEC, of a vector comparison", LATE_VALU, MFMA, 0, LATE_REGARDLESS, LATE_EXEC, GFX9(4, 4, 4)},
    {"EXEC, of a vector comparison", LATE_VALU, LATE_DPP, 0, LATE_REGARDLESS, LATE_EXEC,
     GFX9(5, 5, 5)},
    {"EXEC, of a vector comparison", LATE_VALU, LATE_LANE_READ | LATE_LANE_NUMBER | LATE_PERMLANE,
     0, LATE_REGARDLESS, LATE_EXEC, GFX9(0, 4, 4)},
    {"a dot product", LATE_DOT, LATE_VALU | MFMA | MEMORY, 0, LATE_NOT_SUMMED, LATE_VECTOR,
     GFX9(3, 3, 3)},
    {"a scalar register of the vector ALU, in an address", LATE_VALU, LATE_VMEM, 0, LATE_READ,
     LATE_SCALAR, GFX9(5, 5, 5)},
    {"a vector result, of other lanes", LATE_VALU, LATE_DPP, 0, LATE_READ, LATE_VECTOR,
     GFX9(2, 2, 2)},
    {"VCC of the vector ALU, in v_div_fmas", LATE_VALU, LATE_DIV_FMAS, 0, LATE_READ, LATE_VCC,
     GFX9(4, 4, 4)},
    {"a scalar register of the vector ALU, as a lane", LATE_VALU, LATE_LANE_NUMBER, 0, LATE_LANE,
     LATE_SCALAR, GFX9(4, 4, 4)},
    {"a vector result, of one lane", LATE_VALU, LATE_LANE_READ, 0, LATE_READ, LATE_VECTOR,
     GFX9(0, 1, 1)},
    {"a scalar register of the vector ALU", LATE_VALU, LATE_VALU, LATE_DIV_FMAS, LATE_READ,
     LATE_SCALAR, GFX9(0, 2, 2)},
    {"a transcendental result", LATE_TRANS, LATE_VALU, LATE_TRANS, LATE_READ, LATE_VECTOR,
     GFX9(0, 1, 1)},
    {"part of a register", LATE_PARTIAL, LATE_VALU, 0, LATE_TOUCHED, LATE_VECTOR, GFX9(0, 1, 1)},
    {"a vector result, exchanged between lanes", LATE_VALU, LATE_PERMLANE, 0, LATE_READ,
     LATE_VECTOR, GFX9(0, 0, 2)},
    {"data of a wide store", LATE_WIDE_STORE, LATE_VALU | MFMA, 0, LATE_DATA_LOST, LATE_VECTOR,
     GFX9(1, 2, 2)},
    {"a matrix result of f64, before v_fma_f64", DGEMM, LATE_FMA_F64, 0, LATE_REGARDLESS, LATE_ANY,
     GFX9(2, 2, 2)},
    {"M0", LATE_SALU, LATE_USES_M0, 0, LATE_REGARDLESS, LATE_M0, GFX9(1, 1, 1)},
    {"a vector result, behind a matrix instruction of f64", LATE_VALU, MEMORY, 0, LATE_READ,
     LATE_VECTOR, GFX9(2, 0, 0), .behind = DGEMM},
    /* gfx11 and gfx12: vector instructions count, not wait states */
    {"a matrix result, as a factor", LATE_WMMA, LATE_WMMA, 0, LATE_AS_FACTOR, LATE_VECTOR,
     RDNA(1, 1, 1), .counted = RDNA_VECTOR | LATE_VECTOR_NOP},
    {"a transcendental result", LATE_TRANS, RDNA_VECTOR, 0, LATE_READ, LATE_VECTOR, RDNA(6, 0, 0),
     .counted = RDNA_VECTOR | LATE_VECTOR_NOP, .ends = MEMORY | LATE_VALU_DONE,
     .two_of = LATE_TRANS},
    {"EXEC, of v_cmpx", LATE_VALU, LATE_PERMLANE, 0, LATE_REGARDLESS, LATE_EXEC, RDNA(1, 1, 1),
     .counted = RDNA_VECTOR},
    {"vector results around a write of EXEC", LATE_SALU, RDNA_VECTOR, 0, LATE_AROUND, LATE_EXEC,
     RDNA(8, 8, 0), .counted = RDNA_VECTOR | LATE_VECTOR_NOP, .ends = MEMORY | LATE_VALU_DONE},
};
enum { RULES = sizeof late_rules / sizeof *late_rules };
_Static_assert(RULES <= 64, "rules are bits");

/* The columns. */
static enum late_place place_of(const struct target *t)
{
    if (t->capabilities & CAP_MFMA)
        return t->capabilities & CAP_MFMA_WIDE_K ? LATE_GFX950
               : t->capabilities & CAP_MFMA_FP8  ? LATE_GFX942
                                                 : LATE_GFX90A;
    return t->capabilities & CAP_SPLIT_BARRIER ? LATE_GFX12
           : t->trans_races                    ? LATE_GFX11_0
                                               : LATE_GFX11_5;
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

static bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

static uint32_t kinds_of_matrix(const struct target *t, const char *name)
{
    const size_t n = strlen(name);

    if (begins(name, "v_wmma") || begins(name, "v_swmmac"))
        return LATE_WMMA;
    if (begins(name, "v_mfma_f64"))
        return strstr(name, "4x4x4") ? LATE_DGEMM_4 : LATE_DGEMM_16;
    /* of gfx90a f32 has the pipe of the others */
    const bool f32 = !strcmp(name + n - 3, "f32") && name[n - 4] != 'x';
    return f32 && t->capabilities & CAP_MFMA_FP8 ? LATE_SGEMM : LATE_XDL;
}

static uint32_t kinds_of_vector(const struct sim_row *row, const struct insn *i, const char *text)
{
    static const struct {
        const char *begin;
        uint32_t kinds;
    } named[] = {{"v_dot", LATE_DOT},
                 {"v_readlane_b32", LATE_LANE_READ | LATE_LANE_NUMBER},
                 {"v_readfirstlane_b32", LATE_LANE_READ},
                 {"v_writelane_b32", LATE_LANE_NUMBER},
                 {"v_div_fmas", LATE_DIV_FMAS},
                 {"v_permlane", LATE_PERMLANE},
                 {"v_movrel", LATE_USES_M0},
                 {"v_fma_f64", LATE_FMA_F64},
                 {"v_fmac_f64", LATE_FMA_F64}};
    const char *const name = row->name;
    uint32_t kinds = LATE_VALU;

    for (size_t n = 0; n < sizeof named / sizeof *named; n++)
        kinds |= begins(name, named[n].begin) ? named[n].kinds : 0;
    kinds |= row->class == QUERN_CLASS_TRANS ? LATE_TRANS : 0;
    kinds |= i->flags & INSN_DPP ? LATE_DPP : 0;
    kinds |= strstr(text, " 0x") ? LATE_LITERAL : 0; /* inline constants are decimal */
    for (unsigned n = 1; n < 6; n++)
        kinds |= i->op[n].type == 'm' && !(i->op[n].mods & MOD_DST) ? LATE_LANE_MASK : 0;
    if ((i->flags & INSN_SDWA && i->dst_select != SELECT_ALL) || i->flags & INSN_DST_HIGH ||
        (strstr(text, "op_sel:[") && !begins(name, "v_pk_") && i->extra[1] & 8))
        kinds |= LATE_PARTIAL;
    return kinds;
}

/* Registers of the data that a store takes. */
static unsigned words_stored(const struct insn *i)
{
    return i->op[0].kind == OPERAND_VGPR && !(i->op[0].mods & MOD_DST) ? i->op[0].words
           : i->op[3].kind == OPERAND_VGPR                             ? i->op[3].words
                                                                       : 0;
}

static uint32_t kinds_of(const struct target *t, const struct sim_row *row, const struct insn *i,
                         const char *text)
{
    const char *const name = row->name;

    switch (row->class) {
    case QUERN_CLASS_VALU:
    case QUERN_CLASS_PACKED:
    case QUERN_CLASS_TRANS:
        return kinds_of_vector(row, i, text);
    case QUERN_CLASS_MATRIX:
        return kinds_of_matrix(t, name);
    case QUERN_CLASS_SALU:
        return LATE_SALU | (begins(name, "s_sendmsg") ? LATE_USES_M0 : 0);
    case QUERN_CLASS_SMEM:
        return LATE_BRINGS;
    case QUERN_CLASS_VMEM:
        return LATE_VMEM | (words_stored(i) > 2 ? LATE_WIDE_STORE : 0) |
               (strstr(name, "lds") ? LATE_USES_M0 : 0) | (*name == 'b' ? LATE_BRINGS : 0);
    case QUERN_CLASS_LDS:
        return begins(name, "ds_nop")     ? LATE_LDS_PAUSE
               : strstr(name, "_addtid_") ? LATE_LDS | LATE_USES_M0
                                          : LATE_LDS;
    default:
        return begins(name, "v_nop") ? LATE_VECTOR_NOP : 0;
    }
}

/* ---- Registers ------------------------------------------------------------------------------- */

static void name_registers(struct late_insn *l, const struct insn *i)
{
    for (unsigned n = 0; n < 6; n++)
        for (unsigned k = 0; k < i->op[n].words; k++) {
            const unsigned reg = i->op[n].reg + k;
            if (i->op[n].kind == OPERAND_VGPR)
                l->vectors |= (uint64_t)1 << reg % 64;
            else if (i->op[n].kind == OPERAND_SGPR && reg < 128)
                (i->op[n].mods & MOD_DST ? l->writes : l->reads)[reg / 64] |= (uint64_t)1
                                                                              << reg % 64;
        }
    if (i->flags & INSN_WRITES_EXEC)
        l->writes[1] |= (uint64_t)3 << (S_EXEC - 64);
}

/* Whether an instruction writes a register that a rule is about. */
static bool writes_such(const struct late_rule *r, const struct late_insn *l, const struct insn *i)
{
    const uint64_t exec = (uint64_t)3 << (S_EXEC - 64), vcc = (uint64_t)3 << (S_VCC - 64);

    switch (r->registers) {
    case LATE_VECTOR:
        return r->meeting == LATE_DATA_LOST || (i->op[0].kind == OPERAND_VGPR);
    case LATE_SCALAR:
        return l->writes[0] || l->writes[1] & ~exec;
    case LATE_EXEC:
        return l->writes[1] & exec;
    case LATE_VCC:
        return l->writes[1] & vcc;
    case LATE_M0:
        return l->writes[1] >> (S_M0 - 64) & 1;
    default:
        return true;
    }
}

/* ---- Counters -------------------------------------------------------------------------------- */

enum operation { MEMORY_OPERATION = 1, LDS_OPERATION, SCALAR_OPERATION, FLAT_OPERATION };

static void read_counters(struct late_insn *l, const struct target *t, const struct sim_row *row,
                          const struct insn *i)
{
    const uint8_t scalars = t->capabilities & CAP_SPLIT_BARRIER ? LATE_SCALARS : LATE_LDS_OPS;
    const bool flat = begins(row->name, "flat_");
    const bool writes = i->op[0].kind != OPERAND_NONE && i->op[0].mods & MOD_DST;

    l->ordered = true;
    if (row->class == QUERN_CLASS_SMEM || begins(row->name, "s_sendmsg_rtn")) {
        l->raises = writes ? (uint8_t)(1 << scalars) : 0;
        l->operation = SCALAR_OPERATION;
        l->ordered = false;
        l->loads = writes;
    } else if (l->kinds & LATE_LDS) {
        l->raises = 1 << LATE_LDS_OPS;
        l->operation = LDS_OPERATION;
        l->loads = writes;
    } else if (l->kinds & LATE_VMEM) {
        const bool to_lds = strstr(row->name, "lds") != NULL;
        l->loads = writes || (i->flags & INSN_RETURNS && i->op[0].kind == OPERAND_VGPR &&
                              strstr(row->name, "_atomic_"));
        l->operation = MEMORY_OPERATION;
        if (i->op[1].kind || i->op[0].kind)
            l->raises = (uint8_t)(1 << (l->loads || to_lds || !t->store_counter ? LATE_LOADS
                                                                                : LATE_STORES));
        if (flat) {
            l->raises |= 1 << LATE_LDS_OPS;
            l->operation = t->store_counter ? MEMORY_OPERATION : FLAT_OPERATION;
            l->ordered = t->store_counter;
        }
    }
}

static uint8_t named(const char *text, const char *name, uint8_t otherwise)
{
    const char *const at = strstr(text, name);

    return at ? (uint8_t)strtoul(at + strlen(name), NULL, 0) : otherwise;
}

/* The fields of s_waitcnt, by name or in a number. */
static void read_waitcnt(struct late_insn *l, const struct target *t, const char *text)
{
    const unsigned n = (unsigned)strtoul(text + strcspn(text, " "), NULL, 0);

    if (strchr(text, '(')) {
        l->waits[LATE_LOADS] = named(text, "vmcnt(", LATE_NO_WAIT);
        l->waits[LATE_LDS_OPS] = named(text, "lgkmcnt(", LATE_NO_WAIT);
    } else if (t->capabilities & CAP_MFMA) {
        l->waits[LATE_LOADS] = (uint8_t)((n & 15) | (n >> 14 & 3) << 4);
        l->waits[LATE_LDS_OPS] = n >> 8 & 15;
    } else {
        l->waits[LATE_LOADS] = n >> 10 & 63;
        l->waits[LATE_LDS_OPS] = n >> 4 & 63;
    }
}

static void read_alu_wait(struct late_insn *l, const char *text)
{
    const unsigned n = (unsigned)strtoul(text + strcspn(text, " "), NULL, 0);
    const bool words = strchr(text, '(');

    if (words ? strstr(text, "va_vdst(0)") != NULL : !(n & 0xf000))
        l->kinds |= LATE_VALU_DONE;
    if (words ? strstr(text, "va_sdst(0)") != NULL : !(n & 0x0e00))
        l->alu_waits |= LATE_OF_VALU;
    if (words ? strstr(text, "va_vcc(0)") != NULL : !(n & 2))
        l->alu_waits |= LATE_OF_VALU_VCC;
    if (words ? strstr(text, "sa_sdst(0)") != NULL : !(n & 1))
        l->alu_waits |= LATE_OF_SALU;
}

static void read_wait(struct late_insn *l, const struct target *t, const char *name,
                      const char *text)
{
    static const struct {
        const char *name;
        int8_t counter, and; /* `and` has the bits from the eighth on */
    } alone[] = {{"s_waitcnt_vmcnt", LATE_LOADS, -1},
                 {"s_waitcnt_vscnt", LATE_STORES, -1},
                 {"s_waitcnt_lgkmcnt", LATE_LDS_OPS, -1},
                 {"s_wait_loadcnt", LATE_LOADS, -1},
                 {"s_wait_storecnt", LATE_STORES, -1},
                 {"s_wait_dscnt", LATE_LDS_OPS, -1},
                 {"s_wait_kmcnt", LATE_SCALARS, -1},
                 {"s_wait_loadcnt_dscnt", LATE_LDS_OPS, LATE_LOADS},
                 {"s_wait_storecnt_dscnt", LATE_LDS_OPS, LATE_STORES}};
    const char *const last = strrchr(text, ' ');
    const unsigned n = last ? (unsigned)strtoul(last, NULL, 0) : 0;

    if (!strcmp(name, "s_nop"))
        l->states = (uint8_t)(1 + (n & 15));
    if (!strcmp(name, "s_wait_idle")) {
        memset(l->waits, 0, sizeof l->waits);
        l->alu_waits = LATE_OF_VALU | LATE_OF_VALU_VCC | LATE_OF_SALU;
        l->kinds |= LATE_VALU_DONE;
    }
    if (!strcmp(name, "s_waitcnt"))
        read_waitcnt(l, t, text);
    if (!strcmp(name, "s_waitcnt_depctr") || !strcmp(name, "s_wait_alu"))
        read_alu_wait(l, text);
    for (size_t k = 0; k < sizeof alone / sizeof *alone; k++)
        if (!strcmp(name, alone[k].name)) {
            l->waits[alone[k].counter] = alone[k].and < 0 ? (uint8_t)n : n & 63;
            if (alone[k].and >= 0)
                l->waits[alone[k].and ] = n >> 8 & 63;
        }
}

/* ---- All of a module ------------------------------------------------------------------------- */

static void read_one(struct late_insn *l, const struct target *t, const struct insn_note *note,
                     const struct insn *i)
{
    const enum late_place place = place_of(t);
    const struct sim_row *const row = note->row;

    *l = (struct late_insn){.states = !(i->flags & INSN_SECOND)};
    memset(l->waits, LATE_NO_WAIT, sizeof l->waits);
    if (!row)
        return;
    l->kinds = kinds_of(t, row, i, note->text);
    name_registers(l, i);
    if (l->kinds & MFMA) {
        const unsigned passes = target_matrix_cycles(t, note->text) / 4;
        l->passes = passes && passes <= 2 ? 0 : passes && passes <= 4 ? 1 : passes == 8 ? 2 : 3;
    }
    read_counters(l, t, row, i);
    if (row->class == QUERN_CLASS_WAIT)
        read_wait(l, t, row->name, note->text);
    for (unsigned r = 0; r < RULES; r++) {
        const struct late_rule *const rule = &late_rules[r];
        const uint64_t bit = (uint64_t)1 << r;
        if (l->kinds & rule->first && rule->states[place][l->passes] && writes_such(rule, l, i))
            l->first |= bit;
        if (l->kinds & rule->second && !(l->kinds & rule->not_second))
            l->second |= bit;
    }
    const bool waits = memcmp(l->waits, (uint8_t[]){255, 255, 255, 255}, sizeof l->waits) != 0;
    const bool scalars = l->reads[0] || l->reads[1] || l->writes[0] || l->writes[1];
    l->acts = l->raises || waits || l->alu_waits ||
              (place >= LATE_GFX11_0 &&
               (scalars || l->kinds & (LATE_BRINGS | LATE_LDS_PAUSE | LATE_LITERAL)));
}

bool late_read(struct quern_sim_module *m)
{
    m->late_place = place_of(m->sim->target);
    m->late_rules = late_rules;
    m->late = os.malloc((m->insn_count + 1) * sizeof *m->late);
    for (size_t n = 0; m->late && n < m->insn_count; n++)
        read_one(&m->late[n], m->sim->target, &m->notes[n], &m->insns[n]);
    return m->late != NULL;
}

void late_start_wave(struct late_wave *l)
{
    l->issued = l->pauses = l->lds_next = l->lds_noted = l->poisoned_count = 0;
    l->live = l->vectors = l->spoils = 0;
    memset(l->scalars, 0, sizeof l->scalars);
    memset(l->kept, 0, sizeof l->kept);
    memset(l->by_valu, 0, sizeof l->by_valu);
    memset(l->by_salu, 0, sizeof l->by_salu);
    for (unsigned c = 0; c < LATE_COUNTERS; c++)
        l->queue[c].first = l->queue[c].count = 0;
}

/* ---- LDS at barriers ------------------------------------------------------------------------- */

/* What each wave has stored and not waited for, marked for the others. */
void late_barrier(struct group *g)
{
    struct shadow_group *const sg = g->shadow;

    if (sg->lds_late)
        memset(sg->lds_writer, 0, g->lds_bytes);
    sg->lds_late = false;
    for (unsigned n = 0; n < g->wave_count; n++) {
        const struct late_wave *const l = sg->waves[n].late;
        for (unsigned c = 0; c < LATE_COUNTERS; c++)
            for (unsigned k = 0; k < l->queue[c].count; k++) {
                const struct late_operation *const o =
                    &l->queue[c].of[(l->queue[c].first + k) % LATE_QUEUE];
                for (unsigned part = 0; part < o->lds_count; part++)
                    shadow_mark_lds(sg, &l->lds[(o->lds + part) % LATE_SLOTS], (uint8_t)(n + 1));
            }
    }
}
