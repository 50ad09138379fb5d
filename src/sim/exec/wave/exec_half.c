/* SPDX-License-Identifier: MIT */
/* 16-bit vector ALU instructions: rows in exec_half.def. */
#define ROWS_FILE "sim/exec/wave/exec_half.def"
#define ROWS_NAME rows_half
#include "sim/exec/wave/exec_rows.h"
