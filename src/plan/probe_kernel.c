/* SPDX-License-Identifier: MIT */
/*
 * The family of kernels that measure facts (facts.def). No problem is theirs: a plan of one is made
 * for a fact, and goes the way of every other from there, so that it is scanned, stored and found.
 */
#include "plan/facts.h"
#include "plan/family.h"
#include "plan/matrix.h"

#include <stdio.h>

static bool takes(const struct quern_problem *q, const struct target *t)
{
    (void)q, (void)t;
    return false;
}

/* There is one kernel for a fact: where the scan refuses it there is no other. */
static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    (void)base, (void)ranking;
}

static void explain(const struct plan *p, struct str *out)
{
    str_addf(out, "%s: measures the fact %s\n", p->symbol, fact_rows[p->probe.fact].name);
}

static const char *template_of_fact(const struct plan *p)
{
    return fact_rows[p->probe.fact].probe;
}

static bool is_matrix(const struct plan *p)
{
    return p->products;
}

static const char *template_of_products(const struct plan *p)
{
    return p->products == PRODUCTS_MATRIX ? "probe/squares" : matrix_template(p);
}

static int64_t side(const struct plan *p)
{
    return p->products == PRODUCTS_MATRIX ? 4 : matrix_form(p->products).side;
}

static int64_t dies(const struct plan *p)
{
    return p->target->dies;
}

int64_t fact_reads(enum fact fact)
{
    return fact == FACT_ADDRESS_RATE ? 1024 : 4096;
}

static int64_t apart(const struct plan *p)
{
    return p->probe.fact == FACT_ADDRESS_RATE;
}

static int64_t reads(const struct plan *p)
{
    return fact_reads((enum fact)p->probe.fact);
}

static const char *f16(const struct plan *p)
{
    (void)p;
    return "F16";
}

static const struct plan_field rows[] = {
    {FIELD_AT(FIELD_NUMBER, "WAVE", wave_size, "lanes, of the one wave of a workgroup")},
    {FIELD_WORD("A_TYPE", f16, "elements of matrices"), .when = is_matrix},
    {FIELD_OF(FIELD_NUMBER, "SIDE", side, "rows of each matrix"), .when = is_matrix},
    {FIELD_OF(FIELD_NUMBER, "DIES", dies, "that workgroups are dealt out to")},
    {FIELD_OF(FIELD_BOOL, "APART", apart, "whether lanes read lines of their own")},
    {FIELD_OF(FIELD_NUMBER, "READS", reads, "of a lane: words then, else bytes")},
    {0},
};

static const struct plan_field head[] = {{FIELD_WORD("SYMBOL", field_symbol, "name of the kernel")},
                                         {0}};

static const struct plan_fields fields[] = {{.rows = head}, {.rows = rows}, {0}};

static const struct plan_template templates[] = {
    {.name = "prelude/prelude"},
    {.name = "probe/probe"},
    {.choose = template_of_products, .when = is_matrix},
    {.choose = template_of_fact},
    {0}};

static const struct family family_probe = {
    .name = "probe",
    .units = PLAN_UNITS_NONE,
    .takes = takes,
    .candidates = candidates,
    .explain = explain,
    .one_buffer = true,
    .fields = fields,
    .templates = templates,
};

void facts_probe(enum fact fact, const struct target *target, struct plan *plan)
{
    *plan = (struct plan){.problem = {.op = QUERN_OP_DEQUANT},
                          .target = target,
                          .family = &family_probe,
                          .m_lo = 1,
                          .m_hi = 1,
                          .wave_size = target->wave_size,
                          .waves = 1,
                          .probe = {.fact = fact}};
    snprintf(plan->symbol, sizeof plan->symbol, "quern_probe_%s", fact_rows[fact].name);
    if (fact == FACT_MFMA_4_LANES)
        plan->products = PRODUCTS_MATRIX;
    else if (fact == FACT_MFMA_TALL_LANES)
        plan->products = matrix_products_tall(target);
    else if (fact == FACT_MFMA_LANES || fact == FACT_WMMA_LANES)
        plan->products = matrix_products(target);
}
