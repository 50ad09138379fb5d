/* SPDX-License-Identifier: MIT */
/*
 * fp8 with scale=block128 on AMD's GPUs: kernels of every kind of products, N and K that are no
 * multiples of 128, gate and up that lie in blocks of their own or share some, in full checking
 * mode against the double reference. Scales of blocks are random and far apart (quant/random.c),
 * and in test_scales_of_blocks such that any other scale makes another sum.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_runs.h"

#include "plan/blas_choice.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ONE_IN
#define ONE_IN (T_SANITIZED ? 93 : 97)
#endif

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *const targets[] = {"gfx1151", "gfx942",  "gfx1201",
                                      "gfx90a",  "gfx1100", "gfx950"};
static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 17};
static const char *const kinds[] = {"fp8", "fp8fnuz"};
static const char *const results[] = {"f32", "bf16", "f16"};

/* Whether a target serves the words; some have no time to decode them. */
static bool has_kernels(const char *text, const char *target)
{
    const struct quern_problem p = t_problem(text);
    struct plan_set set;

    return plan_make(&p, target_named(target), &set) == QUERN_OK;
}

static void add(int target, int m, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add(int target, int m, const char *format, ...)
{
    const char *const name = targets[target % COUNT(targets)];
    char text[192];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (has_kernels(text, name))
        t_runs_add(name, m, "%s", text);
}

/* The type of A that goes with a kind of weights. */
static const char *a_type(int turn, const char *kind)
{
    return turn % 3 == 0 ? kind : turn % 3 == 1 ? "bf16" : "f16";
}

/* Every N and K with every target, in turn with all M and types. */
static void test_grid(void **state)
{
    static const int ns[] = {1, 3, 37, 127, 130, 256, 300, 577};
    static const int ks[] = {1, 16, 100, 128, 132, 404, 1001, 1152, 2064, 4100};

    (void)state;
    for (int i = 0, turn = 0; i < COUNT(ns) * COUNT(ks); i++)
        for (int t = 0; t < COUNT(targets); t++, turn += 1 + (t == 0)) {
            const char *const kind = kinds[(turn / 5 + i) % 5 == 0];
            add(t, rows[(turn / 3 + i) % COUNT(rows)],
                "wq=%s scale=block128 n=%d k=%d a=%s c=%s bias=%d", kind, ns[i % COUNT(ns)],
                ks[i / COUNT(ns)], a_type(turn + i, kind), results[turn / 2 % 3], turn % 2);
        }
    t_runs_verify(t_cache, ONE_IN);
}

/* Gate and up: N/2 that is a multiple of blocks, of groups of rows, of neither. */
static void test_pairs(void **state)
{
    static const int ns[] = {2, 34, 130, 256, 260, 264, 512, 518};
    static const char *const acts[] = {"act=silu_mul glu=halves", "act=swiglu_oai glu=interleaved",
                                       "act=silu_mul glu=interleaved", "act=swiglu_oai glu=halves"};

    (void)state;
    for (int i = 0, turn = 0; i < COUNT(ns) * COUNT(acts); i++)
        for (int t = 0; t < COUNT(targets); t++, turn += 1 + (t == 0))
            add(t, rows[(turn + i / 3) % COUNT(rows)],
                "wq=fp8 scale=block128 n=%d k=%d a=%s bias=%d %s", ns[i % COUNT(ns)],
                turn % 3 ? 528 : 404, a_type(turn + i, "fp8"), turn / 2 % 2, acts[i / COUNT(ns)]);
    t_runs_verify(t_cache, ONE_IN);
}

/* Layers like those of DeepSeek-V3 and Qwen3 with fewer rows of W, so large that waves have several
 * rows and workgroups walk. */
static void test_layers(void **state)
{
    static const int shapes[][2] = {{576, 7168}, {1536, 1536}, {2112, 2048}, {1024, 4096}};

    (void)state;
    for (int i = 0; i < COUNT(shapes); i++)
        for (int t = 0; t < COUNT(targets); t++)
            for (int a = 0; a < 3; a++)
                add(t, rows[(t * 3 + a + i * 7) % COUNT(rows)],
                    "wq=fp8 scale=block128 n=%d k=%d a=%s", shapes[i][0], shapes[i][1],
                    a_type(a, "fp8"));
    t_runs_verify(t_cache, 4 * ONE_IN);
}

/* A promise of bits, and of f32 sums that scales multiply. */
static void test_exact(void **state)
{
    (void)state;
    for (int t = 0; t < COUNT(targets); t++)
        for (int a = 0; a < 3; a++)
            add(t, 5, "wq=fp8 scale=block128 n=200 k=1040 a=%s exact=both", a_type(a, "fp8"));
    t_runs_verify(t_cache, ONE_IN);
}

/* Written out, to the last bit: chunks that lie in one block, and rows that begin within one. */
static void test_dequant(void **state)
{
    static const int sizes[][2] = {{130, 1001}, {1, 8192}, {1, 8195}, {3, 1},
                                   {257, 136},  {129, 2},  {3, 2731}, {200, 640}};

    (void)state;
    for (int i = 0; i < 3 * COUNT(sizes); i++)
        for (int t = 0; t < COUNT(targets); t++)
            add(t, 1, "op=dequant wq=%s scale=block128 n=%d k=%d c=%s round=%s", kinds[i / 3 % 2],
                sizes[i % COUNT(sizes)][0], sizes[i % COUNT(sizes)][1], results[(i + t) % 3],
                i % 4 ? "rne" : "trunc");
    t_runs_verify(t_cache, ONE_IN);
}

/* ---- What is not random ---------------------------------------------------------------------- */

/* Every number is 1, and every scale a power of two, another for each block of W near by and for
 * neighbouring rows of A: sums are exact. */
static void edit_powers(void *user, const struct quern_problem *p, int64_t m,
                        const union operand_pointers *out)
{
    const int64_t blocks = problem_scale_blocks(p->k);

    (void)user;
    for (int64_t i = 0; i < p->n * p->k; i++)
        quant_store(problem_weight_type(p), out->b, (size_t)i, 1);
    for (int64_t i = 0; i < m * p->k; i++)
        quant_store(p->a, out->a, (size_t)i, 1);
    for (int64_t i = 0; i < problem_scale_blocks(p->n) * blocks; i++)
        ((float *)out->b_scale)[i] = ldexpf(1, (int)(3 * (i % blocks) + i / blocks));
    for (int64_t i = 0; i < m * blocks && out->a_scale; i++)
        ((float *)out->a_scale)[i] = ldexpf(1, (int)(i / blocks % 3 - i % blocks));
}

/* A NaN of W and one of A, each in the last row and in a block of its own. */
static void edit_nan(void *user, const struct quern_problem *p, int64_t m,
                     const union operand_pointers *out)
{
    edit_powers(user, p, m, out);
    quant_store(problem_weight_type(p), out->b, (size_t)(p->n * p->k - 1), NAN);
    quant_store(p->a, out->a, (size_t)((m - 1) * p->k), NAN);
}

static void check_exactly(const char *target, const char *text, int m, t_edit edit)
{
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem(text);
    struct t_layer l;
    quern_op *op;

    if (quern_op_create_range(ctx, &p, m, m, &op) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    t_layer_make_edited(&l, ctx, &p, m, edit, NULL, 1);
    if (quern_op_launch(op, &l.args, m, NULL) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    t_layer_error(&l);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < (int)p.n; j++) {
            const double want = l.reference[i * p.n + j], got = t_layer_result(&l, i, j);
            if (isnan(want) ? !isnan(got) : got != want)
                fail_msg("%s m=%d on %s: row %d, column %d is %g; expected %g", text, m, target, i,
                         j, got, want);
        }
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_scales_of_blocks(void **state)
{
    static const int ns[] = {300, 264, 129}, ks[] = {528, 404, 301};
    char text[96];
    int turn = 0;

    (void)state;
    for (int t = 0; t < COUNT(targets); t++)
        for (int i = 0; i < COUNT(ns) * 3; i++, turn++) {
            snprintf(text, sizeof text, "wq=fp8 scale=block128 n=%d k=%d a=%s c=f32",
                     ns[(turn + t) % COUNT(ns)], ks[i / 3], a_type(i, "fp8"));
            if (turn % ONE_IN == 0 && has_kernels(text, targets[t])) {
                check_exactly(targets[t], text, rows[turn % 8], edit_powers);
                check_exactly(targets[t], text, rows[(turn + 3) % 8], edit_nan);
            }
        }
}

/* ---- What serves ----------------------------------------------------------------------------- */

/* The vendor's library multiplies weights that op=dequant has scaled: for A of 16 bits alone. */
static void test_library(void **state)
{
    static const char *const types[] = {"f16", "bf16", "fp8"};

    (void)state;
    for (int i = 0; i < COUNT(types); i++) {
        char text[96];
        struct plan_set set;
        snprintf(text, sizeof text, "wq=fp8 scale=block128 n=4096 k=4096 a=%s", types[i]);
        const struct quern_problem p = t_problem(text);
        assert_int_equal(plan_make(&p, target_named("gfx942"), &set), QUERN_OK);
        const struct plan_blas blas = plan_blas_choose(&set);
        assert_int_equal(blas.from != 0, i < 2);
        if (blas.from)
            assert_int_equal(blas.weights.problem.scale, QUERN_SCALE_BLOCK128);
    }
}

/* Base kernels do not, and say so. */
static void test_base(void **state)
{
    const struct quern_problem p =
        t_problem("wq=fp8 scale=block128 n=4096 k=4096 a=bf16 kernels=base");
    struct plan_set set;

    (void)state;
    assert_int_equal(plan_make(&p, target_named("gfx942"), &set), QUERN_E_DECLINED);
    t_message_has("scale=block128 has kernels made to order only");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),    cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_layers),  cmocka_unit_test(test_exact),
        cmocka_unit_test(test_dequant), cmocka_unit_test(test_scales_of_blocks),
        cmocka_unit_test(test_library), cmocka_unit_test(test_base),
    };

    return cmocka_run_group_tests_name("block128", tests, t_cache_make, t_cache_remove);
}
