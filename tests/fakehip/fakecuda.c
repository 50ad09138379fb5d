/* SPDX-License-Identifier: MIT */
/*
 * fakecuda: a libcuda.so.1 of ours, made of fakehip's devices, streams, events, graphs, memory and
 * planned failures behind the names and rules of the CUDA driver: it wants to be initialised, and a
 * current context, which is a device's primary one; a process that was forked has none; dynamic
 * shared memory above 48 KiB wants an attribute. Errors have the numbers of HIP, which are CUDA's.
 * Kernels are checked as the driver checks them, and their texts run on the CPU (run_text.c).
 * FAKECUDA_DEVICES lists the GPUs, "sm_90,sm_80"; default one sm_90. Tests plan failures by the
 * names of HIP's functions.
 */
#include "device/cuda_abi.h"
#include "device/gpu.h"
#include "fake.h"
#include "fakecuda.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CUDA_API __attribute__((visibility("default")))

const char fake_variable[] = "FAKECUDA_DEVICES", fake_default[] = "sm_90";

enum { NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, STATIC_SHARED_MAX = 48 << 10 };

static _Atomic pid_t initialised; /* the process that cuInit was called in; 0: none */
static atomic_int retained[FAKE_DEVICES_MAX];
static _Thread_local int current = -1; /* the device whose context is the thread's; -1: none */

int fakecuda_retained(int device)
{
    return atomic_load(&retained[device]);
}

/* Whether this process may call the driver. */
#define NEED_START()                                                                               \
    do {                                                                                           \
        if (atomic_load(&initialised) != getpid())                                                 \
            return NOT_INITIALIZED;                                                                \
    } while (0)
/* And the thread has a context, in which HIP's function is called. */
#define NEED_CONTEXT()                                                                             \
    do {                                                                                           \
        NEED_START();                                                                              \
        if (current < 0)                                                                           \
            return INVALID_CONTEXT;                                                                \
        fake_current = current;                                                                    \
    } while (0)

/* Everything is declared as cuda_abi.h and gpu.h say it is. */
#define DECLARE(member, symbol) CUDA_API __typeof__(*((struct gpu_api *)0)->member) symbol;
CUDA_MEMBERS(DECLARE)
#undef DECLARE
#define DECLARE(name, symbol, parameters) CUDA_API int symbol parameters;
CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

int cuInit(unsigned flags)
{
    if (flags)
        return hipErrorInvalidValue;
    pid_t none = 0;
    if (!atomic_compare_exchange_strong(&initialised, &none, getpid()) && none != getpid())
        return NOT_INITIALIZED;
    return fake_device_count() ? hipSuccess : hipErrorNoDevice;
}

/* ---- Devices --------------------------------------------------------------------------------- */

/* Handles are other numbers than places in the list, as they may be. */
#define HANDLE(index) ((index) + 40)

int cuDriverGetVersion(int *version)
{
    *version = 12090;
    return hipSuccess;
}

int cuDeviceGetCount(int *count)
{
    NEED_START();
    return hipGetDeviceCount(count);
}

int cuDeviceGet(int *device, int index)
{
    NEED_START();
    if (index < 0 || index >= fake_device_count())
        return hipErrorInvalidDevice;
    *device = HANDLE(index);
    return hipSuccess;
}

int cuDeviceGetName(char *name, int size, int device)
{
    hipDeviceProp_tR0600 p;

    NEED_START();
    const hipError_t error = hipGetDevicePropertiesR0600(&p, device - HANDLE(0));
    if (error == hipSuccess)
        snprintf(name, (size_t)size, "%s", p.name);
    return error;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const int index = device - HANDLE(0);

    NEED_START();
    if (index < 0 || index >= fake_device_count())
        return hipErrorInvalidDevice;
    const unsigned machine = fake_devices[index].id.target->elf_machine;
    switch (attribute) {
    case CUDA_CLOCK_RATE:
        return hipDeviceGetAttribute(value, hipDeviceAttributeClockRate, index);
    case CUDA_MULTIPROCESSOR_COUNT:
        return hipDeviceGetAttribute(value, hipDeviceAttributeMultiprocessorCount, index);
    case CUDA_L2_CACHE_SIZE:
        return hipDeviceGetAttribute(value, hipDeviceAttributeL2CacheSize, index);
    case CUDA_COMPUTE_CAPABILITY_MAJOR:
        *value = (int)machine / 10;
        return hipSuccess;
    case CUDA_COMPUTE_CAPABILITY_MINOR:
        *value = (int)machine % 10;
        return hipSuccess;
    default:
        return hipErrorInvalidValue;
    }
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    NEED_START();
    return hipDeviceTotalMem(bytes, device - HANDLE(0));
}

/* ---- Contexts -------------------------------------------------------------------------------- */

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    const int index = device - HANDLE(0);

    NEED_START();
    if (index < 0 || index >= fake_device_count())
        return hipErrorInvalidDevice;
    atomic_fetch_add(&retained[index], 1);
    *context = &fake_devices[index];
    return hipSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    const int index = device - HANDLE(0);

    NEED_START();
    if (index < 0 || index >= fake_device_count() || !atomic_load(&retained[index]))
        return INVALID_CONTEXT;
    atomic_fetch_sub(&retained[index], 1);
    return hipSuccess;
}

int cuCtxGetCurrent(void **context)
{
    NEED_START();
    *context = current < 0 ? NULL : &fake_devices[current];
    return hipSuccess;
}

int cuCtxSetCurrent(void *context)
{
    NEED_START();
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        if (context == &fake_devices[i] && atomic_load(&retained[i])) {
            current = i;
            return hipSuccess;
        }
    if (context)
        return INVALID_CONTEXT;
    current = -1;
    return hipSuccess;
}

int cuCtxGetDevice(int *device)
{
    NEED_CONTEXT();
    *device = HANDLE(current);
    return hipSuccess;
}

int cuCtxSynchronize(void)
{
    NEED_CONTEXT();
    return hipDeviceSynchronize();
}

/* ---- Kernels --------------------------------------------------------------------------------- */

int cuModuleLoadData(void **module, const void *image)
{
    NEED_CONTEXT();
    return hipModuleLoadData((hipModule_t *)module, image);
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    NEED_CONTEXT();
    return hipModuleGetFunction((hipFunction_t *)function, module, name);
}

int cuModuleUnload(void *module)
{
    NEED_CONTEXT();
    return hipModuleUnload(module);
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    struct ihipModuleSymbol_t *const f = function;

    NEED_CONTEXT();
    if (attribute != CUDA_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        (unsigned)value > f->module->device->id.target->lds_bytes)
        return hipErrorInvalidValue;
    f->dynamic_max = (unsigned)value;
    return hipSuccess;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned lds_bytes, void *stream, void **parameters, void **extra)
{
    const struct ihipModuleSymbol_t *const f = function;

    NEED_CONTEXT();
    const unsigned most = f->dynamic_max > STATIC_SHARED_MAX ? f->dynamic_max : STATIC_SHARED_MAX;
    if (!extra || extra[4] != CUDA_PARAM_END || lds_bytes > most)
        return hipErrorInvalidValue;
    void *of_hip[] = {extra[0], extra[1], extra[2], extra[3], HIP_LAUNCH_PARAM_END};
    return hipModuleLaunchKernel(function, gx, gy, gz, bx, by, bz, lds_bytes, stream, parameters,
                                 of_hip);
}

static atomic_uint early_launches;

unsigned fakecuda_early_launches(void)
{
    return atomic_load(&early_launches);
}

int cuLaunchKernelEx(const struct cuda_launch_config *config, void *function, void **parameters,
                     void **extra)
{
    const struct cuda_launch_attribute *const a = config->attributes;
    const unsigned *const grid = config->grid, *const block = config->block;

    if (config->attribute_count != 1 || a->id != CUDA_PROGRAMMATIC_STREAM_SERIALIZATION ||
        a->value.flag != 1)
        return hipErrorInvalidValue;
    const int error =
        cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                       config->shared_bytes, config->stream, parameters, extra);
    if (error == hipSuccess)
        atomic_fetch_add(&early_launches, 1);
    return error;
}

/* ---- Streams, memory, events ----------------------------------------------------------------- */

int cuStreamIsCapturing(void *stream, int *status)
{
    hipStreamCaptureStatus of_hip = hipStreamCaptureStatusNone;

    NEED_CONTEXT();
    const hipError_t error = hipStreamIsCapturing(stream, &of_hip);
    *status = (int)of_hip;
    return error;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    hipStreamCaptureMode of_hip = (hipStreamCaptureMode)*mode;

    NEED_START();
    const hipError_t error = hipThreadExchangeStreamCaptureMode(&of_hip);
    *mode = (int)of_hip;
    return error;
}

int cuMemAlloc_v2(void **address, size_t bytes)
{
    NEED_CONTEXT();
    return hipMalloc(address, bytes);
}

int cuMemFree_v2(void *address)
{
    NEED_CONTEXT();
    return hipFree(address);
}

int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes)
{
    NEED_CONTEXT();
    return hipMemcpy(to, from, bytes, hipMemcpyHostToDevice);
}

int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes)
{
    NEED_CONTEXT();
    return hipMemcpy(to, from, bytes, hipMemcpyDeviceToHost);
}

int cuEventCreate(void **event, unsigned flags)
{
    NEED_CONTEXT();
    return flags ? hipErrorInvalidValue : hipEventCreate((hipEvent_t *)event);
}

int cuEventDestroy_v2(void *event)
{
    NEED_CONTEXT();
    return hipEventDestroy(event);
}

int cuEventRecord(void *event, void *stream)
{
    NEED_CONTEXT();
    return hipEventRecord(event, stream);
}

int cuEventSynchronize(void *event)
{
    NEED_CONTEXT();
    return hipEventSynchronize(event);
}

int cuEventElapsedTime(float *milliseconds, void *start, void *stop)
{
    NEED_CONTEXT();
    return hipEventElapsedTime(milliseconds, start, stop);
}

int cuGetErrorName(int error, const char **name)
{
    static const struct {
        int error;
        const char *name;
    } known[] = {
        {hipErrorInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
        {hipErrorOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
        {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {hipErrorNoDevice, "CUDA_ERROR_NO_DEVICE"},
        {hipErrorInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {hipErrorNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {hipErrorInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
        {hipErrorNotFound, "CUDA_ERROR_NOT_FOUND"},
        {hipErrorLaunchFailure, "CUDA_ERROR_LAUNCH_FAILED"},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == error) {
            *name = known[i].name;
            return hipSuccess;
        }
    return hipErrorInvalidValue;
}

/* ---- What hosts call, and the library does not ----------------------------------------------- */

int cuStreamCreate(void **stream, unsigned flags)
{
    NEED_CONTEXT();
    return hipStreamCreateWithFlags((hipStream_t *)stream, flags);
}

int cuStreamDestroy_v2(void *stream)
{
    NEED_CONTEXT();
    return hipStreamDestroy(stream);
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    NEED_CONTEXT();
    return hipStreamBeginCapture(stream, (hipStreamCaptureMode)mode);
}

int cuStreamEndCapture(void *stream, void **graph)
{
    NEED_CONTEXT();
    return hipStreamEndCapture(stream, (hipGraph_t *)graph);
}

int cuStreamSynchronize(void *stream)
{
    NEED_CONTEXT();
    return hipStreamSynchronize(stream);
}

int cuLaunchHostFunc(void *stream, void (*function)(void *), void *user)
{
    NEED_CONTEXT();
    return hipLaunchHostFunc(stream, function, user);
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    NEED_CONTEXT();
    return flags ? hipErrorInvalidValue
                 : hipGraphInstantiate((hipGraphExec_t *)exec, graph, NULL, NULL, 0);
}

int cuGraphLaunch(void *exec, void *stream)
{
    NEED_CONTEXT();
    return hipGraphLaunch(exec, stream);
}

int cuGraphExecDestroy(void *exec)
{
    NEED_START();
    return hipGraphExecDestroy(exec);
}

int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
    NEED_CONTEXT();
    return hipMemcpyAsync(to, from, bytes, hipMemcpyHostToDevice, stream);
}

int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream)
{
    NEED_CONTEXT();
    return hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToHost, stream);
}

/* CUfunction_attribute: threads, static shared memory, local memory, registers, machine. */
int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    const struct ihipModuleSymbol_t *const f = function;
    const int of_kernel[] = {(int)f->kernel->max_flat_workgroup,
                             (int)f->kernel->lds_bytes,
                             0,
                             (int)f->kernel->scratch_bytes,
                             (int)f->kernel->vgprs,
                             0,
                             (int)f->module->object.target->elf_machine};

    NEED_CONTEXT();
    if (attribute < 0 || (size_t)attribute >= sizeof of_kernel / sizeof *of_kernel)
        return hipErrorInvalidValue;
    *value = of_kernel[attribute];
    return hipSuccess;
}

int cuGraphDestroy(void *graph)
{
    NEED_START();
    return hipGraphDestroy(graph);
}
