/* SPDX-License-Identifier: MIT */
/* Reads the command line of any verb (options.h). */
#include "command/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS_MAX 48
#define COUNT_MAX 256 /* the largest --jobs, as in the library */

/* ---- Values ---------------------------------------------------------------------------------- */

/* A whole decimal number; false when it is not one or does not fit. */
static bool number(const char *text, const char **end, int64_t *value)
{
    char *stop;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *value = strtoll(text, &stop, 10);
    *end = stop;
    return !errno;
}

static int compare_ranges(const void *x, const void *y)
{
    const struct m_range *a = x, *b = y;

    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

static void merge_ranges(struct m_set *set)
{
    size_t kept = 0;

    qsort(set->ranges, set->count, sizeof set->ranges[0], compare_ranges);
    for (size_t i = 1; i < set->count; i++) {
        if (set->ranges[i].lo > set->ranges[kept].hi + 1)
            set->ranges[++kept] = set->ranges[i];
        else if (set->ranges[i].hi > set->ranges[kept].hi)
            set->ranges[kept].hi = set->ranges[i].hi;
    }
    set->count = kept + 1;
}

static int parse_m(const char *text, struct m_set *set)
{
    const char *p = text;

    set->count = 0;
    for (;;) {
        struct m_range r;
        if (!number(p, &p, &r.lo))
            goto wrong;
        r.hi = r.lo;
        if (*p == '-' && !number(p + 1, &p, &r.hi))
            goto wrong;
        if (r.lo < 1 || r.hi < r.lo || r.hi > M_MAX)
            goto wrong;
        if (set->count == M_RANGES_MAX)
            return misuse("--m '%s' has more than %d parts", text, M_RANGES_MAX);
        set->ranges[set->count++] = r;
        if (!*p)
            break;
        if (*p++ != ',')
            goto wrong;
    }
    merge_ranges(set);
    return -1;
wrong:
    return misuse(
        "--m '%s' is not a number of rows; give one (7), a range (1-8) or a list (1,2,4-8) "
        "of values from 1 to %lld",
        text, (long long)M_MAX);
}

int options_m(const char *text, struct m_set *set)
{
    const int status = parse_m(text, set);

    return status < 0 ? EXIT_OK : status;
}

bool m_next(const struct m_set *set, int64_t *m)
{
    for (size_t i = 0; i < set->count; i++)
        if (*m < set->ranges[i].hi) {
            *m = *m < set->ranges[i].lo ? set->ranges[i].lo : *m + 1;
            return true;
        }
    return false;
}

int64_t m_count(const struct m_set *set)
{
    int64_t count = 0;

    for (size_t i = 0; i < set->count; i++)
        count += set->ranges[i].hi - set->ranges[i].lo + 1;
    return count;
}

int64_t m_most(const struct m_set *set)
{
    return set->count ? set->ranges[set->count - 1].hi : 0;
}

bool options_m_add(struct m_set *set, const struct m_set *other)
{
    for (size_t i = 0; i < other->count; i++) {
        if (set->count == M_RANGES_MAX)
            return false;
        set->ranges[set->count++] = other->ranges[i];
        merge_ranges(set);
    }
    return true;
}

static int parse_size(const char *name, const char *text, uint64_t *size)
{
    static const char suffixes[] = "KMGT";
    const char *p;
    int64_t value;
    int shift = 0;

    if (number(text, &p, &value)) {
        const char *s = *p ? strchr(suffixes, toupper((unsigned char)*p)) : NULL;
        if (s) {
            shift = 10 * (int)(s - suffixes + 1);
            p++;
        }
        if (!*p && value > 0 && value <= INT64_MAX >> shift) {
            *size = (uint64_t)value << shift;
            return -1;
        }
    }
    return misuse("--%s '%s' is not a size; give bytes, or a number with K, M, G or T behind it",
                  name, text);
}

int choice_of(const char *text, const char *choices)
{
    const size_t length = strlen(text);
    int place = 1;

    for (const char *p = choices;; place++) {
        const size_t n = strcspn(p, "|");
        if (n == length && !memcmp(p, text, n))
            return place;
        if (!p[n])
            return 0;
        p += n + 1;
    }
}

static int parse_choice(const struct flag *flag, const char *text, int *choice)
{
    *choice = text ? choice_of(text, flag->choices) : 1;
    return *choice ? -1 : misuse("--%s '%s' is not one of %s", flag->name, text, flag->choices);
}

static int add_text(const struct flag *flag, const char *text)
{
    struct texts *const texts = flag->to;

    if (texts->count == TEXTS_MAX)
        return misuse("--%s is given more than %d times", flag->name, TEXTS_MAX);
    texts->at[texts->count++] = text;
    return -1;
}

static int take_value(const struct flag *flag, const char *text)
{
    int64_t value;

    switch (flag->kind) {
    case FLAG_YES:
        *(bool *)flag->to = true;
        return -1;
    case FLAG_TEXT:
        *(const char **)flag->to = text;
        return -1;
    case FLAG_TEXTS:
        return add_text(flag, text);
    case FLAG_COUNT:
        if (!number(text, &text, &value) || *text || value < 1 || value > COUNT_MAX)
            return misuse("--%s '%s' is not a number from 1 to %d", flag->name, optarg, COUNT_MAX);
        *(int *)flag->to = (int)value;
        return -1;
    case FLAG_NUMBER:
        if (!number(text, &text, &value) || *text)
            return misuse("--%s '%s' is not a whole number", flag->name, optarg);
        *(uint64_t *)flag->to = (uint64_t)value;
        return -1;
    case FLAG_SIZE:
        return parse_size(flag->name, text, flag->to);
    case FLAG_M:
        return parse_m(text, flag->to);
    case FLAG_CHOICE:
        return parse_choice(flag, text, flag->to);
    }
    return -1;
}

/* ---- Help ------------------------------------------------------------------------------------ */

static void print_flags(const struct flag *flags)
{
    for (; flags->name; flags++) {
        char left[64];
        if (!flags->value)
            snprintf(left, sizeof left, "--%s", flags->name);
        else if (flags->optional_value)
            snprintf(left, sizeof left, "--%s[=%s]", flags->name, flags->value);
        else
            snprintf(left, sizeof left, "--%s %s", flags->name, flags->value);
        if (strlen(left) <= 24)
            printf("  %-24s  %s\n", left, flags->help);
        else
            printf("  %s\n  %-24s  %s\n", left, "", flags->help);
    }
}

static void print_help(const struct usage *usage, const struct flag *own, const struct flag *common)
{
    printf("Usage: %s %s\n%s", command_name(), usage->arguments, usage->text);
    if (own->name) {
        printf("\nOptions:\n");
        print_flags(own);
    }
    printf("\nOptions of every verb:\n");
    print_flags(common);
}

/* ---- The command line ------------------------------------------------------------------------ */

static void log_to_stderr(void *user, enum quern_log_level level, const char *line)
{
    static const char *const words[] = {"", "error", "warning", "info", "debug"};

    (void)user;
    note("%s: %s", words[level], line);
}

/* Fills `list` with own and common flags and getopt's form of them; returns their number. */
static size_t gather(const struct flag *own, const struct flag *common, const struct flag **list,
                     struct option *forms)
{
    const struct flag *const sets[] = {own, common};
    size_t n = 0;

    for (size_t s = 0; s < 2; s++)
        for (const struct flag *f = sets[s]; f->name && n < FLAGS_MAX; f++, n++) {
            list[n] = f;
            forms[n].name = f->name;
            forms[n].has_arg = f->kind == FLAG_YES ? no_argument
                               : f->optional_value ? optional_argument
                                                   : required_argument;
            forms[n].flag = NULL;
            forms[n].val = 256 + (int)n;
        }
    memset(&forms[n], 0, sizeof forms[n]);
    return n;
}

/* After getopt_long returned '?': optopt says which of its complaints it is. */
static int wrong_option(const char *text)
{
    if (optopt >= 256)
        return misuse("option '%s' takes no value", text);
    if (optopt)
        return misuse("unknown option '-%c'; see '%s --help'", optopt, command_name());
    return misuse("unknown option '%s'; see '%s --help'", text, command_name());
}

/* Takes the target and the log's level from the environment where no flag gave them: the library
 * would, but not every verb opens a context, and some sort the log's lines themselves. */
static int from_environment(struct common *common)
{
    static const char levels[] = "error|warn|info|debug";
    const char *const text = secure_getenv("QUERN_LOG");
    struct quern_options *const o = &common->library;

    if (!common->target)
        common->target = secure_getenv("QUERN_TARGET");
    if (common->target && !common->target[0])
        common->target = NULL;
    o->target = common->target;
    if (!o->log_level)
        o->log_level =
            text && *text ? (enum quern_log_level)choice_of(text, levels) : QUERN_LOG_WARN;
    return o->log_level ? EXIT_OK : misuse("QUERN_LOG '%s' is not one of %s", text, levels);
}

int options_parse(struct common *common, int argc, char **argv, const struct usage *usage,
                  const struct flag *own)
{
    struct quern_options *o = &common->library;
    bool help = false, unverified = false;
    const struct flag shared[] = {
        {"target", FLAG_TEXT, &common->target, "GFX",
         "the GPU, e.g. gfx1151 or sm_90 (QUERN_TARGET)"},
        {"device", FLAG_CHOICE, &o->device, "KIND", "auto, hip, cuda, sim or none (QUERN_DEVICE)",
         "auto|hip|sim|none|cuda"},
        {"cache-dir", FLAG_TEXT, &o->cache_dir, "DIR", "where kernels are kept (QUERN_CACHE_DIR)"},
        {"cache-mode", FLAG_CHOICE, &o->cache_mode, "MODE", "rw, ro or off (QUERN_CACHE_MODE)",
         "rw|ro|off"},
        {"cache-max-size", FLAG_SIZE, &o->cache_max_bytes, "SIZE",
         "evict beyond this size (QUERN_CACHE_MAX_SIZE)"},
        {"jit", FLAG_CHOICE, &o->jit, "MODE", "on, off, warn or error (QUERN_JIT)",
         "on|off|warn|error"},
        {"force", FLAG_TEXT, &o->force, "WORD",
         "what kernels must be like: predequant=on or predequant=off (QUERN_FORCE)"},
        {"facts", FLAG_TEXT, &o->facts, "FILE",
         "what 'quern probe' found of a GPU, to plan by (QUERN_FACTS)"},
        {"bundle-path", FLAG_TEXT, &o->bundle_path, "A:B",
         "bundles in front of the cache (QUERN_BUNDLE_PATH)"},
        {"toolchain", FLAG_CHOICE, &o->toolchain, "WHICH",
         "kernels of any compiler serve, or of exactly this one (QUERN_TOOLCHAIN)", "any|exact"},
        {"rocm-path", FLAG_TEXT, &o->rocm_path, "DIR", "where ROCm is (QUERN_ROCM_PATH)"},
        {"cuda-path", FLAG_TEXT, &o->cuda_path, "DIR", "where NVRTC is (QUERN_CUDA_PATH)"},
        {"worker", FLAG_TEXT, &o->worker_path, "FILE", "the compiler worker's executable"},
        {"jobs", FLAG_COUNT, &o->jobs, "N", "compiler processes (QUERN_JOBS)"},
        {"allow-unverified", FLAG_YES, &unverified, NULL,
         "targets that nothing here verifies may be chosen"},
        {"log", FLAG_CHOICE, &o->log_level, "LEVEL", "error, warn, info or debug (QUERN_LOG)",
         "error|warn|info|debug"},
        {"json", FLAG_YES, &common->json, NULL, "print JSON"},
        {"help", FLAG_YES, &help, NULL, "print this and exit"},
        {0},
    };
    const struct flag *list[FLAGS_MAX];
    struct option forms[FLAGS_MAX + 1];
    const char *given[FLAGS_MAX] = {NULL};
    int c;

    *common = (struct common){.library = QUERN_INIT(struct quern_options)};
    o->log = log_to_stderr;
    gather(own, shared, list, forms);
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, ":h", forms, NULL)) != -1) {
        if (c == 'h') {
            help = true;
        } else if (c == ':') {
            return misuse("option '%s' needs a value", argv[optind - 1]);
        } else if (c == '?') {
            return wrong_option(argv[optind - 1]);
        } else {
            const struct flag *const flag = list[c - 256];
            const char **const before = &given[c - 256];
            /* neither value may win silently */
            if (flag->kind != FLAG_TEXTS && *before && optarg && strcmp(*before, optarg))
                return misuse("--%s is given twice, as '%s' and as '%s'; give it once", flag->name,
                              *before, optarg);
            *before = optarg;
            const int status = take_value(flag, optarg);
            if (status >= 0)
                return status;
        }
    }
    if (help) {
        print_help(usage, own, shared);
        return finish_output();
    }
    o->allow_unverified = unverified;
    const int status = from_environment(common);
    if (status)
        return status;
    common->arguments = argv + optind;
    common->argument_count = argc - optind;
    return -1;
}

/* ---- What verbs ask of their arguments ------------------------------------------------------- */

int problem_from_text(const char *given, struct quern_problem *problem, char *text)
{
    *problem = (struct quern_problem)QUERN_INIT(struct quern_problem);
    quern_status status = quern_problem_parse(given, problem);
    if (!status)
        status = quern_problem_text(problem, text, QUERN_TEXT_MAX);
    return status ? fail_status(status, NULL) : EXIT_OK;
}

int options_action(const struct common *common, const char *choices)
{
    const char *const given = common->argument_count ? common->arguments[0] : NULL;
    const int action = given ? choice_of(given, choices) : 0;

    if (!given)
        misuse("what about it? say one of %s", choices);
    else if (!action)
        misuse("'%s' is not one of %s", given, choices);
    return action;
}

int options_first_problem(const struct common *common, struct quern_problem *problem, char *text)
{
    return common->argument_count ? problem_from_text(common->arguments[0], problem, text)
                                  : misuse("which problem? give it as one argument, e.g. \"wq=nf4 "
                                           "n=4096 k=4096 a=bf16\"");
}

int options_problem(const struct common *common, struct quern_problem *problem, char *text)
{
    if (common->argument_count > 1)
        return misuse("one argument too many: '%s'; the problem is one argument, in quotes",
                      common->arguments[1]);
    return options_first_problem(common, problem, text);
}

int options_target(const struct common *common, struct quern_target_info *info)
{
    if (!common->target)
        return misuse("for which GPU? give --target, e.g. --target gfx1151");
    *info = (struct quern_target_info)QUERN_INIT(struct quern_target_info);
    const quern_status status = quern_target_find(common->target, info);
    char about[64];
    snprintf(about, sizeof about, "--target %s", common->target);
    return status ? fail_status(status, about) : EXIT_OK;
}

bool is_simulated(const struct quern_target_info *info)
{
    return !strcmp(info->verified_by, "sim");
}

int options_one_m(const struct m_set *set, int64_t *m)
{
    if (!set->count)
        return misuse("for how many rows? give --m, e.g. --m 1");
    if (set->count > 1 || set->ranges[0].lo != set->ranges[0].hi)
        return misuse("--m takes one number of rows here");
    *m = set->ranges[0].lo;
    return EXIT_OK;
}

static int open_context(const struct common *common, enum quern_device_kind device,
                        const char *target, quern_ctx **ctx)
{
    struct quern_options o = common->library;

    o.device = device;
    o.target = target;
    const quern_status status = quern_open(&o, ctx);
    return status ? fail_status(status, NULL) : EXIT_OK;
}

int open_sim_context(const struct common *common, const char *target, quern_ctx **ctx)
{
    return open_context(common, QUERN_DEVICE_SIM, target, ctx);
}

int open_making_context(const struct common *common, const char *target, quern_ctx **ctx)
{
    return open_context(common, QUERN_DEVICE_NONE, target, ctx);
}

int open_storing_context(const struct common *common, const char *target, quern_ctx **ctx)
{
    const char *const mode = secure_getenv("QUERN_CACHE_MODE");
    struct common own = *common;

    if (!own.library.cache_mode && !(mode && *mode))
        own.library.cache_mode = QUERN_CACHE_RW;
    return open_making_context(&own, target, ctx);
}
