/* SPDX-License-Identifier: MIT */
/* What a machine has of what quern needs: a verdict, and then one line for each part. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "lint/lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct report {
    struct str findings; /* of each a byte (1: ok), its subject and its text, both with a NUL: they
                            are told when the verdict, which goes first, is known */
    struct str troubles; /* the subjects of problems, each once */
    char device[96];     /* the first GPU that can be used; "": none */
    int problems;
    unsigned revoked; /* entries of the cache that the remote's list was found to revoke */
};

static void say(struct report *r, bool ok, const char *subject, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void say(struct report *r, bool ok, const char *subject, const char *format, ...)
{
    const char sign = (char)ok;
    char text[4096];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    str_add_bytes(&r->findings, &sign, 1);
    str_add_bytes(&r->findings, subject, strlen(subject) + 1);
    /* a server's answer, a GPU's name or a path must not drive the terminal of who is told */
    str_add_shown(&r->findings, text, strlen(text));
    str_add_bytes(&r->findings, "", 1);
    r->problems += !ok;
    if (!ok && !strstr(str_text(&r->troubles), subject))
        str_addf(&r->troubles, "%s%s", r->troubles.length ? ", " : "", subject);
}

/* Tells the host the verdict and all that was found; returns the number of problems. */
static int tell(struct report *r, const struct device_driver *driver, quern_doctor_fn line,
                void *user)
{
    char verdict[512];

    if (r->findings.failed) { /* what was found is lost, so it is not counted either */
        snprintf(verdict, sizeof verdict, "not ready: out of memory for what was found");
        r->problems = 1;
    } else if (r->problems)
        snprintf(verdict, sizeof verdict, "not ready: see %s", str_text(&r->troubles));
    else
        snprintf(verdict, sizeof verdict,
                 "ready: kernels for %s GPUs are compiled here, and run on %s", driver->vendor,
                 *r->device ? r->device : "the software GPU, as no GPU can be used");
    line(user, !r->problems, "verdict", verdict);
    const char *at = str_text(&r->findings);
    for (const char *const end = at + r->findings.length; at < end && !r->findings.failed;) {
        const char *const subject = at + 1, *const text = subject + strlen(subject) + 1;
        line(user, *at, subject, text);
        at = text + strlen(text) + 1;
    }
    str_free(&r->findings);
    str_free(&r->troubles);
    return r->problems;
}

/* The message of the last failure. */
static const char *why(void)
{
    return quern_last_error()->message;
}

static void check_toolchain(struct report *r, quern_ctx *ctx)
{
    const struct toolchain *const t = compiler_toolchain(ctx->compiler);

    if (!t) {
        say(r, false, "toolchain", "%s", why());
        return;
    }
    say(r, true, "toolchain", "%s", t->root);
    for (unsigned i = 0; i < TOOLCHAIN_LIBRARIES; i++)
        if (*t->library[i])
            say(r, true, toolchain_label(t, i), "%s", t->library[i]);
    say(r, true, "loader", "%s", *t->loader ? t->loader : "the host's own");
    say(r, true, "identity", "%s", t->identity);
}

/* Whether `word` is one of the space-separated words of `list`. */
static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

/* Whether a kernel of a few lines compiles. Done before the worker is asked for its version,
 * because that answer says what its sandbox has refused so far. */
static bool check_compile(struct report *r, quern_ctx *ctx)
{
    size_t bytes;

    if (compiler_try(ctx->compiler, ctx->id.target->name, &bytes) != QUERN_OK) {
        say(r, false, "worker", "%s", why());
        return false;
    }
    say(r, true, "compile", "a small kernel for %s: %zu bytes", ctx->id.target->name, bytes);
    return true;
}

/* Whether the compiler knows all of its vendor's targets, where there is a library to ask. */
static void check_targets(struct report *r, quern_ctx *ctx)
{
    const struct toolchain *const toolchain = compiler_toolchain(ctx->compiler);
    struct str missing = {0};
    char *targets;

    if (!toolchain || !*toolchain->library[LIBRARY_DISASSEMBLER])
        return;
    if (compiler_targets(ctx->compiler, &targets) != QUERN_OK) {
        say(r, false, "targets", "%s", why());
        return;
    }
    for (size_t i = 0; i < target_count(); i++) {
        const struct target *const t = target_at(i);
        if (t->vendor == ctx->id.target->vendor && !has_word(targets, t->name))
            str_addf(&missing, "%s%s", missing.length ? " " : "", t->name);
    }
    say(r, !missing.length, "targets", "%s%s",
        missing.length ? "the compiler does not know " : "the compiler knows every listed target",
        str_text(&missing));
    str_free(&missing);
    os.free(targets);
}

static void check_worker(struct report *r, quern_ctx *ctx)
{
    char *version;

    const bool compiles = check_compile(r, ctx);
    if (compiler_version(ctx->compiler, &version) != QUERN_OK) {
        if (compiles)
            say(r, false, "worker", "%s", why());
        return;
    }
    say(r, true, "worker", "%s", version);
    os.free(version);
    check_targets(r, ctx);
}

static int count_unscanned(void *user, const struct store_item *item)
{
    *(unsigned long long *)user += item->status == QUERN_OK && item->rules != LINT_RULES;
    return 0;
}

static void check_cache(struct report *r, quern_ctx *ctx)
{
    unsigned long long unscanned = 0;
    struct store_usage usage;

    if ((ctx->settings.cache_mode == QUERN_CACHE_RW && store_try(ctx->store) != QUERN_OK) ||
        store_usage(ctx->store, &usage) != QUERN_OK ||
        store_walk(ctx->store, false, count_unscanned, &unscanned) != QUERN_OK)
        say(r, false, "cache", "%s", why());
    else
        say(r, true, "cache", "%s: %llu entries, %llu not scanned, %llu bytes, %llu quarantined",
            store_directory(ctx->store), (unsigned long long)usage.entries, unscanned,
            (unsigned long long)usage.bytes, (unsigned long long)usage.quarantined);
}

/* A remote that does not answer is a problem: whoever names one relies on it. */
static void check_remote(struct report *r, quern_ctx *ctx)
{
    struct str text = {0};

    if (!ctx->remote)
        return;
    const uint64_t before = counter_value(&ctx->counters, QUERN_STAT_QUARANTINED);
    const bool good = remote_try(ctx->remote, &text);
    const uint64_t moved = counter_value(&ctx->counters, QUERN_STAT_QUARANTINED) - before;
    say(r, good, "remote cache", "%s", str_text(&text));
    if (moved)
        say(r, true, "cache", "%llu revoked %s moved to quarantine", (unsigned long long)moved,
            moved == 1 ? "entry" : "entries");
    if (r->revoked > moved)
        say(r, false, "cache", "%llu revoked %s cannot be moved to quarantine",
            (unsigned long long)(r->revoked - moved),
            r->revoked - moved == 1 ? "entry" : "entries");
    str_free(&text);
}

static void check_cpu(struct report *r)
{
    __builtin_cpu_init();
    say(r, true, "software GPU", "%s bodies on %d CPUs",
        __builtin_cpu_supports("x86-64-v4")   ? "x86-64-v4"
        : __builtin_cpu_supports("x86-64-v3") ? "x86-64-v3"
                                              : "x86-64",
        os_cpu_count());
}

/* Where the libraries that are tried as a runtime are reported. */
struct listener {
    struct report *report;
    const char *runtime;
    bool needed; /* its device was asked for by name */
};

/* A library that is not where it was looked for is no news, as there are many places; the text of
 * one that lacks another library begins with that one's name. */
static void tell_candidate(void *user, const char *candidate, const char *outcome)
{
    static const char absent[] = "cannot open shared object file";
    const struct listener *const l = user;
    const char *const lacks = strstr(outcome, absent);
    const char *const needed = l->needed ? "" : " (not needed)";
    char subject[64], text[256];

    snprintf(subject, sizeof subject, "%s runtime", l->runtime);
    if (!*outcome)
        outcome = "used";
    else if (lacks == outcome)
        snprintf(text, sizeof text, "not there%s", needed);
    else if (lacks)
        snprintf(text, sizeof text, "cannot be loaded without %.*s, which is not there%s",
                 (int)strcspn(outcome, ":"), outcome, needed);
    if (lacks)
        outcome = text;
    say(l->report, true, subject, "%s: %s", candidate, outcome);
}

/* What is known of a target's GPUs, and what is only assumed. */
static void check_facts(struct report *r, quern_ctx *ctx, const struct target *target)
{
    unsigned asked = 0, probed = 0;
    struct str refuted = {0};
    struct facts facts;

    const bool ok = facts_load(&ctx->settings, &ctx->bundles, ctx->store, target, &ctx->log,
                               &facts) == QUERN_OK;
    for (unsigned i = 0; i < FACT_COUNT; i++) {
        if (!fact_asked((enum fact)i, target))
            continue;
        asked++;
        probed += facts.probed >> i & 1;
        if (facts.refuted >> i & 1)
            str_addf(&refuted, "%s %s", refuted.length ? "," : "; refuted:", fact_rows[i].name);
    }
    if (!ok)
        say(r, false, "facts", "%s", why());
    else if (asked)
        say(r, true, "facts", "%s: %u of %u probed%s%s", target->name, probed, asked,
            probed < asked ? ", the others are assumed (quern probe)" : "", str_text(&refuted));
    str_free(&refuted);
}

static void check_device(struct report *r, quern_ctx *ctx, const struct device_driver *driver,
                         const char *path, int index)
{
    char target[64];
    struct device *d;

    if (driver->open(driver, &(struct device_search){.path = path}, index, &d) != QUERN_OK) {
        say(r, false, "device", "%d: %s", index, why());
        return;
    }
    target_id_text(&d->id, target, sizeof target);
    if (!*r->device)
        snprintf(r->device, sizeof r->device, "GPU %d (%s)", index, target);
    say(r, true, "device", "%d: %s, %s, %u compute units, %.2f GHz, %.1f GiB%s", index,
        d->facts.name, target, d->facts.compute_units, d->facts.clock_ghz,
        (double)d->facts.memory_bytes / (1 << 30),
        d->id.target->judge ? "" : "; unverified: nothing here runs this target without a GPU");
    check_facts(r, ctx, d->id.target);
    d->functions->close(d);
}

/* A machine without a GPU is no problem, as everything but `quern time` works there, unless the GPU
 * was asked for by name. */
static void check_devices(struct report *r, quern_ctx *ctx, const struct device_driver *driver)
{
    const bool needed = ctx->settings.device == driver->number;
    const char *const path = settings_path(&ctx->settings, driver->option);
    struct listener listener = {r, driver->runtime, needed};
    const struct device_search search = {.path = path, .tried = tell_candidate, .user = &listener};
    int count = 0;

    if (driver->count(driver, &search, &count) != QUERN_OK) {
        /* the remedy is to ask doctor */
        say(r, !needed, "device", "%s%s", quern_last_error()->fact,
            needed ? "" : "; kernels run on the software GPU");
        return;
    }
    if (!count)
        say(r, !needed, "device", "the %s runtime has none%s", driver->runtime,
            needed ? "" : "; kernels run on the software GPU");
    for (int i = 0; i < count; i++)
        check_device(r, ctx, driver, path, i);
}

/* Whose compiler and GPUs are looked at: of the vendor that the device or the target is of, else of
 * the one that has a GPU here, else of the first. */
static quern_status choose_driver(const struct quern_options *o, struct settings *s,
                                  const struct device_driver **driver)
{
    struct log none = {0};
    struct target_id id;

    TRY(settings_make(o, &none, s));
    *driver = drivers[0];
    for (size_t i = 0; drivers[i]; i++)
        if (s->device == drivers[i]->number) {
            *driver = drivers[i];
            return QUERN_OK;
        }
    if (s->target) {
        TRY(target_parse(s->target, &id));
        *driver = drivers[id.target->vendor];
        return QUERN_OK;
    }
    for (size_t i = 0; drivers[i]; i++)
        if (drivers[i]->present && drivers[i]->present(drivers[i])) {
            *driver = drivers[i];
            return QUERN_OK;
        }
    return QUERN_OK;
}

/* Any target of the vendor, to open a context for its compiler with: nothing is planned or run. */
static const char *any_target(const struct device_driver *driver)
{
    size_t i = 0;

    while (drivers[target_at(i)->vendor] != driver)
        i++;
    return target_at(i)->name;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && !strcmp(text + n - m, end);
}

/* What the library warns of is what is wrong here, but for a variable that nobody reads, and for an
 * entry that is revoked, which is well if it is moved out of the way: check_remote tells that. */
static void take_warning(void *user, enum quern_log_level level, const char *text)
{
    struct report *const r = user;

    if (level <= QUERN_LOG_WARN && ends_with(text, ": " STORE_REVOKED))
        r->revoked++;
    else if (level <= QUERN_LOG_WARN)
        say(user, !strncmp(text, "unknown environment variable", 28), "context", "%s", text);
}

/* Examines everything for a vendor, in a context without a device, which opens on every machine;
 * GPUs are looked at last, those of other vendors only if no device was named. */
static void examine(struct report *r, struct quern_options *o, const struct settings *s,
                    const struct device_driver *driver)
{
    quern_ctx *ctx;

    o->device = QUERN_DEVICE_NONE;
    o->log = take_warning;
    o->log_user = r;
    if (!s->target)
        o->target = any_target(driver);
    if (quern_open(o, &ctx) != QUERN_OK) {
        say(r, false, "context", "%s", why());
        return;
    }
    check_toolchain(r, ctx);
    check_worker(r, ctx);
    check_cache(r, ctx);
    check_remote(r, ctx);
    check_cpu(r);
    if (s->target)
        check_facts(r, ctx, ctx->id.target);
    ctx->settings.device = s->device;
    for (size_t i = 0; drivers[i]; i++)
        if (drivers[i] == driver || s->device != driver->number)
            check_devices(r, ctx, drivers[i]);
    ctx->settings.device = QUERN_DEVICE_NONE;
    quern_close(ctx);
}

int quern_doctor(const struct quern_options *options, quern_doctor_fn line, void *user)
{
    const struct device_driver *driver = drivers[0];
    struct report r = {0};
    struct settings settings = {0};
    struct quern_options o;

    if (!line)
        return 1;
    if (options_read(options, &o) != QUERN_OK || choose_driver(&o, &settings, &driver) != QUERN_OK)
        say(&r, false, "options", "%s", why());
    else
        examine(&r, &o, &settings, driver);
    settings_free(&settings);
    return tell(&r, driver, line, user);
}
