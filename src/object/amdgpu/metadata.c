/* SPDX-License-Identifier: MIT */
/* The metadata note of a code object (metadata.h): kernels, their arguments and registers. */
#include "object/amdgpu/metadata.h"
#include "base/os.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A growing array of `bytes`-sized items: counts in the file are not trusted to size it. */
static void *grown(void *items, size_t count, size_t bytes)
{
    if (count & (count - 1))
        return items; /* full only at powers of two */
    return os.realloc(items, (count ? 2 * count : 1) * bytes);
}

static const struct {
    const char *name;
    enum object_arg_kind kind;
} arg_kinds[] = {
    {"by_value", OBJECT_ARG_BY_VALUE},
    {"global_buffer", OBJECT_ARG_GLOBAL_BUFFER},
    {"dynamic_shared_pointer", OBJECT_ARG_DYNAMIC_LDS},
    {"hidden_block_count_x", OBJECT_ARG_HIDDEN_BLOCK_COUNT_X},
    {"hidden_block_count_y", OBJECT_ARG_HIDDEN_BLOCK_COUNT_Y},
    {"hidden_block_count_z", OBJECT_ARG_HIDDEN_BLOCK_COUNT_Z},
    {"hidden_group_size_x", OBJECT_ARG_HIDDEN_GROUP_SIZE_X},
    {"hidden_group_size_y", OBJECT_ARG_HIDDEN_GROUP_SIZE_Y},
    {"hidden_group_size_z", OBJECT_ARG_HIDDEN_GROUP_SIZE_Z},
    {"hidden_remainder_x", OBJECT_ARG_HIDDEN_REMAINDER_X},
    {"hidden_remainder_y", OBJECT_ARG_HIDDEN_REMAINDER_Y},
    {"hidden_remainder_z", OBJECT_ARG_HIDDEN_REMAINDER_Z},
    {"hidden_global_offset_x", OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_X},
    {"hidden_global_offset_y", OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_Y},
    {"hidden_global_offset_z", OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_Z},
    {"hidden_grid_dims", OBJECT_ARG_HIDDEN_GRID_DIMS},
    {"hidden_dynamic_lds_size", OBJECT_ARG_HIDDEN_DYNAMIC_LDS_SIZE},
};

/* ---- Maps ------------------------------------------------------------------------------------ */

/* A member of a map that is wanted: who reads it, and where in the struct of the map it goes. */
struct member {
    const char *name;
    quern_status (*read)(struct msgpack *m, const char *name, void *to);
    size_t offset;
    bool required;
};

/* Reads a map into *to. Members that are not in the table are passed over. `of` is for messages. */
static quern_status read_map(struct msgpack *m, const char *of, const struct member *members,
                             size_t count, void *to)
{
    uint32_t pairs;
    unsigned seen = 0;

    TRY(msgpack_map(m, &pairs));
    for (uint32_t i = 0; i < pairs; i++) {
        struct msgpack_text key;
        size_t n = 0;
        TRY(msgpack_string(m, &key));
        while (n < count && !msgpack_text_is(key, members[n].name))
            n++;
        if (n == count) {
            TRY(msgpack_skip(m));
            continue;
        }
        FAIL_IF(seen & 1u << n, QUERN_E_OBJECT, "the metadata give %s twice", members[n].name);
        seen |= 1u << n;
        TRY(members[n].read(m, members[n].name, (char *)to + members[n].offset));
    }
    msgpack_leave(m);
    for (size_t n = 0; n < count; n++)
        FAIL_IF(members[n].required && !(seen & 1u << n), QUERN_E_OBJECT,
                "the metadata%s have no %s", of, members[n].name);
    return QUERN_OK;
}

static quern_status read_u32(struct msgpack *m, const char *name, void *to)
{
    uint64_t wide;

    TRY(msgpack_uint(m, &wide));
    FAIL_IF(wide > UINT32_MAX, QUERN_E_OBJECT, "%s of %llu: at most %u", name,
            (unsigned long long)wide, UINT32_MAX);
    *(uint32_t *)to = (uint32_t)wide;
    return QUERN_OK;
}

static quern_status read_bool(struct msgpack *m, const char *name, void *to)
{
    (void)name;
    return msgpack_bool(m, to);
}

static quern_status read_text(struct msgpack *m, const char *name, void *to)
{
    (void)name;
    return msgpack_string(m, to);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static quern_status read_arg_kind(struct msgpack *m, const char *name, void *to)
{
    enum object_arg_kind *const kind = to;
    struct msgpack_text text;

    (void)name;
    TRY(msgpack_string(m, &text));
    for (size_t i = 0; i < COUNT(arg_kinds); i++)
        if (msgpack_text_is(text, arg_kinds[i].name)) {
            *kind = arg_kinds[i].kind;
            return QUERN_OK;
        }
    FAIL_IF(text.bytes < 7 || memcmp(text.text, "hidden_", 7), QUERN_E_OBJECT,
            "a kernel argument of kind \"%.*s\", which cannot be passed",
            (int)(text.bytes < 40 ? text.bytes : 40), text.text);
    *kind = OBJECT_ARG_HIDDEN_OTHER;
    return QUERN_OK;
}

static const struct member arg_members[] = {
    {".offset", read_u32, offsetof(struct object_arg, offset), true},
    {".size", read_u32, offsetof(struct object_arg, size), true},
    {".value_kind", read_arg_kind, offsetof(struct object_arg, kind), true},
};

static quern_status read_args(struct msgpack *m, const char *name, void *to)
{
    struct metadata_kernel *const kernel = to;
    uint32_t items;

    (void)name;
    TRY(msgpack_array(m, &items));
    for (uint32_t i = 0; i < items; i++) {
        struct object_arg *const args = grown(kernel->args, kernel->arg_count, sizeof *args);
        FAIL_IF(!args, QUERN_E_MEMORY, "no memory for %zu kernel arguments", kernel->arg_count + 1);
        kernel->args = args;
        TRY(read_map(m, " of a kernel argument", arg_members, COUNT(arg_members),
                     &args[kernel->arg_count]));
        kernel->arg_count++;
    }
    msgpack_leave(m);
    return QUERN_OK;
}

static quern_status check_args(const struct metadata_kernel *kernel)
{
    uint64_t end = 0;

    for (size_t i = 0; i < kernel->arg_count; i++) {
        const struct object_arg *const a = &kernel->args[i];
        FAIL_IF(a->offset < end, QUERN_E_OBJECT,
                "argument %zu at offset %u overlaps or precedes the one that ends at %llu", i,
                a->offset, (unsigned long long)end);
        end = (uint64_t)a->offset + a->size;
        FAIL_IF(end > kernel->kernarg_bytes, QUERN_E_OBJECT,
                "argument %zu (offset %u, %u bytes) ends outside the %u bytes of arguments", i,
                a->offset, a->size, kernel->kernarg_bytes);
    }
    return QUERN_OK;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static const struct member kernel_members[] = {
    {".symbol", read_text, offsetof(struct metadata_kernel, symbol), true},
    {".kernarg_segment_size", read_u32, offsetof(struct metadata_kernel, kernarg_bytes), true},
    {".group_segment_fixed_size", read_u32, offsetof(struct metadata_kernel, lds_bytes), true},
    {".private_segment_fixed_size", read_u32, offsetof(struct metadata_kernel, scratch_bytes),
     true},
    {".vgpr_count", read_u32, offsetof(struct metadata_kernel, vgprs), true},
    {".sgpr_count", read_u32, offsetof(struct metadata_kernel, sgprs), true},
    {".max_flat_workgroup_size", read_u32, offsetof(struct metadata_kernel, max_flat_workgroup),
     true},
    {".wavefront_size", read_u32, offsetof(struct metadata_kernel, wave_size), true},
    {".agpr_count", read_u32, offsetof(struct metadata_kernel, agprs), false},
    {".vgpr_spill_count", read_u32, offsetof(struct metadata_kernel, vgpr_spills), false},
    {".sgpr_spill_count", read_u32, offsetof(struct metadata_kernel, sgpr_spills), false},
    {".uses_dynamic_stack", read_bool, offsetof(struct metadata_kernel, dynamic_stack), false},
    {".args", read_args, 0, false},
};

static quern_status read_kernels(struct msgpack *m, const char *name, void *to)
{
    struct metadata *const metadata = to;
    uint32_t items;

    (void)name;
    TRY(msgpack_array(m, &items));
    for (uint32_t i = 0; i < items; i++) {
        struct metadata_kernel *const kernels =
            grown(metadata->kernels, metadata->kernel_count, sizeof *kernels);
        FAIL_IF(!kernels, QUERN_E_MEMORY, "no memory for the metadata of %zu kernels",
                metadata->kernel_count + 1);
        metadata->kernels = kernels;
        /* counted before it is read, so that what it has allocated is freed on failure */
        struct metadata_kernel *const kernel = &kernels[metadata->kernel_count++];
        *kernel = (struct metadata_kernel){0};
        TRY(read_map(m, " of a kernel", kernel_members, COUNT(kernel_members), kernel));
        TRY(check_args(kernel));
    }
    msgpack_leave(m);
    return QUERN_OK;
}

static const struct member root_members[] = {
    {"amdhsa.target", read_text, offsetof(struct metadata, target), false},
    {"amdhsa.kernels", read_kernels, 0, true},
};

static quern_status read_root(struct msgpack *m, struct metadata *metadata)
{
    metadata->target = (struct msgpack_text){0};
    TRY(read_map(m, "", root_members, COUNT(root_members), metadata));
    FAIL_IF(m->at != m->end, QUERN_E_OBJECT, "%zu bytes follow the metadata",
            (size_t)(m->end - m->at));
    return QUERN_OK;
}

quern_status metadata_read(const uint8_t *content, size_t size, struct metadata *metadata)
{
    struct msgpack m = {.at = content, .end = content + size};

    const quern_status status = read_root(&m, metadata);
    if (status != QUERN_OK)
        metadata_free(metadata);
    return status;
}

void metadata_free(struct metadata *metadata)
{
    for (size_t i = 0; i < metadata->kernel_count; i++)
        os.free(metadata->kernels[i].args);
    os.free(metadata->kernels);
    *metadata = (struct metadata){0};
}
