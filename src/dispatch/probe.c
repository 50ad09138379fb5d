/* SPDX-License-Identifier: MIT */
/* Measuring what kernels assume of a GPU (plan/facts.h), for `quern probe`. */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>

static struct quern_fact describe(enum fact fact, const char *assumed, const char *measured)
{
    const struct fact_row *const row = &fact_rows[fact];

    return (struct quern_fact){.name = row->name,
                               .assumed = assumed,
                               .measured = measured,
                               .holds =
                                   !measured || fact_is_rate(fact) || !strcmp(assumed, measured),
                               .meaning = row->meaning,
                               .relies = row->relies,
                               .source = row->source,
                               .sure = row->sure,
                               .fallback = row->fallback};
}

quern_status quern_facts(const char *target, quern_fact_fn fn, void *user)
{
    struct target_id id = {.target = target_at(0)};

    FAIL_IF(!fn, QUERN_E_ARGUMENT, "fn is null");
    if (target)
        TRY(target_parse(target, &id));
    for (unsigned i = 0; i < FACT_COUNT; i++) {
        char assumed[FACT_VALUE_MAX];
        if (target && !fact_asked((enum fact)i, id.target))
            continue;
        fact_value((enum fact)i, id.target, 0, assumed);
        const struct quern_fact f = describe((enum fact)i, assumed, NULL);
        fn(user, &f);
    }
    return QUERN_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

struct bench {
    quern_ctx *ctx;
    struct device_memory memory;
    uint32_t *words; /* the host's copy of it */
    struct kernel kernel;
    struct device_launch launch;
};

static quern_status launch(void *user)
{
    const struct bench *const b = user;
    struct device *const d = b->ctx->device;

    return d->functions->launch(d, b->kernel.loaded, &b->launch);
}

/* The value of a fact by what all work-items answered. */
static void read_answer(const struct bench *b, enum fact fact, char value[FACT_VALUE_MAX])
{
    const size_t items = PROBE_GROUPS * (size_t)b->kernel.plan.wave_size;
    uint32_t all = UINT32_MAX;

    for (size_t i = 0; i < items; i++)
        all &= b->words[i];
    if (all)
        fact_value(fact, b->ctx->id.target, (unsigned)__builtin_ctz(all), value);
    else
        snprintf(value, FACT_VALUE_MAX, "otherwise");
}

/* What a GPU does in a second, in units of 10^9: the best of three launches that fill it. */
static quern_status measure_rate(struct bench *b, enum fact fact, char value[FACT_VALUE_MAX])
{
    const struct device *const d = b->ctx->device;
    double least = 0;

    b->launch.grid[0] = d->facts.compute_units * 4 * b->ctx->id.target->simds;
    for (int i = 0; i < 3; i++) {
        double us;
        TRY(d->functions->measure(b->ctx->device, launch, b, &us));
        least = !i || us < least ? us : least;
    }
    const double reads =
        (double)b->launch.grid[0] * b->kernel.plan.wave_size * (double)fact_reads(fact);
    const double rate = least > 0 ? reads / least * 1e-3 : 0;
    snprintf(value, FACT_VALUE_MAX, "%.*f", rate < 10 ? 3 : 0, rate);
    return QUERN_OK;
}

static quern_status run(struct bench *b, enum fact fact, char value[FACT_VALUE_MAX])
{
    struct device *const d = b->ctx->device;
    const uint32_t wave = b->kernel.plan.wave_size;

    TRY(kernel_load(b->ctx, b->ctx->settings.jit, &b->kernel));
    for (uint32_t i = 0; i < PROBE_WORDS; i++)
        b->words[i] = i;
    TRY(d->functions->memory_write(d, &b->memory, b->words));
    b->launch = (struct device_launch){.grid = {PROBE_GROUPS, 1, 1},
                                       .block = {wave, 1, 1},
                                       .kernarg = &b->memory.address,
                                       .kernarg_bytes = sizeof b->memory.address};
    if (fact_is_rate(fact))
        return measure_rate(b, fact, value);
    TRY(launch(b));
    TRY(d->functions->memory_read(d, &b->memory, b->words));
    read_answer(b, fact, value);
    return QUERN_OK;
}

static quern_status probe(struct bench *b, enum fact fact, char value[FACT_VALUE_MAX])
{
    struct plan plan;

    facts_probe(fact, b->ctx->id.target, &plan);
    TRY(kernel_make(b->ctx, &plan, b->ctx->settings.jit, &b->kernel));
    const quern_status status = run(b, fact, value);
    kernel_free(b->ctx, &b->kernel);
    return status;
}

static quern_status probe_all(struct bench *b, quern_fact_fn fn, void *user, struct str *table)
{
    const struct device *const d = b->ctx->device;
    const struct target *const t = b->ctx->id.target;

    str_addf(table, "quern-facts 1 %s\n# %s, %u compute units, %.2f GHz\n", t->name, d->facts.name,
             d->facts.compute_units, d->facts.clock_ghz);
    for (unsigned i = 0; i < FACT_COUNT; i++) {
        char assumed[FACT_VALUE_MAX], measured[FACT_VALUE_MAX];
        if (!fact_asked((enum fact)i, t))
            continue;
        fact_value((enum fact)i, t, 0, assumed);
        TRY(probe(b, (enum fact)i, measured));
        str_addf(table, "%s | %s\n", fact_rows[i].name, measured);
        const struct quern_fact f = describe((enum fact)i, assumed, measured);
        if (fn)
            fn(user, &f);
    }
    return QUERN_OK;
}

quern_status quern_probe(quern_ctx *ctx, quern_fact_fn fn, void *user, char **table)
{
    struct bench b = {.ctx = ctx};
    struct str text = {0};

    FAIL_IF(!ctx || !table, QUERN_E_ARGUMENT, "%s is null", ctx ? "table" : "ctx");
    *table = NULL;
    FAIL_IF(!ctx->device, QUERN_E_DEVICE, "this context has no device to probe");
    struct device *const d = ctx->device;
    b.words = os.malloc(PROBE_WORDS * sizeof *b.words);
    FAIL_IF(!b.words, QUERN_E_MEMORY, "out of memory for a probe");
    quern_status status = d->functions->memory_make(d, PROBE_WORDS * sizeof *b.words,
                                                    QUERN_SIM_READ_WRITE, "memory", &b.memory);
    if (status == QUERN_OK) {
        status = probe_all(&b, fn, user, &text);
        d->functions->memory_free(d, &b.memory);
    }
    os.free(b.words);
    if (status == QUERN_OK && !(*table = str_take(&text)))
        status =
            error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("str_take"), "out of memory for a table");
    str_free(&text);
    return status;
}
