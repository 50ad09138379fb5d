/* SPDX-License-Identifier: MIT */
/* What a host sees and says of compiles: events, counters, the seal. */
#include "dispatch/dispatch.h"

#include "base/extensible.h"
#include "base/os.h"

#include <string.h>

/* ---- Events ---------------------------------------------------------------------------------- */

static void tell(quern_ctx *ctx, const struct kernel *k, struct quern_event *e, uint64_t begun)
{
    char problem[QUERN_TEXT_MAX], key[33], source_key[33];

    problem_text(&k->plan.problem, problem);
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

const char *quern_tier_name(enum quern_tier tier)
{
    static const char *const names[] = {
#define NAME_OF(number, NAME, name) [number] = name,
        QUERN_TIERS(NAME_OF)
#undef NAME_OF
    };

    return (unsigned)tier < sizeof names / sizeof *names ? names[tier] : NULL;
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

static uint64_t value_of(const quern_ctx *ctx, enum quern_stat which)
{
    uint64_t total = counter_value(&ctx->counters, which);

    for (size_t i = 0; which == QUERN_STAT_HIT_MEMORY && i < TALLIES; i++)
        total += atomic_load_explicit(&ctx->hit_memory[i].count, memory_order_relaxed);
    return total;
}

quern_status quern_ctx_stats(quern_ctx *ctx, struct quern_stats *stats)
{
    const struct extensible *const type = EXTENSIBLE(quern_stats, QUERN_STATS_SIZE_MIN);
    struct quern_stats own;

    FAIL_IF(!ctx, QUERN_E_ARGUMENT, "ctx is null");
    TRY(extensible_check(type, stats));
#define READ(number, NAME, name, counts) own.name = value_of(ctx, QUERN_STAT_##NAME);
    QUERN_STATS(READ)
#undef READ
    extensible_write(type, &own, stats);
    return QUERN_OK;
}

static const struct {
    const char *name, *counts;
} rows[] = {
#define ROW(number, NAME, name, counts) [number] = {#name, counts},
    QUERN_STATS(ROW)
#undef ROW
};

const char *quern_stat_name(enum quern_stat stat)
{
    return (unsigned)stat < QUERN_STAT_COUNT ? rows[stat].name : NULL;
}

const char *quern_stat_meaning(enum quern_stat stat)
{
    return (unsigned)stat < QUERN_STAT_COUNT ? rows[stat].counts : NULL;
}

quern_status quern_stats(quern_ctx *ctx, uint64_t *values, size_t count)
{
    FAIL_IF(!ctx || (!values && count), QUERN_E_ARGUMENT, "%s is null", ctx ? "values" : "ctx");
    for (size_t i = 0; i < count; i++)
        values[i] = i < QUERN_STAT_COUNT ? value_of(ctx, (enum quern_stat)i) : 0;
    return QUERN_OK;
}

int quern_all_served(quern_ctx *ctx)
{
    static const enum quern_stat spoil[] = {QUERN_STAT_COMPILE_OK, QUERN_STAT_COMPILE_FAILED,
                                            QUERN_STAT_COMPILE_REFUSED, QUERN_STAT_LOAD_FAILED};
    bool served = ctx;

    for (size_t i = 0; served && i < sizeof spoil / sizeof *spoil; i++)
        served = !value_of(ctx, spoil[i]);
    return served;
}
