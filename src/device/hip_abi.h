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

/* The functions that are members of struct gpu_api (gpu.h) as they are, as X(member, function). */
#define HIP_MEMBERS(X)                                                                             \
    X(count, hipGetDeviceCount)                                                                    \
    X(attribute, hipDeviceGetAttribute)                                                            \
    X(memory, hipDeviceTotalMem)                                                                   \
    X(version, hipRuntimeGetVersion)                                                               \
    X(synchronize, hipDeviceSynchronize)                                                           \
    X(module_load, hipModuleLoadData)                                                              \
    X(module_function, hipModuleGetFunction)                                                       \
    X(module_unload, hipModuleUnload)                                                              \
    X(launch, hipModuleLaunchKernel)                                                               \
    X(is_capturing, hipStreamIsCapturing)                                                          \
    X(exchange_mode, hipThreadExchangeStreamCaptureMode)                                           \
    X(allocate, hipMalloc)                                                                         \
    X(free, hipFree)                                                                               \
    X(event_create, hipEventCreate)                                                                \
    X(event_destroy, hipEventDestroy)                                                              \
    X(event_record, hipEventRecord)                                                                \
    X(event_synchronize, hipEventSynchronize)                                                      \
    X(event_elapsed, hipEventElapsedTime)                                                          \
    X(last_error, hipGetLastError)                                                                 \
    X(error_name, hipGetErrorName)

/* The others that are called, as X(function, parameters). They return a hipError_t. */
#define HIP_FUNCTIONS(X)                                                                           \
    X(hipGetDevicePropertiesR0600, (union hip_properties * properties, int device))                \
    X(hipGetDevice, (int *device))                                                                 \
    X(hipSetDevice, (int device))                                                                  \
    X(hipMemcpy, (void *to, const void *from, size_t bytes, int kind))

#endif
