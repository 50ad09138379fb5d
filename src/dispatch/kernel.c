/* SPDX-License-Identifier: MIT */
/*
 * One kernel, from its plan to the device: the line of docs/architecture.md, call by call. This
 * file is long because the tiers and the compiler race for a kernel, so that neither side can be
 * read without the other.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "gen/gen.h"
#include "plan/base.h"

#include <stdio.h>
#include <string.h>

/* Changes when the meaning of a key changes, also how an outline becomes a source; part of every
 * key. */
#define KEY_FORMAT "quern key 2"

/* How long to wait for another process that is making the same kernel, before making it too. */
#define SINGLE_FLIGHT_MS 30000
#define COMPILING_IS_OFF "compiling is off (QUERN_JIT)"
#define SEALED           "the process is sealed (quern_seal)"

/* How long to wait for a tier's answer when there is no other way to the kernel. Tiers themselves
 * give up sooner, a remote after REMOTE_HUNG_MS(REMOTE_PATIENCE_LONG_MS) at the latest. */
#define PENDING_MS 900000

/* While another machine makes a kernel: how long to wait before it is looked for, at first and
 * later on, where the tier answers at once, and at most where it does not. */
#define AWAIT_MS      20
#define AWAIT_MS_LONG 500
#define AWAIT_MS_MAX  10000
/* The claim itself is looked at after so many waits. */
#define AWAIT_LOOKS 3

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Appends all that the code object depends on, the toolchain left out. */
static void add_source_text(const struct kernel *k, const char *outline, struct str *text)
{
    char wave[16];

    snprintf(wave, sizeof wave, "%u", k->plan.wave_size);
    key_add_text(text, "format", KEY_FORMAT);
    key_add_text(text, "source", outline);
    key_add_text(text, "options", k->options);
    key_add_text(text, "processor", k->plan.target->name);
    key_add_text(text, "wave", wave);
}

/* Fills both keys, the outline, the entry key's text, which is stored and compared on read, and
 * search->want, which points into it. */
static quern_status make_keys(quern_ctx *ctx, struct kernel *k, struct kernel_search *search)
{
    char hex[2 * sizeof k->source_key.bytes + 1];
    const struct toolchain *const toolchain = compiler_toolchain(ctx->compiler);
    struct str *const text = &search->key_text;

    TRY(gen_outline(&k->plan, &search->outline));
    /* a placeholder: the source key is known, and put here, when the source text stands behind it
     */
    hex_from_bytes(hex, k->source_key.bytes, sizeof k->source_key.bytes);
    key_add_text(text, "source key", hex);
    const size_t hex_at = text->length - sizeof hex;
    key_add_text(text, "toolchain", toolchain ? toolchain->identity : "none");
    /* the hash is only an address; that an entry is the right one is proven by the inputs, which
     * follow */
    const size_t source_at = text->length;
    add_source_text(k, str_text(&search->outline), text);
    FAIL_IF(text->failed, QUERN_E_MEMORY, "out of memory for a key");
    k->source_key = hash128_of(text->text + source_at, text->length - source_at);
    hex_from_bytes(hex, k->source_key.bytes, sizeof k->source_key.bytes);
    memcpy(text->text + hex_at, hex, sizeof hex - 1);
    k->entry_key = hash128_of(text->text, text->length);
    search->want = (struct store_want){
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

/* ---- From the tiers -------------------------------------------------------------------------- */

/* Takes over an entry, with its object as it was read. */
static void take_entry(struct kernel *k, const struct store_entry *entry, enum quern_tier tier)
{
    k->buffer = entry->buffer;
    k->refused = !entry->record.object_bytes;
    k->rules = entry->record.rules;
    k->bytes = k->refused ? NULL : entry->record.object;
    k->size = entry->record.object_bytes;
    k->object = entry->object;
    k->cached = true;
    k->tier = tier;
}

/* Puts what came from afar into the near tiers that can be written to, unless the caller does. */
static void keep_entry(quern_ctx *ctx, const struct kernel *k, struct kernel_search *search,
                       const struct store_record *record)
{
    struct store_put put = {.key = hash128_of(record->key_text, record->key_text_bytes),
                            .record = &search->fetched};

    search->fetched = *record;
    search->fetched.parsed = &k->object;
    if (!search->keeps || k->refused) /* of a refused one the search goes on to the next */
        tiers_put(ctx, &put, 1, true);
}

/* Asks one tier, or asks again after a question whose answer is pending. True: it has the kernel,
 * which is taken. */
static bool ask(quern_ctx *ctx, struct kernel *k, struct kernel_search *search, size_t tier,
                struct tier_get *get)
{
    const struct tier *const t = &ctx->tiers[tier];
    struct store_entry entry = {0};

    get->want = &search->want; /* the search may have been copied since the question was asked */
    const enum tier_answer answer = t->get(t->self, get, &entry);
    if (answer != TIER_PENDING)
        get->pending = NULL;
    if (answer == TIER_HIT) {
        take_entry(k, &entry, t->id);
        if (t->far)
            keep_entry(ctx, k, search, &entry.record);
        k->by_source = get->by_source;
        counter_add(&ctx->counters, QUERN_STAT_HIT_SOURCE, get->by_source);
    } else if (answer == TIER_MISS && !get->by_source && !k->reason) {
        /* only the first miss says why: a damaged entry is gone when it is asked for again */
        k->reason = entry.miss;
    }
    return answer == TIER_HIT;
}

static bool is_pending(const quern_ctx *ctx, const struct kernel_search *search)
{
    for (size_t i = 0; i < ctx->tier_count; i++)
        if (search->gets[i][0].pending || search->gets[i][1].pending)
            return true;
    return false;
}

/* Whether a tier that did not have the exact key is to be asked by source key now. */
static bool begins_by_source(struct kernel_search *search, size_t tier, int by_source)
{
    const bool begins = by_source && search->then_source[tier] && !search->gets[tier][0].pending;

    search->then_source[tier] = search->then_source[tier] && !begins;
    return begins;
}

/* Asks a tier, and waits for its answer, get->wait_ms at most, where it does not know at once. */
static bool ask_and_wait(quern_ctx *ctx, struct kernel *k, struct kernel_search *search,
                         size_t tier, struct tier_get *get)
{
    return ask(ctx, k, search, tier, get) || (get->pending && ask(ctx, k, search, tier, get));
}

/* Asks all tiers again whose answers are pending, and waits so long for each. True: one has the
 * kernel. */
static bool ask_pending(quern_ctx *ctx, struct kernel *k, struct kernel_search *search, int wait_ms)
{
    for (size_t i = 0; i < ctx->tier_count; i++)
        for (int by_source = 0; by_source < 2; by_source++) {
            struct tier_get *const get = &search->gets[i][by_source];
            get->wait_ms = wait_ms;
            if (get->pending ? ask(ctx, k, search, i, get)
                             : begins_by_source(search, i, by_source) &&
                                   ask_and_wait(ctx, k, search, i, get))
                return true;
        }
    return false;
}

static void cancel_pending(quern_ctx *ctx, struct kernel_search *search)
{
    for (size_t i = 0; i < ctx->tier_count; i++)
        for (int by_source = 0; by_source < 2; by_source++) {
            struct tier_get *const get = &search->gets[i][by_source];
            if (get->pending)
                ctx->tiers[i].cancel(ctx->tiers[i].self, get);
            get->pending = NULL;
        }
}

quern_status quern_can_compile(quern_ctx *ctx)
{
    FAIL_IF(!ctx, QUERN_E_ARGUMENT, "ctx is null");
    FAIL_IF(!jit_compiles(ctx->settings.jit), QUERN_E_WOULD_COMPILE, COMPILING_IS_OFF);
    FAIL_IF(seal_state() == QUERN_SEAL_FAIL, QUERN_E_WOULD_COMPILE, SEALED);
    return compiler_toolchain(ctx->compiler) ? QUERN_OK : QUERN_E_TOOLCHAIN;
}

static bool can_compile(quern_ctx *ctx, enum quern_jit jit)
{
    return jit_compiles(jit) && seal_state() != QUERN_SEAL_FAIL &&
           compiler_toolchain(ctx->compiler);
}

/* Takes the kernel from the first tier that has it: every tier is asked by the exact key, then by
 * the source key, if what another toolchain made of the same source may serve. */
static void from_tiers(quern_ctx *ctx, struct kernel *k, enum quern_jit jit,
                       struct kernel_search *search)
{
    const int last = ctx->settings.toolchain != QUERN_TOOLCHAIN_EXACT;
    const bool compiled = can_compile(ctx, jit), base = plan_is_base(&k->plan);

    for (int by_source = 0; by_source <= last; by_source++)
        for (size_t i = 0; i < ctx->tier_count; i++) {
            struct tier_get *const get = &search->gets[i][by_source];
            *get = (struct tier_get){.by_source = by_source};
            if ((by_source && compiled && !ctx->tiers[i].source_first) ||
                (base && ctx->tiers[i].far))
                continue;
            search->then_source[i] = by_source && search->gets[i][0].pending;
            if (!search->then_source[i] && ask(ctx, k, search, i, get))
                return;
        }
}

/* ---- From the compiler ----------------------------------------------------------------------- */

/* A compile that is broken off when a tier's answer comes in first. */
struct race {
    quern_ctx *ctx;
    struct kernel *kernel;
    struct kernel_search *search;
};

/* Whether a tier has the kernel by now; it is taken if so. */
static bool tier_was_faster(void *race)
{
    const struct race *const r = race;

    return ask_pending(r->ctx, r->kernel, r->search, 0);
}

/* Copies a base kernel from the cache's of another target, if the compiler makes the same code for
 * both: where `make base` asks for it, which checks that. What a device refused is compiled. */
static bool copy_code(quern_ctx *ctx, const struct kernel *k, struct compile_result *result)
{
    const char *const code_of = ctx->id.target->code_of;
    struct plan plan = k->plan;
    struct kernel_search search;
    struct kernel other;

    plan.target = code_of ? target_named(code_of) : NULL;
    if (!ctx->settings.copies_code || k->reason == QUERN_REASON_REFUSED || !plan.target ||
        !plan_is_base(&plan) || kernel_keys(ctx, &plan, &other, &search) != QUERN_OK)
        return false;
    search.want.target = plan.target;
    const bool copied = kernel_code_copy(ctx, &search.want, result);
    kernel_abandon(ctx, &other, &search);
    return copied;
}

static quern_status compile_source(quern_ctx *ctx, struct kernel *k, const char *source,
                                   struct kernel_search *search)
{
    const struct store_want *const want = &search->want;
    struct race race = {ctx, k, search};
    struct compile_result result = {0};
    const struct compile_job job = {.source = source,
                                    .processor = ctx->id.target->name,
                                    .options = k->options,
                                    .unwanted = is_pending(ctx, search) ? tier_was_faster : NULL,
                                    .unwanted_user = &race};
    const bool copied = copy_code(ctx, k, &result);
    const quern_status status = copied ? QUERN_OK : compiler_compile(ctx->compiler, &job, &result);

    if (status == QUERN_E_NOT_READY) {
        counter_add(&ctx->counters, QUERN_STAT_COMPILE_DROPPED, 1);
        return QUERN_OK;
    }
    if (status != QUERN_OK) {
        char text[QUERN_TEXT_MAX], command[QUERN_TEXT_MAX + 64];
        counter_add(&ctx->counters, QUERN_STAT_COMPILE_FAILED, 1);
        if (status == QUERN_E_WORKER || status == QUERN_E_TIMEOUT)
            counter_add(&ctx->counters, QUERN_STAT_WORKER_DIED, 1);
        problem_text(&k->plan.problem, text);
        snprintf(command, sizeof command, "quern build --target %s --m %d --out DIR \"%s\"",
                 ctx->id.target->name, k->plan.m_hi, text);
        error_reproduce(command);
        return status;
    }
    counter_add(&ctx->counters, QUERN_STAT_COMPILE_OK, !copied);
    counter_add(&ctx->counters, QUERN_STAT_COMPILE_NS, (uint64_t)(result.milliseconds * 1e6));
    k->tier = QUERN_TIER_COMPILER;
    k->bytes = k->buffer = result.object;
    k->size = result.object_bytes;
    k->compile_ms = result.milliseconds;
    result.object = NULL;
    struct str findings = {0};
    const quern_status parsed = object_parse(k->bytes, k->size, &k->object);
    if (parsed == QUERN_OK)
        k->rules = kernel_scan(ctx, k, &findings);
    k->refused = findings.length;
    const struct store_record record = {.key_text = want->key_text,
                                        .key_text_bytes = want->key_text_bytes,
                                        .source = source,
                                        .log = k->refused   ? str_text(&findings)
                                               : result.log ? result.log
                                                            : "",
                                        .object = k->bytes,
                                        .object_bytes = k->refused ? 0 : k->size,
                                        .rules = k->rules,
                                        .parsed = parsed == QUERN_OK ? &k->object : NULL};
    tiers_put(ctx, &(struct store_put){.key = k->entry_key, .record = &record}, 1, false);
    str_free(&findings);
    compile_result_free(&result);
    return parsed;
}

static quern_status compile(quern_ctx *ctx, struct kernel *k, struct kernel_search *search)
{
    struct str source = {0};
    quern_status status = gen_source_of(k->plan.target, str_text(&search->outline), &source);

    if (status == QUERN_OK)
        status = compile_source(ctx, k, str_text(&source), search);
    str_free(&source);
    return status;
}

/* QUERN_E_WOULD_COMPILE with the reason if the kernel may not be compiled; else warns and counts as
 * the host wants. */
static quern_status may_compile(quern_ctx *ctx, const struct kernel *k,
                                const struct kernel_search *search, enum quern_jit jit)
{
    const enum quern_seal seal = seal_state();

    if (!jit_compiles(jit))
        return kernel_absent(ctx, k, search,
                             jit == JIT_NO_COMPILE ? "this op may not compile (QUERN_OP_NO_COMPILE)"
                                                   : COMPILING_IS_OFF);
    if (seal == QUERN_SEAL_FAIL)
        return kernel_absent(ctx, k, search, SEALED);
    if (seal == QUERN_SEAL_WARN)
        counter_add(&ctx->counters, QUERN_STAT_COMPILE_SEALED, 1);
    if (jit == QUERN_JIT_WARN || seal == QUERN_SEAL_WARN)
        log_line(&ctx->log, QUERN_LOG_WARN, "kernel %s for %s is not in the cache; compiling it%s",
                 k->plan.symbol, ctx->id.target->name,
                 seal == QUERN_SEAL_WARN ? ", though the process is sealed" : "");
    return QUERN_OK;
}

/* Takes the locks of all tiers for a kernel; true if another process made the kernel while this one
 * waited for them. locks[i] is -1 where tier i has no locks or gave none. */
static bool made_meanwhile(quern_ctx *ctx, struct kernel *k, struct kernel_search *search,
                           int locks[TIERS_MAX])
{
    bool made = false;

    for (size_t i = 0; i < ctx->tier_count; i++) {
        const struct tier *const t = &ctx->tiers[i];
        struct tier_get *const get = &search->gets[i][0];
        locks[i] = t->lock && !made ? t->lock(t->self, &k->entry_key, SINGLE_FLIGHT_MS) : -1;
        made = made || (locks[i] >= 0 && ask(ctx, k, search, i, get));
    }
    return made || ask_pending(ctx, k, search, 0);
}

/* Claims the kernel in every tier that has claims, or learns that another machine has. */
static enum tier_claim claim(quern_ctx *ctx, struct kernel *k, struct kernel_search *search,
                             struct tier_wait *wait)
{
    enum tier_claim gained = TIER_CLAIM_NONE;

    for (size_t i = 0; i < ctx->tier_count; i++) {
        const struct tier *const t = &ctx->tiers[i];
        enum tier_claim is = TIER_CLAIM_NONE;
        if (t->claim && (t->claims_for_ops || search->claims != CLAIMS_OF_OPS))
            is = t->claim(t->self, &k->entry_key, wait);
        if (is == TIER_CLAIM_TAKEN)
            return is;
        if (is != TIER_CLAIM_NONE)
            gained = is;
    }
    search->claimed = search->claimed || gained != TIER_CLAIM_NONE;
    return gained;
}

/* Gives up what was claimed, if nothing was put for it. */
static void disclaim(quern_ctx *ctx, const struct kernel *k, const struct kernel_search *search)
{
    if (!search->claimed || (k->bytes && !k->refused))
        return;
    for (size_t i = 0; i < ctx->tier_count; i++)
        if (ctx->tiers[i].claim)
            ctx->tiers[i].disclaim(ctx->tiers[i].self, &k->entry_key);
}

/* Asks the tiers that have claims whether they have the kernel by now. */
static bool claimant_made(quern_ctx *ctx, struct kernel *k, struct kernel_search *search)
{
    for (size_t i = 0; i < ctx->tier_count; i++) {
        struct tier_get *const get = &search->gets[i][0];
        get->wait_ms = TIER_GRACE;
        if (ctx->tiers[i].claim && ask_and_wait(ctx, k, search, i, get))
            return true;
    }
    return false;
}

/* How long to wait before a tier is asked again for a kernel that another machine makes, after a
 * wait of `last_ms` and an answer that took `took_ms`: twice as long as before, up to a limit;
 * but also twice as long as the answer took. Else many that wait would keep a slow server from
 * taking the kernel that they wait for. */
static int next_wait_ms(int last_ms, int took_ms)
{
    const int longer = last_ms < AWAIT_MS_LONG / 2 ? 2 * last_ms : AWAIT_MS_LONG;
    const int wait = longer > 2 * took_ms ? longer : 2 * took_ms;

    return wait < AWAIT_MS_MAX ? wait : AWAIT_MS_MAX;
}

/* Waits while another machine, which has claimed the kernel, makes it: the remote is asked for the
 * kernel less and less often, and for the claim now and then, until that is given up, is over, or
 * was waited for too long. True: the other has made it. */
static bool await_claimant(quern_ctx *ctx, struct kernel *k, struct kernel_search *search,
                           enum tier_claim is, struct tier_wait *wait)
{
    bool made = false;
    int wait_ms = AWAIT_MS;

    for (int waits = 1; is == TIER_CLAIM_TAKEN && !made; waits++) {
        os.nanosleep(&(struct timespec){wait_ms / 1000, wait_ms % 1000 * 1000000L}, NULL);
        const uint64_t asked = os_now();
        made = claimant_made(ctx, k, search);
        wait_ms = next_wait_ms(wait_ms, (int)os_ms_since(asked));
        if (!made && waits % AWAIT_LOOKS == 0)
            is = claim(ctx, k, search, wait);
    }
    made = made || (is == TIER_CLAIM_INHERITED && claimant_made(ctx, k, search));
    counter_add(&ctx->counters, QUERN_STAT_REMOTE_AWAITED, made);
    return made;
}

/* Compiles a kernel for which this process has the locks, unless another machine has claimed it. */
static quern_status compile_claimed(quern_ctx *ctx, struct kernel *k, struct kernel_search *search)
{
    const bool leaves = search->claims == CLAIMS_LEAVE;
    struct tier_wait wait = {0};
    const enum tier_claim is = claim(ctx, k, search, leaves ? NULL : &wait);

    FAIL_IF(is == TIER_CLAIM_TAKEN && leaves, QUERN_E_NOT_READY, "another machine makes kernel %s",
            k->plan.symbol);
    if (await_claimant(ctx, k, search, is, &wait))
        return QUERN_OK;
    event_compile(ctx, k, search->begun_ns);
    quern_status status = compile(ctx, k, search);
    disclaim(ctx, k, search);
    if (status != QUERN_OK && !k->bytes && ask_pending(ctx, k, search, PENDING_MS))
        status = QUERN_OK;
    return status;
}

/* Compiles a kernel while nobody else compiles it, as far as locks and claims can see to that. */
static quern_status compile_once(quern_ctx *ctx, struct kernel *k, struct kernel_search *search)
{
    int locks[TIERS_MAX];
    quern_status status = QUERN_OK;

    if (!made_meanwhile(ctx, k, search, locks))
        status = compile_claimed(ctx, k, search);
    for (size_t i = ctx->tier_count; i--;)
        if (locks[i] >= 0)
            ctx->tiers[i].unlock(ctx->tiers[i].self, locks[i]);
    return status;
}

/* Compiles a kernel, unless a tier whose answer was pending has it first: the compile is then not
 * begun, or broken off. Where compiling is forbidden or fails, every pending answer is waited for.
 * A kernel counts as absent only here, where no tier had it under any key. */
static quern_status from_compiler(quern_ctx *ctx, struct kernel *k, struct kernel_search *search,
                                  enum quern_jit jit)
{
    if (ask_pending(ctx, k, search, can_compile(ctx, jit) ? TIER_GRACE : PENDING_MS))
        return QUERN_OK;
    quern_status status = may_compile(ctx, k, search, jit);
    if (status == QUERN_OK)
        status = compile_once(ctx, k, search);
    counter_add(&ctx->counters, QUERN_STAT_MISS_ABSENT,
                !k->cached && status != QUERN_E_NOT_READY &&
                    (!k->reason || k->reason == QUERN_REASON_ABSENT));
    return status;
}

/* ---- The object ------------------------------------------------------------------------------ */

/* Checks that the object's layout of arguments is the one that pack_args will write. */
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
    TRY(object_fits(&k->object, &ctx->id));
    k->in_object = object_kernel(&k->object, k->plan.symbol);
    FAIL_IF(!k->in_object, QUERN_E_OBJECT, "the code object has no kernel %s", k->plan.symbol);
    FAIL_IF(k->in_object->wave_size != k->plan.wave_size, QUERN_E_OBJECT,
            "kernel %s has waves of %u; %u was planned", k->plan.symbol, k->in_object->wave_size,
            k->plan.wave_size);
    const int shared = (int)plan_registers(&k->plan);
    FAIL_IF(
        (int)k->in_object->vgprs * k->plan.waves < shared, QUERN_E_OBJECT,
        "kernel %s is launched with %u registers for each of %d waves, which share out %d: some "
        "would wait for ever",
        k->plan.symbol, k->in_object->vgprs, k->plan.waves, shared);
    return check_arguments(k);
}

/* ---- The line -------------------------------------------------------------------------------- */

/* Frees what a search holds, and cancels its pending questions. */
static void search_end(quern_ctx *ctx, struct kernel_search *search)
{
    cancel_pending(ctx, search);
    str_free(&search->key_text);
    str_free(&search->outline);
}

/* Goes on from a kernel that the scan refused to the plan's next candidate that is not known to be
 * refused. Where there is none, the kernel stays as it is. */
static quern_status search_next(quern_ctx *ctx, enum quern_jit jit, struct kernel *k,
                                struct kernel_search *search)
{
    const struct plan *const first = search->plan;
    const uint64_t begun_ns = search->begun_ns;
    const int64_t m_lo = search->m_lo, m_hi = search->m_hi;
    const enum claims claims = search->claims;
    const bool keeps = search->keeps;
    unsigned n = search->refused;
    struct plan next;

    do {
        TRY(plan_next(first, ++n, &next));
        kernel_abandon(ctx, k, search);
        TRY(kernel_keys(ctx, &next, k, search));
        search->plan = first;
        search->begun_ns = begun_ns;
        search->m_lo = m_lo;
        search->m_hi = m_hi;
        search->claims = claims;
        search->keeps = keeps;
        search->refused = n;
        from_tiers(ctx, k, jit, search);
    } while (k->refused);
    return QUERN_OK;
}

quern_status kernel_keys(quern_ctx *ctx, const struct plan *plan, struct kernel *kernel,
                         struct kernel_search *search)
{
    struct str options = {0};

    *search = (struct kernel_search){.begun_ns = ctx->event ? os_now() : 0, .plan = plan};
    gen_options(plan, &options);
    *kernel = (struct kernel){.plan = *plan, .options = str_take(&options)};
    const quern_status status = kernel->options
                                    ? make_keys(ctx, kernel, search)
                                    : error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("!options"),
                                                "out of memory for a kernel's options");
    if (status != QUERN_OK)
        kernel_abandon(ctx, kernel, search);
    return status;
}

quern_status kernel_search(quern_ctx *ctx, const struct plan *plan, enum quern_jit jit,
                           struct kernel *kernel, struct kernel_search *search)
{
    TRY(kernel_keys(ctx, plan, kernel, search));
    from_tiers(ctx, kernel, jit, search);
    const quern_status status = kernel->refused ? search_next(ctx, jit, kernel, search) : QUERN_OK;
    if (status != QUERN_OK)
        kernel_abandon(ctx, kernel, search);
    return status;
}

quern_status kernel_complete(quern_ctx *ctx, enum quern_jit jit, struct kernel *kernel,
                             struct kernel_search *search)
{
    quern_status status = QUERN_OK;

    if (jit == JIT_LOOK && !kernel->bytes && !ask_pending(ctx, kernel, search, PENDING_MS)) {
        kernel_abandon(ctx, kernel, search);
        FAIL(QUERN_E_WOULD_COMPILE, "no tier has the kernel");
    }
    event_begin(ctx, kernel);
    do {
        if (kernel->refused)
            status = search_next(ctx, jit, kernel, search);
        if (status == QUERN_OK && !kernel->bytes)
            status = from_compiler(ctx, kernel, search, jit);
        else if (status == QUERN_OK && can_compile(ctx, jit))
            kernel_scan_found(ctx, kernel, search);
    } while (status == QUERN_OK && kernel->refused);
    if (status == QUERN_OK)
        status = check_object(ctx, kernel);
    event_end(ctx, kernel, search->begun_ns, status);
    search_end(ctx, search);
    if (status != QUERN_OK)
        kernel_free(ctx, kernel);
    return status;
}

void kernel_abandon(quern_ctx *ctx, struct kernel *kernel, struct kernel_search *search)
{
    search_end(ctx, search);
    kernel_free(ctx, kernel);
}

quern_status kernel_make(quern_ctx *ctx, const struct plan *plan, enum quern_jit jit,
                         struct kernel *kernel)
{
    struct kernel_search search;

    TRY(kernel_search(ctx, plan, jit, kernel, &search));
    return kernel_complete(ctx, jit, kernel, &search);
}

/* Compiles the kernel again, whatever the cache holds, and puts the result in its place. */
static quern_status remake(quern_ctx *ctx, struct kernel *k, enum quern_jit jit)
{
    struct kernel_search search = {.begun_ns = os_now()};

    object_free(&k->object);
    os.free(k->buffer);
    k->bytes = k->buffer = NULL;
    k->cached = k->by_source = false;
    k->reason = QUERN_REASON_REFUSED;
    quern_status status = make_keys(ctx, k, &search);
    if (status == QUERN_OK) {
        event_begin(ctx, k);
        status = may_compile(ctx, k, &search, jit);
        if (status == QUERN_OK) {
            event_compile(ctx, k, search.begun_ns);
            status = compile(ctx, k, &search);
        }
        if (status == QUERN_OK && k->refused)
            status = error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT("k->refused"),
                               "the scan refuses kernel %s", k->plan.symbol);
        if (status == QUERN_OK)
            status = check_object(ctx, k);
        event_end(ctx, k, search.begun_ns, status);
    }
    search_end(ctx, &search);
    return status;
}

/* Loads it as it is. */
static quern_status load(quern_ctx *ctx, struct kernel *k)
{
    struct device *const d = ctx->device;

    return d->functions->load(d, &k->object, k->plan.symbol, plan_launch_lds(&k->plan), &k->loaded);
}

/* Loads it, or one that is made in its place. */
static quern_status load_sound(quern_ctx *ctx, enum quern_jit jit, struct kernel *k)
{
    const quern_status status = load(ctx, k);

    if (status != QUERN_E_OBJECT || !k->cached || !jit_compiles(jit) ||
        seal_state() == QUERN_SEAL_FAIL)
        return status;
    /* the stored object is whole and of this key, and yet the device refuses it: it is made anew,
     * once */
    store_discard(ctx->store, &k->entry_key, quern_last_error()->message);
    TRY(remake(ctx, k, jit));
    return load(ctx, k);
}

quern_status kernel_load(quern_ctx *ctx, enum quern_jit jit, struct kernel *k)
{
    const quern_status status = ctx->device ? load_sound(ctx, jit, k) : QUERN_OK;

    counter_add(&ctx->counters, QUERN_STAT_LOAD_FAILED, status != QUERN_OK);
    return status;
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

void kernel_info(const quern_ctx *ctx, const struct kernel *k, bool is_last,
                 struct quern_kernel_info *info)
{
    *info = (struct quern_kernel_info){
        .size = sizeof *info,
        .symbol = k->plan.symbol,
        .m_lo = k->plan.m_lo,
        .m_hi = k->plan.m_hi,
        .and_more = k->plan.block_rows ? k->plan.m_hi == problem_rows_max(&k->plan.problem)
                                       : plan_units(&k->plan) == PLAN_UNITS_TILES && is_last,
        .object = k->bytes,
        .object_bytes = k->size,
        .resources = kernel_resources(k->in_object, ctx->id.target),
        .cached = k->cached,
        .compile_ms = k->compile_ms,
        .verified = ctx->id.target->judge != JUDGE_NONE,
    };
    hex_from_bytes(info->source_key, k->source_key.bytes, sizeof k->source_key.bytes);
    hex_from_bytes(info->entry_key, k->entry_key.bytes, sizeof k->entry_key.bytes);
}
