/* SPDX-License-Identifier: MIT */
/* 64-bit vector ALU instructions: rows in exec_wide.def. */
#define ROWS_FILE "sim/exec/wave/exec_wide.def"
#define ROWS_NAME rows_wide
#include "sim/exec/wave/exec_rows.h"
