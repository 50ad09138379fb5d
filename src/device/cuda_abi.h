/* SPDX-License-Identifier: MIT */
/*
 * The part of the CUDA driver's binary interface that is used here, declared by us so that nothing
 * of CUDA is needed to build. Source: cuda.h of CUDA 12.9 and 13.0, in which the values are the
 * same; symbols with _v2 are what cuda.h calls by the name without.
 */
#ifndef QUERN_DEVICE_CUDA_ABI_H
#define QUERN_DEVICE_CUDA_ABI_H

#include <stddef.h>

/* CUresult: those that destroy the context, beyond what enum gpu_error (gpu.h) has. */
enum cuda_error {
    CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_LAUNCH_TIMEOUT = 702,
    CUDA_CONTEXT_IS_DESTROYED = 709,
    CUDA_ASSERT = 710,
    CUDA_HARDWARE_STACK_ERROR = 714,
    CUDA_ILLEGAL_INSTRUCTION = 715,
    CUDA_MISALIGNED_ADDRESS = 716,
    CUDA_INVALID_ADDRESS_SPACE = 717,
    CUDA_INVALID_PC = 718,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_TENSOR_MEMORY_LEAK = 721,
};

/* CUdevice_attribute */
enum cuda_attribute {
    CUDA_CLOCK_RATE = 13, /* kHz */
    CUDA_MULTIPROCESSOR_COUNT = 16,
    CUDA_L2_CACHE_SIZE = 38,
    CUDA_COMPUTE_CAPABILITY_MAJOR = 75,
    CUDA_COMPUTE_CAPABILITY_MINOR = 76,
};

/* CUfunction_attribute */
enum { CUDA_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };

/* CUlaunchConfig and CUlaunchAttribute, of launches that have more to say than a grid. */
struct cuda_launch_attribute {
    int id; /* enum cuda_launch_attribute_id */
    char padding[8 - sizeof(int)];
    union {
        char bytes[64];
        int flag;
    } value;
};
enum cuda_launch_attribute_id { CUDA_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
struct cuda_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    struct cuda_launch_attribute *attributes;
    unsigned attribute_count;
};

/* CU_LAUNCH_PARAM_END */
#define CUDA_PARAM_END ((void *)0)

/*
 * The functions that are members of struct gpu_api (gpu.h) as they are, as X(member, symbol). All
 * that are called return a CUresult. Handles are pointers, but for CUdevice, an int. CUdeviceptr is
 * a 64-bit integer, passed as a pointer is.
 */
#define CUDA_MEMBERS(X)                                                                            \
    X(count, cuDeviceGetCount)                                                                     \
    X(version, cuDriverGetVersion)                                                                 \
    X(get_current, cuCtxGetCurrent)                                                                \
    X(set_current, cuCtxSetCurrent)                                                                \
    X(synchronize, cuCtxSynchronize)                                                               \
    X(module_load, cuModuleLoadData)                                                               \
    X(module_function, cuModuleGetFunction)                                                        \
    X(module_unload, cuModuleUnload)                                                               \
    X(launch, cuLaunchKernel)                                                                      \
    X(is_capturing, cuStreamIsCapturing)                                                           \
    X(exchange_mode, cuThreadExchangeStreamCaptureMode)                                            \
    X(allocate, cuMemAlloc_v2)                                                                     \
    X(free, cuMemFree_v2)                                                                          \
    X(copy_to, cuMemcpyHtoD_v2)                                                                    \
    X(copy_from, cuMemcpyDtoH_v2)                                                                  \
    X(event_destroy, cuEventDestroy_v2)                                                            \
    X(event_record, cuEventRecord)                                                                 \
    X(event_synchronize, cuEventSynchronize)                                                       \
    X(event_elapsed, cuEventElapsedTime)

/* The others, as X(name, symbol, parameters). */
#define CUDA_FUNCTIONS(X)                                                                          \
    X(init, cuInit, (unsigned flags))                                                              \
    X(device, cuDeviceGet, (int *device, int index))                                               \
    X(name, cuDeviceGetName, (char *name, int size, int device))                                   \
    X(attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                    \
    X(memory, cuDeviceTotalMem_v2, (size_t *bytes, int device))                                    \
    X(retain, cuDevicePrimaryCtxRetain, (void **context, int device))                              \
    X(release, cuDevicePrimaryCtxRelease_v2, (int device))                                         \
    X(function_attribute, cuFuncSetAttribute, (void *function, int attribute, int value))          \
    X(launch_config, cuLaunchKernelEx,                                                             \
      (const struct cuda_launch_config *config, void *function, void **parameters, void **extra))  \
    X(event_create, cuEventCreate, (void **event, unsigned flags))                                 \
    X(error_name, cuGetErrorName, (int error, const char **name))

#endif
