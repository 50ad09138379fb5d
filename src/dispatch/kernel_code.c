/* SPDX-License-Identifier: MIT */
/*
 * Copying the kernels of a target of which the compiler makes the same code as of another one
 * (code_of in target.h). When the other's kernel of the same text is in the cache, its object
 * serves after the processor's number and name in it are changed, so that `make base` compiles it
 * once for both. The result is the object that the compiler would make, byte for byte; it is
 * scanned and verified as such. tools/base.py compiles some as a check.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <string.h>

/* Whether an object names the target wherever the reader looks: it compares the ELF header and the
 * metadata. */
static bool names(const struct compile_result *result, const struct target *target)
{
    struct object object;

    if (object_parse(result->object, result->object_bytes, &object) != QUERN_OK)
        return false;
    const bool right = object.target == target;
    object_free(&object);
    return right;
}

/* Copies an entry's object and its log, for the target. */
static bool copy(const struct store_record *record, const struct target *from,
                 const struct target *to, struct compile_result *result)
{
    const size_t log_bytes = strlen(record->log) + 1;

    *result = (struct compile_result){.object = os.malloc(record->object_bytes),
                                      .object_bytes = record->object_bytes,
                                      .log = os.malloc(log_bytes)};
    if (result->object && result->log) {
        memcpy(result->object, record->object, record->object_bytes);
        memcpy(result->log, record->log, log_bytes);
        if (object_rename(result->object, result->object_bytes, from, to) && names(result, to))
            return true;
    }
    compile_result_free(result);
    return false;
}

bool kernel_code_copy(quern_ctx *ctx, const struct store_want *want, struct compile_result *result)
{
    struct store_entry entry;

    if (!store_get_wanted(ctx->store, want, &entry))
        return false;
    const bool copied =
        entry.record.object_bytes && copy(&entry.record, want->target, ctx->id.target, result);
    store_entry_free(&entry);
    return copied;
}
