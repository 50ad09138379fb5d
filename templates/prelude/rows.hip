/* SPDX-License-Identifier: MIT */
// The rows of a slice, one after another from `first` on: of A, where past the end of m the last
// one stands in for those that are missing, and of C, which has no such rows. A slice of one row
// never reaches past the end. Where slots name the rows, prelude/moe.hip is in this file's place.

DEVICE bool is_row_of_a(u32 i, u32 m) { return M_TILE == 1 || i < m; }

#define SLOT_OPERANDS
#define SLOT_PARAMETER
#define SLOT_NAME
#define A_ROW(i)           (first + (M_TILE == 1 ? i : minimum(i, m - 1)))
#define C_ROW(i)           (first + i)
#define HAS_ROW(i)         is_row_of_a(i, m)
#define ROUTED(value, row) (value)
