/* SPDX-License-Identifier: MIT */
/* Where a test starts that takes some of very many cases. */
#include "t_explore.h"

#include "base/thread.h"

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

struct part {
    void (*function)(void *user, size_t i);
    void *user;
    size_t first, step;
};

static void call(void *user, size_t turn)
{
    const struct part *const p = user;

    p->function(p->user, p->first + turn * p->step);
}

void t_explore_part(size_t count, unsigned part, void (*function)(void *user, size_t i), void *user)
{
    if (!count)
        return;
    const size_t first = t_explore(part < count ? part : (unsigned)count);
    struct part p = {function, user, first, part};

    parallel_for((count - first + part - 1) / part, 2, call, &p);
}
