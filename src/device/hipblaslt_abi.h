/* SPDX-License-Identifier: MIT */
/*
 * The part of hipBLASLt's binary interface that is used here, declared by us: the library is
 * optional, and nothing of it is needed to build. Sources: hipblaslt/hipblaslt.h and
 * hipblas-common.h of ROCm/hipBLASLt, which kept these values from ROCm 6.0 on; the numbers of
 * hipDataType are compared with the real header in tests/fakehip/test_hip_abi.c.
 */
#ifndef QUERN_DEVICE_HIPBLASLT_ABI_H
#define QUERN_DEVICE_HIPBLASLT_ABI_H

#include <stddef.h>
#include <stdint.h>

/* hipblasStatus_t */
enum { BLAS_OK = 0, BLAS_NOT_SUPPORTED = 7 };

/* hipDataType, hipblasComputeType_t, hipblasOperation_t */
enum { BLAS_R_32F = 0, BLAS_R_16F = 2, BLAS_R_16BF = 14 };
enum { BLAS_COMPUTE_32F = 2 };
enum { BLAS_OP_N = 111, BLAS_OP_T = 112 };

/* hipblasLtMatmulDescAttributes_t, hipblasLtMatmulPreferenceAttributes_t */
enum { BLAS_DESC_TRANSA = 0, BLAS_DESC_TRANSB = 1 };
enum { BLAS_PREF_MAX_WORKSPACE_BYTES = 1 };

/*
 * Room for one hipblasLtMatmulHeuristicResult_t, which begins with the hipblasLtMatmulAlgo_t. The
 * struct has 56 bytes in ROCm 6.4 and had 64 before; what stands behind the algorithm is not read.
 */
union blas_result {
    uint64_t algorithm;
    char room[256];
};

/* Every function that is called, as (result, name, parameters). Handles are pointers; matrices are
 * stored by columns. */
#define BLAS_FUNCTIONS(X)                                                                          \
    X(int, hipblasLtCreate, (void **handle))                                                       \
    X(int, hipblasLtDestroy, (void *handle))                                                       \
    X(int, hipblasLtMatmulDescCreate, (void **desc, int compute, int scale_type))                  \
    X(int, hipblasLtMatmulDescDestroy, (void *desc))                                               \
    X(int, hipblasLtMatmulDescSetAttribute,                                                        \
      (void *desc, int attribute, const void *value, size_t size))                                 \
    X(int, hipblasLtMatrixLayoutCreate,                                                            \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride))                  \
    X(int, hipblasLtMatrixLayoutDestroy, (void *layout))                                           \
    X(int, hipblasLtMatmulPreferenceCreate, (void **preference))                                   \
    X(int, hipblasLtMatmulPreferenceDestroy, (void *preference))                                   \
    X(int, hipblasLtMatmulPreferenceSetAttribute,                                                  \
      (void *preference, int attribute, const void *value, size_t size))                           \
    X(int, hipblasLtMatmulAlgoGetHeuristic,                                                        \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,             \
       int requested, union blas_result *results, int *returned))                                  \
    X(int, hipblasLtMatmul,                                                                        \
      (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,  \
       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,   \
       const void *algorithm, void *workspace, size_t workspace_bytes, void *stream))

#endif
