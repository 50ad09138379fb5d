/* SPDX-License-Identifier: MIT */
/*
 * Code objects: AMD's HSA ELF files (code object version 4 to 6) and NVIDIA's cubins. The only
 * source of a kernel's resources and kernarg layout. The readers trust nothing: every offset and
 * length is checked before use, so any bytes at all are either accepted or refused with
 * QUERN_E_OBJECT.
 */
#ifndef QUERN_OBJECT_OBJECT_H
#define QUERN_OBJECT_OBJECT_H

#include "target/target.h"

/* What a kernel argument holds: the metadata's .value_kind. */
enum object_arg_kind {
    OBJECT_ARG_BY_VALUE = 1,
    OBJECT_ARG_GLOBAL_BUFFER,
    OBJECT_ARG_DYNAMIC_LDS,
    OBJECT_ARG_HIDDEN_BLOCK_COUNT_X,
    OBJECT_ARG_HIDDEN_BLOCK_COUNT_Y,
    OBJECT_ARG_HIDDEN_BLOCK_COUNT_Z,
    OBJECT_ARG_HIDDEN_GROUP_SIZE_X,
    OBJECT_ARG_HIDDEN_GROUP_SIZE_Y,
    OBJECT_ARG_HIDDEN_GROUP_SIZE_Z,
    OBJECT_ARG_HIDDEN_REMAINDER_X,
    OBJECT_ARG_HIDDEN_REMAINDER_Y,
    OBJECT_ARG_HIDDEN_REMAINDER_Z,
    OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_X,
    OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_Y,
    OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_Z,
    OBJECT_ARG_HIDDEN_GRID_DIMS,
    OBJECT_ARG_HIDDEN_DYNAMIC_LDS_SIZE,
    OBJECT_ARG_HIDDEN_OTHER, /* filled with zeros */
};

struct object_arg {
    enum object_arg_kind kind;
    uint32_t offset, size; /* within the kernarg segment */
};

struct object_kernel {
    const char *name;    /* symbol without ".kd"; points into the object's bytes */
    uint64_t descriptor; /* virtual address of the kernel descriptor */
    uint64_t entry;      /* virtual address of the first instruction */
    uint64_t code_bytes; /* from entry on, all in the file: code past it is not this kernel's */
    uint32_t rsrc1, rsrc2, rsrc3; /* compute_pgm_rsrc registers */
    uint16_t properties;          /* kernel_code_properties: which SGPRs are set up, wave32 */
    uint16_t kernarg_preload;     /* descriptor bytes 58–59 */
    uint32_t kernarg_bytes;
    uint32_t lds_bytes;                                     /* static */
    uint32_t scratch_bytes;                                 /* per work-item */
    uint32_t vgprs, agprs, sgprs, vgpr_spills, sgpr_spills; /* metadata */
    uint32_t vgprs_granted; /* what the descriptor asks for: at least vgprs */
    uint32_t max_flat_workgroup;
    uint32_t wave_size;
    bool dynamic_stack;
    size_t arg_count;
    struct object_arg *args;
};

struct object_segment {
    uint64_t address, file_offset, file_bytes, memory_bytes;
    bool write, execute;
};

/* A function or variable that the object defines. */
struct object_symbol {
    const char *name; /* points into the object's bytes */
    uint64_t address, bytes;
    bool function;
};

/* Loading at `base` writes the 8 bytes base + value at `address`. */
struct object_relocation {
    uint64_t address, value;
};

/* Limits of one kernel, beyond what any target can launch. */
#define OBJECT_KERNARG_MAX 65536
#define OBJECT_SCRATCH_MAX (1u << 20)

struct object {
    const uint8_t *bytes; /* the caller's; must outlive the object */
    size_t size;
    const struct target *target; /* of e_flags; never null */
    char sramecc, xnack;         /* '+', '-', or 0 for "any" and "unsupported" */
    unsigned code_object_version;
    uint64_t image_bytes; /* one past the highest virtual address */
    size_t segment_count;
    struct object_segment *segments; /* PT_LOAD, by address */
    size_t kernel_count;
    struct object_kernel *kernels; /* by descriptor */
    size_t symbol_count;
    struct object_symbol *symbols; /* by address; local ones too where the file has them */
    size_t relocation_count;
    struct object_relocation *relocations;
};

/*
 * Reads and checks a code object. The bytes are kept by reference. Free with object_free; after a
 * failure there is nothing to free. Errors: QUERN_E_OBJECT, QUERN_E_MEMORY. Thread-safe.
 */
quern_status object_parse(const void *bytes, size_t size, struct object *object);
void object_free(struct object *object);

/* Makes an object that names a target, in the ELF header and in the metadata, name another one,
 * whose name is as long; the code stays as it is. False: it cannot be done. */
bool object_rename(void *bytes, size_t size, const struct target *from, const struct target *to);

/* The kernel of that symbol (without ".kd"), or null. */
const struct object_kernel *object_kernel(const struct object *object, const char *name);

/* The file's bytes for a range of virtual addresses; null unless the file holds all of it. */
const uint8_t *object_at(const struct object *object, uint64_t address, uint64_t bytes);

/* kernel_code_properties */
enum object_property {
    OBJECT_SGPR_PRIVATE_SEGMENT_BUFFER = 1 << 0,
    OBJECT_SGPR_DISPATCH_PTR = 1 << 1,
    OBJECT_SGPR_QUEUE_PTR = 1 << 2,
    OBJECT_SGPR_KERNARG_SEGMENT_PTR = 1 << 3,
    OBJECT_SGPR_DISPATCH_ID = 1 << 4,
    OBJECT_SGPR_FLAT_SCRATCH_INIT = 1 << 5,
    OBJECT_SGPR_PRIVATE_SEGMENT_SIZE = 1 << 6,
    OBJECT_WAVEFRONT_SIZE32 = 1 << 10,
    OBJECT_USES_DYNAMIC_STACK = 1 << 11,
};
#define OBJECT_PROPERTIES_KNOWN 0x0c7f

/* Whether code for `object` may run on the device `id`: same processor, features not at odds (one
 * that is not said fits both). QUERN_E_OBJECT names both when it may not. */
quern_status object_fits(const struct object *object, const struct target_id *id);

/* Packs the hidden arguments of a launch into kernarg bytes whose explicit part is already there.
 * `kernarg` has kernel->kernarg_bytes bytes; grid counts workgroups. */
void object_fill_hidden(const struct object_kernel *kernel, uint8_t *kernarg,
                        const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_lds);

#endif
