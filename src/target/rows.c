/* SPDX-License-Identifier: MIT */
/*
 * The rows: every processor that kernels can be made for, one each. For whoever adds a processor;
 * target.h explains the columns. It is a file of its own so that a test can have other rows.
 */
#include "target/target.h"

/*
 * Sources of the columns
 *
 * elf_machine: EF_AMDGPU_MACH_* of LLVM's AMDGPUUsage; read back from objects of hipRTC 6.4.3.
 *
 * code_of: by comparing the objects of all base kernels whose texts are equal but for the target's
 * name (LLVM 21). gfx1102 and gfx1103, and both and gfx1150, differ.
 *
 * clustered: cuOccupancyMaxActiveClusters on an H200 (2026-11-30): 66 clusters of two workgroups,
 * 30 of four. Of other GPUs with clusters none was at hand.
 *
 * capabilities: by compiling each instruction with clang 22 for each target; FLUSHES_HALVES, of
 * MI200: "Numerical accuracy" in PyTorch's documentation. DPP_INTERLOCK: gfx9 wants two wait states
 * between a vector instruction and DPP that reads its result (LLVM's FeatureNoDataDepHazard).
 * D16_CLOBBERS, of RDNA 3: LLVM's feature d16-write-vgpr32 (llvm/llvm-project, pull request 157795:
 * "VMEM access on hi/lo half could interfere the other half").
 *
 * What a wave starts with: "Initial Kernel Execution State" in LLVM's AMDGPUUsage; vgpr_unit: its
 * table of compute_pgm_rsrc1. keeps_halves: LLVM's zeroesHigh16BitsOfDest.
 *
 * simd_lanes, trans_unit, simd_salu: docs/profile.md. camps: reported of RDNA 3 and 4, and taken to
 * hold for RDNA 2; nothing of the kind is known of CDNA.
 *
 * vgprs, vgpr_granule, max_waves, lds_bytes: LLVM's occupancy for forced register counts (the same
 * compiler); waves are the largest it reports. RDNA's 128 KiB of LDS belong to a pair of compute
 * units (a WGP); a workgroup gets 64.
 *
 * cus, clock_ghz, bandwidth_gbs: the vendor's product page of the part named: boost clock and peak
 * memory bandwidth. The part named for gfx1153 is the one that Ryzen AI product pages give for that
 * chip; not confirmed on one.
 *
 * sustained_percent: MI300X by BabelStream (copy, mul, add and triad 4.11 to 4.26 TB/s: Azure's ND
 * v5, samuel-bohman/AI-benchmarking-guide); MI355X by copies (5.65 TB/s: slides of AMD's Composable
 * Kernel, less sure); Radeon 8060S by reads of 20 GB (205 GB/s: apellegr/Strix-Halo-Models). H200
 * by copies to shared memory that nobody reads (4.66 of 4.8 TB/s:
 * docs/hardware/h200-2026-11-28.md), and NVIDIA's others as that.
 *
 * dies: the accelerator dies (XCD) of MI300X and MI355X, by AMD's white papers of CDNA 3 and 4.
 *
 * lds_banks: what reads see, per compute unit, measured on an MI350X (64), an MI300X, a W7900 and a
 * RX 9070 XT (32): docs/empirical-lds of nod-ai/amd-shark-ai. Others as these of their family; LLVM
 * has 64 for gfx950 too (pull request 220632). lds.c has which lanes meet in them.
 *
 * NVIDIA's rows. elf_machine is the compute capability, read back from cubins of NVRTC 12.9.
 * capabilities: the target notes of mma, cp.async, cp.async.bulk and griddepcontrol in the PTX ISA
 * 8.8, of what plain sm_NN code has. wave_size, max_waves (warps an SM over its four partitions),
 * vgprs (64 K registers an SM over four partitions of 32 lanes), vgpr_granule (256 registers a
 * warp), lds_bytes (most for one block, by opt-in): "Technical Specifications per Compute
 * Capability" in the CUDA C++ Programming Guide 12.9. lds_banks: the same guide. cus (SMs),
 * clock_ghz (boost) and bandwidth_gbs: NVIDIA's data sheet or whitepaper of the part named.
 */
#define CAPS_RDNA2  (CAP_DOT2_F32_F16 | CAP_ROW_XMASK | CAP_DPP_INTERLOCK | CAP_VOP3_LITERAL)
#define CAPS_RDNA3  (CAPS_RDNA2 | CAP_DOT2_F32_BF16 | CAP_DOT2_BF16_BF16 | CAP_VOPD)
#define CAPS_GFX11  (CAPS_RDNA3 | CAP_VOPD_DOT2_F16 | CAP_WMMA_256B | CAP_D16_CLOBBERS)
#define CAPS_FP8    (CAP_DOT4_F32_FP8 | CAP_FP8_CVT)
#define CAPS_GFX12  (CAPS_RDNA3 | CAP_WMMA_128B | CAPS_FP8 | CAP_SPLIT_BARRIER)
#define CAPS_GCN    (CAP_DOT2_F32_F16 | CAP_ROW_BCAST | CAP_SDWA)
#define CAPS_GFX90A (CAPS_GCN | CAP_MFMA | CAP_MFMA_BF16_1K | CAP_PK_FMA_F32 | CAP_AGPR)

#define RDNA(name_, capabilities_)                                                                 \
    .vendor = VENDOR_AMD, .family = name_, .wave_size = 32, .other_wave = true, .simds = 2,        \
    .simd_lanes = 32, .max_waves = 16, .vgpr_unit = 8, .lds_bytes = 65536, .lds_banks = 32,        \
    .wgp = true, .trans_unit = true, .simd_salu = true, .store_counter = true,                     \
    .keeps_halves = true, .camps = true, .capabilities = capabilities_
#define RDNA2                                                                                      \
    RDNA("RDNA 2", CAPS_RDNA2 | CAP_SDWA), SMALL_FILE, .permutes_halves = true,                    \
        .lds_reads_across = true
#define GFX11(name_)                                                                               \
    RDNA(name_, CAPS_GFX11), .packed_ids = true, .architected_scratch = true,                      \
        .permutes_halves = true, .lds_reads_across = true
#define GFX11_0 GFX11("RDNA 3"), .trans_races = true
#define GFX12(name_)                                                                               \
    RDNA(name_, CAPS_GFX12), .packed_ids = true, .architected_scratch = true, .trap_ids = true
#define BIG_FILE   .vgprs = 1536, .vgpr_granule = 24
#define SMALL_FILE .vgprs = 1024, .vgpr_granule = 16
#define GFX9(name_, capabilities_)                                                                 \
    .vendor = VENDOR_AMD, .family = name_, .wave_size = 64, .simds = 4, .simd_lanes = 16,          \
    .lds_reads_across = true, .sramecc = true, .xnack = true, .capabilities = capabilities_
#define GCN(name_, capabilities_)                                                                  \
    GFX9(name_, capabilities_), .max_waves = 10, .vgprs = 256, .vgpr_granule = 4, .vgpr_unit = 4,  \
        .lds_bytes = 65536, .lds_banks = 32
#define CDNA(name_, lds_, banks_, capabilities_)                                                   \
    GFX9(name_, capabilities_), .max_waves = 8, .vgprs = 512, .vgpr_granule = 8, .vgpr_unit = 8,   \
        .lds_bytes = lds_, .lds_banks = banks_, .packed_ids = true, .unified_vgprs = true
#define ARCHITECTED                           .architected_scratch = true
#define PART(part_, cus_, clock_, bandwidth_) DIES(1, part_, cus_, clock_, bandwidth_)
#define DIES(dies_, part_, cus_, clock_, bandwidth_)                                               \
    .dies = dies_, .part = part_, .cus = cus_, .clock_ghz = clock_, .bandwidth_gbs = bandwidth_
#define SUSTAINED(percent_) .sustained_percent = percent_
#define CODE_OF(target_)    .code_of = target_
#define CLUSTERED(units_)   .clustered = units_
/* For SMs of so many warps and KiB of shared memory. */
#define SM(name_, warps_, shared_, capabilities_)                                                  \
    .vendor = VENDOR_NVIDIA, .family = name_, .wave_size = 32, .simds = 4, .simd_lanes = 32,       \
    .vgprs = 512, .vgpr_granule = 8, .vgpr_unit = 8, .max_waves = (warps_) / 4,                    \
    .lds_bytes = (shared_) * 1024, .lds_banks = 32, .trans_unit = true, SUSTAINED(97),             \
    .capabilities = capabilities_
#define CAPS_SM80 (CAP_MMA_16816 | CAP_CP_ASYNC)
#define CAPS_SM89 (CAPS_SM80 | CAP_MMA_FP8)
#define CAPS_SM90 (CAPS_SM89 | CAP_BULK | CAP_EARLY_LAUNCH)
#define SIMULATED .judge = JUDGE_SIM

/* clang-format off */
const struct target target_rows[] = {
    {.name = "gfx906",  .elf_machine = 0x2f, GCN("GCN 5.1", CAPS_GCN),
     PART("Instinct MI60", 64, 1.8, 1024)},
    {.name = "gfx908",  .elf_machine = 0x30,
     GCN("CDNA 1", CAPS_GCN | CAP_MFMA | CAP_AGPR),
     PART("Instinct MI100", 120, 1.502, 1229)},
    {.name = "gfx90a",  .elf_machine = 0x3f,
     CDNA("CDNA 2", 65536, 32, CAPS_GFX90A | CAP_FLUSHES_HALVES),
     SIMULATED, PART("Instinct MI210", 104, 1.7, 1638)},
    {.name = "gfx942",  .elf_machine = 0x4c,
     CDNA("CDNA 3", 65536, 32, CAPS_GFX90A | CAP_FP8_CVT | CAP_FP8_FNUZ | CAP_MFMA_FP8),
     ARCHITECTED, SIMULATED, DIES(8, "Instinct MI300X", 304, 2.1, 5300), SUSTAINED(79)},
    {.name = "gfx950",  .elf_machine = 0x4f,
     CDNA("CDNA 4", 163840, 64, CAPS_GFX90A | CAP_DOT2_F32_BF16 | CAP_FP8_CVT | CAP_MFMA_FP8 |
                                CAP_MFMA_WIDE_K | CAP_CVT_PK_BF16 | CAP_CVT_SCALEF32),
     ARCHITECTED, SIMULATED, DIES(8, "Instinct MI355X", 256, 2.4, 8000), SUSTAINED(71)},
    {.name = "gfx1030", .elf_machine = 0x36, RDNA2, PART("Radeon RX 6900 XT", 80, 2.25, 512)},
    {.name = "gfx1031", .elf_machine = 0x37, RDNA2, PART("Radeon RX 6700 XT", 40, 2.581, 384)},
    {.name = "gfx1100", .elf_machine = 0x41, GFX11_0, BIG_FILE,
     SIMULATED, PART("Radeon RX 7900 XTX", 96, 2.5, 960)},
    {.name = "gfx1101", .elf_machine = 0x46, GFX11_0, BIG_FILE,
     SIMULATED, PART("Radeon RX 7800 XT", 60, 2.43, 624)},
    {.name = "gfx1102", .elf_machine = 0x47, GFX11_0, SMALL_FILE,
     SIMULATED, PART("Radeon RX 7600", 32, 2.655, 288)},
    {.name = "gfx1103", .elf_machine = 0x44, GFX11_0, SMALL_FILE,
     SIMULATED, PART("Radeon 780M", 12, 2.7, 120)},
    {.name = "gfx1150", .elf_machine = 0x43, GFX11("RDNA 3.5"), SMALL_FILE,
     SIMULATED, PART("Radeon 890M", 16, 2.9, 120)},
    {.name = "gfx1151", .elf_machine = 0x4a, GFX11("RDNA 3.5"), BIG_FILE,
     SIMULATED, PART("Radeon 8060S", 40, 2.9, 256), SUSTAINED(80)},
    {.name = "gfx1152", .elf_machine = 0x55, GFX11("RDNA 3.5"), SMALL_FILE,
     SIMULATED, CODE_OF("gfx1150"), PART("Radeon 860M", 8, 3.0, 128)},
    {.name = "gfx1153", .elf_machine = 0x58, GFX11("RDNA 3.5"), SMALL_FILE,
     SIMULATED, CODE_OF("gfx1150"), PART("Radeon 820M", 2, 2.8, 128)},
    {.name = "gfx1200", .elf_machine = 0x48, GFX12("RDNA 4"), BIG_FILE,
     SIMULATED, PART("Radeon RX 9060 XT", 32, 3.13, 320)},
    {.name = "gfx1201", .elf_machine = 0x4e, GFX12("RDNA 4"), BIG_FILE,
     SIMULATED, CODE_OF("gfx1200"), PART("Radeon RX 9070 XT", 64, 2.97, 640)},
    {.name = "sm_80",  .elf_machine = 80, SM("Ampere", 64, 163, CAPS_SM80),
     PART("A100 80GB SXM", 108, 1.41, 2039)},
    {.name = "sm_86",  .elf_machine = 86, SM("Ampere", 48, 99, CAPS_SM80),
     PART("GeForce RTX 3090", 82, 1.695, 936)},
    {.name = "sm_89",  .elf_machine = 89, SM("Ada Lovelace", 48, 99, CAPS_SM89),
     PART("GeForce RTX 4090", 128, 2.52, 1008)},
    {.name = "sm_90",  .elf_machine = 90, SM("Hopper", 64, 227, CAPS_SM90 | CAP_WARPGROUPS),
     CLUSTERED(120),
     .judge = JUDGE_CPU, PART("H200 SXM", 132, 1.98, 4800)},
    {.name = "sm_100", .elf_machine = 100, SM("Blackwell", 64, 227, CAPS_SM90),
     PART("B200 SXM", 148, 1.965, 8000)},
    {.name = "sm_120", .elf_machine = 120, SM("Blackwell", 48, 99, CAPS_SM90),
     PART("GeForce RTX 5090", 170, 2.407, 1792)},
};
/* clang-format on */

const size_t target_row_count = sizeof target_rows / sizeof *target_rows;
