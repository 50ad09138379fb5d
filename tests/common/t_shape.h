/* SPDX-License-Identifier: MIT */
/* One number of a kernel's shape, by the name that its family gives it, for tests of several
 * families. */
#ifndef T_SHAPE_H
#define T_SHAPE_H

#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

/* The number behind a word of plan_shape; 0: the plan's family has no such word. */
static inline int t_shape_word(const struct plan *p, const char *name)
{
    char words[PLAN_SHAPE_MAX];

    plan_shape(p, words);
    for (const char *at = words; (at = strstr(at, name)); at++)
        if ((at == words || at[-1] == ' ') && at[strlen(name)] == '=')
            return atoi(at + strlen(name) + 1);
    return 0;
}

#endif
