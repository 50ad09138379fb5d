/* SPDX-License-Identifier: MIT */
/*
 * The part of the binary interface of hipBLASLt and of cuBLASLt that is used here, declared by us:
 * the libraries are optional, and nothing of them is needed to build. They have the same functions
 * under prefixes of their own, and numbers that differ, which are in struct blas_library (blas.h).
 * Sources: hipblaslt/hipblaslt.h and hipblas-common.h of ROCm/hipBLASLt, which kept these values
 * from ROCm 6.0 on (the numbers of hipDataType are compared with the real header in
 * tests/fakehip/test_hip_abi.c); cublasLt.h, cublas_api.h and library_types.h of CUDA 12 and 13.
 */
#ifndef QUERN_DEVICE_BLAS_ABI_H
#define QUERN_DEVICE_BLAS_ABI_H

#include <stddef.h>
#include <stdint.h>

/* hipblasStatus_t, cublasStatus_t */
enum { BLAS_OK = 0 };

/* hipDataType, cudaDataType_t */
enum { BLAS_R_32F = 0, BLAS_R_16F = 2, BLAS_R_16BF = 14 };

/* hipblasStatus_t, hipblasComputeType_t, hipblasOperation_t, hipblasLtMatmulDescAttributes_t */
enum { HIPBLAS_NOT_SUPPORTED = 7 };
enum { HIPBLAS_COMPUTE_32F = 2 };
enum { HIPBLAS_OP_N = 111, HIPBLAS_OP_T = 112 };
enum { HIPBLAS_DESC_TRANSA = 0, HIPBLAS_DESC_TRANSB = 1 };
/* cublasStatus_t, cublasComputeType_t, cublasOperation_t, cublasLtMatmulDescAttributes_t */
enum { CUBLAS_NOT_SUPPORTED = 15 };
enum { CUBLAS_COMPUTE_32F = 68 };
enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { CUBLAS_DESC_TRANSA = 3, CUBLAS_DESC_TRANSB = 4 };

/* hipblasLtMatmulPreferenceAttributes_t, cublasLtMatmulPreferenceAttributes_t */
enum { BLAS_PREF_MAX_WORKSPACE_BYTES = 1 };

/*
 * Room for one heuristic result, which begins with the algorithm: of hipBLASLt 56 bytes in ROCm 6.4
 * and 64 before, of cuBLASLt 96. What stands behind the algorithm is not read.
 */
union blas_result {
    uint64_t algorithm;
    char room[256];
};

/* A matrix's description in the caller's memory: cublasLtMatrixLayoutOpaque_t. cuBLASLt's header
 * has an inline function for that, which calls the library's under this name; hipBLASLt has
 * none. */
struct blas_layout {
    uint64_t data[8];
};
typedef int blas_layout_init(struct blas_layout *layout, size_t size, int type, uint64_t rows,
                             uint64_t columns, int64_t stride);
#define CUBLAS_LAYOUT_INIT "cublasLtMatrixLayoutInit_internal"

/* Every function that is called, as (result, name behind the prefix, parameters). Handles are
 * pointers; matrices are stored by columns. */
#define BLAS_FUNCTIONS(X)                                                                          \
    X(int, Create, (void **handle))                                                                \
    X(int, Destroy, (void *handle))                                                                \
    X(int, MatmulDescCreate, (void **desc, int compute, int scale_type))                           \
    X(int, MatmulDescDestroy, (void *desc))                                                        \
    X(int, MatmulDescSetAttribute, (void *desc, int attribute, const void *value, size_t size))    \
    X(int, MatrixLayoutCreate,                                                                     \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride))                  \
    X(int, MatrixLayoutDestroy, (void *layout))                                                    \
    X(int, MatmulPreferenceCreate, (void **preference))                                            \
    X(int, MatmulPreferenceDestroy, (void *preference))                                            \
    X(int, MatmulPreferenceSetAttribute,                                                           \
      (void *preference, int attribute, const void *value, size_t size))                           \
    X(int, MatmulAlgoGetHeuristic,                                                                 \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,             \
       int requested, union blas_result *results, int *returned))                                  \
    X(int, Matmul,                                                                                 \
      (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,  \
       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,   \
       const void *algorithm, void *workspace, size_t workspace_bytes, void *stream))

#endif
