/* SPDX-License-Identifier: MIT */
/* Mill's objects as quern reads them, and its runtime, whose GPUs run them on the CPU. */
#include "mill.h"

#include "device/device.h"
#include "object/format.h"
#include "plan/args.h"

#include <stdlib.h>
#include <string.h>

int mill_devices = 1, mill_launches;

/* ---- Objects --------------------------------------------------------------------------------- */

static bool recognise(const uint8_t *bytes, size_t size)
{
    return size >= sizeof MILL_MAGIC - 1 && !memcmp(bytes, MILL_MAGIC, sizeof MILL_MAGIC - 1);
}

/* The arguments of a product without scales: A, W, C, m, first, lda, ldc. */
static const uint32_t argument_bytes[] = {8, 8, 8, 4, 4, 8, 8};
#define ARGUMENTS (sizeof argument_bytes / sizeof *argument_bytes)

static quern_status parse(struct object *o)
{
    const struct mill_object *const from = (const void *)o->bytes;
    uint32_t offset = 0;

    FAIL_IF(o->size != sizeof *from, QUERN_E_OBJECT, "%zu bytes are no Mill object of %zu", o->size,
            sizeof *from);
    FAIL_IF(!memchr(from->symbol, 0, sizeof from->symbol), QUERN_E_OBJECT, "a name without end");
    o->target = target_of_machine(VENDOR_MILL, from->machine);
    FAIL_IF(!o->target, QUERN_E_OBJECT, "code for machine %u of Mill", from->machine);
    struct object_kernel *const k = o->kernels = calloc(1, sizeof *k);
    FAIL_IF(!k, QUERN_E_MEMORY, "out of memory for a kernel");
    o->kernel_count = 1;
    k->name = from->symbol;
    k->code_bytes = sizeof *from;
    k->vgprs = k->vgprs_granted = 16;
    k->wave_size = k->max_flat_workgroup = from->lanes;
    k->args = calloc(ARGUMENTS, sizeof *k->args);
    FAIL_IF(!k->args, QUERN_E_MEMORY, "out of memory for arguments");
    for (k->arg_count = 0; k->arg_count < ARGUMENTS; k->arg_count++) {
        const uint32_t size = argument_bytes[k->arg_count];
        k->args[k->arg_count] = (struct object_arg){
            size == 8 && k->arg_count < 3 ? OBJECT_ARG_GLOBAL_BUFFER : OBJECT_ARG_BY_VALUE, offset,
            size};
        offset += size;
    }
    k->kernarg_bytes = offset;
    return QUERN_OK;
}

const struct object_format object_mill = {recognise, parse};

/* ---- The device ------------------------------------------------------------------------------ */

struct device_kernel {
    struct mill_object object;
};

static quern_status load(struct device *d, const struct object *object, const char *symbol,
                         uint32_t dynamic_lds, struct device_kernel **out)
{
    struct device_kernel *const k = malloc(sizeof *k);

    (void)d, (void)dynamic_lds;
    FAIL_IF(!k || !object_kernel(object, symbol), QUERN_E_OBJECT, "no kernel %s", symbol);
    memcpy(&k->object, object->bytes, sizeof k->object);
    *out = k;
    return QUERN_OK;
}

static void unload(struct device *d, struct device_kernel *k)
{
    (void)d;
    free(k);
}

/* What a work-item computes: a row of W with each row of A of its slice. */
static void run_lane(const struct mill_object *o, const uint8_t *kernarg, uint32_t row,
                     uint32_t slice)
{
    uint64_t address[3];
    int64_t lda, ldc;
    int32_t m, first;

    memcpy(address, kernarg, sizeof address);
    memcpy(&m, kernarg + 24, sizeof m);
    memcpy(&first, kernarg + 28, sizeof first);
    memcpy(&lda, kernarg + 32, sizeof lda);
    memcpy(&ldc, kernarg + 40, sizeof ldc);
    const float *const a = (const float *)address[0], *const w = (const float *)address[1];
    float *const c = (float *)address[2];
    for (int64_t i = (int64_t)slice * o->m_tile; i < m && i < (int64_t)(slice + 1) * o->m_tile;
         i++) {
        double sum = 0;
        for (uint32_t k = 0; k < o->k; k++)
            sum += (double)a[(first + i) * lda + k] * (double)w[(size_t)row * o->k + k];
        c[(first + i) * ldc + row] = (float)sum;
    }
}

static quern_status launch(struct device *d, struct device_kernel *k, const struct device_launch *l)
{
    const struct mill_object *const o = &k->object;

    (void)d;
    FAIL_IF(l->kernarg_bytes != 48 || l->block[0] != o->lanes, QUERN_E_DEVICE,
            "a launch of %zu bytes of arguments in workgroups of %u", l->kernarg_bytes,
            l->block[0]);
    for (uint32_t x = 0; x < l->grid[0]; x++)
        for (uint32_t y = 0; y < l->grid[1]; y++)
            for (uint32_t row = x * o->rows; row < (x + 1) * o->rows && row < o->n; row++)
                run_lane(o, l->kernarg, row, y);
    mill_launches++;
    return QUERN_OK;
}

static quern_status capturing(struct device *d, void *stream, bool *is)
{
    (void)d, (void)stream;
    *is = false;
    return QUERN_OK;
}

static quern_status memory_make(struct device *d, size_t bytes, enum quern_sim_access access,
                                const char *name, struct device_memory *memory)
{
    (void)d, (void)access, (void)name;
    memory->host = calloc(1, bytes);
    FAIL_IF(!memory->host, QUERN_E_MEMORY, "out of memory");
    memory->address = (uint64_t)memory->host;
    memory->bytes = bytes;
    return QUERN_OK;
}

static void memory_free(struct device *d, struct device_memory *memory)
{
    (void)d;
    free(memory->host);
}

static quern_status memory_write(struct device *d, const struct device_memory *memory,
                                 const void *from)
{
    (void)d;
    memcpy(memory->host, from, memory->bytes);
    return QUERN_OK;
}

static quern_status memory_read(struct device *d, const struct device_memory *memory, void *to)
{
    (void)d;
    memcpy(to, memory->host, memory->bytes);
    return QUERN_OK;
}

static void close_device(struct device *d)
{
    free(d);
}

#define MILL_NUMBER ((enum quern_device_kind)(QUERN_DEVICE_CUDA + 1))

static const struct device_functions functions = {
    .kind = MILL_NUMBER,
    .load = load,
    .unload = unload,
    .launch = launch,
    .capturing = capturing,
    .memory_make = memory_make,
    .memory_free = memory_free,
    .memory_write = memory_write,
    .memory_read = memory_read,
    .close = close_device,
};

static quern_status count_devices(const struct device_driver *driver,
                                  const struct device_search *search, int *count)
{
    (void)driver;
    if (search->tried)
        search->tried(search->user, "libmill.so", "");
    *count = mill_devices;
    return QUERN_OK;
}

static quern_status open_device(const struct device_driver *driver,
                                const struct device_search *search, int index, struct device **out)
{
    (void)driver, (void)search;
    FAIL_IF(index >= mill_devices, QUERN_E_DEVICE, "Mill has %d devices", mill_devices);
    struct device *const d = calloc(1, sizeof *d);
    FAIL_IF(!d, QUERN_E_MEMORY, "out of memory for a device");
    d->functions = &functions;
    d->id.target = target_named("mill_1");
    d->facts.compute_units = d->id.target->cus;
    strcpy(d->facts.name, "Mill One");
    *out = d;
    return QUERN_OK;
}

const struct device_driver driver_mill = {
    .vendor = "Mill",
    .name = "mill",
    .runtime = "Mill",
    .number = MILL_NUMBER,
    .open = open_device,
    .count = count_devices,
};
