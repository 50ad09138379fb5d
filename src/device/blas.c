/* SPDX-License-Identifier: MIT */
/*
 * These libraries store matrices by columns, so that what is a row-major [rows,n] here is an
 * n × rows one there: its first operand is W, transposed, and its second A.
 */
#include "device/blas.h"

#include "base/os.h"
#include "device/blas_abi.h"
#include "device/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The library's names in ROCm 7 and 6; wheels have the last. */
static const char *const hip_names[] = {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so",
                                        NULL};
static const char *const cuda_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};

const struct blas_library blas_amd = {
    .title = "hipBLASLt",
    .prefix = "hipblasLt",
    .names = hip_names,
    .stem = "libhipblaslt",
    .not_supported = HIPBLAS_NOT_SUPPORTED,
    .compute_f32 = HIPBLAS_COMPUTE_32F,
    .op_none = HIPBLAS_OP_N,
    .op_transposed = HIPBLAS_OP_T,
    .desc_transa = HIPBLAS_DESC_TRANSA,
    .desc_transb = HIPBLAS_DESC_TRANSB,
};
/* It has more than 500 MB, and whoever wants products of many rows has it. */
const struct blas_library blas_nvidia = {
    .title = "cuBLASLt",
    .prefix = "cublasLt",
    .names = cuda_names,
    .stem = "libcublasLt",
    .only_loaded = true,
    .any_rows = true,
    .not_supported = CUBLAS_NOT_SUPPORTED,
    .compute_f32 = CUBLAS_COMPUTE_32F,
    .op_none = CUBLAS_OP_N,
    .op_transposed = CUBLAS_OP_T,
    .desc_transa = CUBLAS_DESC_TRANSA,
    .desc_transb = CUBLAS_DESC_TRANSB,
};

struct blas_api {
    const struct blas_library *library; /* null: none is found yet */
#define BLAS_MEMBER(result, name, parameters) result(*name) parameters;
    BLAS_FUNCTIONS(BLAS_MEMBER)
#undef BLAS_MEMBER
    blas_layout_init *layout_init; /* of a library that takes any rows */
};

/* Those of the process, and the lock of the search. */
static struct blas_api apis[4];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct blas {
    const struct blas_api *api;
    void *handle;
};

struct device_product {
    struct blas *blas;
    int type;
    int64_t n, k, rows;
    void *desc, *w, *a, *c; /* descriptors */
    union blas_result chosen;
};

/* ---- The library ----------------------------------------------------------------------------- */

static bool fill(struct blas_api *api, const struct blas_library *library, void *handle)
{
    char symbol[128];
    void *address;

#define BLAS_LOAD(result, name, parameters)                                                        \
    snprintf(symbol, sizeof symbol, "%s" #name, library->prefix);                                  \
    if (!(address = dlsym(handle, symbol)))                                                        \
        return false;                                                                              \
    memcpy(&api->name, &address, sizeof address);
    BLAS_FUNCTIONS(BLAS_LOAD)
#undef BLAS_LOAD
    if (library->any_rows) {
        if (!(address = dlsym(handle, CUBLAS_LAYOUT_INIT)))
            return false;
        memcpy(&api->layout_init, &address, sizeof address);
    }
    api->library = library;
    return true;
}

static bool take(struct blas_api *api, const struct blas_library *library, const char *candidate,
                 int flags)
{
    void *const handle = dlopen(candidate, RTLD_NOW | RTLD_LOCAL | flags);

    if (!handle)
        return false;
    if (fill(api, library, handle))
        return true; /* the handle is kept for ever */
    dlclose(handle);
    return false;
}

static bool search(struct blas_api *api, const struct blas_library *l, const char *runtime)
{
    const char *const slash = strrchr(runtime, '/');
    char loaded[LOADED_PATH_MAX], path[1024];

    for (const char *const *name = l->names; *name; name++)
        if (take(api, l, *name, RTLD_NOLOAD))
            return true;
    if (gpu_library_loaded(l->stem, loaded) && take(api, l, loaded, RTLD_NOLOAD))
        return true;
    if (l->only_loaded)
        return false;
    for (const char *const *name = l->names; slash && *name; name++) {
        const int n =
            snprintf(path, sizeof path, "%.*s/%s", (int)(slash - runtime), runtime, *name);
        if (n > 0 && (size_t)n < sizeof path && take(api, l, path, 0))
            return true;
    }
    for (const char *const *name = l->names; *name; name++)
        if (take(api, l, *name, 0))
            return true;
    return false;
}

/* The functions of a library, looked for if that was not done yet; null if there is none. */
static const struct blas_api *find(const struct blas_library *library, const char *runtime)
{
    const struct blas_api *found = NULL;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof apis / sizeof *apis && !found; i++) {
        if (!apis[i].library && !search(&apis[i], library, runtime))
            break;
        if (apis[i].library == library)
            found = &apis[i];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static quern_status failed(const struct blas_api *api, int status, const char *call)
{
    const struct blas_library *const l = api->library;

    return error_set(QUERN_E_DEVICE, __FILE__, FAIL_AT(""), "%s%s failed: %s status %d%s",
                     l->prefix, call, l->title, status,
                     status == l->not_supported ? " (not supported)" : "");
}

#define BLAS_TRY(api, call, ...)                                                                   \
    do {                                                                                           \
        const int blas_status_ = (api)->call(__VA_ARGS__);                                         \
        if (blas_status_ != BLAS_OK)                                                               \
            return failed((api), blas_status_, #call);                                             \
    } while (0)

quern_status blas_open(const struct blas_library *library, const char *runtime, struct blas **out)
{
    const struct blas_api *const api = find(library, runtime);

    FAIL_IF(!api && library->only_loaded, QUERN_E_DEVICE,
            "no %s: the process has not loaded %s or %s", library->title, library->names[0],
            library->names[1]);
    FAIL_IF(!api, QUERN_E_DEVICE,
            "no %s or .0: not in this process, beside %s, or on the loader's path",
            library->names[0], runtime);
    struct blas *const b = os.calloc(1, sizeof *b);
    FAIL_IF(!b, QUERN_E_MEMORY, "out of memory for a handle of %s", library->title);
    b->api = api;
    const int status = api->Create(&b->handle);
    if (status != BLAS_OK) {
        os.free(b);
        return failed(api, status, "Create");
    }
    *out = b;
    return QUERN_OK;
}

void blas_close(struct blas *b)
{
    if (!b)
        return;
    b->api->Destroy(b->handle);
    os.free(b);
}

/* ---- Products -------------------------------------------------------------------------------- */

static quern_status choose(struct device_product *p, void *preference)
{
    const uint64_t most = DEVICE_PRODUCT_WORKSPACE;
    int returned = 0;

    BLAS_TRY(p->blas->api, MatmulPreferenceSetAttribute, preference, BLAS_PREF_MAX_WORKSPACE_BYTES,
             &most, sizeof most);
    BLAS_TRY(p->blas->api, MatmulAlgoGetHeuristic, p->blas->handle, p->desc, p->w, p->a, p->c, p->c,
             preference, 1, &p->chosen, &returned);
    FAIL_IF(returned < 1, QUERN_E_DEVICE, "%s has no algorithm for this product",
            p->blas->api->library->title);
    return QUERN_OK;
}

static quern_status describe(struct device_product *p)
{
    const struct blas_library *const l = p->blas->api->library;
    const uint64_t n = (uint64_t)p->n, k = (uint64_t)p->k, rows = (uint64_t)p->rows;
    const int32_t transposed = l->op_transposed, as_is = l->op_none;
    void *preference;

    BLAS_TRY(p->blas->api, MatmulDescCreate, &p->desc, l->compute_f32, BLAS_R_32F);
    BLAS_TRY(p->blas->api, MatmulDescSetAttribute, p->desc, l->desc_transa, &transposed,
             sizeof transposed);
    BLAS_TRY(p->blas->api, MatmulDescSetAttribute, p->desc, l->desc_transb, &as_is, sizeof as_is);
    BLAS_TRY(p->blas->api, MatrixLayoutCreate, &p->w, p->type, k, n, p->k);
    BLAS_TRY(p->blas->api, MatrixLayoutCreate, &p->a, p->type, k, rows, p->k);
    BLAS_TRY(p->blas->api, MatrixLayoutCreate, &p->c, p->type, n, rows, p->n);
    BLAS_TRY(p->blas->api, MatmulPreferenceCreate, &preference);
    const quern_status status = choose(p, preference);
    p->blas->api->MatmulPreferenceDestroy(preference);
    return status;
}

quern_status blas_product_make(struct blas *blas, bool bf16, int64_t n, int64_t k, int64_t rows,
                               struct device_product **out)
{
    struct device_product *const p = os.calloc(1, sizeof *p);

    FAIL_IF(!p, QUERN_E_MEMORY, "out of memory for a product of %s", blas->api->library->title);
    *p = (struct device_product){
        .blas = blas, .type = bf16 ? BLAS_R_16BF : BLAS_R_16F, .n = n, .k = k, .rows = rows};
    const quern_status status = describe(p);
    if (status != QUERN_OK) {
        blas_product_free(p);
        return status;
    }
    *out = p;
    return QUERN_OK;
}

static quern_status run(const struct device_product *p, const void *a, void *a_rows, const void *w,
                        void *c, void *c_rows, void *workspace, void *stream)
{
    const float one = 1, zero = 0;

    BLAS_TRY(p->blas->api, Matmul, p->blas->handle, p->desc, &one, w, p->w, a, a_rows, &zero, c,
             c_rows, c, c_rows, &p->chosen.algorithm, workspace, DEVICE_PRODUCT_WORKSPACE, stream);
    return QUERN_OK;
}

quern_status blas_product_run(const struct device_product *p, int64_t rows, const void *a,
                              const void *w, void *c, void *workspace, void *stream)
{
    const uint64_t n = (uint64_t)p->n, k = (uint64_t)p->k, count = (uint64_t)rows;
    struct blas_layout a_rows, c_rows; /* here, as a launch allocates nothing */

    if (rows == p->rows)
        return run(p, a, p->a, w, c, p->c, workspace, stream);
    BLAS_TRY(p->blas->api, layout_init, &a_rows, sizeof a_rows, p->type, k, count, p->k);
    BLAS_TRY(p->blas->api, layout_init, &c_rows, sizeof c_rows, p->type, n, count, p->n);
    return run(p, a, &a_rows, w, c, &c_rows, workspace, stream);
}

void blas_product_free(struct device_product *p)
{
    if (!p)
        return;
    if (p->desc)
        p->blas->api->MatmulDescDestroy(p->desc);
    if (p->w)
        p->blas->api->MatrixLayoutDestroy(p->w);
    if (p->a)
        p->blas->api->MatrixLayoutDestroy(p->a);
    if (p->c)
        p->blas->api->MatrixLayoutDestroy(p->c);
    os.free(p);
}
