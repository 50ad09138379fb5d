/* SPDX-License-Identifier: MIT */
/* What templates are told of a processor, for gen.c: constants in place of macros. */
#ifndef QUERN_GEN_CAPABILITIES_H
#define QUERN_GEN_CAPABILITIES_H

#include "base/str.h"
#include "target/target.h"

/* Appends a line for each capability that templates ask for: HAS_ and its name, true or false. */
void gen_capabilities(const struct target *target, struct str *outline);

#endif
