/* SPDX-License-Identifier: MIT */
/*
 * Launches that may begin before the one in front of them has ended, as the host allows by
 * QUERN_WEIGHTS_CONSTANT or QUERN_WEIGHTS=constant: which launches the CUDA driver is told so of,
 * on which GPUs, and that a capture records them. That kernels wait before they touch what others
 * write is judged by tests/cpu. Where there is no NVRTC the tests are skipped; with CI=true they
 * fail.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "fakecuda.h"
#include "t_context.h"

#include "compile/compile.h"

#include <stdlib.h>
#include <string.h>

int cuDeviceGet(int *device, int index);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);

static char *cache;

static int set_up(void **state)
{
    (void)state;
    cache = t_temp_dir();
    /* where fakecuda looks for the texts of kernels */
    return setenv("FAKECUDA_DEVICES", "sm_90,sm_80", 1) || setenv("QUERN_CACHE_DIR", cache, 1);
}

static int tear_down(void **state)
{
    (void)state;
    t_remove(cache);
    return 0;
}

static quern_ctx *open_context(int index, enum quern_weights weights)
{
    const char *const ci = getenv("CI");
    struct toolchain toolchain;
    void *context; /* the host's too: the primary one */
    int device;

    if (toolchain_find(VENDOR_NVIDIA, NULL, &toolchain) != QUERN_OK &&
        !(ci && !strcmp(ci, "true"))) {
        print_message("skipped: no NVRTC; `make setup-cuda` fetches it\n");
        skip();
    }
    struct quern_options options = QUERN_INIT(struct quern_options);
    options.device = QUERN_DEVICE_CUDA;
    options.device_index = index;
    options.cache_dir = cache;
    options.weights = weights;
    options.allow_unverified = 1; /* nothing here judges the older GPU's kernels */
    quern_ctx *ctx;
    if (quern_open(&options, &ctx) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    assert_int_equal(cuDeviceGet(&device, index), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    return ctx;
}

/* Launches the layer once with these flags; how many launches of it may begin early. */
static unsigned early(quern_op *op, struct t_layer *l, uint64_t flags, void *stream)
{
    const unsigned before = fakecuda_early_launches();
    struct quern_args args = l->args;

    args.flags = flags;
    if (quern_op_launch(op, &args, l->m, stream) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    return fakecuda_early_launches() - before;
}

/* On GPU `index`, of 70 rows: in slices of a kernel, and a rest where they do not divide. */
static void with_layer_of(int index, enum quern_weights weights,
                          void (*check)(quern_op *op, struct t_layer *l))
{
    quern_ctx *const ctx = open_context(index, weights);
    const struct quern_problem p = t_problem("wq=nf4 n=40 k=256 a=f32");
    struct t_layer l;
    quern_op *op;

    if (quern_op_create(ctx, &p, 70, &op) != QUERN_OK)
        fail_msg("%s %s", quern_last_error()->message, quern_last_error()->log);
    t_layer_make(&l, ctx, &p, 70, 0, 0, 1);
    check(op, &l);
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void with_layer(int index, void (*check)(quern_op *op, struct t_layer *l))
{
    with_layer_of(index, 0, check);
}

static void check_flag(quern_op *op, struct t_layer *l)
{
    assert_int_equal(early(op, l, 0, NULL), 0);
    assert_true(t_layer_error(l) <= 1e-4);
    assert_true(early(op, l, QUERN_WEIGHTS_CONSTANT, NULL) > 0);
    assert_true(t_layer_error(l) <= 1e-4);
    l->args.flags = QUERN_WEIGHTS_ANY; /* is no promise */
    assert_int_equal(quern_op_launch(op, &l->args, l->m, NULL), QUERN_E_ARGUMENT);
    t_message_has("args.flags are 1; expected 0 or QUERN_WEIGHTS_CONSTANT");
}

static void test_flag(void **state)
{
    (void)state;
    with_layer(0, check_flag);
}

static void check_older(quern_op *op, struct t_layer *l)
{
    assert_int_equal(early(op, l, QUERN_WEIGHTS_CONSTANT, NULL), 0);
    assert_true(t_layer_error(l) <= 1e-4);
}

/* A GPU that has no such launches takes the flag, and the environment's word, and does as ever. */
static void test_gpus_without(void **state)
{
    (void)state;
    with_layer(1, check_older);
    assert_int_equal(setenv("QUERN_WEIGHTS", "constant", 1), 0);
    with_layer(1, check_older);
    assert_int_equal(unsetenv("QUERN_WEIGHTS"), 0);
}

static void check_all(quern_op *op, struct t_layer *l)
{
    assert_true(early(op, l, 0, NULL) > 0);
    assert_true(t_layer_error(l) <= 1e-4);
}

static void test_option(void **state)
{
    (void)state;
    with_layer_of(0, QUERN_WEIGHTS_CONSTANT, check_all);
}

static void test_environment(void **state)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    quern_ctx *ctx;

    (void)state;
    assert_int_equal(setenv("QUERN_WEIGHTS", "constant", 1), 0);
    with_layer(0, check_all);
    assert_int_equal(setenv("QUERN_WEIGHTS", "frozen", 1), 0);
    assert_int_equal(quern_open(&options, &ctx), QUERN_E_ARGUMENT);
    t_message_has("QUERN_WEIGHTS=frozen; expected any or constant");
    assert_int_equal(unsetenv("QUERN_WEIGHTS"), 0);
}

static void check_capture(quern_op *op, struct t_layer *l)
{
    void *stream, *graph, *exec;

    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    assert_true(early(op, l, QUERN_WEIGHTS_CONSTANT, stream) > 0);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cuGraphLaunch(exec, stream), 0);
    assert_int_equal(cuStreamSynchronize(stream), 0);
    assert_true(t_layer_error(l) <= 1e-4);
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
}

static void test_capture(void **state)
{
    (void)state;
    with_layer(0, check_capture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flag),    cmocka_unit_test(test_gpus_without),
        cmocka_unit_test(test_option),  cmocka_unit_test(test_environment),
        cmocka_unit_test(test_capture),
    };

    return cmocka_run_group_tests_name("early", tests, set_up, tear_down);
}
