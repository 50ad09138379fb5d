/* SPDX-License-Identifier: MIT */
// Products of the experts of a layer. `choices`, the operand rows, names one for each slot, and
// slots come in blocks, each of one expert (quern.h, struct quern_args). A slice of M_TILE slots
// lies in one block.
//
// What follows takes the place of cuda/prelude/rows.cu: `first` is a slice's first slot, and m the
// number of choices. Nothing that the host put into rows, experts and rows_used leads out of A, C
// or the weights: a slot for no choice reads the last row of A, and its results are not stored.

#define SLOT_OPERANDS                                                                              \
    const u32 *choices, const u32 *experts, const u32 *rows_used, const float *routing,
// The last argument of a kernel that shares its workgroups out by share_out.
#define SLICES_ARGUMENT    , int slices
// Of functions that use what follows.
#define SLOT_PARAMETER     const u32 *choices, const float *routing,
#define SLOT_NAME          choices, routing,
#define C_ROW(i)           ldg_late(choices + first + (i))
#define A_ROW(i)           (smaller(C_ROW(i), m - 1) / TOP_K)
// The row of C that slot i's results go to, or NO_ROW, and a row's factor: each of them a load.
#define STORED_ROW(i)      row_or_none(C_ROW(i), m)
#define ROUTING(row)       ((row) != NO_ROW && routing ? ldg_late(routing + (row)) : 1.0f)

DEVICE u32 row_or_none(u32 row, u32 m) { return row < m ? row : NO_ROW; }

constexpr u32 ELSEWHERE = ~0u; // an expert that another device has

// Writes zeros to columns `from` to `end` of C, of the rows that a slice's slots name.
template <u32 ITEMS, class ELEMENT>
DEVICE void clear_rows(ELEMENT *c, const u32 *choices, u32 first, u32 m, i64 ldc, u32 from, u32 end)
{
    for (u32 i = 0; i < M_TILE; i++) {
        const u32 row = C_ROW(i);
        for (u32 at = from + item(); at < end && row < m; at += ITEMS)
            stg(c + (i64)row * ldc + at, rounded<C_TYPE>(0.0f));
    }
}

// For the head of a kernel: `used` is how many slots are. Which weights are to be loaded is known
// only when the launch in front has ended, so all threads wait for it here.
#define ENTER_SLOTS                                                                                \
    await_launch_in_front(choices, experts, rows_used, routing);                                   \
    const u32 used = ldg_late(rows_used);

// Of a workgroup that is one of `groups` which share the rows of W for a slice, which one it is.
struct share { u32 slice, group, groups; };
// Shares the workgroups of a launch out among the slices that are in use, which are no more than
// there are workgroups. Each slice gets as many: those that are left over would make some slices
// quicker, at the cost of the others, which read from the same memory. No groups: the workgroup has
// no slice.
DEVICE share share_out(u32 workgroup, u32 workgroups, u32 slices)
{
    const u32 groups = slices ? workgroups / slices : 0;
    if (workgroup >= slices * groups)
        return {0, 0, 0};
    return {workgroup % slices, workgroup / slices, groups};
}
// Slices in use, where `used` may be any number and there are at most so many.
DEVICE u32 slices_in_use(u32 used, u32 slices)
{
    return smaller(used / M_TILE + (used % M_TILE != 0), slices);
}

// Behind that, where `slice` is in use: its workgroup leaves if its expert is not here; else the
// pointers to weights are made to point to the expert's. WEIGHT_BYTES: of b, of one expert.
// Workgroup `group` has the GROUP_ROWS rows of W from group * GROUP_ROWS on, and those that lie a
// multiple of STRIDE such groups behind them.
#define ENTER_EXPERT(WEIGHT_BYTES, GROUP_ROWS, STRIDE)                                             \
    const u32 expert = ldg_late(experts + slice / SLICES_OF_BLOCK);                                \
    if (expert >= EXPERTS) {                                                                       \
        for (u32 g = group; expert == ELSEWHERE && g * (GROUP_ROWS) < N; g += (STRIDE))            \
            clear_rows<WAVES * 32>(c, choices, begin, (u32)m, ldc, C_COLUMN(g * (GROUP_ROWS)),     \
                                   C_COLUMN(smaller((g + 1) * (GROUP_ROWS), N)));                  \
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
