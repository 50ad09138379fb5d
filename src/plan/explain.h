/* SPDX-License-Identifier: MIT */
/*
 * What `quern explain` says of a kernel, in parts that a family's `explain` calls in this order,
 * with its own lines between them. Each appends whole lines.
 */
#ifndef QUERN_PLAN_EXPLAIN_H
#define QUERN_PLAN_EXPLAIN_H

#include "plan/plan.h"

/* The kernel's name, rows of A, family and shape. */
void explain_begin(const struct plan *p, struct str *out);
/* The same of a kernel that serves every M, and has no rows of its own. */
void explain_begin_any(const struct plan *p, struct str *out);
/* The shape alone: its words in one line, as tuning tables have them, then what each means; both
 * are in the family's table of fields (field.h). */
void explain_shape(const struct plan *p, struct str *out);

/* What multiplies, in the words of `text`; null: in those that go with the plan's products. */
void explain_products(const struct plan *p, const char *text, struct str *out);

/* Grid, LDS and registers. `lds` says what is in LDS; null: the kernel uses none. */
void explain_resources(const struct plan *p, const char *lds, struct str *out);

/* How int4 is paired with A. */
void explain_pairing(const struct plan *p, enum plan_pairing pairing, struct str *out);

/* The model's times, how memory is read, and shapes that were not chosen. */
void explain_end(const struct plan *p, struct str *out);
/* Of op=moe_align, whose kernels serve every M: the model's times of the fewest and the most
 * tokens. */
void explain_end_align(const struct plan *p, struct str *out);

/* The whole of what is said of a kernel whose family has no lines of its own to add: explain_begin,
 * explain_products, explain_resources with this `lds`, explain_end. */
void explain_plain(const struct plan *p, const char *lds, struct str *out);

#endif
