/* SPDX-License-Identifier: MIT */
/* 64-bit vector ALU instructions: rows in wide.def. */
#define ROWS_FILE "sim/wide.def"
#define ROWS_NAME rows_wide
#include "sim/exec_rows.h"
