/* SPDX-License-Identifier: MIT */
/* What the files of fakehip, and of fakecuda on top of it, share. One lock guards everything but
 * what a kernel does. */
#ifndef FAKE_H
#define FAKE_H

#include "base/error.h"
#include "compile/compile.h"
#include "object/object.h"

#include <quern/sim.h>

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fakehip.h"

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Every function of the library. */
/* clang-format off */
#define FAKE_FUNCTIONS(X)                                                                          \
    X(hipGetDeviceCount) X(hipGetDevicePropertiesR0600) X(hipDeviceGetAttribute)                   \
    X(hipDeviceTotalMem) X(hipRuntimeGetVersion) X(hipGetDevice) X(hipSetDevice)                   \
    X(hipDeviceSynchronize) X(hipModuleLoadData) X(hipModuleGetFunction) X(hipModuleUnload)        \
    X(hipModuleLaunchKernel) X(hipStreamIsCapturing) X(hipThreadExchangeStreamCaptureMode)         \
    X(hipMalloc) X(hipFree) X(hipMemcpy) X(hipMemcpyAsync) X(hipEventCreate) X(hipEventDestroy)    \
    X(hipEventRecord) X(hipEventQuery) X(hipEventSynchronize) X(hipEventElapsedTime)               \
    X(hipGetLastError) X(hipPeekAtLastError) X(hipGetErrorName) X(hipStreamCreate)                 \
    X(hipStreamCreateWithFlags) X(hipStreamDestroy) X(hipStreamSynchronize) X(hipStreamQuery)      \
    X(hipStreamWaitEvent) X(hipStreamBeginCapture) X(hipStreamEndCapture) X(hipGraphDestroy)       \
    X(hipGraphInstantiate) X(hipGraphLaunch) X(hipGraphExecDestroy) X(hipLaunchHostFunc)
/* clang-format on */

enum fake_function {
#define FAKE_NUMBER(name) FAKE_##name,
    FAKE_FUNCTIONS(FAKE_NUMBER)
#undef FAKE_NUMBER
        FAKE_COUNT
};

/* Counts a call; the error that it is to fail with, if any. */
hipError_t fake_enter(enum fake_function function);
/* Notes a result as the thread's last error, unless it is success. */
hipError_t fake_return(hipError_t error);

#define FAKE_ENTER(name)                                                                           \
    do {                                                                                           \
        const hipError_t planned_ = fake_enter(FAKE_##name);                                       \
        if (planned_ != hipSuccess)                                                                \
            return fake_return(planned_);                                                          \
    } while (0)

/* ---- Devices --------------------------------------------------------------------------------- */

enum { FAKE_DEVICES_MAX = 8 };

struct fake_memory {
    struct fake_memory *next;
    uint64_t address;
    size_t bytes;
    uint8_t *host;
    void *reserved; /* of a device without a software GPU: the address, which nothing can read */
};

struct fake_device {
    struct target_id id;
    quern_sim *sim; /* null: no software GPU runs the target */
    bool lost;
    hipError_t sticky; /* of a kernel that failed */
    struct fake_memory *memory;
    struct ihipStream_t *streams; /* every one ever made; the first is the null stream */
};

extern pthread_mutex_t fake_lock;
extern struct fake_device fake_devices[FAKE_DEVICES_MAX];
extern _Thread_local int fake_current;
extern bool fake_any_object, fake_no_kernels;
extern atomic_bool fake_empty_launches;

/* What each of the two libraries says of itself (fakehip.c, fakecuda.c): the variable that lists
 * its devices and what it is by default, and what a kernel does where no software GPU runs it. */
struct fake_command;
extern const char fake_variable[], fake_default[];
hipError_t fake_run_kernel(const struct fake_command *command);

/* Number of devices; sets them up on first use. Takes the lock itself. */
int fake_device_count(void);
/* hipSuccess, or what a call that needs the device fails with. Under the lock. */
hipError_t fake_state(const struct fake_device *d);

/* The memory on a device that holds [address, address + bytes); null if none does. */
struct fake_memory *fake_memory_at(struct fake_device *d, uint64_t address, size_t bytes);

/* ---- Modules --------------------------------------------------------------------------------- */

struct ihipModule_t {
    struct fake_device *device;
    quern_sim_module *sim; /* null: cannot run here */
    struct object object;
    void *bytes;
    struct ihipModuleSymbol_t *functions; /* one for each kernel */
};

struct ihipModuleSymbol_t {
    struct ihipModule_t *module;
    const struct object_kernel *kernel;
    unsigned dynamic_max; /* shared memory that a launch may ask for, where CUDA was told */
};

/* ---- Streams --------------------------------------------------------------------------------- */

struct fake_dependence {
    struct ihipStream_t *stream;
    uint64_t ticket;
};

enum fake_kind { FAKE_KERNEL = 1, FAKE_COPY, FAKE_RECORD, FAKE_HOST, FAKE_NOTHING };

struct fake_command {
    struct fake_command *next;
    enum fake_kind kind;
    struct fake_dependence *after;
    size_t after_count;
    /* kernel */
    struct ihipModuleSymbol_t *function;
    uint32_t grid[3], block[3], lds_bytes;
    uint8_t kernarg[256];
    size_t kernarg_bytes;
    /* copy */
    void *to;
    const void *from;
    size_t bytes;
    /* host: a function of the process */
    hipHostFn_t host;
    void *user;
    /* record: when it was reached */
    struct ihipEvent_t *event;
};

struct ihipStream_t {
    struct ihipStream_t *next;
    struct fake_device *device;
    bool blocking; /* waits for the null stream, which waits for it */
    bool destroyed, running;
    pthread_t thread;
    struct fake_command *first, *last;
    uint64_t issued, done; /* tickets */
    struct ihipGraph *capture;
};

struct ihipEvent_t {
    struct ihipStream_t *stream; /* null: never recorded */
    uint64_t ticket, nanoseconds;
    struct ihipGraph *capture; /* recorded in a capture */
};

/* A graph is its commands in the order they were recorded, which satisfies every dependence. */
struct ihipGraph {
    struct ihipGraph *next; /* among those being captured */
    struct ihipStream_t *origin;
    pthread_t owner;
    hipStreamCaptureMode mode;
    bool invalidated;
    struct fake_command *first, *last;
};

struct hipGraphExec {
    struct ihipGraph graph;
};

extern struct ihipGraph *fake_captures; /* being captured */
extern _Thread_local hipStreamCaptureMode fake_mode;

/* All under the lock. */
struct fake_command *fake_command_new(enum fake_kind kind);
void fake_command_free(struct fake_command *command);
/* Queues a command, or records it when the stream is captured. Takes it over. */
hipError_t fake_submit(struct ihipStream_t *stream, struct fake_command *command);
/* The stream of a handle (null: the current device's null stream), or null if it is none. */
struct ihipStream_t *fake_stream(hipStream_t handle);
/* Waits until the stream has done everything issued so far. */
void fake_wait(struct ihipStream_t *stream, uint64_t ticket);
void fake_wait_device(struct fake_device *d);
/* For calls that are unsafe in a capture: invalidates those that forbid it. */
hipError_t fake_check_unsafe(void);
/* For calls that wait: an error if the stream, or a stream it would wait for, is captured. */
hipError_t fake_check_wait(struct ihipStream_t *stream);

#endif
