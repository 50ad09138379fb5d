/* SPDX-License-Identifier: MIT */
/* Telling whoever asked for a scan what was found, in the words of tool.h. */
#include "lint/scan.h"

#include <stdio.h>

static void name_registers(struct lint_range r, char *text, size_t size)
{
    const char file = r.first >= LINT_AGPR ? 'a' : r.first >= LINT_VGPR ? 'v' : 's';
    const unsigned base = r.first >= LINT_AGPR ? LINT_AGPR : r.first >= LINT_VGPR ? LINT_VGPR : 0;
    const unsigned first = r.first - base;

    if (!r.count)
        snprintf(text, size, "LDS");
    else if (r.first >= LINT_HARDWARE)
        snprintf(text, size, "hwreg(%d)", r.first - LINT_HARDWARE);
    else if (!base && r.first >= LINT_VCC)
        snprintf(text, size, "%s",
                 r.first / 2 == LINT_VCC / 2    ? "vcc"
                 : r.first / 2 == LINT_EXEC / 2 ? "exec"
                 : r.first == LINT_M0           ? "m0"
                                                : "a named register");
    else if (r.count == 1)
        snprintf(text, size, "%c%u", file, first);
    else
        snprintf(text, size, "%c[%u:%u]", file, first, first + r.count - 1);
}

void lint_report(const struct lint_scan *s, enum quern_lint_rule rule, const char *what,
                 size_t first, size_t second, struct lint_range registers, unsigned needed,
                 unsigned found)
{
    const struct lint_insn *const a = &s->insns[first], *const b = &s->insns[second];
    char named[24];

    name_registers(registers, named, sizeof named);
    s->fn(s->user, &(struct quern_lint_finding){.size = sizeof(struct quern_lint_finding),
                                                .rule = rule,
                                                .kernel = s->kernel,
                                                .what = what,
                                                .registers = named,
                                                .first = a->offset,
                                                .second = b->offset,
                                                .first_text = a->text,
                                                .second_text = b->text,
                                                .needed = needed,
                                                .found = found});
}
