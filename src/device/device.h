/* SPDX-License-Identifier: MIT */
/* Where kernels run: one table of functions over flat geometry and kernarg bytes. */
#ifndef QUERN_DEVICE_DEVICE_H
#define QUERN_DEVICE_DEVICE_H

#include "object/object.h"

#include <quern/sim.h>

struct device;
struct device_kernel; /* one loaded kernel */

struct device_launch {
    uint32_t grid[3], block[3];
    uint32_t lds_bytes; /* dynamic */
    const void *kernarg;
    size_t kernarg_bytes;
    void *stream;
};

struct device_functions {
    const char *name; /* "sim", "hip" */
    /* Loads the object (bytes are copied) and finds the kernel. May block. */
    quern_status (*load)(struct device *d, const void *object, size_t size, const char *symbol,
                         struct device_kernel **kernel);
    void (*unload)(struct device *d, struct device_kernel *kernel);
    /* No allocation, lock or wait of its own. */
    quern_status (*launch)(struct device *d, struct device_kernel *kernel,
                           const struct device_launch *launch);
    void (*close)(struct device *d);
};

/* Every device starts with this. */
struct device {
    const struct device_functions *functions;
    struct target_id id;
    unsigned compute_units;
};

/* A software GPU of `target`. Its kernels are decoded at load, through `disassembler`. */
quern_status device_sim_open(const struct target_id *id,
                             const struct quern_disassembler *disassembler, struct device **device);
quern_sim *device_sim(struct device *device);

#endif
