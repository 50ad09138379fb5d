/* SPDX-License-Identifier: MIT */
/*
 * Finds and loads the HIP runtime, once in a process: two of them in one address space do not work,
 * so what the process already has is always taken first, and what was loaded is never unloaded.
 */
#ifndef QUERN_DEVICE_HIP_RUNTIME_H
#define QUERN_DEVICE_HIP_RUNTIME_H

#include "base/error.h"
#include "device/hip_abi.h"

#include <stdbool.h>

struct hip_api {
#define HIP_MEMBER(result, name, parameters) result(*name) parameters;
    HIP_FUNCTIONS(HIP_MEMBER)
#undef HIP_MEMBER
    char path[512]; /* the library file */
};

/* Told of every candidate in the order they are tried; `outcome` is "" for the one that is used. */
typedef void (*hip_tried_fn)(void *user, const char *candidate, const char *outcome);

struct hip_search {
    const char *rocm_path; /* QUERN_ROCM_PATH; null or "": not given */
    bool only_loaded;      /* take a runtime that the process has, load none */
    hip_tried_fn tried;    /* may be null */
    void *user;
};

/*
 * The runtime, found as DESIGN says: in this process, below rocm_path, below ROCM_PATH, on the
 * loader's path, below /opt/rocm and /opt/rocm-*. QUERN_E_DEVICE when there is none. Thread-safe.
 * Blocks on the file system, and for as long as loading a runtime takes (it is a large library).
 */
quern_status hip_runtime_find(const struct hip_search *search, const struct hip_api **api);

/* Whether this machine has a device node of an AMD GPU; no library is loaded to tell. */
bool hip_device_node(void);

/* How often this process is a forked child of the one that loaded the runtime: a runtime does not
 * survive a fork. Async-signal-safe and free of system calls. */
unsigned hip_forks(void);

#endif
