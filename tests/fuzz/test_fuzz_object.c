/* SPDX-License-Identifier: MIT */
/* Code objects and offload bundles of any bytes: refused, or as object.h promises. */
#include "object/amdgpu/offload_bundle.h"
#include "object/object.h"
#include "t_fuzz.h"

#include <string.h>

static void check_kernel(const struct object *o, const struct object_kernel *k)
{
    static const uint32_t ones[3] = {1, 1, 1};

    FUZZ_CHECK(strlen(k->name) < o->size);
    if (o->target->vendor != VENDOR_AMD)
        return; /* cubins: test_fuzz_cubin.c */
    FUZZ_CHECK(object_at(o, k->entry, k->code_bytes));
    FUZZ_CHECK(object_at(o, k->descriptor, 64));
    FUZZ_CHECK(k->kernarg_bytes <= OBJECT_KERNARG_MAX && k->scratch_bytes <= OBJECT_SCRATCH_MAX);
    FUZZ_CHECK(k->wave_size == 32 || k->wave_size == 64);
    FUZZ_CHECK(k->vgprs <= k->vgprs_granted);
    uint8_t *const kernarg = malloc(k->kernarg_bytes ? k->kernarg_bytes : 1);
    FUZZ_CHECK(kernarg);
    object_fill_hidden(k, kernarg, ones, ones, 0);
    free(kernarg);
}

static void read_object(const uint8_t *data, size_t size)
{
    struct object o;
    volatile uint8_t sum = 0;

    if (object_parse(data, size, &o) != QUERN_OK)
        return;
    FUZZ_CHECK(o.target);
    for (size_t n = 0; n < o.segment_count; n++) {
        const struct object_segment *const s = &o.segments[n];
        FUZZ_CHECK(s->file_bytes <= s->memory_bytes && s->file_bytes <= size);
        FUZZ_CHECK(s->file_offset <= size - s->file_bytes);
        FUZZ_CHECK(s->address <= o.image_bytes && s->memory_bytes <= o.image_bytes - s->address);
    }
    for (size_t n = 0; n < o.kernel_count; n++)
        check_kernel(&o, &o.kernels[n]);
    for (size_t n = 0; n < o.symbol_count; n++)
        sum = (uint8_t)(sum + strlen(o.symbols[n].name));
    object_free(&o);
}

static void read_bundles(const uint8_t *data, size_t size)
{
    struct bundles b;
    volatile uint8_t sum = 0;

    if (bundles_read(data, size, &b) != QUERN_OK)
        return;
    for (size_t n = 0; n < b.count; n++) {
        const struct offload_entry *const e = &b.entries[n];
        FUZZ_CHECK(e->bundle < b.bundle_count);
        FUZZ_CHECK(strlen(offload_target(e)) <= OFFLOAD_ID_MAX);
        for (uint64_t at = 0; at < e->size; at += 64)
            sum = (uint8_t)(sum + e->bytes[at]);
        if (e->size && n < 4)
            read_object(e->bytes, (size_t)e->size);
    }
    bundles_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_object(data, size);
    read_bundles(data, size);
    return 0;
}

FUZZ_MAIN("object", 4000)
