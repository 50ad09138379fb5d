/* SPDX-License-Identifier: MIT */
/* Cubins of any bytes: refused, or as object.h promises. The corpus is made by NVRTC 12.9 and 13.0
 * from kernels of a few lines: axpy, and in `two` one with shared memory and a stack besides. */
#include "object/object.h"
#include "t_fuzz.h"

#include <string.h>

static void check_kernel(const struct object *o, const struct object_kernel *k)
{
    uint32_t end = 0;

    FUZZ_CHECK(strlen(k->name) > 0 && strlen(k->name) < o->size);
    FUZZ_CHECK(k->entry <= o->size && k->code_bytes <= o->size - k->entry);
    FUZZ_CHECK(k->kernarg_bytes <= OBJECT_KERNARG_MAX && k->scratch_bytes <= OBJECT_SCRATCH_MAX);
    FUZZ_CHECK(k->wave_size == 32 && k->vgprs <= 255 && k->lds_bytes <= 1u << 18);
    FUZZ_CHECK(k->max_flat_workgroup >= 1 && k->max_flat_workgroup <= 1024);
    for (size_t i = 0; i < k->arg_count; i++) {
        FUZZ_CHECK(k->args[i].kind == OBJECT_ARG_BY_VALUE && k->args[i].size);
        FUZZ_CHECK(k->args[i].offset >= end);
        end = k->args[i].offset + k->args[i].size;
        FUZZ_CHECK(end <= k->kernarg_bytes);
    }
    FUZZ_CHECK(object_kernel(o, k->name) == k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct object o;

    if (object_parse(data, size, &o) != QUERN_OK || o.target->vendor != VENDOR_NVIDIA)
        return 0;
    for (size_t n = 0; n < o.kernel_count; n++)
        check_kernel(&o, &o.kernels[n]);
    object_free(&o);
    return 0;
}

FUZZ_MAIN("cubin", 20000)
