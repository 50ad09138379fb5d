/* SPDX-License-Identifier: MIT */
/* src/device/hip_abi.h, and what of gpu.h is HIP's, against the real headers: what differs does not
 * compile. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "device/blas_abi.h"
#include "device/gpu.h"
#include "device/hip_abi.h"

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <hip/library_types.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(GPU_OK, hipSuccess);
SAME(GPU_OUT_OF_MEMORY, hipErrorOutOfMemory);
SAME(GPU_INVALID_FUNCTION, hipErrorInvalidDeviceFunction);
SAME(GPU_NO_DEVICE, hipErrorNoDevice);
SAME(GPU_INVALID_IMAGE, hipErrorInvalidImage);
SAME(GPU_NO_BINARY_FOR_GPU, hipErrorNoBinaryForGpu);
SAME(GPU_INVALID_PTX, hipErrorInvalidKernelFile);
SAME(GPU_SHARED_OBJECT_INIT_FAILED, hipErrorSharedObjectInitFailed);
SAME(GPU_INVALID_HANDLE, hipErrorInvalidHandle);
SAME(GPU_NOT_FOUND, hipErrorNotFound);
SAME(GPU_STREAM_CAPTURE_IMPLICIT, hipErrorStreamCaptureImplicit);
SAME(HIP_ATTRIBUTE_CLOCK_RATE, hipDeviceAttributeClockRate);
SAME(HIP_ATTRIBUTE_L2_CACHE_SIZE, hipDeviceAttributeL2CacheSize);
SAME(HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT, hipDeviceAttributeMultiprocessorCount);
SAME(GPU_CAPTURE_NONE, hipStreamCaptureStatusNone);
SAME(GPU_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed);
SAME(HIP_COPY_TO_DEVICE, hipMemcpyHostToDevice);
SAME(HIP_COPY_FROM_DEVICE, hipMemcpyDeviceToHost);
SAME(offsetof(union hip_properties, name), offsetof(hipDeviceProp_t, name));
SAME(offsetof(union hip_properties, gcn_arch_name), offsetof(hipDeviceProp_t, gcnArchName));
SAME(sizeof((union hip_properties *)0)->name, sizeof((hipDeviceProp_t *)0)->name);
SAME(sizeof((union hip_properties *)0)->gcn_arch_name, sizeof((hipDeviceProp_t *)0)->gcnArchName);
_Static_assert(sizeof(union hip_properties) >= sizeof(hipDeviceProp_t), "room");
_Static_assert(sizeof(hipError_t) == sizeof(int), "hipError_t");
_Static_assert(sizeof(hipDevice_t) == sizeof(int), "hipDevice_t");

SAME(BLAS_R_32F, HIP_R_32F);
SAME(BLAS_R_16F, HIP_R_16F);
SAME(BLAS_R_16BF, HIP_R_16BF);

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

/* The macro that the headers hide the versioned function behind, and the tags of a launch. */
static void test_names_and_tags(void **state)
{
    (void)state;
    assert_string_equal(STRING(hipGetDeviceProperties), "hipGetDevicePropertiesR0600");
    assert_ptr_equal(GPU_PARAM_BUFFER_POINTER, HIP_LAUNCH_PARAM_BUFFER_POINTER);
    assert_ptr_equal(GPU_PARAM_BUFFER_SIZE, HIP_LAUNCH_PARAM_BUFFER_SIZE);
    assert_ptr_equal(HIP_PARAM_END, HIP_LAUNCH_PARAM_END);
}

/* Initialisers of another type do not compile without a warning, and these would not link. */
static void test_launch_arguments(void **state)
{
    hipError_t (*const launch)(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, unsigned, hipStream_t, void **, void **) =
        hipModuleLaunchKernel;
    hipError_t (*const load)(hipModule_t *, const void *) = hipModuleLoadData;
    hipError_t (*const function)(hipFunction_t *, hipModule_t, const char *) = hipModuleGetFunction;
    hipError_t (*const total)(size_t *, hipDevice_t) = hipDeviceTotalMem;
    hipError_t (*const status)(hipStream_t, hipStreamCaptureStatus *) = hipStreamIsCapturing;
    hipError_t (*const elapsed)(float *, hipEvent_t, hipEvent_t) = hipEventElapsedTime;
    hipError_t (*const copy)(void *, const void *, size_t, hipMemcpyKind) = hipMemcpy;

    (void)state;
    assert_true(launch && load && function && total && status && elapsed && copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_tags),
        cmocka_unit_test(test_launch_arguments),
    };
    return cmocka_run_group_tests_name("hip_abi", tests, NULL, NULL);
}
