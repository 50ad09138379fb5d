/* SPDX-License-Identifier: MIT */
/*
 * Jumps too long for a branch. Compilers and Tensile's assembly compute where they lead with scalar
 * instructions right in front of them, from the program counter and constants: s_getpc_b64, sums,
 * s_setpc_b64. Reading these few makes such a jump a branch like any other; where it cannot be read
 * it stays one that leads nobody knows where.
 */
#include "lint/scan.h"

#include "sim/decode/text.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 8, SGPRS = 106 };

/* Scalar registers that hold what these instructions computed. */
struct values {
    uint32_t of[SGPRS];
    bool known[SGPRS];
    uint32_t carry;
};

static bool is_mnemonic(const struct lint_insn *i, const char *name)
{
    const size_t n = strlen(name);

    return !strncmp(i->text, name, n) && i->text[n] == ' ';
}

/* The number of a scalar register or, of a pair, of its first; -1: it is none. */
static int register_of(const char *operand)
{
    struct text_register r;

    return text_register(operand, &r) && r.file == FILE_SGPR && r.index + r.count <= SGPRS
               ? (int)r.index
               : -1;
}

static bool value_of(const struct values *v, const char *operand, uint32_t *value)
{
    const int reg = register_of(operand);
    char *end;

    if (reg >= 0) {
        *value = v->of[reg];
        return v->known[reg];
    }
    *value = (uint32_t)strtoll(operand, &end, 0);
    return end != operand && !*end;
}

/* One instruction of the sum: false where it is none that is known here. */
static bool compute(struct values *v, const struct lint_insn *i)
{
    struct text_insn t;
    uint32_t a = 0, b = 0;

    if (!text_split(i->text, &t) || t.count < 2)
        return false;
    const int to = register_of(t.operands[0]);
    if (to < 0 || !value_of(v, t.operands[1], &a) ||
        (t.count > 2 && !value_of(v, t.operands[2], &b)))
        return false;
    const char *const m = t.mnemonic;
    const bool carries = !strcmp(m, "s_addc_u32") || !strcmp(m, "s_add_co_ci_u32");
    const bool borrows = !strcmp(m, "s_subb_u32") || !strcmp(m, "s_sub_co_ci_u32");
    uint64_t sum;
    if (carries || !strcmp(m, "s_add_u32") || !strcmp(m, "s_add_i32") ||
        !strcmp(m, "s_add_co_u32") || !strcmp(m, "s_add_co_i32"))
        sum = (uint64_t)a + b + (carries ? v->carry : 0);
    else if (borrows || !strcmp(m, "s_sub_u32") || !strcmp(m, "s_sub_co_u32"))
        sum = (uint64_t)a - b - (borrows ? v->carry : 0);
    else if (!strcmp(m, "s_mov_b32"))
        sum = a;
    else if (!strcmp(m, "s_abs_i32"))
        sum = (int32_t)a < 0 ? 0 - a : a;
    else
        return false;
    v->of[to] = (uint32_t)sum;
    v->known[to] = true;
    v->carry = sum >> 32 & 1;
    return true;
}

int64_t lint_jump(const struct lint_insn *insns, size_t at)
{
    struct values v = {0};
    struct text_insn t;
    size_t first = at;

    if (!is_mnemonic(&insns[at], "s_setpc_b64") || !text_split(insns[at].text, &t) || !t.count)
        return -1;
    const int from = register_of(t.operands[0]);
    while (first && at - first < WINDOW && !is_mnemonic(&insns[first], "s_getpc_b64"))
        first--;
    if (from < 0 || from + 1 >= SGPRS || !is_mnemonic(&insns[first], "s_getpc_b64") ||
        !text_split(insns[first].text, &t) || register_of(t.operands[0]) != from)
        return -1;
    v.of[from] = insns[first].offset + 4; /* of 64 bits, of which the upper half is 0 here */
    v.known[from] = v.known[from + 1] = true;
    for (size_t i = first + 1; i < at; i++)
        if (!compute(&v, &insns[i]))
            return -1;
    return (int64_t)((uint64_t)v.of[from + 1] << 32 | v.of[from]);
}
