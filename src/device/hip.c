/* SPDX-License-Identifier: MIT */
/*
 * A GPU behind the HIP runtime.
 *
 * A launch is one hipModuleLaunchKernel on the caller's stream and nothing else: no allocation, no
 * lock, no other call. The runtime copies the kernel arguments before it returns. It demands that
 * the stream's device is the thread's current one, as for every launch of the host's own. That is
 * left to the caller; the message of the error that follows if it is not says so.
 *
 * Everything else (loading, memory) sets the device and restores the caller's. Calls that a stream
 * capture of this thread forbids are made in the relaxed mode, which leaves the capture alone.
 * After a failed call the thread's last error is taken back: a host that polls it sees only its
 * own.
 */
#include "device/device.h"

#include "base/os.h"
#include "device/hip_runtime.h"
#include "device/hipblaslt.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct hip_device {
    struct device base;
    const struct hip_api *hip;
    int index;
    unsigned forks;       /* hip_forks() when it was opened */
    pthread_mutex_t lock; /* guards blas */
    struct blas *blas;    /* hipBLASLt's handle; null: not asked for yet */
};

struct device_kernel {
    void *module, *function;
};

static struct hip_device *of(struct device *d)
{
    return (struct hip_device *)d;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static quern_status status_of(int error)
{
    switch (error) {
    case HIP_OUT_OF_MEMORY:
        return QUERN_E_MEMORY;
    case HIP_INVALID_IMAGE:
    case HIP_NO_BINARY_FOR_GPU:
    case HIP_INVALID_KERNEL_FILE:
    case HIP_SHARED_OBJECT_INIT_FAILED:
    case HIP_INVALID_DEVICE_FUNCTION:
    case HIP_NOT_FOUND:
        return QUERN_E_OBJECT;
    default:
        return QUERN_E_DEVICE;
    }
}

static quern_status failed(const struct hip_api *hip, int error, const char *call)
{
    const char *const name = hip->hipGetErrorName(error);
    const char *hint = "";

    (void)hip->hipGetLastError();
    if (error == HIP_INVALID_HANDLE && !strcmp(call, "hipModuleLaunchKernel"))
        hint = "; the stream must be one of the context's device, and that device the thread's "
               "current one (hipSetDevice)";
    else if (error == HIP_NO_DEVICE)
        hint = "; the runtime sees no GPU (HIP_VISIBLE_DEVICES, and access to /dev/kfd)";
    return error_set(status_of(error), __FILE__, FAIL_AT(""), "%s failed: %s (%d)%s", call,
                     name ? name : "an unknown error", error, hint);
}

#define HIP_TRY(api, call, ...)                                                                    \
    do {                                                                                           \
        const int hip_error_ = (api)->call(__VA_ARGS__);                                           \
        if (hip_error_ != HIP_OK)                                                                  \
            return failed((api), hip_error_, #call);                                               \
    } while (0)

static quern_status check_process(const struct hip_device *d)
{
    FAIL_IF(d->forks != hip_forks(), QUERN_E_DEVICE,
            "this process was forked after the context was opened, and no HIP device survives a "
            "fork; open a context in the child, before its parent touches a GPU");
    return QUERN_OK;
}

/* ---- The caller's state ---------------------------------------------------------------------- */

struct callers {
    int device, mode;
};

static quern_status enter(struct hip_device *d, struct callers *c)
{
    TRY(check_process(d));
    HIP_TRY(d->hip, hipGetDevice, &c->device);
    if (c->device != d->index)
        HIP_TRY(d->hip, hipSetDevice, d->index);
    c->mode = HIP_CAPTURE_MODE_RELAXED;
    HIP_TRY(d->hip, hipThreadExchangeStreamCaptureMode, &c->mode);
    return QUERN_OK;
}

static void leave(struct hip_device *d, struct callers *c)
{
    if (d->hip->hipThreadExchangeStreamCaptureMode(&c->mode) ||
        (c->device != d->index && d->hip->hipSetDevice(c->device)))
        (void)d->hip->hipGetLastError();
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Refuses an object for another processor. The runtime would load it, and fail, or worse, when a
 * kernel is launched. */
static quern_status check(const struct hip_device *d, const struct object *object,
                          const char *symbol)
{
    TRY(object_fits(object, &d->base.id));
    FAIL_IF(!object_kernel(object, symbol), QUERN_E_OBJECT, "the code object has no kernel %s",
            symbol);
    return QUERN_OK;
}

static quern_status load_module(struct hip_device *d, const void *object, const char *symbol,
                                struct device_kernel *k)
{
    HIP_TRY(d->hip, hipModuleLoadData, &k->module, object);
    const int error = d->hip->hipModuleGetFunction(&k->function, k->module, symbol);
    if (error == HIP_OK)
        return QUERN_OK;
    failed(d->hip, error, "hipModuleGetFunction");
    if (d->hip->hipModuleUnload(k->module))
        (void)d->hip->hipGetLastError();
    return status_of(error);
}

static quern_status load(struct device *base, const struct object *object, const char *symbol,
                         struct device_kernel **out)
{
    struct hip_device *const d = of(base);
    struct callers callers;
    struct device_kernel *const k = os.calloc(1, sizeof *k);

    FAIL_IF(!k, QUERN_E_MEMORY, "out of memory for a loaded kernel");
    quern_status status = check(d, object, symbol);
    if (status == QUERN_OK && (status = enter(d, &callers)) == QUERN_OK) {
        status = load_module(d, object->bytes, symbol, k);
        leave(d, &callers);
    }
    if (status != QUERN_OK) {
        os.free(k);
        return status;
    }
    *out = k;
    return QUERN_OK;
}

static void unload(struct device *base, struct device_kernel *k)
{
    struct hip_device *const d = of(base);
    struct callers callers;

    /* in a forked child the runtime must not be called; its memory there is a copy, and stays */
    if (d->forks == hip_forks() && enter(d, &callers) == QUERN_OK) {
        if (d->hip->hipModuleUnload(k->module))
            (void)d->hip->hipGetLastError();
        leave(d, &callers);
    }
    os.free(k);
}

static quern_status launch(struct device *base, struct device_kernel *k,
                           const struct device_launch *l)
{
    struct hip_device *const d = of(base);
    size_t bytes = l->kernarg_bytes;
    void *extra[] = {HIP_PARAM_BUFFER_POINTER, (void *)l->kernarg, HIP_PARAM_BUFFER_SIZE, &bytes,
                     HIP_PARAM_END};

    TRY(check_process(d));
    HIP_TRY(d->hip, hipModuleLaunchKernel, k->function, l->grid[0], l->grid[1], l->grid[2],
            l->block[0], l->block[1], l->block[2], l->lds_bytes, l->stream, NULL, extra);
    return QUERN_OK;
}

static quern_status capturing(struct device *base, void *stream, bool *is)
{
    struct hip_device *const d = of(base);
    int status = HIP_CAPTURE_NONE;

    TRY(check_process(d));
    const int error = d->hip->hipStreamIsCapturing(stream, &status);
    if (error == HIP_STREAM_CAPTURE_IMPLICIT) {
        /* asked of the null stream while a stream that waits for it is captured: that counts */
        (void)d->hip->hipGetLastError();
        status = !HIP_CAPTURE_NONE;
    } else if (error != HIP_OK) {
        return failed(d->hip, error, "hipStreamIsCapturing");
    }
    *is = status != HIP_CAPTURE_NONE;
    return QUERN_OK;
}

/* ---- Memory and time, for tools -------------------------------------------------------------- */

static quern_status memory_make(struct device *base, size_t bytes, enum quern_sim_access access,
                                const char *name, struct device_memory *m)
{
    struct hip_device *const d = of(base);
    struct callers callers;
    void *address = NULL;

    (void)access, (void)name;
    TRY(enter(d, &callers));
    const int error = d->hip->hipMalloc(&address, bytes);
    leave(d, &callers);
    if (error != HIP_OK)
        return failed(d->hip, error, "hipMalloc");
    *m = (struct device_memory){.address = (uint64_t)(uintptr_t)address, .bytes = bytes};
    return QUERN_OK;
}

static void memory_free(struct device *base, struct device_memory *m)
{
    struct hip_device *const d = of(base);
    struct callers callers;

    if (d->forks != hip_forks() || enter(d, &callers) != QUERN_OK)
        return;
    if (d->hip->hipFree((void *)(uintptr_t)m->address))
        (void)d->hip->hipGetLastError();
    leave(d, &callers);
}

/* Copies after all of the device's work: also that of streams that do not wait for the null stream.
 */
static quern_status copy(struct hip_device *d, void *to, const void *from, size_t bytes, int kind)
{
    HIP_TRY(d->hip, hipDeviceSynchronize);
    HIP_TRY(d->hip, hipMemcpy, to, from, bytes, kind);
    return QUERN_OK;
}

static quern_status memory_write(struct device *base, const struct device_memory *m,
                                 const void *from)
{
    struct hip_device *const d = of(base);
    struct callers callers;

    TRY(enter(d, &callers));
    const quern_status status =
        copy(d, (void *)(uintptr_t)m->address, from, m->bytes, HIP_COPY_TO_DEVICE);
    leave(d, &callers);
    return status;
}

static quern_status memory_read(struct device *base, const struct device_memory *m, void *to)
{
    struct hip_device *const d = of(base);
    struct callers callers;

    TRY(enter(d, &callers));
    const quern_status status =
        copy(d, to, (const void *)(uintptr_t)m->address, m->bytes, HIP_COPY_FROM_DEVICE);
    leave(d, &callers);
    return status;
}

static quern_status between(struct hip_device *d, void *events[2], quern_status (*work)(void *user),
                            void *user, double *microseconds)
{
    float milliseconds;

    HIP_TRY(d->hip, hipEventRecord, events[0], NULL);
    TRY(work(user));
    HIP_TRY(d->hip, hipEventRecord, events[1], NULL);
    HIP_TRY(d->hip, hipEventSynchronize, events[1]);
    HIP_TRY(d->hip, hipEventElapsedTime, &milliseconds, events[0], events[1]);
    *microseconds = 1e3 * (double)milliseconds;
    return QUERN_OK;
}

static quern_status measure(struct device *base, quern_status (*work)(void *user), void *user,
                            double *microseconds)
{
    struct hip_device *const d = of(base);
    struct callers callers;
    void *events[2] = {NULL, NULL};
    quern_status status = QUERN_OK;

    TRY(enter(d, &callers));
    for (int i = 0; i < 2 && status == QUERN_OK; i++) {
        const int error = d->hip->hipEventCreate(&events[i]);
        if (error != HIP_OK)
            status = failed(d->hip, error, "hipEventCreate");
    }
    if (status == QUERN_OK)
        status = between(d, events, work, user, microseconds);
    for (int i = 0; i < 2; i++)
        if (events[i] && d->hip->hipEventDestroy(events[i]))
            (void)d->hip->hipGetLastError();
    leave(d, &callers);
    return status;
}

/* ---- Products -------------------------------------------------------------------------------- */

static quern_status product_make(struct device *base, bool bf16, int64_t n, int64_t k, int64_t rows,
                                 struct device_product **product)
{
    struct hip_device *const d = of(base);
    struct callers callers;

    TRY(enter(d, &callers));
    pthread_mutex_lock(&d->lock);
    quern_status status = d->blas ? QUERN_OK : blas_open(d->base.facts.runtime, &d->blas);
    pthread_mutex_unlock(&d->lock);
    if (status == QUERN_OK)
        status = blas_product_make(d->blas, bf16, n, k, rows, product);
    if (status != QUERN_OK)
        (void)d->hip->hipGetLastError();
    leave(d, &callers);
    return status;
}

static quern_status product_run(struct device *base, const struct device_product *product,
                                const void *a, const void *w, void *c, void *workspace,
                                void *stream)
{
    struct hip_device *const d = of(base);

    TRY(check_process(d));
    const quern_status status = blas_product_run(product, a, w, c, workspace, stream);
    if (status != QUERN_OK)
        (void)d->hip->hipGetLastError();
    return status;
}

static void product_free(struct device *base, struct device_product *product)
{
    struct hip_device *const d = of(base);

    if (d->forks == hip_forks())
        blas_product_free(product);
}

/* ---- Devices --------------------------------------------------------------------------------- */

static void hip_close(struct device *base)
{
    struct hip_device *const d = of(base);
    struct callers callers;

    if (d->blas && d->forks == hip_forks() && enter(d, &callers) == QUERN_OK) {
        blas_close(d->blas);
        leave(d, &callers);
    }
    pthread_mutex_destroy(&d->lock);
    os.free(d);
}

static const struct device_functions functions = {
    .kind = QUERN_DEVICE_HIP,
    .load = load,
    .unload = unload,
    .launch = launch,
    .capturing = capturing,
    .memory_make = memory_make,
    .memory_free = memory_free,
    .memory_write = memory_write,
    .memory_read = memory_read,
    .measure = measure,
    .product_make = product_make,
    .product_run = product_run,
    .product_free = product_free,
    .close = hip_close,
};

static quern_status count_devices(const struct hip_api *hip, int *count)
{
    HIP_TRY(hip, hipGetDeviceCount, count);
    return QUERN_OK;
}

static quern_status hip_count(const struct device_search *search, int *count)
{
    const struct hip_api *hip;

    TRY(hip_runtime_find(search, &hip));
    return count_devices(hip, count);
}

static quern_status read_facts(struct hip_device *d)
{
    struct device_facts *const f = &d->base.facts;
    union hip_properties properties = {{0}};
    size_t memory;
    int units, clock, cache;

    HIP_TRY(d->hip, hipGetDevicePropertiesR0600, &properties, d->index);
    properties.gcn_arch_name[sizeof properties.gcn_arch_name - 1] = 0;
    TRY(target_parse(properties.gcn_arch_name, &d->base.id));
    HIP_TRY(d->hip, hipDeviceGetAttribute, &units, HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT, d->index);
    HIP_TRY(d->hip, hipDeviceGetAttribute, &clock, HIP_ATTRIBUTE_CLOCK_RATE, d->index);
    HIP_TRY(d->hip, hipDeviceGetAttribute, &cache, HIP_ATTRIBUTE_L2_CACHE_SIZE, d->index);
    HIP_TRY(d->hip, hipDeviceTotalMem, &memory, d->index);
    HIP_TRY(d->hip, hipRuntimeGetVersion, &f->runtime_version);
    snprintf(f->name, sizeof f->name, "%.*s", (int)sizeof properties.name - 1, properties.name);
    snprintf(f->runtime, sizeof f->runtime, "%s", d->hip->path);
    /* Where there are workgroup processors the runtime counts those, of two compute units each,
     * "physical" ones too (ROCm/clr, rocclr/device/rocm/rocdevice.cpp: enableWgpMode_). */
    f->compute_units = (unsigned)units * (d->base.id.target->wgp ? 2 : 1);
    f->clock_ghz = clock * 1e-6;
    f->memory_bytes = memory;
    f->cache_bytes = cache > 0 ? (uint64_t)cache : 0;
    return QUERN_OK;
}

static quern_status hip_open(const struct device_search *search, int index, struct device **out)
{
    const struct hip_api *hip;
    int count;

    TRY(hip_runtime_find(search, &hip));
    TRY(count_devices(hip, &count));
    FAIL_IF(index < 0 || index >= count, QUERN_E_DEVICE,
            "device_index is %d, and the HIP runtime has %d device%s, from 0 on", index, count,
            count == 1 ? "" : "s");
    struct hip_device *const d = os.calloc(1, sizeof *d);
    FAIL_IF(!d, QUERN_E_MEMORY, "out of memory for a device");
    d->base.functions = &functions;
    d->hip = hip;
    d->index = index;
    d->forks = hip_forks();
    pthread_mutex_init(&d->lock, NULL);
    const quern_status status = read_facts(d);
    if (status != QUERN_OK) {
        os.free(d);
        return status;
    }
    *out = &d->base;
    return QUERN_OK;
}

const struct device_driver driver_amd = {
    .vendor = "AMD",
    .name = "hip",
    .runtime = "HIP",
    .number = QUERN_DEVICE_HIP,
    .option = "rocm_path",
    .open = hip_open,
    .count = hip_count,
};
