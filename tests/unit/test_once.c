/* SPDX-License-Identifier: MIT */
/*
 * What is computed once for an op, though several stages need it: the problem's defaults, the
 * plans, a kernel's outline, the reading of its code object. The linker's --wrap (Makefile) counts
 * the calls: those from one file of the library to another.
 */
#include "dispatch/dispatch.h"
#include "gen/gen.h"
#include "problem/problem.h"
#include "t_context.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* Kernels may be made on several threads. */
static struct {
    atomic_int parses, outlines, sources, plans, normalised, texts;
} calls;

static void forget(void)
{
    memset(&calls, 0, sizeof calls);
}

quern_status __real_object_parse(const void *bytes, size_t size, struct object *object);
quern_status __wrap_object_parse(const void *bytes, size_t size, struct object *object);
quern_status __wrap_object_parse(const void *bytes, size_t size, struct object *object)
{
    calls.parses++;
    return __real_object_parse(bytes, size, object);
}

quern_status __real_gen_outline(const struct plan *plan, struct str *outline);
quern_status __wrap_gen_outline(const struct plan *plan, struct str *outline);
quern_status __wrap_gen_outline(const struct plan *plan, struct str *outline)
{
    calls.outlines++;
    return __real_gen_outline(plan, outline);
}

quern_status __real_gen_source(const struct plan *plan, struct str *source);
quern_status __wrap_gen_source(const struct plan *plan, struct str *source);
quern_status __wrap_gen_source(const struct plan *plan, struct str *source)
{
    calls.sources++;
    return __real_gen_source(plan, source);
}

typedef quern_status plan_up_to(const struct quern_problem *, const struct target *,
                                const struct tuning *, const struct plan_force *, int64_t,
                                struct plan_set *);
plan_up_to __real_plan_make_up_to, __wrap_plan_make_up_to;
quern_status __wrap_plan_make_up_to(const struct quern_problem *p, const struct target *t,
                                    const struct tuning *u, const struct plan_force *f, int64_t m,
                                    struct plan_set *set)
{
    calls.plans++;
    return __real_plan_make_up_to(p, t, u, f, m, set);
}

typedef quern_status plan_all(const struct quern_problem *, const struct target *,
                              const struct tuning *, const struct plan_force *, struct plan_set *);
plan_all __real_plan_make_tuned, __wrap_plan_make_tuned;
quern_status __wrap_plan_make_tuned(const struct quern_problem *p, const struct target *t,
                                    const struct tuning *u, const struct plan_force *f,
                                    struct plan_set *set)
{
    calls.plans++;
    return __real_plan_make_tuned(p, t, u, f, set);
}

quern_status __real_problem_normalise(const struct quern_problem *in, struct quern_problem *out);
quern_status __wrap_problem_normalise(const struct quern_problem *in, struct quern_problem *out);
quern_status __wrap_problem_normalise(const struct quern_problem *in, struct quern_problem *out)
{
    calls.normalised++;
    return __real_problem_normalise(in, out);
}

quern_status __real_quern_problem_text(const struct quern_problem *p, char *text, size_t size);
quern_status __wrap_quern_problem_text(const struct quern_problem *p, char *text, size_t size);
quern_status __wrap_quern_problem_text(const struct quern_problem *p, char *text, size_t size)
{
    calls.texts++; /* which normalises it again */
    return __real_quern_problem_text(p, text, size);
}

static char *directory;
static struct quern_problem problem;

static quern_ctx *open_on(const char *cache, enum quern_device_kind device)
{
    struct quern_options o = QUERN_INIT(struct quern_options);
    char path[256];
    quern_ctx *ctx;

    snprintf(path, sizeof path, "%s/%s", directory, cache);
    o.device = device;
    o.target = "gfx1151";
    o.cache_dir = path;
    if (quern_open(&o, &ctx) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    return ctx;
}

static int setup(void **state)
{
    (void)state;
    directory = t_temp_dir();
    problem = t_problem("wq=nf4 n=64 k=64 a=f16");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    t_remove(directory);
    return 0;
}

static void check_calls(int kernels)
{
    assert_int_equal(calls.normalised, 1);
    assert_int_equal(calls.texts, 0);
    assert_int_equal(calls.plans, 1);
    assert_int_equal(calls.outlines, kernels);
    assert_int_equal(calls.sources, 0);
    assert_int_equal(calls.parses, kernels);
}

static void new_kernels(void **state)
{
    quern_op *op;

    (void)state;
    quern_ctx *const ctx = open_on("new", QUERN_DEVICE_NONE);
    forget();
    assert_int_equal(quern_op_create(ctx, &problem, 2, &op), QUERN_OK);
    const int kernels = (int)quern_op_kernel_count(op);
    assert_true(kernels >= 2);
    check_calls(kernels);
    quern_op_release(op);
    /* and nothing of a known op */
    forget();
    assert_int_equal(quern_op_create(ctx, &problem, 2, &op), QUERN_OK);
    assert_int_equal(calls.normalised + calls.texts + calls.plans + calls.outlines + calls.parses,
                     0);
    quern_op_release(op);
    quern_close(ctx);
}

static void stored_kernels(void **state)
{
    quern_op *op;

    (void)state;
    quern_ctx *const ctx = open_on("new", QUERN_DEVICE_NONE);
    forget();
    assert_int_equal(quern_op_create(ctx, &problem, 2, &op), QUERN_OK);
    assert_int_equal(counter_value(&ctx->counters, QUERN_STAT_COMPILE_OK), 0);
    check_calls((int)quern_op_kernel_count(op));
    quern_op_release(op);
    quern_close(ctx);
}

static void kernels_in_the_background(void **state)
{
    quern_op *op;

    (void)state;
    quern_ctx *const ctx = open_on("background", QUERN_DEVICE_NONE);
    forget();
    assert_int_equal(quern_op_create_flags(ctx, &problem, 2, QUERN_OP_NO_WAIT, &op), QUERN_OK);
    assert_int_equal(t_wait_ready(op), QUERN_OK);
    check_calls((int)quern_op_kernel_count(op));
    quern_op_release(op);
    quern_close(ctx);
}

/* The software GPU decodes the object that was read when it came, and does not read it again. */
static void loaded_kernels(void **state)
{
    quern_op *op;

    (void)state;
    quern_ctx *const ctx = open_on("loaded", QUERN_DEVICE_SIM);
    for (int i = 0; i < 2; i++) { /* fresh kernels, then stored ones */
        forget();
        assert_int_equal(quern_op_create(ctx, &problem, 2, &op), QUERN_OK);
        const int kernels = (int)quern_op_kernel_count(op);
        for (int k = 0; k < kernels; k++)
            assert_non_null(atomic_load(&op->kernels)->kernels[k]->loaded);
        assert_int_equal(calls.parses, i ? 0 : kernels);
        quern_op_release(op);
    }
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_kernels),
        cmocka_unit_test(new_kernels),
        cmocka_unit_test(stored_kernels),
        cmocka_unit_test(kernels_in_the_background),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
