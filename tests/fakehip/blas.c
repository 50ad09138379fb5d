/* SPDX-License-Identifier: MIT */
/* The functions of hipBLASLt that quern calls; and of cuBLASLt, as which cublas.c includes this
 * file. See fakeblas.h. */
#include "device/blas_abi.h"
#include "fakeblas.h"
#include "fakehip.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef FAKEBLAS_CUDA
#define LT(name)             cublasLt##name
#define GET_DEVICE(device)   cuCtxGetDevice(device)
#define SYNCHRONIZE()        cuCtxSynchronize()
#define ALLOCATE(at, bytes)  cuMemAlloc_v2(at, bytes)
#define FREE(at)             cuMemFree_v2(at)
#define CALL(stream, f, arg) cuLaunchHostFunc(stream, f, arg)
#define SUPPORT_NOT          CUBLAS_NOT_SUPPORTED
#define COMPUTE_32F          CUBLAS_COMPUTE_32F
#define OP_N                 CUBLAS_OP_N
#define OP_T                 CUBLAS_OP_T
#define DESC_TRANSA          CUBLAS_DESC_TRANSA
#define DESC_TRANSB          CUBLAS_DESC_TRANSB
int cuCtxGetDevice(int *device);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(void **address, size_t bytes);
int cuMemFree_v2(void *address);
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *user);
#else
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#define LT(name)             hipblasLt##name
#define GET_DEVICE(device)   (int)hipGetDevice(device)
#define SYNCHRONIZE()        (int)hipDeviceSynchronize()
#define ALLOCATE(at, bytes)  (int)hipMalloc(at, bytes)
#define FREE(at)             (int)hipFree(at)
#define CALL(stream, f, arg) (int)hipLaunchHostFunc(stream, f, arg)
#define SUPPORT_NOT          HIPBLAS_NOT_SUPPORTED
#define COMPUTE_32F          HIPBLAS_COMPUTE_32F
#define OP_N                 HIPBLAS_OP_N
#define OP_T                 HIPBLAS_OP_T
#define DESC_TRANSA          HIPBLAS_DESC_TRANSA
#define DESC_TRANSB          HIPBLAS_DESC_TRANSB
#endif

#define BLAS_API __attribute__((visibility("default")))

/* hipblasStatus_t; cuBLAS numbers them otherwise, but for these tests any that is not 0 will do */
enum {
    ALLOC_FAILED = 2,
    INVALID_VALUE = 3,
    EXECUTION_FAILED = 5,
    ARCH_MISMATCH = 8,
    NO_HANDLE = 9
};

struct desc {
    int compute, scale, trans[2];
};

struct layout {
    int type;
    uint64_t rows, columns;
    int64_t stride;
};

struct preference {
    uint64_t workspace;
};

/* A product on a stream, or in a graph that may run it often. */
struct job {
    struct job *next;
    int type;
    uint64_t n, k, rows;
    const uint16_t *w, *a;
    uint16_t *c;
};

struct handle {
    int device;
    pthread_mutex_t lock;
    struct job *jobs; /* until the handle is destroyed: graphs name them */
    bool loaded[64];  /* by the number of the algorithm */
};

/* What stands in a hipblasLtMatmulAlgo_t. */
struct algorithm {
    char magic[8];
    uint32_t number;
};

static atomic_ulong products;

static struct {
    pthread_mutex_t lock;
    char function[64];
    int nth, status;
} plan = {.lock = PTHREAD_MUTEX_INITIALIZER};

unsigned long fakeblas_products(void)
{
    return atomic_load(&products);
}

void fakeblas_fail(const char *function, int nth, int status)
{
    pthread_mutex_lock(&plan.lock);
    strncpy(plan.function, function, sizeof plan.function - 1);
    plan.nth = nth;
    plan.status = status;
    pthread_mutex_unlock(&plan.lock);
}

static int planned(const char *function)
{
    int status = BLAS_OK;

    pthread_mutex_lock(&plan.lock);
    if (plan.nth && !strcmp(plan.function, function) && !--plan.nth)
        status = plan.status;
    pthread_mutex_unlock(&plan.lock);
    return status;
}

#define ENTER()                                                                                    \
    do {                                                                                           \
        const int planned_ = planned(__func__);                                                    \
        if (planned_ != BLAS_OK)                                                                   \
            return planned_;                                                                       \
    } while (0)

/* Declares what blas_abi.h says these functions are. */
#define DECLARE(result, name, parameters) BLAS_API result LT(name) parameters;
BLAS_FUNCTIONS(DECLARE)

/* ---- Handles and descriptors ----------------------------------------------------------------- */

int LT(Create)(void **handle)
{
    ENTER();
    struct handle *const h = handle ? calloc(1, sizeof *h) : NULL;
    if (!h)
        return handle ? ALLOC_FAILED : INVALID_VALUE;
    if (GET_DEVICE(&h->device)) {
        free(h);
        return EXECUTION_FAILED;
    }
    pthread_mutex_init(&h->lock, NULL);
    *handle = h;
    return BLAS_OK;
}

int LT(Destroy)(void *handle)
{
    struct handle *const h = handle;

    if (!h)
        return NO_HANDLE;
    if (SYNCHRONIZE())
        return EXECUTION_FAILED;
    for (struct job *j = h->jobs; j;) {
        struct job *const next = j->next;
        free(j);
        j = next;
    }
    pthread_mutex_destroy(&h->lock);
    free(h);
    return BLAS_OK;
}

static int make(void **out, const void *value, size_t size)
{
    if (!out)
        return INVALID_VALUE;
    if (!(*out = malloc(size)))
        return ALLOC_FAILED;
    memcpy(*out, value, size);
    return BLAS_OK;
}

static int destroy(void *what)
{
    free(what);
    return what ? BLAS_OK : INVALID_VALUE;
}

int LT(MatmulDescCreate)(void **out, int compute, int scale)
{
    ENTER();
    return make(out, &(struct desc){compute, scale, {OP_N, OP_N}}, sizeof(struct desc));
}

int LT(MatmulDescDestroy)(void *desc)
{
    return destroy(desc);
}

int LT(MatmulDescSetAttribute)(void *desc, int attribute, const void *value, size_t size)
{
    ENTER();
    if (!desc || !value || size != sizeof(int32_t) ||
        (attribute != DESC_TRANSA && attribute != DESC_TRANSB))
        return INVALID_VALUE;
    memcpy(&((struct desc *)desc)->trans[attribute - DESC_TRANSA], value, size);
    return BLAS_OK;
}

int LT(MatrixLayoutCreate)(void **out, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
    ENTER();
    return make(out, &(struct layout){type, rows, columns, stride}, sizeof(struct layout));
}

#ifdef FAKEBLAS_CUDA
BLAS_API blas_layout_init LT(MatrixLayoutInit_internal);
int LT(MatrixLayoutInit_internal)(struct blas_layout *layout, size_t size, int type, uint64_t rows,
                                  uint64_t columns, int64_t stride)
{
    ENTER();
    if (size != 64) /* sizeof(cublasLtMatrixLayoutOpaque_t) of CUDA 12 and 13 */
        return ALLOC_FAILED;
    memcpy(layout, &(struct layout){type, rows, columns, stride}, sizeof(struct layout));
    return BLAS_OK;
}
#endif

int LT(MatrixLayoutDestroy)(void *layout)
{
    return destroy(layout);
}

int LT(MatmulPreferenceCreate)(void **out)
{
    ENTER();
    return make(out, &(struct preference){0}, sizeof(struct preference));
}

int LT(MatmulPreferenceDestroy)(void *preference)
{
    return destroy(preference);
}

int LT(MatmulPreferenceSetAttribute)(void *preference, int attribute, const void *value,
                                     size_t size)
{
    ENTER();
    if (!preference || !value || size != sizeof(uint64_t) ||
        attribute != BLAS_PREF_MAX_WORKSPACE_BYTES)
        return INVALID_VALUE;
    memcpy(preference, value, size);
    return BLAS_OK;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Whether d = wᵀ·a, of one 16-bit type, stored without gaps: all that this library knows. */
static bool known(const struct desc *desc, const struct layout *w, const struct layout *a,
                  const struct layout *c, const struct layout *d)
{
    return desc->compute == COMPUTE_32F && desc->scale == BLAS_R_32F && desc->trans[0] == OP_T &&
           desc->trans[1] == OP_N && w->type == a->type && a->type == c->type &&
           c->type == d->type && (w->type == BLAS_R_16F || w->type == BLAS_R_16BF) &&
           w->rows == a->rows && c->rows == w->columns && c->columns == a->columns &&
           d->rows == c->rows && d->columns == c->columns && (uint64_t)w->stride == w->rows &&
           (uint64_t)a->stride == a->rows && (uint64_t)d->stride == d->rows &&
           (uint64_t)c->stride == c->rows;
}

static uint32_t number_of(const struct layout *a)
{
    return (uint32_t)(__builtin_ctzll(a->columns) & 63);
}

/* Whether an algorithm takes so many rows: of hipBLASLt those that it was chosen for, which is the
 * least that the library promises, of cuBLASLt fewer as well, as an H100 did. */
static bool takes(const struct algorithm *chosen, const struct layout *a)
{
#ifdef FAKEBLAS_CUDA
    return a->columns <= (uint64_t)1 << chosen->number;
#else
    return chosen->number == number_of(a);
#endif
}

int LT(MatmulAlgoGetHeuristic)(void *handle, void *desc, void *w, void *a, void *c, void *d,
                               void *preference, int requested, union blas_result *results,
                               int *returned)
{
    ENTER();
    if (!handle)
        return NO_HANDLE;
    if (!desc || !w || !a || !c || !d || !preference || requested < 1 || !results || !returned)
        return INVALID_VALUE;
    *returned = 0;
    if (!known(desc, w, a, c, d))
        return SUPPORT_NOT;
    const struct algorithm algorithm = {"fake", number_of(a)};
    memcpy(results, &algorithm, sizeof algorithm);
    *returned = 1;
    return BLAS_OK;
}

static float value_of(uint16_t bits, int type)
{
    uint32_t word = (uint32_t)bits << 16;
    float f;

    if (type == BLAS_R_16F) {
        _Float16 h;
        memcpy(&h, &bits, sizeof h);
        return (float)h;
    }
    memcpy(&f, &word, sizeof f);
    return f;
}

static uint16_t bits_of(float f, int type)
{
    uint32_t word;
    uint16_t bits;

    if (type == BLAS_R_16F) {
        const _Float16 h = (_Float16)f;
        memcpy(&bits, &h, sizeof bits);
        return bits;
    }
    memcpy(&word, &f, sizeof word);
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

static void run(void *user)
{
    const struct job *const j = user;
    float *const w = malloc(j->n * j->k * sizeof *w), *const a = malloc(j->k * sizeof *a);

    if (!w || !a)
        abort(); /* a test out of memory has nothing to say */
    for (uint64_t i = 0; i < j->n * j->k; i++)
        w[i] = value_of(j->w[i], j->type);
    for (uint64_t row = 0; row < j->rows; row++) {
        for (uint64_t i = 0; i < j->k; i++)
            a[i] = value_of(j->a[row * j->k + i], j->type);
        for (uint64_t n = 0; n < j->n; n++) {
            float sum = 0;
            for (uint64_t i = 0; i < j->k; i++)
                sum += w[n * j->k + i] * a[i];
            j->c[row * j->n + n] = bits_of(sum, j->type);
        }
    }
    free(w);
    free(a);
}

/* Memory, as loading code takes it: a capture that is under way does not survive it. */
static bool load(struct handle *h, uint32_t number)
{
    void *code;
    bool good = true;

    pthread_mutex_lock(&h->lock);
    if (!h->loaded[number])
        good = !ALLOCATE(&code, 4096) && !FREE(code);
    h->loaded[number] = good;
    pthread_mutex_unlock(&h->lock);
    return good;
}

int LT(Matmul)(void *handle, void *desc, const void *alpha, const void *w, void *w_layout,
               const void *a, void *a_layout, const void *beta, const void *c, void *c_layout,
               void *d, void *d_layout, const void *algorithm, void *workspace, size_t bytes,
               void *stream)
{
    struct handle *const h = handle;
    const struct layout *const wl = w_layout, *const al = a_layout, *const dl = d_layout;
    const struct algorithm *const chosen = algorithm;
    int device;

    ENTER();
    if (!h)
        return NO_HANDLE;
    if (!desc || !alpha || !beta || !w || !a || !c || !d || !wl || !al || !c_layout || !dl ||
        !chosen || (bytes && !workspace) || c != d || *(const float *)alpha != 1 ||
        *(const float *)beta != 0 || strcmp(chosen->magic, "fake"))
        return INVALID_VALUE;
    if (GET_DEVICE(&device) || device != h->device)
        return ARCH_MISMATCH;
    if (!known(desc, wl, al, c_layout, dl) || !takes(chosen, al))
        return SUPPORT_NOT;
    struct job *const j = calloc(1, sizeof *j);
    if (!j)
        return ALLOC_FAILED;
    *j = (struct job){.type = wl->type,
                      .n = wl->columns,
                      .k = wl->rows,
                      .rows = al->columns,
                      .w = fakehip_host(w, wl->rows * wl->columns * 2),
                      .a = fakehip_host(a, al->rows * al->columns * 2),
                      .c = fakehip_host(d, dl->rows * dl->columns * 2)};
    if (!j->w || !j->a || !j->c || (bytes && !fakehip_host(workspace, bytes))) {
        free(j);
        return INVALID_VALUE;
    }
    pthread_mutex_lock(&h->lock);
    j->next = h->jobs;
    h->jobs = j;
    pthread_mutex_unlock(&h->lock);
    if (!load(h, chosen->number) || CALL(stream, run, j))
        return EXECUTION_FAILED;
    atomic_fetch_add(&products, 1);
    return BLAS_OK;
}
