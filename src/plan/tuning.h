/* SPDX-License-Identifier: MIT */
/*
 * The tuning table: shapes that were measured to be the fastest on a GPU, by problem and rows of A.
 * Where it has a shape, that overrides the model's choice among the same candidates; so a table can
 * make a kernel slow, never wrong. docs/formats.md describes its text. A table is immutable once
 * parsed and may be read by any number of threads.
 */
#ifndef QUERN_PLAN_TUNING_H
#define QUERN_PLAN_TUNING_H

#include "base/hash.h"
#include "plan/plan.h"

#define TUNING_BYTES_MAX (1 << 20)

/*
 * Reads a table of `size` bytes for a target. QUERN_E_ARGUMENT with the line's number and what is
 * wrong with it: another version or target, a text that is no problem, a shape that is no list of
 * words, the same problem and rows twice. Free with tuning_free.
 */
quern_status tuning_parse(const char *text, size_t size, const struct target *target,
                          struct tuning **out);
void tuning_free(struct tuning *tuning);

/* The shape for a plan whose fields up to m_tile are set, in the words of plan_shape; null: the
 * table has none. Lives as long as the table. `tuning` may be null. */
const char *tuning_shape(const struct tuning *tuning, const struct plan *plan);

/* The hash of the table's text. */
struct hash128 tuning_hash(const struct tuning *tuning);

#endif
