/* SPDX-License-Identifier: MIT */
/* The table of families. */
#include "plan/family.h"

/* No two of the same units take the same problem. */
static const struct family *const families[] = {
    &family_dequant, &family_simt_w4,  &family_simt_int4, &family_simt_skinny,
    &family_mma_w4,  &family_mma_int4, &family_mma_tile};

const struct family *family_of(const struct quern_problem *problem, const struct target *target,
                               enum plan_units units)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i]->units == units && families[i]->takes(problem, target))
            return families[i];
    return NULL;
}
