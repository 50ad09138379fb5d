/* SPDX-License-Identifier: MIT */
/*
 * A GPU behind a vendor's runtime, for the files that meet one: gpu.c is the device, on top of a
 * table of the runtime's functions that hip.c fills for AMD's GPUs and cuda.c for NVIDIA's.
 */
#ifndef QUERN_DEVICE_GPU_H
#define QUERN_DEVICE_GPU_H

#include "device/blas.h"
#include "device/device.h"

/*
 * What a runtime is asked, as X(name, parameters, HIP's function, CUDA's function). All return 0 or
 * the runtime's error. A device is known by its number in the runtime, and is a thread's current
 * one as a context: what HIP's functions that take a device's number mean with it, and what CUDA
 * calls so. The names are for messages; where a function of that name takes other arguments, or
 * there is none, the runtime's file has one that does what is said here.
 */
#define GPU_CALLS(X)                                                                               \
    X(count, (int *count), "hipGetDeviceCount", "cuDeviceGetCount")                                \
    X(name, (char *text, size_t size, int device), "hipGetDevicePropertiesR0600",                  \
      "cuDeviceGetName")                                                                           \
    /* the target's id, "gfx942:sramecc+:xnack-" or "sm_90" */                                     \
    X(target, (char *text, size_t size, int device), "hipGetDevicePropertiesR0600",                \
      "cuDeviceGetAttribute")                                                                      \
    X(attribute, (int *value, int attribute, int device), "hipDeviceGetAttribute",                 \
      "cuDeviceGetAttribute")                                                                      \
    X(memory, (size_t *bytes, int device), "hipDeviceTotalMem", "cuDeviceTotalMem")                \
    X(version, (int *version), "hipRuntimeGetVersion", "cuDriverGetVersion")                       \
    /* a device's context, which stays until it is released as often */                            \
    X(retain, (void **context, int device), "hipGetDevice", "cuDevicePrimaryCtxRetain")            \
    X(release, (int device), "hipGetDevice", "cuDevicePrimaryCtxRelease")                          \
    X(get_current, (void **context), "hipGetDevice", "cuCtxGetCurrent")                            \
    X(set_current, (void *context), "hipSetDevice", "cuCtxSetCurrent")                             \
    X(synchronize, (void), "hipDeviceSynchronize", "cuCtxSynchronize")                             \
    X(module_load, (void **module, const void *image), "hipModuleLoadData", "cuModuleLoadData")    \
    X(module_function, (void **function, void *module, const char *name), "hipModuleGetFunction",  \
      "cuModuleGetFunction")                                                                       \
    X(module_unload, (void *module), "hipModuleUnload", "cuModuleUnload")                          \
    /* makes a kernel ready for launches that ask for so much dynamic shared memory */             \
    X(prepare, (void *function, unsigned lds_bytes), "hipFuncSetAttribute", "cuFuncSetAttribute")  \
    X(launch,                                                                                      \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
       unsigned block_y, unsigned block_z, unsigned lds_bytes, void *stream, void **parameters,    \
       void **extra),                                                                              \
      "hipModuleLaunchKernel", "cuLaunchKernel")                                                   \
    /* the same, of a launch that is `early` (device.h); HIP has none, and is not asked */         \
    X(launch_early,                                                                                \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
       unsigned block_y, unsigned block_z, unsigned lds_bytes, void *stream, void **parameters,    \
       void **extra),                                                                              \
      "", "cuLaunchKernelEx")                                                                      \
    X(is_capturing, (void *stream, int *status), "hipStreamIsCapturing", "cuStreamIsCapturing")    \
    X(exchange_mode, (int *mode), "hipThreadExchangeStreamCaptureMode",                            \
      "cuThreadExchangeStreamCaptureMode")                                                         \
    X(allocate, (void **address, size_t bytes), "hipMalloc", "cuMemAlloc")                         \
    X(free, (void *address), "hipFree", "cuMemFree")                                               \
    X(copy_to, (void *to, const void *from, size_t bytes), "hipMemcpy", "cuMemcpyHtoD")            \
    X(copy_from, (void *to, const void *from, size_t bytes), "hipMemcpy", "cuMemcpyDtoH")          \
    X(event_create, (void **event), "hipEventCreate", "cuEventCreate")                             \
    X(event_destroy, (void *event), "hipEventDestroy", "cuEventDestroy")                           \
    X(event_record, (void *event, void *stream), "hipEventRecord", "cuEventRecord")                \
    X(event_synchronize, (void *event), "hipEventSynchronize", "cuEventSynchronize")               \
    X(event_elapsed, (float *milliseconds, void *start, void *stop), "hipEventElapsedTime",        \
      "cuEventElapsedTime")                                                                        \
    /* takes back the thread's last error, where the runtime keeps one */                          \
    X(last_error, (void), "hipGetLastError", "")

enum gpu_call {
#define GPU_NUMBER(name, parameters, hip, cuda) GPU_##name,
    GPU_CALLS(GPU_NUMBER)
#undef GPU_NUMBER
};

struct gpu_api {
#define GPU_MEMBER(name, parameters, hip, cuda) int(*name) parameters;
    GPU_CALLS(GPU_MEMBER)
#undef GPU_MEMBER
    const char *(*error_name)(int error);
    char path[512]; /* the library file */
};

/* In a function that fills a table from the library of a `handle`: stores a function's address in a
 * pointer to one, or returns the symbol that the library lacks. */
#define GPU_LOAD(pointer, symbol)                                                                  \
    if (!(address = dlsym(handle, (symbol))))                                                      \
        return (symbol);                                                                           \
    memcpy(&(pointer), &address, sizeof address);

/* Errors that both runtimes number alike (hipError_t, CUresult). */
enum gpu_error {
    GPU_OK = 0,
    GPU_OUT_OF_MEMORY = 2,
    GPU_INVALID_FUNCTION = 98, /* of HIP alone */
    GPU_NO_DEVICE = 100,
    GPU_INVALID_IMAGE = 200,
    GPU_INVALID_CONTEXT = 201,
    GPU_NO_BINARY_FOR_GPU = 209,
    GPU_INVALID_PTX = 218, /* of HIP: an invalid kernel file */
    GPU_SHARED_OBJECT_INIT_FAILED = 303,
    GPU_INVALID_HANDLE = 400,
    GPU_NOT_FOUND = 500,
    GPU_STREAM_CAPTURE_IMPLICIT = 906,
};

/* hipStreamCaptureStatus and -Mode, CUstreamCaptureStatus and -Mode */
enum { GPU_CAPTURE_NONE = 0 };
enum { GPU_CAPTURE_MODE_RELAXED = 2 };

/* Tags in the last argument of a launch; the one that ends them differs. */
#define GPU_PARAM_BUFFER_POINTER ((void *)1)
#define GPU_PARAM_BUFFER_SIZE    ((void *)2)

/* A vendor's runtime: what it is called, where it is looked for, and what differs. */
struct gpu_runtime {
    const struct device_driver *driver;
    const char *const *calls;   /* names of its functions, by enum gpu_call */
    const char *const *names;   /* of its library, the best first; ends with null */
    const char *stem;           /* that all of its names begin with */
    const char *const *places;  /* below a root; ends with null */
    const char *const *nodes;   /* device files of machines that have such GPUs; ends with null */
    const char *variable;       /* of the environment, with a root; null: none */
    const char *needed;         /* "ROCm 6 or later is needed" */
    const char *missing;        /* what was looked for and where, when there is none */
    const char *no_device_hint; /* behind an error that says so */
    const char *wrong_device_hint;
    /* Fills a table from a library; the first function it lacks, or null. */
    const char *(*fill)(void *handle, struct gpu_api *api);
    /* Before the first call of a process: 0, or an error that says why nothing can be done. */
    int (*start)(void);
    /* Calls `look` with each root of installations beyond the loader's path. */
    bool (*roots)(bool (*look)(void *user, const char *root), void *user);
    /* Whether an error leaves the device of no more use to this process. */
    bool (*is_final)(int error);
    int units, clock_khz, cache_bytes; /* attributes */
    void *param_end;
    const struct blas_library *blas;
};

/*
 * Finds and loads a runtime, once in a process: two of a kind in one address space do not work, so
 * what the process already has is always taken first, and what was loaded is never unloaded. In
 * this order: in this process, below search->path, below the variable's root, on the loader's path,
 * below the usual roots. QUERN_E_DEVICE when there is none. Thread-safe. Blocks on the file system,
 * and for as long as loading a runtime takes (they are large libraries).
 */
quern_status gpu_runtime_find(const struct gpu_runtime *runtime, const struct device_search *search,
                              const struct gpu_api **api);
/* Finds a library of this process by the beginning of its file's name, whatever its soname is:
 * wheels of Python rename their libraries. Thread-safe. */
#define LOADED_PATH_MAX 512
bool gpu_library_loaded(const char *stem, char path[LOADED_PATH_MAX]);
/* Whether this machine has a GPU of the vendor, by its device files: nothing is loaded. */
bool gpu_present(const struct device_driver *driver);

/* How often this process is a forked child of the one that loaded a runtime: a runtime does not
 * survive a fork. Async-signal-safe and free of system calls. */
unsigned gpu_forks(void);

/* A driver's functions (device.h), for a runtime. */
quern_status gpu_open(const struct device_driver *driver, const struct device_search *search,
                      int index, struct device **device);
quern_status gpu_count(const struct device_driver *driver, const struct device_search *search,
                       int *count);

#endif
