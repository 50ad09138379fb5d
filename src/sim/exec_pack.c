/* SPDX-License-Identifier: MIT */
/* Packed and dot instructions: rows in pack.def. */
#define ROWS_FILE "sim/pack.def"
#define ROWS_NAME rows_pack
#include "sim/exec_rows.h"
