/* SPDX-License-Identifier: MIT */
/* What the families for NVIDIA share (nvidia.c). Pure functions. */
#ifndef QUERN_PLAN_NVIDIA_H
#define QUERN_PLAN_NVIDIA_H

#include "plan/field.h"

/* Whether 4-bit weights are decoded by a table of all pairs of codes, as int4 is not. */
bool nvidia_has_table(const struct quern_problem *q);
/* The template that makes pairs of numbers of codes, by that table or by masks, or that says that
 * weights are numbers. */
const char *nvidia_template_of_pairs(const struct plan *p);
/* The template that says which rows a slice has. */
const char *nvidia_template_of_rows(const struct plan *p);

/* Bits of a weight: 4, 8 or 16. */
unsigned nvidia_weight_bits(const struct quern_problem *q);
/* Bytes of a block's scale, or of its code where scales are nested; 0: there are no blocks. */
unsigned nvidia_scale_bytes(const struct quern_problem *q);
/* Likewise of its zero point; 0: there is none. */
unsigned nvidia_zero_bytes(const struct quern_problem *q);
/* Bytes of a layer: its packed weights, scales and zero points. */
int64_t nvidia_weight_bytes(const struct quern_problem *q);

/* QUERN_E_DECLINED with a sentence for layouts, groups, sizes and roundings without a kernel. */
quern_status nvidia_accepts(const struct quern_problem *q, const struct target *t);

/* Of shared memory for the 256 values of nested scales; 0 for others. */
int64_t nvidia_codes_bytes(const struct quern_problem *q);
/* Of a table of the sixteen values with a copy for each lane, and of those. */
int64_t nvidia_values_bytes(const struct quern_problem *q);

/* Bytes of shared memory that a launch asks for, where its workgroups use so many. Of workgroups
 * that share themselves out among slices some have no slice and end at once. If two fitted on a
 * multiprocessor, a launch that begins early could have two there and none elsewhere, and take
 * twice as long; so these ask for more than half. */
uint32_t nvidia_shared_bytes(const struct plan *p, int64_t used);

/* Of struct plan_template and struct plan_field: whether weights are codes, in blocks. */
bool nvidia_has_blocks(const struct plan *p);

/* Likewise: whether weights are e4m3 with a scale for each 128 by 128 of them; whether sums of
 * blocks are scaled, of codes or of e4m3. */
bool nvidia_in_blocks_of_128(const struct plan *p);
bool nvidia_has_scales(const struct plan *p);

/* Rows of the families' fields: weights, scales and types; what prelude/plain asks of weights that
 * are numbers; and of the grid and shared memory. */
extern const struct plan_field nvidia_fields[], nvidia_number_fields[], nvidia_grid_fields[];

#endif
