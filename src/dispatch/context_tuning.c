/* SPDX-License-Identifier: MIT */
/* The tables of a context, of shapes and of facts: which file each is read from, and when a bad
 * file is an error. */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "plan/text_table.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Room for what messages call a table: the path that the settings name, or its file's name. */
#define TABLE_NAME_MAX PATH_MAX

/* What the kinds of tables differ in. */
struct kind {
    const char *word; /* in a table's first line */
    const char *suffix;
    const char *option;  /* the variable that names a table */
    size_t most;         /* bytes */
    const char *instead; /* what is done where a table is not sound */
};
static const struct kind tuning_kind = {"tuning", "tune", "QUERN_TUNING", TUNING_BYTES_MAX,
                                        "the model chooses"};
static const struct kind facts_kind = {"facts", "facts", "QUERN_FACTS", FACTS_BYTES_MAX,
                                       "all is assumed"};

/* A table that is looked for: `out` is of its kind. */
struct wanted {
    const struct kind *kind;
    const char *named; /* the file that the settings name, or null */
    const struct target *target;
    void *out;
};

static struct wanted want(const struct kind *kind, const struct settings *s,
                          const struct target *target, void *out)
{
    return (struct wanted){kind, kind == &facts_kind ? s->facts : s->tuning, target, out};
}

static void name_file(const struct wanted *w, char name[TABLE_NAME_MAX])
{
    snprintf(name, TABLE_NAME_MAX, "%s.%s", w->target->name, w->kind->suffix);
}

/* Parses a table; an error's message begins with `whose`. */
static quern_status parse(const struct wanted *w, const char *text, size_t size, const char *whose)
{
    struct error_record why;

    const quern_status status = w->kind == &facts_kind
                                    ? facts_parse(text, size, w->target, w->out)
                                    : tuning_parse(text, size, w->target, w->out);
    if (status == QUERN_OK)
        return QUERN_OK;
    error_save(&why);
    FAIL(status, "%s table %s: %s", w->kind->word, whose, why.message);
}

/* The text of the table that the settings name, or of the one in the cache; *text stays null when
 * none is named and there is none. `name` becomes what messages call it. */
static quern_status read_text(const struct wanted *w, const struct store *store,
                              char name[TABLE_NAME_MAX], char **text, size_t *size)
{
    char what[64];

    *text = NULL;
    *size = 0;
    name_file(w, name);
    if (!w->named)
        return store ? store_read_tuning(store, name, w->kind->most, text, size) : QUERN_OK;
    snprintf(name, TABLE_NAME_MAX, "%s", w->named);
    snprintf(what, sizeof what, "the %s table (%s)", w->kind->word, w->kind->option);
    return store_read_named(what, w->named, w->kind->most, text, size);
}

/* w->out stays as it is when no table is named and there is none. */
static quern_status read_table(const struct wanted *w, const struct store *store)
{
    char *text, name[TABLE_NAME_MAX];
    size_t size;

    TRY(read_text(w, store, name, &text, &size));
    const quern_status status = text ? parse(w, text, size, name) : QUERN_OK;
    os.free(text);
    return status;
}

/* The table of the first bundle that has one for the target; false when none has. */
static bool from_bundles(const struct wanted *w, const struct bundles *bundles, struct log *log)
{
    for (size_t i = 0; i < bundles->count; i++) {
        struct bundle_info info;
        size_t bytes;
        bundle_info(bundles->files[i], &info);
        const char *const text =
            table_find(w->kind->word, info.tuning, info.tuning_bytes, w->target, &bytes);
        if (!text)
            continue;
        if (parse(w, text, bytes, "of a bundle") != QUERN_OK)
            log_line(log, QUERN_LOG_WARN, "%s; %s", quern_last_error()->message, w->kind->instead);
        return true;
    }
    return false;
}

static quern_status load(const struct wanted *w, const struct settings *s,
                         const struct bundles *bundles, const struct store *store, struct log *log)
{
    if (s->cache_mode == QUERN_CACHE_OFF) /* by the host's word, or as the directory is unfit */
        store = NULL;
    if (w->named)
        return read_table(w, NULL);
    if (!from_bundles(w, bundles, log) && read_table(w, store) != QUERN_OK)
        log_line(log, QUERN_LOG_WARN, "%s; %s", quern_last_error()->message, w->kind->instead);
    return QUERN_OK;
}

quern_status tuning_load(const struct settings *s, const struct bundles *bundles,
                         const struct store *store, const struct target *target, struct log *log,
                         struct tuning **out)
{
    const struct wanted w = want(&tuning_kind, s, target, out);

    *out = NULL;
    return load(&w, s, bundles, store, log);
}

quern_status facts_load(const struct settings *s, const struct bundles *bundles,
                        const struct store *store, const struct target *target, struct log *log,
                        struct facts *out)
{
    const struct wanted w = want(&facts_kind, s, target, out);

    *out = (struct facts){0};
    return load(&w, s, bundles, store, log);
}

/* ---- For a bundle ---------------------------------------------------------------------------- */

/* Appends the target's table of a kind that is in force. */
static quern_status collect_one(const struct kind *kind, const struct settings *s,
                                const struct store *store, const struct target *target,
                                struct str *out)
{
    struct tuning *tuning = NULL;
    struct facts facts;
    char *text, name[TABLE_NAME_MAX];
    size_t size, bytes;
    const struct wanted w =
        want(kind, s, target, kind == &facts_kind ? (void *)&facts : (void *)&tuning);

    TRY(read_text(&w, store, name, &text, &size));
    const char *const found = text ? table_find(kind->word, text, size, target, &bytes) : NULL;
    const quern_status status = found ? parse(&w, text, size, name) : QUERN_OK;
    if (status == QUERN_OK && found) {
        str_add_bytes(out, text, size);
        str_add(out, size && text[size - 1] == '\n' ? "" : "\n");
    }
    tuning_free(tuning);
    os.free(text);
    return status;
}

quern_status tuning_collect(const struct settings *s, const struct store *store,
                            const char *processor, struct str *out)
{
    static const struct kind *const kinds[] = {&facts_kind, &tuning_kind};
    quern_status status = QUERN_OK;

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; status == QUERN_OK && i < target_count(); i++)
            if (!processor || !strcmp(processor, target_at(i)->name))
                status = collect_one(kinds[k], s, store, target_at(i), out);
    FAIL_IF(status == QUERN_OK && out->failed, QUERN_E_MEMORY, "out of memory for tables");
    return status;
}

/* ---- For `quern tune`, `quern probe` and imports --------------------------------------------- */

/* What is wanted of a kind and a target that a caller names. */
static quern_status want_named(enum quern_table kind, const char *target, struct wanted *w)
{
    struct target_id id;

    FAIL_IF(kind != QUERN_TABLE_TUNING && kind != QUERN_TABLE_FACTS, QUERN_E_ARGUMENT,
            "table %d is none of enum quern_table", (int)kind);
    TRY(target_parse(target, &id));
    *w = (struct wanted){.kind = kind == QUERN_TABLE_FACTS ? &facts_kind : &tuning_kind,
                         .target = id.target};
    return QUERN_OK;
}

quern_status quern_table_check(enum quern_table kind, const char *target, const char *text,
                               size_t size)
{
    struct tuning *tuning = NULL;
    struct facts facts;
    struct wanted w;

    FAIL_IF(!text, QUERN_E_ARGUMENT, "text is null");
    TRY(want_named(kind, target, &w));
    if (kind == QUERN_TABLE_FACTS)
        return facts_parse(text, size, w.target, &facts);
    TRY(tuning_parse(text, size, w.target, &tuning));
    tuning_free(tuning);
    return QUERN_OK;
}

quern_status quern_table_read(quern_ctx *ctx, enum quern_table kind, const char *target,
                              char **text, size_t *size)
{
    char name[TABLE_NAME_MAX];
    struct wanted w;

    FAIL_IF(!ctx || !target || !text || !size, QUERN_E_ARGUMENT, "a null argument");
    TRY(want_named(kind, target, &w));
    return read_text(&w, ctx->store, name, text, size);
}

quern_status quern_table_write(quern_ctx *ctx, enum quern_table kind, const char *target,
                               const char *text, size_t size)
{
    char name[TABLE_NAME_MAX];
    struct wanted w;

    FAIL_IF(!ctx || !target || !text, QUERN_E_ARGUMENT, "a null argument");
    TRY(want_named(kind, target, &w));
    TRY(quern_table_check(kind, target, text, size));
    name_file(&w, name);
    return store_write_tuning(ctx->store, name, text, size);
}

const char *quern_bundle_table(const char *tuning, enum quern_table kind, const char *target,
                               size_t *bytes)
{
    const struct target *const t = target ? target_named(target) : NULL;
    const char *const word = (kind == QUERN_TABLE_FACTS ? &facts_kind : &tuning_kind)->word;
    size_t none;

    if (tuning && t)
        return table_find(word, tuning, strlen(tuning), t, bytes ? bytes : &none);
    if (bytes)
        *bytes = 0;
    return NULL;
}
