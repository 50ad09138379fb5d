/* SPDX-License-Identifier: MIT */
/* AMD's GPUs: the table of gpu.h from the HIP runtime, and where that is looked for. */
#include "base/installed.h"
#include "device/gpu.h"
#include "device/hip_abi.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct {
#define HIP_POINTER(name, parameters) int(*name) parameters;
    HIP_FUNCTIONS(HIP_POINTER)
#undef HIP_POINTER
} hip;

/* ---- Functions of the table that HIP has not as they are ------------------------------------- */

static int name_of(char *text, size_t size, int device)
{
    union hip_properties properties = {{0}};
    const int error = hip.hipGetDevicePropertiesR0600(&properties, device);

    snprintf(text, size, "%.*s", (int)sizeof properties.name - 1, properties.name);
    return error;
}

static int target_of(char *text, size_t size, int device)
{
    union hip_properties properties = {{0}};
    const int error = hip.hipGetDevicePropertiesR0600(&properties, device);

    snprintf(text, size, "%.*s", (int)sizeof properties.gcn_arch_name - 1,
             properties.gcn_arch_name);
    return error;
}

/* A device's context, as a value: its number. The runtime keeps contexts to itself. */
static int retain(void **context, int device)
{
    *context = (void *)(intptr_t)device;
    return GPU_OK;
}

static int release(int device)
{
    (void)device;
    return GPU_OK;
}

static int get_current(void **context)
{
    int device = 0;
    const int error = hip.hipGetDevice(&device);

    *context = (void *)(intptr_t)device;
    return error;
}

static int set_current(void *context)
{
    return hip.hipSetDevice((int)(intptr_t)context);
}

/* Kernels for AMD's GPUs declare all LDS that they use. */
static int prepare(void *function, unsigned lds_bytes)
{
    (void)function, (void)lds_bytes;
    return GPU_OK;
}

static int copy_to(void *to, const void *from, size_t bytes)
{
    return hip.hipMemcpy(to, from, bytes, HIP_COPY_TO_DEVICE);
}

static int copy_from(void *to, const void *from, size_t bytes)
{
    return hip.hipMemcpy(to, from, bytes, HIP_COPY_FROM_DEVICE);
}

static const char *fill(void *handle, struct gpu_api *api)
{
    void *address;

    *api = (struct gpu_api){
        .name = name_of,
        .target = target_of,
        .retain = retain,
        .release = release,
        .get_current = get_current,
        .set_current = set_current,
        .prepare = prepare,
        .copy_to = copy_to,
        .copy_from = copy_from,
    };
#define HIP_LOAD(member, name) GPU_LOAD(api->member, #name)
    HIP_MEMBERS(HIP_LOAD)
#undef HIP_LOAD
#define HIP_LOAD(name, parameters) GPU_LOAD(hip.name, #name)
    HIP_FUNCTIONS(HIP_LOAD)
#undef HIP_LOAD
    return NULL;
}

/* ---- The runtime ----------------------------------------------------------------------------- */

static int start(void)
{
    return GPU_OK;
}

/* A fault of a kernel ends the process, or is an error of every call until then. */
static bool is_final(int error)
{
    (void)error;
    return false;
}

#define HIP_NAME(name, parameters, hip, cuda) hip,
static const char *const calls[] = {GPU_CALLS(HIP_NAME)};
#undef HIP_NAME
/* Wheels of ROCm have no unversioned name, packages for development have all of them. */
static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so", NULL};
static const char *const places[] = {
    "/lib", "/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "", NULL};
/* the kernel driver's, and that of WSL 2 */
static const char *const nodes[] = {"/dev/kfd", "/dev/dxg", NULL};

static const struct gpu_runtime runtime = {
    .driver = &driver_amd,
    .calls = calls,
    .names = names,
    .stem = "libamdhip64",
    .places = places,
    .nodes = nodes,
    .variable = "ROCM_PATH",
    .needed = "ROCm 6 or later is needed",
    .missing =
        "no libamdhip64.so.7 or .6 that can be loaded: not in this process, QUERN_ROCM_PATH, "
        "ROCM_PATH, the loader's path or /opt/rocm*",
    .no_device_hint = "; the runtime sees no GPU (HIP_VISIBLE_DEVICES, and access to /dev/kfd)",
    .wrong_device_hint =
        "; the stream must be one of the context's device, and that device the thread's current "
        "one (hipSetDevice)",
    .fill = fill,
    .start = start,
    .roots = installed_rocm,
    .is_final = is_final,
    .units = HIP_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    .clock_khz = HIP_ATTRIBUTE_CLOCK_RATE,
    .cache_bytes = HIP_ATTRIBUTE_L2_CACHE_SIZE,
    .param_end = HIP_PARAM_END,
    .blas = &blas_amd,
};

const struct device_driver driver_amd = {
    .vendor = "AMD",
    .name = "hip",
    .runtime = "HIP",
    .number = QUERN_DEVICE_HIP,
    .option = "rocm_path",
    .gpu = &runtime,
    .open = gpu_open,
    .count = gpu_count,
    .present = gpu_present,
};
