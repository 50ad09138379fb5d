/* SPDX-License-Identifier: MIT */
/* What a host sees and says of compiles: events, counters, the seal. */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <string.h>

/* ---- Events ---------------------------------------------------------------------------------- */

static void tell(quern_ctx *ctx, const struct kernel *k, struct quern_event *e, uint64_t begun)
{
    char problem[QUERN_TEXT_MAX], key[33], source_key[33];

    if (quern_problem_text(&k->plan.problem, problem, sizeof problem) != QUERN_OK)
        problem[0] = 0;
    hex_from_bytes(key, k->entry_key.bytes, sizeof k->entry_key.bytes);
    hex_from_bytes(source_key, k->source_key.bytes, sizeof k->source_key.bytes);
    e->size = sizeof *e;
    e->problem = problem;
    e->kernel = k->plan.symbol;
    e->target = ctx->id.target->name;
    e->key = key;
    e->source_key = source_key;
    e->m_lo = k->plan.m_lo;
    e->m_hi = k->plan.m_hi;
    e->ns = begun ? os_now() - begun : 0;
    lock_take(&ctx->event_lock);
    ctx->event(ctx->event_user, e);
    lock_give(&ctx->event_lock);
}

void event_begin(quern_ctx *ctx, const struct kernel *k)
{
    if (ctx->event)
        tell(ctx, k, &(struct quern_event){.kind = QUERN_EVENT_BEGIN}, 0);
}

void event_compile(quern_ctx *ctx, const struct kernel *k, uint64_t begun)
{
    if (ctx->event)
        tell(ctx, k, &(struct quern_event){.kind = QUERN_EVENT_COMPILE, .reason = k->reason},
             begun);
}

void event_end(quern_ctx *ctx, const struct kernel *k, uint64_t begun, quern_status status)
{
    struct quern_event e = {.kind = QUERN_EVENT_END, .status = status};

    if (!ctx->event)
        return;
    if (status == QUERN_OK) {
        e.tier = k->tier;
        e.reason = k->tier == QUERN_TIER_COMPILER ? k->reason : 0;
        e.other_toolchain = k->by_source;
    }
    tell(ctx, k, &e, begun);
}

/* ---- The seal -------------------------------------------------------------------------------- */

static _Atomic(enum quern_seal) seal = QUERN_SEAL_OPEN;

enum quern_seal seal_state(void)
{
    return atomic_load(&seal);
}

quern_status quern_seal(enum quern_seal value)
{
    FAIL_IF(value < QUERN_SEAL_OPEN || value > QUERN_SEAL_FAIL, QUERN_E_ARGUMENT,
            "seal is %d; expected 1 (open), 2 (warn) or 3 (fail)", (int)value);
    atomic_store(&seal, value);
    return QUERN_OK;
}

/* ---- Counters -------------------------------------------------------------------------------- */

static uint64_t sum(const struct tally tallies[TALLIES])
{
    uint64_t total = 0;

    for (size_t i = 0; i < TALLIES; i++)
        total += atomic_load_explicit(&tallies[i].count, memory_order_relaxed);
    return total;
}

quern_status quern_ctx_stats(quern_ctx *ctx, struct quern_stats *stats)
{
    struct store_stats s;

    FAIL_IF(!ctx || !stats, QUERN_E_ARGUMENT, "%s is null", ctx ? "stats" : "ctx");
    FAIL_IF(stats->size != sizeof *stats, QUERN_E_ARGUMENT, "stats.size is %zu; expected %zu",
            stats->size, sizeof *stats);
    store_stats(ctx->store, &s);
    *stats = (struct quern_stats){
        .size = sizeof *stats,
        .hit_memory = sum(ctx->hit_memory),
        .hit_disk = s.hit,
        .miss_absent = s.miss_absent,
        .miss_damaged = s.miss_damaged,
        .miss_foreign = s.miss_foreign,
        .miss_io = s.miss_io,
        .put_ok = s.put_ok,
        .put_failed = s.put_failed,
        .put_lost = s.put_lost,
        .quarantined = s.quarantined,
        .evicted = s.evicted,
        .compile_ok = atomic_load(&ctx->compile_ok),
        .compile_failed = atomic_load(&ctx->compile_failed),
        .worker_died = atomic_load(&ctx->worker_died),
        .hit_bundle = atomic_load(&ctx->hit_bundle),
        .hit_source = atomic_load(&ctx->hit_source),
        .bundle_damaged = atomic_load(&ctx->bundle_damaged),
        .compile_ns = atomic_load(&ctx->compile_ns),
        .compile_refused = atomic_load(&ctx->compile_refused),
        .compile_sealed = atomic_load(&ctx->compile_sealed),
    };
    return QUERN_OK;
}

#define STAT(id, member) [id] = {#member, offsetof(struct quern_stats, member)}

static const struct {
    const char *name;
    size_t offset;
} stat_rows[QUERN_STAT_COUNT] = {
    STAT(QUERN_STAT_HIT_MEMORY, hit_memory),
    STAT(QUERN_STAT_HIT_BUNDLE, hit_bundle),
    STAT(QUERN_STAT_HIT_DISK, hit_disk),
    STAT(QUERN_STAT_HIT_SOURCE, hit_source),
    STAT(QUERN_STAT_MISS_ABSENT, miss_absent),
    STAT(QUERN_STAT_MISS_DAMAGED, miss_damaged),
    STAT(QUERN_STAT_MISS_FOREIGN, miss_foreign),
    STAT(QUERN_STAT_MISS_IO, miss_io),
    STAT(QUERN_STAT_PUT_OK, put_ok),
    STAT(QUERN_STAT_PUT_LOST, put_lost),
    STAT(QUERN_STAT_PUT_FAILED, put_failed),
    STAT(QUERN_STAT_QUARANTINED, quarantined),
    STAT(QUERN_STAT_EVICTED, evicted),
    STAT(QUERN_STAT_BUNDLE_DAMAGED, bundle_damaged),
    STAT(QUERN_STAT_COMPILE_OK, compile_ok),
    STAT(QUERN_STAT_COMPILE_FAILED, compile_failed),
    STAT(QUERN_STAT_COMPILE_NS, compile_ns),
    STAT(QUERN_STAT_COMPILE_REFUSED, compile_refused),
    STAT(QUERN_STAT_COMPILE_SEALED, compile_sealed),
    STAT(QUERN_STAT_WORKER_DIED, worker_died),
};

const char *quern_stat_name(enum quern_stat stat)
{
    return (unsigned)stat < QUERN_STAT_COUNT ? stat_rows[stat].name : NULL;
}

quern_status quern_stats(quern_ctx *ctx, uint64_t *values, size_t count)
{
    struct quern_stats stats = QUERN_INIT(struct quern_stats);

    FAIL_IF(!ctx || (!values && count), QUERN_E_ARGUMENT, "%s is null", ctx ? "values" : "ctx");
    TRY(quern_ctx_stats(ctx, &stats));
    for (size_t i = 0; i < count; i++) {
        values[i] = 0;
        if (i < QUERN_STAT_COUNT)
            memcpy(&values[i], (const char *)&stats + stat_rows[i].offset, sizeof values[i]);
    }
    return QUERN_OK;
}
