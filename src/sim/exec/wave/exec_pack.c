/* SPDX-License-Identifier: MIT */
/* Packed and dot instructions: rows in exec_pack.def. */
#define ROWS_FILE "sim/exec/wave/exec_pack.def"
#define ROWS_NAME rows_pack
#include "sim/exec/wave/exec_rows.h"
