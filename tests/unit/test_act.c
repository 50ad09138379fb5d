/* SPDX-License-Identifier: MIT */
/*
 * Gate and up as an epilogue (act, glu): every family's kernels against the double reference, over
 * formats, M, both acts and both orders of rows; the reference against products of plain layers;
 * what the bounds, infinities and NaN give; strides; and what is not served: products of BLAS and
 * base kernels. One run in ONE_IN here, more in test_act_long.c. Kernels for NVIDIA are run
 * by tests/cpu.
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
#include "plan/family.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ONE_IN
/* Has no divisor in common with the numbers of rows, ways and targets. */
#define ONE_IN (T_SANITIZED ? 201 : 199)
#endif

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *const acts[] = {"silu_mul", "swiglu_oai"};
static const char *const glus[] = {"halves", "interleaved"};

/* ---- Right answers --------------------------------------------------------------------------- */

static const char *const targets[] = {"gfx1151", "gfx942", "gfx1201", "gfx90a", "gfx950"};

/* Formats with n and k: N that ends in a group of rows, and one that is even by no more than 2. */
static const char *const layers[] = {
    "wq=nf4 n=90 k=512 a=bf16 bias=1",
    "wq=fp4 n=34 k=1024 a=f16 scale=nested group=128 c=f32",
    "wq=mxfp4 n=130 k=736 a=bf16 bias=1",
    "wq=nf4 n=66 k=320 a=f32",
    "wq=int4 n=90 k=512 a=f16 zero=u8 group=64 bias=1",
    "wq=int4 n=34 k=1024 a=bf16 layout=exl c=f16",
    "wq=int4 n=72 k=512 a=f16 layout=ck zero=scaled group=32 round=rne",
    "wq=int4 n=2 k=256 a=f32 zero=u8 group=channel",
    "wq=fp8 n=90 k=528 a=fp8 bias=1",
    "wq=fp8 n=34 k=272 a=f16",
    "wq=fp8 scale=block128 n=300 k=272 a=f16",
    "wq=none n=90 k=520 a=bf16 bias=1 round=trunc",
    "wq=none n=66 k=77 a=f16",
    "wq=none n=18 k=260 a=f32 bias=1",
};
static const int rows[] = {1, 2, 7, 64, 300};

/* Whether the target has kernels of the plain layer, whose words are the first of `text`. */
static bool has_kernels(const char *text, const char *target)
{
    const struct quern_problem p = t_problem(text);
    struct plan_set set;

    return plan_make(&p, target_named(target), &set) == QUERN_OK;
}

static void test_kernels_are_right(void **state)
{
    (void)state;
    for (int l = 0; l < COUNT(layers); l++)
        for (int t = 0; t < COUNT(targets); t++)
            for (int m = 0; m < COUNT(rows) && has_kernels(layers[l], targets[t]); m++)
                for (int way = 0; way < 4; way++)
                    t_runs_add(targets[t], rows[m], "%s act=%s glu=%s", layers[l], acts[way / 2],
                               glus[way % 2]);
    t_runs_verify(t_cache, ONE_IN);
}

/* Every layer that a target has kernels for has them with act, too: no shape is left without. */
static void test_nothing_is_left_out(void **state)
{
    static const char *const tried[] = {
        "wq=nf4 n=2 k=64",
        "wq=nf4 n=28672 k=4096",
        "wq=mxfp4 n=5760 k=2880",
        "wq=fp4 n=1536 k=2048 scale=nested",
        "wq=int4 n=1536 k=2048",
        "wq=int4 n=6 k=32 group=32 layout=ck zero=u8",
        "wq=int4 n=57344 k=8192 zero=u8 layout=exl",
        "wq=none n=4 k=3",
        "wq=none n=3072 k=4096",
        "wq=none n=131072 k=131072",
        "wq=fp8 n=2 k=16",
        "wq=fp8 n=36864 k=7168",
        "wq=fp8 n=36864 k=7168 scale=block128",
        "wq=fp8 n=518 k=100 scale=block128",
        "wq=fp8fnuz n=262144 k=131072",
    };
    static const char *const types[] = {"f32", "f16", "bf16", "fp8", "fp8fnuz"};
    int checked = 0;

    (void)state;
    for (size_t t = 0; t < target_count(); t++)
        for (int i = 0; i < COUNT(tried) * COUNT(types); i++) {
            const struct target *const target = target_at(t);
            struct quern_problem p = QUERN_INIT(struct quern_problem);
            struct plan_set set;
            char text[192];
            snprintf(text, sizeof text, "%s a=%s", tried[i / COUNT(types)],
                     types[i % COUNT(types)]);
            if (quern_problem_parse(text, &p) != QUERN_OK ||
                plan_make(&p, target, &set) != QUERN_OK)
                continue;
            for (int way = 0; way < 4; way++) {
                p.act = (enum quern_act)(1 + way / 2);
                p.glu = (enum quern_glu)(1 + way % 2);
                if (plan_make(&p, target, &set) != QUERN_OK)
                    fail_msg("%s %s %s on %s: %s", text, acts[way / 2], glus[way % 2], target->name,
                             quern_last_error()->message);
                checked++;
            }
        }
    assert_true(checked > 1000);
}

/* ---- The reference --------------------------------------------------------------------------- */

/* The reference with act, from that of the same operands without. */
static void check_reference(const char *text, enum quern_act act, enum quern_glu glu)
{
    enum { M = 5 };
    struct quern_problem plain = t_problem(text), p = plain;
    union operand_pointers in = {0};
    struct quern_operand o;
    const size_t n = (size_t)p.n;
    double *const product = malloc(M * n * sizeof *product);
    double *const got = malloc(M * n / 2 * sizeof *got);

    assert_true(product && got);
    p.act = act;
    p.glu = glu;
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (operand_describe(&p, (enum operand)i, M, &o) && o.access == QUERN_SIM_READ)
            assert_non_null(in.at[i] = calloc(1, o.bytes));
    quant_random(&p, M, 3, &in);
    assert_int_equal(quant_reference(&plain, &in, M, product), QUERN_OK);
    assert_int_equal(quant_reference(&p, &in, M, got), QUERN_OK);
    for (size_t m = 0; m < M; m++)
        for (size_t j = 0; j < n / 2; j++) {
            const bool halves = glu == QUERN_GLU_HALVES;
            double gate = product[m * n + (halves ? j : 2 * j)];
            double up = product[m * n + (halves ? n / 2 + j : 2 * j + 1)];
            double want = gate / (1 + exp(-gate)) * up;
            if (act == QUERN_ACT_SWIGLU_OAI) {
                gate = fmin(gate, 7);
                up = fmax(fmin(up, 7), -7);
                want = gate / (1 + exp(-1.702 * gate)) * (up + 1);
            }
            if (!(fabs(got[m * n / 2 + j] - want) <= 1e-12 * (1 + fabs(want))))
                fail_msg("%s: y[%zu,%zu] is %.17g; expected %.17g", text, m, j, got[m * n / 2 + j],
                         want);
        }
    for (int i = 0; i < OPERAND_COUNT; i++)
        free(in.at[i]);
    free(product);
    free(got);
}

static void test_reference(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        check_reference("wq=nf4 n=46 k=192 a=bf16 bias=1", (enum quern_act)(1 + way / 2),
                        (enum quern_glu)(1 + way % 2));
        check_reference("wq=int4 n=22 k=256 a=f16 zero=u8 layout=exl",
                        (enum quern_act)(1 + way / 2), (enum quern_glu)(1 + way % 2));
        check_reference("wq=none n=1026 k=33 a=f32 bias=1", (enum quern_act)(1 + way / 2),
                        (enum quern_glu)(1 + way % 2));
    }
}

/* ---- Bounds, infinities, NaN ----------------------------------------------------------------- */

/*
 * What PyTorch's operations in f32 give: torch.nn.functional.silu(gate) * up, and gpt-oss's
 * gate.clamp(max=7), up.clamp(-7, 7), gate * sigmoid(1.702 * gate) * (up + 1). A NaN goes through
 * clamp; silu(-inf) is -inf * sigmoid(-inf) = -inf * 0, which is NaN, and so is gpt-oss's gate.
 */
#define SIGMOID_OF_7 0.99999332814 /* of 1.702 · 7 */
static const struct special {
    float gate, up;
    double silu_mul, swiglu_oai;
} specials[] = {
    {7, 7, 7 / (1 + 0.00091188196555) * 7, 7 * SIGMOID_OF_7 * 8},
    {8, 9, 8 / (1 + 0.00033546262790) * 9, 7 * SIGMOID_OF_7 * 8},
    {7.000001f, 7.000001f, 7.000001 / (1 + 0.000911881) * 7.000001, 7 * SIGMOID_OF_7 * 8},
    {8, -9, 8 / (1 + 0.00033546262790) * -9, 7 * SIGMOID_OF_7 * -6},
    {7, -1, 7 / (1 + 0.00091188196555) * -1, 0},
    {0, 5, 0, 0},
    {-1000, 3, 0, 0},
    {-3e38f, 2, 0, 0},
    {INFINITY, 2, INFINITY, 7 * SIGMOID_OF_7 * 3},
    {INFINITY, -INFINITY, -INFINITY, 7 * SIGMOID_OF_7 * -6},
    {1, INFINITY, INFINITY, 1 / (1 + 0.18231854) * 8},
    {0, INFINITY, NAN, 0},
    {-INFINITY, 2, NAN, NAN},
    {NAN, 2, NAN, NAN},
    {2, NAN, NAN, NAN},
    {2, -INFINITY, -INFINITY, 2 / (1 + 0.0332404) * -6},
};

/* Biases that are gate and up, of weights that are 0. */
static void edit(void *user, const struct quern_problem *p, int64_t m,
                 const union operand_pointers *out)
{
    (void)user;
    if (out->scales) /* every weight is its code's value times that, or a difference of codes */
        memset(out->scales, 0, (size_t)(p->n * (p->k / problem_group(p))) * 4);
    else
        memset(out->b, 0, (size_t)(p->n * p->k) * 4);
    memset(out->a, 0, (size_t)(m * p->k) * 4);
    for (int64_t i = 0; i < p->n / 2; i++) {
        const struct special *const s = &specials[i % COUNT(specials)];
        quant_store(p->c, out->bias, (size_t)problem_weight_row(p, 2 * i), s->gate);
        quant_store(p->c, out->bias, (size_t)problem_weight_row(p, 2 * i + 1), s->up);
    }
}

static void check_specials(const char *target, const char *words, int way, int m)
{
    quern_ctx *const ctx = t_open(target, t_cache, QUERN_JIT_ON);
    char text[192];
    struct t_layer l;
    quern_op *op;

    snprintf(text, sizeof text, "%s n=%d bias=1 act=%s glu=%s", words, 4 * COUNT(specials),
             acts[way / 2], glus[way % 2]);
    const struct quern_problem p = t_problem(text);
    if (quern_op_create_range(ctx, &p, m, m, &op) != QUERN_OK)
        fail_msg("%s on %s: %s", text, target, quern_last_error()->message);
    t_layer_make_edited(&l, ctx, &p, m, edit, NULL, 1);
    assert_int_equal(quern_op_launch(op, &l.args, m, NULL), QUERN_OK);
    t_layer_error(&l);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < 2 * COUNT(specials); j++) {
            const struct special *const s = &specials[j % COUNT(specials)];
            const double want = way / 2 ? s->swiglu_oai : s->silu_mul;
            const double got = t_layer_result(&l, i, j), reference = l.reference[i * p.n / 2 + j];
            const bool same = isnan(want) ? isnan(got) && isnan(reference)
                              : isinf(want)
                                  ? got == want && reference == want
                                  : fabs(got - want) <= 4e-6 * (fabs(want) + 1e-30) &&
                                        fabs(reference - want) <= 4e-6 * (fabs(want) + 1e-30);
            if (!same)
                fail_msg("%s on %s: gate %g, up %g gives %.9g, by the reference %.9g; expected "
                         "%.9g",
                         text, target, (double)s->gate, (double)s->up, got, reference, want);
        }
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_specials(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        check_specials("gfx1151", "wq=none k=64 a=f32", way, 1);
        check_specials("gfx942", "wq=nf4 k=64 a=f32", way, 3);
    }
    check_specials("gfx1201", "wq=none k=64 a=f32", 2, 2);
}

/* ---- Strides, BLAS, base kernels ------------------------------------------------------------- */

/* Rows of C may be N/2 apart, or any more; no less. */
static void test_strides(void **state)
{
    const struct quern_problem p = t_problem("wq=none n=20 k=48 a=f16 act=silu_mul glu=halves");
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    struct t_layer l;
    quern_op *op;

    (void)state;
    assert_int_equal(quern_op_create_range(ctx, &p, 3, 3, &op), QUERN_OK);
    t_layer_make(&l, ctx, &p, 3, 0, 13, 5);
    t_launch_right(op, &l);
    l.args.ldc = 9;
    assert_int_equal(quern_op_launch(op, &l.args, 3, NULL), QUERN_E_ARGUMENT);
    t_message_has("at least n/2=10");
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_not_by_others(void **state)
{
    struct quern_problem p = t_problem("wq=none n=4096 k=4096 a=f16");
    struct plan_set set;

    (void)state;
    assert_int_equal(plan_make(&p, target_named("gfx942"), &set), QUERN_OK);
    assert_true(plan_blas_choose(&set).from > 0);
    p.act = QUERN_ACT_SILU_MUL;
    p.glu = QUERN_GLU_HALVES;
    assert_int_equal(plan_make(&p, target_named("gfx942"), &set), QUERN_OK);
    assert_int_equal(plan_blas_choose(&set).from, 0);

    p = t_problem("wq=nf4 n=4096 k=4096 a=bf16 act=silu_mul glu=halves kernels=base");
    assert_int_equal(plan_make(&p, target_named("gfx942"), &set), QUERN_E_DECLINED);
    t_message_has("act=silu_mul has kernels made to order only");
}

/* A host that asks for base kernels first gets an op that was made to order. */
static void test_base_first(void **state)
{
    const struct quern_problem p =
        t_problem("wq=nf4 n=64 k=256 a=bf16 act=swiglu_oai glu=interleaved");
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    struct t_layer l;
    quern_op *op;

    (void)state;
    assert_int_equal(quern_op_create_flags(ctx, &p, 2, QUERN_OP_BASE, &op), QUERN_OK);
    assert_int_equal(t_wait_ready(op), QUERN_OK);
    t_layer_make(&l, ctx, &p, 2, 0, 0, 9);
    t_launch_right(op, &l);
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),         cmocka_unit_test(test_specials),
        cmocka_unit_test(test_strides),           cmocka_unit_test(test_not_by_others),
        cmocka_unit_test(test_base_first),        cmocka_unit_test(test_nothing_is_left_out),
        cmocka_unit_test(test_kernels_are_right),
    };

    return cmocka_run_group_tests_name("act", tests, t_cache_make, t_cache_remove);
}
