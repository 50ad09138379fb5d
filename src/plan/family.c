/* SPDX-License-Identifier: MIT */
/* Finding the family of a problem among those of the target's vendor. */
#include "plan/family.h"

const struct family *family_of(const struct quern_problem *problem, const struct target *target,
                               enum plan_units units)
{
    for (const struct family *const *f = families[target->vendor]; *f; f++)
        if ((*f)->units == units && (*f)->takes(problem, target))
            return *f;
    return NULL;
}

int64_t plan_registers(const struct plan *p)
{
    return p->family->registers ? p->family->registers(p) : 0;
}
