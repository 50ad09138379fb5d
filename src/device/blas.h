/* SPDX-License-Identifier: MIT */
/*
 * Products of 16-bit matrices by the library that a GPU's maker tuned for hundreds of rows,
 * hipBLASLt or cuBLASLt, where the process has it. Optional: nothing here fails an op, whose own
 * kernels serve every M.
 */
#ifndef QUERN_DEVICE_BLAS_H
#define QUERN_DEVICE_BLAS_H

#include "device/device.h"

#include <stdbool.h>

/* One of the libraries: its names and where it differs. */
struct blas_library {
    const char *title;        /* "hipBLASLt" */
    const char *prefix;       /* of its functions: "hipblasLt" */
    const char *const *names; /* the best first; ends with null */
    const char *stem;         /* that all of its names begin with */
    bool only_loaded;         /* it is used where the process has it, and never loaded for it */
    bool any_rows;            /* an algorithm chosen for some rows of A serves fewer as well */
    int not_supported;        /* a status */
    int compute_f32, op_none, op_transposed;
    int desc_transa, desc_transb; /* attributes of a product */
};
extern const struct blas_library blas_amd, blas_nvidia;

struct blas; /* the library's handle for one GPU */
/* struct device_product: a product of fixed sizes, with the algorithm chosen; immutable. It may use
 * DEVICE_PRODUCT_WORKSPACE bytes. */

/*
 * Finds the library once in a process: one that is loaded; where the library may be loaded, the one
 * beside `runtime` (the file of the GPU's runtime), or the loader's. It is never unloaded. The GPU
 * must be the thread's current device in this and all that follows. QUERN_E_DEVICE: there is none,
 * or it failed. Thread-safe; blocks for as long as loading takes (it is a large library).
 */
quern_status blas_open(const struct blas_library *library, const char *runtime, struct blas **blas);
void blas_close(struct blas *blas);

/*
 * Prepares c[rows,n] = a[rows,k] · w[n,k]^T, all packed and of one type, summed in f32.
 * QUERN_E_DEVICE: the library has no algorithm for it. Blocks.
 */
quern_status blas_product_make(struct blas *blas, bool bf16, int64_t n, int64_t k, int64_t rows,
                               struct device_product **product);
/* Puts the product on the stream, of `rows` of A: those that it was made for, or where the library
 * has any_rows fewer. Nothing here locks or waits; what the library does in its calls, with fewer
 * rows also those that describe two matrices, is not known. */
quern_status blas_product_run(const struct device_product *product, int64_t rows, const void *a,
                              const void *w, void *c, void *workspace, void *stream);
void blas_product_free(struct device_product *product);

#endif
