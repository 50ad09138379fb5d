/* SPDX-License-Identifier: MIT */
/* Options: the caller's value, else the environment's, else the default. */
#include "dispatch/dispatch.h"

#include "base/extensible.h"
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define VARIABLE(name, variable) variable,
static const char *const known_variables[] = {
    STRING_SETTINGS(VARIABLE) "QUERN_CACHE_MAX_SIZE",
    "QUERN_CACHE_MODE",
    "QUERN_JIT",
    "QUERN_DEVICE",
    "QUERN_TOOLCHAIN",
    "QUERN_MANIFEST",
    "QUERN_JOBS",
    "QUERN_LOG",
    "QUERN_CACHE_TRUST",
    "QUERN_BLAS",
    "QUERN_BASE",
    "QUERN_BASE_COPY",
    "QUERN_WEIGHTS",
    "QUERN_FORCE",
    "QUERN_REMOTE_TRUST",
    "QUERN_REMOTE_GRACE_MS",
    "QUERN_REMOTE_MODE",
};
#undef VARIABLE
#define KNOWN_COUNT (sizeof known_variables / sizeof *known_variables)

/* secure_getenv gives nothing in set-user-ID programs, where the environment is an attacker's. An
 * empty value counts as not set. */
static const char *variable(const char *name)
{
    const char *const value = secure_getenv(name);

    return value && *value ? value : NULL;
}

static void warn_unknown(struct log *log)
{
    for (char **e = environ; e && *e; e++) {
        const size_t n = strcspn(*e, "=");
        bool known = strncmp(*e, "QUERN_", 6) != 0;
        for (size_t i = 0; i < KNOWN_COUNT && !known; i++)
            known = strlen(known_variables[i]) == n && !strncmp(*e, known_variables[i], n);
        if (!known)
            log_line(log, QUERN_LOG_WARN, "unknown environment variable %.*s is ignored", (int)n,
                     *e);
    }
}

/* Sets *value from a variable that holds one of `words` (value = index + 1), unless it is set. */
static quern_status choose(const char *name, const char *const *words, int count, int otherwise,
                           int *value)
{
    const char *const text = variable(name);

    if (*value) {
        FAIL_IF(*value < 0 || *value > count, QUERN_E_ARGUMENT,
                "the option for %s has the value %d; expected 1 to %d", name, *value, count);
        return QUERN_OK;
    }
    *value = otherwise;
    if (!text)
        return QUERN_OK;
    for (int i = 0; i < count; i++)
        if (!strcmp(text, words[i])) {
            *value = i + 1;
            return QUERN_OK;
        }
    struct str expected = {0};
    for (int i = 0; i < count; i++)
        str_addf(&expected, "%s%s", i == 0 ? "" : i == count - 1 ? " or " : ", ", words[i]);
    error_set(QUERN_E_ARGUMENT, __FILE__, FAIL_AT(""), "%s=%s; expected %s", name, text,
              str_text(&expected));
    str_free(&expected);
    return QUERN_E_ARGUMENT;
}

/* A number of bytes with an optional K, M, G or T (powers of 1024). */
static quern_status parse_size(const char *name, const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;

    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *const unit = *end ? strchr(units, *end) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    const bool bad = errno || end == text || *text == '-' || (*end && (!unit || end[1])) ||
                     !number || number > (UINT64_MAX >> shift);
    FAIL_IF(bad, QUERN_E_ARGUMENT,
            "%s=%s is no size; expected a number of bytes such as 512M or 2G", name, text);
    *bytes = (uint64_t)number << shift;
    return QUERN_OK;
}

static quern_status copy_string(const char *option, const char *name, char **out)
{
    const char *const text = option && *option ? option : variable(name);

    *out = NULL;
    if (!text)
        return QUERN_OK;
    *out = os.malloc(strlen(text) + 1);
    FAIL_IF(!*out, QUERN_E_MEMORY, "out of memory for %zu bytes", strlen(text) + 1);
    memcpy(*out, text, strlen(text) + 1);
    return QUERN_OK;
}

/* Sets the device from QUERN_DEVICE, unless it is set: one of the words of every machine, or the
 * name of a vendor's runtime. */
static quern_status choose_device(int *device)
{
    const char *words[16] = {[QUERN_DEVICE_AUTO - 1] = "auto",
                             [QUERN_DEVICE_SIM - 1] = "sim",
                             [QUERN_DEVICE_NONE - 1] = "none"};
    int count = QUERN_DEVICE_NONE;

    for (size_t i = 0; drivers[i]; i++) {
        words[drivers[i]->number - 1] = drivers[i]->name;
        count = (int)drivers[i]->number > count ? (int)drivers[i]->number : count;
    }
    return choose("QUERN_DEVICE", words, count, QUERN_DEVICE_AUTO, device);
}

/* The grace of the remote: milliseconds, or "unlimited" (-1). */
#define GRACE_MS     50
#define GRACE_MS_MAX 600000
static quern_status choose_grace(int given, int *grace)
{
    const char *const text = given ? NULL : variable("QUERN_REMOTE_GRACE_MS");
    char *end = NULL;

    FAIL_IF(given < -1 || given > GRACE_MS_MAX, QUERN_E_ARGUMENT,
            "remote_grace_ms is %d; expected -1 to %d", given, GRACE_MS_MAX);
    *grace = given ? given : GRACE_MS;
    if (!text)
        return QUERN_OK;
    const long number = strtol(text, &end, 10);
    const bool unlimited = !strcmp(text, "unlimited");
    FAIL_IF(!unlimited && (end == text || *end || number < 0 || number > GRACE_MS_MAX),
            QUERN_E_ARGUMENT,
            "QUERN_REMOTE_GRACE_MS=%s; expected a number of milliseconds from 0 to %d, or "
            "unlimited",
            text, GRACE_MS_MAX);
    *grace = unlimited ? -1 : (int)number;
    return QUERN_OK;
}

static quern_status fill(const struct quern_options *o, struct settings *s)
{
    static const char *const modes[] = {"rw", "ro", "off"};
    static const char *const trusts[] = {"user", "group"};
    static const char *const jits[] = {"on", "off", "warn", "error"};
    static const char *const toolchains[] = {"any", "exact"};
    static const char *const blases[] = {"auto", "off"};
    static const char *const bases[] = {"auto", "on", "off"};
    static const char *const copies[] = {"off", "on"};
    static const char *const weights_are[] = {"any", "constant"};
    static const char *const remote_trusts[] = {"keys", "transport"};
    static const char *const remote_modes[] = {"r", "rw"};
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    int device = (int)o->device, mode = (int)o->cache_mode, jit = (int)o->jit,
        level = (int)o->log_level, toolchain = (int)o->toolchain, trust = (int)o->cache_trust,
        blas = (int)o->blas, base = (int)o->base, weights = (int)o->weights,
        remote_trust = (int)o->remote_trust, remote_mode = (int)o->remote_mode, copy = 0;
    const char *text;

    TRY(choose_device(&device));
    s->cache_named = mode || variable("QUERN_CACHE_MODE");
    TRY(choose("QUERN_CACHE_MODE", modes, 3, QUERN_CACHE_RW, &mode));
    TRY(choose("QUERN_CACHE_TRUST", trusts, 2, QUERN_CACHE_TRUST_USER, &trust));
    TRY(choose("QUERN_JIT", jits, 4, QUERN_JIT_ON, &jit));
    TRY(choose("QUERN_TOOLCHAIN", toolchains, 2, QUERN_TOOLCHAIN_ANY, &toolchain));
    TRY(choose("QUERN_BLAS", blases, 2, QUERN_BLAS_AUTO, &blas));
    TRY(choose("QUERN_BASE", bases, 3, QUERN_BASE_AUTO, &base));
    TRY(choose("QUERN_BASE_COPY", copies, 2, 1, &copy));
    TRY(choose("QUERN_WEIGHTS", weights_are, 2, QUERN_WEIGHTS_ANY, &weights));
    TRY(choose("QUERN_REMOTE_TRUST", remote_trusts, 2, QUERN_REMOTE_TRUST_KEYS, &remote_trust));
    TRY(choose("QUERN_REMOTE_MODE", remote_modes, 2, QUERN_REMOTE_MODE_R, &remote_mode));
    TRY(choose_grace(o->remote_grace_ms, &s->remote_grace_ms));
    TRY(choose("QUERN_LOG", levels, 4, QUERN_LOG_WARN, &level));
    s->device = (enum quern_device_kind)device;
    s->cache_mode = (enum quern_cache_mode)mode;
    s->cache_shared = trust == QUERN_CACHE_TRUST_GROUP;
    s->jit = jit == QUERN_JIT_ERROR ? QUERN_JIT_OFF : (enum quern_jit)jit;
    s->toolchain = (enum quern_toolchain)toolchain;
    s->blas = (enum quern_blas)blas;
    s->base = (enum quern_base)base;
    s->copies_code = copy == 2;
    s->weights = (enum quern_weights)weights;
    s->remote_trust = (enum quern_remote_trust)remote_trust;
    s->remote_mode = (enum quern_remote_mode)remote_mode;
    s->log_level = (enum quern_log_level)level;
    s->device_index = o->device_index;
    s->allow_unverified = o->allow_unverified;
#define COPY(name, variable) TRY(copy_string(o->name, variable, &s->name));
    STRING_SETTINGS(COPY)
#undef COPY
    /* Other empty values count as not set. This one is an error, because without keys a bundle of
     * anybody would be used. */
    FAIL_IF((o->bundle_keys && !*o->bundle_keys) ||
                (!o->bundle_keys && (text = secure_getenv("QUERN_BUNDLE_KEYS")) && !*text),
            QUERN_E_ARGUMENT, "QUERN_BUNDLE_KEYS is empty; unset it if bundles need no signature");
    TRY(plan_force_parse(o->force && *o->force ? o->force : variable("QUERN_FORCE"), &s->force));

    s->cache_max_bytes = o->cache_max_bytes;
    if (!s->cache_max_bytes && (text = variable("QUERN_CACHE_MAX_SIZE")))
        TRY(parse_size("QUERN_CACHE_MAX_SIZE", text, &s->cache_max_bytes));
    if (!s->cache_max_bytes)
        s->cache_max_bytes = STORE_MAX_BYTES_DEFAULT;

    s->jobs = o->jobs;
    if (!s->jobs && (text = variable("QUERN_JOBS"))) {
        char *end;
        const long jobs = strtol(text, &end, 10);
        FAIL_IF(end == text || *end || jobs < 1 || jobs > 256, QUERN_E_ARGUMENT,
                "QUERN_JOBS=%s; expected a number from 1 to 256", text);
        s->jobs = (int)jobs;
    }
    FAIL_IF(s->jobs < 0 || s->jobs > 256, QUERN_E_ARGUMENT, "jobs is %d; expected 1 to 256",
            s->jobs);
    if (!s->jobs)
        s->jobs = os_cpu_count();
    return QUERN_OK;
}

const char *settings_path(const struct settings *s, const char *option)
{
#define NAMED(name, variable)                                                                      \
    if (option && !strcmp(option, #name))                                                          \
        return s->name;
    STRING_SETTINGS(NAMED)
#undef NAMED
    return NULL;
}

quern_status settings_target(const struct settings *s, struct target_id *id)
{
    if (s->target)
        return target_parse(s->target, id);
    error_set(QUERN_E_TARGET, __FILE__, FAIL_AT("!s->target"), "no target");
    return error_remedy(GIVE_A_TARGET);
}

quern_status options_read(const struct quern_options *given, struct quern_options *own)
{
    *own = (struct quern_options)QUERN_INIT(struct quern_options);
    if (given)
        TRY(extensible_read(EXTENSIBLE(quern_options, QUERN_OPTIONS_SIZE_MIN), given, own));
    return QUERN_OK;
}

quern_status settings_make(const struct quern_options *options, struct log *log,
                           struct settings *settings)
{
    struct settings s = {0};

    const quern_status status = fill(options, &s);
    if (status != QUERN_OK) {
        settings_free(&s);
        return status;
    }
    log->level = s.log_level;
    warn_unknown(log);
    *settings = s;
    return QUERN_OK;
}

void settings_free(struct settings *s)
{
#define FREE(name, variable) os.free(s->name);
    STRING_SETTINGS(FREE)
#undef FREE
    *s = (struct settings){0};
}
