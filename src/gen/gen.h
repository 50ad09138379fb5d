/* SPDX-License-Identifier: MIT */
/* Plan → HIP source. Only integers and enum words are ever substituted into a template. */
#ifndef QUERN_GEN_GEN_H
#define QUERN_GEN_GEN_H

#include "plan/plan.h"

/* Appends the whole source of the kernel: prelude, constants block, decode, family. The text is a
 * function of the plan alone. */
quern_status gen_source(const struct plan *plan, struct str *source);

/* Appends the compiler options of the plan, one per line: everything but the processor. */
void gen_options(const struct plan *plan, struct str *options);

#endif
