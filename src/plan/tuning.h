/* SPDX-License-Identifier: MIT */
/*
 * The tuning table: shapes that were measured to be the fastest on a GPU, by problem and rows of A.
 * Where it has one, it overrides the model's choice among the same candidates; so a table can make
 * a kernel slow, never wrong. Text, docs/formats.md. A table is immutable once parsed and may be
 * read by any number of threads.
 */
#ifndef QUERN_PLAN_TUNING_H
#define QUERN_PLAN_TUNING_H

#include "base/hash.h"
#include "plan/plan.h"

#define TUNING_BYTES_MAX (1 << 20)

/*
 * Reads a table of `size` bytes for a target. QUERN_E_ARGUMENT with the line's number and what is
 * wrong with it: another version or target, a problem that is none, a shape that is no list of
 * words, the same problem and rows twice. Free with tuning_free.
 */
quern_status tuning_parse(const char *text, size_t size, const struct target *target,
                          struct tuning **out);
/* Where in several tables, one behind another, that for a target stands; 0 bytes: nowhere. */
const char *tuning_find(const char *text, size_t size, const struct target *target, size_t *bytes);

void tuning_free(struct tuning *tuning);

/* The shape for a plan whose fields up to m_tile are set, in the words of plan_shape; null: the
 * table has none. Lives as long as the table. `tuning` may be null. */
const char *tuning_shape(const struct tuning *tuning, const struct plan *plan);

/* Of the table's bytes. */
struct hash128 tuning_hash(const struct tuning *tuning);

#endif
