/* SPDX-License-Identifier: MIT */
/* The AMDGPU metadata notes: what the compiler says of each kernel, before anything is compared. An
 * object that is linked from several has a note of each. */
#ifndef QUERN_OBJECT_METADATA_H
#define QUERN_OBJECT_METADATA_H

#include "object/amdgpu/msgpack.h"
#include "object/object.h"

#define METADATA_NOTE_OWNER "AMDGPU"
#define METADATA_NOTE_TYPE  32

struct metadata_kernel {
    struct msgpack_text symbol; /* of the descriptor, "….kd" */
    uint32_t kernarg_bytes, lds_bytes, scratch_bytes;
    uint32_t vgprs, agprs, sgprs, vgpr_spills, sgpr_spills;
    uint32_t max_flat_workgroup, wave_size;
    bool dynamic_stack;
    size_t arg_count;
    struct object_arg *args;
};

struct metadata {
    /* "amdgcn-amd-amdhsa--gfx942:sramecc+", of the note read last; assembly may leave it out */
    struct msgpack_text target;
    size_t kernel_count;
    struct metadata_kernel *kernels;
};

/*
 * Adds what a note's content says to *metadata, which begins as zeros; texts point into it.
 * QUERN_E_OBJECT: malformed, a wanted member missing, given twice or out of range, or an argument
 * outside its kernarg segment. On failure nothing is to be freed.
 */
quern_status metadata_read(const uint8_t *content, size_t size, struct metadata *metadata);
void metadata_free(struct metadata *metadata);

#endif
