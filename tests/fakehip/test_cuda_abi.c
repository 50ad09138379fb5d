/* SPDX-License-Identifier: MIT */
/* src/device/cuda_abi.h, and what of gpu.h is the CUDA driver's, against the real cuda.h: what
 * differs does not compile. Where there is no cuda.h the test is skipped; with CI=true it fails. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "device/cuda_abi.h"
#include "device/gpu.h"

#include <stdlib.h>
#include <string.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(GPU_OK, CUDA_SUCCESS);
SAME(GPU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(GPU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(GPU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(GPU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(GPU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(GPU_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME(GPU_SHARED_OBJECT_INIT_FAILED, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
SAME(GPU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(GPU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(GPU_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(CUDA_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(CUDA_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(CUDA_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(CUDA_ASSERT, CUDA_ERROR_ASSERT);
SAME(CUDA_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(CUDA_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(CUDA_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(CUDA_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(CUDA_INVALID_PC, CUDA_ERROR_INVALID_PC);
SAME(CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
#if CUDA_VERSION >= 12090
SAME(CUDA_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
SAME(CUDA_CLOCK_RATE, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(CUDA_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CUDA_L2_CACHE_SIZE, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(CUDA_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CUDA_COMPUTE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CUDA_PROGRAMMATIC_STREAM_SERIALIZATION, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
_Static_assert(sizeof(struct cuda_launch_attribute) == sizeof(CUlaunchAttribute) &&
                   offsetof(struct cuda_launch_attribute, value) ==
                       offsetof(CUlaunchAttribute, value),
               "attributes of launches");
#define CONFIG(ours, theirs)                                                                       \
    _Static_assert(offsetof(struct cuda_launch_config, ours) == offsetof(CUlaunchConfig, theirs),  \
                   #theirs)
CONFIG(grid, gridDimX);
CONFIG(block, blockDimX);
CONFIG(shared_bytes, sharedMemBytes);
CONFIG(stream, hStream);
CONFIG(attributes, attrs);
CONFIG(attribute_count, numAttrs);
_Static_assert(sizeof(struct cuda_launch_config) == sizeof(CUlaunchConfig), "a launch");
SAME(CUDA_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(GPU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(GPU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
_Static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUdevice) == sizeof(int), "ints");
_Static_assert(sizeof(CUdeviceptr) == sizeof(void *), "an address is passed as a pointer is");
_Static_assert(sizeof(CUstreamCaptureStatus) == sizeof(int) &&
                   sizeof(CUstreamCaptureMode) == sizeof(int),
               "written through pointers to int");

/* Functions as cuda.h declares them. None is called, and no driver linked. */
#define TAKES(function, ...)                                                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(function), CUresult(__VA_ARGS__)),      \
                   #function)
TAKES(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
      unsigned, CUstream, void **, void **);
TAKES(cuLaunchKernelEx, const CUlaunchConfig *, CUfunction, void **, void **);
TAKES(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice);
TAKES(cuInit, unsigned);
TAKES(cuDeviceGetName, char *, int, CUdevice);
TAKES(cuDeviceGetAttribute, int *, CUdevice_attribute, CUdevice);
TAKES(cuDeviceTotalMem, size_t *, CUdevice);
TAKES(cuModuleLoadData, CUmodule *, const void *);
TAKES(cuModuleGetFunction, CUfunction *, CUmodule, const char *);
TAKES(cuFuncSetAttribute, CUfunction, CUfunction_attribute, int);
TAKES(cuStreamIsCapturing, CUstream, CUstreamCaptureStatus *);
TAKES(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *);
TAKES(cuMemAlloc, CUdeviceptr *, size_t);
TAKES(cuMemcpyHtoD, CUdeviceptr, const void *, size_t);
TAKES(cuMemcpyDtoH, void *, CUdeviceptr, size_t);
TAKES(cuEventCreate, CUevent *, unsigned);
TAKES(cuEventElapsedTime, float *, CUevent, CUevent);
TAKES(cuGetErrorName, CUresult, const char **);

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

/* The macros that the header hides versioned functions behind, and the tags of a launch. */
static void test_names_and_tags(void **state)
{
    (void)state;
    assert_string_equal(STRING(cuDeviceTotalMem), "cuDeviceTotalMem_v2");
    assert_string_equal(STRING(cuDevicePrimaryCtxRelease), "cuDevicePrimaryCtxRelease_v2");
    assert_string_equal(STRING(cuMemAlloc), "cuMemAlloc_v2");
    assert_string_equal(STRING(cuMemFree), "cuMemFree_v2");
    assert_string_equal(STRING(cuMemcpyHtoD), "cuMemcpyHtoD_v2");
    assert_string_equal(STRING(cuMemcpyDtoH), "cuMemcpyDtoH_v2");
    assert_ptr_equal(GPU_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_POINTER);
    assert_ptr_equal(GPU_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_BUFFER_SIZE);
    assert_ptr_equal(CUDA_PARAM_END, CU_LAUNCH_PARAM_END);
}
#else
static void test_names_and_tags(void **state)
{
    const char *const ci = getenv("CI");

    (void)state;
    if (ci && !strcmp(ci, "true"))
        fail_msg("no cuda.h; `make setup-cuda` fetches it");
    print_message("skipped: no cuda.h; set CUDA_PATH to a CUDA toolkit\n");
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names_and_tags)};

    return cmocka_run_group_tests_name("cuda_abi", tests, NULL, NULL);
}
