/* SPDX-License-Identifier: MIT */
/*
 * The promises of the problem word `exact`, for every format, type and verified target: a row's
 * bits are the same however many rows are launched with it, wherever it stands among them and
 * whatever they are; and no scaled weight is rounded to 16 bits. Each is run
 * for one case in ONE_IN.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_build.h"
#include "t_context.h"
#include "t_explore.h"

#include "problem/operands.h"
#include "plan/plan.h"
#include "problem/problem.h"
#include "quant/quant.h"
#include "target/target.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TARGETS_MAX = 64, TEXT = 160 };

/* Of the formats on each target; all in test_exact_long.c. */
#ifndef ONE_IN
#define ONE_IN 41
#endif

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const formats[] = {
    "wq=int4 group=128",
    "wq=int4 group=32 zero=u8",
    "wq=int4 group=128 zero=scaled",
    "wq=int4 group=64 zero=u8 layout=gptq",
    "wq=nf4",
    "wq=nf4 scale=nested group=128",
    "wq=fp4",
    "wq=mxfp4",
    "wq=none",
    "wq=fp8",
    "wq=fp8 scale=block128",
};
static const char *const types[] = {"bf16", "f16", "f32"};

static const struct target *verified[TARGETS_MAX];
static quern_ctx *contexts[TARGETS_MAX];
static size_t targets;

static atomic_int failed, ran;
static char failures[8][512]; /* the first few */

static void fail_case(const char *target, const char *text, const char *says)
{
    const int i = atomic_fetch_add(&failed, 1);

    if (i < (int)COUNT(failures))
        snprintf(failures[i], sizeof failures[i], "%s on %s: %s", text, target, says);
}

/* Case `index`: a format on a target; types take turns. */
static void case_text(size_t index, const char *exact, char text[TEXT])
{
    const char *const format = formats[index % COUNT(formats)];
    const bool fp8 = !strncmp(format, "wq=fp8", 6); /* which f32 does not go with */
    const size_t type = (index + index / COUNT(formats)) % (COUNT(types) - fp8);

    snprintf(text, TEXT, "%s n=72 k=768 a=%s c=%s exact=%s", format, types[type],
             index / COUNT(formats) % 2 ? "f32" : types[type], exact);
}

#define ROWS 100
#define ROW  70 /* the row whose bits are looked at */

/* Not a number in all of the row before that one. */
static void spoil(void *user, const struct quern_problem *p, int64_t m,
                  const union operand_pointers *operands)
{
    (void)user;
    (void)m;
    for (size_t i = 0; i < (size_t)p->k; i++)
        quant_store(p->a, operands->a, (size_t)((ROW - 1) * p->k) + i, NAN);
}

/* Launches `m` rows of a layer from row `first` on, and copies the bits of row ROW. */
static quern_status row_bits(quern_op *op, struct t_layer *l, int64_t first, int64_t m,
                             uint8_t *bits)
{
    const struct quern_problem *const p = &l->problem;
    const size_t width = (size_t)p->n * dtype_bytes(p->c);
    uint8_t *const c = malloc(l->c_bytes);
    struct quern_args args = l->args;

    assert_non_null(c);
    args.a = (const char *)args.a + first * p->k * (int64_t)dtype_bytes(p->a);
    quern_status status = quern_op_launch(op, &args, m, NULL);
    if (!status)
        status = quern_buffer_read(l->c_buffer, c, l->c_bytes);
    memcpy(bits, c + (size_t)(ROW - first) * width, width);
    free(c);
    return status;
}

/* Whether the bits of row ROW are the same in launches of many kinds. */
static bool same_bits(quern_op *op, struct t_layer *l)
{
    static const struct {
        int64_t first, m;
    } launches[] = {{ROW, 1},  {ROW - 1, 2},   {ROW, 3},     {ROW - 2, 7}, {ROW - 15, 16},
                    {ROW, 29}, {ROW - 39, 64}, {0, ROW + 1}, {0, ROWS}};
    uint8_t bits[COUNT(launches)][72 * 4];

    memset(bits, 0, sizeof bits);
    for (size_t i = 0; i < COUNT(launches); i++)
        if (row_bits(op, l, launches[i].first, launches[i].m, bits[i]) ||
            memcmp(bits[i], bits[0], sizeof bits[0]) != 0)
            return false;
    return true;
}

static void run_invariant(void *user, size_t index)
{
    const size_t t = index / COUNT(formats);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    struct t_layer l;
    quern_op *op;
    char text[TEXT];

    (void)user;
    case_text(index, index % 2 ? "both" : "batch_invariant", text);
    if (quern_problem_parse(text, &p) || quern_op_create(contexts[t], &p, ROWS, &op)) {
        if (quern_last_error()->status != QUERN_E_DECLINED)
            fail_case(verified[t]->name, text, quern_last_error()->message);
        return;
    }
    t_layer_make_edited(&l, contexts[t], &p, ROWS, spoil, NULL, index);
    if (!same_bits(op, &l))
        fail_case(verified[t]->name, text, "a row's bits differ");
    atomic_fetch_add(&ran, 1);
    t_layer_free(&l);
    quern_op_release(op);
}

/* The largest error that is allowed with weights that are not rounded after they were scaled: what
 * sums of f32 lose; the 16 values of a table in 16 bits, which are the format's products; and the
 * result's own rounding, half a unit in the last place. */
static double allowed(const struct quern_problem *p)
{
    const double place = p->c == QUERN_BF16 ? 0x1p-8 : p->c == QUERN_F16 ? 0x1p-11 : 0;
    const double table = !weight_is_table(p->wq) || p->a == QUERN_F32 ? 0
                         : p->a == QUERN_BF16                         ? 0x1p-8
                                                                      : 0x1p-11;
    const double matrix = 0x1p-12; /* f16 products of matrix units of CDNA 2 lose denormals */

    return 5e-5 + place + table + (p->a == QUERN_F16 ? matrix : 0);
}

static void run_precise(void *user, size_t index)
{
    static const int rows[] = {4, 32, ROWS};
    const size_t t = index / COUNT(formats);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    quern_op *op;
    char text[TEXT], says[64];

    (void)user;
    case_text(index, "precise", text);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct t_layer l;
        if (quern_problem_parse(text, &p) ||
            quern_op_create_range(contexts[t], &p, rows[i], rows[i], &op)) {
            if (quern_last_error()->status != QUERN_E_DECLINED)
                fail_case(verified[t]->name, text, quern_last_error()->message);
            return;
        }
        t_layer_make(&l, contexts[t], &p, rows[i], 0, 0, index);
        assert_int_equal(quern_op_launch(op, &l.args, rows[i], NULL), QUERN_OK);
        const double error = t_layer_error(&l);
        snprintf(says, sizeof says, "M = %d: an error of %.2g, allowed %.2g", rows[i], error,
                 allowed(&p));
        if (!(error <= allowed(&p)))
            fail_case(verified[t]->name, text, says);
        t_layer_free(&l);
        quern_op_release(op);
    }
    atomic_fetch_add(&ran, 1);
}

/* Runs one case in `one_in`, most of which no target declines. */
static void run_all(void (*run)(void *user, size_t index), size_t one_in)
{
    atomic_store(&failed, 0);
    atomic_store(&ran, 0);
    for (size_t t = 0; t < targets; t++)
        contexts[t] = t_open(verified[t]->name, t_cache, QUERN_JIT_ON);
    const size_t cases = t_explore_part(targets * COUNT(formats), one_in, run, NULL);
    for (size_t t = 0; t < targets; t++)
        quern_close(contexts[t]);
    for (int i = 0; i < (int)COUNT(failures) && i < atomic_load(&failed); i++)
        print_error("%s\n", failures[i]);
    assert_int_equal(atomic_load(&failed), 0);
    assert_true((size_t)atomic_load(&ran) * 4 >= cases * 3);
}

static void test_rows_do_not_depend_on_rows(void **state)
{
    (void)state;
    run_all(run_invariant, ONE_IN);
}

static void test_weights_are_not_rounded(void **state)
{
    (void)state;
    run_all(run_precise, ONE_IN);
}

/* What the promises are for: without one a row differs between M = 1 and M = 5, and the error grows
 * a thousandfold from 16 rows to 32. */
static void test_without_a_promise(void **state)
{
    static const char *const without = "wq=int4 group=128 zero=u8 n=72 k=1024 a=bf16 c=f32";
    quern_ctx *const ctx = t_open("gfx1151", t_cache, QUERN_JIT_ON);
    double error[2][2];

    (void)state;
    for (int promised = 0; promised < 2; promised++) {
        struct quern_problem p = t_problem(without);
        struct t_layer l;
        quern_op *op;
        p.exact = promised ? QUERN_EXACT_BOTH : 0;
        assert_int_equal(quern_op_create(ctx, &p, ROWS, &op), QUERN_OK);
        t_layer_make(&l, ctx, &p, ROWS, 0, 0, 1);
        assert_int_equal(same_bits(op, &l), promised);
        t_layer_free(&l);
        for (int i = 0; i < 2; i++) {
            t_layer_make(&l, ctx, &p, 16 << i, 0, 0, 1);
            assert_int_equal(quern_op_launch(op, &l.args, 16 << i, NULL), QUERN_OK);
            error[promised][i] = t_layer_error(&l);
            t_layer_free(&l);
        }
        quern_op_release(op);
    }
    assert_true(error[0][1] > 1e-3 && error[1][0] < 5e-6 && error[1][1] < 5e-6);
    quern_close(ctx);
}

/* The kernel of a batch-invariant problem is a matter of the problem and the target: not of the
 * rows that an op is made for. A promise is a kernel of its own in caches, none is what it was. */
static void test_plans(void **state)
{
    struct quern_problem p = t_problem("wq=nf4 n=4096 k=4096 a=bf16 exact=batch_invariant");
    const struct target *const t = target_named("gfx942");
    struct plan_set few, all;
    char text[QUERN_TEXT_MAX];

    (void)state;
    assert_int_equal(plan_make_up_to(&p, t, NULL, NULL, 1, &few), QUERN_OK);
    assert_int_equal(plan_make(&p, t, &all), QUERN_OK);
    assert_int_equal(few.count, 1);
    assert_int_equal(all.count, 1);
    assert_string_equal(few.plans[0].symbol, all.plans[0].symbol);
    problem_text(&p, text);
    assert_non_null(strstr(text, " round=rne exact=batch_invariant"));
    p.exact = 0;
    problem_text(&p, text);
    assert_null(strstr(text, "exact"));
    p = t_problem("wq=int4 n=4096 k=4096 a=bf16 exact=both");
    struct str said = {0};
    assert_int_equal(plan_make(&p, t, &all), QUERN_OK);
    plan_explain_rows(&all, 1, &said);
    assert_non_null(strstr(said.text,
                           "\nexact: one kernel for every M; no scaled weight is rounded; "
                           "modelled time against no promise M = 1 "));
    str_free(&said);
    p = t_problem("wq=int4 n=4096 k=4096 a=bf16 exact=precise");
    const struct plan_force on = {.predequant = SWITCH_ON};
    assert_int_equal(plan_make_tuned(&p, t, NULL, &on, &all), QUERN_E_DECLINED);
    assert_non_null(strstr(quern_last_error()->message, "exact=precise"));
    assert_int_equal(quern_problem_parse("op=dequant wq=nf4 n=64 k=64 c=f16 exact=both", &p),
                     QUERN_E_PROBLEM);
    assert_int_equal(quern_problem_parse("wq=nf4 n=64 k=64 a=f16 exact=none", &p), QUERN_E_PROBLEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans),
                                       cmocka_unit_test(test_without_a_promise),
                                       cmocka_unit_test(test_rows_do_not_depend_on_rows),
                                       cmocka_unit_test(test_weights_are_not_rounded)};

    for (size_t i = 0; i < target_count(); i++)
        if (target_simulated(target_at(i)) && targets < TARGETS_MAX)
            verified[targets++] = target_at(i);
    return cmocka_run_group_tests_name("exact", tests, t_cache_make, t_cache_remove);
}
