/* SPDX-License-Identifier: MIT */
/* Where a test starts that takes some of very many cases. */
#include "t_explore.h"

#include <stdlib.h>
#include <sys/random.h>

unsigned t_explore(unsigned bound)
{
    unsigned number = 0;

    /* Of a few bytes getrandom gives all or, on a system without it, none: then it stays 0. */
    if (getenv("EXPLORE") && getrandom(&number, sizeof number, 0) != sizeof number)
        number = 0;
    return number % bound;
}
