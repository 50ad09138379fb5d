/* SPDX-License-Identifier: MIT */
/* What a machine has of what quern needs, one line each. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "lint/lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct report {
    quern_doctor_fn line;
    void *user;
    int problems;
};

static void say(struct report *r, bool ok, const char *subject, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void say(struct report *r, bool ok, const char *subject, const char *format, ...)
{
    char text[4096];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    r->problems += !ok;
    r->line(r->user, ok, subject, text);
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

    if (store_usage(ctx->store, &usage) != QUERN_OK ||
        store_walk(ctx->store, false, count_unscanned, &unscanned) != QUERN_OK)
        say(r, false, "cache", "%s", why());
    else
        say(r, true, "cache", "%s: %llu entries, %llu not scanned, %llu bytes, %llu quarantined",
            store_directory(ctx->store), (unsigned long long)usage.entries, unscanned,
            (unsigned long long)usage.bytes, (unsigned long long)usage.quarantined);
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
};

static void tell_candidate(void *user, const char *candidate, const char *outcome)
{
    const struct listener *const l = user;
    char subject[64];

    snprintf(subject, sizeof subject, "%s runtime", l->runtime);
    say(l->report, true, subject, "%s: %s", candidate, *outcome ? outcome : "used");
}

static void check_device(struct report *r, const struct device_driver *driver, const char *path,
                         int index)
{
    char target[64];
    struct device *d;

    if (driver->open(&(struct device_search){.path = path}, index, &d) != QUERN_OK) {
        say(r, false, "device", "%d: %s", index, why());
        return;
    }
    target_id_text(&d->id, target, sizeof target);
    say(r, true, "device", "%d: %s, %s, %u compute units, %.2f GHz, %.1f GiB%s", index,
        d->facts.name, target, d->facts.compute_units, d->facts.clock_ghz,
        (double)d->facts.memory_bytes / (1 << 30),
        d->id.target->judge ? "" : "; unverified: nothing here runs this target without a GPU");
    d->functions->close(d);
}

/* A machine without a GPU is no problem: everything but `quern time` works there. */
static void check_devices(struct report *r, quern_ctx *ctx, const struct device_driver *driver)
{
    const char *const path = settings_path(&ctx->settings, driver->option);
    struct listener listener = {r, driver->runtime};
    const struct device_search search = {.path = path, .tried = tell_candidate, .user = &listener};
    int count = 0;

    if (driver->count(&search, &count) != QUERN_OK) {
        say(r, true, "device", "%s; kernels run on the software GPU", why());
        return;
    }
    if (!count)
        say(r, true, "device", "the %s runtime has none; kernels run on the software GPU",
            driver->runtime);
    for (int i = 0; i < count; i++)
        check_device(r, driver, path, i);
}

int quern_doctor(const struct quern_options *options, quern_doctor_fn line, void *user)
{
    struct report r = {.line = line, .user = user};
    struct quern_options o;
    quern_ctx *ctx;

    if (!line)
        return 1;
    if (options_read(options, &o) != QUERN_OK) {
        say(&r, false, "options", "%s", why());
        return r.problems;
    }
    /* a context of the software device opens on every machine; GPUs are looked at last */
    o.device = QUERN_DEVICE_SIM;
    if (!o.target)
        o.target = target_at(0)->name; /* any will do: nothing is planned or run */
    if (quern_open(&o, &ctx) != QUERN_OK) {
        say(&r, false, "context", "%s", why());
        return r.problems;
    }
    check_toolchain(&r, ctx);
    check_worker(&r, ctx);
    check_cache(&r, ctx);
    check_cpu(&r);
    for (size_t i = 0; drivers[i]; i++)
        check_devices(&r, ctx, drivers[i]);
    quern_close(ctx);
    return r.problems;
}
