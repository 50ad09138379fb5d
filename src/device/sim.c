/* SPDX-License-Identifier: MIT */
/* The software GPU as a device: a launch runs to its end before it returns. */
#include "device/device.h"

#include "base/os.h"

#include <string.h>

struct sim_device {
    struct device base;
    quern_sim *sim;
};

struct device_kernel {
    quern_sim_module *module;
    char symbol[64];
};

static struct sim_device *of(struct device *d)
{
    return (struct sim_device *)d;
}

static quern_status load(struct device *d, const void *object, size_t size, const char *symbol,
                         struct device_kernel **out)
{
    struct device_kernel *const k = os.calloc(1, sizeof *k);

    FAIL_IF(!k, QUERN_E_MEMORY, "out of memory for a loaded kernel");
    const quern_status status = strlen(symbol) < sizeof k->symbol
                                    ? quern_sim_load(of(d)->sim, object, size, &k->module)
                                    : error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT(""),
                                                "kernel name %s is longer than %zu characters",
                                                symbol, sizeof k->symbol - 1);
    if (status != QUERN_OK) {
        os.free(k);
        return status;
    }
    memcpy(k->symbol, symbol, strlen(symbol) + 1);
    *out = k;
    return QUERN_OK;
}

static void unload(struct device *d, struct device_kernel *k)
{
    (void)d;
    quern_sim_unload(k->module);
    os.free(k);
}

static quern_status launch(struct device *d, struct device_kernel *k, const struct device_launch *l)
{
    struct quern_sim_launch run = QUERN_INIT(struct quern_sim_launch);

    (void)d;
    run.kernel = k->symbol;
    memcpy(run.grid, l->grid, sizeof run.grid);
    memcpy(run.block, l->block, sizeof run.block);
    run.lds_bytes = l->lds_bytes;
    run.kernarg = l->kernarg;
    run.kernarg_bytes = l->kernarg_bytes;
    return quern_sim_run(k->module, &run, NULL);
}

static void sim_close(struct device *d)
{
    quern_sim_close(of(d)->sim);
    os.free(d);
}

static const struct device_functions functions = {
    .name = "sim", .load = load, .unload = unload, .launch = launch, .close = sim_close};

quern_status device_sim_open(const struct target_id *id,
                             const struct quern_disassembler *disassembler, struct device **out)
{
    struct sim_device *const d = os.calloc(1, sizeof *d);
    struct quern_sim_options options = QUERN_INIT(struct quern_sim_options);

    FAIL_IF(!d, QUERN_E_MEMORY, "out of memory for a device");
    d->base.functions = &functions;
    d->base.id = *id;
    d->base.compute_units = id->target->cus;
    options.target = id->target->name;
    options.disassembler = *disassembler;
    const quern_status status = quern_sim_open(&options, &d->sim);
    if (status != QUERN_OK) {
        os.free(d);
        return status;
    }
    *out = &d->base;
    return QUERN_OK;
}

quern_sim *device_sim(struct device *device)
{
    return device && device->functions == &functions ? of(device)->sim : NULL;
}
