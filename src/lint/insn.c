/* SPDX-License-Identifier: MIT */
/* Reading instructions for the scan (insn.h): what each kind of mnemonic reads and writes. */
#include "lint/insn.h"

#include "sim/decode/text.h"
#include "sim/wave.h"
#include "target/rates.h"

#include <quern/tool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Whether a mnemonic begins with any of the words of a list "a|b|c". */
static bool begins_any(const char *text, const char *list)
{
    for (const char *word = list; *word;) {
        const size_t n = strcspn(word, "|");
        if (!strncmp(text, word, n))
            return true;
        word += n + (word[n] == '|');
    }
    return false;
}

static void add_def(struct lint_insn *i, struct lint_range r)
{
    if (r.count && i->def_count < LINT_DEFS)
        i->defs[i->def_count++] = r;
}

static void add_use(struct lint_insn *i, struct lint_range r)
{
    if (r.count && i->use_count < LINT_USES)
        i->uses[i->use_count++] = r;
}

/* The registers that an operand names; count 0 where it is a number or a word. */
static struct lint_range range_of(const char *operand)
{
    struct text_register r;
    char body[64];
    uint8_t mods = 0;

    if (!text_strip_modifiers(operand, body, sizeof body, &mods) || !text_register(body, &r) ||
        r.file == FILE_APERTURE)
        return (struct lint_range){0};
    const unsigned base = r.file == FILE_VGPR   ? LINT_VGPR
                          : r.file == FILE_AGPR ? LINT_AGPR
                                                : LINT_SGPR;
    if (r.file == FILE_SGPR && r.index + r.count > LINT_VGPR)
        return (struct lint_range){0};
    return (struct lint_range){(uint16_t)(base + r.index), (uint16_t)r.count};
}

/* The first `defs` operands are written, the others read. */
static void take_operands(struct lint_insn *i, const struct text_insn *t, unsigned defs)
{
    for (unsigned n = 0; n < t->count; n++) {
        const struct lint_range r = range_of(t->operands[n]);
        if (n < defs)
            add_def(i, r);
        else
            add_use(i, r);
    }
}

/* ---- Vector ALU ------------------------------------------------------------------------------ */

static const char transcendental[] = "v_exp_|v_log_|v_rcp_|v_rsq_|v_sqrt_|v_sin_|v_cos_|v_s_exp_|"
                                     "v_s_log_|v_s_rcp_|v_s_rsq_|v_s_sqrt_|v_tanh_|v_prng_";
/* Results beside the first: a mask of carries, or which operands v_div_fmas must scale. */
static const char two_results[] =
    "v_add_co_|v_addc_co_|v_sub_co_|v_subb_co_|v_subrev_co_|v_subbrev_co_|v_div_scale_|"
    "v_mad_u64_u32|v_mad_i64_i32|v_mad_co_|v_add_co_ci_|v_sub_co_ci_|v_subrev_co_ci_";
/* Instructions that choose or add by a mask with a bit for each lane. */
static const char lane_masked[] = "v_cndmask_|v_div_fmas_|v_add_co_ci_|v_sub_co_ci_|"
                                  "v_subrev_co_ci_|v_addc_co_|v_subb_co_|v_subbrev_co_";
/* Instructions whose result is an operand, too: they add to it, or change a part of it. */
static const char accumulating[] =
    "v_fmac_|v_mac_|v_pk_fmac_|v_dot2c_|v_dot4c_|v_dot8c_|v_dot2acc_|v_writelane_|v_fmamk_none|"
    "v_movreld_|v_movrelsd_|s_fmac_|s_addk_|s_mulk_|s_cmov_|s_cmovk_|s_bitset0_|s_bitset1_";

/* A, B, what is added and, of sparse forms, the result that is added to. */
static void take_matrix(struct lint_insn *i, const struct target *target, const struct text_insn *t)
{
    const char *const m = t->mnemonic;
    const bool sparse = begins(m, "v_smfmac_") || begins(m, "v_swmmac_");
    const bool wmma = begins(m, "v_wmma_") || begins(m, "v_swmmac_");

    take_operands(i, t, 1);
    if (sparse && i->use_count == 3) { /* A, B, indices: C is the result's register */
        const struct lint_range indices = i->uses[2];
        i->uses[2] = i->defs[0];
        add_use(i, indices);
    }
    if (wmma) {
        i->kinds |= LINT_WMMA;
        return;
    }
    const bool f64 = strstr(m, "f64") != NULL, four = strstr(m, "4x4x") != NULL;
    const bool f32 = strlen(m) > 4 && !strcmp(m + strlen(m) - 3, "f32") && !strstr(m, "xf32");
    /* gfx90a has the products of f32 on the pipe of the others */
    const bool apart = f32 && target->capabilities & CAP_FP8_CVT;
    i->kinds |= f64 ? (four ? LINT_DGEMM_4 : LINT_DGEMM_16) : apart ? LINT_SGEMM : LINT_XDL;
    const unsigned passes = target_matrix_cycles(target, i->text) / 4;
    i->passes = (uint8_t)(passes ? passes : 16);
}

static void take_vector(struct lint_insn *i, const struct target *target, struct text_insn *t)
{
    const char *const m = t->mnemonic;
    const struct text_modifiers *const x = &t->modifiers;

    if (begins_any(m, "v_mfma_|v_smfmac_|v_wmma_|v_swmmac_")) {
        take_matrix(i, target, t);
        return;
    }
    if (begins(m, "v_nop")) {
        i->kinds |= LINT_NOTHING;
        return;
    }
    i->kinds |= LINT_VALU;
    i->literal = strstr(i->text, " 0x") != NULL; /* LLVM writes inline ones in decimal */
    if (begins(m, "v_cmpx_")) {                  /* e32 of gfx10 and later names no result */
        const bool named = t->count == 3;
        take_operands(i, t, named);
        add_def(i, (struct lint_range){LINT_EXEC, 2});
    } else if (begins_any(m, two_results)) {
        take_operands(i, t, 2);
    } else if (begins_any(m, "v_swap_|v_permlane16_swap|v_permlane32_swap")) {
        take_operands(i, t, 2);
        add_use(i, i->defs[0]);
        add_use(i, i->defs[1]);
    } else {
        take_operands(i, t, 1);
    }
    const bool preserves = x->sdwa && x->dst_unused == UNUSED_PRESERVE;
    if (begins_any(m, accumulating) || preserves || x->dpp != DPP_NONE)
        add_use(i, i->defs[0]);
    i->kinds |= begins_any(m, transcendental) ? LINT_TRANS : 0;
    i->kinds |= begins(m, "v_dot") ? LINT_DOT : 0;
    i->kinds |= x->dpp != DPP_NONE ? LINT_DPP : 0;
    i->kinds |= begins_any(m, "v_readlane_|v_readfirstlane_") ? LINT_READLANE : 0;
    i->kinds |= begins_any(m, "v_readlane_|v_writelane_") ? LINT_LANE_NUMBER : 0;
    i->kinds |= begins(m, "v_div_fmas_") ? LINT_DIV_FMAS : 0;
    i->kinds |= begins(m, "v_permlane") ? LINT_PERMLANE : 0;
    i->kinds |= begins_any(m, "v_fma_f64|v_fmac_f64") ? LINT_FMA_F64 : 0;
    i->kinds |= begins_any(m, "v_mad_u64_u32|v_mad_i64_i32|v_mad_co_") ? LINT_MAD_64 : 0;
    i->kinds |= begins_any(m, lane_masked) ? LINT_LANE_MASK : 0;
    i->kinds |= begins(m, "v_movrel") ? LINT_USES_M0 : 0;
    i->kinds |= begins_any(m, "v_lshlrev_b64|v_lshrrev_b64|v_ashrrev_i64") ? LINT_SHIFT_64 : 0;
    /* of the op_sel list the fourth bit, or the last of a shorter one, is the result's half */
    if ((x->sdwa && x->dst_sel) || (x->op_sel & 8 && !begins(m, "v_pk_")))
        i->kinds |= LINT_PARTIAL;
    /* of a dual pair the text does not say it (the prefix v_dual_ is taken off already) */
    if (i->kinds & LINT_DIV_FMAS || (begins(m, "v_cndmask_") && t->count == 3))
        add_use(i, (struct lint_range){LINT_VCC, 2});
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void take_memory(struct lint_insn *i, const struct text_insn *t)
{
    const char *const m = t->mnemonic;
    const bool atomic = strstr(m, "_atomic_") != NULL;
    const bool loads = strstr(m, "_load_") && !strstr(m, "_load_lds_");
    const bool to_lds = t->modifiers.lds || strstr(m, "_load_lds_");
    const bool returns = !to_lds && (loads || (atomic && t->modifiers.glc));
    const char *const of_store[] = {"x3", "x4", "b96", "b128"};

    i->kinds |= LINT_VMEM | (begins(m, "flat_") ? LINT_FLAT : 0);
    if (begins_any(m, "global_wb|global_inv|global_wbinv|buffer_wb|buffer_inv|buffer_gl|s_dcache"))
        return; /* caches: no register */
    take_operands(i, t, returns);
    if (to_lds)
        i->kinds |= LINT_TO_LDS | LINT_USES_M0;
    else if (!returns)
        i->kinds |= LINT_STORE;
    for (size_t n = 0; n < sizeof of_store / sizeof *of_store && !returns && !to_lds; n++)
        if (strstr(m, of_store[n]))
            i->kinds |= LINT_WIDE_STORE;
}

static void take_lds(struct lint_insn *i, const struct text_insn *t)
{
    const char *const m = t->mnemonic;
    const bool returns =
        begins_any(m, "ds_read|ds_load|ds_bpermute_|ds_permute_|ds_swizzle_|ds_consume|ds_append|"
                      "ds_ordered_count") ||
        strstr(m, "_rtn_");

    i->kinds |= LINT_LDS;
    if (begins(m, "ds_nop")) {
        i->kinds = LINT_LDS_PAUSE;
        return;
    }
    take_operands(i, t, returns);
    if (!returns)
        i->kinds |= LINT_STORE;
    if (strstr(m, "addtid"))
        i->kinds |= LINT_USES_M0;
}

/* LDS to a vector register, past the vector ALU. Fields that LLVM does not print are 0. */
static void take_lds_direct(struct lint_insn *i, const struct text_insn *t)
{
    const char *const vector = strstr(i->text, "vdst:"), *const memory = strstr(i->text, "vsrc:");
    char reg[16];

    i->kinds |= LINT_LDS_DIRECT | LINT_USES_M0;
    snprintf(reg, sizeof reg, "%.*s", (int)strcspn(t->operands[0], " "), t->operands[0]);
    add_def(i, range_of(reg));
    i->understood = t->count && i->def_count;
    i->wait_vector = (uint8_t)(vector ? strtoul(vector + 5, NULL, 0) : 0);
    /* gfx11 has no such field, and does not wait */
    i->wait_memory = (uint8_t)(memory ? strtoul(memory + 5, NULL, 0) : i->text[0] == 'l');
}

/* ---- Scalar ---------------------------------------------------------------------------------- */

/* "vmcnt(3)" in a list of waits, or LINT_NO_WAIT. */
static uint8_t wait_named(const char *text, const char *name)
{
    const char *const at = strstr(text, name);

    return at ? (uint8_t)strtoul(at + strlen(name), NULL, 0) : LINT_NO_WAIT;
}

/* Fields by their LLVM names, or all in a number, where they have these bits. */
static void take_alu_wait(struct lint_insn *i, const struct text_insn *t)
{
    static const struct {
        const char *name;
        unsigned bits;
        enum lint_alu_wait what;
    } fields[] = {{"va_vdst(0)", 0xf000, LINT_VALU_VECTOR},
                  {"va_sdst(0)", 0x0e00, LINT_VALU_SCALAR},
                  {"va_vcc(0)", 0x0002, LINT_VALU_VCC},
                  {"sa_sdst(0)", 0x0001, LINT_SALU_SCALAR},
                  {"vm_vsrc(0)", 0x001c, LINT_MEMORY_SOURCES}};
    const bool words = strchr(i->text, '(');
    const unsigned long number = t->count ? strtoul(t->operands[0], NULL, 0) : 0xffff;

    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++)
        if (words ? strstr(i->text, fields[n].name) != NULL : !(number & fields[n].bits))
            i->alu_waits |= fields[n].what;
}

static void take_wait(struct lint_insn *i, const struct text_insn *t)
{
    const char *const m = t->mnemonic;
    const unsigned long last = t->count ? strtoul(t->operands[t->count - 1], NULL, 0) : 0;
    const uint8_t count = (uint8_t)(last > 254 ? 254 : last);
    const struct {
        const char *mnemonic;
        enum lint_counter counter;
    } alone[] = {{"s_waitcnt_vmcnt", LINT_LOADS},    {"s_waitcnt_vscnt", LINT_STORES},
                 {"s_wait_loadcnt", LINT_LOADS},     {"s_wait_storecnt", LINT_STORES},
                 {"s_wait_dscnt", LINT_LDS_OPS},     {"s_wait_kmcnt", LINT_SCALAR_LOADS},
                 {"s_waitcnt_lgkmcnt", LINT_LDS_OPS}};

    i->kinds |= LINT_WAIT;
    if (!strcmp(m, "s_waitcnt")) {
        i->waits[LINT_LOADS] = wait_named(i->text, "vmcnt(");
        i->waits[LINT_LDS_OPS] = wait_named(i->text, "lgkmcnt(");
        if (!strchr(i->text, '(')) { /* a number: LLVM writes one only where it is none it knows */
            i->understood = last == 0;
            i->waits[LINT_LOADS] = i->waits[LINT_LDS_OPS] = 0;
        }
    } else if (!strcmp(m, "s_wait_loadcnt_dscnt")) {
        i->waits[LINT_LOADS] = (uint8_t)(last >> 8 & 63);
        i->waits[LINT_LDS_OPS] = (uint8_t)(last & 63);
    } else if (!strcmp(m, "s_wait_storecnt_dscnt")) {
        i->waits[LINT_STORES] = (uint8_t)(last >> 8 & 63);
        i->waits[LINT_LDS_OPS] = (uint8_t)(last & 63);
    } else if (!strcmp(m, "s_wait_idle")) {
        memset(i->waits, 0, sizeof i->waits);
        i->alu_waits = LINT_VALU_VECTOR | LINT_VALU_SCALAR | LINT_VALU_VCC | LINT_SALU_SCALAR |
                       LINT_MEMORY_SOURCES;
    } else if (!strcmp(m, "s_wait_alu") || !strcmp(m, "s_waitcnt_depctr")) {
        take_alu_wait(i, t);
    } else {
        for (size_t n = 0; n < sizeof alone / sizeof *alone; n++)
            if (!strcmp(m, alone[n].mnemonic))
                i->waits[alone[n].counter] = count;
    }
}

/* Branches, calls and ends. False: it is none of them. */
static bool take_flow(struct lint_insn *i, const struct text_insn *t)
{
    const char *const m = t->mnemonic;

    if (begins(m, "s_cbranch_") || !strcmp(m, "s_branch")) {
        i->branch = quern_branch_target(i->text, i->offset);
        i->falls_through = m[2] == 'c';
        i->understood = i->branch != -1;
        return true;
    }
    if (begins(m, "s_endpgm") || begins(m, "s_trap") || begins(m, "s_rfe")) {
        i->falls_through = false;
        return true;
    }
    if (begins_any(m, "s_setpc_|s_swappc_|s_call_")) { /* where it goes is not known here */
        i->falls_through = false;
        i->understood = false;
        return true;
    }
    return false;
}

static void take_scalar(struct lint_insn *i, const struct text_insn *t)
{
    static const char no_result[] = "s_cmp_|s_cmpk_|s_bitcmp|s_setreg_|s_nop|s_sleep|s_sethalt|"
                                    "s_setprio|s_sendmsg|s_barrier|s_delay_alu|s_clause|s_dcache|"
                                    "s_icache|s_code_end|s_set_inst_prefetch|s_inst_prefetch|"
                                    "s_version|s_round_mode|s_denorm_mode|s_prefetch|s_ttracedata|"
                                    "s_decperf|s_incperf|s_wakeup|s_set_gpr_idx_mode|s_setvskip";
    const char *const m = t->mnemonic;

    if (begins(m, "s_wait")) {
        take_wait(i, t);
        return;
    }
    if (take_flow(i, t))
        return;
    if (begins_any(m,
                   "s_load_|s_buffer_load_|s_memtime|s_memrealtime|s_atc_probe|s_scratch_load") ||
        begins(m, "s_sendmsg_rtn")) {
        i->kinds |= LINT_SMEM;
        take_operands(i, t, 1);
        return;
    }
    i->kinds |= LINT_SALU;
    if (!strcmp(m, "s_barrier") || begins(m, "s_barrier_signal"))
        i->kinds |= LINT_BARRIER;
    if (begins(m, "s_sendmsg"))
        i->kinds |= LINT_USES_M0;
    if (!strcmp(m, "s_nop"))
        i->wait_states = (uint8_t)(1 + (t->count ? strtoul(t->operands[0], NULL, 0) & 15 : 0));
    take_operands(i, t, !begins_any(m, no_result));
    if (begins_any(m, accumulating) && i->def_count)
        add_use(i, i->defs[0]);
    const bool sets = begins(m, "s_setreg"), gets = begins(m, "s_getreg");
    int32_t field;
    if ((sets || gets) && t->count == 2 && text_hardware_register(t->operands[gets], &field))
        (sets ? add_def
              : add_use)(i, (struct lint_range){(uint16_t)(LINT_HARDWARE + (field & 63)), 1});
    if (strstr(m, "saveexec") || strstr(m, "wrexec"))
        add_def(i, (struct lint_range){LINT_EXEC, 2});
}

/* ---- All ------------------------------------------------------------------------------------- */

static void take_one(struct lint_insn *i, const struct target *target, const char *text)
{
    struct text_insn t;

    if (!*text || !text_split(text, &t)) {
        i->understood = false;
        return;
    }
    text_strip_suffix(t.mnemonic);
    if (begins(t.mnemonic, "v_"))
        take_vector(i, target, &t);
    else if (begins_any(t.mnemonic, "global_|flat_|buffer_|scratch_"))
        take_memory(i, &t);
    else if (begins_any(t.mnemonic, "lds_direct_|lds_param_|ds_direct_|ds_param_"))
        take_lds_direct(i, &t);
    else if (begins(t.mnemonic, "ds_"))
        take_lds(i, &t);
    else if (begins(t.mnemonic, "s_"))
        take_scalar(i, &t);
    else
        i->understood = false;
}

/* The disassembler takes all code of RDNA for that of waves of 32: a mask of lanes, which is two
 * registers in waves of 64, has the name of the first alone. */
static void widen_masks(struct lint_insn *i)
{
    const char *const m = i->text;
    struct lint_range *const masks[] = {
        i->kinds & LINT_LANE_MASK && i->use_count ? &i->uses[i->use_count - 1] : NULL,
        begins(m, "v_cmp_") && i->def_count ? &i->defs[0] : NULL,
        begins_any(m, two_results) && i->def_count > 1 ? &i->defs[1] : NULL};

    for (size_t n = 0; n < sizeof masks / sizeof *masks; n++)
        if (masks[n] && masks[n]->count == 1 && masks[n]->first < LINT_VCC + 2)
            masks[n]->count = 2;
}

void lint_read(const struct target *target, unsigned wave_size, const char *text, uint64_t offset,
               struct lint_insn *insn)
{
    const char *const pair = strstr(text, " :: ");

    *insn = (struct lint_insn){.offset = (uint32_t)offset,
                               .text = text,
                               .wait_states = 1,
                               .branch = -1,
                               .falls_through = true,
                               .understood = true,
                               .waits = {LINT_NO_WAIT, LINT_NO_WAIT, LINT_NO_WAIT, LINT_NO_WAIT}};
    if (!pair) {
        take_one(insn, target, text);
        if (wave_size == 64 && target->store_counter)
            widen_masks(insn);
        return;
    }
    char first[TEXT_BYTES];
    const size_t n = (size_t)(pair - text);
    if (n >= sizeof first) {
        insn->understood = false;
        return;
    }
    memcpy(first, text, n);
    first[n] = 0;
    take_one(insn, target, first);
    take_one(insn, target, pair + 4);
}
