/* SPDX-License-Identifier: MIT */
/* Metadata notes of any bytes: refused, or as metadata.h promises. */
#include "object/amdgpu/metadata.h"
#include "t_fuzz.h"

static void check_text(const uint8_t *data, size_t size, const struct msgpack_text *t)
{
    const uint8_t *const at = (const uint8_t *)t->text;

    FUZZ_CHECK(!t->bytes ||
               (at >= data && at <= data + size && t->bytes <= (size_t)(data + size - at)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct metadata m = {0};

    if (metadata_read(data, size, &m) != QUERN_OK)
        return 0;
    check_text(data, size, &m.target);
    for (size_t n = 0; n < m.kernel_count; n++) {
        const struct metadata_kernel *const k = &m.kernels[n];
        check_text(data, size, &k->symbol);
        for (size_t a = 0; a < k->arg_count; a++)
            FUZZ_CHECK(k->args[a].size <= k->kernarg_bytes &&
                       k->args[a].offset <= k->kernarg_bytes - k->args[a].size);
    }
    metadata_free(&m);
    return 0;
}

FUZZ_MAIN("metadata", 4000)
