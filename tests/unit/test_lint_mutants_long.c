/* SPDX-License-Identifier: MIT */
/* test_lint_mutants.c with every family on every kind of target: hundreds of kernels, as far as
 * time goes (t_explore.h). */
#include <stdlib.h>

__attribute__((constructor)) static void take_all(void)
{
    setenv("T_MUTANTS", "all", 1);
}

#include "test_lint_mutants.c"
