/* SPDX-License-Identifier: MIT */
/* Comparisons: their names, and for which orders of two numbers they hold. */
#ifndef QUERN_EVERY_COMPARISONS_H
#define QUERN_EVERY_COMPARISONS_H

#include "formulas.h"

#include <string.h>

/* The orders of two numbers, and for each comparison those for which it holds. */
enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };
static const struct {
    const char *name;
    unsigned accepts;
    bool of_floats, of_integers;
} comparisons[] = {{"f", 0, true, true},
                   {"lt", LESS, true, true},
                   {"eq", EQUAL, true, true},
                   {"le", LESS | EQUAL, true, true},
                   {"gt", GREATER, true, true},
                   {"ge", GREATER | EQUAL, true, true},
                   {"ne", LESS | GREATER, false, true},
                   {"lg", LESS | GREATER, true, false},
                   {"o", LESS | EQUAL | GREATER, true, false},
                   {"u", UNORDERED, true, false},
                   {"nge", LESS | UNORDERED, true, false},
                   {"nlg", EQUAL | UNORDERED, true, false},
                   {"ngt", LESS | EQUAL | UNORDERED, true, false},
                   {"nle", GREATER | UNORDERED, true, false},
                   {"neq", LESS | GREATER | UNORDERED, true, false},
                   {"nlt", EQUAL | GREATER | UNORDERED, true, false},
                   {"t", LESS | EQUAL | GREATER | UNORDERED, true, true},
                   {"tru", LESS | EQUAL | GREATER | UNORDERED, true, false}};
#define COMPARISONS (sizeof comparisons / sizeof *comparisons)

static inline unsigned order(const char *kind, uint64_t x, uint64_t y)
{
    const bool wide = strstr(kind, "64"), narrow = strstr(kind, "16");

    if (*kind == 'f') {
        const double p = wide ? f64(x) : narrow ? (double)half(x) : (double)f32(x);
        const double q = wide ? f64(y) : narrow ? (double)half(y) : (double)f32(y);
        return p < q ? LESS : p > q ? GREATER : p == q ? EQUAL : UNORDERED;
    }
    if (*kind == 'i') {
        const int64_t p = wide ? (int64_t)x : narrow ? h(x) : s(x);
        const int64_t q = wide ? (int64_t)y : narrow ? h(y) : s(y);
        return p < q ? LESS : p > q ? GREATER : EQUAL;
    }
    const uint64_t p = wide ? x : narrow ? w(x) : u(x), q = wide ? y : narrow ? w(y) : u(y);
    return p < q ? LESS : p > q ? GREATER : EQUAL;
}

#endif
