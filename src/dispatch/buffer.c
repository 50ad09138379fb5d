/* SPDX-License-Identifier: MIT */
/* The device of a context, its memory and its clock, for tools, tests and examples. */
#include "dispatch/dispatch.h"

#include "base/extensible.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

struct quern_buffer {
    quern_ctx *ctx; /* with a reference */
    struct device *device;
    struct device_memory memory;
};

static quern_status device_of(quern_ctx *ctx, struct device **device)
{
    FAIL_IF(!ctx, QUERN_E_ARGUMENT, "ctx is null");
    if (!ctx->device)
        return ctx_no_device(ctx);
    *device = ctx->device;
    return QUERN_OK;
}

quern_status quern_ctx_device(quern_ctx *ctx, struct quern_device_info *info)
{
    const struct extensible *const type = EXTENSIBLE(quern_device_info, QUERN_DEVICE_INFO_SIZE_MIN);
    struct device *d = NULL;

    TRY(device_of(ctx, &d));
    TRY(extensible_check(type, info));
    struct quern_device_info own = {
        .kind = d->functions->kind,
        .compute_units = d->facts.compute_units,
        .clock_ghz = d->facts.clock_ghz,
        .memory_bytes = d->facts.memory_bytes,
        .cache_bytes = d->facts.cache_bytes,
        .runtime_version = d->facts.runtime_version,
    };
    snprintf(own.name, sizeof own.name, "%s", d->facts.name);
    snprintf(own.runtime, sizeof own.runtime, "%s", d->facts.runtime);
    target_id_text(&d->id, own.target, sizeof own.target);
    extensible_write(type, &own, info);
    return QUERN_OK;
}

quern_status quern_buffer_create(quern_ctx *ctx, size_t bytes, int access, const char *name,
                                 quern_buffer **out)
{
    struct device *d = NULL;

    TRY(device_of(ctx, &d));
    FAIL_IF(!out, QUERN_E_ARGUMENT, "buffer is null");
    FAIL_IF(!bytes, QUERN_E_ARGUMENT, "buffer %.100s of 0 bytes; expected at least 1",
            name ? name : "without a name");
    FAIL_IF(access < QUERN_SIM_READ || access > QUERN_SIM_READ_WRITE, QUERN_E_ARGUMENT,
            "access is %d; expected 1 (kernels read it), 2 (they write it) or 3 (both)", access);
    quern_buffer *const b = os.calloc(1, sizeof *b);
    FAIL_IF(!b, QUERN_E_MEMORY, "out of memory for a buffer");
    b->device = d;
    const quern_status status =
        d->functions->memory_make(d, bytes, (enum quern_sim_access)access, name, &b->memory);
    if (status != QUERN_OK) {
        os.free(b);
        return status;
    }
    b->ctx = ctx;
    ctx_hold(ctx);
    *out = b;
    return QUERN_OK;
}

void quern_buffer_destroy(quern_buffer *b)
{
    if (!b)
        return;
    b->device->functions->memory_free(b->device, &b->memory);
    ctx_drop(b->ctx);
    os.free(b);
}

void *quern_buffer_address(const quern_buffer *b)
{
    return b ? (void *)(uintptr_t)b->memory.address : NULL;
}

static quern_status check_copy(const quern_buffer *b, const void *host, size_t bytes)
{
    FAIL_IF(!b || !host, QUERN_E_ARGUMENT, "%s is null", b ? "the host's memory" : "buffer");
    FAIL_IF(bytes > b->memory.bytes, QUERN_E_BUFFER, "%zu bytes of a buffer that has %zu", bytes,
            b->memory.bytes);
    return QUERN_OK;
}

quern_status quern_buffer_write(quern_buffer *b, const void *from, size_t bytes)
{
    TRY(check_copy(b, from, bytes));
    struct device_memory part = b->memory;
    part.bytes = bytes;
    return b->device->functions->memory_write(b->device, &part, from);
}

quern_status quern_buffer_read(const quern_buffer *b, void *to, size_t bytes)
{
    TRY(check_copy(b, to, bytes));
    struct device_memory part = b->memory;
    part.bytes = bytes;
    return b->device->functions->memory_read(b->device, &part, to);
}

quern_status quern_ctx_measure(quern_ctx *ctx, quern_status (*work)(void *user), void *user,
                               double *microseconds)
{
    struct device *d = NULL;

    TRY(device_of(ctx, &d));
    FAIL_IF(!work || !microseconds, QUERN_E_ARGUMENT, "%s is null", work ? "microseconds" : "work");
    return d->functions->measure(d, work, user, microseconds);
}
