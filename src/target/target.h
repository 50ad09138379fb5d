/* SPDX-License-Identifier: MIT */
/* One row of facts per gfx target. Code asks for a capability, never compares target numbers. */
#ifndef QUERN_TARGET_TARGET_H
#define QUERN_TARGET_TARGET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What instructions a target has (reference: LLVM's AMDGPU feature lists, by compiling each), and
 * what is peculiar to them. */
enum target_capability {
    CAP_DOT2_F32_F16 = 1u << 0,  /* v_dot2_f32_f16 */
    CAP_DOT2_F32_BF16 = 1u << 1, /* v_dot2_f32_bf16 */
    CAP_DOT4_F32_FP8 = 1u << 2,  /* v_dot4_f32_fp8_fp8 */
    CAP_FP8_CVT = 1u << 3,       /* v_cvt_pk_f32_fp8 and its like */
    CAP_FP8_FNUZ = 1u << 4,      /* the fp8 form is FNUZ; without it OCP */
    CAP_WMMA_GFX11 = 1u << 5,    /* WMMA with half-wave duplication */
    CAP_WMMA_GFX12 = 1u << 6,
    CAP_MFMA = 1u << 7,
    CAP_MFMA_BF16_1K = 1u << 8,
    CAP_MFMA_FP8 = 1u << 9,
    CAP_MFMA_WIDE_K = 1u << 10, /* gfx950 forms of twice the K */
    CAP_PK_FMA_F32 = 1u << 11,
    CAP_CVT_PK_BF16 = 1u << 12,
    CAP_ROW_XMASK = 1u << 13, /* DPP row_xmask and v_permlanex16 */
    CAP_ROW_BCAST = 1u << 14, /* DPP row_bcast15 and row_bcast31 */
    CAP_VOPD = 1u << 15,      /* dual issue */
    CAP_AGPR = 1u << 16,
    CAP_DOT2_BF16_BF16 = 1u << 17, /* v_dot2_bf16_bf16 */
    CAP_FLUSHES_HALVES = 1u << 18, /* dots and matrices take 16-bit denormals for zeros */
};

struct target {
    const char *name;      /* "gfx1151" */
    const char *family;    /* "RDNA 3.5" */
    const char *part;      /* the retail part that the figures below describe */
    unsigned elf_machine;  /* EF_AMDGPU_MACH value in e_flags */
    unsigned generation;   /* of the instruction set: 9, 10, 11, 12 */
    unsigned capabilities; /* enum target_capability bits */
    unsigned wave_size;    /* native */
    bool other_wave;       /* the other of 32 and 64 can be chosen */
    bool sramecc, xnack;   /* the feature can be asked for in a target id */
    bool verified;         /* the software GPU runs it */
    unsigned vgprs;        /* per SIMD and lane, AGPRs included */
    unsigned vgpr_granule;
    unsigned max_waves; /* per SIMD */
    unsigned lds_bytes; /* most that one workgroup may have */
    unsigned lds_banks; /* of 4 bytes, for reads; lds.h has the rest */
    unsigned simds;     /* per compute unit */
    unsigned cus;
    unsigned dies; /* that workgroups are dealt out to in turn, each with an L2 of its own */
    double clock_ghz;
    double bandwidth_gbs;
};

/* A parsed target id such as "gfx942:sramecc+:xnack-". */
struct target_id {
    const struct target *target;
    char sramecc, xnack; /* '+', '-' or 0 when not said */
};

size_t target_count(void);
const struct target *target_at(size_t index);

/* The row of a bare processor name, or null. */
const struct target *target_named(const char *name);
/* The row of an EF_AMDGPU_MACH value, or null. */
const struct target *target_of_machine(unsigned elf_machine);

/* QUERN_E_TARGET names the text, what is wrong with it, and the nearest known target. */
quern_status target_parse(const char *text, struct target_id *id);

/* Writes "gfx942:sramecc+:xnack-", features that are not said left out. 64 bytes suffice. */
void target_id_text(const struct target_id *id, char *text, size_t size);

/* Waves per SIMD that registers and LDS allow. vgprs as the kernel descriptor grants them. */
unsigned target_waves_per_simd(const struct target *t, unsigned vgprs, unsigned lds_bytes,
                               unsigned wave_size, unsigned waves_per_workgroup);

#endif
