/* SPDX-License-Identifier: MIT */
/*
 * Plan → HIP source. Nothing else writes kernel text, and only integers and words of enumerations
 * are ever put into it. Pure functions: thread-safe, never block.
 */
#ifndef QUERN_GEN_GEN_H
#define QUERN_GEN_GEN_H

#include "plan/plan.h"

/*
 * Appends the whole source of the kernel: constants, prelude, decode, family. The text is a
 * function of (problem, processor, M range, library version) alone. QUERN_E_MEMORY if `source`
 * cannot grow.
 */
quern_status gen_source(const struct plan *plan, struct str *source);

/* Appends the compiler options of the plan, one per line: everything but the processor. */
void gen_options(const struct plan *plan, struct str *options);

#endif
