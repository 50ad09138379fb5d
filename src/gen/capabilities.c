/* SPDX-License-Identifier: MIT */
/*
 * The head of a kernel's source says what its processor can do, so that no template asks the
 * compiler for the processor's name, and a new row of src/target/rows.c is all that a processor
 * with known instructions needs.
 */
#include "gen/capabilities.h"
#include "gen/dialects.h"

void gen_capabilities(const struct target *target, struct str *outline)
{
    const unsigned asked = dialects[target->vendor]->asked;

#define CONSTANT(NAME, word, meaning)                                                              \
    if (asked & CAP_##NAME)                                                                        \
        str_addf(outline, "#define %-20s%-6s// %s\n", "HAS_" #NAME,                                \
                 target->capabilities &CAP_##NAME ? "true" : "false", meaning);
    TARGET_CAPABILITIES(CONSTANT)
#undef CONSTANT
    str_add(outline, "\n");
}
