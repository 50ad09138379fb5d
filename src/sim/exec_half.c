/* SPDX-License-Identifier: MIT */
/* 16-bit vector ALU instructions: rows in half.def. */
#define ROWS_FILE "sim/half.def"
#define ROWS_NAME rows_half
#include "sim/exec_rows.h"
