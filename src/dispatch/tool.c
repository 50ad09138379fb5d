/* SPDX-License-Identifier: MIT */
/* Functions of tool.h that only pass on what another folder of src/ provides. */
#include "dispatch/dispatch.h"

#include "base/extensible.h"
#include "base/os.h"
#include "gen/gen.h"
#include "plan/base_list.h"
#include "lint/lint.h"
#include "plan/blas_choice.h"
#include "target/rates.h"

#include <inttypes.h>
#include <string.h>

/* ---- Targets --------------------------------------------------------------------------------- */

/* Words of the capability bits, by bit. */
#define TARGET_WORD(NAME, word, meaning) #word,
static const char *const capability_words[] = {TARGET_CAPABILITIES(TARGET_WORD)};
#undef TARGET_WORD

/* Words of enum target_judge. */
static const char *const judges[] = {
    [JUDGE_NONE] = "none", [JUDGE_SIM] = "sim", [JUDGE_CPU] = "cpu"};

/* Feature texts, made once for all rows and never freed: they are part of the table. */
static char features[32][512];
static pthread_once_t features_once = PTHREAD_ONCE_INIT;

static void make_features(void)
{
    for (size_t t = 0; t < target_count() && t < sizeof features / sizeof *features; t++) {
        size_t n = 0;
        for (size_t i = 0; i < TARGET_CAPABILITY_COUNT; i++)
            if (target_at(t)->capabilities >> i & 1)
                n += (size_t)snprintf(features[t] + n, sizeof features[t] - n, "%s%s", n ? " " : "",
                                      capability_words[i]);
    }
}

size_t quern_target_count(void)
{
    return target_count();
}

quern_status quern_target_at(size_t index, struct quern_target_info *info)
{
    const struct extensible *const type = EXTENSIBLE(quern_target_info, QUERN_TARGET_INFO_SIZE_MIN);
    const struct target *const t = target_at(index);

    FAIL_IF(!t, QUERN_E_ARGUMENT, "target %zu of %zu", index, target_count());
    TRY(extensible_check(type, info));
    pthread_once(&features_once, make_features);
    const struct quern_target_info own = {
        .name = t->name,
        .family = t->family,
        .part = t->part,
        .wave_size = t->wave_size,
        .vgprs = t->vgprs,
        .vgpr_granule = t->vgpr_granule,
        .lds_bytes = t->lds_bytes,
        .cus = t->cus,
        .clock_ghz = t->clock_ghz,
        .bandwidth_gbs = t->bandwidth_gbs,
        .verified = t->judge != JUDGE_NONE,
        .features = features[index],
        .vendor = drivers[t->vendor]->vendor,
        .verified_by = judges[t->judge],
    };
    extensible_write(type, &own, info);
    return QUERN_OK;
}

quern_status quern_target_find(const char *text, struct quern_target_info *info)
{
    struct target_id id;

    TRY(target_parse(text, &id));
    return quern_target_at((size_t)(id.target - target_at(0)), info);
}

/* ---- Without a compiler ---------------------------------------------------------------------- */

static quern_status plan_with(const struct settings *s, struct log *log,
                              const struct quern_problem *normal, struct plan_set *set,
                              struct facts *facts)
{
    const struct target *planned;
    struct store *store = NULL;
    struct bundles bundles = {0};
    struct tuning *tuning = NULL;
    struct target_id id;

    TRY(settings_target(s, &id));
    /* the store says which directory is the cache; one that is not to be trusted counts as having
     * no table */
    const bool named = s->tuning && s->facts;
    if (!named)
        store_open(&(struct store_config){.directory = s->cache_dir, .mode = QUERN_CACHE_RO},
                   &store);
    quern_status status = named ? QUERN_OK : bundles_open(s, log, &bundles);
    if (store)
        bundles_admit(&bundles, store, false);
    if (status == QUERN_OK)
        status = tuning_load(s, &bundles, store, id.target, log, &tuning);
    if (status == QUERN_OK)
        status = facts_load(s, &bundles, store, id.target, log, facts);
    store_close(store);
    bundles_close(&bundles);
    if (status == QUERN_OK)
        status = facts_target(facts, id.target, &planned);
    if (status == QUERN_OK)
        status = plan_make_tuned(normal, planned, tuning, &s->force, set);
    tuning_free(tuning);
    return status;
}

static quern_status plan_of(const struct quern_options *options,
                            const struct quern_problem *problem, int64_t m, struct plan_set *set,
                            struct plan_slice slices[2], size_t *count, struct facts *facts)
{
    struct quern_problem normal;
    struct quern_options own;
    struct settings settings;

    TRY(problem_normalise(problem, &normal));
    TRY(problem_check_rows(&normal, m));
    TRY(options_read(options, &own));
    struct log log = {.level = QUERN_LOG_WARN, .function = own.log, .user = own.log_user};
    TRY(settings_make(&own, &log, &settings));
    const quern_status status = plan_with(&settings, &log, &normal, set, facts);
    settings_free(&settings);
    TRY(status);
    *count = plan_slices(set, m, slices);
    return QUERN_OK;
}

static quern_status give(struct str *s, char **text)
{
    *text = str_take(s);
    FAIL_IF(!*text, QUERN_E_MEMORY, "out of memory for a text");
    return QUERN_OK;
}

/* What a kernel takes to compile follows most of all from its rows, up to eight: as hipRTC 6.4 took
 * for the 100 kernels of Qwen3-0.6B in NF4 for gfx1151, int4 for gfx942 and fp8 for gfx1201 (means:
 * 1, 1.2, 1.4, 1.8 and 1.9 times that of one row). */
static unsigned compile_units(const struct plan *p)
{
    return p->m_lo > 4 ? 8 : p->m_lo > 2 ? 6 : p->m_lo > 1 ? 5 : 4;
}

quern_status quern_compile_estimate(const char *target, const struct quern_problem *problem,
                                    int64_t m_lo, int64_t m_hi, unsigned *cost)
{
    const struct plan_force none = {0};
    struct quern_problem normal;
    struct target_id id;
    struct plan_set set;

    FAIL_IF(!target || !cost, QUERN_E_ARGUMENT, "%s is null", target ? "cost" : "target");
    FAIL_IF(m_lo < 1 || m_hi < m_lo, QUERN_E_ARGUMENT,
            "m is %" PRId64 " to %" PRId64 "; expected 1 or more, rising", m_lo, m_hi);
    TRY(target_parse(target, &id));
    TRY(problem_normalise(problem, &normal));
    TRY(plan_make_up_to(&normal, id.target, NULL, &none, m_hi, &set));
    *cost = 0;
    for (size_t i = 0; i < set.count; i++)
        if (set.plans[i].m_lo <= m_hi && (set.plans[i].m_hi >= m_lo || i + 1 == set.count))
            *cost += compile_units(&set.plans[i]);
    return QUERN_OK;
}

quern_status quern_source(const struct quern_options *options, const struct quern_problem *problem,
                          int64_t m, char **text)
{
    struct plan_set set;
    struct facts facts;
    struct plan_slice slices[2];
    struct str source = {0};
    size_t count;

    FAIL_IF(!text, QUERN_E_ARGUMENT, "text is null");
    TRY(plan_of(options, problem, m, &set, slices, &count, &facts));
    const quern_status status = gen_source(slices[0].plan, &source);
    if (status != QUERN_OK) {
        str_free(&source);
        return status;
    }
    return give(&source, text);
}

/* N of the layers that quern_base_problems names. Kernels do not depend on it. */
#define SMALL_N 64

/* A caller of quern_base_problems. */
struct listener {
    int all;
    quern_text_fn fn;
    void *user;
};

/* Whether results, scales and layout of a layer are of the types that its other words have by
 * default; nested scales count as usual. */
static bool is_usual(const struct quern_problem *layer)
{
    struct quern_problem usual = *layer;

    if (problem_has_activation(layer))
        usual.c = 0;
    if (usual.scale != QUERN_SCALE_NESTED)
        usual.scale = 0;
    usual.layout = 0;
    return problem_normalise(&usual, &usual) == QUERN_OK && problem_equal(&usual, layer);
}

static void tell_base_problem(void *user, const struct plan_set *set)
{
    const struct listener *const l = user;
    struct quern_problem layer = set->plans->problem;
    char text[QUERN_TEXT_MAX];

    if (!l->all && !is_usual(&layer))
        return;
    layer.n = SMALL_N;
    problem_text(&layer, text);
    l->fn(l->user, text);
}

quern_status quern_base_problems(const char *target, int all, quern_text_fn fn, void *user)
{
    struct listener l = {all, fn, user};
    struct target_id id;

    FAIL_IF(!target || !fn, QUERN_E_ARGUMENT, "%s is null", target ? "fn" : "target");
    TRY(target_parse(target, &id));
    base_each(id.target, tell_base_problem, &l);
    return QUERN_OK;
}

/* The line that goes first: for whoever wants to know what m rows take, and nothing of kernels. */
static void explain_verdict(const struct plan_slice *slices, size_t count, int64_t m,
                            struct str *out)
{
    enum plan_bound bound;
    const int64_t cycles = plan_expected_slices(slices, count, &bound);

    str_addf(out, "m=%" PRId64 ": %.1f us expected (a model), bound by %s; %zu launch%s\n", m,
             target_microseconds(slices->plan->target, (double)cycles), plan_bound_name(bound),
             count, count == 1 ? "" : "es");
}

static void explain(const struct plan_set *set, const struct facts *facts,
                    const struct plan_slice *slices, size_t count, int64_t m, struct str *out)
{
    char hash[2 * sizeof set->tuning.bytes + 1];

    explain_verdict(slices, count, m, out);
    if (set->tuned) {
        hex_from_bytes(hash, set->tuning.bytes, sizeof set->tuning.bytes);
        str_addf(out, "tuning table %s\n", hash);
    }
    facts_explain(facts, out);
    if (plan_units(slices->plan) == PLAN_UNITS_NONE) {
        plan_explain(slices->plan, out);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct plan *const p = slices[i].plan;
        str_addf(out, "rows %" PRId64 "-%" PRId64, slices[i].first,
                 slices[i].first + slices[i].rows - 1);
        if (p->block_rows)
            str_addf(out, " in at most %" PRId64 " blocks of %d choices",
                     slices[i].slices * p->m_tile / p->block_rows, p->block_rows);
        else if (slices[i].slices > 1)
            str_addf(out, " in %" PRId64 " slices", slices[i].slices);
        str_add(out, ":\n");
        plan_explain(slices[i].plan, out);
    }
    plan_explain_rows(set, (int)m, out);
}

static void explain_blas(const quern_op *op, int64_t m, struct str *out)
{
    const quern_ctx *const ctx = op->ctx;
    struct plan_set set;

    if (quern_op_workspace(op, m) && !plan_make_tuned(&op->spelling.problem, ctx->planned,
                                                      ctx->tuning, &ctx->settings.force, &set)) {
        const struct plan_blas b = plan_blas_choose(&set);
        plan_blas_explain(&b, m, out);
    }
}

quern_status quern_explain(const struct quern_options *options, const struct quern_problem *problem,
                           int64_t m, char **text)
{
    struct plan_set set;
    struct facts facts;
    struct plan_slice slices[2];
    struct str out = {0};
    size_t count;

    FAIL_IF(!text, QUERN_E_ARGUMENT, "text is null");
    TRY(plan_of(options, problem, m, &set, slices, &count, &facts));
    const struct plan_blas blas = plan_blas_choose(&set);
    explain(&set, &facts, slices, count, m, &out);
    plan_blas_explain(&blas, m, &out);
    return give(&out, text);
}

quern_status quern_explain_sweep(const struct quern_options *options,
                                 const struct quern_problem *problem, char **text)
{
    struct plan_set set;
    struct facts facts;
    struct plan_slice slices[2];
    struct str out = {0};
    size_t count;

    FAIL_IF(!text, QUERN_E_ARGUMENT, "text is null");
    TRY(plan_of(options, problem, 1, &set, slices, &count, &facts));
    plan_explain_sweep(&set, &out);
    return give(&out, text);
}

size_t quern_op_explain(quern_op *op, int64_t m, char *text, size_t size)
{
    struct plan_slice slices[2];
    struct str out = {0};

    if (!op || m < 1 || m > INT32_MAX)
        return 0;
    const struct kernel_set *const set = atomic_load(&op->kernels);
    const quern_op *const base = set ? NULL : atomic_load(&op->base);
    const struct kernel_set *const serves = base ? atomic_load(&base->kernels) : set;
    if (!set)
        str_addf(&out, "kernels of %s are not there%s\n", op->text,
                 serves ? "; base kernels serve:" : " yet");
    if (serves)
        explain(&serves->plans, &op->ctx->facts, slices, plan_slices(&serves->plans, m, slices), m,
                &out);
    if (set)
        explain_blas(op, m, &out);
    const size_t length = out.length, shown = length < size ? length : size ? size - 1 : 0;
    if (size) {
        memcpy(text, str_text(&out), shown);
        text[shown] = 0;
    }
    str_free(&out);
    return length;
}

/* ---- Code objects ---------------------------------------------------------------------------- */

quern_status quern_object_inspect(const void *bytes, size_t size, const char **target,
                                  struct quern_object_kernel *kernels, size_t *count)
{
    struct object object;

    FAIL_IF(!bytes || !count, QUERN_E_ARGUMENT, "%s is null", bytes ? "count" : "object");
    TRY(object_parse(bytes, size, &object));
    if (target)
        *target = object.target->name;
    for (size_t i = 0; kernels && i < object.kernel_count && i < *count; i++)
        kernels[i] = (struct quern_object_kernel){
            .symbol = object.kernels[i].name,
            .resources = kernel_resources(&object.kernels[i], object.target)};
    *count = object.kernel_count;
    object_free(&object);
    return QUERN_OK;
}

quern_status quern_object_code(const void *bytes, size_t size, const char *symbol,
                               const void **code, size_t *code_bytes, uint64_t *address)
{
    struct object object;

    FAIL_IF(!bytes || !symbol || !code || !code_bytes || !address, QUERN_E_ARGUMENT,
            "a null argument");
    TRY(object_parse(bytes, size, &object));
    const struct object_kernel *const kernel = object_kernel(&object, symbol);
    if (kernel) {
        *code = object_at(&object, kernel->entry, kernel->code_bytes);
        *code_bytes = (size_t)kernel->code_bytes;
        *address = kernel->entry;
    }
    object_free(&object);
    FAIL_IF(!kernel, QUERN_E_ARGUMENT, "the code object has no kernel %s", symbol);
    return QUERN_OK;
}

/* ---- Cache ----------------------------------------------------------------------------------- */

quern_status quern_cache_info(quern_ctx *ctx, struct quern_cache_info *info)
{
    const struct extensible *const type = EXTENSIBLE(quern_cache_info, QUERN_CACHE_INFO_SIZE_MIN);
    struct store_usage usage;

    FAIL_IF(!ctx, QUERN_E_ARGUMENT, "ctx is null");
    TRY(extensible_check(type, info));
    TRY(store_usage(ctx->store, &usage));
    struct quern_cache_info own = {.entries = usage.entries,
                                   .bytes = usage.bytes,
                                   .max_bytes = ctx->settings.cache_max_bytes,
                                   .quarantined = usage.quarantined};
    snprintf(own.directory, sizeof own.directory, "%s", store_directory(ctx->store));
    extensible_write(type, &own, info);
    return QUERN_OK;
}

struct walk {
    quern_cache_fn fn;
    void *user;
};

static int pass_on(void *user, const struct store_item *item)
{
    const struct walk *const w = user;

    return w->fn(w->user, &(struct quern_cache_entry){.key = item->key,
                                                      .bytes = item->bytes,
                                                      .used = item->used,
                                                      .key_text = item->key_text,
                                                      .status = item->status,
                                                      .scanned = item->rules == LINT_RULES});
}

quern_status quern_cache_walk(quern_ctx *ctx, int verify, quern_cache_fn fn, void *user)
{
    FAIL_IF(!ctx || !fn, QUERN_E_ARGUMENT, "%s is null", ctx ? "fn" : "ctx");
    return store_walk(ctx->store, verify != 0, pass_on, &(struct walk){fn, user});
}

quern_status quern_cache_clear(quern_ctx *ctx, uint64_t *removed)
{
    uint64_t count = 0;

    FAIL_IF(!ctx, QUERN_E_ARGUMENT, "ctx is null");
    const quern_status status = store_clear(ctx->store, &count);
    if (removed)
        *removed = count;
    return status;
}
