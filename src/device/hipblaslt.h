/* SPDX-License-Identifier: MIT */
/*
 * Products of 16-bit matrices by hipBLASLt, where the process has it: what a GPU's maker tuned for
 * hundreds of rows. Optional: nothing here fails an op, whose own kernels serve every M.
 */
#ifndef QUERN_DEVICE_HIPBLASLT_H
#define QUERN_DEVICE_HIPBLASLT_H

#include "device/device.h"

#include <stdbool.h>

struct blas; /* hipBLASLt's handle for one GPU */
/* struct device_product: a product of fixed sizes, with the algorithm chosen; immutable. It may use
 * DEVICE_PRODUCT_WORKSPACE bytes. */

/*
 * Finds the library once in a process: one that is loaded, the one beside `runtime` (the file of
 * the HIP runtime), the loader's. It is never unloaded. The GPU must be the thread's current device
 * in this and all that follows. QUERN_E_DEVICE: there is none, or it failed. Thread-safe; blocks
 * for as long as loading takes (it is a large library).
 */
quern_status blas_open(const char *runtime, struct blas **blas);
void blas_close(struct blas *blas);

/*
 * Prepares c[rows,n] = a[rows,k] · w[n,k]^T, all packed and of one type, summed in f32.
 * QUERN_E_DEVICE: the library has no algorithm for it. Blocks.
 */
quern_status blas_product_make(struct blas *blas, bool bf16, int64_t n, int64_t k, int64_t rows,
                               struct device_product **product);
/* Puts the product on the stream. Nothing here allocates, locks or waits; what hipBLASLt does in
 * its call is not known. */
quern_status blas_product_run(const struct device_product *product, const void *a, const void *w,
                              void *c, void *workspace, void *stream);
void blas_product_free(struct device_product *product);

#endif
