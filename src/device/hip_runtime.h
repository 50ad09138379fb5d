/* SPDX-License-Identifier: MIT */
/*
 * Finds and loads the HIP runtime, once in a process: two of them in one address space do not work,
 * so what the process already has is always taken first, and what was loaded is never unloaded.
 */
#ifndef QUERN_DEVICE_HIP_RUNTIME_H
#define QUERN_DEVICE_HIP_RUNTIME_H

#include "device/device.h"
#include "device/hip_abi.h"

struct hip_api {
#define HIP_MEMBER(result, name, parameters) result(*name) parameters;
    HIP_FUNCTIONS(HIP_MEMBER)
#undef HIP_MEMBER
    char path[512]; /* the library file */
};

/*
 * Finds the runtime. It is looked for in this order: in this process, below search->path, below
 * ROCM_PATH, on the loader's path, below /opt/rocm and /opt/rocm-*. QUERN_E_DEVICE when there is
 * none. Thread-safe. Blocks on the file system, and for as long as loading takes (it is a large
 * library).
 */
quern_status hip_runtime_find(const struct device_search *search, const struct hip_api **api);

/* How many forks lie between the process that loaded the runtime and this one. A runtime does not
 * survive a fork: when the number is not what it was, HIP must not be called. Async-signal-safe and
 * free of system calls. */
unsigned hip_forks(void);

#endif
