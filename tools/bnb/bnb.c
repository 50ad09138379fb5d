/* SPDX-License-Identifier: MIT */
/*
 * The entry points of <quern/bnb.h> over libquern: a context for each GPU, made at its first call,
 * and an op for each shape, which the context finds without a lock.
 *
 * Unlike libquern this library prints: its entry points return nothing, so that a caller would not
 * learn of a failure otherwise.
 */
#include <quern/bnb.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 64
/* Kernels for at least this many rows are made together: what a decoding batch grows to. */
#define ROWS_AT_ONCE 8

/* ---- The host's runtime ---------------------------------------------------------------------- */

/* Source: hip/hip_runtime_api.h and cuda.h; test_hip_abi.c and test_cuda_abi.c of tests/fakehip
 * check these in src/device. */
enum { GPU_OK = 0, CAPTURE_NONE = 0, CUDA_INVALID_CONTEXT = 201 };

/* What is asked of the runtime that the host uses. */
static struct {
    enum quern_device_kind kind;
    int (*device)(int *device); /* the thread's: with HIP its number, with CUDA its handle */
    int (*is_capturing)(void *stream, int *status);
    int (*last_error)(void);                 /* HIP: takes back the thread's last error */
    int (*count)(int *count);                /* CUDA */
    int (*handle)(int *device, int index);   /* CUDA: of a device's number */
    int (*set_last_error)(int *null_device); /* leaves an error of the thread; null: cannot */
} runtime;
static atomic_bool have_runtime;

struct library {
    const char *stem;
    void *handle;
};

static int find_library(struct dl_phdr_info *info, size_t size, void *user)
{
    const char *const slash = strrchr(info->dlpi_name, '/');
    struct library *const l = user;

    (void)size;
    if (strncmp(slash ? slash + 1 : info->dlpi_name, l->stem, strlen(l->stem)))
        return 0;
    l->handle = dlopen(info->dlpi_name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return l->handle != NULL;
}

/* A library of this process whose file's name begins so, or null. */
static void *loaded(const char *stem)
{
    struct library l = {.stem = stem};

    return dl_iterate_phdr(find_library, &l) ? l.handle : NULL;
}

static bool take(void *library, const char *name, void *function)
{
    void *const address = library ? dlsym(library, name) : NULL;

    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static bool find_hip(void)
{
    void *const library = loaded("libamdhip64");

    runtime.kind = QUERN_DEVICE_HIP;
    return take(library, "hipGetDevice", &runtime.device) &&
           take(library, "hipGetDevice", &runtime.set_last_error) &&
           take(library, "hipStreamIsCapturing", &runtime.is_capturing) &&
           take(library, "hipGetLastError", &runtime.last_error);
}

/* The driver keeps no thread's last error. The CUDA runtime does, if the host has that too; frame-
 * works ask it. */
static bool find_cuda(void)
{
    void *const library = loaded("libcuda.so");

    runtime.kind = QUERN_DEVICE_CUDA;
    runtime.last_error = NULL;
    (void)take(loaded("libcudart"), "cudaGetDevice", &runtime.set_last_error);
    return take(library, "cuCtxGetDevice", &runtime.device) &&
           take(library, "cuStreamIsCapturing", &runtime.is_capturing) &&
           take(library, "cuDeviceGetCount", &runtime.count) &&
           take(library, "cuDeviceGet", &runtime.handle);
}

/* Finds the functions of the runtime in this process. It must be loaded: the host's pointers and
 * streams are the runtime's. Of a process with both, it is HIP. */
static bool runtime_ready(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    if (atomic_load_explicit(&have_runtime, memory_order_acquire))
        return true;
    pthread_mutex_lock(&lock);
    /* checked again under the lock, as another thread may have been first; once have_runtime is
     * set, `runtime` is read without it */
    if (!atomic_load(&have_runtime) && (find_hip() || find_cuda()))
        atomic_store_explicit(&have_runtime, true, memory_order_release);
    pthread_mutex_unlock(&lock);
    return atomic_load(&have_runtime);
}

/* The number of the thread's device. A thread that has no CUDA context yet is one that the CUDA
 * runtime would give the first device. */
static bool current_device(int *device)
{
    int handle, count, of_index;
    const int error = runtime.device(&handle);

    *device = handle;
    if (runtime.kind == QUERN_DEVICE_HIP)
        return error == GPU_OK;
    *device = 0;
    if (error != GPU_OK)
        return error == CUDA_INVALID_CONTEXT;
    if (runtime.count(&count) != GPU_OK)
        return false;
    while (*device < count && (runtime.handle(&of_index, *device) != GPU_OK || of_index != handle))
        ++*device;
    return *device < count;
}

static bool capturing(void *stream)
{
    int status = CAPTURE_NONE;
    const int error = runtime.is_capturing(stream, &status);

    if (error != GPU_OK && runtime.last_error)
        (void)runtime.last_error();
    if (error == CUDA_INVALID_CONTEXT && runtime.kind == QUERN_DEVICE_CUDA)
        return false; /* of a thread without a context */
    /* another error means that another stream's capture forbids even the question */
    return error != GPU_OK || status != CAPTURE_NONE;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static _Thread_local int last_status;
static _Thread_local char last_message[1024];

int quern_bnb_last_status(void)
{
    return last_status;
}

const char *quern_bnb_last_error(void)
{
    return last_message;
}

static int fail(int status, const char *message)
{
    if (message != last_message)
        snprintf(last_message, sizeof last_message, "%s", message);
    last_status = status;
    return status;
}

static int fail_as_quern(quern_status status)
{
    return fail(status, quern_last_error()->message);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

struct gpu {
    pthread_mutex_t lock; /* held while the context is opened */
    _Atomic(quern_ctx *) ctx;
    int failed; /* the status that opening failed with for good: it is not tried again */
    char why[sizeof last_message];
};

static struct gpu gpus[GPUS_MAX];
static pthread_once_t gpus_once = PTHREAD_ONCE_INIT;

static void set_up_gpus(void)
{
    for (int i = 0; i < GPUS_MAX; i++)
        pthread_mutex_init(&gpus[i].lock, NULL);
}

static void print(void *user, enum quern_log_level level, const char *line)
{
    (void)user, (void)level;
    fprintf(stderr, "quern: %s\n", line);
}

/* Makes the layers of QUERN_MANIFEST, before the first launch. A layer that cannot be made is
 * reported, and does not fail launches of others. */
static void preload(quern_ctx *ctx)
{
    const char *const manifest = secure_getenv("QUERN_MANIFEST");

    if (manifest && *manifest && quern_preload(ctx, manifest) != QUERN_OK)
        fprintf(stderr, "quern: QUERN_MANIFEST: %s\n", quern_last_error()->message);
}

/* Whether a failure lasts as long as the process: the GPU is one that there are no kernels for. All
 * else may be gone at the next call: no descriptors or memory, no cache directory yet. */
static bool lasts(quern_status status)
{
    return status == QUERN_E_TARGET || status == QUERN_E_DECLINED;
}

/* With gpu->lock held. */
static int open_gpu(struct gpu *gpu, int device)
{
    struct quern_options options = QUERN_INIT(struct quern_options);
    quern_ctx *ctx;

    options.device = runtime.kind;
    options.device_index = device;
    options.log = print;
    const quern_status status = quern_open(&options, &ctx);
    if (status != QUERN_OK) {
        if (lasts(status)) {
            gpu->failed = status;
            snprintf(gpu->why, sizeof gpu->why, "%s", quern_last_error()->message);
        }
        return fail_as_quern(status);
    }
    preload(ctx);
    atomic_store(&gpu->ctx, ctx);
    return QUERN_OK;
}

static int context(void *stream, quern_ctx **ctx)
{
    int device, status = QUERN_OK;

    if (!runtime_ready())
        return fail(QUERN_E_DEVICE, "no HIP runtime (libamdhip64) and no CUDA driver (libcuda) is "
                                    "loaded in this process; load the library that owns the GPU "
                                    "first");
    if (!current_device(&device) || device < 0 || device >= GPUS_MAX)
        return fail(QUERN_E_DEVICE, "the thread's current device is not known");
    struct gpu *const gpu = &gpus[device];
    if ((*ctx = atomic_load(&gpu->ctx)))
        return QUERN_OK;
    if (capturing(stream))
        return fail(QUERN_E_WOULD_COMPILE, "the first call for this GPU came in the capture of a "
                                           "graph, where nothing can be loaded; call before it");
    pthread_once(&gpus_once, set_up_gpus);
    pthread_mutex_lock(&gpu->lock);
    if (gpu->failed)
        status = fail(gpu->failed, gpu->why);
    else if (!atomic_load(&gpu->ctx))
        status = open_gpu(gpu, device);
    *ctx = atomic_load(&gpu->ctx);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* ---- The product ----------------------------------------------------------------------------- */

struct call {
    const char *name; /* of the entry point */
    enum quern_dtype type;
    const void *a, *b, *absmax, *absmax_8bit, *absmax_code, *absmax_offset;
    void *out;
    const void *bias;
    int32_t m, n, k, blocksize, quant_type;
    void *stream;
};

/* What bitsandbytes checks before it calls its library: there 0 is no default, and a part of a
 * nested scale is none. What quern itself checks, sizes and pointers, is not checked here. */
static int check(const struct call *c)
{
    const char *wrong = NULL;

    if (c->quant_type != 1 && c->quant_type != 2)
        snprintf(last_message, sizeof last_message, "quant_type is %d; expected 1 (FP4) or 2 (NF4)",
                 (int)c->quant_type);
    else if (c->blocksize < 32 || c->blocksize > 4096 || (c->blocksize & (c->blocksize - 1)))
        snprintf(last_message, sizeof last_message,
                 "blocksize is %d; expected a power of two from 32 to 4096", (int)c->blocksize);
    else if (c->m < 0)
        snprintf(last_message, sizeof last_message, "m is %d; expected 0 or more", (int)c->m);
    else if (c->n <= 0 || c->k <= 0)
        snprintf(last_message, sizeof last_message, "n is %d and k is %d; expected 1 or more",
                 (int)c->n, (int)c->k);
    else if (!c->absmax_8bit && (c->absmax_code || c->absmax_offset))
        wrong = "absmax_code or absmax_offset is given without absmax_8bit; expected all or none";
    else
        return QUERN_OK;
    return fail(QUERN_E_ARGUMENT, wrong ? wrong : last_message);
}

/* Finds or makes an op for a call, with the kernels for its rows. In a capture nothing may be
 * compiled: there an op that has only the kernel for one row will do, which launches one slice for
 * each row. */
static quern_status find_op(quern_ctx *ctx, const struct quern_problem *p, const struct call *c,
                            quern_op **op)
{
    const int64_t rows = c->m > ROWS_AT_ONCE ? c->m : ROWS_AT_ONCE;
    const quern_status status = quern_op_create_on(ctx, p, rows, c->stream, op);

    if (status != QUERN_E_WOULD_COMPILE)
        return status;
    snprintf(last_message, sizeof last_message, "%s", quern_last_error()->message);
    return quern_op_create_on(ctx, p, 1, c->stream, op) == QUERN_OK ? QUERN_OK : status;
}

static int launch(const struct call *c)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    struct quern_args args = QUERN_INIT(struct quern_args);
    quern_ctx *ctx = NULL;
    quern_op *op;

    int status = check(c);
    if (status || c->m == 0)
        return status;
    status = context(c->stream, &ctx);
    if (status)
        return status;
    p.wq = c->quant_type == 1 ? QUERN_W_FP4 : QUERN_W_NF4;
    p.group = c->blocksize;
    p.scale = c->absmax_8bit ? QUERN_SCALE_NESTED : QUERN_SCALE_F32;
    p.a = c->type;
    p.n = c->n;
    p.k = c->k;
    p.bias = c->bias != NULL;
    status = find_op(ctx, &p, c, &op);
    if (status == QUERN_E_WOULD_COMPILE)
        return fail(status, last_message);
    if (status)
        return fail_as_quern(status);
    args.a = c->a;
    args.b = c->b;
    args.scales = c->absmax;
    args.absmax8 = c->absmax_8bit;
    args.code = c->absmax_code;
    args.offset = c->absmax_offset;
    args.bias = c->bias;
    args.c = c->out;
    status = quern_op_launch(op, &args, c->m, c->stream);
    if (status)
        fail_as_quern(status);
    quern_op_release(op); /* the context keeps it */
    return status;
}

static void run(const struct call *c)
{
    static atomic_bool said[256]; /* by status */

    last_status = QUERN_OK;
    last_message[0] = 0;
    const int status = launch(c);
    if (status == QUERN_OK)
        return;
    if (!atomic_exchange(&said[status & 255], true))
        fprintf(stderr,
                "quern: %s (m=%" PRId32 " n=%" PRId32 " k=%" PRId32 " blocksize=%" PRId32
                " quant_type=%" PRId32 "): %s (%s; the next of this kind are not printed)\n",
                c->name, c->m, c->n, c->k, c->blocksize, c->quant_type, last_message,
                quern_status_name((quern_status)status));
    if (atomic_load(&have_runtime) && runtime.set_last_error)
        /* so that a host that asks hipGetLastError or cudaGetLastError learns of the failure: this
         * only leaves hipErrorInvalidValue, cudaErrorInvalidValue */
        (void)runtime.set_last_error(NULL);
}

#define ENTRY(entry, dtype)                                                                        \
    void entry(const void *a, const void *b, const void *absmax, const void *absmax_8bit,          \
               const void *absmax_code, const void *absmax_offset, void *out, const void *bias,    \
               int32_t m, int32_t n, int32_t k, int32_t blocksize, int32_t quant_type,             \
               void *stream)                                                                       \
    {                                                                                              \
        run(&(struct call){#entry, dtype, a, b, absmax, absmax_8bit, absmax_code, absmax_offset,   \
                           out, bias, m, n, k, blocksize, quant_type, stream});                    \
    }

ENTRY(cgemm_4bit_bf16, QUERN_BF16)
ENTRY(cgemm_4bit_fp16, QUERN_F16)
ENTRY(cgemm_4bit_fp32, QUERN_F32)
