/* SPDX-License-Identifier: MIT */
/* The tiers that a context looks for kernels in, before it compiles them. */
#include "dispatch/dispatch.h"

#include <string.h>

static quern_status open_bundles(quern_ctx *ctx, struct tier *tier)
{
    TRY(bundles_open(&ctx->settings, &ctx->log, &ctx->bundles));
    ctx->bundles.counters = &ctx->counters;
    *tier = bundles_tier(&ctx->bundles);
    return QUERN_OK;
}

/* Opens the cache although its directory is not fit to be written to, and perhaps not to be read,
 * where the host did not say that it must be: each look-up tries it again, so that a volume that is
 * mounted later serves. The failure that was recorded stands where the cache is needed: compiling
 * is off and there is no bundle, so that it is the only way to a kernel; or bundles must be signed,
 * and what it notes of their serials keeps old ones out. */
static quern_status open_unfit(quern_ctx *ctx, struct store_config *config)
{
    struct settings *const s = &ctx->settings;
    struct error_record why;

    error_save(&why);
    config->mode = QUERN_CACHE_RO;
    const bool read = store_open(config, &ctx->store) == QUERN_OK;
    if (!read && (s->bundle_keys || (s->jit == QUERN_JIT_OFF && !ctx->bundles.count)))
        return error_restore(&why);
    store_close(ctx->store);
    config->mode = QUERN_CACHE_RW;
    config->unfit_said = true;
    if (store_open(config, &ctx->store) != QUERN_OK) {
        config->mode = QUERN_CACHE_OFF;
        TRY(store_open(config, &ctx->store));
    }
    s->cache_mode = read ? QUERN_CACHE_RO : QUERN_CACHE_OFF; /* what can be relied on */
    log_line(&ctx->log, QUERN_LOG_WARN, "%s for now: %s",
             read ? "nothing is stored in the cache" : "there is no cache", why.message);
    return QUERN_OK;
}

static quern_status open_cache(quern_ctx *ctx, struct tier *tier)
{
    const struct settings *const s = &ctx->settings;
    struct store_config config = {.directory = s->cache_dir,
                                  .max_bytes = s->cache_max_bytes,
                                  .mode = s->cache_mode,
                                  .shared = s->cache_shared,
                                  .log = &ctx->log,
                                  .counters = &ctx->counters};
    quern_status status = store_open(&config, &ctx->store);

    if (status == QUERN_E_CACHE && !s->cache_named)
        status = open_unfit(ctx, &config);
    TRY(status);
    *tier = store_tier(ctx->store);
    return QUERN_OK;
}

static quern_status open_base(quern_ctx *ctx, struct tier *tier)
{
    const struct base_shipped *s = base_shipped;

    while (s->target && strcmp(s->target, ctx->id.target->name) != 0)
        s++;
    if (ctx->settings.base == QUERN_BASE_OFF)
        ctx->base.none = "; those that come with the library are not used (QUERN_BASE=off)";
    else if (!s->target)
        ctx->base.none = "; this library was built without base kernels for the target";
    else
        ctx->base.shipped = s;
    ctx->base.worker_path = ctx->settings.worker_path;
    ctx->base.log = &ctx->log;
    ctx->base.counters = &ctx->counters;
    *tier = base_tier(&ctx->base);
    return QUERN_OK;
}

static quern_status open_remote(quern_ctx *ctx, struct tier *tier)
{
    tier->get = NULL;
    return ctx->settings.remote ? remote_open(&ctx->settings, ctx->store, &ctx->log, &ctx->counters,
                                              &ctx->remote, tier)
                                : QUERN_OK;
}

/* The functions that open the tiers, in the order in which tiers are asked. A new tier is one row
 * here; the settings say how to open it, and quern.h has its counters. A tier that the settings do
 * not want leaves its `get` null. */
static quern_status (*const openers[])(quern_ctx *ctx, struct tier *tier) = {
    open_bundles,
    open_cache,
    open_remote,
    open_base,
};

quern_status tiers_open(quern_ctx *ctx)
{
    _Static_assert(sizeof openers / sizeof *openers < TIERS_MAX, "and room for one of a test's");
    for (size_t i = 0; i < sizeof openers / sizeof *openers; i++) {
        TRY(openers[i](ctx, &ctx->tiers[ctx->tier_count]));
        ctx->tier_count += ctx->tiers[ctx->tier_count].get != NULL;
    }
    bundles_admit(&ctx->bundles, ctx->store, ctx->settings.cache_mode == QUERN_CACHE_RW);
    return QUERN_OK;
}

void tiers_close(quern_ctx *ctx)
{
    while (ctx->tier_count) {
        const struct tier *const t = &ctx->tiers[--ctx->tier_count];
        t->close(t->self);
    }
}

void tiers_put(quern_ctx *ctx, struct store_put *puts, size_t count, bool near)
{
    for (size_t i = 0; i < ctx->tier_count; i++)
        if (ctx->tiers[i].put && !(near && ctx->tiers[i].far))
            ctx->tiers[i].put(ctx->tiers[i].self, puts, count);
}
