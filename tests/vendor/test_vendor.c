/* SPDX-License-Identifier: MIT */
/*
 * That a vendor is new files and the rows that register it: kernels for a made-up vendor's GPU
 * (mill.h) are planned, generated, compiled by its compiler in a worker, stored, looked up and
 * launched, beside AMD's in the same program.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "mill.h"
#include "t_context.h"
#include "t_paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char layer[] = "wq=none n=50 k=96 a=f32 c=f32";

static quern_status open_with(const char *target, enum quern_device_kind device, enum quern_jit jit,
                              quern_ctx **ctx)
{
    struct quern_options o = QUERN_INIT(struct quern_options);

    o.target = target;
    o.device = device;
    o.cache_dir = t_cache;
    o.jit = jit;
    o.allow_unverified = 1;
    o.jobs = 2;
    o.worker_path = t_worker_path();
    return quern_open(&o, ctx);
}

static quern_ctx *must_open(const char *target, enum quern_device_kind device, enum quern_jit jit)
{
    quern_ctx *ctx = NULL;

    if (open_with(target, device, jit, &ctx) != QUERN_OK)
        fail_msg("quern_open: %s", quern_last_error()->message);
    return ctx;
}

/* Without a device: five kernels come from the compiler and go to the disk. */
static void test_prewarm_stores_kernels(void **state)
{
    const struct quern_problem problem = t_problem(layer);
    struct quern_stats stats = QUERN_INIT(struct quern_stats);
    quern_ctx *const ctx = must_open("mill_1", QUERN_DEVICE_NONE, QUERN_JIT_ON);

    (void)state;
    if (quern_prewarm(ctx, &problem, 1, 8, NULL, NULL) != QUERN_OK)
        fail_msg("quern_prewarm: %s\n%s", quern_last_error()->message, quern_last_error()->log);
    assert_int_equal(quern_ctx_stats(ctx, &stats), QUERN_OK);
    assert_int_equal(stats.compile_ok, 4);
    quern_close(ctx);
}

/* On its device, found without being named, with what was stored and no compiler. */
static void test_launches_are_right(void **state)
{
    const struct quern_problem problem = t_problem(layer);
    quern_ctx *const ctx = must_open(NULL, QUERN_DEVICE_AUTO, QUERN_JIT_OFF);
    struct t_layer l;

    (void)state;
    for (int m = 1; m <= 19; m += 3) {
        quern_op *op;
        const int before = mill_launches;
        if (quern_op_create(ctx, &problem, m, &op) != QUERN_OK)
            fail_msg("quern_op_create: %s", quern_last_error()->message);
        t_layer_make(&l, ctx, &problem, m, 0, 0, 1);
        if (quern_op_launch(op, &l.args, m, NULL) != QUERN_OK)
            fail_msg("quern_op_launch: %s", quern_last_error()->message);
        assert_true(t_layer_error(&l) < 1e-6);
        assert_true(mill_launches > before);
        t_layer_free(&l);
        quern_op_release(op);
    }
    quern_close(ctx);
}

/* What the vendor's family does not do is said by it, and nobody else's takes the problem. */
static void test_other_problems_are_declined(void **state)
{
    const struct quern_problem f16 = t_problem("wq=none n=50 k=96 a=f16"),
                               nf4 = t_problem("wq=nf4 n=64 k=128 a=f16"),
                               ids = t_problem("op=moe_align experts=8 top_k=2 block_rows=4");
    quern_ctx *const ctx = must_open("mill_1", QUERN_DEVICE_NONE, QUERN_JIT_ON);
    quern_op *op;

    (void)state;
    assert_int_equal(quern_op_create(ctx, &f16, 1, &op), QUERN_E_DECLINED);
    assert_non_null(strstr(quern_last_error()->message, "mill_1 multiplies f32 alone"));
    assert_int_equal(quern_op_create(ctx, &nf4, 1, &op), QUERN_E_DECLINED);
    assert_non_null(strstr(quern_last_error()->message, "on mill_1"));
    assert_int_equal(quern_op_create(ctx, &ids, 1, &op), QUERN_E_DECLINED);
    assert_non_null(strstr(quern_last_error()->message,
                           "no family of kernels takes op=moe_align on mill_1 in this version; "
                           "quern_moe_align() does it on the CPU"));
    quern_close(ctx);
}

/* AMD's kernels are made and run in the same program, and one vendor's objects are none of the
 * other's. */
static void test_vendors_stand_side_by_side(void **state)
{
    const struct quern_problem problem = t_problem(layer);
    quern_ctx *const ctx = must_open("gfx1151", QUERN_DEVICE_SIM, QUERN_JIT_ON);
    struct quern_verification v = QUERN_INIT(struct quern_verification);
    quern_op *op;

    (void)state;
    if (quern_op_create(ctx, &problem, 1, &op) != QUERN_OK ||
        quern_verify(op, 1, 1, QUERN_CHECK_FULL, &v) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    quern_op_release(op);
    quern_close(ctx);
    quern_ctx *none;
    assert_int_equal(open_with("mill_1", QUERN_DEVICE_NONE, QUERN_JIT_OFF, &none), QUERN_OK);
    assert_int_equal(quern_op_create(none, &problem, 1, &op), QUERN_OK);
    assert_int_equal(quern_verify(op, 1, 1, QUERN_CHECK_FULL, &v), QUERN_E_DEVICE);
    quern_op_release(op);
    quern_close(none);
}

static void note_line(void *user, int ok, const char *subject, const char *text)
{
    int *const seen = user;

    (void)ok;
    *seen |= !strcmp(subject, "millrtc") && strstr(text, "libmillrtc.so") ? 1 : 0;
    *seen |= !strcmp(subject, "worker") && strstr(text, "millrtc interface 1.2") ? 2 : 0;
    *seen |= !strcmp(subject, "Mill runtime") && !strcmp(text, "libmill.so: used") ? 4 : 0;
    *seen |=
        !strcmp(subject, "device") && strstr(text, "Mill One, mill_1, 4 compute units") ? 8 : 0;
}

static void test_doctor_sees_the_vendor(void **state)
{
    struct quern_options o = QUERN_INIT(struct quern_options);
    int seen = 0;

    (void)state;
    o.target = "mill_1";
    o.cache_dir = t_cache;
    o.worker_path = t_worker_path();
    assert_int_equal(quern_doctor(&o, note_line, &seen), 0);
    assert_int_equal(seen, 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prewarm_stores_kernels),
        cmocka_unit_test(test_launches_are_right),
        cmocka_unit_test(test_other_problems_are_declined),
        cmocka_unit_test(test_vendors_stand_side_by_side),
        cmocka_unit_test(test_doctor_sees_the_vendor),
    };

    unsetenv("T_CACHE"); /* a cache of its own: compiles are counted */
    return cmocka_run_group_tests(tests, t_cache_make, t_cache_remove);
}
