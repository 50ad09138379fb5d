/* SPDX-License-Identifier: MIT */
/* Base bundles that a test makes itself, and contexts that take them for those of the library. */
#ifndef T_BASE_H
#define T_BASE_H

#include "dispatch/dispatch.h"

struct t_base {
    char *directory;   /* of its own: base/TARGET.qkb is in it, and the cache that it was made in */
    char path[1024];   /* of the bundle */
    char beside[1024]; /* a name for a worker, beside which the bundle is looked for */
    struct base_shipped shipped; /* what a library that is built with the bundle has of it */
};

/* Makes the bundle of the base kernels of some layers, of kernels=base, as tools/base.py does;
 * `version` is what it says it is of. Everything fails the test on trouble. */
void t_base_make(struct t_base *b, const char *target, const char *const *layers, size_t count,
                 const char *version);
void t_base_remove(struct t_base *b);

/* Has a context, which has looked for no kernel yet, take the bundle for its library's. *b must
 * outlive it. */
void t_base_give(quern_ctx *ctx, const struct t_base *b);

#endif
