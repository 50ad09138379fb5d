/* SPDX-License-Identifier: MIT */
/*
 * Many rows by cuBLASLt, on a CUDA driver that runs kernels' texts on the CPU, with a cuBLASLt of
 * the host's arithmetic: it is met where the process has it and never loaded for us, gets the
 * layouts and types that make its product ours, writes what the double reference says, keeps to the
 * workspace, and may be captured once it ran. Where there is no NVRTC the tests are skipped; with
 * CI=true they fail.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "fakeblas.h"
#include "fakecuda.h"
#include "t_context.h"
#include "t_explore.h"

#include "compile/compile.h"
#include "device/blas_abi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcublasLt.so.12"

int cuDeviceGet(int *device, int index);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);

static char *cache;
static void *library;
static void (*fail_next)(const char *function, int nth, int status);
static unsigned long (*products)(void);

static int set_up(void **state)
{
    (void)state;
    cache = t_temp_dir();
    /* where fakecuda looks for the texts of kernels */
    return setenv("FAKECUDA_DEVICES", "sm_90", 1) || setenv("QUERN_CACHE_DIR", cache, 1);
}

static int tear_down(void **state)
{
    (void)state;
    t_remove(cache);
    return 0;
}

static quern_ctx *open_context(void)
{
    const char *const ci = getenv("CI");
    struct toolchain toolchain;

    if (toolchain_find(VENDOR_NVIDIA, NULL, &toolchain) != QUERN_OK &&
        !(ci && !strcmp(ci, "true"))) {
        print_message("skipped: no NVRTC; `make setup-cuda` fetches it\n");
        skip();
    }
    quern_ctx *const ctx = t_open_cuda(0, cache, QUERN_JIT_ON);
    void *context; /* the host's too: the primary one */
    int device;
    assert_int_equal(cuDeviceGet(&device, 0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    return ctx;
}

static quern_op *create(quern_ctx *ctx, const char *text)
{
    const struct quern_problem p = t_problem(text);
    quern_op *op;

    if (quern_op_create_flags(ctx, &p, 8192, 0, &op) != QUERN_OK)
        fail_msg("%s: %s %s", text, quern_last_error()->message, quern_last_error()->log);
    return op;
}

/* The fewest rows that cuBLASLt is chosen for. */
static int64_t fewest(const quern_op *op)
{
    int64_t m = 64;

    while (!quern_op_workspace(op, m) && m < 1 << 14)
        m *= 2;
    assert_true(m <= 8192);
    assert_int_equal(quern_op_workspace(op, m - 1), 0);
    return m;
}

static void load_library(void)
{
    void *address;

    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    assert_non_null(address = dlsym(library, "fakeblas_fail"));
    memcpy(&fail_next, &address, sizeof address);
    assert_non_null(address = dlsym(library, "fakeblas_products"));
    memcpy(&products, &address, sizeof address);
}

/* A process that has no cuBLASLt does not get it from us: products of many rows are our own. */
static void test_it_is_not_loaded(void **state)
{
    quern_ctx *const ctx = open_context();
    quern_op *const op = create(ctx, "wq=nf4 n=24 k=2048 a=bf16");

    (void)state;
    assert_int_equal(quern_op_workspace(op, 8192), 0);
    assert_null(dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD));
    quern_op_release(op);
    quern_close(ctx);
}

static void launch(quern_op *op, struct t_layer *l, void *workspace, void *stream)
{
    struct quern_args args = l->args;

    args.workspace = workspace;
    if (quern_op_launch(op, &args, l->m, stream) != QUERN_OK)
        fail_msg("m=%d: %s", (int)l->m, quern_last_error()->message);
}

static void expect_right(const struct t_layer *l)
{
    const double error = t_layer_error(l);

    if (!(error <= 5e-3))
        fail_msg("m=%d: error %g", (int)l->m, error);
}

/* By a graph: refused to the library before its code is there, taken afterwards. */
static void capture(quern_op *op, struct t_layer *l, void *workspace, unsigned long expected)
{
    const unsigned long before = products();
    void *stream, *graph, *exec;

    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    launch(op, l, workspace, stream);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(products() - before, expected);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cuGraphLaunch(exec, stream), 0);
    assert_int_equal(cuStreamSynchronize(stream), 0);
    expect_right(l);
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
}

/* Every third layer here, all in check-long. */
static void test_products(void **state)
{
    static const char *const layers[] = {
        "wq=nf4 n=24 k=2048 a=bf16",
        "wq=fp4 scale=nested n=40 k=2048 a=f16",
        "wq=int4 zero=u8 group=32 layout=exl n=24 k=2048 a=bf16",
        "wq=mxfp4 n=24 k=2048 a=f16",
        "wq=fp8 scale=block128 n=136 k=2048 a=f16",
        "wq=fp8 n=24 k=2048 a=bf16",
    };
    char text[8192];

    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        if (!t_takes(i, 3))
            continue;
        quern_ctx *const ctx = open_context();
        const struct quern_problem p = t_problem(layers[i]);
        if (!library)
            load_library();
        quern_op *const op = create(ctx, layers[i]);
        const int64_t from = fewest(op), m = from + 3; /* one product */
        const size_t bytes = quern_op_workspace(op, m);
        quern_buffer *buffer;
        struct t_layer l;
        assert_true(bytes >= (size_t)(2 * p.n * p.k));
        assert_int_equal(quern_buffer_create(ctx, bytes, QUERN_SIM_WRITE, "workspace", &buffer),
                         QUERN_OK);
        void *const workspace = quern_buffer_address(buffer);
        quern_op_explain(op, m, text, sizeof text);
        assert_non_null(strstr(text, "cuBLASLt"));

        t_layer_make(&l, ctx, &p, m, 0, 0, 1);
        if (!i) /* the library loads code at its first launch, which no capture survives */
            capture(op, &l, workspace, 0);
        const unsigned long before = products();
        /* no launch has the library allocate a description of these rows */
        fail_next("cublasLtMatrixLayoutCreate", 1, CUBLAS_NOT_SUPPORTED);
        launch(op, &l, workspace, NULL);
        fail_next("", 0, 0);
        expect_right(&l);
        assert_int_equal(products() - before, 1);
        launch(op, &l, NULL, NULL); /* without workspace: kernels of our own */
        expect_right(&l);
        assert_int_equal(products() - before, 1);
        capture(op, &l, workspace, 1);

        /* Where an algorithm refuses fewer rows, the op's own kernels do them, and it is asked no
         * more: then a product has as many as it was chosen for, and three rows are our own. */
        fail_next("cublasLtMatmul", 1, CUBLAS_NOT_SUPPORTED);
        launch(op, &l, workspace, NULL);
        expect_right(&l);
        launch(op, &l, workspace, NULL);
        expect_right(&l);
        fail_next("cublasLtMatmul", 1, CUBLAS_NOT_SUPPORTED);
        struct quern_args args = l.args;
        args.workspace = workspace;
        assert_int_equal(quern_op_launch(op, &args, m, NULL), QUERN_E_DEVICE);
        assert_non_null(strstr(quern_last_error()->message, "cublasLtMatmul failed"));
        t_layer_free(&l);
        quern_buffer_destroy(buffer);
        quern_op_release(op);
        quern_close(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_not_loaded),
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests_name("cublas", tests, set_up, tear_down);
}
