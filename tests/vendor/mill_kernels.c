/* SPDX-License-Identifier: MIT */
/* Mill's kernels: a dialect with one template, and a family of one shape. */
#include "mill.h"

#include "gen/dialects.h"
#include "plan/family.h"

#define GRAIN 16 /* rows of W of a workgroup, a lane each */

/* ---- The dialect ----------------------------------------------------------------------------- */

static const struct template_file mill_templates[] = {
    {"mill/multiply", "0000000000000000000000000000000000000000000000000000000000000001",
     "C = A * transpose(W);\n"},
    {0}};

static void options(const struct plan *plan, struct str *out)
{
    str_addf(out, "-mgrain=%d\n", plan->rows_per_workgroup);
}

const struct dialect dialect_mill = {.templates = mill_templates, .options = options};

/* ---- The family ------------------------------------------------------------------------------ */

static bool takes(const struct quern_problem *q, const struct target *t)
{
    (void)t;
    return q->op == QUERN_OP_GEMM && q->wq == QUERN_W_NONE;
}

static quern_status accepts(const struct quern_problem *q, const struct target *t)
{
    FAIL_IF(q->a != QUERN_F32 || q->c != QUERN_F32 || q->bias, QUERN_E_DECLINED,
            "%s multiplies f32 alone, without a bias", t->name);
    return QUERN_OK;
}

static void candidates(const struct plan *base, struct model_ranking *ranking)
{
    struct plan p = *base;
    struct plan_estimate *const e = &p.estimate;

    p.products = PRODUCTS_PLAIN;
    p.wave_size = p.target->wave_size;
    p.waves = 1;
    p.rows_per_workgroup = GRAIN;
    p.row_groups = (p.problem.n + GRAIN - 1) / GRAIN;
    e->workgroups = p.row_groups;
    e->vgprs = 16;
    e->waves_per_simd = 1;
    e->slots = p.row_groups * p.m_tile * p.problem.k;
    e->kernel_cycles = p.m_tile * p.problem.k * (1 + p.row_groups / p.target->cus);
    e->memory_cycles = model_memory_cycles(&p, p.problem.n * p.problem.k * 4);
    e->busy_percent = 100;
    model_put(ranking, &p);
}

static void explain(const struct plan *p, struct str *out)
{
    str_addf(out, "%s: M to %d, family mill\n", p->symbol, p->m_hi);
}

static const struct plan_field shape[] = {
    {FIELD_AT(FIELD_NUMBER, "M_TILE", m_tile, "rows of A of a slice")},
    {FIELD_AT(FIELD_NUMBER, "ROWS", rows_per_workgroup, "of W, of a workgroup"), .word = "rows"},
    {FIELD_AT(FIELD_NUMBER, "WAVE", wave_size, "lanes")},
    {0}};
static const struct plan_fields fields[] = {{.rows = layer_fields}, {.rows = shape}, {0}};
static const struct plan_template templates[] = {{.name = "mill/multiply"}, {0}};

static const struct family family_mill = {
    .name = "mill",
    .units = PLAN_UNITS_VECTOR,
    .takes = takes,
    .accepts = accepts,
    .candidates = candidates,
    .explain = explain,
    .fields = fields,
    .templates = templates,
    .predequant = SWITCH_OFF,
};
const struct family *const families_mill[] = {&family_mill, NULL};
