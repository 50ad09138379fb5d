/* SPDX-License-Identifier: MIT */
// Products of the experts of a layer. `rows` names a choice for each slot, and slots come in
// blocks, each of one expert (quern.h, struct quern_args). A slice of M_TILE slots lies in one
// block.
//
// What follows takes the place of prelude/rows.hip. Nothing that the host put
// into rows, experts and rows_used leads out of A, C or the weights: a slot for no choice reads the
// last row of A, and its results are not stored; a workgroup whose only slot names none leaves.

#define SLOT_OPERANDS                                                                              \
    const u32 *__restrict rows, const u32 *__restrict experts, const u32 *__restrict rows_used,    \
        const float *__restrict routing,
// Of functions that use what follows.
#define SLOT_PARAMETER const u32 *rows, u32 only_choice,
#define SLOT_NAME      rows, only_choice,
// What slot i names. A slice of one slot has loaded it, and knows that it is a choice.
#define CHOICE(i)  (M_TILE == 1 ? only_choice : listed(rows, i))
#define A_ROW(i)   ((M_TILE == 1 ? only_choice : minimum(CHOICE(i), m - 1)) / TOP_K)
#define C_ROW(i)   CHOICE(i)
#define HAS_ROW(i) (M_TILE == 1 || CHOICE(i) < m)
// What the results of a row of C, which is one, are multiplied by.
#define ROUTED(value, row) ((value) * (routing ? routing[row] : 1.0f))

// Element i of `rows` or `experts`. Its place in bytes is a number of 32 bits, which a load takes
// beside the pointer; so a launch has at most 2^30 slots (SLOTS_MAX in src/dispatch/op_launch.c).
DEVICE u32 listed(const u32 *list, u32 i) { return *at_offset(list, i * (u32)sizeof(u32)); }

constexpr u32 ELSEWHERE = ~0u; // an expert that another device has

// Writes zeros to `columns` columns of C, from `column` on, of the rows that a slice's slots name.
template <u32 ITEMS, class ELEMENT>
DEVICE void clear_rows(ELEMENT *c, const u32 *rows, u32 m0, u32 m, u64 ldc, u32 column, u32 columns,
                       u32 item)
{
    for (u32 i = 0; i < M_TILE; i++) {
        const u32 row = listed(rows, m0 + i);
        if (row < m)
            for (u32 at = item; at < columns; at += ITEMS)
                c[row * ldc + column + at] = 0;
    }
}

// For the head of a kernel: its workgroup leaves if its slice is not used, if its only slot names
// no choice, or if its expert is not here; else the pointers to weights are made to point to the
// expert's. WEIGHT_BYTES: of b, of one expert; N0, COUNT: the workgroup's rows of W, of which those
// past the end of W are none.
#define ENTER_EXPERT(WEIGHT_BYTES, N0, COUNT)                                                      \
    const u32 used = *rows_used, expert = listed(experts, slice / SLICES_OF_BLOCK);                \
    const u32 only_choice = M_TILE == 1 ? listed(rows, m0) : 0;                                    \
    asm volatile("" : : "s"(used), "s"(expert), "s"(only_choice)); /* loads that wait together */  \
    if (m0 >= used || (M_TILE == 1 && only_choice >= m))                                           \
        return;                                                                                    \
    if (expert >= EXPERTS) {                                                                       \
        const u32 end = minimum((N0) + (COUNT), N);                                                \
        if (expert == ELSEWHERE)                                                                   \
            clear_rows<WAVES * WAVE>(c, rows, m0, m, ldc, C_COLUMN(N0), C_COLUMN(end - (N0)),      \
                                     item);                                                        \
        return;                                                                                    \
    }                                                                                              \
    b += expert * (u64)(WEIGHT_BYTES);                                                             \
    SCALES_OF_EXPERT(expert);                                                                      \
    BIAS_OF_EXPERT(expert);

#if BIAS
#define BIAS_OF_EXPERT(expert) bias += expert * (u64)N
#else
#define BIAS_OF_EXPERT(expert)
#endif
