/* SPDX-License-Identifier: MIT */
/*
 * The head of a kernel's source says what its processor can do, so that no template asks the
 * compiler for the processor's name, and a new row of src/target/rows.c is all that a processor
 * with known instructions needs.
 */
#include "gen/capabilities.h"

/* Those that any template asks for; a test reads the templates and compares. */
#define ASKED                                                                                      \
    (CAP_MFMA | CAP_MFMA_WIDE_K | CAP_FP8_CVT | CAP_FP8_FNUZ | CAP_CVT_SCALEF32 |                  \
     CAP_CVT_PK_BF16 | CAP_SDWA | CAP_VOP3_LITERAL | CAP_ROW_XMASK | CAP_DPP_INTERLOCK |           \
     CAP_SPLIT_BARRIER)

void gen_capabilities(const struct target *target, struct str *outline)
{
#define CONSTANT(NAME, word, meaning)                                                              \
    if (ASKED & CAP_##NAME)                                                                        \
        str_addf(outline, "#define %-20s%-6s// %s\n", "HAS_" #NAME,                                \
                 target->capabilities &CAP_##NAME ? "true" : "false", meaning);
    TARGET_CAPABILITIES(CONSTANT)
#undef CONSTANT
    str_add(outline, "\n");
}
