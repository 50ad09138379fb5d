/* SPDX-License-Identifier: MIT */
/*
 * Tables of text about a target, one of each kind: "quern-KIND 1 GFX" on the first line, then a
 * line for each entry, with fields between " | ". Empty lines and those that begin with # say
 * nothing.
 */
#ifndef QUERN_PLAN_TEXT_TABLE_H
#define QUERN_PLAN_TEXT_TABLE_H

#include "target/target.h"

/* Gets a line, which it may write to, and its number. */
typedef quern_status (*table_line_fn)(void *user, char *line, int number);
/* Calls `fn` for each entry of a table. QUERN_E_ARGUMENT for one of more than `most` bytes, with a
 * NUL, or with another first line; or what `fn` returned. */
quern_status table_read(const char *kind, const char *text, size_t size, size_t most,
                        const struct target *target, table_line_fn fn, void *user);
/* Cuts the text before the next " | " off `*rest`, or all of it if there is none. Null: *rest
 * is null. */
char *table_field(char **rest);
/* Whether a text is digits, or digits, a point and digits, whatever the locale's sign for
 * decimals is. */
bool table_number(const char *text);
/* Finds a target's table of a kind in a text of several, one behind another: its begin, and its
 * length in `*bytes`; 0 bytes: there is none. */
const char *table_find(const char *kind, const char *text, size_t size, const struct target *target,
                       size_t *bytes);

#endif
