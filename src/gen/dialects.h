/* SPDX-License-Identifier: MIT */
/* How the source for a vendor's compiler is written, for whoever adds a vendor. */
#ifndef QUERN_GEN_DIALECTS_H
#define QUERN_GEN_DIALECTS_H

#include "gen/gen.h"
#include "gen/templates.h"

struct dialect {
    const struct template_file *templates; /* ends with one without a name */
    unsigned asked;                        /* capabilities (CAP_…) that any template asks for */
    /* Appends the compiler's options for a plan, one per line: all but the target's name. */
    void (*options)(const struct plan *plan, struct str *options);
};

/* The dialects, by enum vendor; null ends the list (dialects.c). */
extern const struct dialect *const dialects[];

#define VENDOR(NAME, name) extern const struct dialect dialect_##name;
#include "target/vendors.def"
#undef VENDOR

#endif
