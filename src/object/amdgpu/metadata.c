/* SPDX-License-Identifier: MIT */
/* The metadata note of a code object (metadata.h): kernels, their arguments and registers. */
#include "object/amdgpu/metadata.h"
#include "base/os.h"

#include <string.h>

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

static quern_status read_arg_kind(struct msgpack *m, enum object_arg_kind *kind)
{
    struct msgpack_text text;

    TRY(msgpack_string(m, &text));
    for (size_t i = 0; i < sizeof arg_kinds / sizeof *arg_kinds; i++)
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

/* Notes that member `bit` was read; a second one of the name is refused. */
static quern_status once(unsigned *seen, unsigned bit, const char *name)
{
    FAIL_IF(*seen & bit, QUERN_E_OBJECT, "the metadata give %s twice", name);
    *seen |= bit;
    return QUERN_OK;
}

static quern_status read_u32(struct msgpack *m, const char *name, uint32_t *value)
{
    uint64_t wide;

    TRY(msgpack_uint(m, &wide));
    FAIL_IF(wide > UINT32_MAX, QUERN_E_OBJECT, "%s of %llu: at most %u", name,
            (unsigned long long)wide, UINT32_MAX);
    *value = (uint32_t)wide;
    return QUERN_OK;
}

static quern_status read_arg(struct msgpack *m, struct object_arg *arg)
{
    enum { OFFSET = 1, SIZE = 2, KIND = 4 };
    uint32_t pairs;
    unsigned seen = 0;

    TRY(msgpack_map(m, &pairs));
    for (uint32_t i = 0; i < pairs; i++) {
        struct msgpack_text key;
        TRY(msgpack_string(m, &key));
        if (msgpack_text_is(key, ".offset")) {
            TRY(once(&seen, OFFSET, ".offset"));
            TRY(read_u32(m, ".offset", &arg->offset));
        } else if (msgpack_text_is(key, ".size")) {
            TRY(once(&seen, SIZE, ".size"));
            TRY(read_u32(m, ".size", &arg->size));
        } else if (msgpack_text_is(key, ".value_kind")) {
            TRY(once(&seen, KIND, ".value_kind"));
            TRY(read_arg_kind(m, &arg->kind));
        } else {
            TRY(msgpack_skip(m));
        }
    }
    msgpack_leave(m);
    FAIL_IF(seen != (OFFSET | SIZE | KIND), QUERN_E_OBJECT,
            "a kernel argument without all of .offset, .size and .value_kind");
    return QUERN_OK;
}

static quern_status read_args(struct msgpack *m, struct metadata_kernel *kernel)
{
    uint32_t items;

    TRY(msgpack_array(m, &items));
    for (uint32_t i = 0; i < items; i++) {
        struct object_arg *const args = grown(kernel->args, kernel->arg_count, sizeof *args);
        FAIL_IF(!args, QUERN_E_MEMORY, "no memory for %zu kernel arguments", kernel->arg_count + 1);
        kernel->args = args;
        TRY(read_arg(m, &args[kernel->arg_count]));
        kernel->arg_count++;
    }
    msgpack_leave(m);
    return QUERN_OK;
}

/* The numeric members of a kernel, by name. */
static const struct member {
    const char *name;
    size_t offset;
    bool required;
} members[] = {
    {".kernarg_segment_size", offsetof(struct metadata_kernel, kernarg_bytes), true},
    {".group_segment_fixed_size", offsetof(struct metadata_kernel, lds_bytes), true},
    {".private_segment_fixed_size", offsetof(struct metadata_kernel, scratch_bytes), true},
    {".vgpr_count", offsetof(struct metadata_kernel, vgprs), true},
    {".sgpr_count", offsetof(struct metadata_kernel, sgprs), true},
    {".max_flat_workgroup_size", offsetof(struct metadata_kernel, max_flat_workgroup), true},
    {".wavefront_size", offsetof(struct metadata_kernel, wave_size), true},
    {".agpr_count", offsetof(struct metadata_kernel, agprs), false},
    {".vgpr_spill_count", offsetof(struct metadata_kernel, vgpr_spills), false},
    {".sgpr_spill_count", offsetof(struct metadata_kernel, sgpr_spills), false},
};
enum { MEMBERS = sizeof members / sizeof *members };
enum { SEEN_SYMBOL = 1 << MEMBERS, SEEN_ARGS = 2 << MEMBERS, SEEN_STACK = 4 << MEMBERS };

static quern_status read_member(struct msgpack *m, struct msgpack_text key, unsigned *seen,
                                struct metadata_kernel *kernel)
{
    if (msgpack_text_is(key, ".symbol")) {
        TRY(once(seen, SEEN_SYMBOL, ".symbol"));
        return msgpack_string(m, &kernel->symbol);
    }
    if (msgpack_text_is(key, ".args")) {
        TRY(once(seen, SEEN_ARGS, ".args"));
        return read_args(m, kernel);
    }
    if (msgpack_text_is(key, ".uses_dynamic_stack")) {
        TRY(once(seen, SEEN_STACK, ".uses_dynamic_stack"));
        return msgpack_bool(m, &kernel->dynamic_stack);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        if (msgpack_text_is(key, members[i].name)) {
            TRY(once(seen, 1u << i, members[i].name));
            return read_u32(m, members[i].name, (uint32_t *)((char *)kernel + members[i].offset));
        }
    return msgpack_skip(m);
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

static quern_status read_kernel(struct msgpack *m, struct metadata_kernel *kernel)
{
    uint32_t pairs;
    unsigned seen = 0;

    TRY(msgpack_map(m, &pairs));
    for (uint32_t i = 0; i < pairs; i++) {
        struct msgpack_text key;
        TRY(msgpack_string(m, &key));
        TRY(read_member(m, key, &seen, kernel));
    }
    msgpack_leave(m);
    FAIL_IF(!(seen & SEEN_SYMBOL), QUERN_E_OBJECT, "the metadata of a kernel have no .symbol");
    for (unsigned i = 0; i < MEMBERS; i++)
        FAIL_IF(members[i].required && !(seen & 1u << i), QUERN_E_OBJECT,
                "the metadata of a kernel have no %s", members[i].name);
    return check_args(kernel);
}

static quern_status read_kernels(struct msgpack *m, struct metadata *metadata)
{
    uint32_t items;

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
        TRY(read_kernel(m, kernel));
    }
    msgpack_leave(m);
    return QUERN_OK;
}

static quern_status read_root(struct msgpack *m, struct metadata *metadata)
{
    enum { TARGET = 1, KERNELS = 2 };
    uint32_t pairs;
    unsigned seen = 0;

    metadata->target = (struct msgpack_text){0};
    TRY(msgpack_map(m, &pairs));
    for (uint32_t i = 0; i < pairs; i++) {
        struct msgpack_text key;
        TRY(msgpack_string(m, &key));
        if (msgpack_text_is(key, "amdhsa.target")) {
            TRY(once(&seen, TARGET, "amdhsa.target"));
            TRY(msgpack_string(m, &metadata->target));
        } else if (msgpack_text_is(key, "amdhsa.kernels")) {
            TRY(once(&seen, KERNELS, "amdhsa.kernels"));
            TRY(read_kernels(m, metadata));
        } else {
            TRY(msgpack_skip(m));
        }
    }
    msgpack_leave(m);
    FAIL_IF(m->at != m->end, QUERN_E_OBJECT, "%zu bytes follow the metadata",
            (size_t)(m->end - m->at));
    FAIL_IF(!(seen & KERNELS), QUERN_E_OBJECT, "the metadata have no amdhsa.kernels");
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
