/* SPDX-License-Identifier: MIT */
/*
 * Kernels for NVIDIA on the CPU's multiprocessor (src/cpu/): every family's text computes what the
 * double reference does, over formats, edges and shapes; and every mistake that is planted into a
 * text is found. Each launch is as for a GPU of one or two multiprocessors, so that a workgroup has
 * more steps than its ring has stages: mistakes in who waits for whom show from the second time
 * round on. Each is a program that the host's C++ compiler makes: one in ONE_IN here,
 * few under a sanitizer, which sees no more of the program than its making; all in test_cpu_long.c.
 * This file is long because each launch and each planted mistake is a row of a table.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <quern/tool.h>

#include "dispatch/dispatch.h"
#include "gen/gen.h"
#include "plan/family.h"
#include "quant/quant.h"
#include "t_build.h"
#include "t_context.h"
#include "t_explore.h"
#include "t_store.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef ONE_IN
#define ONE_IN (T_SANITIZED ? 31 : 7)
#endif

/* What a host puts into rows, experts and rows_used of op=moe. */
enum lists {
    LISTS_RIGHT = 0,
    LISTS_HOSTILE, /* experts and choices that are none, and more slots in use than there are */
    LISTS_SHORT,   /* one block in use, of those that all name row 0 behind it; and no routing */
    LISTS_EMPTY    /* nothing in use */
};

/* A launch of one kernel, in slices where m is more than it has rows. */
struct run {
    const char *problem;
    int m;
    const char *shape;           /* null: the model's */
    unsigned units;              /* multiprocessors */
    const struct family *family; /* null: the model's; tiles: its smallest that takes m rows */
    enum lists lists;
    const char *has; /* text that its source must have, or null: what the run is there for */
};

struct bench {
    struct quern_problem problem;
    struct plan plan;
    struct plan_slice slice;
    union operand_pointers host;
    struct str source;
};

/* ---- One run --------------------------------------------------------------------------------- */

static void edit_lists(struct bench *b, const struct run *r)
{
    static const int32_t strange[] = {-1, -2, INT32_MIN, INT32_MAX, 1 << 16, 0};

    if (r->lists == LISTS_RIGHT)
        return;
    const int64_t slots = problem_slots(&b->problem, r->m), rows_each = b->problem.block_rows;
    const int32_t choices = (int32_t)problem_results(&b->problem, r->m);
    int32_t *const rows = b->host.rows, *const whose = b->host.experts;

    if (r->lists == LISTS_HOSTILE) {
        for (int64_t i = 0; i < slots / rows_each; i++)
            if (i % 2)
                whose[i] = i / 2 % 6 == 5 ? b->problem.experts : strange[i / 2 % 6];
        for (int64_t i = 0; i < slots; i += 3)
            rows[i] = i % 2 ? choices + (int32_t)i : i % 4 ? INT32_MIN : -1;
        *(uint32_t *)b->host.rows_used = UINT32_MAX / (uint32_t)rows_each * (uint32_t)rows_each;
    } else if (r->lists == LISTS_SHORT) {
        *(int32_t *)b->host.rows_used = (int32_t)rows_each;
        for (int64_t i = rows_each; i < slots; i++) {
            rows[i] = 0;
            whose[i / rows_each] = 0;
        }
        free(b->host.routing);
        b->host.routing = NULL;
    } else if (r->lists == LISTS_EMPTY) {
        *(int32_t *)b->host.rows_used = 0;
    }
}

static void set_up(struct bench *b, const struct run *r)
{
    struct quern_operand o;
    struct plan_set set;

    memset(b, 0, sizeof *b);
    b->problem = (struct quern_problem)QUERN_INIT(struct quern_problem);
    if (quern_problem_parse(r->problem, &b->problem) != QUERN_OK ||
        plan_make(&b->problem, target_named("sm_90"), &set) != QUERN_OK)
        fail_msg("%s: %s", r->problem, quern_last_error()->message);
    b->plan = *plan_for(&set, r->m);
    if (r->family) {
        const int *rows = r->family->m_tiles(&b->problem);
        while (*rows < r->m && rows[1])
            rows++;
        b->plan.family = r->family;
        b->plan.m_hi = b->plan.m_tile = *rows;
    }
    if (r->shape && plan_reshape(&b->plan, r->shape) != QUERN_OK)
        fail_msg("%s: %s", r->problem, quern_last_error()->message);
    b->slice = (struct plan_slice){&b->plan, 0, r->m, (r->m + b->plan.m_tile - 1) / b->plan.m_tile};
    if (b->problem.op == QUERN_OP_MOE) {
        b->problem.block_rows = b->plan.block_rows;
        b->slice.slices = problem_slots(&b->problem, r->m) / b->plan.m_tile;
    }
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (operand_describe(&b->problem, (enum operand)i, r->m, &o)) {
            b->host.at[i] = malloc(o.bytes);
            assert_non_null(b->host.at[i]);
            /* no right result: NaN, or of op=moe_align, whose experts may be -1, no number */
            memset(b->host.at[i], b->problem.op == QUERN_OP_MOE_ALIGN ? 0xa5 : 0xff, o.bytes);
        }
    quant_random(&b->problem, r->m, 7, &b->host);
    edit_lists(b, r);
    assert_int_equal(gen_source(&b->plan, &b->source), QUERN_OK);
}

static void tear_down(struct bench *b)
{
    for (int i = 0; i < OPERAND_COUNT; i++)
        free(b->host.at[i]);
    str_free(&b->source);
}

/* How many integers of op=moe_align differ from the CPU's. */
static double wrong_integers(const struct bench *b, int m)
{
    static const enum operand results[] = {OPERAND_ROWS, OPERAND_EXPERTS, OPERAND_ROWS_USED};
    enum { RESULTS = sizeof results / sizeof *results };
    struct quern_operand o[RESULTS];
    int32_t *want[RESULTS];
    size_t wrong = 0;

    for (int i = 0; i < RESULTS; i++) {
        assert_true(operand_describe(&b->problem, results[i], m, &o[i]));
        want[i] = malloc(o[i].bytes);
        assert_non_null(want[i]);
    }
    quant_moe_align(&b->problem, m, b->host.topk_ids, want[0], want[1], want[2]);
    for (int i = 0; i < RESULTS; i++) {
        const int32_t *const got = b->host.at[results[i]];
        for (size_t at = 0; at < o[i].bytes / sizeof *got; at++)
            wrong += got[at] != want[i][at];
        free(want[i]);
    }
    return (double)wrong;
}

/* Whether element i of C is as set_up left it, which is what a row that no slot names has to be. */
static bool is_untouched(const struct bench *b, size_t i)
{
    static const uint8_t left[] = {0xff, 0xff, 0xff, 0xff};
    const size_t bytes = dtype_bytes(b->problem.c);

    return !memcmp((const char *)b->host.c + i * bytes, left, bytes);
}

/* The largest difference from the reference, as a share of its largest value. */
static double error_of(const struct bench *b, int m)
{
    const struct quern_problem *const p = &b->problem;
    if (p->op == QUERN_OP_MOE_ALIGN)
        return wrong_integers(b, m);
    const bool weights = p->op == QUERN_OP_DEQUANT;
    const size_t count = weights ? (size_t)p->k * (size_t)p->n
                                 : (size_t)(problem_results(p, m) * problem_columns(p));
    double *const want = malloc(count * sizeof *want), largest = 0, difference = 0;
    float *const exact = malloc(count * sizeof *exact);

    assert_true(want && exact);
    assert_int_equal(weights ? quant_dequantise(p, &b->host, exact)
                             : quant_reference(p, &b->host, m, want),
                     QUERN_OK);
    for (size_t i = 0; i < count; i++) {
        uint32_t word = 0;
        if (weights) { /* rounded as the kernel rounds */
            quant_store(p->c, &word, 0, exact[i]);
            want[i] = (double)quant_load(p->c, &word, 0);
        }
        if (isnan(want[i]) && is_untouched(b, i))
            continue;
        const double d = fabs((double)quant_load(p->c, b->host.c, i) - want[i]);
        if (!(d <= difference))
            difference = isnan(d) ? INFINITY : d;
        if (fabs(want[i]) > largest)
            largest = fabs(want[i]);
    }
    free(want);
    free(exact);
    return difference ? difference / largest : 0; /* of no rows at all the largest is 0 */
}

/* With act, errors of the product count more: src/dispatch/verify.c. */
static double tolerance_of(const struct quern_problem *p)
{
    const double product = p->a == QUERN_F32 && p->c == QUERN_F32 ? 1e-5 : 5e-3;

    return !problem_has_activation(p) ? 0 : p->act ? 4 * product : product;
}

/* ---- What is right is taken ------------------------------------------------------------------ */

#define SLAB(waves, rows, k_parts, units, stages, on)                                              \
    "waves=" #waves " products=12 rows=" #rows " k_parts=" #k_parts " units=" #units               \
    " stages=" #stages,                                                                            \
        on, &family_slab_w4

static const struct run runs[] = {
    /* ring: one chunk of K, then several, whole and ragged */
    {"wq=nf4 n=112 k=1024 a=bf16", 1, NULL, 1},
    /* for one row: units in whole sets of eight and not, an odd number of them, K in several chunks
     * of which the last is ragged, blocks of two units, nested scales, rows in pairs */
    {"wq=mxfp4 n=72 k=2880 a=f16 bias=1", 1, NULL, 1},
    {"wq=nf4 n=48 k=2560 a=f16 scale=nested", 1, NULL, 1},
    {"wq=nf4 n=48 k=3008 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=1", 1},
    {"wq=fp4 n=37 k=1984 group=32 a=bf16 bias=1", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=13 stages=2 portions=1", 1},
    /* and sets of fewer units than eight */
    {"wq=nf4 n=37 k=1280 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=5 stages=2 portions=1", 1},
    {"wq=mxfp4 n=37 k=768 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=6 stages=2 portions=1", 1},
    {"wq=nf4 n=37 k=1792 a=f16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=7 stages=2 portions=1", 1},
    {"wq=mxfp4 n=37 k=1152 a=f16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=9 stages=2 portions=1", 1},
    {"wq=nf4 n=64 k=8192 group=128 a=bf16", 1, NULL, 1},
    /* scales that copies bring: all rows' at once, the last stage's fewer, and row by row, of K in
     * one chunk and in two, whole and ragged; those that they cannot; and rows whose lanes would
     * meet in banks, of each kind of unit */
    {"wq=nf4 n=92 k=1024 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 8;"},
    {"wq=mxfp4 n=72 k=960 a=bf16", 1,
     "waves=8 products=12 k_warps=5 row_warps=1 units=6 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 8;"},
    {"wq=mxfp4 n=92 k=1024 a=f16 bias=1", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=3 portions=1", 1,
     .has = "SCALE_ROWS = 8;"},
    {"wq=fp4 n=58 k=4096 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=nf4 n=70 k=2048 a=bf16 act=silu_mul glu=halves", 1,
     "waves=8 products=12 k_warps=2 row_warps=2 units=16 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=int4 n=93 k=1024 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 8;"},
    {"wq=int4 n=93 k=2048 a=f16 zero=u8 layout=exl bias=1", 1,
     "waves=8 products=12 k_warps=2 row_warps=2 units=16 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 16;"},
    {"wq=int4 n=92 k=2048 group=32 a=bf16 scale=f32 zero=scaled", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=16 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=int4 n=40 k=416 group=channel a=bf16 scale=f16 zero=u8 c=f32", 1, NULL, 1,
     .has = "SCALE_ROWS = 0;"},
    {"wq=int4 n=37 k=1088 group=64 a=f16 zero=scaled", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 0;"},
    {"wq=int4 n=130 k=4096 a=bf16 zero=u8 bias=1", 13, NULL, 1},
    {"wq=nf4 n=24 k=2048 a=bf16", 8,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 16;"},
    {"wq=nf4 n=93 k=4096 a=bf16", 7,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=1", 1,
     .has = "PRODUCERS = 2;"},
    {"wq=nf4 n=37 k=1280 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=nf4 n=37 k=1280 a=f16", 7,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=mxfp4 n=37 k=2560 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=16 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=nf4 n=48 k=2048 a=bf16 scale=nested", 1, NULL, 1, .has = "SCALE_ROWS = 8;"},
    {"wq=nf4 n=96 k=512 a=bf16 act=silu_mul glu=interleaved", 1, NULL, 1},
    {"wq=nf4 n=275 k=1024 a=bf16 bias=1", 8, NULL, 2},
    {"wq=fp4 n=101 k=1024 a=f16 bias=1", 5, NULL, 1},
    {"wq=nf4 n=128 k=1024 a=f16 c=f32 scale=nested", 3, NULL, 1},
    {"wq=nf4 n=130 k=4160 a=bf16 scale=nested bias=1", 7, NULL, 1},
    {"wq=fp4 n=144 k=2560 group=512 a=bf16", 2, NULL, 1},
    {"wq=nf4 n=96 k=4096 group=4096 a=f16", 4, NULL, 1},
    {"wq=nf4 n=96 k=2048 group=128 a=bf16 scale=nested", 4, NULL, 1},
    {"wq=nf4 n=150 k=1056 group=32 a=bf16", 6, NULL, 2},
    {"wq=fp4 n=100 k=416 group=32 a=f16 scale=nested bias=1", 8, NULL, 1},
    {"wq=mxfp4 n=130 k=736 a=bf16", 3, NULL, 1},
    {"wq=mxfp4 n=64 k=1024 a=f16 bias=1", 16, NULL, 1},
    {"wq=nf4 n=112 k=1024 a=bf16", 13, NULL, 1},
    {"wq=nf4 n=112 k=2304 a=f16 bias=1 scale=nested", 29, NULL, 1},
    {"wq=nf4 n=100 k=1024 a=bf16", 64, NULL, 2},
    {"wq=int4 n=112 k=1024 a=bf16", 1, NULL, 1},
    {"wq=int4 n=275 k=1024 a=f16 zero=u8 layout=exl bias=1", 8, NULL, 2},
    {"wq=int4 n=130 k=4224 a=bf16 zero=u8", 7, NULL, 1},
    {"wq=int4 n=101 k=2048 a=f16 zero=scaled layout=exl", 16, NULL, 1},
    {"wq=int4 n=101 k=1056 group=32 a=bf16 scale=f32 zero=scaled", 29, NULL, 1},
    {"wq=int4 n=64 k=416 group=channel a=bf16 scale=f16 zero=u8 c=f32", 5, NULL, 1},
    {"wq=int4 n=96 k=2048 group=64 a=f16 scale=bf16 zero=none", 64, NULL, 1},
    {"wq=nf4 n=16 k=64 a=bf16", 1, NULL, 1},
    {"wq=nf4 n=1 k=64 a=bf16 bias=1", 1, NULL, 1},
    /* stages that come in portions: of one row, in whole sets of units and in halves, of blocks of
     * one unit and of two, two chunks of K, rows in pairs; and of several rows */
    {"wq=nf4 n=93 k=2048 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=2", 1},
    {"wq=nf4 n=130 k=4096 a=f16 bias=1", 1,
     "waves=12 products=12 k_warps=4 row_warps=2 units=16 stages=3 portions=4", 1},
    {"wq=none n=93 k=1536 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=12 stages=2 portions=2", 1},
    {"wq=int4 n=93 k=2048 a=bf16 zero=u8", 1,
     "waves=8 products=12 k_warps=2 row_warps=2 units=8 stages=2 portions=2", 1},
    {"wq=int4 n=93 k=2048 a=f16 zero=scaled layout=exl", 1,
     "waves=4 products=12 k_warps=2 row_warps=1 units=16 stages=2 portions=4", 1},
    {"wq=mxfp4 n=70 k=2048 a=bf16 act=silu_mul glu=halves", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=16 stages=2 portions=2", 1},
    {"wq=fp4 n=70 k=2048 a=f16 scale=nested", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=2", 1},
    {"wq=fp8 n=61 k=1024 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=2", 1},
    {"wq=none n=61 k=1024 a=bf16 bias=1", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=3 portions=4", 1},
    {"wq=nf4 n=250 k=2048 a=bf16", 8,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=4", 1},
    {"wq=int4 n=130 k=2048 a=f16 zero=u8", 7,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=2", 1},
    {"wq=fp8 scale=block128 n=130 k=1024 a=fp8 c=bf16", 5,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=2", 1},
    {"wq=none n=130 k=1024 a=f16", 3,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=4", 1},
    /* and of two warps that copy, of tiles that go through two chunks together, of mixtures */
    {"wq=nf4 n=93 k=4096 a=bf16", 7,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=2", 1,
     .has = "PRODUCERS = 2;"},
    {"wq=nf4 n=2200 k=512 a=bf16", 5,
     "waves=8 products=12 k_warps=2 row_warps=1 units=2 stages=3 portions=2", 1},
    {"op=moe wq=int4 n=66 k=1024 a=bf16 experts=8 top_k=2", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1},
    {"op=moe wq=nf4 n=66 k=2048 a=bf16 experts=8 top_k=2", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=2", 1},
    /* workgroups that share rows, two and four of them: of one tile and of three, with a chunk each
     * and with two, of 8, 16 and 32 rows of A and of two slices, with every kind of scales */
    {"wq=nf4 n=275 k=2048 a=bf16 bias=1", 8,
     "waves=8 products=12 k_warps=4 row_warps=1 cluster=2 units=4 stages=2 portions=1", 1},
    {"wq=nf4 n=2200 k=1024 a=f16", 5,
     "waves=8 products=12 k_warps=2 row_warps=1 cluster=2 units=4 stages=2 portions=1", 2,
     .has = "BATCH = 3;"},
    {"wq=int4 n=1100 k=1024 a=bf16 zero=u8", 13,
     "waves=4 products=12 k_warps=2 row_warps=1 cluster=4 units=2 stages=3 portions=1", 1,
     .has = "BATCH = 3;"},
    {"wq=int4 n=70 k=4096 a=f16 zero=scaled layout=exl", 13,
     "waves=8 products=12 k_warps=4 row_warps=1 cluster=2 units=8 stages=2 portions=1", 1},
    {"wq=int4 n=70 k=4096 a=bf16", 29,
     "waves=12 products=12 k_warps=8 row_warps=1 cluster=2 units=4 stages=2 portions=1", 1,
     .has = "CONSUMER_REGISTERS = 224;"},
    {"wq=mxfp4 n=130 k=4096 a=bf16 act=swiglu_oai glu=halves bias=1", 8,
     "waves=8 products=12 k_warps=4 row_warps=1 cluster=4 units=2 stages=2 portions=1", 1},
    {"wq=fp4 n=150 k=2048 a=bf16 scale=nested", 7,
     "waves=12 products=12 k_warps=4 row_warps=2 cluster=2 units=4 stages=2 portions=2", 1},
    {"wq=nf4 n=60 k=4096 a=bf16", 64,
     "waves=8 products=12 k_warps=4 row_warps=1 cluster=4 units=4 stages=2 portions=1", 1},
    {"wq=fp8 scale=block128 n=130 k=2048 a=fp8 c=bf16", 5,
     "waves=8 products=12 k_warps=4 row_warps=1 cluster=2 units=4 stages=2 portions=1", 1},
    {"wq=none n=72 k=1024 a=bf16 c=f32", 16,
     "waves=8 products=12 k_warps=4 row_warps=1 cluster=2 units=4 stages=2 portions=1", 1},
    /* consumers whose columns overlap: by one unit and by more, in one chunk and in several, of
     * units that share a scale and that do not, with every kind of scales; one of a cluster; and
     * rows of scales that copies bring one by one */
    {"wq=nf4 n=93 k=1216 a=bf16 bias=1", 8,
     "waves=8 products=12 k_warps=4 row_warps=1 units=5 stages=2 portions=1", 1,
     .has = "CHUNK = 1216;"},
    {"wq=fp4 n=70 k=2432 a=f16 scale=nested", 13,
     "waves=12 products=12 k_warps=4 row_warps=2 units=5 stages=2 portions=1", 1,
     .has = "CHUNK = 1216;"},
    {"wq=int4 n=70 k=2304 a=bf16 zero=u8", 16,
     "waves=8 products=12 k_warps=5 row_warps=1 units=8 stages=2 portions=1", 1,
     .has = "CHUNK = 2304;"},
    {"wq=int4 n=61 k=2304 a=f16 zero=scaled layout=exl", 5,
     "waves=8 products=12 k_warps=4 row_warps=1 units=5 stages=3 portions=1", 1,
     .has = "CHUNK = 1152;"},
    {"wq=mxfp4 n=130 k=736 a=bf16 act=swiglu_oai glu=halves bias=1", 29,
     "waves=8 products=12 k_warps=4 row_warps=1 units=6 stages=2 portions=1", 1,
     .has = "CHUNK = 736;"},
    {"wq=int4 n=130 k=384 a=bf16 zero=u8", 13,
     "waves=8 products=12 k_warps=1 row_warps=4 units=4 stages=2 portions=1", 1,
     .has = "CHUNK = 256;"},
    {"wq=nf4 n=93 k=5120 a=bf16", 13,
     "waves=8 products=12 k_warps=3 row_warps=1 units=7 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=nf4 n=275 k=2560 a=bf16 bias=1", 8,
     "waves=8 products=12 k_warps=3 row_warps=1 cluster=2 units=7 stages=2 portions=1", 1,
     .has = "CHUNK = 1280;"},
    /* rows of scales, and of zero points, whose chunks begin or end between two multiples of 16
     * bytes: of each workgroup of a cluster, in several chunks of one, and of one row of A */
    {"wq=nf4 n=93 k=4864 a=bf16", 7,
     "waves=8 products=12 k_warps=5 row_warps=1 cluster=2 units=8 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=nf4 n=93 k=4864 a=f16", 13,
     "waves=8 products=12 k_warps=5 row_warps=1 units=4 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=int4 n=93 k=4096 a=bf16 zero=u8", 7,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=int4 n=93 k=4096 a=f16 zero=u8", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=7 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"op=moe wq=mxfp4 n=66 k=736 a=bf16 experts=8 top_k=2", 8,
     "waves=8 products=12 k_warps=4 row_warps=1 units=6 stages=2 portions=1", 1,
     .has = "CHUNK = 736;"},
    /* nested scales whose bytes come by copies, and whose second level is kept: of workgroups with
     * several tiles, whose rows share second scales with others or have several; all rows' at once
     * and row by row, in several chunks and batches, in clusters; and that they cannot */
    {"wq=nf4 n=2200 k=1024 a=bf16 scale=nested", 5,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=3 portions=1", 1,
     .has = "WALK_MAX = 2;"},
    {"wq=fp4 n=2201 k=1024 a=f16 scale=nested bias=1", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=3 portions=1", 1,
     .has = "WALK_MAX = 3;"},
    {"wq=nf4 n=2200 k=2048 a=bf16 scale=nested", 13,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=3 portions=1", 2,
     .has = "SECONDS = 4;"},
    {"wq=nf4 n=70 k=8192 a=bf16 scale=nested", 7,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=nf4 n=1100 k=2048 a=bf16 scale=nested", 16,
     "waves=8 products=12 k_warps=4 row_warps=1 cluster=4 units=2 stages=2 portions=1", 1,
     .has = "WALK_MAX = 3;"},
    {"wq=nf4 n=130 k=8192 a=f16 scale=nested", 1,
     "waves=12 products=12 k_warps=8 row_warps=1 units=16 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 1;"},
    {"wq=nf4 n=70 k=4864 a=bf16 scale=nested", 7,
     "waves=8 products=12 k_warps=5 row_warps=1 units=8 stages=2 portions=1", 1,
     .has = "SCALE_ROWS = 0;"},
    {"wq=nf4 n=70 k=2048 a=bf16 scale=nested act=silu_mul glu=halves", 5, NULL, 1,
     .has = "SECONDS = 0;"},
    /* and one row's chunks of more than two sets of units */
    {"wq=nf4 n=37 k=4864 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=19 stages=2 portions=1", 1},
    {"wq=none n=21 k=2560 a=bf16", 1,
     "waves=4 products=12 k_warps=2 row_warps=1 units=40 stages=2 portions=4", 1},
    /* shapes that the model does not choose */
    {"wq=nf4 n=192 k=1024 a=bf16", 8,
     "waves=8 products=12 k_warps=4 row_warps=1 units=2 stages=2 portions=1", 1},
    {"wq=nf4 n=330 k=1216 a=f16", 8,
     "waves=16 products=12 k_warps=6 row_warps=2 units=2 stages=3 portions=1", 1},
    {"wq=nf4 n=400 k=1024 group=256 a=bf16", 12,
     "waves=12 products=12 k_warps=2 row_warps=4 units=4 stages=2 portions=1", 1},
    {"wq=nf4 n=2200 k=640 a=bf16", 5,
     "waves=4 products=12 k_warps=2 row_warps=1 units=3 stages=3 portions=1",
     1}, /* two tiles a batch */
    {"wq=nf4 n=200 k=1600 a=bf16 bias=1", 32,
     "waves=8 products=12 k_warps=2 row_warps=2 units=3 stages=4 portions=1", 1},
    /* registers that are handed over */
    {"wq=nf4 n=70 k=4096 a=bf16 bias=1", 16,
     "waves=12 products=12 k_warps=8 row_warps=1 units=8 stages=3 portions=1", 1,
     .has = "CONSUMER_REGISTERS = 224;"},
    {"wq=int4 n=70 k=2048 a=f16", 32,
     "waves=12 products=12 k_warps=8 row_warps=1 units=4 stages=3 portions=1", 1,
     .has = "CONSUMER_REGISTERS = 224;"},
    /* weights that are numbers: of 16 bits, e4m3 with A of 16 bits and of e4m3 */
    {"wq=none n=112 k=1024 a=bf16", 1, NULL, 1},
    {"wq=none n=61 k=1024 a=f16 bias=1", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=3 portions=1", 1},
    {"wq=none n=61 k=1056 a=bf16", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=6 stages=2 portions=1", 1},
    {"wq=fp8 n=61 k=1024 a=fp8 c=bf16 bias=1", 1,
     "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1},
    {"wq=fp8 n=45 k=2048 a=f16", 1,
     "waves=8 products=12 k_warps=2 row_warps=2 units=8 stages=2 portions=1", 1},
    {"wq=none n=74 k=512 a=bf16 bias=1 act=swiglu_oai glu=halves", 1, NULL, 1},
    {"wq=none n=275 k=1056 a=f16 bias=1", 8, NULL, 2},
    {"wq=none n=130 k=4128 a=bf16 c=f32", 7, NULL, 1},
    {"wq=none n=101 k=2048 a=f16", 29, NULL, 1},
    {"wq=none n=64 k=32 a=bf16", 3, NULL, 1},
    {"wq=none n=2200 k=640 a=bf16", 5,
     "waves=4 products=12 k_warps=2 row_warps=1 units=3 stages=3 portions=1", 1},
    {"wq=fp8 n=112 k=1024 a=bf16", 1, NULL, 1},
    {"wq=fp8 n=275 k=1088 a=f16 bias=1", 8, NULL, 2},
    {"wq=fp8 n=130 k=4160 a=fp8 c=bf16 bias=1", 7, NULL, 1},
    {"wq=fp8 n=101 k=2048 a=fp8 c=f32", 29, NULL, 1},
    {"wq=fp8 n=96 k=512 a=bf16", 64, NULL, 1},
    {"wq=fp8 scale=block128 n=275 k=1088 a=bf16 bias=1", 8, NULL, 2},
    {"wq=fp8 scale=block128 n=130 k=4160 a=fp8 c=f32", 7, NULL, 1},
    {"wq=fp8 scale=block128 n=101 k=384 a=fp8", 29, NULL, 1},
    {"wq=fp8 scale=block128 n=257 k=64 a=f16", 3, NULL, 1},
    {"wq=fp8 scale=block128 n=270 k=1024 a=fp8 act=silu_mul glu=halves", 9, NULL, 1},
    {"wq=none n=274 k=1056 a=bf16 bias=1 act=silu_mul glu=halves", 9, NULL, 2},
    {"wq=fp8 n=130 k=1088 a=fp8 c=f16 act=swiglu_oai glu=interleaved", 4, NULL, 1},
    /* slab_w4: one group and several for a slab, chunks whole and ragged, tiles and slices */
    {"wq=nf4 n=130 k=512 a=bf16", 32, SLAB(8, 64, 1, 2, 3, 1)},
    {"wq=nf4 n=275 k=1088 a=bf16 bias=1", 29, SLAB(20, 112, 2, 2, 2, 2)},
    {"wq=fp4 n=160 k=512 a=bf16 c=f32 scale=nested", 64, SLAB(20, 80, 2, 1, 3, 1)},
    {"wq=mxfp4 n=96 k=320 a=bf16 bias=1", 50, SLAB(12, 48, 2, 2, 2, 1)},
    {"wq=nf4 n=96 k=512 group=512 a=bf16", 40, SLAB(12, 32, 2, 1, 2, 1)},
    {"wq=int4 n=100 k=640 a=bf16 zero=u8 bias=1", 64, SLAB(20, 64, 4, 1, 2, 1)},
    {"wq=int4 n=250 k=512 a=bf16 layout=exl scale=f32 zero=scaled", 70, SLAB(20, 128, 2, 1, 2, 1)},
    {"wq=int4 n=70 k=704 group=64 a=bf16", 53, SLAB(12, 48, 1, 4, 3, 1)},
    {"wq=int4 n=70 k=448 group=32 a=bf16 c=f32", 33, SLAB(12, 32, 2, 1, 4, 1)},
    /* lane_w4 */
    {"wq=nf4 n=100 k=320 a=f32", 1, NULL, 1},
    {"wq=fp4 n=33 k=1056 group=32 a=f32 scale=nested bias=1", 4, NULL, 1},
    {"wq=mxfp4 n=40 k=288 a=f32 bias=1", 7, NULL, 1},
    {"wq=int4 n=100 k=384 a=f32", 1, NULL, 1},
    {"wq=int4 n=33 k=1056 group=32 a=f32 scale=f16 zero=u8 bias=1 layout=exl", 4, NULL, 1},
    {"wq=int4 n=40 k=288 group=channel a=f32 scale=bf16 zero=scaled", 7, NULL, 1},
    /* gate and up, by each of the three: halves and interleaved, whole tiles and their ends */
    {"wq=nf4 n=112 k=1024 a=bf16 bias=1 act=silu_mul glu=halves", 1, NULL, 1},
    {"wq=mxfp4 n=130 k=736 a=bf16 bias=1 act=swiglu_oai glu=interleaved", 7, NULL, 1},
    {"wq=int4 n=74 k=1664 a=f16 zero=u8 layout=exl act=swiglu_oai glu=halves", 2, NULL, 2},
    {"wq=fp4 n=100 k=1024 a=f16 c=f32 scale=nested act=silu_mul glu=interleaved", 64, NULL, 2},
    {"wq=nf4 n=150 k=1088 a=bf16 bias=1 act=swiglu_oai glu=halves", 29, SLAB(20, 112, 2, 2, 2, 2)},
    {"wq=int4 n=100 k=640 a=bf16 zero=u8 act=silu_mul glu=interleaved", 300,
     SLAB(20, 64, 4, 1, 2, 1)},
    {"wq=fp4 n=34 k=1056 group=32 a=f32 scale=nested bias=1 act=silu_mul glu=halves", 4, NULL, 1},
    {"wq=int4 n=42 k=288 a=f32 group=32 zero=scaled act=swiglu_oai glu=halves", 7, NULL, 1},
    {"wq=mxfp4 n=2 k=64 a=f32 bias=1 act=swiglu_oai glu=interleaved", 1, NULL, 1},
    /* experts, in slices of a block */
    {"op=moe wq=nf4 n=50 k=512 a=bf16 experts=8 top_k=2 bias=1", 1, NULL, 1},
    {"op=moe wq=mxfp4 n=34 k=2880 a=bf16 experts=32 top_k=4", 1, NULL, 1},
    {"op=moe wq=mxfp4 n=130 k=352 a=f16 experts=4 top_k=4 act=swiglu_oai glu=interleaved", 30, NULL,
     2},
    {"op=moe wq=int4 n=34 k=640 a=bf16 zero=u8 layout=exl experts=16 top_k=1", 9, NULL, 2},
    {"op=moe wq=int4 n=66 k=2048 a=bf16 experts=64 top_k=2 act=silu_mul glu=halves", 1, NULL, 2},
    {"op=moe wq=none n=34 k=256 a=bf16 experts=32 top_k=2", 1, NULL, 1},
    {"op=moe wq=fp4 n=18 k=1088 a=f16 scale=nested experts=2 top_k=2", 40, NULL, 1},
    {"op=moe wq=fp8 n=40 k=320 a=fp8 experts=3 top_k=1 bias=1", 7, NULL, 1},
    {"op=moe wq=none n=34 k=96 a=bf16 experts=8 top_k=2 act=silu_mul glu=halves", 6, NULL, 2},
    {"op=moe wq=nf4 n=130 k=320 a=bf16 experts=3 top_k=2 bias=1 block_rows=64", 60,
     SLAB(12, 112, 1, 2, 2, 4)},
    {"op=moe wq=mxfp4 n=100 k=192 a=bf16 experts=2 top_k=1 act=swiglu_oai glu=interleaved "
     "block_rows=64",
     70, SLAB(12, 64, 2, 1, 2, 3)},
    {"op=moe wq=int4 n=70 k=128 a=bf16 zero=u8 experts=4 top_k=2 block_rows=64", 20,
     SLAB(8, 48, 1, 2, 3, 9)},
    {"op=moe wq=fp4 n=66 k=448 a=bf16 c=f32 scale=nested experts=2 top_k=2 block_rows=32", 30,
     SLAB(12, 80, 1, 2, 3, 5)},
    {"op=moe wq=int4 n=21 k=288 a=f32 group=32 zero=scaled experts=4 top_k=2 block_rows=8", 7, NULL,
     1},
    /* lane_dequant */
    {"op=dequant wq=int4 n=70 k=1152 c=bf16", 1, NULL, 1},
    {"op=dequant wq=int4 n=70 k=1152 c=f32 scale=f16 zero=u8 layout=exl", 1, NULL, 1},
    {"op=dequant wq=int4 n=33 k=96 group=32 c=f16 scale=f32 zero=scaled", 1, NULL, 1},
    {"op=dequant wq=nf4 n=70 k=1152 c=bf16", 1, NULL, 1},
    {"op=dequant wq=fp4 n=33 k=64 scale=nested c=f32", 1, NULL, 1},
    {"op=dequant wq=mxfp4 n=50 k=96 c=f16", 1, NULL, 1},
    {"op=dequant wq=fp8 n=50 k=192 c=bf16", 1, NULL, 1},
    {"op=dequant wq=fp8 scale=block128 n=300 k=448 c=f16", 1, NULL, 1},
    {"op=dequant wq=fp8 scale=block128 n=131 k=64 c=f32", 1, NULL, 1},
    {"op=dequant wq=fp8 n=9 k=64 c=f32 kernels=base", 1, NULL, 1},
    /* warp_align: few choices and many, blocks of one slot, more experts than choices */
    {"op=moe_align experts=128 top_k=8 block_rows=16", 1, NULL, 1},
    {"op=moe_align experts=20 top_k=3 block_rows=8", 700, NULL, 1},
    {"op=moe_align experts=1024 top_k=2 block_rows=1", 300, NULL, 1},
    /* base kernels of all three: K of a chunk and of several, whole and ragged */
    {"wq=nf4 n=1 k=64 a=bf16 bias=1 kernels=base", 1, NULL, 1},
    {"wq=nf4 n=275 k=1024 a=bf16 kernels=base", 8, NULL, 2},
    {"wq=fp4 n=144 k=4160 a=f16 c=f32 scale=nested bias=1 kernels=base", 13, NULL, 1},
    {"wq=nf4 n=600 k=8192 group=4096 a=bf16 kernels=base", 29, NULL, 1},
    {"wq=mxfp4 n=130 k=736 a=bf16 kernels=base", 3, NULL, 1},
    {"wq=int4 n=130 k=4224 a=bf16 zero=u8 bias=1 kernels=base", 7, NULL, 1},
    {"wq=int4 n=101 k=1152 group=channel a=f16 zero=scaled layout=exl kernels=base", 16, NULL, 2},
    {"wq=nf4 n=33 k=320 a=f32 scale=nested bias=1 kernels=base", 4, NULL, 1},
    {"wq=int4 n=40 k=288 group=channel a=f32 scale=bf16 zero=scaled kernels=base", 7, NULL, 1},
    {"op=dequant wq=fp4 n=33 k=192 scale=nested c=f32 kernels=base", 1, NULL, 1},
    {"op=dequant wq=int4 n=33 k=96 group=channel c=bf16 zero=u8 layout=exl kernels=base", 1, NULL,
     1},
};

static void check_run(const struct run *r, uint64_t seed)
{
    struct bench b;

    set_up(&b, r);
    if (r->has && !strstr(str_text(&b.source), r->has))
        fail_msg("%s, m=%d: the source has no \"%s\"", r->problem, r->m, r->has);
    if (verify_text(&b.slice, str_text(&b.source), &b.host, r->m, r->units, seed) != QUERN_OK)
        fail_msg("%s, m=%d: %s\n%s", r->problem, r->m, quern_last_error()->message,
                 quern_last_error()->log);
    const double error = error_of(&b, r->m);
    if (!(error <= tolerance_of(&b.problem)))
        fail_msg("%s, m=%d: off by %g of the largest", r->problem, r->m, error);
    tear_down(&b);
}

static void test_kernels_are_right(void **state)
{
    struct t_walk walk = t_walk(sizeof runs / sizeof *runs, ONE_IN);

    (void)state;
    for (size_t i; t_walk_next(&walk, &i);)
        check_run(&runs[i], i + 1);
}

/* Whatever a host puts into rows, experts and rows_used, nothing outside of an operand is read or
 * written, and every row of C is what the reference has. In blocks enough for each strange value.
 */
#define RING_LISTS(which)                                                                          \
    {.problem = "op=moe wq=nf4 n=34 k=192 a=bf16 bias=1 experts=32 top_k=4",                       \
     .m = 30,                                                                                      \
     .units = 2,                                                                                   \
     .lists = which}
#define LANE_LISTS(which)                                                                          \
    {.problem = "op=moe wq=int4 n=21 k=128 a=f32 zero=u8 experts=16 top_k=4 block_rows=8",         \
     .m = 20,                                                                                      \
     .units = 1,                                                                                   \
     .lists = which}
static const struct run ring_hostile = RING_LISTS(LISTS_HOSTILE),
                        ring_short = RING_LISTS(LISTS_SHORT), ring_empty = RING_LISTS(LISTS_EMPTY),
                        lane_hostile = LANE_LISTS(LISTS_HOSTILE),
                        lane_short = LANE_LISTS(LISTS_SHORT), lane_empty = LANE_LISTS(LISTS_EMPTY),
                        pairs_hostile = {.problem = "op=moe wq=mxfp4 n=100 k=64 a=bf16 bias=1 "
                                                    "act=swiglu_oai glu=halves experts=32 top_k=4",
                                         .m = 30,
                                         .units = 1,
                                         .lists = LISTS_HOSTILE};

static void test_hostile(void **state)
{
    static const struct run *const all[] = {&ring_hostile, &ring_short, &ring_empty,
                                            &lane_hostile, &lane_short, &pairs_hostile,
                                            &lane_empty};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i += T_SANITIZED ? 3 : 1)
        check_run(all[i], i + 1);
}

/* Gate and up that are beyond bounds, infinite or NaN, as biases of weights that are 0: what the
 * reference gives, whose values tests/unit/test_act.c has. */
static void test_specials(void **state)
{
    static const float values[] = {2, 7, 8, -9, 0, INFINITY, -INFINITY, NAN};
    static const char *const words[] = {"act=silu_mul glu=halves",
                                        "act=swiglu_oai glu=interleaved"};
    enum { VALUES = sizeof values / sizeof *values, PAIRS = VALUES * VALUES };

    (void)state;
    for (int way = 0; way < 2; way++) {
        char text[96];
        double want[PAIRS];
        struct bench b;
        snprintf(text, sizeof text, "wq=nf4 n=%d k=64 a=f32 bias=1 %s", 2 * PAIRS, words[way]);
        const struct run r = {text, 1, NULL, 1};
        set_up(&b, &r);
        memset(b.host.scales, 0, 2 * PAIRS * sizeof(float));
        for (int64_t i = 0; i < 2 * PAIRS; i++)
            ((float *)b.host.bias)[problem_weight_row(&b.problem, i)] =
                values[i % 2 ? i / 2 % VALUES : i / 2 / VALUES];
        assert_int_equal(quant_reference(&b.problem, &b.host, 1, want), QUERN_OK);
        assert_int_equal(verify_text(&b.slice, str_text(&b.source), &b.host, 1, 1, 1), QUERN_OK);
        for (int i = 0; i < PAIRS; i++) {
            const double got = (double)((const float *)b.host.c)[i];
            if (isfinite(want[i]) ? !(fabs(got - want[i]) <= 4e-6 * fabs(want[i]))
                                  : !(isnan(want[i]) ? isnan(got) : got == want[i]))
                fail_msg("%s: gate %g, up %g gives %.9g; expected %.9g", text,
                         (double)values[i / VALUES], (double)values[i % VALUES], got, want[i]);
        }
        tear_down(&b);
    }
}

/* An infinite scale where the columns of two consumers overlap, of weights and values of A that are
 * all 1: the result is infinite, and not the NaN that zero times infinity would make of it. */
static void test_infinite_overlap(void **state)
{
    enum { BLOCKS = 19, BLOCK = 64, COLUMNS = BLOCKS * BLOCK, ROW = 3, M = 8 };
    static const struct run run = {
        "wq=nf4 n=16 k=1216 a=bf16", M,
        "waves=8 products=12 k_warps=4 row_warps=1 units=5 stages=2 portions=1", 1};
    const int block = 2 * 5 + 4; /* the third consumer's last, and the fourth's first */
    struct bench b;

    (void)state;
    set_up(&b, &run);
    ((float *)b.host.scales)[ROW * BLOCKS + block] = INFINITY;
    memset((char *)b.host.b + (ROW * COLUMNS + block * BLOCK) / 2, 0xff, BLOCK / 2); /* 1.0 */
    for (int m = 0; m < M; m++)
        for (int i = 0; i < BLOCK; i++)
            ((uint16_t *)b.host.a)[m * COLUMNS + block * BLOCK + i] = 0x3f80; /* 1.0 */
    assert_int_equal(verify_text(&b.slice, str_text(&b.source), &b.host, M, 1, 1), QUERN_OK);
    for (int m = 0; m < M; m++)
        assert_int_equal(((const uint16_t *)b.host.c)[m * 16 + ROW], 0x7f80); /* infinity */
    tear_down(&b);
}

/* ---- What is wrong is found ------------------------------------------------------------------ */

/* One of the problems that faults are planted into, small enough to be quick. */
static const struct run ring = {
    "wq=nf4 n=250 k=1024 a=bf16", 5,
    "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1};
static const struct run chunks = {
    "wq=nf4 n=250 k=1600 a=bf16", 5,
    "waves=8 products=12 k_warps=4 row_warps=1 units=2 stages=3 portions=1", 1};
static const struct run batches = {
    "wq=nf4 n=2200 k=640 a=bf16", 5,
    "waves=4 products=12 k_warps=2 row_warps=1 units=3 stages=3 portions=1", 1};
static const struct run overlapping = {
    "wq=int4 n=61 k=2304 a=f16 zero=scaled", 5,
    "waves=8 products=12 k_warps=4 row_warps=1 units=5 stages=2 portions=1", 1};
static const struct run nested = {
    "wq=nf4 n=2200 k=3072 a=f16 scale=nested", 1,
    "waves=8 products=12 k_warps=4 row_warps=1 units=12 stages=2 portions=1", 1};
static const struct run unaligned = {
    "wq=nf4 n=93 k=4864 a=f16", 5,
    "waves=8 products=12 k_warps=5 row_warps=1 units=4 stages=2 portions=1", 1};
static const struct run together = {
    "wq=nf4 n=12 k=960 a=bf16", 1,
    "waves=8 products=12 k_warps=3 row_warps=1 units=5 stages=2 portions=1", 1};
static const struct run portions = {
    "wq=nf4 n=250 k=1024 a=bf16", 5,
    "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=4", 1};
static const struct run one_row_portions = {
    "wq=nf4 n=250 k=2048 a=bf16", 1,
    "waves=4 products=12 k_warps=2 row_warps=1 units=16 stages=2 portions=4", 1};
static const struct run joined = {
    "wq=nf4 n=2200 k=1024 a=f16", 5,
    "waves=8 products=12 k_warps=2 row_warps=1 cluster=2 units=4 stages=2 portions=1", 1};
static const struct run joined_chunks = {
    "wq=nf4 n=130 k=2048 a=bf16", 5,
    "waves=8 products=12 k_warps=4 row_warps=1 cluster=2 units=2 stages=2 portions=1", 1};
static const struct run row_by_row = {
    "wq=nf4 n=93 k=4096 a=bf16", 7,
    "waves=8 products=12 k_warps=4 row_warps=1 units=8 stages=2 portions=1", 1};
static const struct run one_row = {
    "wq=nf4 n=250 k=1024 a=bf16", 1,
    "waves=4 products=12 k_warps=2 row_warps=1 units=8 stages=2 portions=1", 1};
static const struct run one_row_int4 = {
    "wq=int4 n=130 k=1024 a=bf16 zero=scaled", 1,
    "waves=4 products=12 k_warps=2 row_warps=1 units=8 stages=2 portions=1", 1};
static const struct run int4 = {
    "wq=int4 n=130 k=1024 a=bf16 zero=u8", 5,
    "waves=8 products=12 k_warps=4 row_warps=1 units=4 stages=2 portions=1", 1};
static const struct run scaled = {"wq=int4 n=40 k=288 group=32 a=f16 zero=scaled", 5, NULL, 1};
static const struct run fp8 = {"wq=fp8 n=130 k=1088 a=fp8 c=bf16", 5, NULL, 1};
static const struct run fp8_bf16 = {"wq=fp8 n=130 k=1088 a=bf16", 5, NULL, 1};
static const struct run blocks = {"wq=fp8 scale=block128 n=130 k=1088 a=fp8 c=bf16", 5, NULL, 1};
static const struct run dense = {"wq=none n=130 k=1056 a=bf16", 5, NULL, 1};
static const struct run dense_stages = {
    "wq=none n=130 k=1024 a=bf16", 5,
    "waves=8 products=12 k_warps=4 row_warps=1 units=2 stages=2 portions=1", 1};
static const struct run lane_int4 = {"wq=int4 n=40 k=256 a=f32 zero=u8", 3, NULL, 1};
static const struct run lane = {"wq=nf4 n=97 k=320 a=f32", 3, NULL, 1};
static const struct run ring_pairs = {
    "wq=nf4 n=130 k=512 a=bf16 bias=1 act=silu_mul glu=halves", 5,
    "waves=8 products=12 k_warps=4 row_warps=1 units=2 stages=2 portions=1", 1};
static const struct run ring_rest = {
    "wq=mxfp4 n=37 k=896 a=bf16", 1,
    "waves=8 products=12 k_warps=4 row_warps=1 units=7 stages=2 portions=1", 1};
static const struct run slab_pairs = {"wq=nf4 n=130 k=576 a=bf16 act=swiglu_oai glu=halves", 29,
                                      SLAB(20, 112, 2, 1, 3, 1)};
static const struct run lane_pairs = {"wq=nf4 n=98 k=320 a=f32 bias=1 act=silu_mul glu=halves", 3,
                                      NULL, 1};
static const struct run ring_moe = {
    "op=moe wq=mxfp4 n=66 k=256 a=bf16 act=swiglu_oai glu=halves bias=1 experts=8 top_k=2", 5, NULL,
    2};
static const struct run lane_moe = {"op=moe wq=nf4 n=41 k=256 a=f32 scale=nested experts=4 top_k=2",
                                    3, NULL, 2};
static const struct run spread = {"op=dequant wq=nf4 n=70 k=1152 c=bf16 scale=nested", 1, NULL, 1};
static const struct run widened = {"op=dequant wq=fp8 scale=block128 n=300 k=448 c=f16", 1, NULL,
                                   1};
static const struct run align = {"op=moe_align experts=40 top_k=4 block_rows=8", 700, NULL, 1};

static const struct run slab_moe = {
    "op=moe wq=nf4 n=130 k=320 a=bf16 experts=3 top_k=2 block_rows=64", 60,
    SLAB(8, 48, 1, 2, 2, 6)};
static const struct run slab = {"wq=nf4 n=130 k=576 a=bf16", 61, SLAB(20, 112, 2, 1, 2, 1)};
static const struct run slab_int4 = {"wq=int4 n=70 k=384 a=bf16", 29, SLAB(12, 32, 2, 1, 3, 1)};

static const struct fault {
    const struct run *run;
    const char *right, *wrong; /* text in the source, and what is planted in its place */
    const char *says;          /* a part of the message; null: the result is wrong; "": either */
} faults[] = {
    {&ring, "barrier_wait(full_barrier(stage.at, 0), stage.parity);", "", "shared memory"},
    {&portions, "barrier_wait(full_barrier(stage.at, u / PORTION), stage.parity);", ";",
     "shared memory"},
    {&one_row_portions, "            await_portion(stage, u);\n            multiply_unit(products",
     "            multiply_unit(products", "shared memory"},
    {&one_row_portions, "/ PORTION * K_WARPS + k_warp)", "/ PORTION * K_WARPS)", NULL},
    {&one_row_portions, "(u / PORTION * K_WARPS * PORTION + u % PORTION)", "u", ""},
    {&one_row_portions, "SCALES_COME && j == 0)", "SCALES_COME)", "deadlock"},
    {&portions, "from, bytes,\n", "from, bytes - 16,\n", ""},
    {&ring, "barrier_wait(EMPTY + stage.at * 8, stage.parity);", "", "more arrivals"},
    {&ring, "barrier_wait(SUMMED + buffer.at * 8, buffer.parity);", "", "shared memory"},
    {&ring, "barrier_wait(DRAINED + buffer.at * 8, buffer.parity);", "", "race"},
    {&ring, "sync_some(1, WAVES * 32); // the table", "// the table", ""},
    {&ring, "arrive_some(1, WAVES * 32);", "", "deadlock"},
    {&row_by_row, "sync_some(2, PRODUCERS * 32);", "", "mbarrier"},
    {&row_by_row, "1 + (SCALES_COME && j == 0))", "1)", ""},
    {&row_by_row, "(ALONE || !FIRST)", "true", "more arrivals"},
    {&ring, "        sync_some(1, WAVES * 32);\n        await_launch", "        await_launch", ""},
    {&ring, "(buffer * WARPS + warp) * M_TILES", "warp * M_TILES", "race"},
    {&ring, "sync_warp();\n    if (lane == 0)\n        barrier_arrive(EMPTY",
     "if (lane == 0)\n        barrier_arrive(EMPTY", "race"},
    {&ring, "sync_warp();\n        if (lane == 0)\n            barrier_arrive(SUMMED",
     "if (lane == 0)\n            barrier_arrive(SUMMED", "shared memory"},
    {&ring, "sync_warp();\n        if (lane == 0)\n            barrier_arrive(DRAINED",
     "if (lane == 0)\n            barrier_arrive(DRAINED", "race"},
    {&ring, "!KNOWN || N % ROWS ? smaller(n, N - 1) : n", "n", "operand b"},
    {&chunks, "        if (block < SCALE_COUNT)\n", "", "operand scales"},
    {&ring, "        if (one_lane()) {", "        {", "more arrivals"},
    {&chunks, "smaller(at.tile * ROWS + in_tile, N - 1)", "at.tile * ROWS + in_tile",
     "operand scales"},
    {&ring, "barrier_expect(barrier, rows * bytes);", "barrier_expect(barrier, rows * bytes - 16);",
     ""},
    {&ring, "scales_of_row(stage, i)", "scales_of_row(stage, i ^ 1)", ""},
    {&ring, "in_chunk / BLOCK);", "0);", NULL},
    {&together, "? smaller(in_tile, N - 1 - at.tile * ROWS) : in_tile", "? in_tile : in_tile",
     "nobody wrote"},
    {&together, "SCALE_ROWS == 1 ? ROWS : smaller(ROWS, N - at.tile * ROWS)", "ROWS",
     "operand scales"},
    {&int4, "zeros_of_row(stage, i)", "scales_of_row(stage, i)", ""},
    {&ring, "(first + smaller(i, m - 1))", "(first + (i))", "operand a"},
    {&ring, "if (row != NO_ROW && own < N", "if (own < N", "operand"},
    {&ring, "if (row != NO_ROW && own < N", "if (row != NO_ROW", "operand c"},
    {&ring, "0x7504 | index << 4", "0x7514 | index << 4", ""},
    {&ring, "0x7504 | index << 4", "0x7504 | (index ^ 1) << 4", NULL},
    {&ring, "ROWS * bytes);", "(ROWS - 1) * bytes);", ""},
    {&ring, "ROWS * bytes);", "(ROWS + 1) * bytes);", "deadlock"},
    {&ring, "place<STAGES> stage = {0, 1};", "place<STAGES> stage = {0, 0};", "deadlock"},
    {&ring, "barrier_init(EMPTY + i * 8, WARPS)", "barrier_init(EMPTY + i * 8, WARPS - 1)", ""},
    {&ring, "barrier_init(SUMMED + i * 8, WARPS)", "barrier_init(SUMMED + i * 8, WARPS + 1)",
     "deadlock"},
    {&ring, "    barrier_init_fence();\n}", "}", "fence"},
    {&ring, "    check_shared_start();\n", "", "check_shared_start"},
    {&ring, "        stage.advance();\n        buffer.advance();", "        buffer.advance();", ""},
    {&ring, "STAGE_BYTES + row * ROW_BYTES +", "STAGE_BYTES + row * ROW_BYTES + 8 +",
     "no multiple of 16"},
    {&chunks, "SCALE_ROW(n) + column / BLOCK);\n    }", "SCALE_ROW(n));\n    }", NULL},
    {&ring, "EMPTY = FULL + STAGES * PORTIONS * 8;", "EMPTY = FULL;", ""},
    {&chunks, "if (CHUNKS > 1 && at.chunk != at.first_chunk)", "if (false)", NULL},
    {&chunks,
     "if (RAGGED && at.chunk * CHUNK + (k_warp * UNITS + s * SPAN) * UNIT >= K)\n"
     "            continue;",
     "", ""},
    {&chunks, "K - (CHUNKS - 1) * CHUNK : CHUNK;", "CHUNK : CHUNK;", "operand b"},
    {&nested, "(at.before + at.in_batch) * SECONDS", "at.in_batch * SECONDS", NULL},
    {&nested, "from.tile + i / OF_TILE * from.groups", "from.tile + i / OF_TILE", NULL},
    {&nested, "in_tile * BLOCKS + block;", "in_tile * BLOCKS;", NULL},
    {&nested, "            before += BATCH;\n", "", NULL},
    {&nested, "EMPTY = FULL + STAGES * PORTIONS * 8;", "EMPTY = FULL - 8;", ""},
    {&unaligned, "SCALES_ALIGNED ? 0 : bytes_before", "true ? 0 : bytes_before", NULL},
    {&unaligned, "(const u8 *)(from + first) - bytes_before",
     "(const u8 *)(from + first) - 4 + 0 *", ""},
    {&overlapping, "return u >= OVERLAP || k_warp + 1 < K_WARPS;", "return true;", NULL},
    {&overlapping, "(k_warp + 1 == K_WARPS ? OVERLAP : 0)", "0", ""},
    {&overlapping, "unit_of(k_warp, 0) * UNIT_BYTES;", "k_warp * (PORTION * UNIT_BYTES);", ""},
    {&batches, "(in_batch * PARTS + part)", "(0 * PARTS + part)", NULL},
    {&joined, "    sync_cluster();\n    for (", "    for (", "race"},
    {&joined, "    }\n    sync_cluster();\n}", "    }\n}", "which has ended"},
    {&joined, "cluster_rank() * OWN_CHUNKS", "0", NULL},
    {&joined, "i = cluster_rank() + summer", "i = summer", "second store"},
    {&joined, "i < tiles * PARTS", "i + 1 < tiles * PARTS", ""},
    {&joined, "a_row >= m ||", "a_row + 1 >= m || part == 0 ||", ""},
    {&joined, "lds_of(rank, kept_at(in_batch, part))", "lds_of(0, kept_at(in_batch, part))", NULL},
    {&joined, "item() % 32 * 4 + cluster_window();", "item() % 32 * 4;", "the window of block 0"},
    {&joined, "(SLICES_FIRST ? group_y() : group_x()) / CLUSTER;",
     "(SLICES_FIRST ? group_y() : group_x());", ""},
    {&joined, "const u32 groups = (u32)workgroups / CLUSTER;",
     "const u32 groups = (u32)workgroups / CLUSTER / 2;", "what the kernel checks"},
    {&joined_chunks, "(CLUSTER > 1 || !at.in_last_chunk())", "!at.in_last_chunk()", NULL},
    {&int4, "            order_a(&pairs[i * 4]);\n", "", NULL},
    {&int4, "i / 2 ? below : above, s % SCALES)) *", "i / 2 ? above : below, s % SCALES)) *", NULL},
    {&int4, "of_a[s][t][i % 2];", "of_a[s][t][i / 2];", NULL},
    {&int4, "        sum_a(LAYER_NAME of_a, values, at.chunk, k_warp);",
     "        of_a[0][0][0] = 0;", ""},
    {&int4, "RING = TABLE_BYTES ? TABLE_BYTES : SUM_BUFFERS * WARPS * WARP_SUMS * 128;",
     "RING = TABLE_BYTES;", ""},
    {&scaled, "fused(-extra[i / 2], of_a[s][t][i % 2], sums[t][i])",
     "fused(-extra[0], of_a[s][t][i % 2], sums[t][i])", NULL},
    {&fp8_bf16, "index ? word >> 16", "!index ? word >> 16", NULL},
    {&fp8, "float value = sums[i] * unit;", "float value = sums[i];", NULL},
    {&blocks, "((n) / BLOCK * BLOCKS)", "((n) / BLOCK)", NULL},
    {&blocks, "(u64)row * BLOCKS + column / BLOCK", "(u64)row * BLOCKS", NULL},
    {&blocks, "A_ROW(t * 8 + item() % 4 * 2 + i)", "A_ROW(t * 8 + item() % 4 * 2)", NULL},
    {&blocks, "A_ROW(t * 8 + item() % 4 * 2 + i)", "(first + t * 8 + item() % 4 * 2 + i)",
     "operand a_scale"},
    {&blocks, "    return {ldg(b_scale + block)};", "    return {ldg(b_scale)};", NULL},
    {&dense, "lane % 4 * (UNIT_BYTES / 4)", "lane % 4 * 8", ""},
    {&dense_stages, "    fence_async();\n", "", "with no fence_async between"},
    {&dense, "    await_launch_in_front(a);\n", "",
     "operand a before the launch in front is waited for"},
    {&dense, "await_launch_in_front(a);", "await_launch_in_front();",
     "operand a, which the wait for the launch in front was not told of"},
    {&dense, "        await_launch_in_front(LATE_UNIT);\n", "",
     "store to operand c before the launch in front is waited for"},
    {&fp8, "await_launch_in_front(LATE_UNIT)", "await_launch_in_front()",
     "a_scale, which the wait for the launch in front was not told of"},
    {&blocks, "    await_launch_in_front(a_scale);\n", "",
     "a_scale, which the wait for the launch in front was not told of"},
    {&slab, "barrier_wait(FULL + at.stage * 8, at.parity);", "", "shared memory"},
    {&slab,
     "block);\n        // what is beyond K meets zeros of A: any weights will do, but no "
     "memory beyond a row\n        const u32 from = smaller(at.chunk * PIECES + piece, K / 32 "
     "- 1) * 16;\n        barrier_wait(EMPTY + at.stage * 8, at.parity ^ 1);",
     "block);\n        const u32 from = smaller(at.chunk * PIECES + piece, K / 32 - 1) * 16;", ""},
    {&slab, "smaller(at.chunk * PIECES + piece, K / 32 - 1)", "(at.chunk * PIECES + piece)", ""},
    {&slab, "N % ROWS ? smaller(n, N - 1) : n;", "n;", "operand b"},
    {&slab, "        arrive_behind_copies(FULL + at.stage * 8);",
     "        if (item() % 32)\n"
     "            arrive_behind_copies(FULL + at.stage * 8);\n        else\n"
     "            barrier_arrive(FULL + at.stage * 8);",
     "before its copies do"},
    {&slab, "        fence_async();\n", "", "did not fence"},
    {&slab, "        fence_async();\n        sync_warp();\n", "        fence_async();\n",
     "shared memory"},
    {&slab, "    products_wait<0>();\n", "", ""},
    {&slab, "            products_wait<1>();\n    }\n    products_wait<0>();",
     "            products_wait<1>();\n    }\n    products_wait<1>();", ""},
    {&slab, "sync_warp();\n            if (lane == 0)\n                barrier_arrive(EMPTY",
     "if (lane == 0)\n                barrier_arrive(EMPTY", "race"},
    {&slab, "a.first + smaller(i, a.m - 1)", "a.first + i", "operand a"},
    {&slab, "if (K % CHUNK == 0 || column + u * 64 < K)", "if (true)", ""},
    {&slab, "((half + j) ^ (q % 2 * 4 + t)) * 16", "(half + j) * 16", NULL},
    {&slab, "u * (M_TILE * 128) + q * 512", "u * (M_TILE * 128) + q * 256", ""},
    {&slab, "if (row != NO_ROW && own < N", "if (own < N", "operand"},
    {&slab, "if (row != NO_ROW && own < N", "if (row != NO_ROW", "operand c"},
    {&slab_moe, "        find_rows(SLOT_NAME of_a, warp - WARPS - 1);\n", "", "which nobody wrote"},
    {&slab_moe, "        sts<u32>(SLOTS + i * 4, A_ROW(i));\n    sync_some(2, A_WARPS * 32);",
     "        sts<u32>(SLOTS + i * 4, A_ROW(i));", "shared memory"},
    {&slab_moe, "sts<u32>(SLOTS + i * 4, A_ROW(i))", "sts<u32>(SLOTS + i * 4, C_ROW(i))",
     "operand a"},
    {&slab_moe, "if (row != NO_ROW && own < N", "if (own < N", "operand"},
    {&slab_moe, "ENTER_EXPERT((u64)N * (K / 2), ROWS, groups)", "ENTER_EXPERT(0, ROWS, groups)",
     NULL},
    {&slab_moe, "(value * to.factor[i % 2])", "(value)", NULL},
    {&slab_moe, "const walk at = {groups, group,", "const walk at = {groups + 1, group,", ""},
    {&slab, "    sync_some(1, WARPS * 32);\n    UNROLL for (u32 p = 1;",
     "    UNROLL for (u32 p = 1;", "shared memory"},
    {&slab, "smaller(column / BLOCK, BLOCKS - SCALES)", "column / BLOCK", "operand scales"},
    {&slab, "barrier_init(FULL + i * 8, 32 + BATCHES);", "barrier_init(FULL + i * 8, 32 + 1);", ""},
    {&slab, "        barrier_wait(EMPTY + next.at.stage * 8, next.at.parity ^ 1);\n", "", ""},
    {&slab, "batch += A_WARPS;", "batch += 1;", ""},
    {&slab, "batch >= BATCHES; batch -= BATCHES", "batch >= BATCHES; batch = 0", ""},
    {&slab_int4, "            order_a(pairs);\n", "", NULL},
    {&slab, "own = n + i / 2 * 8", "own = n + i % 2 * 8", ""},
    {&slab, "    await_launch_in_front();\n", "",
     "store to operand c before the launch in front is waited for"},
    {&slab, "        await_launch_in_front(a);\n", "",
     "operand a before the launch in front is waited for"},
    {&slab, "v = ldg_late((const u32x4 *)from)", "v = ldg((const u32x4 *)from)",
     "it wants ldg_late"},
    {&lane_int4, "of_a[t] += values[t][i];", "of_a[t] += values[t][0];", NULL},
    {&lane, "    sync_group();\n    await_launch", "    await_launch", "shared memory"},
    {&lane, "    await_launch_in_front(a);\n", "", "before the launch in front is waited for"},
    {&lane, "values[i] = ldg_late(from + i)", "values[i] = ldg(from + i)", "it wants ldg_late"},
    {&lane, "smaller(row + r, N - 1)", "row + r", "operand"},
    {&lane, "if (n >= N || to == NO_ROW", "if (to == NO_ROW", "operand c"},
    {&lane, "(first + smaller(i, m - 1))", "(first + (i))", "operand a"},
    {&lane, "lanes = 16; lanes;", "lanes = 8; lanes;", NULL},
    {&lane, " || lane != (r * M_TILE + t) % 32", "", "second store"},
    {&ring_rest, "UNITS - s * SIDE", "SIDE", ""},
    {&one_row, "key % 2 ? products[0][2] : products[0][0]", "products[0][0]", NULL},
    {&one_row, "(q ^ key / 2) != p", "q != p", NULL},
    {&one_row, "block = s * 2 + i;", "block = s * 2;", NULL},
    {&one_row, "own + (low + second - first ^ key)", "own + (low + second - first)", NULL},
    {&one_row_int4, "of_a[s][0][i], value)", "0.0f, value)", NULL},
    {&one_row_int4, "of_a[s][0][i], sum)", "0.0f, sum)", NULL},
    {&ring_pairs, "W_ROW((u64)(!KNOWN", "((u64)(!KNOWN", NULL},
    {&ring_pairs, "bias + W_ROW(smaller(n + i * 8, N - 1))", "bias + smaller(n + i * 8, N - 1)",
     NULL},
    {&ring_pairs, "shuffle_xor(value, 4)", "shuffle_xor(value, 8)", NULL},
    {&ring_pairs, "own < N && HAS_COLUMN(own))", "own < N)", ""},
    {&ring_pairs, "gate * logistic(gate) * up", "gate * logistic(up) * up", NULL},
    {&slab_pairs, "W_ROW(source)", "source", NULL},
    {&slab_pairs, "shuffle_xor(value, 4)", "shuffle_xor(value, 16)", NULL},
    {&slab_pairs, "gate > 7.0f ? 7.0f : gate", "gate", NULL},
    {&slab_pairs, "up < -7.0f ? -7.0f : up", "up", NULL},
    {&slab_pairs, "(u + 1.0f)", "u", NULL},
    {&slab_pairs, "1.702f * g", "g", NULL},
    {&ring_moe, "- 1) / TOP_K)", "- 1))", ""},
    {&ring_moe, "b += expert * (u64)(", "b += 0 * (u64)(", NULL},
    {&ring_moe, "scales += (expert) * ((u64)N * BLOCKS)\ntypedef u8", "scales += 0\ntypedef u8",
     NULL},
    {&ring_moe, "bias += expert * (u64)N", "bias += 0", NULL},
    {&ring_moe, "return row < m ? row : NO_ROW;", "return row;", "operand routing"},
    {&ring_moe, "(smaller(C_ROW(i), m - 1) /", "(C_ROW(i) /", "operand a"},
    {&ring_moe, "(value * to.factor[i % 2])", "(value + to.factor[i % 2])", NULL},
    {&ring_hostile, "expert >= EXPERTS", "(int)expert >= (int)EXPERTS", "in no operand"},
    {&ring_moe, "workgroup / slices, groups", "workgroup / slices + 1, groups", NULL},
    {&ring_moe, "workgroup % slices, workgroup", "workgroup / slices, workgroup", ""},
    {&ring_hostile, "expert == ELSEWHERE &&", "false &&", NULL},
    {&ring_hostile, "expert == ELSEWHERE &&", "true &&", NULL},
    {&ring_hostile, "&& row < m; at +=", "; at +=", "operand c"},
    {&ring_hostile, "return row < m ?", "return (int)row < (int)m ?", "operand"},
    {&ring_hostile, "g += (STRIDE)", "g += N", NULL},
    {&pairs_hostile, "C_COLUMN(g * (GROUP_ROWS)),", "g * (GROUP_ROWS),", NULL},
    {&ring_short, "(row) != NO_ROW && routing ? ldg_late", "(row) != NO_ROW ? ldg_late",
     "in no operand"},
    {&ring_moe, "ROUTING(to.row[i])", "ROUTING(to.row[0])", NULL},
    {&ring_moe, "        if (one_lane())\n            make_barriers();\n        sync",
     "        sync", ""},
    {&ring, "            if (part < PARTS)", "            if (part < PARTS - 1)", ""},
    {&chunks,
     "        if (CLUSTER > 1 || (CHUNKS > 1 && !at.in_last_chunk()))\n            continue;", "",
     ""},
    {&one_row, "if (ONE_ROW && lane % 4)", "if (false)", "second store"},
    {&ring_moe, "    await_launch_in_front(choices, experts, rows_used, routing);", "    ",
     "before the launch in front is waited for"},
    {&ring_moe, "rows_used, routing);", "rows_used);",
     "routing, which the wait for the launch in front was not told of"},
    {&ring_moe, "used = ldg_late(rows_used)", "used = ldg(rows_used)", "it wants ldg_late"},
    {&ring_empty, "used / M_TILE + (used % M_TILE != 0)", "used / M_TILE + 1", NULL},
    {&lane_hostile, "if (begin >= used)", "if ((int)begin >= (int)used)", NULL},
    {&lane_hostile, "expert == ELSEWHERE &&", "false &&", NULL},
    {&lane_hostile, "(smaller(C_ROW(i), m - 1) /", "(C_ROW(i) /", "in no operand"},
    {&lane_moe, "b += expert * (u64)(", "b += 0 * (u64)(", NULL},
    {&lane_moe, "absmax8 += (expert)", "absmax8 += 0 * (expert)", NULL},
    {&lane_moe, "offset += (expert)", "offset += 0", NULL},
    {&lane_pairs, "W_ROW(smaller(row + r, N - 1))", "smaller(row + r, N - 1)", NULL},
    {&lane_pairs, "sums[r - r % 2][t]", "sums[r][t]", NULL},
    {&spread, "    sync_group();\n    return shift", "    return shift", "shared memory"},
    {&spread, "    await_launch_in_front();\n", "",
     "store to operand c before the launch in front is waited for"},
    {&spread, "if (chunk >= TOTAL)", "if (chunk > TOTAL)", "operand"},
    {&spread, "i < NEST; i += ITEMS", "i < NEST - 8; i += ITEMS", "which nobody wrote"},
    {&spread, "product(lds<float>", "fused(0.5f, lds<float>", NULL},
    {&widened, "if (chunk >= TOTAL)", "if (chunk > TOTAL)", "operand"},
    {&widened, "SCALE_ROW(first / K)", "SCALE_ROW(first / K + 1)", NULL},
    {&widened, "first % K / 128", "first % K / 64", ""},
    {&widened, "i % 2 * 16", "0", NULL},
    {&align, "    check_shared_start();\n", "", "check_shared_start"},
    {&align, "    sync_warp();\n    await_launch", "    await_launch", "shared memory"},
    {&align, "    await_launch_in_front(topk_ids);\n", "",
     "topk_ids before the launch in front is waited for"},
    {&align, "await_launch_in_front(topk_ids)", "await_launch_in_front()",
     "topk_ids, which the wait for the launch in front was not told of"},
    {&align, "count_bits(alike));\n            }\n            sync_warp();",
     "count_bits(alike));\n            }", "race"},
    {&align, "end, warp, lane);\n    sync_group();", "end, warp, lane);", "shared memory"},
    {&align, "sums.all);\n    sync_group();", "sums.all);", "shared memory"},
    {&align, "    sync_group();\n\n    put(", "\n    put(", "shared memory"},
    {&align, "lanes_before(alike, lane);\n            sync_warp();", "lanes_before(alike, lane);",
     "race"},
    {&align, "slot + 1);\n            }\n            sync_warp();", "slot + 1);\n            }",
     "race"},
    {&align, "if (id[i] < EXPERTS && is_last(alike, lane))", "if (is_last(alike, lane))",
     "shared memory"},
    {&align, "is_one = id[i] < EXPERTS", "is_one = true", ""},
    {&align, "is_one = id[i] < EXPERTS", "is_one = (int)id[i] < (int)EXPERTS", ""},
    {&align, "i * 32 < end ?", "i * 32 < end + 1 ?", ""},
    {&align, "begin += w < warp ?", "begin += w <= warp ?", ""},
    {&align, "lane & step ? other : 0", "lane & step ? 0 : other", ""},
    {&align, "(1u << lane) - 1", "(2u << lane) - 1", ""},
    {&align, "set >> lane == 1", "(set >> lane & 1)", "race"},
    {&align, "slot % BLOCK_ROWS == 0", "slot % BLOCK_ROWS == 1", NULL},
    {&align, "stg(rows + slot, at + i * 32 + lane)", "stg(rows + slot, at + i * 32 + lane + 1)",
     NULL},
    {&align, "stg(rows + slot, choices);\n    }", ";\n    }", NULL},
    {&align, "slot += ITEMS)\n        stg(rows + slot, choices);", "slot += ITEMS)\n        ;",
     NULL},
    {&align, "stg(experts + block, NOBODY);", ";", NULL},
    {&align, "EXPERTS * (BLOCK_ROWS - 1), choices", "EXPERTS * BLOCK_ROWS, choices",
     "operand rows"},
    {&align, "stg(rows_used, used);", "stg(rows_used, used / BLOCK_ROWS);", NULL},
    {&align, "    if (item() == 0)\n        stg(rows_used", "    stg(rows_used", "second store"},
};

/* The source with the first place of `right` replaced. */
static char *planted(const char *source, const struct fault *f)
{
    const char *const at = strstr(source, f->right);
    char *text;

    if (!at || strstr(at + 1, f->right) == at)
        fail_msg("the source has no \"%s\"", f->right);
    assert_true(asprintf(&text, "%.*s%s%s", (int)(at - source), source, f->wrong,
                         at + strlen(f->right)) > 0);
    return text;
}

/* Whether a run of the text shows the fault: by the message it should, or by a wrong result. */
static bool shows(struct bench *b, const struct fault *f, const char *text, uint64_t seed)
{
    const quern_status status =
        verify_text(&b->slice, text, &b->host, f->run->m, f->run->units, seed);

    if (status == QUERN_E_FAULT)
        return f->says && strstr(quern_last_error()->message, f->says);
    if (status != QUERN_OK)
        fail_msg("\"%s\": %s\n%s", f->wrong, quern_last_error()->message, quern_last_error()->log);
    return (!f->says || !*f->says) && !(error_of(b, f->run->m) <= tolerance_of(&b->problem));
}

/* A fault whose place is gone would be missed only by the few runs that plant it. */
static void test_faults_have_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct bench b;
        set_up(&b, faults[i].run);
        if (!strstr(str_text(&b.source), faults[i].right))
            fail_msg("fault %zu: the source has no \"%s\"", i, faults[i].right);
        tear_down(&b);
    }
}

/* The seed draws the order in which the machine's warps and copies go on. A missing wait shows in
 * most orders but not in each, and so a fault may take up to this many of them. */
#define ORDERS 24

static void test_planted_faults_are_found(void **state)
{
    struct t_walk walk = t_walk(sizeof faults / sizeof *faults, ONE_IN);
    int missed = 0;

    (void)state;
    for (size_t i; t_walk_next(&walk, &i);) {
        const struct fault *const f = &faults[i];
        struct bench b;
        bool found = false;
        set_up(&b, f->run);
        char *const text = planted(str_text(&b.source), f);
        for (uint64_t order = 0; order < ORDERS && !found; order++)
            found = shows(&b, f, text, i + 1 + order * sizeof faults);
        if (!found) {
            print_error("fault %zu, \"%s\" in place of \"%s\": not found in %d orders\n", i,
                        f->wrong, f->right, ORDERS);
            missed++;
        }
        free(text);
        tear_down(&b);
    }
    assert_int_equal(missed, 0);
}

/* ---- Other compilers ------------------------------------------------------------------------- */

static void test_no_compiler_is_said(void **state)
{
    const char *const path = getenv("PATH");
    struct bench b;

    (void)state;
    char *const kept = strdup(path ? path : "");
    set_up(&b, &lane);
    setenv("PATH", "/nonexistent", 1);
    assert_int_equal(verify_text(&b.slice, str_text(&b.source), &b.host, lane.m, 1, 1),
                     QUERN_E_TOOLCHAIN);
    assert_non_null(strstr(quern_last_error()->message, "no C++ compiler"));
    setenv("PATH", kept, 1);
    assert_int_equal(verify_text(&b.slice, "not C++", &b.host, lane.m, 1, 1), QUERN_E_COMPILE);
    assert_non_null(strstr(quern_last_error()->log, "error"));
    free(kept);
    tear_down(&b);
}

/* Distributions and build systems put scripts in front of their compilers: one is run like any
 * compiler, and what it says is the error's log. */
static void test_a_compiler_may_be_a_script(void **state)
{
    static const char text[] = "#!/bin/sh\necho this script was run\nexit 1\n";
    const char *const path = getenv("PATH");
    char *const kept = strdup(path ? path : ""), *const directory = t_temp_dir();
    char script[PATH_MAX];
    struct bench b;

    (void)state;
    snprintf(script, sizeof script, "%s/c++", directory);
    t_write_file(script, text, sizeof text - 1);
    assert_int_equal(chmod(script, 0700), 0);
    set_up(&b, &lane);
    setenv("PATH", directory, 1);
    assert_int_equal(verify_text(&b.slice, str_text(&b.source), &b.host, lane.m, 1, 1),
                     QUERN_E_COMPILE);
    assert_non_null(strstr(quern_last_error()->log, "this script was run"));
    setenv("PATH", kept, 1);
    t_remove(directory);
    free(kept);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_are_right),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_specials),
        cmocka_unit_test(test_infinite_overlap),
        cmocka_unit_test(test_faults_have_places),
        cmocka_unit_test(test_planted_faults_are_found),
        cmocka_unit_test(test_no_compiler_is_said),
        cmocka_unit_test(test_a_compiler_may_be_a_script),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
