/* SPDX-License-Identifier: MIT */
/*
 * What MMA-Sim's models of CDNA 2 and CDNA 3 give for random and special inputs.
 *
 * Source: microsoft/MMA-Sim, commit c785138, mmasim/simulator (pairwise_dot, amd_fused_dot_rd_add);
 * Copyright (c) Microsoft Corporation, MIT licence. Its functions were run on the numbers that
 * test_sim_adders.c draws. A digest is FNV-1a, 64 bits, of the bytes of all results, by matrices
 * and rows, with one NaN for all.
 */
#ifndef QUERN_ADDERS_MMA_SIM_H
#define QUERN_ADDERS_MMA_SIM_H

#include <stdbool.h>
#include <stdint.h>

#define MMA_SIM_RESULTS 102400 /* of each form */

static const struct mma_sim_form {
    const char *target, *name;
    unsigned k, bits;
    bool bf16;
    uint64_t digest;
    uint32_t first[16]; /* results */
} mma_sim_forms[] = {
    {"gfx90a",
     "f32_16x16x16f16",
     16,
     16,
     false,
     0x4033b319a53fbef0u,
     {0x42cb5714, 0xc545f76e, 0xc45bee23, 0xc4a6b300, 0xc1bb080e, 0x429b5013, 0xc410bbe7,
      0x7fc00000, 0xc36d3650, 0x7fc00000, 0xc4786e50, 0x45173268, 0xc2f6184a, 0x44851fc3,
      0x43df2e82, 0xc44f8166}},
    {"gfx90a",
     "f32_16x16x16bf16_1k",
     16,
     16,
     true,
     0xecdde434a8bb9113u,
     {0xc68d6143, 0xc99407dc, 0x4ac1670e, 0x46215f9a, 0xc5be1557, 0xc986a9a0, 0xc83f9999,
      0xca0ec572, 0xc4fb86a2, 0x4178e460, 0xe44a8000, 0x49a75cc4, 0xca4eff99, 0x48c150f0,
      0xff648a00, 0x49a6a966}},
    {"gfx90a",
     "f32_16x16x8bf16",
     8,
     16,
     true,
     0x45e4885ae069af1eu,
     {0xc81cd476, 0x471396dc, 0x4658fdb0, 0x432dc5b8, 0xc6be58a0, 0xc7d7d77a, 0x473cc5d9,
      0x43c34fc1, 0x4897c9af, 0x44b19f9f, 0xc6b1dd28, 0x479f30a4, 0xc413f898, 0xc4a989b0,
      0xc89db5b6, 0xc98e423a}},
    {"gfx942",
     "f32_16x16x16_f16",
     16,
     16,
     false,
     0x7d953d2bf89a9899u,
     {0xc3d0ab96, 0xc546018e, 0x43313dcb, 0x457f6539, 0x4504fd46, 0x7f800000, 0x43993f89,
      0x44173ba2, 0x7f800000, 0xc4b9b276, 0x4432148d, 0x44f72509, 0x44947c48, 0x453f5503,
      0x446a4b48, 0x43680dd7}},
    {"gfx942",
     "f32_16x16x16_bf16",
     16,
     16,
     true,
     0x0140f59c8781476cu,
     {0xc8c12c5f, 0xc8d08b92, 0x45efcac7, 0x4902f1da, 0x77690000, 0x47203982, 0x463f5cee,
      0xc9863d98, 0xff087700, 0xc9280c59, 0x479aa3d3, 0x48fba7b0, 0xc81eecfc, 0xf490a600,
      0xc700dcee, 0xc9414775}},
    {"gfx942",
     "f32_16x16x8_xf32",
     8,
     32,
     false,
     0x2284b5d74f26fe3du,
     {0xc489c871, 0xc74d8d20, 0xf324a65e, 0xca8bf1d8, 0xc104ca70, 0xc487893e, 0x46eaa16d,
      0xc9b8ba61, 0x46d305d6, 0x46e52645, 0x418d6bb3, 0xc297ad6e, 0xc8209327, 0xc183f19f,
      0x40b580c7, 0xc7ab9c32}},
};

#endif
