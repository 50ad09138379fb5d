/* SPDX-License-Identifier: MIT */
/*
 * One row of facts per GPU processor, for everybody who plans, generates, compiles, reads, runs or
 * models kernels. Rows stand in rows.c. Outside of this folder nobody asks which processor or which
 * generation of instruction sets a target is: code asks for a capability, or reads a column.
 */
#ifndef QUERN_TARGET_TARGET_H
#define QUERN_TARGET_TARGET_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What instructions a target has, and what is peculiar to them: name, word in lists of features,
 * and what it means. Templates know a capability as HAS_ and its name, which gen/gen.c
 * puts at the head of a source. rows.c says where each is known from.
 */
#define TARGET_CAPABILITIES(X)                                                                     \
    X(DOT2_F32_F16, dot2_f32_f16, "v_dot2_f32_f16")                                                \
    X(DOT2_F32_BF16, dot2_f32_bf16, "v_dot2_f32_bf16")                                             \
    X(DOT2_BF16_BF16, dot2_bf16_bf16, "v_dot2_bf16_bf16")                                          \
    X(DOT4_F32_FP8, dot4_f32_fp8, "v_dot4_f32_fp8_fp8")                                            \
    X(VOPD, vopd, "dual issue")                                                                    \
    X(VOPD_DOT2_F16, vopd_dot2_f16, "dual issue of v_dot2acc_f32_f16, which has a single form")    \
    X(PK_FMA_F32, pk_fma_f32, "v_pk_fma_f32")                                                      \
    X(WMMA_256B, wmma_256b, "WMMA whose factors both halves of a wave hold, 256 bits a lane")      \
    X(WMMA_128B, wmma_128b, "WMMA whose factors the halves of a wave share, 128 bits a lane")      \
    X(MFMA, mfma, "matrix instructions with a pipe of their own")                                  \
    X(MFMA_BF16_1K, mfma_bf16_1k, "those of bf16 with as many k as those of f16")                  \
    X(MFMA_FP8, mfma_fp8, "those of 8-bit floats")                                                 \
    X(MFMA_WIDE_K, mfma_wide_k, "those of twice as many k")                                        \
    X(AGPR, agpr, "accumulation registers")                                                        \
    X(FP8_CVT, fp8_cvt, "v_cvt_pk_f32_fp8 and its like")                                           \
    X(FP8_FNUZ, fp8_fnuz, "8-bit floats are FNUZ, not OCP")                                        \
    X(CVT_SCALEF32, cvt_scalef32, "conversions of small floats with a scale")                      \
    X(CVT_PK_BF16, cvt_pk_bf16, "v_cvt_pk_bf16_f32")                                               \
    X(SDWA, sdwa, "operands that are a byte or a half of a register")                              \
    X(VOP3_LITERAL, vop3_literal, "vector instructions take literals, two scalar registers")       \
    X(ROW_XMASK, row_xmask, "DPP row_xmask, and v_permlanex16")                                    \
    X(ROW_BCAST, row_bcast, "DPP row_bcast15 and row_bcast31")                                     \
    X(DPP_INTERLOCK, dpp_interlock, "DPP reads what the instruction before it wrote")              \
    X(SPLIT_BARRIER, split_barrier, "barriers of a signal and a wait, a counter for LDS alone")    \
    X(FLUSHES_HALVES, flushes_halves, "dots and matrices take 16-bit denormals for zeros")         \
    X(D16_CLOBBERS, d16_clobbers, "a load of half of a register disturbs the other half")          \
    X(MMA_16816, mma_16816, "mma.sync of 16 by 8 results and 16 k, f16 and bf16")                  \
    X(MMA_FP8, mma_fp8, "mma.sync of e4m3 and e5m2")                                               \
    X(CP_ASYNC, cp_async, "cp.async, from global to shared memory past registers")                 \
    X(BULK, bulk, "cp.async.bulk, and mbarriers that count its bytes")                             \
    X(EARLY_LAUNCH, early_launch, "griddepcontrol, for launches that begin before others end")     \
    X(WARPGROUPS, warpgroups, "wgmma and setmaxnreg, of four warps, for this very processor")

enum target_capability_bit {
#define TARGET_BIT(NAME, word, meaning) TARGET_BIT_##NAME,
    TARGET_CAPABILITIES(TARGET_BIT)
#undef TARGET_BIT
        TARGET_CAPABILITY_COUNT
};
enum target_capability {
#define TARGET_CAPABILITY(NAME, word, meaning) CAP_##NAME = 1u << TARGET_BIT_##NAME,
    TARGET_CAPABILITIES(TARGET_CAPABILITY)
#undef TARGET_CAPABILITY
};
_Static_assert(TARGET_CAPABILITY_COUNT <= 32, "capabilities are the bits of an unsigned int");

/* Who makes the GPU. The numbers are places in the tables of vendors.def, which say what is
 * particular to a vendor. */
enum vendor {
#define VENDOR(NAME, name) VENDOR_##NAME,
#include "target/vendors.def"
#undef VENDOR
    VENDOR_COUNT
};

/* What runs kernels for a target without a GPU, and so can tell whether they are right. */
enum target_judge {
    JUDGE_NONE, /* nothing here */
    JUDGE_SIM,  /* the software GPU, which runs the very code object */
    JUDGE_CPU,  /* cpu/, which runs the text of the kernel: what the compiler made of it is not
                   judged */
};

struct target {
    const char *name;      /* "gfx1151", "sm_90": the compiler's name of it, too */
    unsigned vendor;       /* enum vendor */
    const char *family;    /* "RDNA 3.5" */
    const char *part;      /* the retail part that the figures below describe */
    unsigned elf_machine;  /* what code objects have for it in the ELF header's e_flags: AMD's
                            * EF_AMDGPU_MACH, NVIDIA's compute capability (90) */
    unsigned capabilities; /* enum target_capability bits */
    unsigned wave_size;    /* the native one: 32 or 64 */
    bool other_wave;       /* code can be compiled for the other wave size, too */
    bool sramecc, xnack;   /* the feature can be asked for in a target id */
    unsigned clustered;    /* compute units of the part in which clusters of four workgroups that
                            * have one each find room. 0: kernels have no clusters there */
    const char *code_of;   /* another target of which the compiler makes the same code: objects
                            * differ in the processor that they name. Null: there is none */
    unsigned judge;        /* enum target_judge */

    /* What a wave's registers hold at its start, and what instructions do differently from one
     * target to another: for the software GPU and the scan. */
    bool packed_ids;          /* work-item ids start in one register, not in up to three */
    bool trap_ids;            /* workgroup ids start in trap registers, not behind user SGPRs */
    bool architected_scratch; /* hardware knows where scratch memory is; no register holds that */
    bool unified_vgprs;       /* AGPRs are the upper part of the VGPRs' file, not a second file */
    bool keeps_halves;        /* a 16-bit result leaves the other half of its register as it was */
    bool permutes_halves;     /* ds_bpermute reads lanes of its own half of a wave of 64 only */
    bool store_counter;       /* stores have a counter of their own to wait for */
    bool trans_races;         /* a transcendental result can be read before it is there, and a
                               * 64-bit sum can overwrite its own factor (lint/hazard.c) */

    /* The shape of the machine. */
    bool wgp;        /* compute units come in pairs, workgroup processors, which runtimes count */
    bool trans_unit; /* transcendental instructions have a unit beside the vector ALU */
    bool simd_salu;  /* each SIMD has a scalar unit; else the compute unit has one for all */
    bool camps;      /* rows, or grids, of certain strides were reported to meet in few memory
                      * channels */
    unsigned simds;  /* per compute unit */
    unsigned simd_lanes; /* lanes that a SIMD works on in a cycle */
    unsigned vgprs;      /* per SIMD and lane, AGPRs included */
    unsigned vgpr_granule;
    unsigned vgpr_unit; /* kernel descriptors count VGPRs in such units, for waves of native size;
                         * half as large for waves of twice that */
    unsigned max_waves; /* per SIMD */
    unsigned lds_bytes; /* the most that one workgroup may have */
    unsigned lds_banks; /* banks of 4 bytes that reads see; lds.h has the rest */
    bool lds_reads_across; /* the lanes that LDS serves at once in wide reads are no neighbours */
    unsigned cus;
    unsigned dies; /* dies that workgroups are dealt out to in turn, each with an L2 of its own */
    double clock_ghz;
    double bandwidth_gbs;
    unsigned sustained_percent; /* of it that streams of loads were measured to get; 0: no figure */

    /* Assumptions about it that a GPU refuted, a bit for each row of plan/facts.def. 0 in rows.c:
     * plan/facts.c makes rows that have some, of which nothing that those rely on is planned. */
    unsigned refuted;
};

/* Whether the software GPU runs a target's code. */
static inline bool target_simulated(const struct target *t)
{
    return t->judge == JUDGE_SIM;
}

/* All rows, in the order in which they are listed, and their number. A program that defines both
 * itself has other rows, by which tests add a processor. */
extern const struct target target_rows[];
extern const size_t target_row_count;

/* A parsed target id such as "gfx942:sramecc+:xnack-". */
struct target_id {
    const struct target *target;
    char sramecc, xnack; /* '+', '-' or 0 when not said */
};

size_t target_count(void);
const struct target *target_at(size_t index);

/* The row of a bare processor name, or null. */
const struct target *target_named(const char *name);
/* The row of a vendor's elf_machine, or null. */
const struct target *target_of_machine(unsigned vendor, unsigned elf_machine);

/* QUERN_E_TARGET names the text, what is wrong with it, and the nearest known target. */
quern_status target_parse(const char *text, struct target_id *id);

/* Writes "gfx942:sramecc+:xnack-", features that are not said left out. 64 bytes suffice. */
void target_id_text(const struct target_id *id, char *text, size_t size);

/* Waves per SIMD that registers and LDS allow. vgprs as the kernel descriptor grants them. */
unsigned target_waves_per_simd(const struct target *t, unsigned vgprs, unsigned lds_bytes,
                               unsigned wave_size, unsigned waves_per_workgroup);

#endif
