/* SPDX-License-Identifier: MIT */
/*
 * The device for NVIDIA's GPUs on fakecuda, which is as strict as the driver: which context is used
 * and how often it is retained, threads that have none, captures, dynamic shared memory, errors
 * that end the use of a device, forks, and both vendors' GPUs in one process. Kernels compute
 * nothing there; tests/hw has a program for a real GPU.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/os.h"
#include "device/cuda_abi.h"
#include "device/device.h"
#include "fakecuda.h"
#include "t_context.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int cuCtxGetCurrent(void **context);
int cuCtxSetCurrent(void *context);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDeviceGet(int *device, int index);

static const struct device_search any;

static struct device *open_device(int index)
{
    struct device *d = NULL;

    if (driver_nvidia.open(&driver_nvidia, &any, index, &d) != QUERN_OK)
        fail_msg("open: %s", quern_last_error()->message);
    return d;
}

static void close_device(struct device *d)
{
    d->functions->close(d);
    fakehip_reset();
}

static void *context_now(void)
{
    void *context = &context;

    assert_int_equal(cuCtxGetCurrent(&context), 0);
    return context;
}

/* ---- A kernel -------------------------------------------------------------------------------- */

/* Made by NVRTC 12.9 (tests/fuzz/corpus/cubin). */
static struct {
    char *bytes;
    struct object object;
} axpy;

static void read_cubin(const char *name)
{
    char path[256];
    size_t size;

    snprintf(path, sizeof path, "tests/fuzz/corpus/cubin/%s", name);
    assert_int_equal(os_read_file(path, 1 << 20, &axpy.bytes, &size), 0);
    assert_int_equal(object_parse(axpy.bytes, size, &axpy.object), QUERN_OK);
}

static void free_cubin(void)
{
    object_free(&axpy.object);
    os.free(axpy.bytes);
}

static struct device_kernel *load(struct device *d, uint32_t dynamic_lds)
{
    struct device_kernel *k = NULL;

    read_cubin("axpy.sm_90.12");
    if (d->functions->load(d, &axpy.object, "axpy", dynamic_lds, &k) != QUERN_OK)
        fail_msg("load: %s", quern_last_error()->message);
    return k;
}

static void unload(struct device *d, struct device_kernel *k)
{
    d->functions->unload(d, k);
    free_cubin();
}

static quern_status launch_as(struct device *d, struct device_kernel *k, uint32_t lds, void *stream,
                              bool early)
{
    static const uint8_t kernarg[24];

    return d->functions->launch(d, k,
                                &(struct device_launch){.grid = {4, 1, 1},
                                                        .block = {256, 1, 1},
                                                        .lds_bytes = lds,
                                                        .early = early,
                                                        .kernarg = kernarg,
                                                        .kernarg_bytes = sizeof kernarg,
                                                        .stream = stream});
}

static quern_status launch(struct device *d, struct device_kernel *k, uint32_t lds, void *stream)
{
    return launch_as(d, k, lds, stream, false);
}

static void expect(quern_status status, quern_status wanted, const char *words)
{
    assert_int_equal(status, wanted);
    if (!strstr(quern_last_error()->message, words))
        fail_msg("\"%s\" lacks \"%s\"", quern_last_error()->message, words);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void test_facts_and_contexts(void **state)
{
    int count = 0;

    (void)state;
    assert_int_equal(driver_nvidia.count(&driver_nvidia, &any, &count), QUERN_OK);
    assert_int_equal(count, 2);
    struct device *const d = open_device(0), *const again = open_device(0),
                         *const other = open_device(1);
    assert_int_equal(d->functions->kind, QUERN_DEVICE_CUDA);
    assert_string_equal(d->id.target->name, "sm_90");
    assert_string_equal(other->id.target->name, "sm_80");
    assert_int_equal(d->facts.compute_units, 132);
    assert_int_equal(d->facts.runtime_version, 12090);
    assert_non_null(strstr(d->facts.runtime, "libcuda.so.1"));
    /* the primary one, as often as there are devices, and the thread's is as it was: none */
    assert_int_equal(fakecuda_retained(0), 2);
    assert_int_equal(fakecuda_retained(1), 1);
    assert_null(context_now());
    close_device(again);
    close_device(d);
    close_device(other);
    assert_int_equal(fakecuda_retained(0), 0);
    assert_int_equal(fakecuda_retained(1), 0);
    struct device *none;
    expect(driver_nvidia.open(&driver_nvidia, &any, 2, &none), QUERN_E_DEVICE,
           "device_index is 2, and the CUDA runtime has 2 devices");
}

static void test_memory_and_time(void **state)
{
    struct device *const d = open_device(0);
    char to[1000], from[1000];
    struct device_memory m;

    (void)state;
    memset(from, 42, sizeof from);
    assert_int_equal(d->functions->memory_make(d, sizeof from, QUERN_SIM_READ_WRITE, "memory", &m),
                     QUERN_OK);
    assert_int_equal(d->functions->memory_write(d, &m, from), QUERN_OK);
    assert_int_equal(d->functions->memory_read(d, &m, to), QUERN_OK);
    assert_memory_equal(to, from, sizeof to);
    d->functions->memory_free(d, &m);
    assert_null(context_now());
    close_device(d);
}

/* Launches use the caller's context; a thread that has none is lent one for the call. */
static void test_launches_and_contexts(void **state)
{
    struct device *const d = open_device(0), *const other = open_device(1);
    struct device_kernel *const k = load(d, 0);
    void *context;
    int handle;

    (void)state;
    const unsigned long before = fakehip_calls("hipModuleLaunchKernel");
    assert_int_equal(launch(d, k, 0, NULL), QUERN_OK);
    assert_null(context_now());
    assert_int_equal(cuDeviceGet(&handle, 0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, handle), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    const unsigned long calls = fakehip_calls(NULL);
    assert_int_equal(launch(d, k, 0, NULL), QUERN_OK);
    assert_int_equal(fakehip_calls(NULL), calls + 1); /* the launch and nothing else */
    assert_int_equal(fakehip_calls("hipModuleLaunchKernel"), before + 2);
    /* the other device's context */
    assert_int_equal(cuDeviceGet(&handle, 1), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, handle), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    expect(launch(d, k, 0, NULL), QUERN_E_DEVICE, "CUDA_ERROR_INVALID_HANDLE (400); the stream");
    unload(d, k);
    assert_ptr_equal(context_now(), context);
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    close_device(other);
    close_device(d);
}

/* One that may begin early is one call of the driver's too, and its failures have that call's name.
 */
static void test_early_launches(void **state)
{
    struct device *const d = open_device(0);
    struct device_kernel *const k = load(d, 0);
    const unsigned before = fakecuda_early_launches();

    (void)state;
    assert_int_equal(launch(d, k, 0, NULL), QUERN_OK);
    assert_int_equal(fakecuda_early_launches(), before);
    assert_int_equal(launch_as(d, k, 0, NULL, true), QUERN_OK);
    assert_int_equal(fakecuda_early_launches(), before + 1);
    expect(launch_as(d, k, target_named("sm_90")->lds_bytes, NULL, true), QUERN_E_DEVICE,
           "cuLaunchKernelEx failed");
    assert_int_equal(fakecuda_early_launches(), before + 1);
    unload(d, k);
    close_device(d);
}

static void test_dynamic_shared_memory(void **state)
{
    const uint32_t most = target_named("sm_90")->lds_bytes;
    struct device *const d = open_device(0);
    struct device_kernel *k = load(d, 0);

    (void)state;
    expect(launch(d, k, most, NULL), QUERN_E_DEVICE, "cuLaunchKernel failed");
    unload(d, k);
    k = load(d, most);
    assert_int_equal(launch(d, k, most, NULL), QUERN_OK);
    unload(d, k);
    read_cubin("axpy.sm_90.12");
    expect(d->functions->load(d, &axpy.object, "axpy", most + 1, &k), QUERN_E_DEVICE,
           "cuFuncSetAttribute failed: CUDA_ERROR_INVALID_VALUE (1)");
    free_cubin();
    close_device(d);
}

static void test_objects_that_are_no_use(void **state)
{
    struct device *const d = open_device(0);
    struct device_kernel *k;

    (void)state;
    read_cubin("axpy.sm_80.12");
    expect(d->functions->load(d, &axpy.object, "axpy", 0, &k), QUERN_E_OBJECT,
           "for sm_80 does not run on sm_90");
    free_cubin();
    read_cubin("axpy.sm_90.12");
    expect(d->functions->load(d, &axpy.object, "other", 0, &k), QUERN_E_OBJECT, "no kernel other");
    fakehip_fail("hipModuleLoadData", 1, 209);
    expect(d->functions->load(d, &axpy.object, "axpy", 0, &k), QUERN_E_OBJECT,
           "cuModuleLoadData failed: CUDA_ERROR_NO_BINARY_FOR_GPU (209)");
    free_cubin();
    close_device(d);
}

/* During a capture kernels are loaded without harm to it, and launches are recorded. */
static void test_captures(void **state)
{
    enum { NON_BLOCKING = 1, GLOBAL = 0 };
    struct device *const d = open_device(0);
    void *stream, *graph, *context;
    bool capturing = false;
    int handle;

    (void)state;
    assert_int_equal(cuDeviceGet(&handle, 0), 0);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, handle), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
    assert_int_equal(cuStreamCreate(&stream, NON_BLOCKING), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, GLOBAL), 0);
    assert_int_equal(d->functions->capturing(d, stream, &capturing), QUERN_OK);
    assert_true(capturing);
    struct device_kernel *const k = load(d, 1000);
    assert_int_equal(launch(d, k, 1000, stream), QUERN_OK);
    assert_int_equal(cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(d->functions->capturing(d, stream, &capturing), QUERN_OK);
    assert_false(capturing);
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuCtxSetCurrent(NULL), 0);
    assert_int_equal(d->functions->capturing(d, NULL, &capturing), QUERN_OK);
    assert_false(capturing);
    unload(d, k);
    close_device(d);
}

/* What an error that destroys the context leaves: a sentence, and no calls to the driver. */
static void test_a_dead_context_is_said_once(void **state)
{
    struct device *const d = open_device(0);
    struct device_kernel *const k = load(d, 0);
    struct device_memory m;

    (void)state;
    fakehip_lose(0);
    expect(launch(d, k, 0, NULL), QUERN_E_DEVICE,
           "cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED (719); a kernel of this process");
    const unsigned long calls = fakehip_calls(NULL);
    expect(launch(d, k, 0, NULL), QUERN_E_DEVICE, "of no more use to the process since error 719");
    expect(d->functions->memory_make(d, 8, QUERN_SIM_READ_WRITE, "m", &m), QUERN_E_DEVICE,
           "of no more use");
    assert_int_equal(fakehip_calls(NULL), calls);
    unload(d, k);
    close_device(d);
}

/* Errors of one call leave the device as it is. */
static void test_other_errors_pass(void **state)
{
    struct device *const d = open_device(0);
    struct device_kernel *const k = load(d, 0);

    (void)state;
    fakehip_fail("hipModuleLaunchKernel", 1, 701); /* too many resources asked for */
    expect(launch(d, k, 0, NULL), QUERN_E_DEVICE, "cuLaunchKernel failed");
    assert_int_equal(launch(d, k, 0, NULL), QUERN_OK);
    unload(d, k);
    close_device(d);
}

static void test_no_device_survives_a_fork(void **state)
{
    struct device *const d = open_device(0);
    struct device_kernel *const k = load(d, 0);
    int status;

    (void)state;
    const pid_t child = fork();
    if (!child) {
        const bool said = launch(d, k, 0, NULL) == QUERN_E_DEVICE &&
                          strstr(quern_last_error()->message, "forked") &&
                          strstr(quern_last_error()->message, "CUDA");
        struct device *other;
        _exit(said && driver_nvidia.open(&driver_nvidia, &any, 0, &other) == QUERN_E_DEVICE ? 0
                                                                                            : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(launch(d, k, 0, NULL), QUERN_OK);
    unload(d, k);
    close_device(d);
}

/* ---- Both vendors ---------------------------------------------------------------------------- */

static int (*faccessat_before)(int, const char *, int, int);

static int faccessat_of_both(int directory, const char *path, int mode, int flags)
{
    return !strcmp(path, "/dev/kfd") || !strcmp(path, "/dev/nvidiactl")
               ? 0
               : faccessat_before(directory, path, mode, flags);
}

static void note_both(void *user, enum quern_log_level level, const char *line)
{
    (void)level;
    *(bool *)user |= strstr(line, "GPUs of AMD and of NVIDIA") && strstr(line, "QUERN_DEVICE=cuda");
}

static void test_amd_comes_first_where_both_are(void **state)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_device_info info = QUERN_INIT(struct quern_device_info);
    quern_ctx *amd, *nvidia;
    bool said = false;

    (void)state;
    options.cache_dir = t_cache;
    options.allow_unverified = 1;
    options.log = note_both;
    options.log_user = &said;
    options.log_level = QUERN_LOG_INFO;
    faccessat_before = os.faccessat;
    os.faccessat = faccessat_of_both;
    const quern_status status = quern_open(&options, &amd);
    os.faccessat = faccessat_before;
    if (status != QUERN_OK)
        fail_msg("open: %s", quern_last_error()->message);
    assert_true(said);
    assert_int_equal(quern_ctx_device(amd, &info), QUERN_OK);
    assert_int_equal(info.kind, QUERN_DEVICE_HIP);
    options.device = QUERN_DEVICE_CUDA;
    assert_int_equal(quern_open(&options, &nvidia), QUERN_OK);
    assert_int_equal(quern_ctx_device(nvidia, &info), QUERN_OK);
    assert_int_equal(info.kind, QUERN_DEVICE_CUDA);
    assert_string_equal(info.target, "sm_90");
    quern_close(amd);
    quern_close(nvidia);
}

/* Without a device file of AMD's, what is there is taken: a driver that the process has. */
static void test_auto_takes_what_is_there(void **state)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_device_info info = QUERN_INIT(struct quern_device_info);
    quern_ctx *ctx;

    (void)state;
    options.cache_dir = t_cache;
    if (quern_open(&options, &ctx) != QUERN_OK)
        fail_msg("open: %s", quern_last_error()->message);
    assert_int_equal(quern_ctx_device(ctx, &info), QUERN_OK);
    assert_int_equal(info.kind, QUERN_DEVICE_CUDA);
    quern_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_takes_what_is_there), /* before a HIP runtime is loaded */
        cmocka_unit_test(test_facts_and_contexts),
        cmocka_unit_test(test_memory_and_time),
        cmocka_unit_test(test_launches_and_contexts),
        cmocka_unit_test(test_early_launches),
        cmocka_unit_test(test_dynamic_shared_memory),
        cmocka_unit_test(test_objects_that_are_no_use),
        cmocka_unit_test(test_captures),
        cmocka_unit_test(test_a_dead_context_is_said_once),
        cmocka_unit_test(test_other_errors_pass),
        cmocka_unit_test(test_no_device_survives_a_fork),
        cmocka_unit_test(test_amd_comes_first_where_both_are),
    };

    setenv("FAKECUDA_DEVICES", "sm_90,sm_80", 1);
    return cmocka_run_group_tests_name("cuda", tests, t_cache_make, t_cache_remove);
}
