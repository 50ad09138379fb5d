/* SPDX-License-Identifier: MIT */
/* Opens and closes a context: its settings, target, log, tiers, compiler and device. */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <string.h>

/* Opens the software GPU of the target. Where none runs the target, kernels can be made and stored
 * all the same, so that is an error only if the host named the device. */
static quern_status open_sim(quern_ctx *ctx)
{
    const struct target *const t = ctx->id.target;
    const bool named = ctx->settings.device == QUERN_DEVICE_SIM;

    if (!target_simulated(t) && !named) {
        log_line(&ctx->log, QUERN_LOG_WARN,
                 "this context has no device, as no software GPU runs %s: kernels are made and "
                 "stored, and none is launched (QUERN_DEVICE=none says that this is meant)",
                 t->name);
        return QUERN_OK;
    }
    const quern_status status = device_sim_open(
        &ctx->id,
        &(struct device_sim_config){.disassembler = {compiler_disassemble, ctx->compiler},
                                    .worker_path = ctx->settings.worker_path,
                                    .threads = ctx->settings.jobs},
        &ctx->device);
    if (status != QUERN_E_DEVICE || named)
        return status;
    struct error_record why;
    error_save(&why);
    FAIL(status,
         "a target without a device asks for a software GPU: %s. QUERN_DEVICE=none makes kernels "
         "without one",
         why.message);
}

/* Opens the device and sets the target, which a GPU says itself. With `automatic` no runtime is
 * loaded on a machine without a GPU. */
static quern_status open_gpu(quern_ctx *ctx, const struct device_driver *driver, bool automatic)
{
    struct settings *const s = &ctx->settings;
    const struct device_search search = {.path = settings_path(s, driver->option),
                                         .automatic = automatic};
    struct target_id asked;

    if (s->target)
        TRY(target_parse(s->target, &asked));
    TRY(driver->open(driver, &search, s->device_index, &ctx->device));
    ctx->id = ctx->device->id;
    FAIL_IF(s->target && asked.target != ctx->id.target, QUERN_E_TARGET,
            "%s device %d is a %s, and the target asked for is %s; leave the target out, or ask "
            "for a software device (QUERN_DEVICE=sim)",
            driver->runtime, s->device_index, ctx->id.target->name, s->target);
    return QUERN_OK;
}

/* Opens the GPU of the first vendor that has one on this machine. */
static quern_status open_any_gpu(quern_ctx *ctx)
{
    struct str why = {0};
    quern_status status = QUERN_E_DEVICE;

    for (size_t i = 0; drivers[i] && status == QUERN_E_DEVICE; i++) {
        status = open_gpu(ctx, drivers[i], true);
        for (size_t j = i + 1; drivers[j] && status == QUERN_OK; j++)
            if (drivers[j]->present && drivers[j]->present(drivers[j]))
                log_line(&ctx->log, QUERN_LOG_INFO,
                         "this machine has GPUs of %s and of %s: those of %s are taken, and "
                         "QUERN_DEVICE=%s takes the others",
                         drivers[i]->vendor, drivers[j]->vendor, drivers[i]->vendor,
                         drivers[j]->name);
        if (status == QUERN_E_DEVICE)
            str_addf(&why, "%s%s", i ? "; " : "", quern_last_error()->message);
    }
    if (status == QUERN_E_DEVICE) {
        error_set(QUERN_E_TARGET, __FILE__, FAIL_AT("a GPU"), "no GPU: %s", str_text(&why));
        status = error_remedy("for a software one, " GIVE_A_TARGET);
    }
    str_free(&why);
    return status;
}

static quern_status choose_target(quern_ctx *ctx)
{
    struct settings *const s = &ctx->settings;

    for (size_t i = 0; drivers[i]; i++)
        if (s->device == drivers[i]->number)
            return open_gpu(ctx, drivers[i], false);
    if (!s->target && s->device == QUERN_DEVICE_AUTO)
        return open_any_gpu(ctx);
    return settings_target(s, &ctx->id);
}

static quern_status open_rooms(quern_ctx *ctx)
{
    struct settings *const s = &ctx->settings;

    TRY(choose_target(ctx));
    const unsigned vendor = ctx->id.target->vendor;
    TRY(tiers_open(ctx));
    TRY(compiler_open(&(struct compiler_config){.vendor = vendor,
                                                .path = settings_path(s, toolchain_option(vendor)),
                                                .worker_path = s->worker_path,
                                                .jobs = s->jobs,
                                                .log = &ctx->log},
                      &ctx->compiler));
    ctx->disassembler = (struct quern_disassembler){compiler_disassemble, ctx->compiler};
    TRY(tuning_load(s, &ctx->bundles, ctx->store, ctx->id.target, &ctx->log, &ctx->tuning));
    TRY(facts_load(s, &ctx->bundles, ctx->store, ctx->id.target, &ctx->log, &ctx->facts));
    TRY(facts_target(&ctx->facts, ctx->id.target, &ctx->planned));
    return ctx->device || s->device == QUERN_DEVICE_NONE ? QUERN_OK : open_sim(ctx);
}

static void ctx_free(quern_ctx *ctx)
{
    op_table_free(ctx);
    if (ctx->device)
        ctx->device->functions->close(ctx->device);
    if (ctx->compiler)
        compiler_close(ctx->compiler);
    tiers_close(ctx);
    tuning_free(ctx->tuning);
    settings_free(&ctx->settings);
    os.free(ctx);
}

quern_status quern_open(const struct quern_options *options, quern_ctx **out)
{
    struct quern_options own;

    FAIL_IF(!out, QUERN_E_ARGUMENT, "ctx is null");
    TRY(options_read(options, &own));
    quern_ctx *const ctx = os.calloc(1, sizeof *ctx);
    FAIL_IF(!ctx, QUERN_E_MEMORY, "out of memory for a context of %zu bytes", sizeof *ctx);
    ctx->references = 1;
    ctx->free = ctx_free;
    ctx->log.function = own.log;
    ctx->log.user = own.log_user;
    ctx->log.level = QUERN_LOG_WARN;
    ctx->event = own.event;
    ctx->event_user = own.event_user;
    quern_status status = settings_make(&own, &ctx->log, &ctx->settings);
    if (status == QUERN_OK)
        status = open_rooms(ctx);
    if (status != QUERN_OK) {
        quern_close(ctx);
        return status;
    }
    *out = ctx;
    return QUERN_OK;
}

void quern_close(quern_ctx *ctx)
{
    if (!ctx || atomic_exchange(&ctx->closed, true))
        return;
    op_table_close(ctx);
    if (atomic_load(&ctx->references) > 1) { /* what the callbacks use may be gone by then */
        ctx->log.function = NULL;
        ctx->event = NULL;
    }
    ctx_drop(ctx);
}

quern_status ctx_no_device(const quern_ctx *ctx)
{
    FAIL_IF(
        ctx->settings.device == QUERN_DEVICE_NONE, QUERN_E_DEVICE,
        "this context was opened with QUERN_DEVICE=none: kernels are made, and none is launched");
    FAIL(QUERN_E_DEVICE, "this context has no device: no software GPU runs %s here",
         ctx->id.target->name);
}

quern_sim *quern_ctx_sim(quern_ctx *ctx)
{
    return ctx ? device_sim(ctx->device) : NULL;
}

struct quern_disassembler quern_ctx_disassembler(quern_ctx *ctx)
{
    return ctx ? ctx->disassembler : (struct quern_disassembler){0};
}
