/* SPDX-License-Identifier: MIT */
/*
 * The scan of code for hazards and missing waits (src/lint). Its judge here is the number of wait
 * states that LLVM's GCNHazardRecognizer (2026) asks for between two instructions: with that many,
 * nothing is found, and with one fewer, the pair is. Code is given to the scan as text, as a
 * disassembler would. This file is long because its tables of cases are.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lint/lint.h"
#include "t_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Code as text ---------------------------------------------------------------------------- */

/* A disassembler of a listing: every line is an instruction of 4 bytes. */
static quern_status read_listing(void *user, const char *processor, const void *code, size_t size,
                                 quern_disassembly_fn emit, void *emit_user)
{
    const char *line = user;
    char text[256];
    uint64_t offset = 0;

    (void)processor, (void)code, (void)size;
    while (*line) {
        const size_t n = strcspn(line, "\n");
        snprintf(text, sizeof text, "%.*s", (int)n, line);
        emit(emit_user, offset, 4, text);
        offset += 4;
        line += n + (line[n] == '\n');
    }
    return QUERN_OK;
}

/* The code that a listing is said to be of: nothing of it is looked at but its size. */
static const uint8_t blank[1 << 16];

/* What a scan of a listing found: how much, and the first of it. */
struct found {
    int count;
    enum quern_lint_rule rule;
    unsigned needed, found;
    uint64_t first, second;
    char registers[32];
};

static void note_finding(void *user, const struct quern_lint_finding *f)
{
    struct found *const to = user;

    if (to->count++)
        return;
    to->rule = f->rule;
    to->needed = f->needed;
    to->found = f->found;
    to->first = f->first;
    to->second = f->second;
    snprintf(to->registers, sizeof to->registers, "%s", f->registers);
    assert_non_null(f->what);
    assert_string_equal(f->kernel, "k");
}

static unsigned wave_size = 32; /* matters to gfx11 and gfx12 alone */

static struct found scan(const char *target, const char *listing)
{
    const struct quern_disassembler d = {read_listing, (void *)(uintptr_t)listing};
    struct found f = {0};

    assert_int_equal(
        lint_code(target_named(target), "k", wave_size, blank, sizeof blank, &d, note_finding, &f),
        QUERN_OK);
    return f;
}

static void assert_clean(const char *target, const char *listing)
{
    const struct found f = scan(target, listing);

    if (f.count)
        fail_msg("%s: %d found, the first of rule %d at %d in %s", target, f.count, (int)f.rule,
                 (int)f.second, listing);
}

/* ---- Wait states ----------------------------------------------------------------------------- */

/* Two instructions and the wait states that must be between them; 0: none. */
static const struct pair {
    const char *target, *first, *second;
    unsigned states;
} pairs[] = {
    /* D, then A or B */
    {"gfx90a", "v_mfma_f32_4x4x4bf16_1k v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_4x4x4bf16_1k v[4:7], v[0:1], v[10:11], v[4:7]", 5},
    {"gfx90a", "v_mfma_f32_16x16x16bf16_1k v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_4x4x4bf16_1k v[4:7], v[12:13], v[2:3], v[4:7]", 11},
    {"gfx90a", "v_mfma_f32_32x32x8bf16_1k v[0:15], v[18:19], v[20:21], v[0:15]",
     "v_mfma_f32_4x4x4bf16_1k v[24:27], v[2:3], v[20:21], v[24:27]", 19},
    {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_16x16x16_bf16 v[4:7], v[0:1], v[10:11], v[4:7]", 7},
    {"gfx942", "v_mfma_f32_16x16x4_f32 v[0:3], v8, v9, v[0:3]",
     "v_mfma_f32_16x16x16_bf16 v[4:7], v[0:1], v[10:11], v[4:7]", 10},
    {"gfx942", "v_mfma_f32_32x32x8_f16 v[0:15], v[18:19], v[20:21], v[0:15]",
     "v_mfma_f32_32x32x8_f16 v[32:47], v[0:1], v[20:21], v[32:47]", 11},
    {"gfx950", "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_4x4x4_16b_f16 v[4:7], v[0:1], v[10:11], v[4:7]", 5},
    {"gfx950", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_16x16x16_bf16 v[4:7], v[0:1], v[10:11], v[4:7]", 8},
    /* D, then C: the same registers, and others that overlap */
    {"gfx90a", "v_mfma_f32_16x16x16bf16_1k v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_16x16x16bf16_1k v[0:3], v[12:13], v[14:15], v[0:3]", 0},
    {"gfx90a", "v_mfma_f32_16x16x16bf16_1k v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_16x16x16bf16_1k v[20:23], v[12:13], v[14:15], v[2:5]", 8},
    {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_16x16x16_bf16 v[20:23], v[12:13], v[14:15], v[2:5]", 5},
    {"gfx942", "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[12:13], v[14:15], v[0:3]", 2},
    {"gfx950", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_mfma_f32_16x16x16_bf16 v[20:23], v[12:13], v[14:15], v[2:5]", 6},
    /* D, then the vector ALU or memory: read, and overwritten */
    {"gfx942", "v_mfma_f32_4x4x4_16b_bf16 v[54:57], v[60:61], v[62:63], v[54:57]",
     "v_lshrrev_b64 v[56:57], 4, v[70:71]", 5},
    {"gfx90a", "v_mfma_f32_32x32x8bf16_1k v[0:15], v[18:19], v[20:21], v[0:15]",
     "v_mov_b32_e32 v30, v7", 19},
    {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_add_f32_e32 v30, v3, v4", 7},
    {"gfx942", "v_mfma_f32_16x16x16_bf16 a[0:3], v[8:9], v[10:11], a[0:3]",
     "v_accvgpr_read_b32 v30, a2", 7},
    {"gfx950", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_add_f32_e32 v30, v3, v4", 8},
    {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "global_store_dwordx4 v20, v[0:3], s[2:3]", 7},
    {"gfx90a", "v_mfma_f64_4x4x4f64 v[0:1], v[8:9], v[10:11], v[0:1]", "v_mov_b32_e32 v30, v0", 6},
    {"gfx90a", "v_mfma_f64_4x4x4f64 v[0:1], v[8:9], v[10:11], v[0:1]",
     "global_store_dwordx2 v20, v[0:1], s[2:3]", 9},
    {"gfx90a", "v_mfma_f64_16x16x4f64 v[0:7], v[8:9], v[10:11], v[0:7]", "ds_write_b64 v20, v[0:1]",
     18},
    {"gfx950", "v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], v[0:7]", "v_mov_b32_e32 v30, v0",
     19},
    /* C, then the vector ALU overwrites it */
    {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[20:23]",
     "v_mov_b32_e32 v21, 0", 3},
    {"gfx90a", "v_mfma_f32_16x16x16bf16_1k v[0:3], v[8:9], v[10:11], v[20:23]",
     "v_mov_b32_e32 v21, 0", 7},
    {"gfx90a", "v_mfma_f32_16x16x16bf16_1k v[0:3], v[8:9], v[10:11], v[20:23]",
     "global_load_dwordx4 v[20:23], v[30:31], off", 7},
    /* the vector ALU, then a matrix instruction */
    {"gfx90a", "v_mov_b32_e32 v8, 0", "v_mfma_f32_16x16x16bf16_1k v[0:3], v[8:9], v[10:11], v[0:3]",
     2},
    {"gfx942", "v_cmpx_gt_u32_e32 vcc, v40, v41",
     "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]", 4},
    /* dot products */
    {"gfx90a", "v_dot2_f32_f16 v0, v1, v2, v0", "v_dot2_f32_f16 v0, v1, v2, v0", 0},
    {"gfx90a", "v_dot2_f32_f16 v0, v1, v2, v0", "v_add_f32_e32 v3, v0, v4", 3},
    {"gfx942", "v_dot2_f32_f16 v0, v1, v2, v0", "v_mov_b32_e32 v0, 0", 3},
    {"gfx90a", "v_dot4_u32_u8 v27, v14, s4, v52", "ds_read_b32 v47, v27", 3},
    {"gfx90a", "v_dot2_f32_f16 v0, v1, v2, v0", "v_dot2_f32_f16 v3, v0, v2, v3", 3},
    {"gfx90a", "v_dot2_f32_f16 v0, v1, v2, v0", "v_dot4_i32_i8 v0, v1, v2, v0", 3},
    /* the vector ALU and what is around it */
    {"gfx90a", "v_readfirstlane_b32 s4, v0", "global_load_dword v1, v2, s[4:5]", 5},
    {"gfx90a", "v_mov_b32_e32 v1, v0", "v_mov_b32_dpp v2, v1 quad_perm:[1,0,3,2]", 2},
    {"gfx90a", "v_cmpx_gt_u32_e32 vcc, v1, v2", "v_mov_b32_dpp v3, v4 quad_perm:[1,0,3,2]", 5},
    {"gfx90a", "v_cmp_gt_f32_e32 vcc, v1, v2", "v_div_fmas_f32 v3, v4, v5, v6", 4},
    {"gfx90a", "v_readfirstlane_b32 s4, v0", "v_readlane_b32 s5, v3, s4", 4},
    {"gfx90a", "v_mov_b32_e32 v1, v0", "v_readfirstlane_b32 s4, v1", 0},
    {"gfx942", "v_mov_b32_e32 v1, v0", "v_readfirstlane_b32 s4, v1", 1},
    {"gfx90a", "v_cmp_gt_u32_e64 s[4:5], v0, v1", "v_cndmask_b32_e64 v2, v3, v4, s[4:5]", 0},
    {"gfx942", "v_cmp_gt_u32_e64 s[4:5], v0, v1", "v_cndmask_b32_e64 v2, v3, v4, s[4:5]", 2},
    {"gfx942", "v_exp_f32_e32 v1, v0", "v_add_f32_e32 v2, v1, v3", 1},
    {"gfx942", "v_exp_f32_e32 v1, v0", "v_rcp_f32_e32 v2, v1", 0},
    {"gfx942",
     "v_add_u16_sdwa v1, v2, v3 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE "
     "src0_sel:DWORD src1_sel:DWORD",
     "v_add_f32_e32 v4, v1, v3", 1},
    {"gfx90a", "s_mov_b32 m0, s4", "v_movrels_b32_e32 v0, v1", 1},
    {"gfx90a", "global_store_dwordx4 v20, v[0:3], s[2:3]", "v_mov_b32_e32 v2, 0", 1},
    {"gfx942", "global_store_dwordx4 v20, v[0:3], s[2:3]", "v_mov_b32_e32 v2, 0", 2},
    {"gfx942", "global_store_dwordx2 v20, v[0:1], s[2:3]", "v_mov_b32_e32 v1, 0", 0},
    {"gfx950", "v_cmpx_gt_u32_e32 vcc, v40, v41", "v_permlane16_swap_b32_e32 v1, v2", 4},
    {"gfx950", "v_mov_b32_e32 v1, v0", "v_permlane32_swap_b32_e32 v1, v2", 2},
    {"gfx90a", "v_mfma_f64_4x4x4f64 v[0:1], v[8:9], v[10:11], v[0:1]",
     "v_fma_f64 v[20:21], v[22:23], v[24:25], v[26:27]", 2},
    {"gfx90a", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0",
     "s_getreg_b32 s4, hwreg(HW_REG_MODE)", 2},
    {"gfx90a", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0",
     "s_getreg_b32 s4, hwreg(HW_REG_STATUS)", 0},
    /* indices of a sparse one are read as its factors are */
    {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
     "v_smfmac_f32_16x16x32_f16 v[20:23], v[12:13], v[14:17], v2", 7},
};

/* Code for gfx11 and gfx12, most of it LLVM's cases of these hazards (llvm/test/CodeGen/AMDGPU:
 * wmma-hazards.mir, valu-trans-use-hazard.mir, vcmpx-permlane-hazard.mir, and the valu-mask-write
 * and valu-read-sgpr ones; Apache-2.0 with LLVM exceptions) as a listing. */
#define WMMA11(d, a, b) "v_wmma_f32_16x16x16_f16 " d ", " a ", " b ", " d "\n"
#define V0_7            "v[0:7]"
#define V16_23          "v[16:23]"
#define V24_31          "v[24:31]"
#define V32_39          "v[32:39]"
#define ADD             "v_add_f32_e32 v90, v91, v92\n"
#define ADD3            ADD ADD ADD
#define MASK            "v_cndmask_b32_e64 v1, v2, v3, s[2:3]\n"
#define ADDC            "v_add_co_ci_u32_e64 v1, vcc_lo, 0, v2, s0\n"
static const struct rdna_case {
    const char *target, *listing;
    unsigned wave_size;
    int findings;
} rdna_cases[] = {
    /* a matrix that is a factor of the next product; what is added is waited for */
    {"gfx1100", WMMA11(V0_7, V16_23, V24_31) WMMA11(V32_39, V0_7, V24_31), 32, 1},
    {"gfx1151", WMMA11(V0_7, V16_23, V24_31) WMMA11(V32_39, V24_31, V0_7), 32, 1},
    {"gfx1100", WMMA11(V0_7, V16_23, V24_31) "v_nop\n" WMMA11(V32_39, V0_7, V24_31), 32, 0},
    {"gfx1100", WMMA11(V0_7, V16_23, V24_31) "s_nop 7\n" WMMA11(V32_39, V0_7, V24_31), 32, 1},
    {"gfx1100", WMMA11(V0_7, V16_23, V24_31) WMMA11(V0_7, V16_23, V24_31), 32, 0},
    {"gfx1201",
     "v_wmma_f32_16x16x16_f16 v[0:7], v[16:19], v[20:23], v[0:7]\n"
     "v_swmmac_f32_16x16x32_f16 v[32:39], v[16:19], v[24:31], v4\n",
     32, 1},
    {"gfx1201",
     "v_wmma_f32_16x16x16_f16 v[0:7], v[16:19], v[20:23], v[0:7]\nv_nop\n"
     "v_swmmac_f32_16x16x32_f16 v[32:39], v[16:19], v[24:31], v4\n",
     32, 0},
    /* transcendental results: five vector instructions, or two such, are no help and help */
    {"gfx1100", "v_sqrt_f32_e32 v1, v0\n" ADD3 ADD ADD "v_add_f32_e32 v2, v1, v3\n", 32, 1},
    {"gfx1100", "v_sqrt_f32_e32 v1, v0\n" ADD3 ADD3 "v_add_f32_e32 v2, v1, v3\n", 32, 0},
    {"gfx1151", "v_sqrt_f32_e32 v1, v0\nv_add_f32_e32 v2, v1, v3\n", 32, 0},
    {"gfx1100", "v_sqrt_f32_e32 v1, v0\nv_exp_f32_e32 v5, v6\nv_add_f32_e32 v2, v1, v3\n", 32, 1},
    {"gfx1100",
     "v_sqrt_f32_e32 v1, v0\nv_exp_f32_e32 v5, v6\nv_exp_f32_e32 v7, v6\n"
     "v_add_f32_e32 v2, v1, v3\n",
     32, 0},
    {"gfx1100",
     "v_sqrt_f32_e32 v1, v0\ns_waitcnt_depctr depctr_va_vdst(0)\nv_add_f32_e32 v2, v1, v3\n", 32,
     0},
    {"gfx1100", "v_sqrt_f32_e32 v1, v0\ns_waitcnt_depctr 0xfff\nv_add_f32_e32 v2, v1, v3\n", 32, 0},
    {"gfx1100",
     "v_sqrt_f32_e32 v1, v0\ns_waitcnt_depctr depctr_va_vdst(1)\nv_add_f32_e32 v2, v1, v3\n", 32,
     1},
    {"gfx1100",
     "v_sqrt_f32_e32 v1, v0\nglobal_store_b32 v8, v9, s[4:5]\nv_add_f32_e32 v2, v1, v3\n", 32, 0},
    /* EXEC by a comparison, then another lane's value: v_nop is no vector instruction here */
    {"gfx1100", "v_cmpx_le_f32_e32 0, v0\ns_add_u32 s1, s0, 0\nv_permlane16_b32 v1, v1, s1, s0\n",
     32, 1},
    {"gfx1201", "v_cmpx_le_f32_e32 0, v0\nv_nop\nv_permlane64_b32_e32 v1, v1\n", 32, 1},
    {"gfx1201", "v_cmpx_le_f32_e32 0, v0\n" ADD "v_permlane64_b32_e32 v1, v1\n", 32, 0},
    /* a product's sum over its own factor */
    {"gfx1100", "v_mad_u64_u32 v[4:5], null, s3, v4, v[6:7]\n", 32, 1},
    {"gfx1100", "v_mad_u64_u32 v[4:5], null, s3, v6, v[3:4]\n", 32, 0},
    {"gfx1151", "v_mad_u64_u32 v[4:5], null, s3, v4, v[6:7]\n", 32, 0},
    /* gfx11, waves of 64: a mask that is written anew */
    {"gfx1100", MASK "s_cselect_b64 s[2:3], -1, 0\ns_add_u32 s6, s2, 0\n", 64, 1},
    {"gfx1100", MASK "s_cselect_b64 s[2:3], -1, 0\ns_add_u32 s6, s2, 0\n", 32, 0},
    {"gfx1100",
     MASK "s_cselect_b64 s[2:3], -1, 0\ns_waitcnt_depctr depctr_sa_sdst(0)\ns_add_u32 s6, s2, 0\n",
     64, 0},
    {"gfx1100",
     MASK "s_cselect_b64 s[2:3], -1, 0\ns_waitcnt_depctr depctr_va_vdst(0)\ns_add_u32 s6, s2, 0\n",
     64, 1},
    {"gfx1100", MASK "v_mov_b32_e32 v9, s8\ns_cselect_b64 s[2:3], -1, 0\ns_add_u32 s6, s2, 0\n", 64,
     0},
    /* a literal, another mask and a wait put an end to it as well */
    {"gfx1100",
     MASK "v_and_b32_e32 v9, 0xffff, v9\ns_cselect_b64 s[2:3], -1, 0\ns_add_u32 s6, s2, 0\n", 64,
     0},
    {"gfx1100",
     MASK "v_cndmask_b32_e64 v9, v8, v7, s[4:5]\ns_cselect_b64 s[2:3], -1, 0\ns_add_u32 s6, s2, "
          "0\n",
     64, 0},
    {"gfx1100",
     MASK "s_cselect_b64 s[2:3], -1, 0\ns_waitcnt_depctr 0xfffe\ns_cselect_b64 s[2:3], -1, 0\n"
          "s_add_u32 s6, s2, 0\n",
     64, 0},
    {"gfx1100", MASK "v_readfirstlane_b32 s2, v7\n" MASK, 64, 1},
    {"gfx1100", MASK "v_readfirstlane_b32 s2, v7\ns_waitcnt_depctr depctr_va_sdst(0)\n" MASK, 64,
     0},
    /* gfx12: any, by pairs */
    {"gfx1200", ADDC "s_cselect_b32 s0, -1, 0\ns_add_co_u32 s2, s0, 0\n", 32, 1},
    {"gfx1200", ADDC "s_cselect_b32 s1, -1, 0\ns_add_co_u32 s2, s1, 0\n", 32, 1},
    {"gfx1200", ADDC "s_cselect_b32 s4, -1, 0\ns_add_co_u32 s2, s4, 0\n", 32, 0},
    /* a result that is an operand too: as in bitsandbytes' kOptimizer32bit2State of ROCm 7.14,
     * where test_lint_foreign_long took one of these waits away */
    {"gfx1201", ADDC "s_xor_b32 s1, s8, s9\ns_fmac_f32 s1, s9, s9\n", 32, 1},
    {"gfx1201", ADDC "s_xor_b32 s1, s8, s9\ns_wait_alu 0xfffe\ns_fmac_f32 s1, s9, s9\n", 32, 0},
    {"gfx1201", ADDC "s_mov_b32 s1, s8\ns_addk_co_i32 s1, 5\n", 32, 1},
    {"gfx1201", ADDC "s_mov_b32 s1, s8\ns_mulk_i32 s1, 5\n", 32, 1},
    {"gfx1201", ADDC "s_mov_b32 s1, s8\ns_cmov_b32 s1, s9\n", 32, 1},
    {"gfx1201", ADDC "s_mov_b32 s1, s8\ns_cmovk_i32 s1, 5\n", 32, 1},
    {"gfx1201", ADDC "s_mov_b32 s1, s8\ns_bitset1_b32 s1, s9\n", 32, 1},
    {"gfx1200", ADDC "s_nop 0\ns_cselect_b32 s1, -1, 0\ns_nop 0\ns_add_co_u32 s2, s1, 0\n", 32, 1},
    {"gfx1200", ADDC "s_cselect_b32 s1, -1, 0\ns_wait_alu 0xfffe\ns_add_co_u32 s2, s1, 0\n", 32, 0},
    {"gfx1200",
     ADDC "s_cselect_b32 s1, -1, 0\ns_wait_alu depctr_va_vdst(0)\ns_add_co_u32 s2, s1, 0\n", 32, 1},
    {"gfx1200", ADDC "s_cselect_b32 s1, -1, 0\ns_wait_idle\ns_add_co_u32 s2, s1, 0\n", 32, 0},
    {"gfx1200",
     "v_dual_cndmask_b32 v1, v4, v5 :: v_dual_cndmask_b32 v2, v5, v4\n"
     "v_add_co_u32 v0, vcc_lo, s0, v0\nv_add_co_ci_u32_e64 v1, null, s1, v1, vcc_lo\n",
     32, 1},
    {"gfx1200", ADDC "s_cselect_b32 s1, -1, 0\nv_add_co_ci_u32_e64 v2, vcc_lo, 0, v1, s1\n", 32, 1},
    {"gfx1200",
     "v_cndmask_b32_e32 v1, v1, v2, vcc_lo\ns_cselect_b32 vcc_lo, -1, 0\n"
     "v_cndmask_b32_e32 v3, v4, v5, vcc_lo\n",
     32, 1},
    {"gfx1200",
     ADDC "ds_nop\nds_nop\nds_nop\nds_nop\ns_cselect_b32 s0, -1, 0\ns_add_co_u32 s2, s0, 0\n", 32,
     0},
    {"gfx1200", ADDC "ds_nop\nds_nop\nds_nop\ns_cselect_b32 s0, -1, 0\ns_add_co_u32 s2, s0, 0\n",
     32, 1},
    {"gfx1200", ADDC "v_readfirstlane_b32 s0, v9\ns_add_co_u32 s2, s0, 0\n", 32, 0},
    {"gfx1200", ADDC "v_readfirstlane_b32 s0, v9\n" ADDC, 32, 1},
    {"gfx1200",
     ADDC "s_cselect_b32 s0, -1, 0\nbuffer_load_b32 v9, v8, s[4:7], null offen\n"
          "s_add_co_u32 s2, s0, 0\n",
     32, 0},
    {"gfx1200",
     ADDC "s_cselect_b32 s0, -1, 0\nglobal_load_b32 v9, v8, s[4:5]\ns_add_co_u32 s2, s0, 0\n", 32,
     1},
};

static void test_rdna(void **state)
{
    char listing[1024];

    (void)state;
    for (size_t i = 0; i < sizeof rdna_cases / sizeof *rdna_cases; i++) {
        const struct rdna_case *const c = &rdna_cases[i];
        wave_size = c->wave_size;
        snprintf(listing, sizeof listing, "%ss_endpgm", c->listing);
        const struct found f = scan(c->target, listing);
        if (f.count != c->findings)
            fail_msg("%s, wave %u: %d found, expected %d in\n%s", c->target, c->wave_size, f.count,
                     c->findings, listing);
    }
    wave_size = 32;
}

/* gfx90a alone: the amount of a shift, in the last of eight registers if those are all. */
static void test_shift(void **state)
{
    (void)state;
    assert_int_equal(scan("gfx90a", "v_lshlrev_b64 v[0:1], v15, v[2:3]\ns_endpgm").count, 1);
    assert_clean("gfx90a", "v_lshlrev_b64 v[0:1], v14, v[2:3]\ns_endpgm");
    assert_clean("gfx942", "v_lshlrev_b64 v[0:1], v15, v[2:3]\ns_endpgm");
    assert_clean("gfx90a", "v_lshlrev_b64 v[0:1], v15, v[2:3]\nv_mov_b32_e32 v16, 0\ns_endpgm");
}

/* gfx90a alone: memory reads a vector ALU's result behind a matrix instruction of f64. */
static void test_between(void **state)
{
    static const char *const rest = "v_mfma_f64_4x4x4f64 v[0:1], v[8:9], v[10:11], v[0:1]\n%s"
                                    "global_store_dword v30, v20, s[2:3]\ns_endpgm";
    char listing[256] = "v_mov_b32_e32 v20, v21\n";
    const size_t n = strlen(listing);

    (void)state;
    snprintf(listing + n, sizeof listing - n, rest, "");
    assert_int_equal(scan("gfx90a", listing).count, 1);
    assert_clean("gfx942", listing);
    snprintf(listing + n, sizeof listing - n, rest, "s_nop 0\n");
    assert_clean("gfx90a", listing);
    assert_clean("gfx90a", "v_mov_b32_e32 v20, v21\nglobal_store_dword v30, v20, s[2:3]\ns_endpgm");
}

/* The pair with so many wait states between, by instructions that have nothing to do with it or,
 * as far as that goes, by one s_nop. */
static void write_pair(const struct pair *p, unsigned states, bool by_nop, char *listing,
                       size_t size)
{
    int n = snprintf(listing, size, "%s\n", p->first);

    while (states) {
        const unsigned here = !by_nop ? 1 : states > 16 ? 16 : states;
        if (by_nop)
            n += snprintf(listing + n, size - (size_t)n, "s_nop %u\n", here - 1);
        else
            n += snprintf(listing + n, size - (size_t)n, "s_add_u32 s90, s91, s92\n");
        states -= here;
    }
    snprintf(listing + n, size - (size_t)n, "%s\ns_endpgm", p->second);
}

static void test_wait_states(void **state)
{
    char listing[2048];

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int by_nop = 0; by_nop < 2; by_nop++) {
            const struct pair *const p = &pairs[i];
            write_pair(p, p->states, by_nop, listing, sizeof listing);
            assert_clean(p->target, listing);
            if (!p->states)
                continue;
            write_pair(p, p->states - 1, by_nop, listing, sizeof listing);
            const struct found f = scan(p->target, listing);
            if (!f.count)
                fail_msg("%s: nothing found with a wait state too few: %s", p->target, listing);
            assert_int_equal(f.rule, QUERN_LINT_TOO_CLOSE);
            assert_int_equal(f.needed, p->states);
            assert_int_equal(f.found, p->states - 1);
            assert_int_equal(f.first, 0);
        }
}

/* What is written anew in between is not read from the first instruction. */
static void test_later_results(void **state)
{
    (void)state;
    assert_clean("gfx90a", "v_mov_b32_e32 v1, v0\n"
                           "global_load_dword v1, v2, s[4:5]\n"
                           "s_waitcnt vmcnt(0)\n"
                           "v_mov_b32_dpp v2, v1 quad_perm:[1,0,3,2]\ns_endpgm");
    /* a matrix instruction between keeps the pipe until a factor is there; a scalar one does not */
    assert_clean("gfx90a", "v_or_b32_e32 v8, v0, v1\n"
                           "v_mfma_f32_4x4x4bf16_1k v[2:5], v[10:11], v[6:7], v[2:5]\n"
                           "v_mfma_f32_4x4x4bf16_1k v[12:15], v[8:9], v[6:7], v[12:15]\n"
                           "s_endpgm");
    assert_int_equal(scan("gfx90a", "v_or_b32_e32 v8, v0, v1\ns_mov_b32 s0, 0\n"
                                    "v_mfma_f32_4x4x4bf16_1k v[12:15], v[8:9], v[6:7], v[12:15]\n"
                                    "s_endpgm")
                         .count,
                     1);
    /* half of a matrix: the rest is still on its way */
    assert_clean("gfx90a", "v_mfma_f32_16x16x16bf16_1k v[2:5], v[8:9], v[6:7], v[2:5]\n"
                           "v_mfma_f32_16x16x16bf16_1k v[4:7], v[14:15], v[20:21], v[2:5]\n"
                           "v_mfma_f32_16x16x16bf16_1k v[4:7], v[16:17], v[18:19], v[4:7]\n"
                           "s_endpgm");
    const struct found f =
        scan("gfx90a", "v_mfma_f32_16x16x16bf16_1k v[2:5], v[8:9], v[6:7], v[2:5]\n"
                       "v_mfma_f32_16x16x16bf16_1k v[4:7], v[14:15], v[20:21], v[2:5]\n"
                       "v_mov_b32_e32 v30, v3\ns_endpgm");
    assert_int_equal(f.count, 1);
    assert_string_equal(f.registers, "v3");
    assert_int_equal(f.found, 1);
}

/* A pair may meet over a branch, in a loop, and on one of two ways only. */
static void test_paths(void **state)
{
    (void)state;
    /* 0 mfma, 4 branch over one instruction, 8 scalar, c the reader: one way has 1 state, one 2 */
    const struct found over =
        scan("gfx942", "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], v[0:3]\n"
                       "s_cbranch_scc0 3\ns_nop 1\ns_nop 1\ns_nop 0\nv_mov_b32_e32 v9, v1\n"
                       "s_endpgm");
    assert_int_equal(over.count, 1);
    assert_int_equal(over.found, 1);
    assert_int_equal(over.second, 20);
    /* 0 the reader, 4 the writer, 8 back to the reader */
    const struct found loop = scan("gfx942", "v_mov_b32_e32 v9, v1\n"
                                             "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[20:21], v[10:11], "
                                             "v[0:3]\ns_cbranch_scc1 65533\ns_endpgm");
    assert_int_equal(loop.count, 1);
    assert_int_equal(loop.first, 4);
    assert_int_equal(loop.second, 0);
    assert_int_equal(loop.found, 1);
    /* behind the end nothing is reached */
    assert_clean("gfx942", "s_branch 2\n"
                           "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], v[0:3]\n"
                           "v_mov_b32_e32 v9, v1\ns_endpgm");
}

/* ---- Waits ----------------------------------------------------------------------------------- */

/* A listing that is sound, and the line without which it is not. */
static const struct wait {
    const char *target, *before, *wait, *too_little, *after;
} waits[] = {
    {"gfx90a", "global_load_dword v1, v2, s[4:5]", "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(1)",
     "v_add_f32_e32 v3, v1, v1"},
    /* in the order of issue: the first of two is there when one is left */
    {"gfx90a", "global_load_dword v1, v2, s[4:5]\nglobal_load_dword v3, v2, s[4:5]",
     "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(2)", "v_mov_b32_e32 v4, v1"},
    {"gfx90a", "global_load_dword v1, v2, s[4:5]\nglobal_store_dword v2, v3, s[4:5]",
     "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(2)", "v_mov_b32_e32 v4, v1"},
    {"gfx1151", "global_load_b32 v1, v2, s[4:5]\nglobal_store_b32 v2, v3, s[4:5]",
     "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(1)", "v_mov_b32_e32 v4, v1"},
    {"gfx1201", "global_load_b32 v1, v2, s[4:5]\nglobal_load_b32 v3, v2, s[4:5]",
     "s_wait_loadcnt 0x1", "s_wait_loadcnt 0x2", "v_mov_b32_e32 v4, v1"},
    {"gfx1201", "global_load_b32 v1, v2, s[4:5]\nds_load_b32 v3, v2", "s_wait_loadcnt_dscnt 0x0",
     "s_wait_loadcnt_dscnt 0x1", "v_mov_b32_e32 v4, v3"},
    {"gfx90a", "ds_read_b32 v1, v2\nds_read_b32 v3, v2", "s_waitcnt lgkmcnt(1)",
     "s_waitcnt lgkmcnt(2)", "v_mov_b32_e32 v4, v1"},
    /* two kinds on one counter, and scalar loads alone: only 0 proves anything */
    {"gfx90a", "ds_read_b32 v1, v2\ns_load_dword s4, s[0:1], 0x0", "s_waitcnt lgkmcnt(0)",
     "s_waitcnt lgkmcnt(1)", "v_mov_b32_e32 v4, v1"},
    {"gfx90a", "s_load_dword s4, s[0:1], 0x0\ns_load_dword s5, s[0:1], 0x4", "s_waitcnt lgkmcnt(0)",
     "s_waitcnt lgkmcnt(1)", "s_add_u32 s6, s4, s4"},
    {"gfx1201", "s_load_b32 s4, s[0:1], 0x0", "s_wait_kmcnt 0x0", "s_wait_dscnt 0x0",
     "s_add_co_u32 s6, s4, s4"},
    /* flat addresses may be LDS's: both counters */
    {"gfx90a", "flat_load_dword v1, v[2:3]", "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_waitcnt vmcnt(0)",
     "v_mov_b32_e32 v4, v1"},
    /* which is in no order on gfx9, and in the order of issue later on */
    {"gfx90a", "flat_load_dword v1, v[2:3]\nflat_load_dword v5, v[2:3]",
     "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_waitcnt vmcnt(1) lgkmcnt(1)", "v_mov_b32_e32 v4, v1"},
    {"gfx1151", "ds_load_b32 v1, v2\nflat_load_b32 v5, v[2:3]", "s_waitcnt lgkmcnt(1)",
     "s_waitcnt lgkmcnt(2)", "v_mov_b32_e32 v4, v1"},
    /* overwritten, not read */
    {"gfx1151", "global_load_b64 v[2:3], v9, s[4:5]", "s_waitcnt vmcnt(0)", "s_nop 0",
     "v_mov_b32_e32 v3, 0"},
    /* LDS at a barrier, by LDS instructions and by loads that go there */
    {"gfx90a", "ds_write_b32 v1, v2", "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)", "s_barrier"},
    {"gfx1201", "ds_store_b32 v1, v2", "s_wait_dscnt 0x0", "s_wait_kmcnt 0x0",
     "s_barrier_signal -1"},
    {"gfx950", "global_load_lds_dword v1, s[4:5]", "s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)",
     "s_barrier"},
    /* both halves of a pair */
    {"gfx1151", "ds_load_b32 v1, v2", "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)",
     "v_dual_mov_b32 v4, v5 :: v_dual_add_f32 v7, v1, v6"},
};

static void test_waits(void **state)
{
    char listing[512];

    (void)state;
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        const struct wait *const w = &waits[i];
        snprintf(listing, sizeof listing, "%s\n%s\n%s\ns_endpgm", w->before, w->wait, w->after);
        assert_clean(w->target, listing);
        snprintf(listing, sizeof listing, "%s\n%s\n%s\ns_endpgm", w->before, w->too_little,
                 w->after);
        const struct found f = scan(w->target, listing);
        if (!f.count)
            fail_msg("%s: nothing found in %s", w->target, listing);
        assert_int_equal(f.rule, QUERN_LINT_OWED);
        assert_int_equal(f.needed, strstr(w->wait, "(1)") || strstr(w->wait, "0x1") ? 1 : 0);
    }
}

/* Loads of one kind may follow each other into a register: they come in their order. */
static void test_loads_in_order(void **state)
{
    (void)state;
    assert_clean("gfx90a", "global_load_dword v1, v2, s[4:5]\nglobal_load_dword v1, v2, s[6:7]\n"
                           "s_waitcnt vmcnt(0)\nv_mov_b32_e32 v3, v1\ns_endpgm");
    assert_int_equal(scan("gfx90a", "s_load_dword s4, s[0:1], 0x0\ns_load_dword s4, s[0:1], 0x4\n"
                                    "s_endpgm")
                         .count,
                     1);
}

/* A wait that only one way to a place has proves nothing there; one that a loop's end has does for
 * its beginning. */
static void test_waits_on_paths(void **state)
{
    (void)state;
    assert_int_equal(scan("gfx942", "global_load_dword v1, v2, s[4:5]\ns_cbranch_scc0 1\n"
                                    "s_waitcnt vmcnt(0)\nv_mov_b32_e32 v3, v1\ns_endpgm")
                         .count,
                     1);
    assert_clean("gfx942", "global_load_dword v1, v2, s[4:5]\ns_waitcnt vmcnt(0)\n"
                           "v_mov_b32_e32 v3, v1\nglobal_load_dword v1, v2, s[4:5]\n"
                           "s_cbranch_scc1 65532\ns_endpgm");
    /* the loop's second round reads what its first one's end has asked for */
    const struct found f = scan("gfx942", "v_mov_b32_e32 v3, v1\nglobal_load_dword v1, v2, s[4:5]\n"
                                          "s_cbranch_scc1 65533\ns_endpgm");
    assert_int_equal(f.count, 1);
    assert_int_equal(f.first, 4);
    assert_int_equal(f.second, 0);
}

/* ---- What cannot be scanned ------------------------------------------------------------------ */

static void test_unread(void **state)
{
    (void)state;
    const struct found unknown = scan("gfx942", "s_nop 0\n\ns_endpgm");
    assert_int_equal(unknown.count, 1);
    assert_int_equal(unknown.rule, QUERN_LINT_UNREAD);
    assert_int_equal(scan("gfx942", "s_setpc_b64 s[4:5]").rule, QUERN_LINT_UNREAD);
    assert_false(lint_knows(target_named("gfx906")));
    assert_false(lint_knows(target_named("gfx1030")));
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Layers whose kernels were too close once: matrix products beside shifts of two words, beside
 * conversions of nibbles, of pairs and of halves; halves of registers that RDNA 3's loads
 * disturb. */
static void test_kernels(void **state)
{
    static const struct {
        const char *target, *problem;
        int m;
    } kernels[] = {
        {"gfx942", "wq=int4 group=32 zero=scaled a=bf16 n=4096 k=4096", 4},
        {"gfx90a", "wq=int4 n=2560 k=9728 a=bf16", 2},
        {"gfx90a", "wq=int4 n=4096 k=4096 a=bf16 layout=ck round=trunc", 8},
        {"gfx90a", "wq=int4 n=2560 k=4096 a=bf16 zero=scaled group=32", 64},
        {"gfx90a", "wq=int4 n=1024 k=2560 a=bf16", 8},
        {"gfx950", "wq=int4 n=4096 k=4096 a=bf16", 4},
        {"gfx942", "wq=nf4 n=4096 k=4096 a=bf16", 4},
        {"gfx1100", "wq=int4 n=4096 k=4096 a=f16", 1},
        {"gfx1100", "op=dequant wq=mxfp4 n=4096 k=4096 c=f32", 1},
        {"gfx1151", "wq=nf4 n=4096 k=4096 a=bf16", 8},
        {"gfx1201", "wq=int4 n=4096 k=4096 a=bf16 zero=u8", 16},
    };

    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct quern_kernel_info info = QUERN_INIT(struct quern_kernel_info);
        const struct quern_problem p = t_problem(kernels[i].problem);
        quern_ctx *const ctx = t_open(kernels[i].target, t_cache, QUERN_JIT_ON);
        const struct quern_disassembler d = quern_ctx_disassembler(ctx);
        quern_op *op;
        if (quern_op_create_range(ctx, &p, kernels[i].m, kernels[i].m, &op) != QUERN_OK)
            fail_msg("%s: %s", kernels[i].problem, quern_last_error()->message);
        assert_int_equal(quern_op_kernel(op, 0, &info), QUERN_OK);
        struct found f = {0};
        struct object object;
        assert_int_equal(object_parse(info.object, info.object_bytes, &object), QUERN_OK);
        const struct object_kernel *const k = object_kernel(&object, info.symbol);
        assert_int_equal(lint_code(object.target, "k", k->wave_size,
                                   object_at(&object, k->entry, k->code_bytes), k->code_bytes, &d,
                                   note_finding, &f),
                         QUERN_OK);
        if (f.count)
            fail_msg("%s, %s, M = %d: %d found, the first at %d and %d: %s", kernels[i].target,
                     kernels[i].problem, kernels[i].m, f.count, (int)f.first, (int)f.second,
                     f.registers);
        object_free(&object);
        quern_op_release(op);
        quern_close(ctx);
    }
}

/* Loads are skipped by one test of a register and their wait by another: whether a path can load
 * and not wait depends on what the tests say of each other. */
static void test_branches_that_agree(void **state)
{
    static const struct {
        const char *between, *second;
        int found;
    } tests[] = {
        {"s_nop 0", "s_cmp_eq_u32 s5, 0\ns_cbranch_scc0 2", 0},
        {"s_nop 0", "s_cmp_lg_u32 s5, 0\ns_cbranch_scc1 2", 0},
        {"s_nop 0", "s_cmp_gt_u32 s5, 0\ns_cbranch_scc1 2", 0},
        {"s_nop 0", "s_cmp_eq_i32 s5, 0\ns_cbranch_scc0 2", 0},
        {"s_nop 0", "s_cmpk_lt_u32 s5, 0x1\ns_cbranch_scc0 2", 0},
        /* below 0 is not 0, either; and 1 is not */
        {"s_nop 0", "s_cmp_gt_i32 s5, 0\ns_cbranch_scc1 2", 1},
        {"s_nop 0", "s_cmp_le_u32 s5, 1\ns_cbranch_scc0 2", 1},
        {"s_nop 0", "s_cmp_eq_u32 s5, 0\ns_cbranch_scc1 2", 1},
        /* another register, also between, another value of the same one, another comparison */
        {"s_cmp_eq_u32 s9, 3\ns_cbranch_scc1 0", "s_cmp_eq_u32 s5, 0\ns_cbranch_scc0 2", 1},
        {"s_nop 0", "s_cmp_eq_u32 s6, 0\ns_cbranch_scc0 2", 1},
        {"s_mov_b32 s5, s8", "s_cmp_eq_u32 s5, 0\ns_cbranch_scc0 2", 1},
        {"s_load_dwordx2 s[4:5], s[8:9], 0x0\ns_waitcnt lgkmcnt(0)",
         "s_cmp_eq_u32 s5, 0\ns_cbranch_scc0 2", 1},
        {"s_nop 0", "s_cmp_eq_u32 s5, 0\ns_add_u32 s8, s8, s9\ns_cbranch_scc0 2", 1},
        {"s_nop 0", "s_cmp_eq_u64 s[4:5], 0\ns_cbranch_scc0 2", 1},
    };

    (void)state;
    for (size_t n = 0; n < sizeof tests / sizeof *tests; n++) {
        char listing[512];
        snprintf(listing, sizeof listing,
                 "s_cmp_eq_u32 s5, 0\ns_cbranch_scc1 1\nglobal_load_dword v1, v2, s[10:11]\n"
                 "%s\n%s\nv_mov_b32_e32 v1, 0\ns_endpgm\ns_waitcnt vmcnt(0)\n"
                 "v_mov_b32_e32 v3, v1\ns_endpgm",
                 tests[n].between, tests[n].second);
        const struct found f = scan("gfx90a", listing);
        if (f.count != tests[n].found)
            fail_msg("%d found, not %d, in %s", f.count, tests[n].found, listing);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_branches_that_agree),
        cmocka_unit_test(test_wait_states),
        cmocka_unit_test(test_rdna),
        cmocka_unit_test(test_between),
        cmocka_unit_test(test_shift),
        cmocka_unit_test(test_later_results),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_loads_in_order),
        cmocka_unit_test(test_waits_on_paths),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_kernels),
    };

    return cmocka_run_group_tests_name("lint", tests, t_cache_make, t_cache_remove);
}
