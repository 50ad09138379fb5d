/* SPDX-License-Identifier: MIT */
/*
 * Skinny kernels: right answers for unquantised weights on a sample of every shape, type and
 * target, in full checking mode (test_skinny_long.c has a larger one), for data that is not random,
 * and for infinities and NaN. Results may be off by the rounding of the largest one, which is less
 * than eps · sqrt(K) allows for data of unit scale.
 *
 * This file is long because it has the kernels of every type of weights that the family serves.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_runs.h"

#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of the layers that are run; all in test_skinny_whole_long.c. */
#ifndef ONE_IN
#define ONE_IN (T_SANITIZED ? 20 : 11)
#endif

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *const targets[] = {"gfx1151", "gfx942",  "gfx1201",
                                      "gfx90a",  "gfx1100", "gfx950"};
static const char *const types[] = {"f16", "bf16", "f32"};

/* ---- Random data ----------------------------------------------------------------------------- */

/* Every M, N and K, one large at a time, in turn on all targets and types. */
static void test_grid(void **state)
{
    static const struct {
        int n, k;
    } sizes[] = {{1, 14336}, {15, 8208},  {16, 4096},  {127, 1032}, {2048, 64}, {4096, 8},
                 {8193, 64}, {1, 1032},   {127, 4096}, {15, 14336}, {16, 8},    {2048, 1032},
                 {15, 64},   {127, 8208}, {16, 1032},  {8193, 8},   {1, 64},    {127, 14336}};
    static const int rows[] = {1, 2, 3, 4, 5, 8};

    (void)state;
    for (int i = 0; i < COUNT(sizes); i++)
        t_runs_add(targets[(i + i / 6) % COUNT(targets)], rows[i % COUNT(rows)],
                   "wq=none n=%d k=%d a=%s", sizes[i].n, sizes[i].k,
                   types[i % 7 == 6 ? 2 : (i + i / 6) % 2]);
    /* many weights that CDNA 2 takes for 0 */
    t_runs_add("gfx90a", 8, "wq=none n=64 k=8192 a=f16 c=f32");
    t_runs_verify(t_cache, ONE_IN);
}

/* K of every remainder, types of C, bias, more rows than a slice. */
static void test_tails(void **state)
{
    static const int ks[] = {1, 2, 3, 5, 7, 9, 10, 12, 33, 100, 514, 1001, 2062, 516};
    static const int rows[] = {3, 1, 8, 13, 2, 4, 6};

    (void)state;
    for (int i = 0; i < COUNT(ks); i++)
        t_runs_add(targets[i % COUNT(targets)], rows[i % COUNT(rows)],
                   "wq=none n=%d k=%d a=%s c=%s bias=%d", 21 + 8 * (i % 3), ks[i], types[i / 2 % 3],
                   types[i / 3 % 3], i / 2 % 2);
    t_runs_verify(t_cache, ONE_IN);
}

/* Rows of W that are left of a shape, odd where they were, so that it takes no second. */
static int some_rows(int n, int k)
{
    while ((int64_t)n * k > 1 << 19 && n > 3)
        n = n / 2 + !(n / 2 % 2) * (n % 2);
    return n;
}

/* All shapes that vLLM's tests of its skinny kernels have (tokens, K, N), the larger ones with
 * fewer rows of W, and for more rows of A a few; and a layer of Qwen3-4B. */
static void test_shapes_of_vllm(void **state)
{
    static const struct {
        int m, k, n;
    } shapes[] = {
        {1, 8, 16},       {1, 32, 64},      {1, 128, 256},    {1, 512, 1024},   {1, 2048, 4096},
        {1, 6144, 1024},  {1, 8192, 2048},  {1, 4096, 8192},  {1, 32, 16},      {1, 64, 64},
        {2, 256, 256},    {3, 1024, 1024},  {4, 4096, 4096},  {4, 4096, 4097},  {4, 4112, 4096},
        {4, 4112, 4097},  {1, 9216, 512},   {2, 10240, 1024}, {4, 16384, 8192}, {4, 32768, 8192},
        {4, 32768, 8193}, {4, 32784, 8192}, {4, 32784, 8193}, {1, 64, 8},       {2, 128, 8},
        {4, 256, 8},      {2, 2560, 512},   {13, 2880, 128},  {41, 2888, 16},   {128, 3080, 8}};

    (void)state;
    for (int i = 0; i < COUNT(shapes); i++)
        t_runs_add(targets[i % COUNT(targets)], shapes[i].m, "wq=none n=%d k=%d a=%s bias=%d",
                   some_rows(shapes[i].n, shapes[i].k), shapes[i].k, types[(i + i / 6) % 2], i % 2);
    t_runs_verify(t_cache, ONE_IN);
}

/* The same of those for fp8. */
static void test_fp8_shapes_of_vllm(void **state)
{
    static const struct {
        int m, k, n;
    } shapes[] = {{1, 16, 16},       {1, 32, 32},       {1, 64, 64},       {1, 64, 80},
                  {1, 80, 64},       {1, 80, 80},       {4, 64, 64},       {4, 64, 80},
                  {4, 80, 64},       {4, 80, 80},       {2, 512, 512},     {3, 512, 512},
                  {3, 512, 528},     {4, 512, 512},     {3, 2048, 2048},   {3, 2048, 2064},
                  {4, 2064, 2048},   {4, 2064, 2064},   {4, 4096, 4096},   {4, 16400, 2048},
                  {4, 16400, 2064},  {1, 14336, 1024},  {2, 24576, 2048},  {4, 32768, 28672},
                  {4, 65536, 28672}, {4, 65536, 28688}, {4, 65552, 28672}, {4, 65552, 28688}};
    static const char *const known[] = {"gfx942", "gfx1201", "gfx950"}; /* by instructions */

    (void)state;
    for (int i = 0; i < COUNT(shapes); i++) {
        const char *const kind = i % 3 ? "fp8" : "fp8fnuz";
        t_runs_add(known[i % 3], shapes[i].m, "wq=%s n=%d k=%d a=%s c=%s bias=%d", kind,
                   some_rows(shapes[i].n, shapes[i].k), shapes[i].k, kind, types[i / 3 % 2], i % 2);
    }
    t_runs_verify(t_cache, ONE_IN);
}

/* ---- Data that is not random ----------------------------------------------------------------- */

enum kind { CONSTANT, ALTERNATING, LARGE, SPECIAL };
enum { N = 19, K = 1032, M = 3 };

static void edit(void *user, const struct quern_problem *p, int64_t m,
                 const union operand_pointers *out)
{
    const enum kind kind = *(const enum kind *)user;

    for (size_t i = 0; i < (size_t)(m * p->k) && kind != SPECIAL; i++)
        quant_store(p->a, out->a, i, kind == LARGE ? quant_load(p->a, out->a, i) * 8192 : 0.5f);
    for (size_t i = 0; i < (size_t)(p->n * p->k) && kind != SPECIAL; i++)
        quant_store(p->a, out->b, i,
                    kind == CONSTANT      ? 0.25f
                    : kind == ALTERNATING ? i % 2 ? -3.0f : 3.0f
                                          : quant_load(p->a, out->b, i) * 131072);
    if (kind == SPECIAL) {
        quant_store(p->a, out->a, 0 * K + K - 1, NAN);
        quant_store(p->a, out->a, 1 * K + 3, -INFINITY);
        quant_store(p->a, out->b, 2 * K + 700, NAN);
        quant_store(p->a, out->b, 5 * K + K - 1, INFINITY);
        quant_store(p->a, out->b, (N - 1) * K, INFINITY);
    }
}

/* Like the reference's: NaN, or infinite with the same sign, or off by f32's rounding alone and,
 * in f16, by denormals that CDNA 2 takes for 0. */
static void check_values(const struct t_layer *l, const char *text, const char *target)
{
    double largest = 0;

    for (int i = 0; i < M * N; i++)
        if (isfinite(l->reference[i]))
            largest = fmax(largest, fabs(l->reference[i]));
    const double most = largest * (l->problem.a == QUERN_F16 ? 1e-4 : 1e-5);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const double want = l->reference[i * N + j], got = t_layer_result(l, i, j);
            const bool same = isfinite(want) ? fabs(got - want) <= most
                              : isnan(want)  ? isnan(got)
                                             : got == want;
            if (!same)
                fail_msg("%s on %s: c[%d,%d] is %g; expected %g", text, target, i, j, got, want);
        }
}

static void check_data(const char *target, const char *type, enum kind kind)
{
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    struct t_layer l;
    char text[96];
    quern_op *op;

    snprintf(text, sizeof text, "wq=none n=%d k=%d a=%s c=f32", N, K, type);
    const struct quern_problem p = t_problem(text);
    if (quern_op_create_range(ctx, &p, M, M, &op) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    t_layer_make_edited(&l, ctx, &p, M, edit, &kind, 7);
    if (quern_op_launch(op, &l.args, M, NULL) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    t_layer_error(&l);
    check_values(&l, text, target);
    for (int i = 0; i < M * N && kind < LARGE; i++) /* exact in f32, in any order */
        assert_true(t_layer_result(&l, i / N, i % N) == (kind == CONSTANT ? K / 8.0 : 0));
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_data(void **state)
{
    (void)state;
    for (int t = 0; t < COUNT(targets); t += ONE_IN)
        for (enum kind kind = CONSTANT; kind <= SPECIAL; kind++)
            check_data(targets[t], types[t % 5 ? t % 2 : 2], kind);
}

/* Rows of A and C apart by any number of elements, where K is odd; by an even one else. */
static void check_strides(const char *text, const char *target, int64_t lda, bool fits)
{
    const struct quern_problem p = t_problem(text);
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    struct t_layer l;
    quern_op *op;

    assert_int_equal(quern_op_create_range(ctx, &p, M, M, &op), QUERN_OK);
    t_layer_make(&l, ctx, &p, M, lda, p.n + 5, 3);
    assert_int_equal(quern_op_launch(op, &l.args, M, NULL), fits ? QUERN_OK : QUERN_E_ALIGN);
    if (fits)
        assert_true(t_layer_error(&l) <= 0x1p-10);
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_strides(void **state)
{
    (void)state;
    check_strides("wq=none n=20 k=41 a=f16", "gfx1151", 41, true);
    check_strides("wq=none n=20 k=41 a=f16", "gfx942", 44, true);
    check_strides("wq=none n=20 k=42 a=f16", "gfx1151", 46, true);
    check_strides("wq=none n=20 k=42 a=f16", "gfx942", 50, true);
    check_strides("wq=none n=20 k=42 a=f16", "gfx942", 43, false);
}

/* ---- Shapes that are not chosen for small layers --------------------------------------------- */

/* A in LDS, at once and in stages, with and without groups of rows to walk over, for every kind of
 * products, with K that ends in a slot, N that ends in a group, and waves that share rows. */
static void test_forced(void **state)
{
    static const struct {
        const char *target, *text, *shape;
        int m;
    } cases[] = {
        /* walks, with A in several stages, of which the last may be shorter */
        {"gfx1153", "wq=none n=256 k=1024 a=bf16",
         "rows=4 lanes=1 chunk=8 ring=2 split_k=1 waves=8 products=1 ahead=0 pairing=0 stage=2 "
         "resident=2",
         8},
        {"gfx1151", "wq=none n=100 k=1032 a=f16",
         "rows=1 lanes=1 chunk=8 ring=1 split_k=1 waves=1 products=1 ahead=0 pairing=0 resident=1",
         1},
        {"gfx1151", "wq=none n=333 k=1032 a=f16",
         "rows=2 lanes=1 chunk=8 ring=1 split_k=2 waves=4 products=1 ahead=0 pairing=0 stage=3 "
         "resident=2",
         1},
        {"gfx1153", "wq=none n=256 k=3072 a=bf16",
         "rows=4 lanes=1 chunk=8 ring=2 split_k=1 waves=8 products=1 ahead=0 pairing=0 stage=8 "
         "resident=2",
         5},
        {"gfx1151", "wq=none n=333 k=1034 a=bf16",
         "rows=2 lanes=1 chunk=8 ring=1 split_k=1 waves=2 products=1 ahead=0 pairing=0 stage=5 "
         "resident=1",
         3},
        {"gfx1201", "wq=none n=601 k=2048 a=bf16 bias=1",
         "rows=2 lanes=1 chunk=8 ring=2 split_k=2 waves=4 products=1 ahead=0 pairing=0 stage=2 "
         "resident=1",
         4},
        {"gfx1100", "wq=none n=75 k=2048 a=f32",
         "rows=2 lanes=1 chunk=4 ring=2 split_k=1 waves=4 products=3 ahead=0 pairing=0 stage=8", 6},
        {"gfx942", "wq=none n=100 k=4096 a=bf16",
         "rows=7 lanes=1 chunk=8 ring=2 split_k=1 waves=1 products=4 ahead=0 pairing=0", 1},
        {"gfx942", "wq=none n=1600 k=2048 a=bf16",
         "rows=5 lanes=1 chunk=8 ring=1 split_k=1 waves=1 products=4 ahead=0 pairing=0 stage=1 "
         "resident=1",
         1},
        {"gfx942", "wq=none n=1300 k=2048 a=f16",
         "rows=1 lanes=4 chunk=8 ring=2 split_k=1 waves=1 products=4 ahead=0 pairing=0 stage=16 "
         "resident=1",
         4},
        {"gfx950", "wq=none n=1100 k=2056 a=bf16",
         "rows=1 lanes=4 chunk=8 ring=1 split_k=1 waves=1 products=4 ahead=0 pairing=0 stage=17 "
         "resident=1",
         8},
        {"gfx90a", "wq=none n=900 k=1024 a=bf16",
         "rows=2 lanes=4 chunk=8 ring=2 split_k=2 waves=2 products=4 ahead=0 pairing=0 stage=2 "
         "resident=1",
         7},
        {"gfx942", "wq=fp8 n=300 k=1024 a=fp8",
         "rows=1 lanes=8 chunk=16 ring=2 split_k=2 waves=2 products=4 ahead=0 pairing=0 stage=2",
         8},
        {"gfx942", "wq=fp8fnuz n=2500 k=272 a=fp8fnuz",
         "rows=1 lanes=8 chunk=16 ring=1 split_k=1 waves=1 products=4 ahead=0 pairing=0 stage=3 "
         "resident=1",
         5},
        {"gfx950", "wq=fp8 n=41 k=1028 a=fp8",
         "rows=2 lanes=8 chunk=16 ring=2 split_k=2 waves=4 products=4 ahead=0 pairing=0", 3},
        {"gfx1201", "wq=fp8 n=300 k=1040 a=bf16",
         "rows=2 lanes=1 chunk=16 ring=1 split_k=1 waves=2 products=3 ahead=0 pairing=0 stage=3 "
         "resident=1",
         8},
    };

    (void)state;
    for (int i = 0; i < COUNT(cases); i += ONE_IN) {
        quern_ctx *const ctx = t_open(cases[i].target, t_cache, QUERN_JIT_ON);
        const struct quern_problem p = t_problem(cases[i].text);
        struct quern_verification v = QUERN_INIT(struct quern_verification);
        quern_op *op;
        if (quern_op_create_shape(ctx, &p, cases[i].m, cases[i].shape, &op) != QUERN_OK ||
            quern_verify(op, cases[i].m, (uint64_t)i, QUERN_CHECK_FULL, &v) != QUERN_OK)
            fail_msg("%s on %s, %s: %s", cases[i].text, cases[i].target, cases[i].shape,
                     quern_last_error()->message);
        quern_op_release(op);
        quern_close(ctx);
    }
}

/* A launch is told how many workgroups share the rows, by the device at hand; so is a plan. */
static void test_walking_launch(void **state)
{
    static const char shape[] =
        "rows=1 lanes=1 chunk=8 ring=1 split_k=1 waves=1 products=1 ahead=0 pairing=0 resident=1";
    const struct quern_problem p = t_problem("wq=none n=100 k=512 a=f16");
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    struct quern_launch launches[2];
    size_t count = COUNT(launches);
    struct t_layer l;
    quern_op *op;

    (void)state;
    assert_int_equal(quern_op_create_shape(ctx, &p, 1, shape, &op), QUERN_OK);
    t_layer_make(&l, ctx, &p, 3, 0, 0, 5); /* as many slices */
    assert_int_equal(quern_op_launch(op, &l.args, 3, NULL), QUERN_OK);
    assert_true(t_layer_error(&l) <= 0x1p-10);
    assert_int_equal(quern_op_launches(op, 3, launches, &count), QUERN_OK);
    assert_int_equal(count, 1);
    const struct quern_launch_arg *const last = &launches[0].args[launches[0].arg_count - 1];
    assert_string_equal(last->name, "workgroups");
    assert_int_equal(last->value, 40); /* one for each compute unit */
    assert_int_equal((int64_t)launches[0].grid[0] * launches[0].grid[1], 3 * 40);
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

/* A in LDS is asked for once by a workgroup, and with one for each compute unit by that. */
static void test_bytes_asked(void **state)
{
    static const struct {
        const char *shape;
        double least, most; /* bytes read, of the weights' */
    } cases[] = {
        {"rows=2 lanes=1 chunk=8 ring=2 split_k=1 waves=8 products=1 ahead=0 pairing=0", 2.9, 3.1},
        {"rows=2 lanes=1 chunk=8 ring=2 split_k=1 waves=8 products=1 ahead=0 pairing=0 stage=4",
         1.2, 1.3},
        {"rows=2 lanes=1 chunk=8 ring=2 split_k=1 waves=8 products=1 ahead=0 pairing=0 stage=4 "
         "resident=1",
         1.07, 1.09},
    };
    const struct quern_problem p = t_problem("wq=none n=2048 k=1024 a=f16");
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);

    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        struct quern_verification v = QUERN_INIT(struct quern_verification);
        quern_op *op;
        assert_int_equal(quern_op_create_shape(ctx, &p, 4, cases[i].shape, &op), QUERN_OK);
        assert_int_equal(quern_verify(op, 4, 1, QUERN_CHECK_FAST, &v), QUERN_OK);
        const double bytes = (double)v.counts.bytes_read / (2048.0 * 1024 * 2);
        if (bytes < cases[i].least || bytes > cases[i].most)
            fail_msg("%s: %.3f times the weights' bytes", cases[i].shape, bytes);
        quern_op_release(op);
    }
    quern_close(ctx);
}

/* ---- Rounding -------------------------------------------------------------------------------- */

/* Sums of 1 + 7 · 2^-8, which bf16 has no number for, and their opposites. */
static void edit_halfway(void *user, const struct quern_problem *p, int64_t m,
                         const union operand_pointers *out)
{
    (void)user;
    for (int64_t i = 0; i < m * p->k; i++)
        quant_store(p->a, out->a, (size_t)i, i / p->k % 2 ? -1 : 1);
    for (int64_t i = 0; i < p->n * p->k; i++)
        quant_store(p->a, out->b, (size_t)i, i % p->k ? 0x1p-8f : 1);
}

static void check_rounding(const char *target, const char *text, double want)
{
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem(text);
    struct t_layer l;
    quern_op *op;

    if (quern_op_create_range(ctx, &p, M, M, &op) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    t_layer_make_edited(&l, ctx, &p, M, edit_halfway, NULL, 7);
    assert_int_equal(quern_op_launch(op, &l.args, M, NULL), QUERN_OK);
    t_layer_error(&l);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < (int)p.n; j++)
            if (t_layer_result(&l, i, j) != (i % 2 ? -want : want))
                fail_msg("%s on %s: %.10g", text, target, t_layer_result(&l, i, j));
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_rounding(void **state)
{
    (void)state;
    check_rounding("gfx1151", "wq=none n=9 k=8 a=bf16 round=rne", 0x1.08p0);
    check_rounding("gfx1151", "wq=none n=9 k=8 a=bf16 round=trunc", 0x1.06p0);
    check_rounding("gfx942", "wq=none n=9 k=8 a=f32 c=bf16 round=trunc", 0x1.06p0);
    check_rounding("gfx950", "wq=none n=9 k=8 a=bf16 c=f32 round=trunc", 0x1.07p0);
    t_runs_add("gfx942", 5, "wq=none n=300 k=1032 a=bf16 round=trunc bias=1");
    t_runs_add("gfx1201", 2, "wq=fp8 n=300 k=1032 a=fp8 c=bf16 round=trunc");
    t_runs_verify(t_cache, ONE_IN);
}

/* ---- fp8 ------------------------------------------------------------------------------------- */

/* Every kind of weights and of activations on every kind of target, with K and N of any remainder.
 */
static void test_fp8(void **state)
{
    static const struct {
        int m, k, n;
    } shapes[] = {{1, 16, 16},   {1, 32, 32},    {1, 80, 64},     {4, 64, 80},   {2, 512, 512},
                  {3, 512, 528}, {4, 2064, 256}, {1, 14336, 128}, {2, 8192, 64}, {8, 4112, 33},
                  {5, 1028, 20}, {3, 1001, 21},  {13, 264, 40},   {1, 7, 5},     {8, 4096, 48}};
    static const char *const kinds[] = {"fp8", "fp8fnuz"};

    (void)state;
    for (int i = 0; i < COUNT(shapes); i++) {
        const char *const kind = kinds[i / 6 % 2];
        /* (gfx950 has too little time for FNUZ in software with bf16) */
        t_runs_add(targets[i % COUNT(targets)], shapes[i].m, "wq=%s n=%d k=%d a=%s c=%s bias=%d",
                   kind, shapes[i].n, shapes[i].k,
                   i % 4 < 2    ? kind
                   : i % 6 == 5 ? "f16"
                                : types[i / 4 % 2],
                   types[i / 5 % 3], i / 4 % 2);
    }
    t_runs_verify(t_cache, ONE_IN);
}

enum { CODES = 256 };

/* Row n of W has code n at one place, and row m of A code m (or 1, where A is not fp8) at all. */
static void edit_codes(void *user, const struct quern_problem *p, int64_t m,
                       const union operand_pointers *out)
{
    (void)user;
    memset(out->b, 0, (size_t)(p->n * p->k));
    for (int64_t n = 0; n < p->n; n++)
        ((uint8_t *)out->b)[n * p->k + n * 5 % p->k] = (uint8_t)n;
    for (int64_t i = 0; i < m * p->k; i++)
        if (out->a_scale)
            ((uint8_t *)out->a)[i] = (uint8_t)(m > 1 ? i / p->k : 0x30);
        else
            quant_store(p->a, out->a, (size_t)i, 1);
    *(float *)out->b_scale = 0.5f;
    if (out->a_scale)
        *(float *)out->a_scale = 4;
}

static void check_codes(const char *target, const char *text, int m)
{
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem(text);
    struct t_layer l;
    quern_op *op;

    if (quern_op_create_range(ctx, &p, m < 8 ? m : 8, m < 8 ? m : 8, &op) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    t_layer_make_edited(&l, ctx, &p, m, edit_codes, NULL, 1);
    if (quern_op_launch(op, &l.args, m, NULL) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    t_layer_error(&l);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < (int)p.n; j++) { /* one product each: exact */
            const double want = l.reference[i * p.n + j], got = t_layer_result(&l, i, j);
            if (isnan(want) ? !isnan(got) : got != want)
                fail_msg("%s m=%d on %s: code %d of A with code %d of W is %g; expected %g", text,
                         m, target, i, j, got, want);
        }
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

/* All 256 codes as weights, and with all 256 as activations, by whole loads and one at a time. */
static void test_codes(void **state)
{
    static const char *const kinds[] = {"fp8", "fp8fnuz"};
    char text[96];

    (void)state;
    for (int t = 0; t < COUNT(targets); t += ONE_IN)
        for (int kind = 0; kind < COUNT(kinds); kind++) {
            snprintf(text, sizeof text, "wq=%s n=256 k=64 a=%s c=f32", kinds[kind], kinds[kind]);
            check_codes(targets[t], text, CODES);
            snprintf(text, sizeof text, "wq=%s n=256 k=%d a=%s c=f32", kinds[kind], t % 2 ? 67 : 64,
                     types[(t + kind) % 2]);
            check_codes(targets[t], text, 1);
        }
    /* several rows of A of 16 bits: dot products in pairs, 4x4x4 matrices used whole */
    check_codes("gfx1201", "wq=fp8 n=256 k=64 a=bf16 c=f32", 3);
    check_codes("gfx942", "wq=fp8 n=256 k=64 a=bf16 c=f32", 8);
    check_codes("gfx950", "wq=fp8fnuz n=256 k=64 a=f16 c=f32", 4);
    check_codes("gfx90a", "wq=fp8 n=256 k=64 a=bf16 c=f32", 4);
    check_codes("gfx1151", "wq=fp8 n=256 k=67 a=fp8 c=f32", 2);
    check_codes("gfx1201", "wq=fp8 n=256 k=64 a=fp8 c=f32", 1);
    check_codes("gfx950", "wq=fp8 n=256 k=64 a=fp8 c=f32", 1);
    check_codes("gfx942", "wq=fp8 n=256 k=66 a=fp8 c=f32", 2);
}

/* Written out: every length of a last chunk and of a last workgroup, to the last bit. */
static void test_dequant_fp8(void **state)
{
    static const int sizes[][2] = {{37, 1001}, {1, 8192}, {1, 8195}, {1, 3}, {16, 512}, {3, 2731}};

    (void)state;
    for (int i = 0; i < 3 * COUNT(sizes); i++)
        t_runs_add(targets[i % COUNT(targets)], 1, "op=dequant wq=%s n=%d k=%d c=%s round=%s",
                   i / 6 % 2 ? "fp8fnuz" : "fp8", sizes[i % COUNT(sizes)][0],
                   sizes[i % COUNT(sizes)][1], types[(i + i / 6) % 3], i % 4 ? "rne" : "trunc");
    t_runs_verify(t_cache, ONE_IN);
}

/* All codes, NaN and the signs of zeros among them. */
static void check_dequant_codes(const char *target, const char *wq)
{
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    struct quern_args args = QUERN_INIT(struct quern_args);
    float scale = 0.75f;
    float c[CODES], want[CODES];
    uint8_t codes[CODES];
    quern_buffer *buffer[3];
    char text[96];
    quern_op *op;

    snprintf(text, sizeof text, "op=dequant wq=%s n=4 k=64 c=f32", wq);
    const struct quern_problem p = t_problem(text);
    for (int i = 0; i < CODES; i++)
        codes[i] = (uint8_t)i;
    const union operand_pointers in = {.b = codes, .b_scale = &scale};
    assert_int_equal(quant_dequantise(&p, &in, want), QUERN_OK);
    assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_OK);
    assert_int_equal(quern_buffer_create(ctx, CODES, QUERN_SIM_READ, "b", &buffer[0]), QUERN_OK);
    assert_int_equal(quern_buffer_create(ctx, 4, QUERN_SIM_READ, "b_scale", &buffer[1]), QUERN_OK);
    assert_int_equal(quern_buffer_create(ctx, sizeof c, QUERN_SIM_WRITE, "c", &buffer[2]),
                     QUERN_OK);
    assert_int_equal(quern_buffer_write(buffer[0], codes, CODES), QUERN_OK);
    assert_int_equal(quern_buffer_write(buffer[1], &scale, sizeof scale), QUERN_OK);
    args.b = quern_buffer_address(buffer[0]);
    args.b_scale = quern_buffer_address(buffer[1]);
    args.c = quern_buffer_address(buffer[2]);
    assert_int_equal(quern_op_launch(op, &args, 1, NULL), QUERN_OK);
    assert_int_equal(quern_buffer_read(buffer[2], c, sizeof c), QUERN_OK);
    for (int i = 0; i < CODES; i++)
        if (isnan(want[i]) ? !isnan(c[i]) : memcmp(&c[i], &want[i], sizeof *c))
            fail_msg("%s on %s: code %d is %g; expected %g", text, target, i, (double)c[i],
                     (double)want[i]);
    for (int i = 0; i < COUNT(buffer); i++)
        quern_buffer_destroy(buffer[i]);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_dequant_codes(void **state)
{
    (void)state;
    for (int t = 0; t < COUNT(targets); t += ONE_IN) {
        check_dequant_codes(targets[t], "fp8");
        check_dequant_codes(targets[t], "fp8fnuz");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_tails),
        cmocka_unit_test(test_shapes_of_vllm),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_fp8),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_bytes_asked),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_fp8_shapes_of_vllm),
        cmocka_unit_test(test_walking_launch),
        cmocka_unit_test(test_dequant_fp8),
        cmocka_unit_test(test_dequant_codes),
    };

    return cmocka_run_group_tests_name("skinny", tests, t_cache_make, t_cache_remove);
}
