/* SPDX-License-Identifier: MIT */
/*
 * The arguments of a kernel, for whoever launches it: addresses of operands, then numbers.
 *
 * In kernarg order, the same for all kernels of a family:
 *   of base kernels alone, i32: n, k; the group, as base_block_shift, and how many a row has;
 *   whether there is a bias, and whether f32 becomes bf16 by cutting (templates/prelude/layer.hip);
 *   the operands that the problem has, in the order of problem/operands.def: pointers;
 *   m : i32, rows in this launch from `first` on;
 *   first : i32, the first row;  lda, ldc : i64, in elements;
 *   workgroups : i32, of plans with `resident` alone: those that share the rows of W;
 *   slices : i32, of plans that share out their workgroups (plan_shares_out) alone: at most so many
 *   are in use. `workgroups` are then all of the launch, along x, and which slice one of them has
 *   follows from its number and from how many slices are in use (templates/cuda/prelude/moe.cu).
 * A work-item's slice is workgroup id x or y (slices_first); its rows are first + y·m_tile … ,
 * fewer than m_tile at the end of m. Rows of A must start at multiples of plan_row_align bytes; lda
 * may be anything else. Kernels of op=dequant take operands alone, and C is packed.
 * Of op=moe and op=moe_align m are choices, and kernels of the latter take m alone beside operands.
 */
#ifndef QUERN_PLAN_ARGS_H
#define QUERN_PLAN_ARGS_H

#include "plan/plan.h"
#include "problem/operands.h"

enum plan_arg {
#define OPERAND(number, ...) PLAN_ARG_##number,
#include "problem/operands.def"
    PLAN_ARG_M,
    PLAN_ARG_FIRST,
    PLAN_ARG_LDA,
    PLAN_ARG_LDC,
    PLAN_ARG_WORKGROUPS,
    PLAN_ARG_SLICES,
    PLAN_ARG_N,
    PLAN_ARG_K,
    PLAN_ARG_BLOCK_SHIFT,
    PLAN_ARG_BLOCKS,
    PLAN_ARG_HAS_BIAS,
    PLAN_ARG_TRUNCATE,
    PLAN_ARG_COUNT
};

/* Writes the arguments of a plan's kernel, and returns their number. */
size_t plan_args(const struct plan *p, enum plan_arg args[PLAN_ARG_COUNT]);

/* The argument's name in plan.json. */
const char *plan_arg_name(enum plan_arg arg);

static inline bool plan_arg_is_operand(enum plan_arg arg)
{
    return (int)arg < OPERAND_COUNT;
}

/* The argument's size in bytes, which is its alignment, too. */
static inline size_t plan_arg_bytes(enum plan_arg arg)
{
    return plan_arg_is_operand(arg) || arg == PLAN_ARG_LDA || arg == PLAN_ARG_LDC ? 8 : 4;
}

/* Rows of A must start at multiples of so many bytes: 4, but the size of an element where K is such
 * that packed rows do not start at multiples of 4. */
unsigned plan_row_align(const struct quern_problem *problem);

#endif
