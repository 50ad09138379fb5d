/* SPDX-License-Identifier: MIT */
/*
 * The chart of docs/crossover.svg: what the vector units, the matrix units straight from registers,
 * and tiles in LDS are modelled to take for 1 to 4096 rows of A, on five parts, for NF4 in bf16 and
 * beside it int4 in f16. Everything is the planner's model; no GPU and no compiler is asked.
 */
#ifndef BENCH_CROSSOVER_H
#define BENCH_CROSSOVER_H

#include "plan/plan.h"

#include <math.h>
#include <stdio.h>

#define CROSSOVER_ROWS 4096

enum { CROSS_W = 300, CROSS_H = 190, CROSS_X = 350, CROSS_Y = 260, CROSS_DECADES = 5 };

static const char *const crossover_problems[] = {"wq=nf4 n=19456 k=2560 a=bf16",
                                                 "wq=int4 n=19456 k=2560 a=f16"};
static const char *const crossover_targets[] = {"gfx1100", "gfx1151", "gfx1201", "gfx942",
                                                "gfx950"};

static double crossover_x(int x, int m)
{
    return x + log2(m) / log2(CROSSOVER_ROWS) * CROSS_W;
}

/* Microseconds from 10 upwards, by their logarithm. */
static double crossover_y(int y, double us)
{
    return y + CROSS_H - (log10(us) - 1) / CROSS_DECADES * CROSS_H;
}

static void crossover_axes(FILE *f, const struct target *t, int x, int y)
{
    fprintf(f, "<text class=\"h\" x=\"%d\" y=\"%d\">%s, %s</text>\n", x, y - 10, t->name, t->part);
    for (int i = 0; i <= CROSS_DECADES; i++)
        fprintf(f,
                "<path class=\"g\" d=\"M%d %.1fh%d\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%.0f</text>\n",
                x, crossover_y(y, pow(10, i + 1)), CROSS_W, x - 6,
                crossover_y(y, pow(10, i + 1)) + 4, pow(10, i + 1));
    for (int m = 1; m <= CROSSOVER_ROWS; m *= 8)
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                crossover_x(x, m), y + CROSS_H + 16, m);
}

static void crossover_line(FILE *f, const struct plan_set *set, enum plan_units units, int x, int y)
{
    struct plan_cost cost;

    fprintf(f, "<path class=\"%c\" d=\"", "abc"[units]);
    for (int m = 1; m <= CROSSOVER_ROWS; m *= 2)
        if (plan_cost_of(set, units, m, &cost))
            fprintf(f, "%c%.1f %.1f", m > 1 ? 'L' : 'M', crossover_x(x, m),
                    crossover_y(y, cost.us));
    fprintf(f, "\"/>\n");
}

/* Marks where the kernels of a set change their family. */
static void crossover_marks(FILE *f, const struct plan_set *set, int x, int y)
{
    for (size_t i = 1; i < set->count; i++)
        if (set->plans[i].family != set->plans[i - 1].family)
            fprintf(f, "<path class=\"m\" d=\"M%.1f %dv%d\"/><text x=\"%.1f\" y=\"%d\">%d</text>\n",
                    crossover_x(x, set->plans[i].m_lo), y, CROSS_H,
                    crossover_x(x, set->plans[i].m_lo) + 3, y + 12, set->plans[i].m_lo);
}

/* A column of the chart: one problem on all parts. */
static bool crossover_column(FILE *f, const char *text, int x)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct plan_set set;

    if (quern_problem_parse(text, &problem) != QUERN_OK)
        return false;
    fprintf(f, "<text class=\"h\" x=\"%d\" y=\"72\">%s</text>\n", x, text);
    for (size_t t = 0; t < sizeof crossover_targets / sizeof *crossover_targets; t++) {
        const int y = 110 + (int)t * CROSS_Y;
        const struct target *const target = target_named(crossover_targets[t]);
        if (plan_make(&problem, target, &set) != QUERN_OK)
            return false;
        crossover_axes(f, target, x, y);
        for (int units = PLAN_UNITS_VECTOR; units <= PLAN_UNITS_TILES; units++)
            crossover_line(f, &set, (enum plan_units)units, x, y);
        crossover_marks(f, &set, x, y);
    }
    return true;
}

/* The chart as SVG; false, with the reason in quern_last_error(), when there is no kernel. */
static bool crossover_svg(FILE *f)
{
    static const char *const names[] = {"vector units", "matrix units", "tiles in LDS"};

    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 730 1400\">\n"
               "<style>text{font:12px sans-serif;fill:#333}.h{font-weight:bold}"
               "path{fill:none;stroke-width:1.6}.g{stroke:#ddd;stroke-width:1}"
               ".m{stroke:#888;stroke-width:1;stroke-dasharray:4 3}"
               ".a{stroke:#1b6ca8}.b{stroke:#d98200}.c{stroke:#a8324a}</style>\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
               "<text class=\"h\" x=\"50\" y=\"24\">Modelled microseconds for M rows of A, and "
               "the M from which on another family takes over</text>\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        fprintf(f, "<path class=\"%c\" d=\"M%zu 41h24\"/><text x=\"%zu\" y=\"45\">%s</text>\n",
                "abc"[i], 50 + 130 * i, 80 + 130 * i, names[i]);
    for (size_t i = 0; i < sizeof crossover_problems / sizeof *crossover_problems; i++)
        if (!crossover_column(f, crossover_problems[i], 50 + (int)i * CROSS_X))
            return false;
    fprintf(f, "</svg>\n");
    return true;
}

#endif
