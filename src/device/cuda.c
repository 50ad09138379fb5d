/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's GPUs: the table of gpu.h from the CUDA driver, libcuda.so.1. Nothing of the CUDA runtime
 * is used. The context is the device's primary one, which the runtime, PyTorch and all other good
 * guests of a process share: it is retained and released, and never made or reset.
 */
#include "device/cuda_abi.h"
#include "device/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static struct {
#define CUDA_POINTER(name, symbol, parameters) int(*name) parameters;
    CUDA_FUNCTIONS(CUDA_POINTER)
#undef CUDA_POINTER
    int (*function_load)(void *function); /* cuFuncLoad, of CUDA 12.4 and later; or null */
} cuda;

/* ---- Functions of the table that CUDA has not as they are ------------------------------------ */

/* A number among the devices as the driver's handle, which is another number. */
static int handle_of(int *device, int index)
{
    return cuda.device(device, index);
}

static int name_of(char *text, size_t size, int index)
{
    int device;
    const int error = handle_of(&device, index);

    return error ? error : cuda.name(text, (int)size, device);
}

static int attribute_of(int *value, int attribute, int index)
{
    int device;
    const int error = handle_of(&device, index);

    return error ? error : cuda.attribute(value, attribute, device);
}

static int target_of(char *text, size_t size, int index)
{
    int major = 0, minor = 0, error = attribute_of(&major, CUDA_COMPUTE_CAPABILITY_MAJOR, index);

    if (!error)
        error = attribute_of(&minor, CUDA_COMPUTE_CAPABILITY_MINOR, index);
    snprintf(text, size, "sm_%d%d", major, minor);
    return error;
}

static int memory_of(size_t *bytes, int index)
{
    int device;
    const int error = handle_of(&device, index);

    return error ? error : cuda.memory(bytes, device);
}

static int retain(void **context, int index)
{
    int device;
    const int error = handle_of(&device, index);

    return error ? error : cuda.retain(context, device);
}

static int release(int index)
{
    int device;
    const int error = handle_of(&device, index);

    return error ? error : cuda.release(device);
}

/*
 * A driver that loads lazily puts a kernel into the context when it is first launched, which a
 * stream that is being captured would not forgive: cuFuncLoad does it now. What older drivers have
 * instead, cuModuleGetFunction, has been called.
 */
static int prepare(void *function, unsigned lds_bytes)
{
    const int error =
        lds_bytes
            ? cuda.function_attribute(function, CUDA_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)lds_bytes)
            : GPU_OK;

    return error || !cuda.function_load ? error : cuda.function_load(function);
}

/* Work of the stream after which a launch may begin early is whatever kernel stands in front of it,
 * as soon as all blocks of that one have said so or ended; other work it begins behind, as usual. A
 * stream that is being captured records the same. */
static int launch_early(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned lds_bytes,
                        void *stream, void **parameters, void **extra)
{
    struct cuda_launch_attribute early = {.id = CUDA_PROGRAMMATIC_STREAM_SERIALIZATION,
                                          .value.flag = 1};
    const struct cuda_launch_config config = {.grid = {grid_x, grid_y, grid_z},
                                              .block = {block_x, block_y, block_z},
                                              .shared_bytes = lds_bytes,
                                              .stream = stream,
                                              .attributes = &early,
                                              .attribute_count = 1};

    return cuda.launch_config(&config, function, parameters, extra);
}

static int event_create(void **event)
{
    return cuda.event_create(event, 0);
}

/* The driver keeps no thread's last error. */
static int last_error(void)
{
    return GPU_OK;
}

static const char *error_name(int error)
{
    const char *name = NULL;

    return cuda.error_name(error, &name) ? NULL : name;
}

static const char *fill(void *handle, struct gpu_api *api)
{
    void *address;

    *api = (struct gpu_api){
        .name = name_of,
        .target = target_of,
        .attribute = attribute_of,
        .memory = memory_of,
        .retain = retain,
        .release = release,
        .prepare = prepare,
        .launch_early = launch_early,
        .event_create = event_create,
        .last_error = last_error,
        .error_name = error_name,
    };
#define CUDA_LOAD(member, symbol) GPU_LOAD(api->member, #symbol)
    CUDA_MEMBERS(CUDA_LOAD)
#undef CUDA_LOAD
#define CUDA_LOAD(name, symbol, parameters) GPU_LOAD(cuda.name, #symbol)
    CUDA_FUNCTIONS(CUDA_LOAD)
#undef CUDA_LOAD
    address = dlsym(handle, "cuFuncLoad");
    memcpy(&cuda.function_load, &address, sizeof address);
    return NULL;
}

/* ---- The runtime ----------------------------------------------------------------------------- */

static int start(void)
{
    return cuda.init(0);
}

/* Which errors destroy the context: what was in it is lost, and only a new process has another. */
static bool is_final(int error)
{
    switch (error) {
    case CUDA_ECC_UNCORRECTABLE:
    case CUDA_ILLEGAL_ADDRESS:
    case CUDA_LAUNCH_TIMEOUT:
    case CUDA_CONTEXT_IS_DESTROYED:
    case CUDA_ASSERT:
    case CUDA_HARDWARE_STACK_ERROR:
    case CUDA_ILLEGAL_INSTRUCTION:
    case CUDA_MISALIGNED_ADDRESS:
    case CUDA_INVALID_ADDRESS_SPACE:
    case CUDA_INVALID_PC:
    case CUDA_LAUNCH_FAILED:
    case CUDA_TENSOR_MEMORY_LEAK:
        return true;
    default:
        return false;
    }
}

#define CUDA_NAME(name, parameters, hip, cuda) cuda,
static const char *const calls[] = {GPU_CALLS(CUDA_NAME)};
#undef CUDA_NAME
static const char *const names[] = {"libcuda.so.1", NULL};
static const char *const places[] = {"/lib64", "/lib", "", NULL};
/* the kernel driver's, and that of WSL 2 */
static const char *const nodes[] = {"/dev/nvidiactl", "/dev/dxg", NULL};

/* The driver's own directory under WSL 2. Elsewhere the library is on the loader's path. */
static bool roots(bool (*look)(void *user, const char *root), void *user)
{
    return look(user, "/usr/lib/wsl");
}

static const struct gpu_runtime runtime = {
    .driver = &driver_nvidia,
    .calls = calls,
    .names = names,
    .stem = "libcuda.so",
    .places = places,
    .nodes = nodes,
    .needed = "the driver of CUDA 12 or later is needed",
    .missing = "no libcuda.so.1 that can be loaded, which NVIDIA's driver brings: not in this "
               "process, the loader's path or /usr/lib/wsl/lib",
    .no_device_hint = "; the driver sees no GPU (CUDA_VISIBLE_DEVICES, and access to /dev/nvidia*)",
    .wrong_device_hint = "; the stream must be one of the context's device, and that device's "
                         "primary context the thread's current one (cudaSetDevice)",
    .fill = fill,
    .start = start,
    .roots = roots,
    .is_final = is_final,
    .units = CUDA_MULTIPROCESSOR_COUNT,
    .clock_khz = CUDA_CLOCK_RATE,
    .cache_bytes = CUDA_L2_CACHE_SIZE,
    .param_end = CUDA_PARAM_END,
    .blas = &blas_nvidia,
};

const struct device_driver driver_nvidia = {
    .vendor = "NVIDIA",
    .name = "cuda",
    .runtime = "CUDA",
    .number = QUERN_DEVICE_CUDA,
    .gpu = &runtime,
    .open = gpu_open,
    .count = gpu_count,
    .present = gpu_present,
};
