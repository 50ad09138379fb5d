/* SPDX-License-Identifier: MIT */
/* Where kernels run: a device is a table of functions, to which a launch is a grid, a block and the
 * bytes of the arguments. GPUs behind a vendor's runtime and the software GPU have one each. */
#ifndef QUERN_DEVICE_DEVICE_H
#define QUERN_DEVICE_DEVICE_H

#include "object/object.h"

#include <quern/quern.h>
#include <quern/sim.h>

struct device;
struct device_kernel;  /* one loaded kernel */
struct device_product; /* a product of matrices of fixed sizes, prepared */

struct device_launch {
    uint32_t grid[3], block[3];
    uint32_t lds_bytes; /* of dynamic LDS */
    bool early;         /* may begin before the work in front of it in the stream has ended, which
                         * the kernel then waits for: of targets with CAP_EARLY_LAUNCH alone */
    const void *kernarg;
    size_t kernarg_bytes;
    void *stream;
};

/* Memory that kernels of a device see. */
struct device_memory {
    uint64_t address; /* the address that kernels are given */
    void *host;       /* the bytes of a software device's memory; null for a GPU's */
    size_t bytes;
};

struct device_functions {
    enum quern_device_kind kind; /* the kind that a context's options name it by */
    /*
     * Loads the object and finds the kernel. What the object points to, its bytes and its tables,
     * is the caller's and must stay where it is until unload: HIP may read the bytes at any time,
     * and the software GPU reads both, so that it need not read the object again. QUERN_E_OBJECT:
     * the device cannot use them. Leaves the caller's current device and any stream capture as they
     * are. `dynamic_lds`: the bytes that launches ask for. After it a launch allocates nothing,
     * also the first. May block.
     */
    quern_status (*load)(struct device *d, const struct object *object, const char *symbol,
                         uint32_t dynamic_lds, struct device_kernel **kernel);
    void (*unload)(struct device *d, struct device_kernel *kernel);
    /* Launches a kernel, without an allocation, lock or wait of its own. */
    quern_status (*launch)(struct device *d, struct device_kernel *kernel,
                           const struct device_launch *launch);
    /* Whether `stream` is being captured into a graph. */
    quern_status (*capturing)(struct device *d, void *stream, bool *capturing);

    /* For tools: makes memory with undefined contents; findings of the software GPU call it `name`,
     * which may be null. */
    quern_status (*memory_make)(struct device *d, size_t bytes, enum quern_sim_access access,
                                const char *name, struct device_memory *memory);
    void (*memory_free)(struct device *d, struct device_memory *memory);
    /* Copy to and from it, after all work that the device was given. */
    quern_status (*memory_write)(struct device *d, const struct device_memory *memory,
                                 const void *from);
    quern_status (*memory_read)(struct device *d, const struct device_memory *memory, void *to);
    /* For tools: calls `work`, which launches on the null stream, and measures until the device is
     * done with it. A failure of `work` is passed on. */
    quern_status (*measure)(struct device *d, quern_status (*work)(void *user), void *user,
                            double *microseconds);
    /*
     * Products by the vendor's matrix library: c[rows,n] = a[rows,k] · w[n,k]^T, packed, all f16 or
     * bf16. Null for devices that have no such library. QUERN_E_DEVICE: the library is not
     * installed or cannot make this product. product_make blocks; product_run puts the product on a
     * stream, with a workspace of DEVICE_PRODUCT_WORKSPACE bytes at a multiple of 256, for as many
     * rows as it was made for, or fewer where facts.any_rows says so.
     */
    quern_status (*product_make)(struct device *d, bool bf16, int64_t n, int64_t k, int64_t rows,
                                 struct device_product **product);
    quern_status (*product_run)(struct device *d, const struct device_product *product,
                                int64_t rows, const void *a, const void *w, void *c,
                                void *workspace, void *stream);
    void (*product_free)(struct device *d, struct device_product *product);
    void (*close)(struct device *d);
};
#define DEVICE_PRODUCT_WORKSPACE ((size_t)32 << 20)

/* What a device says of itself; for a software device, what the target's row says of the part. */
struct device_facts {
    char name[256];
    unsigned compute_units;
    double clock_ghz;
    uint64_t memory_bytes; /* 0: a software device */
    uint64_t cache_bytes;  /* the last cache that it reports; 0: not known */
    char runtime[512];     /* the runtime's file; "": a software device */
    int runtime_version;   /* the number that the runtime gives itself: hipRuntimeGetVersion */
    bool any_rows;         /* products run with fewer rows than they were made for, too */
};

/* Every device starts with this. */
struct device {
    const struct device_functions *functions;
    struct target_id id;
    struct device_facts facts;
};

/* Is told of each library that is tried as a runtime; `outcome` says what was wrong with it, "" for
 * the one that is used. */
typedef void (*device_tried_fn)(void *user, const char *candidate, const char *outcome);

/* How a vendor's runtime is looked for. */
struct device_search {
    const char *path;      /* the installation that the option `option` below names; null: none */
    bool automatic;        /* on a machine without a GPU of the vendor, load no runtime */
    device_tried_fn tried; /* may be null */
    void *user;
};

/* The runtime of a vendor, whose GPUs are devices. Functions are thread-safe and may block. */
struct device_driver {
    const char *vendor;            /* "AMD" */
    const char *name;              /* the word for it in QUERN_DEVICE: "hip" */
    const char *runtime;           /* its name in messages: "HIP" */
    enum quern_device_kind number; /* the kind of such devices in a context's options */
    const char *option;            /* the context's option that has `path`; null: there is none */
    const struct gpu_runtime *gpu; /* for the functions of gpu.h; null where a driver has its own */
    /* GPU `index`. QUERN_E_DEVICE: no runtime or no such device; QUERN_E_TARGET: a GPU that is no
     * listed target, with the nearest one named. */
    quern_status (*open)(const struct device_driver *driver, const struct device_search *search,
                         int index, struct device **device);
    /* Number of GPUs that the runtime has. */
    quern_status (*count)(const struct device_driver *driver, const struct device_search *search,
                          int *count);
    /* Whether the machine has such GPUs, by its device files; loads nothing. Null: not known. */
    bool (*present)(const struct device_driver *driver);
};

/* The drivers, by enum vendor; null ends the list (drivers.c). */
extern const struct device_driver *const drivers[];

#define VENDOR(NAME, name) extern const struct device_driver driver_##name;
#include "target/vendors.def"
#undef VENDOR

struct device_sim_config {
    struct quern_disassembler disassembler; /* kernels are decoded at load, through it */
    const char *worker_path;                /* beside which its code is; may be null */
    int threads;                            /* 0: one per CPU */
};

/* A software GPU of `target`. QUERN_E_DEVICE: its code is not installed. */
quern_status device_sim_open(const struct target_id *id, const struct device_sim_config *config,
                             struct device **device);
quern_sim *device_sim(struct device *device);

#endif
