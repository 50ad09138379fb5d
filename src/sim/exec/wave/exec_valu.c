/* SPDX-License-Identifier: MIT */
/* 32-bit vector ALU instructions and conversions: rows in exec_valu.def. */
#define ROWS_FILE "sim/exec/wave/exec_valu.def"
#define ROWS_NAME rows_valu
#include "sim/exec/wave/exec_rows.h"
