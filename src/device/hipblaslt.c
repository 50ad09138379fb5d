/* SPDX-License-Identifier: MIT */
/*
 * hipBLASLt stores matrices by columns, so that what is a row-major [rows,n] here is an n × rows
 * one there: its first operand is W, transposed, and its second A.
 */
#include "device/hipblaslt.h"

#include "base/os.h"
#include "device/hipblaslt_abi.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The library's names in ROCm 7 and 6; wheels have the last. */
static const char *const names[] = {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"};

static struct {
    pthread_mutex_t lock; /* of the search */
    bool found;
#define BLAS_MEMBER(result, name, parameters) result(*name) parameters;
    BLAS_FUNCTIONS(BLAS_MEMBER)
#undef BLAS_MEMBER
} api = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct blas {
    void *handle;
};

struct device_product {
    struct blas *blas;
    void *desc, *w, *a, *c; /* descriptors */
    union blas_result chosen;
};

/* ---- The library ----------------------------------------------------------------------------- */

static bool fill(void *handle)
{
#define BLAS_LOAD(result, name, parameters)                                                        \
    {                                                                                              \
        void *const address = dlsym(handle, #name);                                                \
        if (!address)                                                                              \
            return false;                                                                          \
        memcpy(&api.name, &address, sizeof address);                                               \
    }
    BLAS_FUNCTIONS(BLAS_LOAD)
#undef BLAS_LOAD
    return true;
}

static bool take(const char *candidate, int flags)
{
    void *const handle = dlopen(candidate, RTLD_NOW | RTLD_LOCAL | flags);

    if (!handle)
        return false;
    if (fill(handle))
        return true; /* the handle is kept for ever */
    dlclose(handle);
    return false;
}

/* For dl_iterate_phdr: finds a hipBLASLt in this process whose soname is another (wheels rename
 * their libraries). */
static int note_name(struct dl_phdr_info *info, size_t size, void *user)
{
    const char *const slash = strrchr(info->dlpi_name, '/');

    (void)size;
    if (!slash || strncmp(slash + 1, "libhipblaslt", strlen("libhipblaslt")) ||
        strlen(info->dlpi_name) >= 512)
        return 0;
    strcpy(user, info->dlpi_name);
    return 1;
}

static bool search(const char *runtime)
{
    const char *const slash = strrchr(runtime, '/');
    char path[1024];

    for (size_t i = 0; i < COUNT(names); i++)
        if (take(names[i], RTLD_NOLOAD))
            return true;
    if (dl_iterate_phdr(note_name, path) && take(path, RTLD_NOLOAD))
        return true;
    for (size_t i = 0; slash && i < COUNT(names); i++) {
        const int n =
            snprintf(path, sizeof path, "%.*s/%s", (int)(slash - runtime), runtime, names[i]);
        if (n > 0 && (size_t)n < sizeof path && take(path, 0))
            return true;
    }
    for (size_t i = 0; i < COUNT(names); i++)
        if (take(names[i], 0))
            return true;
    return false;
}

static quern_status failed(int status, const char *call)
{
    return error_set(QUERN_E_DEVICE, __FILE__, FAIL_AT(""), "%s failed: hipBLASLt status %d%s",
                     call, status, status == BLAS_NOT_SUPPORTED ? " (not supported)" : "");
}

#define BLAS_TRY(call, ...)                                                                        \
    do {                                                                                           \
        const int blas_status_ = api.call(__VA_ARGS__);                                            \
        if (blas_status_ != BLAS_OK)                                                               \
            return failed(blas_status_, #call);                                                    \
    } while (0)

quern_status blas_open(const char *runtime, struct blas **out)
{
    pthread_mutex_lock(&api.lock);
    api.found = api.found || search(runtime);
    const bool found = api.found;
    pthread_mutex_unlock(&api.lock);
    FAIL_IF(!found, QUERN_E_DEVICE,
            "no libhipblaslt.so.1 or .0: not in this process, beside %s, or on the loader's path",
            runtime);
    struct blas *const b = os.calloc(1, sizeof *b);
    FAIL_IF(!b, QUERN_E_MEMORY, "out of memory for a handle of hipBLASLt");
    const int status = api.hipblasLtCreate(&b->handle);
    if (status != BLAS_OK) {
        os.free(b);
        return failed(status, "hipblasLtCreate");
    }
    *out = b;
    return QUERN_OK;
}

void blas_close(struct blas *b)
{
    if (!b)
        return;
    api.hipblasLtDestroy(b->handle);
    os.free(b);
}

/* ---- Products -------------------------------------------------------------------------------- */

static quern_status choose(struct device_product *p, void *preference)
{
    const uint64_t most = DEVICE_PRODUCT_WORKSPACE;
    int returned = 0;

    BLAS_TRY(hipblasLtMatmulPreferenceSetAttribute, preference, BLAS_PREF_MAX_WORKSPACE_BYTES,
             &most, sizeof most);
    BLAS_TRY(hipblasLtMatmulAlgoGetHeuristic, p->blas->handle, p->desc, p->w, p->a, p->c, p->c,
             preference, 1, &p->chosen, &returned);
    FAIL_IF(returned < 1, QUERN_E_DEVICE, "hipBLASLt has no algorithm for this product");
    return QUERN_OK;
}

static quern_status describe(struct device_product *p, int type, uint64_t n, uint64_t k,
                             uint64_t rows)
{
    const int32_t transposed = BLAS_OP_T, as_is = BLAS_OP_N;
    void *preference;

    BLAS_TRY(hipblasLtMatmulDescCreate, &p->desc, BLAS_COMPUTE_32F, BLAS_R_32F);
    BLAS_TRY(hipblasLtMatmulDescSetAttribute, p->desc, BLAS_DESC_TRANSA, &transposed,
             sizeof transposed);
    BLAS_TRY(hipblasLtMatmulDescSetAttribute, p->desc, BLAS_DESC_TRANSB, &as_is, sizeof as_is);
    BLAS_TRY(hipblasLtMatrixLayoutCreate, &p->w, type, k, n, (int64_t)k);
    BLAS_TRY(hipblasLtMatrixLayoutCreate, &p->a, type, k, rows, (int64_t)k);
    BLAS_TRY(hipblasLtMatrixLayoutCreate, &p->c, type, n, rows, (int64_t)n);
    BLAS_TRY(hipblasLtMatmulPreferenceCreate, &preference);
    const quern_status status = choose(p, preference);
    api.hipblasLtMatmulPreferenceDestroy(preference);
    return status;
}

quern_status blas_product_make(struct blas *blas, bool bf16, int64_t n, int64_t k, int64_t rows,
                               struct device_product **out)
{
    struct device_product *const p = os.calloc(1, sizeof *p);

    FAIL_IF(!p, QUERN_E_MEMORY, "out of memory for a product of hipBLASLt");
    p->blas = blas;
    const quern_status status =
        describe(p, bf16 ? BLAS_R_16BF : BLAS_R_16F, (uint64_t)n, (uint64_t)k, (uint64_t)rows);
    if (status != QUERN_OK) {
        blas_product_free(p);
        return status;
    }
    *out = p;
    return QUERN_OK;
}

quern_status blas_product_run(const struct device_product *p, const void *a, const void *w, void *c,
                              void *workspace, void *stream)
{
    const float one = 1, zero = 0;

    BLAS_TRY(hipblasLtMatmul, p->blas->handle, p->desc, &one, w, p->w, a, p->a, &zero, c, p->c, c,
             p->c, &p->chosen.algorithm, workspace, DEVICE_PRODUCT_WORKSPACE, stream);
    return QUERN_OK;
}

void blas_product_free(struct device_product *p)
{
    if (!p)
        return;
    if (p->desc)
        api.hipblasLtMatmulDescDestroy(p->desc);
    if (p->w)
        api.hipblasLtMatrixLayoutDestroy(p->w);
    if (p->a)
        api.hipblasLtMatrixLayoutDestroy(p->a);
    if (p->c)
        api.hipblasLtMatrixLayoutDestroy(p->c);
    os.free(p);
}
