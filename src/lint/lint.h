/* SPDX-License-Identifier: MIT */
/*
 * The scan of a code object for what silicon does not forgive: two instructions too close to each
 * other where the hardware has no interlock, and registers that a load still owes when they are
 * read or overwritten. It follows every path through a kernel's branches and loops; nothing is run.
 * For `quern lint`, and for whoever is about to store an object.
 *
 * What it knows, of gfx90a, gfx942, gfx950, gfx11 and gfx12: pairs of instructions (hazard.c),
 * scalar registers that are read stale (stale.c), and counters (owed.c). Other targets are not
 * scanned, which is said.
 */
#ifndef QUERN_LINT_LINT_H
#define QUERN_LINT_LINT_H

#include "object/object.h"

#include <quern/tool.h>

/* The version of the rules, which entries of the cache carry: raised with every change of what is
 * found. An object that has passed other rules is scanned again; a refusal stays one, whichever
 * rules made it, so that all hosts go on to the same candidate. */
#define LINT_RULES 7

/* Whether objects for the target can be scanned. */
bool lint_knows(const struct target *target);

/* Scans every kernel of a parsed object; as quern_lint. */
quern_status lint_object(const struct object *object, const struct quern_disassembler *disassembler,
                         quern_lint_fn fn, void *user);

/* Scans one kernel's code, for whoever has no object around it. `name` is for reports. */
quern_status lint_code(const struct target *target, const char *name, unsigned wave_size,
                       const void *code, size_t bytes,
                       const struct quern_disassembler *disassembler, quern_lint_fn fn, void *user);

#endif
