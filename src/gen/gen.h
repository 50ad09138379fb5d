/* SPDX-License-Identifier: MIT */
/*
 * Plan → source for the compiler of its target's vendor. Nothing else writes kernel text, and only
 * integers and words of enumerations are ever put into it. Pure functions: thread-safe, never
 * block.
 */
#ifndef QUERN_GEN_GEN_H
#define QUERN_GEN_GEN_H

#include "plan/plan.h"

/*
 * Appends the outline of a kernel's source: the source, but with a line `#include "family/simt_w4"
 * // …` for each template, which has the template's SHA-256. Equal outlines mean equal sources, so
 * outlines, a tenth as long, are what is hashed and compared. QUERN_E_MEMORY if `outline` cannot
 * grow.
 */
quern_status gen_outline(const struct plan *plan, struct str *outline);

/*
 * Appends the whole source of the kernel: constants, prelude, decode, family. The text is a
 * function of (problem, processor, M range, library version) alone. QUERN_E_MEMORY if `source`
 * cannot grow.
 */
quern_status gen_source(const struct plan *plan, struct str *source);

/* Appends the same source, made from the outline of a plan for that target. */
quern_status gen_source_of(const struct target *target, const char *outline, struct str *source);

/* Appends the compiler options of the plan, one per line: everything but the processor. */
void gen_options(const struct plan *plan, struct str *options);

#endif
