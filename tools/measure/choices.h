/* SPDX-License-Identifier: MIT */
/* Which experts tokens choose, made up for measurements of op=moe and op=moe_align. */
#ifndef TOOLS_CHOICES_H
#define TOOLS_CHOICES_H

#include <quern/tool.h>

/*
 * Fills ids[m * top_k], the experts of m tokens: for each token different ones, all equally likely,
 * the same at every call; then moves them on by `shift`, so that lists of few tokens that are
 * shifted by different numbers name different experts.
 */
void choices_make_up(const struct quern_problem *problem, int64_t m, int64_t shift, int32_t *ids);
/* How many experts a list names. */
int64_t choices_distinct(const struct quern_problem *problem, int64_t m, const int32_t *ids);

#endif
