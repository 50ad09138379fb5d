/* SPDX-License-Identifier: MIT */
/* 32-bit vector ALU instructions and conversions: rows in valu.def. */
#define ROWS_FILE "sim/valu.def"
#define ROWS_NAME rows_valu
#include "sim/exec_rows.h"
