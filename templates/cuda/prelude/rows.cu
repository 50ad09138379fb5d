/* SPDX-License-Identifier: MIT */
// The rows of a slice, one after another from `first` on: of A, where past the end of m the last
// one stands in for those that are missing, and of C, which has no such rows. Where slots name the
// rows, cuda/prelude/moe.cu is in this file's place.

#define SLOT_OPERANDS
#define SLICES_ARGUMENT
#define SLOT_PARAMETER
#define SLOT_NAME
#define A_ROW(i)      (first + smaller(i, m - 1))
#define C_ROW(i)      (first + (i))
// The row of C that row i's results go to, or NO_ROW, and a row's factor.
#define STORED_ROW(i) ((i) < m ? C_ROW(i) : NO_ROW)
#define ROUTING(row)  1.0f
