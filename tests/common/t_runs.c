/* SPDX-License-Identifier: MIT */
#include "t_runs.h"

#include "t_context.h"
#include "t_explore.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>

#define RUNS_MAX     8192
#define FAILURES_MAX 8 /* that are shown */

static struct run {
    char text[192];
    const char *target;
    int m;
} runs[RUNS_MAX];
static int run_count;
static char failures[FAILURES_MAX][768];
static atomic_int failed;

void t_runs_add(const char *target, int m, const char *format, ...)
{
    va_list ap;

    assert_true(run_count < RUNS_MAX);
    struct run *const r = &runs[run_count++];
    r->target = target;
    r->m = m;
    va_start(ap, format);
    vsnprintf(r->text, sizeof r->text, format, ap);
    va_end(ap);
}

void t_runs_failed(const char *text, const char *target, int m)
{
    const int at = atomic_fetch_add(&failed, 1);

    if (at < FAILURES_MAX)
        snprintf(failures[at], sizeof failures[at], "%s m=%d on %s: %s", text, m, target,
                 quern_last_error()->message);
}

void t_runs_expect_none(void)
{
    const int count = atomic_exchange(&failed, 0);

    for (int i = 0; i < count && i < FAILURES_MAX; i++)
        print_error("%s\n", failures[i]);
    if (count)
        fail_msg("%d cases failed; %s", count, failures[0]);
}

static void verify(void *user, size_t i)
{
    const char *const directory = user;
    const struct run *const r = &runs[i];
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_ctx *const ctx = t_open(r->target, directory, QUERN_JIT_ON);
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    quern_op *op = NULL;

    if (quern_problem_parse(r->text, &p) != QUERN_OK ||
        quern_op_create_range(ctx, &p, r->m, r->m, &op) != QUERN_OK ||
        quern_verify(op, r->m, i, QUERN_CHECK_FULL, &v) != QUERN_OK)
        t_runs_failed(r->text, r->target, r->m);
    quern_op_release(op);
    quern_close(ctx);
}

void t_runs_verify(const char *directory, int one_in)
{
    t_explore_part((size_t)run_count, (size_t)one_in, verify, (void *)directory);
    run_count = 0;
    t_runs_expect_none();
}
