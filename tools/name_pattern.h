/* SPDX-License-Identifier: MIT */
/*
 * Regular expressions over the names of modules, as configurations of quantised models have them:
 * Python's, and a match is one of re.match, from the name's beginning to anywhere.
 *
 * Known are characters, `.`, classes and \d \w \s, groups (named ones too), alternatives, repeats
 * (greedy or not, which makes no difference to whether there is a match), ^ $ \b \B \A \Z, and
 * looking ahead. What else Python has (looking behind, references to groups, flags …) is refused.
 */
#ifndef TOOLS_NAME_PATTERN_H
#define TOOLS_NAME_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

struct name_pattern;

/* Null if the pattern is not understood or memory is short; *why then says what it has. */
struct name_pattern *name_pattern_compile(const char *text, const char **why);
void name_pattern_free(struct name_pattern *p);

/* Whether the name matches. Each step is taken from *budget, since there are patterns that take
 * ages; one that would need much of the stack takes all of it. Once it is 0, nothing matches. */
bool name_pattern_match(const struct name_pattern *p, const char *name, uint64_t *budget);

#endif
