/* SPDX-License-Identifier: MIT */
/* The instruction tables of the files of exec/; each ends with a row without a name. */
#ifndef QUERN_SIM_TABLES_H
#define QUERN_SIM_TABLES_H

#include "sim/exec/wave/exec.h"

extern const struct sim_row rows_valu[];    /* 32-bit vector ALU, conversions */
extern const struct sim_row rows_wide[];    /* 64-bit, carries, f64 */
extern const struct sim_row rows_hand[];    /* with vector code of their own */
extern const struct sim_row rows_trans[];   /* reciprocals, roots, exponentials */
extern const struct sim_row rows_dots[];    /* dots of floats */
extern const struct sim_row rows_half[];    /* 16-bit */
extern const struct sim_row rows_gfx9[];    /* of gfx9, and 8-bit floats */
extern const struct sim_row rows_blocks[];  /* 32 elements a lane (gfx950) */
extern const struct sim_row rows_index[];   /* registers by an index (gfx9) */
extern const struct sim_row rows_carry[];   /* with a lane mask as second result */
extern const struct sim_row rows_pack[];    /* packed and dot */
extern const struct sim_row rows_compare[]; /* v_cmp, v_cmpx */
extern const struct sim_row rows_cross[];   /* lane crossing */
extern const struct sim_row rows_scalar[];  /* scalar ALU */
extern const struct sim_row rows_flow[];    /* branches, waits, scalar memory */
extern const struct sim_row rows_memory[];  /* global, flat, scratch, buffer */
extern const struct sim_row rows_movrel[];  /* registers by number */
extern const struct sim_row rows_lds[];
extern const struct sim_row rows_matrix[];
extern const struct sim_row rows_direct[]; /* loads straight to LDS (gfx9) */
extern const struct sim_row rows_mfma[];   /* matrices of gfx9 … */
extern const struct sim_row rows_smfmac[]; /* … and sparse ones */

extern const struct sim_bodies sim_bodies; /* all of them */

#endif
