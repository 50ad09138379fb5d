/* SPDX-License-Identifier: MIT */
/*
 * Mixtures of experts (op=moe): every family's kernels against the double reference in full
 * checking mode, over formats, tokens, experts and choices; the reference against products of plain
 * layers; blocks that name no expert, slots that name no choice, whatever a host puts there;
 * experts without rows; row weights; how large blocks are; stacks of weights beyond 4 GiB. Of the
 * runs one in ONE_IN here, more in test_moe_long.c. This file is long because most
 * of its tests need a whole layer, which they share.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_runs.h"

#include "plan/family.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifndef ONE_IN
/* Has no divisor in common with the numbers of tokens, experts, choices and targets. */
#define ONE_IN (T_SANITIZED ? 721 : 361)
#endif

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *const targets[] = {"gfx1151", "gfx942", "gfx1201", "gfx90a", "gfx950"};

/* ---- Right answers --------------------------------------------------------------------------- */

static const char *const layers[] = {
    "wq=nf4 n=90 k=320 a=bf16 bias=1",
    "wq=fp4 n=34 k=512 a=f16 scale=nested group=128 c=f32",
    "wq=mxfp4 n=68 k=352 a=bf16 bias=1 act=swiglu_oai glu=interleaved",
    "wq=nf4 n=33 k=192 a=f32",
    "wq=nf4 n=40 k=256 a=bf16 scale=nested act=silu_mul glu=halves",
    "wq=int4 n=90 k=256 a=f16 zero=u8 group=64 bias=1",
    "wq=int4 n=34 k=512 a=bf16 layout=exl c=f16",
    "wq=int4 n=72 k=256 a=f16 layout=ck zero=scaled group=32",
    "wq=int4 n=5 k=256 a=f32 zero=u8 group=channel",
    "wq=int4 n=48 k=384 a=bf16 zero=u8 act=silu_mul glu=halves round=trunc",
    "wq=fp8 n=45 k=272 a=fp8 bias=1",
    "wq=fp8 n=34 k=144 a=bf16",
    "wq=fp8 n=140 k=272 a=fp8 scale=block128",
    "wq=none n=45 k=264 a=bf16 bias=1",
    "wq=none n=33 k=77 a=f16",
    "wq=none n=18 k=132 a=f32 act=silu_mul glu=interleaved",
};
static const int tokens[] = {1, 2, 7, 64, 300};
static const int experts[] = {8, 32, 128};
static const int choices[] = {1, 2, 4, 8};

static void test_kernels_are_right(void **state)
{
    (void)state;
    for (int l = 0; l < COUNT(layers); l++)
        for (int t = 0; t < COUNT(targets); t++)
            for (int i = 0; i < COUNT(tokens) * COUNT(experts) * COUNT(choices); i++)
                t_runs_add(targets[t], tokens[i % COUNT(tokens)], "op=moe %s experts=%d top_k=%d",
                           layers[l], experts[i / COUNT(tokens) % COUNT(experts)],
                           choices[i / COUNT(tokens) / COUNT(experts)]);
    t_runs_verify(t_cache, ONE_IN);
}

/* Each size of blocks that may be asked for, whatever the rows. */
static void test_blocks_of_any_size(void **state)
{
    static const char *const few[] = {
        "wq=nf4 n=40 k=256 a=bf16", "wq=int4 n=40 k=256 a=f16 zero=u8", "wq=none n=40 k=264 a=f16"};

    (void)state;
    for (int l = 0; l < COUNT(few); l++)
        for (int t = 0; t < 3; t++)
            for (int rows = 1; rows <= 128; rows *= 2)
                t_runs_add(targets[t], 21, "op=moe %s experts=8 top_k=2 block_rows=%d", few[l],
                           rows);
    t_runs_verify(t_cache, T_SANITIZED ? 27 : ONE_IN > 1 ? 13 : 1);
}

/* Blocks of 128 rows, one of them full, in tiles in LDS of as many rows. */
static void test_high_tiles(void **state)
{
    static const char *const some[] = {"wq=nf4 n=90 k=320 a=f16 scale=nested",
                                       "wq=mxfp4 n=68 k=352 a=bf16 bias=1 act=swiglu_oai "
                                       "glu=interleaved",
                                       "wq=int4 n=72 k=256 a=bf16 zero=u8 act=silu_mul glu=halves",
                                       "wq=int4 n=40 k=256 a=f16 layout=ck zero=scaled group=32"};

    (void)state;
    for (int l = 0; l < COUNT(some); l++)
        for (int t = 0; t < COUNT(targets); t++) {
            char text[160];
            snprintf(text, sizeof text, "op=moe %s experts=2 top_k=1 block_rows=128", some[l]);
            const struct quern_problem p = t_problem(text);
            struct plan_set set;
            assert_int_equal(plan_make(&p, target_named(targets[t]), &set), QUERN_OK);
            assert_int_equal(set.plans->m_tile, 128);
            t_runs_add(targets[t], 300, "%s", text);
        }
    t_runs_verify(t_cache, T_SANITIZED ? 19 : ONE_IN > 1 ? 6 : 1);
}

/* ---- The reference --------------------------------------------------------------------------- */

enum { TOKENS = 5, EXPERTS = 4, TOP_K = 2, ROWS = 4 };

static void *host_operand(const struct quern_problem *p, enum operand which, int64_t m)
{
    struct quern_operand o;

    return operand_describe(p, which, m, &o) && o.access == QUERN_SIM_READ ? calloc(1, o.bytes)
                                                                           : NULL;
}

/* Each choice's row is that of its expert's op=gemm, of that token alone, times its weight. */
static void check_reference(const char *text)
{
    char words[192];
    union operand_pointers in = {0}, one = {0};
    struct quern_operand o;

    snprintf(words, sizeof words, "op=moe %s experts=%d top_k=%d block_rows=%d", text, EXPERTS,
             TOP_K, ROWS);
    const struct quern_problem p = t_problem(words), gemm = problem_of_expert(&p);
    const size_t columns = (size_t)problem_columns(&p);
    double *const y = calloc(TOKENS * TOP_K * columns, sizeof *y), *const row = calloc(columns, 8);

    for (int i = 0; i < OPERAND_COUNT; i++)
        in.at[i] = host_operand(&p, (enum operand)i, TOKENS);
    assert_int_equal(quant_random(&p, TOKENS, 7, &in), QUERN_OK);
    assert_int_equal(quant_reference(&p, &in, TOKENS, y), QUERN_OK);
    const int32_t *const rows = in.rows, *const whose = in.experts;
    int named = 0;
    for (int32_t slot = 0; slot < *(const int32_t *)in.rows_used; slot++) {
        const int32_t choice = rows[slot], expert = whose[slot / ROWS];
        if (choice == TOKENS * TOP_K)
            continue;
        named++;
        for (int i = 0; i < OPERAND_COUNT; i++) {
            const bool shared = i == OPERAND_CODE || i == OPERAND_A_SCALE;
            one.at[i] = in.at[i] && operand_describe(&gemm, (enum operand)i, 1, &o)
                            ? (char *)in.at[i] + (shared ? 0 : (size_t)expert * o.bytes)
                            : NULL;
        }
        one.a = (char *)in.a + (size_t)(choice / TOP_K * p.k) * dtype_bytes(p.a);
        assert_int_equal(quant_reference(&gemm, &one, 1, row), QUERN_OK);
        for (size_t n = 0; n < columns; n++)
            assert_true(y[(size_t)choice * columns + n] ==
                        row[n] * (double)((const float *)in.routing)[choice]);
    }
    assert_int_equal(named, TOKENS * TOP_K);
    for (int i = 0; i < OPERAND_COUNT; i++)
        free(in.at[i]);
    free(y);
    free(row);
}

static void test_reference(void **state)
{
    (void)state;
    check_reference("wq=nf4 n=10 k=192 a=bf16 bias=1 scale=nested");
    check_reference("wq=int4 n=16 k=256 a=f16 zero=u8 layout=gptq");
    check_reference("wq=mxfp4 n=12 k=64 a=f16 act=swiglu_oai glu=halves bias=1");
    check_reference("wq=fp8 n=6 k=32 a=fp8");
    check_reference("wq=none n=6 k=33 a=f32 bias=1");
}

/* Blocks on the CPU, by the definition. */
static void test_align(void **state)
{
    static const int32_t ids[] = {2, 0, 2, 3, -1, 2, 2, 4, 0, 2, INT32_MIN, INT32_MAX};
    static const int32_t want_rows[] = {1, 8, 12, 12, 0, 2, 5, 6, 9, 12, 12, 12, 3, 12, 12, 12};
    static const int32_t want_experts[] = {0, 2, 2, 3};
    const struct quern_problem p =
        t_problem("op=moe wq=none a=f32 n=8 k=8 experts=4 top_k=2 block_rows=4");
    int32_t rows[64], whose[16], used;
    int64_t slots;

    (void)state;
    assert_int_equal(quern_moe_slots(&p, 6, &slots), QUERN_OK);
    assert_int_equal(slots, 24); /* 12 + 4·3, a multiple of 4 */
    assert_int_equal(quern_moe_align(&p, 6, ids, rows, whose, &used), QUERN_OK);
    assert_int_equal(used, 16);
    assert_memory_equal(rows, want_rows, sizeof want_rows);
    assert_memory_equal(whose, want_experts, sizeof want_experts);
    for (int i = 16; i < 24; i++)
        assert_int_equal(rows[i], 12);
    assert_int_equal(whose[4], -1);
    assert_int_equal(whose[5], -1);
    assert_int_equal(quern_moe_slots(&p, 0, &slots), QUERN_E_ARGUMENT);
    t_message_has("m is 0; expected 1 to 1073741823"); /* tokens of two choices */
    assert_int_equal(quern_moe_slots(&p, INT64_MAX, &slots), QUERN_E_ARGUMENT);
    t_message_has("with top_k=2 expected 1 to 1073741823");
    const struct quern_problem listed = t_problem("op=moe_align experts=4 top_k=2 block_rows=4");
    assert_int_equal(quern_moe_slots(&listed, -1, &slots), QUERN_E_ARGUMENT);
    t_message_has("m is -1; expected 1 to 32768");
    assert_int_equal(quern_moe_slots(&listed, INT64_MAX, &slots), QUERN_E_ARGUMENT);
    t_message_has("with top_k=2 1 to 32768 tokens");
    const struct quern_problem no_rows =
        t_problem("op=moe wq=none a=f32 n=8 k=8 experts=4 top_k=2");
    assert_int_equal(quern_moe_slots(&no_rows, 6, &slots), QUERN_E_ARGUMENT);
    t_message_has("quern_op_block_rows");
}

/* Processor time that blocks of so many choices take, among so many experts: the least of three. */
static double seconds_of_align(int experts_of_layer, int count, const int32_t *ids, int32_t *rows,
                               int32_t *whose)
{
    const struct quern_problem p = {
        .op = QUERN_OP_MOE, .experts = experts_of_layer, .top_k = 1, .block_rows = 1};
    double least = INFINITY;
    int32_t used;

    for (int i = 0; i < 3; i++) {
        struct timespec from, to;
        assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from), 0);
        quant_moe_align(&p, count, ids, rows, whose, &used);
        assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to), 0);
        assert_int_equal(used, count);
        least = fmin(least, (double)(to.tv_sec - from.tv_sec) +
                                (double)(to.tv_nsec - from.tv_nsec) * 1e-9);
    }
    return least;
}

/* Choices cost what they cost, whether of one expert or of a thousand: with a pass over all of them
 * for each expert it would be some hundred times as much. */
static void test_align_is_linear(void **state)
{
    enum { CHOICES = 1 << 18 };
    int32_t *const ids = calloc(CHOICES, sizeof *ids), *const rows = calloc(CHOICES, sizeof *rows),
                   *const whose = calloc(CHOICES, sizeof *whose);

    (void)state;
    assert_true(ids && rows && whose);
    const double one = seconds_of_align(1, CHOICES, ids, rows, whose);
    for (int i = 0; i < CHOICES; i++)
        ids[i] = i * 37 % PROBLEM_EXPERTS_MAX;
    const double many = seconds_of_align(PROBLEM_EXPERTS_MAX, CHOICES, ids, rows, whose);
    if (many > 20 * one)
        fail_msg("choices of 1024 experts took %g s, those of one %g s", many, one);
    free(ids);
    free(rows);
    free(whose);
}

/* ---- What a host may put into rows and experts ----------------------------------------------- */

/*
 * A layer on the software GPU, whose full check faults on every access outside of an operand. C has
 * a byte pattern before each launch, which rows that nothing names must keep.
 */
struct mixture {
    quern_ctx *ctx;
    quern_op *op;
    struct quern_problem p;
    int64_t m;
    union operand_pointers host;
    quern_buffer *there[OPERAND_COUNT];
    uint64_t bytes[OPERAND_COUNT];
    struct quern_args args;
    double *want;
};

static void mixture_open(struct mixture *x, const char *target, const char *text, int64_t m)
{
    struct quern_operand o;

    *x = (struct mixture){.m = m, .p = t_problem(text), .args = QUERN_INIT(struct quern_args)};
    x->ctx = t_open(target, t_cache, QUERN_JIT_ON);
    assert_int_equal(quern_op_create_range(x->ctx, &x->p, m, m, &x->op), QUERN_OK);
    assert_int_equal(quern_op_block_rows(x->op, m, &x->p.block_rows), QUERN_OK);
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (operand_describe(&x->p, (enum operand)i, m, &o)) {
            x->bytes[i] = o.bytes;
            x->host.at[i] = calloc(1, o.bytes);
            assert_int_equal(
                quern_buffer_create(x->ctx, o.bytes, i == OPERAND_C ? 3 : 1, o.name, &x->there[i]),
                QUERN_OK);
            assert_int_equal(quern_args_set(&x->args, o.name, quern_buffer_address(x->there[i])),
                             QUERN_OK);
        }
    assert_int_equal(quant_random(&x->p, m, 11, &x->host), QUERN_OK);
    x->want = calloc((size_t)(problem_results(&x->p, m) * problem_columns(&x->p)), sizeof(double));
}

static void mixture_close(struct mixture *x)
{
    for (int i = 0; i < OPERAND_COUNT; i++) {
        quern_buffer_destroy(x->there[i]);
        free(x->host.at[i]);
    }
    free(x->want);
    quern_op_release(x->op);
    quern_close(x->ctx);
}

/* Launches with what is in x->host, and compares every row of C. */
static void mixture_check(struct mixture *x, double tolerance)
{
    const int64_t columns = problem_columns(&x->p), rows = problem_results(&x->p, x->m);
    const size_t row = (size_t)columns * dtype_bytes(x->p.c);
    double largest = 0;

    memset(x->host.c, 0x7b, x->bytes[OPERAND_C]);
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (x->there[i])
            assert_int_equal(quern_buffer_write(x->there[i], x->host.at[i], x->bytes[i]), QUERN_OK);
    if (quern_op_launch(x->op, &x->args, x->m, NULL) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    assert_int_equal(quern_buffer_read(x->there[OPERAND_C], x->host.c, x->bytes[OPERAND_C]),
                     QUERN_OK);
    union operand_pointers in = x->host;
    in.c = NULL;
    assert_int_equal(quant_reference(&x->p, &in, x->m, x->want), QUERN_OK);
    for (int64_t i = 0; i < rows * columns; i++)
        if (fabs(x->want[i]) > largest)
            largest = fabs(x->want[i]);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t n = 0; n < columns; n++) {
            const double want = x->want[i * columns + n];
            const double got = (double)quant_load(x->p.c, x->host.c, (size_t)(i * columns + n));
            if (isnan(want)) {
                for (size_t b = 0; b < row; b++)
                    if (((const uint8_t *)x->host.c)[(size_t)i * row + b] != 0x7b)
                        fail_msg("row %d of C was written, which no block names", (int)i);
                break;
            }
            if (!(fabs(got - want) <= tolerance * largest))
                fail_msg("C[%d,%d] is %g; expected %g", (int)i, (int)n, got, want);
        }
}

static void check_hostile(const char *target, const char *text, int64_t m, double tolerance)
{
    struct mixture x;

    mixture_open(&x, target, text, m);
    int32_t *const rows = x.host.rows, *const whose = x.host.experts,
                   *const used = x.host.rows_used;
    const int64_t slots = problem_slots(&x.p, m), blocks = slots / x.p.block_rows;
    const int32_t count = (int32_t)problem_results(&x.p, m);
    mixture_check(&x, tolerance);
    /* an expert elsewhere, and numbers that are none's */
    static const int32_t strange[] = {-1, -2, INT32_MIN, INT32_MAX, 1 << 16};
    for (int64_t b = 0; b < blocks; b++)
        if (b % 2)
            whose[b] = b / 2 % 6 == 5 ? x.p.experts : strange[b / 2 % 6];
    mixture_check(&x, tolerance);
    /* choices that there are not */
    for (int64_t i = 0; i < slots; i += 3)
        rows[i] = i % 2 ? count + (int32_t)i : i % 4 ? INT32_MIN : -1;
    mixture_check(&x, tolerance);
    /* more used than there are, and fewer, and none */
    *used = INT32_MAX;
    mixture_check(&x, tolerance);
    *used = -1;
    mixture_check(&x, tolerance);
    *used = x.p.block_rows;
    mixture_check(&x, tolerance);
    *used = 0;
    mixture_check(&x, tolerance);
    mixture_close(&x);
}

static void test_hostile(void **state)
{
    (void)state;
    check_hostile("gfx1151", "op=moe wq=nf4 n=34 k=192 a=bf16 experts=8 top_k=2 bias=1", 9, 5e-3);
    check_hostile("gfx942", "op=moe wq=int4 n=50 k=256 a=f16 zero=u8 experts=4 top_k=2", 37, 5e-3);
    check_hostile("gfx1201",
                  "op=moe wq=none n=20 k=68 a=f32 experts=16 top_k=4 act=silu_mul glu=halves", 3,
                  1e-5);
    /* blocks of one slot, whose kernels look at it before all else */
    check_hostile("gfx1151",
                  "op=moe wq=nf4 n=34 k=192 a=bf16 experts=8 top_k=2 bias=1 block_rows=1", 9, 5e-3);
    if (T_SANITIZED)
        return;
    check_hostile("gfx942",
                  "op=moe wq=int4 n=50 k=256 a=f16 zero=u8 experts=4 top_k=2 block_rows=1", 37,
                  5e-3);
    check_hostile("gfx90a", "op=moe wq=none n=12 k=40 a=bf16 experts=3 top_k=2 block_rows=1", 4,
                  8e-3);
    check_hostile("gfx1201", "op=moe wq=mxfp4 n=66 k=64 a=f16 experts=32 top_k=1", 5, 5e-3);
    check_hostile("gfx950", "op=moe wq=mxfp4 n=66 k=64 a=f16 experts=2 top_k=1", 80, 5e-3);
    check_hostile("gfx1151", "op=moe wq=fp4 n=66 k=128 a=bf16 experts=2 top_k=2", 80, 5e-3);
    check_hostile("gfx90a", "op=moe wq=none n=12 k=40 a=bf16 experts=3 top_k=2", 4, 8e-3);
}

/* All tokens on one expert; then no row weights, and fewer slots. */
static void test_launch(void **state)
{
    struct mixture x;

    (void)state;
    mixture_open(&x, "gfx1151", "op=moe wq=int4 n=24 k=128 a=f16 experts=32 top_k=1", 40);
    int32_t ids[40];
    for (int i = 0; i < 40; i++)
        ids[i] = 31;
    quant_moe_align(&x.p, 40, ids, x.host.rows, x.host.experts, x.host.rows_used);
    mixture_check(&x, 5e-3);
    const void *const routing = x.args.routing;
    x.args.routing = NULL;
    for (int i = 0; i < 40; i++)
        ((float *)x.host.routing)[i] = 1;
    mixture_check(&x, 5e-3);
    x.args.routing = routing;
    x.args.slots = (40 + x.p.block_rows - 1) / x.p.block_rows * x.p.block_rows;
    mixture_check(&x, 5e-3);
    x.args.slots++;
    assert_int_equal(quern_op_launch(x.op, &x.args, 40, NULL), QUERN_E_ARGUMENT);
    t_message_has("a multiple of block_rows");
    x.args.slots = 0;
    x.args.rows = NULL;
    assert_int_equal(quern_op_launch(x.op, &x.args, 40, NULL), QUERN_E_ARGUMENT);
    t_message_has("args.rows is null");
    mixture_close(&x);
}

/* Rows of A and C that lie further apart than K and N give what packed ones do, to the last bit;
 * nothing between them is read or written, those of an expert that is elsewhere become zeros, and
 * nothing lies behind the last of either. */
static void check_strides(const char *target, const char *text, int64_t m)
{
    struct mixture x;

    mixture_open(&x, target, text, m);
    ((int32_t *)x.host.experts)[0] = -1;
    mixture_check(&x, 8e-3);
    const size_t m_rows = (size_t)m, rows = (size_t)problem_results(&x.p, m);
    const size_t a_row = (size_t)x.p.k * dtype_bytes(x.p.a), a_apart = a_row + 64,
                 c_row = (size_t)problem_columns(&x.p) * dtype_bytes(x.p.c), c_apart = c_row + 12,
                 a_bytes = (m_rows - 1) * a_apart + a_row, c_bytes = (rows - 1) * c_apart + c_row;
    uint8_t *const a = malloc(a_bytes), *const c = malloc(c_bytes);
    quern_buffer *a_there, *c_there;
    assert_true(a && c);
    memset(a, 0xff, a_bytes); /* NaN */
    memset(c, 0x7b, c_bytes);
    for (size_t i = 0; i < m_rows; i++)
        memcpy(a + i * a_apart, (const uint8_t *)x.host.a + i * a_row, a_row);
    assert_int_equal(quern_buffer_create(x.ctx, a_bytes, 1, "a", &a_there), QUERN_OK);
    assert_int_equal(quern_buffer_create(x.ctx, c_bytes, 3, "c", &c_there), QUERN_OK);
    assert_int_equal(quern_buffer_write(a_there, a, a_bytes), QUERN_OK);
    assert_int_equal(quern_buffer_write(c_there, c, c_bytes), QUERN_OK);
    x.args.a = quern_buffer_address(a_there);
    x.args.c = quern_buffer_address(c_there);
    x.args.lda = (int64_t)(a_apart / dtype_bytes(x.p.a));
    x.args.ldc = (int64_t)(c_apart / dtype_bytes(x.p.c));
    if (quern_op_launch(x.op, &x.args, m, NULL) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    assert_int_equal(quern_buffer_read(c_there, c, c_bytes), QUERN_OK);
    for (size_t i = 0; i < rows; i++) {
        if (memcmp(c + i * c_apart, (const uint8_t *)x.host.c + i * c_row, c_row) != 0)
            fail_msg("%s, m=%d: row %zu of C is another with lda and ldc", text, (int)m, i);
        for (size_t at = i * c_apart + c_row; at < (i + 1) * c_apart && at < c_bytes; at++)
            assert_int_equal(c[at], 0x7b);
    }
    quern_buffer_destroy(a_there);
    quern_buffer_destroy(c_there);
    free(a);
    free(c);
    mixture_close(&x);
}

static void test_strides(void **state)
{
    static const struct {
        const char *target, *text;
        int m;
    } runs[] = {
        /* of each family that AMD's targets have */
        {"gfx1151", "op=moe wq=nf4 n=34 k=192 a=bf16 experts=8 top_k=2 bias=1", 9},
        {"gfx942", "op=moe wq=int4 n=50 k=256 a=f16 zero=u8 experts=4 top_k=2", 37},
        {"gfx1151", "op=moe wq=fp4 n=66 k=128 a=bf16 experts=2 top_k=2", 80},
        {"gfx1201", "op=moe wq=none n=20 k=68 a=f32 experts=16 top_k=4 act=silu_mul glu=halves", 3},
        {"gfx1151", "op=moe wq=int4 n=24 k=128 a=f16 experts=32 top_k=1", 3},
        {"gfx1151", "op=moe wq=nf4 n=40 k=256 a=f32 scale=nested experts=8 top_k=2", 1},
        {"gfx1201", "op=moe wq=int4 n=24 k=128 a=f32 experts=32 top_k=2", 1},
    };

    (void)state;
    for (int i = 0; i < COUNT(runs); i += T_SANITIZED ? 2 : 1)
        check_strides(runs[i].target, runs[i].text, runs[i].m);
}

/* A grid's limit is for the slots that a launch has: those that the host says where it says so. */
static void test_slots(void **state)
{
    enum { M = 40, B = 8 };
    int32_t ids[M];
    char message[96];
    struct mixture x;
    struct plan_set set;

    (void)state;
    mixture_open(&x, "gfx1151", "op=moe wq=int4 n=24 k=128 a=f16 experts=32 top_k=1 block_rows=8",
                 M);
    for (int i = 0; i < M; i++)
        ids[i] = 31; /* which fill their blocks, so that no slot is for none */
    quant_moe_align(&x.p, M, ids, x.host.rows, x.host.experts, x.host.rows_used);
    mixture_check(&x, 5e-3);
    void *const again = malloc(x.bytes[OPERAND_C]);
    assert_int_equal(quern_buffer_write(x.there[OPERAND_C], x.host.a, M), QUERN_OK);
    x.args.slots = M;
    assert_int_equal(quern_op_launch(x.op, &x.args, INT32_MAX, NULL), QUERN_OK);
    assert_int_equal(quern_buffer_read(x.there[OPERAND_C], again, x.bytes[OPERAND_C]), QUERN_OK);
    assert_memory_equal(again, x.host.c, x.bytes[OPERAND_C]);
    free(again);
    x.args.slots = 0;
    assert_int_equal(quern_op_launch(x.op, &x.args, INT32_MAX, NULL), QUERN_E_ARGUMENT);
    t_message_has("m is 2147483647, which can have 2147483872 slots");
    t_message_has("set args.slots");

    assert_int_equal(plan_make(&x.p, target_named("gfx1151"), &set), QUERN_OK);
    const struct plan *const p = plan_for(&set, M);
    const int64_t most = p->slices_max * p->m_tile / B * B;
    const int64_t wrong[] = {-B, M + 1, most + B, INT64_MAX / B * B};
    snprintf(message, sizeof message, "expected 0, or a multiple of block_rows=8 up to %lld (",
             (long long)most);
    for (int i = 0; i < COUNT(wrong); i++) {
        x.args.slots = wrong[i];
        assert_int_equal(quern_op_launch(x.op, &x.args, M, NULL), QUERN_E_ARGUMENT);
        t_message_has(message);
    }
    mixture_close(&x);
}

/* What an op was not created for it neither launches nor has blocks for, so that both products of a
 * layer have the same blocks whatever else they were created for. */
static void test_beyond(void **state)
{
    const struct quern_problem p = t_problem("op=moe wq=int4 n=24 k=128 a=f16 experts=4 top_k=2");
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    quern_op *op, *more;
    int rows;

    (void)state;
    assert_int_equal(quern_op_create(ctx, &p, 4, &op), QUERN_OK);
    assert_int_equal(quern_op_block_rows(op, 16, &rows), QUERN_OK);
    assert_int_equal(rows, 16);
    assert_int_equal(quern_op_block_rows(op, 24, &rows), QUERN_E_ARGUMENT);
    t_message_has("was created for other numbers of rows");
    assert_int_equal(quern_op_create(ctx, &p, 100, &more), QUERN_OK);
    assert_int_equal(quern_op_block_rows(op, 24, &rows), QUERN_OK);
    assert_int_equal(rows, 32);
    quern_op_release(op);
    quern_op_release(more);
    quern_close(ctx);
}

/* ---- How large blocks are -------------------------------------------------------------------- */

/* Both products of a layer have the same blocks for as many choices; and they grow with those. */
static void test_block_rows(void **state)
{
    static const char *const weights[] = {"wq=nf4 a=bf16", "wq=int4 a=f16 zero=u8",
                                          "wq=mxfp4 a=bf16", "wq=fp8 a=bf16", "wq=none a=bf16"};

    (void)state;
    for (int t = 0; t < COUNT(targets); t++)
        for (int w = 0; w < COUNT(weights); w++)
            for (int e = 0; e < COUNT(experts); e++) {
                char up[160], down[160];
                struct plan_set sets[2];
                snprintf(up, sizeof up,
                         "op=moe %s n=1536 k=2048 act=silu_mul glu=halves experts=%d top_k=8",
                         weights[w], experts[e]);
                snprintf(down, sizeof down, "op=moe %s n=2048 k=768 experts=%d top_k=1", weights[w],
                         experts[e]);
                const struct quern_problem p = t_problem(up), q = t_problem(down);
                assert_int_equal(plan_make(&p, target_named(targets[t]), &sets[0]), QUERN_OK);
                assert_int_equal(plan_make(&q, target_named(targets[t]), &sets[1]), QUERN_OK);
                int before = 0;
                for (int64_t m = 1; m <= 1 << 20; m += 1 + m / 7) {
                    const int rows = plan_block_rows(&sets[0], m);
                    assert_int_equal(rows, plan_block_rows(&sets[1], 8 * m));
                    assert_true(rows >= before);
                    before = rows;
                }
                assert_true(before >= 8);
            }
}

/* Where experts have 384 choices and more, blocks are as high as tiles in LDS can be, unless these
 * are held up by products and not by decoding weights. */
static void test_high_blocks(void **state)
{
    static const struct {
        const char *target, *words;
        int rows;
    } cases[] = {{"gfx942", "wq=mxfp4 a=bf16", 128}, {"gfx1151", "wq=mxfp4 a=bf16", 128},
                 {"gfx950", "wq=int4 a=bf16", 128},  {"gfx942", "wq=int4 a=bf16", 64},
                 {"gfx90a", "wq=nf4 a=f16", 64},     {"gfx1151", "wq=fp8 a=bf16", 8}};

    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        char text[160];
        struct plan_set set;
        snprintf(text, sizeof text, "op=moe %s n=5760 k=3072 experts=32 top_k=4", cases[i].words);
        const struct quern_problem p = t_problem(text);
        assert_int_equal(plan_make(&p, target_named(cases[i].target), &set), QUERN_OK);
        assert_int_equal(plan_block_rows(&set, 384 * 32 / 4 + 1), cases[i].rows);
        assert_true(plan_block_rows(&set, 384 * 32 / 4) <= 64);
    }
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* A profiler shows nothing of a kernel but its name: layers that differ in their experts, choices
 * or blocks have kernels of other names, and the longest names are whole. */
static void test_names(void **state)
{
    static const char *const words[] = {
        "experts=8 top_k=2 block_rows=16", "experts=16 top_k=2 block_rows=16",
        "experts=8 top_k=1 block_rows=16", "experts=8 top_k=2 block_rows=32"};
    static const struct {
        const char *target, *text, *name;
    } longest[] = {
        {"gfx942",
         "op=moe wq=fp8fnuz scale=block128 n=1000064 k=100000000 a=fp8fnuz experts=1024 top_k=64 "
         "block_rows=128",
         "quern_moe_fp8fnuz_fp8fnuz_n1000064_k100000000_block128_e1024_t64_b128_m"},
        {"gfx942",
         "op=moe wq=int4 group=channel n=1000064 k=100000000 a=bf16 experts=1024 top_k=64 "
         "block_rows=128",
         "quern_moe_int4_bf16_n1000064_k100000000_g100000000_e1024_t64_b128_m"},
        {"gfx942", "op=moe_align experts=1024 top_k=64 block_rows=128",
         "quern_moe_align_e1024_t64_b128"},
    };
    struct plan_set sets[COUNT(words)];

    (void)state;
    for (int i = 0; i < COUNT(words); i++) {
        char text[128];
        snprintf(text, sizeof text, "op=moe wq=nf4 n=64 k=256 a=bf16 %s", words[i]);
        const struct quern_problem p = t_problem(text);
        assert_int_equal(plan_make(&p, target_named("gfx942"), &sets[i]), QUERN_OK);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(plan_for(&sets[i], 1)->symbol, plan_for(&sets[j], 1)->symbol);
    }
    assert_string_equal(plan_for(&sets[0], 1)->symbol,
                        "quern_moe_nf4_bf16_n64_k256_g64_e8_t2_b16_m16");
    for (int i = 0; i < COUNT(longest); i++) {
        const struct quern_problem p = t_problem(longest[i].text);
        if (plan_make(&p, target_named(longest[i].target), &sets[0]) != QUERN_OK)
            fail_msg("%s", quern_last_error()->message);
        const char *const name = plan_for(&sets[0], 1)->symbol;
        if (strncmp(name, longest[i].name, strlen(longest[i].name)) != 0)
            fail_msg("%s is named %s", longest[i].text, name);
    }
}

/* ---- Stacks beyond 4 GiB --------------------------------------------------------------------- */

/* Weights of the last of many experts lie more than 4 GiB behind the first: the memory is mapped,
 * and all but that expert's is never touched. */
static void check_far(const char *text, int64_t row_of_w)
{
    struct mixture x;
    const struct quern_problem p = t_problem(text);
    struct quern_operand o;

    assert_true(p.experts * p.n * row_of_w > INT64_C(1) << 32);
    x = (struct mixture){.m = 2, .p = p, .args = QUERN_INIT(struct quern_args)};
    x.ctx = t_open("gfx942", t_cache, QUERN_JIT_ON);
    assert_int_equal(quern_op_create_range(x.ctx, &p, 2, 2, &x.op), QUERN_OK);
    assert_int_equal(quern_op_block_rows(x.op, 2, &x.p.block_rows), QUERN_OK);
    const struct quern_problem one = problem_of_expert(&x.p);
    union operand_pointers own = {0};
    for (int i = 0; i < OPERAND_COUNT; i++) {
        if (!operand_describe(&x.p, (enum operand)i, 2, &o))
            continue;
        x.bytes[i] = o.bytes;
        x.host.at[i] = mmap(NULL, o.bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(x.host.at[i] != MAP_FAILED);
        own.at[i] = x.host.at[i];
        struct quern_operand of_one;
        if (operand_describe(&one, (enum operand)i, 2, &of_one) && i != OPERAND_A && i != OPERAND_C)
            own.at[i] = (char *)x.host.at[i] + (uint64_t)(p.experts - 1) * of_one.bytes;
        uint64_t guest;
        assert_int_equal(
            quern_sim_map(quern_ctx_sim(x.ctx), x.host.at[i], o.bytes, o.access, o.name, &guest),
            QUERN_OK);
        assert_int_equal(quern_args_set(&x.args, o.name, (const void *)(uintptr_t)guest), QUERN_OK);
    }
    own.rows = own.experts = own.rows_used = own.routing = NULL;
    assert_int_equal(quant_random(&one, 2, 3, &own), QUERN_OK);
    for (int i = 0; i < 2; i++)
        ((float *)x.host.routing)[i] = 1;
    const int32_t ids[] = {p.experts - 1, p.experts - 1};
    quant_moe_align(&x.p, 2, ids, x.host.rows, x.host.experts, x.host.rows_used);
    assert_int_equal(quern_op_launch(x.op, &x.args, 2, NULL), QUERN_OK);
    double *const want = calloc((size_t)(2 * p.n), sizeof *want), largest = 0;
    own.c = NULL;
    assert_int_equal(quant_reference(&one, &own, 2, want), QUERN_OK);
    for (int64_t i = 0; i < 2 * p.n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < 2 * p.n; i++)
        assert_true(fabs((double)quant_load(p.c, x.host.c, (size_t)i) - want[i]) <= 8e-3 * largest);
    free(want);
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (x.host.at[i])
            munmap(x.host.at[i], x.bytes[i]);
    quern_op_release(x.op);
    quern_close(x.ctx);
}

static void test_far(void **state)
{
    (void)state;
    check_far("op=moe wq=none n=512 k=32768 a=f16 experts=160 top_k=1", 32768 * 2);
    if (!T_SANITIZED)
        check_far("op=moe wq=nf4 n=512 k=32768 a=bf16 experts=600 top_k=1", 32768 / 2);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"op=moe wq=nf4 n=64 k=64 a=f16 top_k=2",
         "experts is missing or 0; op=moe expects how many experts there are, 1 to 1024"},
        {"op=moe wq=nf4 n=64 k=64 a=f16 experts=8",
         "top_k is missing or 0; op=moe expects how many experts are chosen for a token, 1 to 64"},
        {"op=moe wq=nf4 n=64 k=64 a=f16 experts=2000 top_k=2", "experts=2000"},
        {"op=moe wq=nf4 n=64 k=64 a=f16 experts=8 top_k=2 block_rows=12", "a power of two"},
        {"op=moe wq=nf4 n=64 k=64 a=f16 experts=8 top_k=2 block_rows=256", "from 1 to 128"},
        {"op=moe wq=nf4 n=64 k=64 a=f16 experts=8 top_k=2 exact=precise", "exact does not apply"},
        {"op=moe wq=nf4 n=64 k=64 a=f16 experts=8 top_k=2 kernels=base", "kernels does not apply"},
        {"wq=nf4 n=64 k=64 a=f16 experts=8", "experts does not apply to op=gemm"},
        {"op=dequant wq=nf4 n=64 k=64 c=f16 top_k=8", "top_k does not apply to op=dequant"},
        {"op=moe wq=nf4 n=64 k=64 a=f16 experts=0 top_k=2", "experts=0 is no number"},
        {"op=moe wq=none n=1073741824 k=1073741824 a=f32 experts=2 top_k=1",
         "experts=2 times n=1073741824 times k=1073741824 is more than 2^60"},
        {"op=moe wq=none n=1048577 k=1073741824 a=f32 experts=1024 top_k=1", "more than 2^60"},
        {"op=moe wq=none n=1073741824 k=1048577 a=f32 experts=1024 top_k=1", "more than 2^60"},
    };
    /* the most that there may be */
    static const char *const right[] = {
        "op=moe wq=none n=1073741824 k=1073741824 a=f32 experts=1 top_k=1 block_rows=1",
        "op=moe wq=none n=1048576 k=1073741824 a=f32 experts=1024 top_k=1 block_rows=1"};

    (void)state;
    for (int i = 0; i < COUNT(wrong); i++) {
        struct quern_problem p = QUERN_INIT(struct quern_problem);
        assert_int_equal(quern_problem_parse(wrong[i].text, &p), QUERN_E_PROBLEM);
        t_message_has(wrong[i].message);
    }
    for (int i = 0; i < COUNT(right); i++) {
        const struct quern_problem largest = t_problem(right[i]);
        struct quern_operand b;
        assert_true(operand_describe(&largest, OPERAND_B, 1, &b));
        assert_true(b.bytes == UINT64_C(1) << 62);
    }
    const struct quern_problem p = t_problem("op=moe wq=nf4 n=64 k=64 a=f16 experts=8 top_k=2");
    struct quern_operand operands[QUERN_OPERANDS_MAX];
    struct quern_quantized made[QUERN_OPERANDS_MAX];
    struct plan_set set;
    size_t count;
    assert_int_equal(quern_problem_operands(&p, 1, operands, &count), QUERN_E_ARGUMENT);
    t_message_has("quern_op_block_rows");
    assert_int_equal(quern_quantize(&p, (const float[]){0}, made, &count), QUERN_E_PROBLEM);
    t_message_has("expert by expert");
    const struct quern_problem far =
        t_problem("op=moe wq=nf4 n=64 k=64 a=f16 layout=tileN experts=8 "
                  "top_k=2");
    assert_int_equal(plan_make(&far, target_named("sm_90"), &set), QUERN_E_DECLINED);
    t_message_has("layout=bnb");
    const struct quern_problem low =
        t_problem("op=moe wq=fp8 n=64 k=128 a=bf16 experts=8 top_k=2 block_rows=4");
    assert_int_equal(plan_make(&low, target_named("sm_90"), &set), QUERN_E_DECLINED);
    t_message_has("block_rows=4: blocks of this problem on sm_90 have more rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_align),
        cmocka_unit_test(test_align_is_linear),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_high_tiles),
        cmocka_unit_test(test_block_rows),
        cmocka_unit_test(test_high_blocks),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_launch),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_beyond),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_blocks_of_any_size),
        cmocka_unit_test(test_kernels_are_right),
    };

    return cmocka_run_group_tests_name("moe", tests, t_cache_make, t_cache_remove);
}
