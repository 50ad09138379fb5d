/* SPDX-License-Identifier: MIT */
/* Which arguments a plan's kernel takes: args.h. */
#include "plan/args.h"

#include "plan/base.h"
#include "plan/family.h"

size_t plan_args(const struct plan *p, enum plan_arg args[PLAN_ARG_COUNT])
{
    const struct quern_problem nominal = plan_is_base(p) ? base_nominal(&p->problem) : p->problem;
    const uint32_t operands = p->family->one_buffer ? 1u << OPERAND_C : operands_of(&nominal);
    size_t n = 0;

    for (int i = PLAN_ARG_N; plan_is_base(p) && i <= PLAN_ARG_TRUNCATE; i++)
        args[n++] = (enum plan_arg)i;
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (operands >> i & 1)
            args[n++] = (enum plan_arg)i;
    if (!problem_has_activation(&p->problem)) {
        if (plan_takes_rows(p))
            args[n++] = PLAN_ARG_M;
        return n;
    }
    for (int i = OPERAND_COUNT; i <= PLAN_ARG_SLICES; i++)
        if (i == PLAN_ARG_WORKGROUPS ? p->resident : i != PLAN_ARG_SLICES || plan_shares_out(p))
            args[n++] = (enum plan_arg)i;
    return n;
}

const char *plan_arg_name(enum plan_arg arg)
{
    static const char *const numbers[] = {[PLAN_ARG_M - OPERAND_COUNT] = "m",
                                          [PLAN_ARG_FIRST - OPERAND_COUNT] = "first",
                                          [PLAN_ARG_LDA - OPERAND_COUNT] = "lda",
                                          [PLAN_ARG_LDC - OPERAND_COUNT] = "ldc",
                                          [PLAN_ARG_WORKGROUPS - OPERAND_COUNT] = "workgroups",
                                          [PLAN_ARG_SLICES - OPERAND_COUNT] = "slices",
                                          [PLAN_ARG_N - OPERAND_COUNT] = "n",
                                          [PLAN_ARG_K - OPERAND_COUNT] = "k",
                                          [PLAN_ARG_BLOCK_SHIFT - OPERAND_COUNT] = "block_shift",
                                          [PLAN_ARG_BLOCKS - OPERAND_COUNT] = "blocks",
                                          [PLAN_ARG_HAS_BIAS - OPERAND_COUNT] = "has_bias",
                                          [PLAN_ARG_TRUNCATE - OPERAND_COUNT] = "truncate"};

    return plan_arg_is_operand(arg) ? operand_rows[arg].name
                                    : numbers[(int)arg - (int)OPERAND_COUNT];
}

unsigned plan_row_align(const struct quern_problem *problem)
{
    const unsigned element = dtype_bytes(problem->a);

    return problem->k * element % 4 ? element : 4;
}
