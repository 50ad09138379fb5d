/* SPDX-License-Identifier: MIT */
/* The rows of operands.def as numbers, facts and pointers, for every room that touches operands.
 * Tools and hosts have struct quern_operand and quern_args_set of tool.h instead. */
#ifndef QUERN_PROBLEM_OPERANDS_H
#define QUERN_PROBLEM_OPERANDS_H

#include "problem/problem.h"

#include <quern/tool.h>

#include <string.h>

/* Nested absmax: this many neighbours share a scale, and their code has as many values. */
#define OPERAND_NEST 256

enum operand {
#define OPERAND(number, ...) OPERAND_##number,
#include "problem/operands.def"
    OPERAND_COUNT
};

/* Whom an operand belongs to, as operands.def says. */
enum operand_owner { OWNER_WEIGHTS, OWNER_LAYER, OWNER_LAUNCH };

/* What an operand is in every problem that has it. */
struct operand_row {
    const char *name;
    size_t in_args;     /* offset of its address in struct quern_args */
    unsigned alignment; /* of its address, in bytes; a power of two */
    enum operand_owner owner;
    bool optional; /* a launch may leave it out */
};
extern const struct operand_row operand_rows[OPERAND_COUNT];

/* The operands of a normalised problem, as bits: 1 << OPERAND_A and so on. */
uint32_t operands_of(const struct quern_problem *p);

/* The names of such operands as messages list them: "a, b, scales, c". */
#define OPERANDS_TEXT 160
void operands_text(uint32_t operands, char text[OPERANDS_TEXT]);

/* What kernels of a normalised problem do with an operand that it has: op=moe_align writes what
 * op=moe reads. */
enum quern_sim_access operand_access(const struct quern_problem *p, enum operand which);

/* Describes one operand of a normalised problem at m ≥ 1 rows of A; false: the problem has none. */
bool operand_describe(const struct quern_problem *p, enum operand which, int64_t m,
                      struct quern_operand *out);

/* The address that the host passes for an operand. */
static inline void *operand_address(const struct quern_args *args, enum operand which)
{
    void *address;

    memcpy(&address, (const char *)args + operand_rows[which].in_args, sizeof address);
    return address;
}

/* Where the operands of one layer are in this process's memory, by name (x.scales) or by number
 * (x.at[OPERAND_SCALES]); null for those that there are not. */
union operand_pointers {
    struct {
#define OPERAND(number, name, ...) void *name;
#include "problem/operands.def"
    };
    void *at[OPERAND_COUNT];
};

#endif
