/* SPDX-License-Identifier: MIT */
/*
 * {sym, asym} × {f16, bf16} × {group 32, 128} × {rne, trunc} × layouts × M, with weights
 * dequantised into LDS and without, on every verified target, in full checking mode: what test_int4
 * samples. An hour of work: with --long only, as far as time goes (t_explore.h).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_context.h"
#include "t_explore.h"
#include "t_runs.h"

#include "target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIXTEEN = 16, LAYOUTS = 3, FORCES = 2, TARGETS_MAX = 64 };
static const int rows[] = {1, 2, 3, 4, 6, 8, 13, 16, 64};
static const char *const layouts[] = {"k8", "exl", "ck"};

static const char *const forces[] = {"predequant=off", "predequant=on"};
static quern_ctx *contexts[FORCES][TARGETS_MAX];
static const char *names[TARGETS_MAX];
static void run_case(void *user, size_t index)
{
    const size_t i = index % SIXTEEN, layout = index / SIXTEEN % LAYOUTS;
    const size_t force = index / SIXTEEN / LAYOUTS % FORCES;
    const size_t target = index / SIXTEEN / LAYOUTS / FORCES;
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    char text[160];
    quern_op *op;

    (void)user;
    snprintf(text, sizeof text, "wq=int4 n=200 k=1152 group=%d a=%s zero=%s round=%s layout=%s",
             i & 1 ? 32 : 128, i & 2 ? "f16" : "bf16", i & 4 ? "none" : "u8",
             i & 8 ? "rne" : "trunc", layouts[layout]);
    if (quern_problem_parse(text, &p) != QUERN_OK ||
        quern_op_create(contexts[force][target], &p, 64, &op) != QUERN_OK) {
        t_runs_failed(text, names[target], 0);
        return;
    }
    for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
        if (quern_verify(op, rows[m], index, QUERN_CHECK_FULL, &v) != QUERN_OK)
            t_runs_failed(text, names[target], rows[m]);
    quern_op_release(op);
}

static void test_all(void **state)
{
    char *const cache = t_temp_dir();
    size_t targets = 0;

    (void)state;
    for (size_t t = 0; t < target_count(); t++)
        if (target_simulated(target_at(t))) {
            assert_true(targets < TARGETS_MAX);
            names[targets] = target_at(t)->name;
            for (int f = 0; f < FORCES; f++) {
                assert_int_equal(setenv("QUERN_FORCE", forces[f], 1), 0);
                contexts[f][targets] = t_open(target_at(t)->name, cache, QUERN_JIT_ON);
            }
            targets++;
        }
    assert_int_equal(unsetenv("QUERN_FORCE"), 0);
    t_explore_part(SIXTEEN * LAYOUTS * FORCES * targets, 1, run_case, NULL);
    for (size_t t = 0; t < targets; t++)
        for (int f = 0; f < FORCES; f++)
            quern_close(contexts[f][t]);
    t_remove(cache);
    t_runs_expect_none();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

    return cmocka_run_group_tests_name("int4", tests, NULL, NULL);
}
