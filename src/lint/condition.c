/* SPDX-License-Identifier: MIT */
/*
 * Branches that agree. Hand-scheduled kernels test one scalar register more than once: loads ahead
 * of a loop are skipped where it would not be gone through, and so is the loop, further on, by a
 * second test. A path that takes the one and not the other is run by nobody. What is known of a
 * register, from comparisons with constants that a path has branched on, tells such paths.
 */
#include "lint/scan.h"

#include "sim/decode/text.h"

#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static int64_t least(bool is_signed)
{
    return is_signed ? INT32_MIN : 0;
}

static int64_t most(bool is_signed)
{
    return is_signed ? INT32_MAX : UINT32_MAX;
}

/* The values for which a comparison holds: false if it is none with a constant. Of "not equal"
 * those for which it does not, with *inverted set. */
static bool read_comparison(const struct lint_insn *i, struct lint_values *v, bool *inverted)
{
    struct text_insn t;
    struct text_register r;
    char *end;

    if (!begins(i->text, "s_cmp") || !text_split(i->text, &t) || t.count != 2)
        return false;
    const bool short_constant = begins(t.mnemonic, "s_cmpk_");
    const char *const how = t.mnemonic + (short_constant ? 7 : 6);
    const bool is_signed = strlen(how) == 6 && !strcmp(how + 2, "_i32");
    const long long c = strtoll(t.operands[1], &end, 0);
    if ((!is_signed && (strlen(how) != 6 || strcmp(how + 2, "_u32") != 0)) || *end ||
        end == t.operands[1] || c < 0 || c > (short_constant ? INT16_MAX : INT32_MAX) ||
        !text_register(t.operands[0], &r) || r.file != FILE_SGPR || r.count != 1)
        return false;
    *v = (struct lint_values){.reg = (uint16_t)r.index,
                              .is_signed = is_signed,
                              .low = least(is_signed),
                              .high = most(is_signed)};
    *inverted = begins(how, "lg");
    if (begins(how, "eq") || *inverted)
        v->low = v->high = c;
    else if (begins(how, "lt") || begins(how, "le"))
        v->high = c - begins(how, "lt");
    else if (begins(how, "gt") || begins(how, "ge"))
        v->low = c + begins(how, "gt");
    else
        return false;
    v->known = true;
    return true;
}

/* Scalar instructions that leave the result of a comparison as it is. */
static bool keeps_condition(const struct lint_insn *i)
{
    static const char *const kept[] = {"s_nop",   "s_mov_b",   "s_cmov",  "s_cselect",
                                       "s_mul_i", "s_setprio", "s_delay", "s_barrier"};

    for (size_t n = 0; n < sizeof kept / sizeof *kept; n++)
        if (begins(i->text, kept[n]))
            return true;
    return !(i->kinds & LINT_SALU);
}

static bool writes(const struct lint_insn *i, unsigned reg)
{
    const struct lint_range r = {(uint16_t)(LINT_SGPR + reg), 1};

    for (size_t d = 0; d < i->def_count; d++)
        if (lint_overlap(i->defs[d], r))
            return true;
    return begins(i->text, "s_movrel");
}

struct lint_test lint_test_of(const struct lint_scan *s, size_t first, size_t branch)
{
    const char *const text = s->insns[branch].text;
    struct lint_test t = {0};
    bool inverted;

    if (!begins(text, "s_cbranch_scc"))
        return t;
    size_t at = branch;
    do {
        if (at-- == first)
            return t;
    } while (keeps_condition(&s->insns[at]));
    if (!read_comparison(&s->insns[at], &t.values, &inverted))
        return t;
    for (size_t i = at; i < branch; i++)
        t.values.known &= !writes(&s->insns[i], t.values.reg);
    t.if_outside = inverted != begins(text, "s_cbranch_scc0");
    return t;
}

void lint_forget(struct lint_values *f, const struct lint_insn *i)
{
    f->known &= !writes(i, f->reg);
}

/* What is known of the test's register; all values where it is nothing. */
static struct lint_values known_of(const struct lint_values *f, const struct lint_values *v)
{
    const bool same = f->known && f->reg == v->reg;

    /* negative numbers are great ones without a sign; a single constant has none here */
    if (same && (f->is_signed == v->is_signed || v->low == v->high ||
                 (f->low >= 0 && f->high <= INT32_MAX)))
        return *f;
    return (struct lint_values){.reg = v->reg,
                                .known = true,
                                .is_signed = v->is_signed,
                                .low = least(v->is_signed),
                                .high = most(v->is_signed)};
}

bool lint_take(struct lint_values *f, const struct lint_test *t, bool taken)
{
    const struct lint_values *const v = &t->values;

    if (!v->known)
        return true;
    struct lint_values is = known_of(f, v);
    if (taken != t->if_outside) { /* the register is one of these values */
        is.low = is.low > v->low ? is.low : v->low;
        is.high = is.high < v->high ? is.high : v->high;
    } else { /* … it is none of them */
        if (v->low <= is.low && v->high >= is.low)
            is.low = v->high + 1;
        if (v->high >= is.high && v->low <= is.high)
            is.high = v->low - 1;
    }
    if (is.low == least(is.is_signed) && is.high == most(is.is_signed))
        is.known = false;
    is.is_signed &= is.low < 0 || is.high > INT32_MAX;
    *f = is;
    return is.low <= is.high;
}
