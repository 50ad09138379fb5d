/* SPDX-License-Identifier: MIT */
/*
 * The HIP device, on a HIP runtime of software GPUs: two that run, one that does not, one that
 * quern does not list.
 *
 * This file is long because a device has many calls, and each is tried on the same fake runtime.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "fakehip.h"
#include "t_context.h"
#include "t_objects.h"
#include "t_paths.h"

#include "base/os.h"
#include "device/device.h"

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIP(call) assert_int_equal(call, hipSuccess)

static const char layer_text[] = "wq=nf4 n=96 k=256 a=bf16 bias=1";
static char *cache;

static int set_up(void **state)
{
    (void)state;
    cache = t_temp_dir();
    return setenv("FAKEHIP_DEVICES", "gfx1151,gfx1100,gfx942:sramecc+:xnack-,gfx1036", 1);
}

static int tear_down(void **state)
{
    (void)state;
    t_remove(cache);
    return 0;
}

/* Every test leaves device 0 current, no error pending and nothing planned. */
static int clean(void **state)
{
    (void)state;
    fakehip_reset();
    return hipSetDevice(0) || hipPeekAtLastError();
}

static quern_op *create(quern_ctx *ctx, const char *text, int64_t m_max)
{
    const struct quern_problem p = t_problem(text);
    quern_op *op;

    if (quern_op_create(ctx, &p, m_max, &op) != QUERN_OK)
        fail_msg("%s: %s %s", text, quern_last_error()->message, quern_last_error()->log);
    return op;
}

static struct quern_stats stats_of(quern_ctx *ctx)
{
    struct quern_stats stats = QUERN_INIT(struct quern_stats);

    assert_int_equal(quern_ctx_stats(ctx, &stats), QUERN_OK);
    return stats;
}

/* ---- Devices --------------------------------------------------------------------------------- */

static quern_status try_open(struct quern_options options)
{
    quern_ctx *ctx = NULL;

    options.cache_dir = cache;
    options.worker_path = t_worker_path();
    const quern_status status = quern_open(&options, &ctx);
    quern_close(ctx);
    return status;
}

static void test_devices(void **state)
{
    struct quern_device_info info = QUERN_INIT(struct quern_device_info);
    struct quern_options options = QUERN_INIT(struct quern_options);
    quern_ctx *ctx = t_open_hip(0, cache, QUERN_JIT_ON);

    (void)state;
    assert_int_equal(quern_ctx_device(ctx, &info), QUERN_OK);
    assert_int_equal(info.kind, QUERN_DEVICE_HIP);
    assert_string_equal(info.target, "gfx1151");
    assert_string_equal(info.name, "fakehip gfx1151");
    assert_int_equal(info.compute_units, 40); /* the runtime says 20 workgroup processors */
    assert_true(info.clock_ghz > 2.8 && info.clock_ghz < 3.0);
    assert_true(info.memory_bytes == (uint64_t)16 << 30);
    assert_non_null(strstr(info.runtime, "fakehip/libamdhip64.so.6"));
    assert_null(quern_ctx_sim(ctx));
    quern_close(ctx);

    ctx = t_open_hip(2, cache, QUERN_JIT_ON);
    assert_int_equal(quern_ctx_device(ctx, &info), QUERN_OK);
    assert_string_equal(info.target, "gfx942:sramecc+:xnack-");
    assert_int_equal(info.compute_units, 304); /* CDNA counts compute units */
    quern_close(ctx);

    options.device = QUERN_DEVICE_HIP;
    options.device_index = 3;
    assert_int_equal(try_open(options), QUERN_E_TARGET);
    t_message_has("unknown target \"gfx1036\"; the nearest known one is gfx103");
    options.device_index = 4;
    assert_int_equal(try_open(options), QUERN_E_DEVICE);
    t_message_has("device_index is 4, and the HIP runtime has 4 devices");
    options.device_index = 1;
    options.target = "gfx1151";
    assert_int_equal(try_open(options), QUERN_E_TARGET);
    t_message_has("HIP device 1 is a gfx1100, and the target asked for is gfx1151");
    options.target = "gfx1100";
    assert_int_equal(try_open(options), QUERN_OK);

    /* auto takes the GPU, unless a target is asked for */
    options = (struct quern_options){
        .size = sizeof options, .cache_dir = cache, .worker_path = t_worker_path()};
    assert_int_equal(quern_open(&options, &ctx), QUERN_OK);
    assert_null(quern_ctx_sim(ctx));
    quern_close(ctx);
    options.target = "gfx1151";
    assert_int_equal(quern_open(&options, &ctx), QUERN_OK);
    assert_non_null(quern_ctx_sim(ctx));
    quern_close(ctx);
}

static void test_no_device(void **state)
{
    struct quern_options options = QUERN_INIT(struct quern_options);

    (void)state;
    options.device = QUERN_DEVICE_HIP;
    fakehip_fail("hipGetDeviceCount", 1, hipErrorNoDevice);
    assert_int_equal(try_open(options), QUERN_E_DEVICE);
    t_message_has("hipGetDeviceCount failed: hipErrorNoDevice (100)");
    options.device = QUERN_DEVICE_AUTO;
    fakehip_fail("hipGetDeviceCount", 1, hipErrorNoDevice);
    assert_int_equal(try_open(options), QUERN_E_TARGET);
    t_message_has("no GPU: hipGetDeviceCount failed: hipErrorNoDevice (100)");
    assert_null(strstr(quern_last_error()->fact, "set options.target"));
    assert_string_equal(quern_last_error()->remedy, "for a software one, set options.target or "
                                                    "QUERN_TARGET to a name such as gfx1151");
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void launch_and_check(quern_ctx *ctx, quern_op *op, const char *text, int64_t m,
                             hipStream_t stream, uint64_t seed)
{
    const struct quern_problem p = t_problem(text);
    struct t_layer l;

    t_layer_make(&l, ctx, &p, m, 0, 0, seed);
    if (quern_op_launch(op, &l.args, m, stream) != QUERN_OK)
        fail_msg("m=%d: %s", (int)m, quern_last_error()->message);
    const double error = t_layer_error(&l);
    if (!(error <= 5e-3))
        fail_msg("%s m=%d: error %g", text, (int)m, error);
    t_layer_free(&l);
}

static void test_answers(void **state)
{
    static const char *const layers[] = {layer_text, "wq=fp4 scale=nested n=33 k=512 a=f16 c=f32",
                                         "wq=mxfp4 n=40 k=288 a=f32"};
    static const int rows[] = {1, 3, 8, 21};
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    hipStream_t stream;

    (void)state;
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        quern_op *const op = create(ctx, layers[i], 8);
        for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
            launch_and_check(ctx, op, layers[i], rows[m], m % 2 ? stream : NULL, m);
        quern_op_release(op);
    }
    HIP(hipStreamDestroy(stream));
    quern_close(ctx);
}

/* A context each, of different targets, at work in one process; the caller's device stays. */
static void test_two_targets(void **state)
{
    quern_ctx *ctx[2];
    quern_op *op[2];
    int device;

    (void)state;
    HIP(hipSetDevice(1));
    for (int i = 0; i < 2; i++) {
        ctx[i] = t_open_hip(i, cache, QUERN_JIT_ON);
        op[i] = create(ctx[i], layer_text, 8);
        HIP(hipGetDevice(&device));
        assert_int_equal(device, 1);
    }
    for (int i = 1; i >= 0; i--) {
        HIP(hipSetDevice(i));
        launch_and_check(ctx[i], op[i], layer_text, 5, NULL, 1);
    }
    /* on the wrong device a launch is refused, with the cure, and no error is left behind */
    HIP(hipSetDevice(1));
    const struct quern_problem p = t_problem(layer_text);
    struct t_layer l;
    t_layer_make(&l, ctx[0], &p, 1, 0, 0, 1);
    assert_int_equal(quern_op_launch(op[0], &l.args, 1, NULL), QUERN_E_DEVICE);
    t_message_has("hipSetDevice");
    HIP(hipPeekAtLastError());
    t_layer_free(&l);
    HIP(hipGetDevice(&device));
    assert_int_equal(device, 1);
    for (int i = 0; i < 2; i++) {
        quern_op_release(op[i]);
        quern_close(ctx[i]);
    }
}

static atomic_uint os_calls;

static void *counted_malloc(size_t n)
{
    atomic_fetch_add(&os_calls, 1);
    return malloc(n);
}

static void *counted_calloc(size_t n, size_t size)
{
    atomic_fetch_add(&os_calls, 1);
    return calloc(n, size);
}

static int counted_clock(clockid_t id, struct timespec *t)
{
    atomic_fetch_add(&os_calls, 1);
    return clock_gettime(id, t);
}

static void test_a_launch_calls_nothing_but_the_launch(void **state)
{
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    quern_op *const op = create(ctx, layer_text, 8);
    const struct quern_problem p = t_problem(layer_text);
    struct t_layer l;
    hipStream_t stream;
    size_t most = 0;

    (void)state;
    HIP(hipStreamCreate(&stream));
    t_layer_make(&l, ctx, &p, 19, 0, 0, 1);
    fakehip_skip_kernels(true);
    const struct os before = os;
    os.malloc = counted_malloc;
    os.calloc = counted_calloc;
    os.clock_gettime = counted_clock;
    for (int64_t m = 1; m <= 19; m++) {
        struct quern_launch planned[QUERN_LAUNCHES_MAX];
        size_t want;
        assert_int_equal(quern_op_launches(op, m, planned, &want), QUERN_OK);
        most = want > most ? want : most;
        const unsigned long all = fakehip_calls(NULL);
        const unsigned long launches = fakehip_calls("hipModuleLaunchKernel");
        const quern_status status = quern_op_launch(op, &l.args, m, stream);
        assert_int_equal(status, QUERN_OK);
        assert_int_equal(fakehip_calls("hipModuleLaunchKernel") - launches, want);
        assert_int_equal(fakehip_calls(NULL) - all, want);
    }
    os = before;
    assert_int_equal(most, 2); /* slices, and a rest */
    assert_int_equal(atomic_load(&os_calls), 0);
    t_layer_free(&l);
    HIP(hipStreamDestroy(stream));
    quern_op_release(op);
    quern_close(ctx);
}

/* Up to HIP's limits of a grid, and a clear line beyond. */
static void test_most_rows(void **state)
{
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    quern_op *const op = create(ctx, layer_text, 8);
    const struct quern_problem p = t_problem(layer_text);
    struct quern_launch launches[QUERN_LAUNCHES_MAX];
    struct t_layer l;
    int64_t most = 1;
    size_t count;

    (void)state;
    for (int64_t bit = (int64_t)1 << 30; bit; bit /= 2)
        if (quern_op_launches(op, most + bit, launches, &count) == QUERN_OK)
            most += bit;
    assert_true(most > 500000 && most < INT32_MAX);
    t_layer_make(&l, ctx, &p, 1, 0, 0, 1);
    fakehip_skip_kernels(true); /* which still checks the grid */
    assert_int_equal(quern_op_launch(op, &l.args, most, NULL), QUERN_OK);
    assert_int_equal(quern_op_launch(op, &l.args, most + 1, NULL), QUERN_E_ARGUMENT);
    t_message_has("one launch takes at most");
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

struct thread {
    quern_ctx *ctx;
    quern_op *op;
    int number;
};

static void *launch_often(void *user)
{
    const struct thread *const t = user;
    hipStream_t stream;

    HIP(hipSetDevice(0));
    HIP(hipStreamCreate(&stream));
    for (int i = 0; i < 4; i++)
        launch_and_check(t->ctx, t->op, layer_text, 1 + (t->number + 3 * i) % 9, stream,
                         (uint64_t)(t->number * 10 + i));
    HIP(hipStreamDestroy(stream));
    return NULL;
}

static void test_many_threads(void **state)
{
    struct thread threads[4];
    pthread_t id[4];
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    quern_op *const op = create(ctx, layer_text, 8);

    (void)state;
    for (int i = 0; i < 4; i++) {
        threads[i] = (struct thread){ctx, op, i};
        assert_int_equal(pthread_create(&id[i], NULL, launch_often, &threads[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(id[i], NULL);
    quern_op_release(op);
    quern_close(ctx);
}

/* ---- Capture --------------------------------------------------------------------------------- */

static void replay(hipGraphExec_t exec, hipStream_t stream, struct t_layer *l)
{
    HIP(hipMemcpy(l->args.c, l->reference, l->c_bytes, hipMemcpyHostToDevice)); /* spoil it */
    assert_false(t_layer_error(l) <= 5e-3);
    HIP(hipGraphLaunch(exec, stream));
    assert_true(t_layer_error(l) <= 5e-3);
}

static void test_capture(void **state)
{
    static const char missing[] = "wq=nf4 n=64 k=320 a=bf16", stored[] = "wq=nf4 n=48 k=256 a=f16";
    quern_ctx *other = t_open_hip(0, cache, QUERN_JIT_ON);
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem(layer_text), q = t_problem(missing);
    quern_op *const op = create(ctx, layer_text, 8), *same, *none = NULL;
    struct t_layer l;
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;

    (void)state;
    quern_op_release(create(other, stored, 8));
    quern_close(other);
    t_layer_make(&l, ctx, &p, 11, 0, 0, 3);
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    assert_int_equal(quern_op_launch(op, &l.args, 11, stream), QUERN_OK);

    /* what is loaded is given; what is not is refused before anything could break the capture */
    assert_int_equal(quern_op_create_on(ctx, &p, 8, stream, &same), QUERN_OK);
    assert_ptr_equal(same, op);
    quern_op_release(same);
    const unsigned long loads = fakehip_calls("hipModuleLoadData");
    const uint64_t compiled = stats_of(ctx).compile_ok;
    assert_int_equal(quern_op_create_on(ctx, &q, 8, stream, &none), QUERN_E_WOULD_COMPILE);
    t_message_has("before the capture begins");
    assert_int_equal(quern_op_create_on(ctx, &q, 8, NULL, &none), QUERN_E_WOULD_COMPILE);
    assert_null(none);
    assert_int_equal(fakehip_calls("hipModuleLoadData"), loads);
    assert_int_equal(stats_of(ctx).compile_ok, compiled);

    /* even an op that is made now, without asking, leaves the capture alone */
    quern_op_release(create(ctx, stored, 8));
    assert_true(fakehip_calls("hipModuleLoadData") > loads);

    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    HIP(hipGraphDestroy(graph));
    replay(exec, stream, &l);
    replay(exec, stream, &l);
    HIP(hipGraphExecDestroy(exec));

    /* not capturing: the same call makes the op */
    assert_int_equal(quern_op_create_on(ctx, &q, 8, stream, &none), QUERN_OK);
    launch_and_check(ctx, none, missing, 2, stream, 1);
    quern_op_release(none);
    HIP(hipStreamDestroy(stream));
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

/* The test above could not fail if fakehip let everything pass. */
static void test_capture_is_strict(void **state)
{
    hipStream_t stream;
    hipGraph_t graph;
    void *memory;

    (void)state;
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    assert_int_equal(hipMalloc(&memory, 16), hipErrorStreamCaptureUnsupported);
    assert_int_equal(hipStreamEndCapture(stream, &graph), hipErrorStreamCaptureInvalidated);
    HIP(hipStreamDestroy(stream));
    assert_int_equal(hipGetLastError(), hipErrorStreamCaptureInvalidated);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void test_refused_module(void **state)
{
    char *const own = t_temp_dir();
    const struct quern_problem p = t_problem("wq=nf4 n=32 k=128 a=f16");
    quern_ctx *ctx = t_open_hip(0, own, QUERN_JIT_ON);
    quern_op *op;

    (void)state;
    /* a fresh object that is refused is an error, not a loop */
    fakehip_fail("hipModuleLoadData", 1, hipErrorInvalidImage);
    assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_E_OBJECT);
    t_message_has("hipModuleLoadData failed: hipErrorInvalidImage (200)");
    HIP(hipPeekAtLastError());
    quern_close(ctx);

    /* a stored one is quarantined and made anew, once */
    ctx = t_open_hip(0, own, QUERN_JIT_ON);
    fakehip_fail("hipModuleLoadData", 1, hipErrorNoBinaryForGpu);
    assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_OK);
    assert_int_equal(stats_of(ctx).quarantined, 1);
    assert_int_equal(stats_of(ctx).compile_ok, 1);
    assert_int_equal(stats_of(ctx).put_ok, 1);
    launch_and_check(ctx, op, "wq=nf4 n=32 k=128 a=f16", 1, NULL, 1);
    quern_op_release(op);
    quern_close(ctx);

    /* without a compiler it is only refused */
    ctx = t_open_hip(0, own, QUERN_JIT_OFF);
    fakehip_fail("hipModuleGetFunction", 1, hipErrorNotFound);
    assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_E_OBJECT);
    assert_int_equal(stats_of(ctx).quarantined, 0);

    /* a full device says nothing against the object */
    fakehip_fail("hipModuleLoadData", 1, hipErrorOutOfMemory);
    assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_E_MEMORY);
    assert_int_equal(stats_of(ctx).quarantined, 0);
    assert_int_equal(quern_op_create(ctx, &p, 1, &op), QUERN_OK);
    quern_op_release(op);
    quern_close(ctx);
    t_remove(own);
}

/* A runtime that takes any object: ours never reaches it. */
static void test_wrong_processor(void **state)
{
    const struct t_object object = t_object(T_AXPY_GFX1201);
    const struct device_search search = {0};
    struct device_kernel *kernel;
    struct object parsed;
    struct device *d;
    hipModule_t module;

    (void)state;
    assert_int_equal(object_parse(object.bytes, object.size, &parsed), QUERN_OK);
    fakehip_take_any_object(true);
    HIP(hipModuleLoadData(&module, object.bytes));
    HIP(hipModuleUnload(module));
    assert_int_equal(driver_amd.open(&driver_amd, &search, 0, &d), QUERN_OK);
    const unsigned long loads = fakehip_calls("hipModuleLoadData");
    assert_int_equal(d->functions->load(d, &parsed, "axpy", 0, &kernel), QUERN_E_OBJECT);
    t_message_has("gfx1201");
    assert_int_equal(fakehip_calls("hipModuleLoadData"), loads);
    d->functions->close(d);
    object_free(&parsed);
}

static void test_lost_device(void **state)
{
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    quern_ctx *const other = t_open_hip(1, cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem(layer_text);
    quern_op *const op = create(ctx, layer_text, 8);
    quern_op *const there = create(other, layer_text, 8);
    struct t_layer l;

    (void)state;
    t_layer_make(&l, ctx, &p, 2, 0, 0, 1);
    fakehip_lose(0);
    assert_int_equal(quern_op_launch(op, &l.args, 2, NULL), QUERN_E_DEVICE);
    t_message_has("hipModuleLaunchKernel failed: hipErrorLaunchFailure (719)");
    HIP(hipPeekAtLastError());
    HIP(hipSetDevice(1));
    launch_and_check(other, there, layer_text, 2, NULL, 1);
    quern_op_release(there);
    quern_close(other);
    fakehip_reset();
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

static void test_fork(void **state)
{
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem(layer_text);
    quern_op *const op = create(ctx, layer_text, 8);
    struct t_layer l;
    int status;

    (void)state;
    t_layer_make(&l, ctx, &p, 2, 0, 0, 1);
    const pid_t child = fork();
    if (!child) {
        const quern_status refused = quern_op_launch(op, &l.args, 2, NULL);
        _exit(refused == QUERN_E_DEVICE && strstr(quern_last_error()->message, "forked") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(quern_op_launch(op, &l.args, 2, NULL), QUERN_OK);
    assert_true(t_layer_error(&l) <= 5e-3);
    t_layer_free(&l);
    quern_op_release(op);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_devices, clean),
        cmocka_unit_test_teardown(test_no_device, clean),
        cmocka_unit_test_teardown(test_answers, clean),
        cmocka_unit_test_teardown(test_two_targets, clean),
        cmocka_unit_test_teardown(test_a_launch_calls_nothing_but_the_launch, clean),
        cmocka_unit_test_teardown(test_most_rows, clean),
        cmocka_unit_test_teardown(test_many_threads, clean),
        cmocka_unit_test_teardown(test_capture, clean),
        cmocka_unit_test_teardown(test_capture_is_strict, clean),
        cmocka_unit_test_teardown(test_refused_module, clean),
        cmocka_unit_test_teardown(test_wrong_processor, clean),
        cmocka_unit_test_teardown(test_lost_device, clean),
        cmocka_unit_test_teardown(test_fork, clean),
    };
    return cmocka_run_group_tests_name("hip", tests, set_up, tear_down);
}
