/* SPDX-License-Identifier: MIT */
/*
 * The part of the HIP runtime's binary interface that is used here, declared by us so that nothing
 * of ROCm is needed to build. Source: hip/hip_runtime_api.h of ROCm 6.4; the values are the same in
 * ROCm 6.0 to 7.x, whose soname says so. tests/fakehip/test_hip_abi.c compares every one of them
 * with the real header.
 */
#ifndef QUERN_DEVICE_HIP_ABI_H
#define QUERN_DEVICE_HIP_ABI_H

#include <stddef.h>

/* hipDeviceAttribute_t */
enum hip_attribute {
    HIP_ATTRIBUTE_CLOCK_RATE = 5, /* kHz */
    HIP_ATTRIBUTE_L2_CACHE_SIZE = 19,
    HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT = 63,
};

/* hipMemcpyKind */
enum { HIP_COPY_TO_DEVICE = 1, HIP_COPY_FROM_DEVICE = 2 };

/* HIP_LAUNCH_PARAM_END; the tags before it are in gpu.h. */
#define HIP_PARAM_END ((void *)3)

/*
 * hipDeviceProp_t as hipGetDevicePropertiesR0600 fills it: two members, at their places. The struct
 * has 1472 bytes in ROCm 6; the rest is room for a longer one. (The function without the suffix
 * fills the shorter struct of ROCm 5.)
 */
union hip_properties {
    char name[256];
    struct {
        char before[1160];
        char gcn_arch_name[256]; /* "gfx942:sramecc+:xnack-" */
    };
    char room[8192];
};

/* Every function that is called, as (result, name, parameters). Handles are pointers. */
#define HIP_FUNCTIONS(X)                                                                           \
    X(int, hipGetDeviceCount, (int *count))                                                        \
    X(int, hipGetDevicePropertiesR0600, (union hip_properties * properties, int device))           \
    X(int, hipDeviceGetAttribute, (int *value, int attribute, int device))                         \
    X(int, hipDeviceTotalMem, (size_t *bytes, int device))                                         \
    X(int, hipRuntimeGetVersion, (int *version))                                                   \
    X(int, hipGetDevice, (int *device))                                                            \
    X(int, hipSetDevice, (int device))                                                             \
    X(int, hipDeviceSynchronize, (void))                                                           \
    X(int, hipModuleLoadData, (void **module, const void *image))                                  \
    X(int, hipModuleGetFunction, (void **function, void *module, const char *name))                \
    X(int, hipModuleUnload, (void *module))                                                        \
    X(int, hipModuleLaunchKernel,                                                                  \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
       unsigned block_y, unsigned block_z, unsigned lds_bytes, void *stream, void **parameters,    \
       void **extra))                                                                              \
    X(int, hipStreamIsCapturing, (void *stream, int *status))                                      \
    X(int, hipThreadExchangeStreamCaptureMode, (int *mode))                                        \
    X(int, hipMalloc, (void **address, size_t bytes))                                              \
    X(int, hipFree, (void *address))                                                               \
    X(int, hipMemcpy, (void *to, const void *from, size_t bytes, int kind))                        \
    X(int, hipEventCreate, (void **event))                                                         \
    X(int, hipEventDestroy, (void *event))                                                         \
    X(int, hipEventRecord, (void *event, void *stream))                                            \
    X(int, hipEventSynchronize, (void *event))                                                     \
    X(int, hipEventElapsedTime, (float *milliseconds, void *start, void *stop))                    \
    X(int, hipGetLastError, (void))                                                                \
    X(const char *, hipGetErrorName, (int error))

#endif
