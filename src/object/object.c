/* SPDX-License-Identifier: MIT */
/* What all formats of code objects share: finding the format, and what was read. */
#include "object/object.h"
#include "base/os.h"
#include "object/format.h"

#include <string.h>

/* Bytes that no vendor knows for its own are read as the first one's, which says what is wrong with
 * them. */
static const struct object_format *format_of(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; object_formats[i]; i++)
        if (object_formats[i]->recognise(bytes, size))
            return object_formats[i];
    return object_formats[0];
}

quern_status object_parse(const void *bytes, size_t size, struct object *object)
{
    *object = (struct object){.bytes = bytes, .size = size};
    const quern_status status = format_of(bytes, size)->parse(object);
    if (status != QUERN_OK)
        object_free(object);
    return status;
}

void object_free(struct object *object)
{
    for (size_t i = 0; i < object->kernel_count; i++)
        os.free(object->kernels[i].args);
    os.free(object->kernels);
    os.free(object->symbols);
    os.free(object->relocations);
    os.free(object->segments);
    *object = (struct object){0};
}

const struct object_kernel *object_kernel(const struct object *object, const char *name)
{
    for (size_t i = 0; i < object->kernel_count; i++)
        if (!strcmp(object->kernels[i].name, name))
            return &object->kernels[i];
    return NULL;
}

const uint8_t *object_at(const struct object *object, uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < object->segment_count; i++) {
        const struct object_segment *const s = &object->segments[i];
        if (address >= s->address && address - s->address <= s->file_bytes &&
            bytes <= s->file_bytes - (address - s->address))
            return object->bytes + s->file_offset + (address - s->address);
    }
    return NULL;
}

quern_status object_fits(const struct object *object, const struct target_id *id)
{
    const bool at_odds = object->target != id->target ||
                         (object->sramecc && id->sramecc && object->sramecc != id->sramecc) ||
                         (object->xnack && id->xnack && object->xnack != id->xnack);

    if (at_odds) {
        const struct target_id of = {object->target, object->sramecc, object->xnack};
        char is[64], wanted[64];
        target_id_text(&of, is, sizeof is);
        target_id_text(id, wanted, sizeof wanted);
        FAIL(QUERN_E_OBJECT, "a code object for %s does not run on %s", is, wanted);
    }
    return QUERN_OK;
}
