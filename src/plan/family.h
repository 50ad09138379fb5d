/* SPDX-License-Identifier: MIT */
/* The families of decode kernels, and which of them does a problem. */
#ifndef QUERN_PLAN_FAMILY_H
#define QUERN_PLAN_FAMILY_H

#include "plan/cost_model.h"

struct decode_family {
    enum plan_family id;
    const char *name;
    /* QUERN_E_DECLINED says what of the problem or the target is in the way. */
    quern_status (*accepts)(const struct quern_problem *problem, const struct target *target);
    const struct model_family *model;
    /* Rows of A of the smallest kernel for a plan's problem and target, under what it forces. */
    int (*fewest_rows)(const struct plan *plan);
};

/* Of a normalised problem of op=gemm, for the fewest rows of A. */
const struct decode_family *decode_family_of(const struct quern_problem *problem);

/* The family on matrix units that does the problem too; null: none. */
const struct decode_family *matrix_family_of(const struct quern_problem *problem,
                                             const struct target *target);

/* By its id, not FAMILY_DEQUANT. */
const struct decode_family *decode_family_by(enum plan_family id);

#endif
