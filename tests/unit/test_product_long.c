/* SPDX-License-Identifier: MIT */
/*
 * The whole product of types, formats, groups and M, two shapes each, on the verified targets in
 * turns, in full checking mode: what test_covering samples. Minutes of work: with --long only, as
 * far as time goes (t_explore.h).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_explore.h"

#include "target/target.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char *const types[] = {"f32", "f16", "bf16"};
static const char *const formats[] = {"nf4", "nf4 scale=nested", "fp4", "fp4 scale=nested"};
static const int rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 32, 64};

enum { GROUPS = 8, BNB = 4 * GROUPS, FORMATS = BNB + 1, SHAPES = 2 };

static quern_ctx *contexts[64]; /* of each verified target */
static size_t targets;
static atomic_int failed;
static char failure[768]; /* the first */

static void fail_case(const char *text, int m)
{
    if (!atomic_fetch_add(&failed, 1))
        snprintf(failure, sizeof failure, "%s m=%d: %s", text, m, quern_last_error()->message);
}

/* Case i: type of A, format with group, shape; the type of C and the bias take turns. */
static void problem_text(size_t i, char *text, size_t size)
{
    const size_t shape = i % SHAPES, format = i / SHAPES % FORMATS, a = i / SHAPES / FORMATS;
    const int group = format == BNB ? 32 : 32 << format % GROUPS;
    const int n = shape ? 37 : 130, k = (shape ? 4096 : 1100) / group * group + group;

    snprintf(text, size, "wq=%s group=%d a=%s c=%s n=%d k=%d bias=%d",
             format == BNB ? "mxfp4" : formats[format / GROUPS], group, types[a],
             types[(a + format + shape) % 3], n, k, (int)((a + format) % 2));
}

static void run_case(void *user, size_t i)
{
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    char text[160];
    quern_ctx *const ctx = contexts[(i + i / targets) % targets];
    quern_op *op;

    (void)user;
    problem_text(i, text, sizeof text);
    if (quern_problem_parse(text, &p) != QUERN_OK ||
        quern_op_create(ctx, &p, 64, &op) != QUERN_OK) {
        fail_case(text, 0);
        return;
    }
    for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
        if (quern_verify(op, rows[m], i, QUERN_CHECK_FULL, &v) != QUERN_OK)
            fail_case(text, rows[m]);
    quern_op_release(op);
}

static void test_product(void **state)
{
    char *const cache = t_temp_dir();

    (void)state;
    for (size_t t = 0; t < target_count(); t++)
        if (target_simulated(target_at(t)))
            contexts[targets++] = t_open(target_at(t)->name, cache, QUERN_JIT_ON);
    t_explore_part((size_t)3 * FORMATS * SHAPES, 1, run_case, NULL);
    for (size_t t = 0; t < targets; t++)
        quern_close(contexts[t]);
    t_remove(cache);
    if (atomic_load(&failed))
        fail_msg("%d cases failed; %s", atomic_load(&failed), failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_product)};

    return cmocka_run_group_tests_name("product", tests, NULL, NULL);
}
