/* SPDX-License-Identifier: MIT */
/* Many rows by hipBLASLt, on a HIP runtime of software GPUs with a hipBLASLt of the host's. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "fakeblas.h"
#include "fakehip.h"
#include "t_context.h"
#include "t_paths.h"

#include "device/blas_abi.h"

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define HIP(call) assert_int_equal(call, hipSuccess)

/* Layers that plan/ chooses hipBLASLt for at few rows: unquantised, which has no matrix kernels of
 * ours, on a gfx1151; and two of few rows of W, which do not fill a gfx942. */
static const char dense[] = "wq=none n=64 k=64 a=f16", packed[] = "wq=fp4 n=24 k=2048 a=f16",
                  blocks[] = "wq=nf4 group=32 n=48 k=1056 a=bf16";
static char *cache;
static void (*fail_next)(const char *function, int nth, int status);
static unsigned long (*products)(void);

static int set_up(void **state)
{
    (void)state;
    cache = t_temp_dir();
    return setenv("FAKEHIP_DEVICES", "gfx1151,gfx942", 1);
}

static int tear_down(void **state)
{
    (void)state;
    t_remove(cache);
    return 0;
}

/* The library that quern has loaded, from beside the HIP runtime. */
static void find_blas(void)
{
    void *const blas = dlopen("libhipblaslt.so.0", RTLD_NOW | RTLD_NOLOAD);
    void *address;

    if (!blas)
        fail_msg("libhipblaslt.so.0 is not loaded");
    assert_non_null(address = dlsym(blas, "fakeblas_fail"));
    memcpy(&fail_next, &address, sizeof address);
    assert_non_null(address = dlsym(blas, "fakeblas_products"));
    memcpy(&products, &address, sizeof address);
    dlclose(blas);
}

static quern_op *create(quern_ctx *ctx, const char *text, int64_t m_max, unsigned flags)
{
    const struct quern_problem p = t_problem(text);
    quern_op *op;

    if (quern_op_create_flags(ctx, &p, m_max, flags, &op) != QUERN_OK)
        fail_msg("%s: %s %s", text, quern_last_error()->message, quern_last_error()->log);
    return op;
}

static quern_buffer *workspace_for(quern_ctx *ctx, const quern_op *op, int64_t m, void **address)
{
    const size_t bytes = quern_op_workspace(op, m);
    quern_buffer *buffer;

    assert_true(bytes > 0);
    assert_int_equal(quern_buffer_create(ctx, bytes, QUERN_SIM_WRITE, "workspace", &buffer),
                     QUERN_OK);
    *address = quern_buffer_address(buffer);
    return buffer;
}

/* The fewest rows that hipBLASLt is chosen for. */
static int64_t fewest(const quern_op *op)
{
    int64_t m = 64;

    while (!quern_op_workspace(op, m) && m < 1 << 20)
        m *= 2;
    assert_true(m <= 8192);
    assert_int_equal(quern_op_workspace(op, m - 1), 0);
    return m;
}

static unsigned long launch(quern_op *op, struct t_layer *l, void *workspace, void *stream)
{
    const unsigned long before = products();
    struct quern_args args = l->args;

    args.workspace = workspace;
    if (quern_op_launch(op, &args, l->m, stream) != QUERN_OK)
        fail_msg("m=%d: %s", (int)l->m, quern_last_error()->message);
    const double error = t_layer_error(l);
    if (!(error <= 5e-3))
        fail_msg("m=%d: error %g", (int)l->m, error);
    return products() - before;
}

static void test_rows(void **state)
{
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    quern_op *const op = create(ctx, dense, 8192, 0);
    const struct quern_problem p = t_problem(dense);
    struct t_layer l, wide;
    void *workspace;
    char text[8192];

    (void)state;
    find_blas();
    const int64_t from = fewest(op), m = 5 * from + 3;
    quern_buffer *const buffer = workspace_for(ctx, op, m, &workspace);

    /* 4·from rows, from rows, and three by a kernel of our own */
    t_layer_make(&l, ctx, &p, m, 0, 0, 1);
    unsigned long kernels = fakehip_calls("hipModuleLaunchKernel");
    assert_int_equal(launch(op, &l, workspace, NULL), 2);
    assert_int_equal(fakehip_calls("hipModuleLaunchKernel") - kernels, 1);
    quern_op_explain(op, m, text, sizeof text);
    assert_non_null(strstr(text, "hipBLASLt"));
    quern_op_explain(op, from - 1, text, sizeof text);
    assert_null(strstr(text, "hipBLASLt"));

    /* without workspace, and with rows that are not packed: kernels of our own */
    assert_int_equal(launch(op, &l, NULL, NULL), 0);
    t_layer_make(&wide, ctx, &p, m, p.k + 8, 0, 1);
    assert_int_equal(launch(op, &wide, workspace, NULL), 0);
    t_layer_free(&wide);

    struct quern_args args = l.args;
    args.workspace = (char *)workspace + 16;
    assert_int_equal(quern_op_launch(op, &args, m, NULL), QUERN_E_ALIGN);
    assert_non_null(strstr(quern_last_error()->message, "workspace"));

    /* a failure of the library is named, and leaves no HIP error behind */
    fail_next("hipblasLtMatmul", 1, 6);
    args.workspace = workspace;
    assert_int_equal(quern_op_launch(op, &args, m, NULL), QUERN_E_DEVICE);
    assert_non_null(strstr(quern_last_error()->message, "hipblasLtMatmul failed"));
    HIP(hipPeekAtLastError());
    t_layer_free(&l);
    quern_buffer_destroy(buffer);
    quern_op_release(op);
    quern_close(ctx);
}

/* Weights are decoded into the workspace, on the stream, each time. */
static void decode_and_multiply(const char *text)
{
    quern_ctx *const ctx = t_open_hip(1, cache, QUERN_JIT_ON);
    const struct quern_problem p = t_problem(text);
    quern_op *const small = create(ctx, text, 8, 0);
    hipStream_t stream;
    struct t_layer l;
    void *workspace;

    HIP(hipSetDevice(1));
    assert_int_equal(quern_op_workspace(small, 8192), 0); /* nobody asked for many rows yet */
    quern_op *const op = create(ctx, text, 8192, 0);
    assert_ptr_equal(small, op);
    const int64_t m = fewest(op);
    assert_true(quern_op_workspace(op, m) >= (size_t)(2 * p.n * p.k));
    quern_buffer *const buffer = workspace_for(ctx, op, m, &workspace);
    HIP(hipStreamCreate(&stream));
    t_layer_make(&l, ctx, &p, m, 0, 0, 1);
    const unsigned long kernels = fakehip_calls("hipModuleLaunchKernel");
    assert_int_equal(launch(op, &l, workspace, stream), 1);
    assert_int_equal(fakehip_calls("hipModuleLaunchKernel") - kernels, 1);
    HIP(hipStreamDestroy(stream));
    t_layer_free(&l);
    quern_buffer_destroy(buffer);
    quern_op_release(op);
    quern_op_release(small);
    quern_close(ctx);
    HIP(hipSetDevice(0));
}

static void test_weights(void **state)
{
    (void)state;
    decode_and_multiply(packed);
    decode_and_multiply("wq=int4 zero=u8 group=32 n=48 k=1056 a=bf16");
}

static void capture(quern_op *op, struct t_layer *l, void *workspace, unsigned long expected)
{
    const unsigned long before = products();
    struct quern_args args = l->args;
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;

    args.workspace = workspace;
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    assert_int_equal(quern_op_launch(op, &args, l->m, stream), QUERN_OK);
    HIP(hipStreamEndCapture(stream, &graph));
    assert_int_equal(products() - before, expected);
    HIP(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    HIP(hipGraphDestroy(graph));
    HIP(hipMemcpy(l->args.c, l->reference, l->c_bytes, hipMemcpyHostToDevice)); /* spoil it */
    HIP(hipGraphLaunch(exec, stream));
    HIP(hipStreamSynchronize(stream));
    assert_true(t_layer_error(l) <= 5e-3);
    HIP(hipGraphExecDestroy(exec));
    HIP(hipStreamDestroy(stream));
}

/* What hipBLASLt does when it first meets a size, no capture survives: there, kernels of our own.
 */
static void test_capture(void **state)
{
    quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    quern_op *const op = create(ctx, dense, 8192, 0);
    const struct quern_problem p = t_problem(dense);
    const int64_t m = fewest(op);
    struct t_layer l;
    void *workspace;

    (void)state;
    quern_buffer *const buffer = workspace_for(ctx, op, m, &workspace);
    t_layer_make(&l, ctx, &p, m, 0, 0, 2);
    capture(op, &l, workspace, 0);
    assert_int_equal(launch(op, &l, workspace, NULL), 1);
    capture(op, &l, workspace, 1);
    t_layer_free(&l);
    quern_buffer_destroy(buffer);
    quern_op_release(op);
    quern_close(ctx);
}

/* An op lives without it: what cannot be had is left out. */
static void test_without(void **state)
{
    static const char *const fails[] = {"hipblasLtCreate", "hipblasLtMatmulAlgoGetHeuristic",
                                        "hipblasLtMatrixLayoutCreate"};
    struct t_layer l;

    (void)state;
    for (size_t i = 0; i < sizeof fails / sizeof *fails; i++) {
        quern_ctx *const ctx = t_open_hip(0, cache, QUERN_JIT_ON);
        const struct quern_problem p = t_problem(dense);
        fail_next(fails[i], 1, HIPBLAS_NOT_SUPPORTED);
        quern_op *const op = create(ctx, dense, 8192, 0);
        assert_int_equal(quern_op_workspace(op, 8192), 0);
        t_layer_make(&l, ctx, &p, 70, 0, 0, 3);
        assert_int_equal(launch(op, &l, NULL, NULL), 0);
        t_layer_free(&l);
        quern_op_release(op);
        quern_close(ctx);
    }
    setenv("QUERN_BLAS", "off", 1);
    quern_ctx *ctx = t_open_hip(0, cache, QUERN_JIT_ON);
    unsetenv("QUERN_BLAS");
    quern_op *op = create(ctx, dense, 8192, 0);
    assert_int_equal(quern_op_workspace(op, 8192), 0);
    quern_op_release(op);
    quern_close(ctx);

    /* a kernel that would have to be compiled for it */
    for (int compiled = 0; compiled < 2; compiled++) {
        setenv("QUERN_BLAS", compiled ? "auto" : "off", 1);
        ctx = t_open_hip(1, cache, QUERN_JIT_ON);
        unsetenv("QUERN_BLAS");
        quern_op_release(create(ctx, blocks, 8192, 0));
        quern_close(ctx);
        ctx = t_open_hip(1, cache, QUERN_JIT_ON);
        op = create(ctx, blocks, 8192, QUERN_OP_NO_COMPILE);
        assert_int_equal(quern_op_workspace(op, 8192) > 0, compiled);
        quern_op_release(op);
        quern_close(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_without),
    };
    return cmocka_run_group_tests_name("blas", tests, set_up, tear_down);
}
