/* SPDX-License-Identifier: MIT */
/* Which experts tokens choose, made up for measurements of op=moe and op=moe_align. */
#ifndef TOOLS_CHOICES_H
#define TOOLS_CHOICES_H

#include <quern/tool.h>

/* How likely experts are. EVEN: all alike. ZIPF: by Zipf's law with exponent 1, the first expert
 * twice as likely as the second and three times as likely as the third. Zero, which an option that
 * was left out leaves, is EVEN. */
enum choices_law { CHOICES_EVEN = 1, CHOICES_ZIPF };
#define CHOICES_LAWS "even|zipf"
#define CHOICES_FLAG(to)                                                                           \
    {"choices", FLAG_CHOICE, to, "LAW", "how likely the experts of a mixture are", CHOICES_LAWS}

/*
 * Fills ids[m * top_k], the experts of m tokens: for each token different ones, drawn by the law,
 * the same at every call; then moves them on by `shift`, so that lists of few tokens that are
 * shifted by different numbers name different experts.
 */
void choices_make_up(const struct quern_problem *problem, int64_t m, int64_t shift,
                     enum choices_law law, int32_t *ids);
/* How many experts a list names. */
int64_t choices_distinct(const struct quern_problem *problem, int64_t m, const int32_t *ids);

#endif
