/* SPDX-License-Identifier: MIT */
/* The software GPU as a device: a launch runs to its end before it returns. */
#include "device/device.h"

#include "base/os.h"
#include "sim/load.h"

#include <stdio.h>
#include <string.h>

struct sim_device {
    struct device base;
    quern_sim *sim;
};

struct device_kernel {
    quern_sim_module *module;
    char symbol[128];
};

static struct sim_device *of(struct device *d)
{
    return (struct sim_device *)d;
}

static quern_status load(struct device *d, const struct object *object, const char *symbol,
                         uint32_t dynamic_lds, struct device_kernel **out)
{
    struct device_kernel *const k = os.calloc(1, sizeof *k);

    (void)dynamic_lds; /* a launch says it */
    FAIL_IF(!k, QUERN_E_MEMORY, "out of memory for a loaded kernel");
    const quern_status status = strlen(symbol) < sizeof k->symbol
                                    ? sim_load(of(d)->sim, object, &k->module)
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

static quern_status capturing(struct device *d, void *stream, bool *is)
{
    (void)d, (void)stream;
    *is = false;
    return QUERN_OK;
}

/* ---- Memory: the host's, mapped -------------------------------------------------------------- */

static quern_status memory_make(struct device *d, size_t bytes, enum quern_sim_access access,
                                const char *name, struct device_memory *m)
{
    m->bytes = bytes;
    m->host = os.calloc(1, bytes);
    FAIL_IF(!m->host, QUERN_E_MEMORY, "out of memory for %zu bytes of %s", bytes,
            name ? name : "a buffer");
    const quern_status status =
        quern_sim_map(of(d)->sim, m->host, bytes, access, name, &m->address);
    if (status != QUERN_OK)
        os.free(m->host);
    return status;
}

static void memory_free(struct device *d, struct device_memory *m)
{
    quern_sim_unmap(of(d)->sim, m->address);
    os.free(m->host);
}

static quern_status memory_write(struct device *d, const struct device_memory *m, const void *from)
{
    (void)d;
    memcpy(m->host, from, m->bytes);
    return QUERN_OK;
}

static quern_status memory_read(struct device *d, const struct device_memory *m, void *to)
{
    (void)d;
    memcpy(to, m->host, m->bytes);
    return QUERN_OK;
}

static quern_status measure(struct device *d, quern_status (*work)(void *user), void *user,
                            double *microseconds)
{
    const uint64_t start = os_now();

    (void)d;
    TRY(work(user));
    *microseconds = (double)(os_now() - start) * 1e-3;
    return QUERN_OK;
}

static void sim_close(struct device *d)
{
    quern_sim_close(of(d)->sim);
    os.free(d);
}

static const struct device_functions functions = {
    .kind = QUERN_DEVICE_SIM,
    .load = load,
    .unload = unload,
    .launch = launch,
    .capturing = capturing,
    .memory_make = memory_make,
    .memory_free = memory_free,
    .memory_write = memory_write,
    .memory_read = memory_read,
    .measure = measure,
    .close = sim_close,
};

quern_status device_sim_open(const struct target_id *id, const struct device_sim_config *config,
                             struct device **out)
{
    struct sim_device *const d = os.calloc(1, sizeof *d);
    struct quern_sim_options options = QUERN_INIT(struct quern_sim_options);

    FAIL_IF(!d, QUERN_E_MEMORY, "out of memory for a device");
    d->base.functions = &functions;
    d->base.id = *id;
    snprintf(d->base.facts.name, sizeof d->base.facts.name, "software GPU as %s", id->target->part);
    d->base.facts.compute_units = id->target->cus;
    d->base.facts.clock_ghz = id->target->clock_ghz;
    options.target = id->target->name;
    options.disassembler = config->disassembler;
    options.worker_path = config->worker_path;
    options.threads = config->threads;
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
