/* SPDX-License-Identifier: MIT */
/*
 * What some targets have and others do not, as bits of FEATURES. A function that needs one stands
 * between `#if HAS(FEATURE)` and `#endif` with NEEDS defined to it; the CPU side compiles them all.
 * Read by both sides.
 */
#ifndef DIFFERENTIAL_FEATURES_H
#define DIFFERENTIAL_FEATURES_H

#define ROW_XMASK  0x01 /* DPP row_xmask and row_share, dpp8, permlane16: RDNA */
#define PERMLANE64 0x02 /* RDNA3 and later */
#define ROW_BCAST  0x04 /* DPP row_bcast and wave_shr, the older names of instructions: gfx9 */
#define SUDOT      0x08 /* dot4 and dot8 with a sign for each operand: RDNA3 and later */
#define SDOT       0x10 /* signed dot2, dot4 and dot8: gfx9 */
#define DOT2_BF16  0x20 /* dot2 of bf16: RDNA3 and later, gfx950 */
#define DOT2_16    0x40 /* dot2 that accumulates in 16 bits: RDNA3 and later */

#define HAS(feature) ((FEATURES & (feature)) == (feature))

#endif
