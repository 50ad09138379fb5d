/* SPDX-License-Identifier: MIT */
/* One kernel, from its plan to the device: the line of docs/architecture.md, call by call. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "gen/gen.h"

#include <stdio.h>
#include <string.h>

/* Changes when the meaning of a key changes, also how an outline becomes a source; part of every
 * key. */
#define KEY_FORMAT "quern key 2"

/* How long to wait for another process that is making the same kernel, before making it too. */
#define SINGLE_FLIGHT_MS 30000

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Appends what the code object is a function of, but for the toolchain. */
static quern_status add_source_text(const struct kernel *k, const struct target_id *id,
                                    struct str *text)
{
    struct str outline = {0};
    char wave[16];

    snprintf(wave, sizeof wave, "%u", k->plan.wave_size);
    const quern_status status = gen_outline(&k->plan, &outline);
    key_add_text(text, "format", KEY_FORMAT);
    key_add_text(text, "source", str_text(&outline));
    key_add_text(text, "options", k->options);
    key_add_text(text, "processor", id->target->name);
    key_add_text(text, "wave", wave);
    str_free(&outline);
    return status;
}

/* Fills both keys and the entry key's text, which is stored and compared on read; *want points into
 * *text. */
static quern_status make_keys(quern_ctx *ctx, struct kernel *k, struct str *text,
                              struct store_want *want)
{
    char hex[2 * sizeof k->source_key.bytes + 1];
    const struct toolchain *const toolchain = compiler_toolchain(ctx->compiler);

    /* keeps the place of the source's key, which is known when the source stands behind it */
    hex_from_bytes(hex, k->source_key.bytes, sizeof k->source_key.bytes);
    key_add_text(text, "source key", hex);
    const size_t hex_at = text->length - sizeof hex;
    key_add_text(text, "toolchain", toolchain ? toolchain->identity : "none");
    /* the hash is an address, not a proof: the inputs themselves follow */
    const size_t source_at = text->length;
    TRY(add_source_text(k, &ctx->id, text));
    FAIL_IF(text->failed, QUERN_E_MEMORY, "out of memory for a key");
    k->source_key = hash128_of(text->text + source_at, text->length - source_at);
    hex_from_bytes(hex, k->source_key.bytes, sizeof k->source_key.bytes);
    memcpy(text->text + hex_at, hex, sizeof hex - 1);
    k->entry_key = hash128_of(text->text, text->length);
    *want = (struct store_want){
        .key = k->entry_key,
        .source_key = k->source_key,
        .key_text = text->text,
        .key_text_bytes = text->length,
        .source_text = text->text + source_at,
        .source_text_bytes = text->length - source_at,
        .target = ctx->id.target,
    };
    return QUERN_OK;
}

/* ---- From bundles and the store -------------------------------------------------------------- */

/* Takes over an entry, with its object as it was read. True. */
static bool take_entry(struct kernel *k, const struct store_entry *entry, enum quern_tier tier)
{
    k->buffer = entry->buffer;
    k->bytes = entry->record.object;
    k->size = entry->record.object_bytes;
    k->object = entry->object;
    k->cached = true;
    k->tier = tier;
    return true;
}

static bool from_store(quern_ctx *ctx, struct kernel *k, const struct store_want *w, bool again)
{
    struct store_entry entry;

    if (again ? store_get_again(ctx->store, w, &entry) : store_get_wanted(ctx->store, w, &entry))
        return take_entry(k, &entry, QUERN_TIER_CACHE);
    if (!k->reason) /* a damaged entry is gone when it is looked for again */
        k->reason = entry.miss;
    return false;
}

static bool from_bundles(quern_ctx *ctx, struct kernel *k, const struct store_want *w,
                         bool by_source)
{
    struct store_entry entry;

    return bundles_get(ctx, w, by_source, &entry) && take_entry(k, &entry, QUERN_TIER_BUNDLE);
}

/* What another toolchain made of the same source: a bundle's is always as good, the cache's only
 * where nothing may be compiled. */
static bool from_same_source(quern_ctx *ctx, struct kernel *k, const struct store_want *w,
                             bool can_compile)
{
    struct store_entry entry;

    if (ctx->settings.toolchain == QUERN_TOOLCHAIN_EXACT)
        return false;
    k->by_source = from_bundles(ctx, k, w, true) ||
                   (!can_compile && store_get_by_source(ctx->store, w, &entry) &&
                    take_entry(k, &entry, QUERN_TIER_CACHE));
    if (k->by_source)
        counter_add(&ctx->counters, QUERN_STAT_HIT_SOURCE, 1);
    return k->by_source;
}

/* ---- From the compiler ----------------------------------------------------------------------- */

static quern_status compile_source(quern_ctx *ctx, struct kernel *k, const char *source,
                                   const struct store_want *want)
{
    struct compile_result result = {0};
    const struct compile_job job = {
        .source = source, .processor = ctx->id.target->name, .options = k->options};
    const quern_status status = compiler_compile(ctx->compiler, &job, &result);

    if (status != QUERN_OK) {
        char text[QUERN_TEXT_MAX], command[QUERN_TEXT_MAX + 64];
        counter_add(&ctx->counters, QUERN_STAT_COMPILE_FAILED, 1);
        if (status == QUERN_E_WORKER || status == QUERN_E_TIMEOUT)
            counter_add(&ctx->counters, QUERN_STAT_WORKER_DIED, 1);
        if (quern_problem_text(&k->plan.problem, text, sizeof text) == QUERN_OK) {
            snprintf(command, sizeof command, "quern build --target %s --m %d --out DIR \"%s\"",
                     ctx->id.target->name, k->plan.m_hi, text);
            error_reproduce(command);
        }
        return status;
    }
    counter_add(&ctx->counters, QUERN_STAT_COMPILE_OK, 1);
    counter_add(&ctx->counters, QUERN_STAT_COMPILE_NS, (uint64_t)(result.milliseconds * 1e6));
    k->tier = QUERN_TIER_COMPILER;
    k->bytes = k->buffer = result.object;
    k->size = result.object_bytes;
    k->compile_ms = result.milliseconds;
    result.object = NULL;
    store_put(ctx->store, &k->entry_key,
              &(struct store_record){.key_text = want->key_text,
                                     .key_text_bytes = want->key_text_bytes,
                                     .source = source,
                                     .log = result.log ? result.log : "",
                                     .object = k->bytes,
                                     .object_bytes = k->size});
    compile_result_free(&result);
    return QUERN_OK;
}

static quern_status compile(quern_ctx *ctx, struct kernel *k, const struct store_want *want)
{
    struct str source = {0};
    quern_status status = gen_source(&k->plan, &source);

    if (status == QUERN_OK)
        status = compile_source(ctx, k, str_text(&source), want);
    str_free(&source);
    return status;
}

/* Says no with the reason, or notes what it lets pass. */
static quern_status may_compile(quern_ctx *ctx, const struct kernel *k, enum quern_jit jit)
{
    const enum quern_seal seal = seal_state();
    const bool off = jit == QUERN_JIT_OFF || jit == QUERN_JIT_ERROR;
    const char *const directory = store_directory(ctx->store), *const gap = *directory ? " " : "";

    if (off || seal == QUERN_SEAL_FAIL)
        counter_add(&ctx->counters, QUERN_STAT_COMPILE_REFUSED, 1);
    FAIL_IF(off, QUERN_E_WOULD_COMPILE,
            "kernel %s for %s is not in the cache%s%s and compiling is off (QUERN_JIT)",
            k->plan.symbol, ctx->id.target->name, gap, directory);
    FAIL_IF(seal == QUERN_SEAL_FAIL, QUERN_E_WOULD_COMPILE,
            "kernel %s for %s is not in the cache%s%s and the process is sealed (quern_seal)",
            k->plan.symbol, ctx->id.target->name, gap, directory);
    if (seal == QUERN_SEAL_WARN)
        counter_add(&ctx->counters, QUERN_STAT_COMPILE_SEALED, 1);
    if (jit == QUERN_JIT_WARN || seal == QUERN_SEAL_WARN)
        log_line(&ctx->log, QUERN_LOG_WARN, "kernel %s for %s is not in the cache; compiling it%s",
                 k->plan.symbol, ctx->id.target->name,
                 seal == QUERN_SEAL_WARN ? ", though the process is sealed" : "");
    return QUERN_OK;
}

static quern_status from_compiler(quern_ctx *ctx, struct kernel *k, const struct store_want *want,
                                  enum quern_jit jit, uint64_t begun)
{
    quern_status status = QUERN_OK;

    TRY(may_compile(ctx, k, jit));
    const int lock = store_lock(ctx->store, &k->entry_key, SINGLE_FLIGHT_MS);
    if (lock < 0 || !from_store(ctx, k, want, true)) { /* made by another while this one waited? */
        event_compile(ctx, k, begun);
        status = compile(ctx, k, want);
    }
    store_unlock(ctx->store, lock);
    return status;
}

/* ---- The object ------------------------------------------------------------------------------ */

/* The kernel's own layout must be the one that pack_args will write. */
static quern_status check_arguments(struct kernel *k)
{
    const struct object_kernel *const in = k->in_object;
    const enum plan_arg *const args = k->args;
    const size_t count = plan_args(&k->plan, k->args);
    size_t offset = 0, explicit_args = 0;

    k->arg_count = count;
    for (size_t i = 0; i < in->arg_count; i++)
        if (in->args[i].kind == OBJECT_ARG_BY_VALUE || in->args[i].kind == OBJECT_ARG_GLOBAL_BUFFER)
            explicit_args++;
    FAIL_IF(explicit_args != count || in->kernarg_bytes > KERNARG_MAX, QUERN_E_OBJECT,
            "kernel %s takes %zu arguments in %u bytes; %zu in at most %d were planned", in->name,
            explicit_args, in->kernarg_bytes, count, KERNARG_MAX);
    for (size_t i = 0; i < count; i++) {
        const size_t size = plan_arg_bytes(args[i]);
        offset = (offset + size - 1) / size * size;
        FAIL_IF(in->args[i].offset != offset || in->args[i].size != size, QUERN_E_OBJECT,
                "kernel %s has argument %zu at %u with %u bytes; expected at %zu with %zu",
                in->name, i, in->args[i].offset, in->args[i].size, offset, size);
        offset += size;
    }
    return QUERN_OK;
}

static quern_status check_object(quern_ctx *ctx, struct kernel *k)
{
    if (!k->cached)
        TRY(object_parse(k->bytes, k->size, &k->object));
    TRY(object_fits(&k->object, &ctx->id));
    k->in_object = object_kernel(&k->object, k->plan.symbol);
    FAIL_IF(!k->in_object, QUERN_E_OBJECT, "the code object has no kernel %s", k->plan.symbol);
    FAIL_IF(k->in_object->wave_size != k->plan.wave_size, QUERN_E_OBJECT,
            "kernel %s has waves of %u; %u was planned", k->plan.symbol, k->in_object->wave_size,
            k->plan.wave_size);
    return check_arguments(k);
}

/* ---- The line -------------------------------------------------------------------------------- */

/* From the first tier that has it, if one does. */
static void from_tiers(quern_ctx *ctx, struct kernel *k, enum quern_jit jit,
                       const struct store_want *want)
{
    const bool can_compile = (jit == QUERN_JIT_ON || jit == QUERN_JIT_WARN) &&
                             seal_state() != QUERN_SEAL_FAIL && compiler_toolchain(ctx->compiler);

    if (!from_bundles(ctx, k, want, false) && !from_store(ctx, k, want, false))
        from_same_source(ctx, k, want, can_compile);
}

quern_status kernel_keys(quern_ctx *ctx, const struct plan *plan, struct kernel *kernel,
                         struct str *key_text, struct store_want *want)
{
    struct str options = {0};

    gen_options(plan, &options);
    *kernel = (struct kernel){.plan = *plan, .options = str_take(&options)};
    FAIL_IF(!kernel->options, QUERN_E_MEMORY, "out of memory for a kernel's options");
    const quern_status status = make_keys(ctx, kernel, key_text, want);
    if (status != QUERN_OK)
        kernel_free(ctx, kernel);
    return status;
}

quern_status kernel_seek(quern_ctx *ctx, const struct plan *plan, enum quern_jit jit,
                         struct kernel *kernel, struct making *making)
{
    *making = (struct making){.begun = ctx->event ? os_now() : 0};
    const quern_status status = kernel_keys(ctx, plan, kernel, &making->key_text, &making->want);
    if (status != QUERN_OK) {
        str_free(&making->key_text);
        return status;
    }
    from_tiers(ctx, kernel, jit, &making->want);
    return QUERN_OK;
}

quern_status kernel_finish(quern_ctx *ctx, enum quern_jit jit, struct kernel *kernel,
                           struct making *making)
{
    quern_status status = QUERN_OK;

    event_begin(ctx, kernel);
    if (!kernel->bytes)
        status = from_compiler(ctx, kernel, &making->want, jit, making->begun);
    if (status == QUERN_OK)
        status = check_object(ctx, kernel);
    event_end(ctx, kernel, making->begun, status);
    str_free(&making->key_text);
    if (status != QUERN_OK)
        kernel_free(ctx, kernel);
    return status;
}

void kernel_abandon(quern_ctx *ctx, struct kernel *kernel, struct making *making)
{
    str_free(&making->key_text);
    kernel_free(ctx, kernel);
}

quern_status kernel_make(quern_ctx *ctx, const struct plan *plan, enum quern_jit jit,
                         struct kernel *kernel)
{
    struct making making;

    TRY(kernel_seek(ctx, plan, jit, kernel, &making));
    return kernel_finish(ctx, jit, kernel, &making);
}

/* Compiles the kernel again, whatever the cache holds, and puts the result in its place. */
static quern_status remake(quern_ctx *ctx, struct kernel *k, enum quern_jit jit)
{
    struct str key_text = {0};
    struct store_want want;

    object_free(&k->object);
    os.free(k->buffer);
    k->bytes = k->buffer = NULL;
    k->cached = k->by_source = false;
    k->reason = QUERN_REASON_REFUSED;
    quern_status status = make_keys(ctx, k, &key_text, &want);
    if (status == QUERN_OK) {
        const uint64_t begun = os_now();
        event_begin(ctx, k);
        status = may_compile(ctx, k, jit);
        if (status == QUERN_OK) {
            event_compile(ctx, k, begun);
            status = compile(ctx, k, &want);
        }
        if (status == QUERN_OK)
            status = check_object(ctx, k);
        event_end(ctx, k, begun, status);
    }
    str_free(&key_text);
    return status;
}

quern_status kernel_load(quern_ctx *ctx, enum quern_jit jit, struct kernel *k)
{
    struct device *const d = ctx->device;

    if (!d)
        return QUERN_OK;
    const quern_status status =
        d->functions->load(d, k->bytes, k->size, k->plan.symbol, &k->loaded);
    if (status != QUERN_E_OBJECT || !k->cached || jit == QUERN_JIT_OFF || jit == QUERN_JIT_ERROR ||
        seal_state() == QUERN_SEAL_FAIL)
        return status;
    /* whole, of this key, and yet no use here: a stored object gets one more chance, made anew */
    store_discard(ctx->store, &k->entry_key, quern_last_error()->message);
    TRY(remake(ctx, k, jit));
    return d->functions->load(d, k->bytes, k->size, k->plan.symbol, &k->loaded);
}

void kernel_free(quern_ctx *ctx, struct kernel *k)
{
    if (k->loaded)
        ctx->device->functions->unload(ctx->device, k->loaded);
    object_free(&k->object);
    os.free(k->buffer);
    os.free(k->options);
    *k = (struct kernel){0};
}

struct quern_resources kernel_resources(const struct object_kernel *k, const struct target *t)
{
    const unsigned waves = (k->max_flat_workgroup + k->wave_size - 1) / k->wave_size;

    return (struct quern_resources){
        .vgprs = k->vgprs,
        .sgprs = k->sgprs,
        .lds_bytes = k->lds_bytes,
        .scratch_bytes = k->scratch_bytes,
        .kernarg_bytes = k->kernarg_bytes,
        .wave_size = k->wave_size,
        .waves_per_simd =
            target_waves_per_simd(t, k->vgprs + k->agprs, k->lds_bytes, k->wave_size, waves),
    };
}
