/* SPDX-License-Identifier: MIT */
/*
 * Regular expressions over the names of modules, as configurations of quantised models have them:
 * Python's, matched as re.match does, from the name's beginning to anywhere. PCRE2 does the work.
 * It has all that Python's expressions have, except a repeat without a least number, {,n}: that is
 * refused, as PCRE2 releases differ on it.
 */
#ifndef TOOLS_NAME_PATTERN_H
#define TOOLS_NAME_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#define NAME_PATTERN_WHY_BYTES 160

struct name_pattern;

/* Null if the pattern is not understood or memory is short; `why` then has the reason, in words
 * that may follow "the pattern: ". */
struct name_pattern *name_pattern_compile(const char *text, char why[NAME_PATTERN_WHY_BYTES]);
void name_pattern_free(struct name_pattern *p);

/* Whether the name matches. Each item of the pattern that is tried takes one of *budget, since
 * there are patterns that take ages; once it is 0, nothing matches. */
bool name_pattern_match(const struct name_pattern *p, const char *name, uint64_t *budget);

#endif
