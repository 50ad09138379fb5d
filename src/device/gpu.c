/* SPDX-License-Identifier: MIT */
/*
 * A GPU behind its vendor's runtime, on top of the table of gpu.h.
 *
 * A launch is one call of the runtime's on the caller's stream and nothing else: no allocation, no
 * lock, no other call. The runtime copies kernel arguments before it returns. It demands that the
 * stream's device is the thread's current one, as for every launch of the host's own; so the caller
 * sets the device, and an error that says it was not set names that. A thread that never had a
 * device (CUDA: no context) is lent the context's for the call.
 *
 * Everything else sets the device and restores the caller's. Calls that a capture of this thread
 * forbids are made in the relaxed mode, which leaves the capture alone. A failed call's error is
 * taken back, so that a host that polls sees only its own. One that leaves the device of no more
 * use is said once as what it is; then every call says so by itself.
 */
#include "device/gpu.h"

#include "base/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct gpu {
    struct device base;
    struct device_functions functions;
    const struct gpu_runtime *runtime;
    const struct gpu_api *api;
    int index;
    void *context;
    unsigned forks;       /* at open */
    atomic_int dead;      /* the error that ended its use; 0: none did */
    pthread_mutex_t lock; /* of what follows */
    struct blas *blas;    /* null: not asked for yet */
};

struct device_kernel {
    void *module, *function;
};

static struct gpu *of(struct device *d)
{
    return (struct gpu *)d;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static quern_status status_of(int error)
{
    switch (error) {
    case GPU_OUT_OF_MEMORY:
        return QUERN_E_MEMORY;
    case GPU_INVALID_IMAGE:
    case GPU_NO_BINARY_FOR_GPU:
    case GPU_INVALID_PTX:
    case GPU_SHARED_OBJECT_INIT_FAILED:
    case GPU_INVALID_FUNCTION:
    case GPU_NOT_FOUND:
        return QUERN_E_OBJECT;
    default:
        return QUERN_E_DEVICE;
    }
}

/* Records the failure of a call, and takes back what the runtime remembers of it. */
static quern_status call_failed(const struct gpu_runtime *runtime, const struct gpu_api *api,
                                int error, enum gpu_call call)
{
    const char *const name = api->error_name(error), *hint = "";

    (void)api->last_error();
    const bool launches = call == GPU_launch || call == GPU_launch_early;
    if (launches && (error == GPU_INVALID_HANDLE || error == GPU_INVALID_CONTEXT))
        hint = runtime->wrong_device_hint;
    else if (error == GPU_NO_DEVICE)
        hint = runtime->no_device_hint;
    else if (runtime->is_final(error))
        hint = "; a kernel of this process failed, and with it all that the process has on this "
               "GPU: only a new process can use it again";
    return error_set(status_of(error), __FILE__, FAIL_AT(""), "%s failed: %s (%d)%s",
                     runtime->calls[call], name ? name : "an unknown error", error, hint);
}

static quern_status failed(struct gpu *d, int error, enum gpu_call call)
{
    if (d->runtime->is_final(error))
        atomic_store(&d->dead, error);
    return call_failed(d->runtime, d->api, error, call);
}

#define GPU_TRY(d, call, ...)                                                                      \
    do {                                                                                           \
        const int gpu_error_ = (d)->api->call(__VA_ARGS__);                                        \
        if (gpu_error_ != GPU_OK)                                                                  \
            return failed((d), gpu_error_, GPU_##call);                                            \
    } while (0)

/* Whether this process can use the device still. */
static quern_status check_process(const struct gpu *d)
{
    FAIL_IF(d->forks != gpu_forks(), QUERN_E_DEVICE,
            "this process was forked after the context was opened, and no %s device survives a "
            "fork; open a context in the child, before its parent touches a GPU",
            d->runtime->driver->runtime);
    const int dead = atomic_load_explicit(&d->dead, memory_order_relaxed);
    FAIL_IF(dead, QUERN_E_DEVICE,
            "this GPU is of no more use to the process since error %d of the %s runtime; a new "
            "process can use it",
            dead, d->runtime->driver->runtime);
    return QUERN_OK;
}

/* ---- The caller's state ---------------------------------------------------------------------- */

struct callers {
    void *context;
    int mode;
};

static quern_status enter(struct gpu *d, struct callers *c)
{
    TRY(check_process(d));
    GPU_TRY(d, get_current, &c->context);
    if (c->context != d->context)
        GPU_TRY(d, set_current, d->context);
    c->mode = GPU_CAPTURE_MODE_RELAXED;
    GPU_TRY(d, exchange_mode, &c->mode);
    return QUERN_OK;
}

static void leave(struct gpu *d, struct callers *c)
{
    if (d->api->exchange_mode(&c->mode) ||
        (c->context != d->context && d->api->set_current(c->context)))
        (void)d->api->last_error();
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* The runtime takes an object for another processor and fails, or worse, when it is launched. */
static quern_status check(const struct gpu *d, const struct object *object, const char *symbol)
{
    TRY(object_fits(object, &d->base.id));
    FAIL_IF(!object_kernel(object, symbol), QUERN_E_OBJECT, "the code object has no kernel %s",
            symbol);
    return QUERN_OK;
}

static quern_status load_module(struct gpu *d, const void *object, const char *symbol,
                                uint32_t dynamic_lds, struct device_kernel *k)
{
    enum gpu_call call = GPU_module_function;

    GPU_TRY(d, module_load, &k->module, object);
    int error = d->api->module_function(&k->function, k->module, symbol);
    if (error == GPU_OK) {
        call = GPU_prepare;
        error = d->api->prepare(k->function, dynamic_lds);
    }
    if (error == GPU_OK)
        return QUERN_OK;
    const quern_status status = failed(d, error, call);
    if (d->api->module_unload(k->module))
        (void)d->api->last_error();
    return status;
}

static quern_status load(struct device *base, const struct object *object, const char *symbol,
                         uint32_t dynamic_lds, struct device_kernel **out)
{
    struct gpu *const d = of(base);
    struct callers callers;
    struct device_kernel *const k = os.calloc(1, sizeof *k);

    FAIL_IF(!k, QUERN_E_MEMORY, "out of memory for a loaded kernel");
    quern_status status = check(d, object, symbol);
    if (status == QUERN_OK && (status = enter(d, &callers)) == QUERN_OK) {
        status = load_module(d, object->bytes, symbol, dynamic_lds, k);
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
    struct gpu *const d = of(base);
    struct callers callers;

    /* in a forked child the runtime's memory is all that can be given back, and it is a copy */
    if (d->forks == gpu_forks() && enter(d, &callers) == QUERN_OK) {
        if (d->api->module_unload(k->module))
            (void)d->api->last_error();
        leave(d, &callers);
    }
    os.free(k);
}

static int launch_once(const struct gpu *d, const struct device_kernel *k,
                       const struct device_launch *l)
{
    size_t bytes = l->kernarg_bytes;
    void *extra[] = {GPU_PARAM_BUFFER_POINTER, (void *)l->kernarg, GPU_PARAM_BUFFER_SIZE, &bytes,
                     d->runtime->param_end};

    return (l->early ? d->api->launch_early : d->api->launch)(
        k->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
        l->lds_bytes, l->stream, NULL, extra);
}

static quern_status launch(struct device *base, struct device_kernel *k,
                           const struct device_launch *l)
{
    struct gpu *const d = of(base);
    struct callers callers;

    TRY(check_process(d));
    int error = launch_once(d, k, l);
    if (error == GPU_INVALID_CONTEXT) { /* the thread has none: it is lent the device's */
        TRY(enter(d, &callers));
        error = launch_once(d, k, l);
        leave(d, &callers);
    }
    return error == GPU_OK ? QUERN_OK : failed(d, error, l->early ? GPU_launch_early : GPU_launch);
}

static quern_status capturing(struct device *base, void *stream, bool *is)
{
    struct gpu *const d = of(base);
    struct callers callers;
    int status = GPU_CAPTURE_NONE;

    TRY(check_process(d));
    int error = d->api->is_capturing(stream, &status);
    if (error == GPU_INVALID_CONTEXT) {
        TRY(enter(d, &callers));
        error = d->api->is_capturing(stream, &status);
        leave(d, &callers);
    }
    if (error == GPU_STREAM_CAPTURE_IMPLICIT) {
        /* the null stream, while a stream that waits for it is captured */
        (void)d->api->last_error();
        status = !GPU_CAPTURE_NONE;
    } else if (error != GPU_OK) {
        return failed(d, error, GPU_is_capturing);
    }
    *is = status != GPU_CAPTURE_NONE;
    return QUERN_OK;
}

/* ---- Memory and time, for tools -------------------------------------------------------------- */

static quern_status memory_make(struct device *base, size_t bytes, enum quern_sim_access access,
                                const char *name, struct device_memory *m)
{
    struct gpu *const d = of(base);
    struct callers callers;
    void *address = NULL;

    (void)access, (void)name;
    TRY(enter(d, &callers));
    const int error = d->api->allocate(&address, bytes);
    leave(d, &callers);
    *m = (struct device_memory){.address = (uint64_t)(uintptr_t)address, .bytes = bytes};
    return error == GPU_OK ? QUERN_OK : failed(d, error, GPU_allocate);
}

static void memory_free(struct device *base, struct device_memory *m)
{
    struct gpu *const d = of(base);
    struct callers callers;

    if (d->forks != gpu_forks() || enter(d, &callers) != QUERN_OK)
        return;
    if (d->api->free((void *)(uintptr_t)m->address))
        (void)d->api->last_error();
    leave(d, &callers);
}

/* Copies after all of the device's work: also that of streams that do not wait for the null stream.
 * To the memory from `from`, or (null) from it to `to`. */
static quern_status copy(struct device *base, const struct device_memory *m, const void *from,
                         void *to)
{
    void *const address = (void *)(uintptr_t)m->address;
    struct gpu *const d = of(base);
    struct callers callers;

    TRY(enter(d, &callers));
    int error = d->api->synchronize();
    enum gpu_call call = GPU_synchronize;
    if (error == GPU_OK) {
        call = from ? GPU_copy_to : GPU_copy_from;
        error = from ? d->api->copy_to(address, from, m->bytes)
                     : d->api->copy_from(to, address, m->bytes);
    }
    leave(d, &callers);
    return error == GPU_OK ? QUERN_OK : failed(d, error, call);
}

static quern_status memory_write(struct device *base, const struct device_memory *m,
                                 const void *from)
{
    return copy(base, m, from, NULL);
}

static quern_status memory_read(struct device *base, const struct device_memory *m, void *to)
{
    return copy(base, m, NULL, to);
}

static quern_status between(struct gpu *d, void *events[2], quern_status (*work)(void *user),
                            void *user, double *microseconds)
{
    float milliseconds;

    GPU_TRY(d, event_record, events[0], NULL);
    TRY(work(user));
    GPU_TRY(d, event_record, events[1], NULL);
    GPU_TRY(d, event_synchronize, events[1]);
    GPU_TRY(d, event_elapsed, &milliseconds, events[0], events[1]);
    *microseconds = 1e3 * (double)milliseconds;
    return QUERN_OK;
}

static quern_status measure(struct device *base, quern_status (*work)(void *user), void *user,
                            double *microseconds)
{
    struct gpu *const d = of(base);
    struct callers callers;
    void *events[2] = {NULL, NULL};
    quern_status status = QUERN_OK;

    TRY(enter(d, &callers));
    for (int i = 0; i < 2 && status == QUERN_OK; i++) {
        const int error = d->api->event_create(&events[i]);
        if (error != GPU_OK)
            status = failed(d, error, GPU_event_create);
    }
    if (status == QUERN_OK)
        status = between(d, events, work, user, microseconds);
    for (int i = 0; i < 2; i++)
        if (events[i] && d->api->event_destroy(events[i]))
            (void)d->api->last_error();
    leave(d, &callers);
    return status;
}

/* ---- Products -------------------------------------------------------------------------------- */

static quern_status product_make(struct device *base, bool bf16, int64_t n, int64_t k, int64_t rows,
                                 struct device_product **product)
{
    struct gpu *const d = of(base);
    struct callers callers;

    TRY(enter(d, &callers));
    pthread_mutex_lock(&d->lock);
    quern_status status =
        d->blas ? QUERN_OK : blas_open(d->runtime->blas, d->base.facts.runtime, &d->blas);
    pthread_mutex_unlock(&d->lock);
    if (status == QUERN_OK)
        status = blas_product_make(d->blas, bf16, n, k, rows, product);
    if (status != QUERN_OK)
        (void)d->api->last_error();
    leave(d, &callers);
    return status;
}

static quern_status product_run(struct device *base, const struct device_product *product,
                                int64_t rows, const void *a, const void *w, void *c,
                                void *workspace, void *stream)
{
    struct gpu *const d = of(base);

    TRY(check_process(d));
    const quern_status status = blas_product_run(product, rows, a, w, c, workspace, stream);
    if (status != QUERN_OK)
        (void)d->api->last_error();
    return status;
}

static void product_free(struct device *base, struct device_product *product)
{
    struct gpu *const d = of(base);

    if (d->forks == gpu_forks())
        blas_product_free(product);
}

/* ---- Devices --------------------------------------------------------------------------------- */

static void close_gpu(struct device *base)
{
    struct gpu *const d = of(base);
    struct callers callers;

    if (d->forks == gpu_forks()) {
        if (d->blas && enter(d, &callers) == QUERN_OK) {
            blas_close(d->blas);
            leave(d, &callers);
        }
        (void)d->api->release(d->index);
    }
    pthread_mutex_destroy(&d->lock);
    os.free(d);
}

static const struct device_functions gpu_functions = {
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
    .close = close_gpu,
};

static quern_status find(const struct gpu_runtime *runtime, const struct device_search *search,
                         const struct gpu_api **api, int *count)
{
    TRY(gpu_runtime_find(runtime, search, api));
    const int error = (*api)->count(count);
    return error == GPU_OK ? QUERN_OK : call_failed(runtime, *api, error, GPU_count);
}

quern_status gpu_count(const struct device_driver *driver, const struct device_search *search,
                       int *count)
{
    const struct gpu_api *api;

    return find(driver->gpu, search, &api, count);
}

static quern_status read_facts(struct gpu *d)
{
    struct device_facts *const f = &d->base.facts;
    char target[256];
    size_t memory;
    int units, clock, cache;

    GPU_TRY(d, target, target, sizeof target, d->index);
    TRY(target_parse(target, &d->base.id));
    GPU_TRY(d, name, f->name, sizeof f->name, d->index);
    GPU_TRY(d, attribute, &units, d->runtime->units, d->index);
    GPU_TRY(d, attribute, &clock, d->runtime->clock_khz, d->index);
    GPU_TRY(d, attribute, &cache, d->runtime->cache_bytes, d->index);
    GPU_TRY(d, memory, &memory, d->index);
    GPU_TRY(d, version, &f->runtime_version);
    snprintf(f->runtime, sizeof f->runtime, "%s", d->api->path);
    /* A workgroup processor counts as one (ROCm/clr, rocdevice.cpp: enableWgpMode_). */
    f->compute_units = (unsigned)units * (d->base.id.target->wgp ? 2 : 1);
    f->clock_ghz = clock * 1e-6;
    f->memory_bytes = memory;
    f->any_rows = d->runtime->blas->any_rows;
    f->cache_bytes = cache > 0 ? (uint64_t)cache : 0;
    GPU_TRY(d, retain, &d->context, d->index);
    return QUERN_OK;
}

quern_status gpu_open(const struct device_driver *driver, const struct device_search *search,
                      int index, struct device **out)
{
    const struct gpu_api *api;
    int count;

    TRY(find(driver->gpu, search, &api, &count));
    FAIL_IF(index < 0 || index >= count, QUERN_E_DEVICE,
            "device_index is %d, and the %s runtime has %d device%s, from 0 on", index,
            driver->runtime, count, count == 1 ? "" : "s");
    struct gpu *const d = os.calloc(1, sizeof *d);
    FAIL_IF(!d, QUERN_E_MEMORY, "out of memory for a device");
    d->functions = gpu_functions;
    d->functions.kind = driver->number;
    d->base.functions = &d->functions;
    d->runtime = driver->gpu;
    d->api = api;
    d->index = index;
    d->forks = gpu_forks();
    pthread_mutex_init(&d->lock, NULL);
    const quern_status status = read_facts(d);
    if (status != QUERN_OK) {
        pthread_mutex_destroy(&d->lock);
        os.free(d);
        return status;
    }
    *out = &d->base;
    return QUERN_OK;
}
