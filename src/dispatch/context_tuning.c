/* SPDX-License-Identifier: MIT */
/* The tuning table of a context: which file it is read from, and when a bad file is an error. */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Room for what messages call a table: the path that the settings name, or its file's name. */
#define TABLE_NAME_MAX PATH_MAX

/* Parses a tuning table; an error's message begins with `whose`. */
static quern_status parse(const char *text, size_t size, const char *whose,
                          const struct target *target, struct tuning **out)
{
    struct error_record why;

    const quern_status status = tuning_parse(text, size, target, out);
    if (status == QUERN_OK)
        return QUERN_OK;
    error_save(&why);
    FAIL(status, "tuning table %s: %s", whose, why.message);
}

/* The text of the table that the settings name, or of the one in the cache; *text stays null when
 * none is named and there is none. `name` becomes what messages call it. */
static quern_status read_text(const struct settings *s, const struct store *store,
                              const struct target *target, char name[TABLE_NAME_MAX], char **text,
                              size_t *size)
{
    *text = NULL;
    *size = 0;
    snprintf(name, TABLE_NAME_MAX, "%s.tune", target->name);
    if (!s->tuning)
        return store ? store_read_tuning(store, name, TUNING_BYTES_MAX, text, size) : QUERN_OK;
    snprintf(name, TABLE_NAME_MAX, "%s", s->tuning);
    return store_read_named(s->tuning, TUNING_BYTES_MAX, text, size);
}

/* *out stays null when no table is named and there is none. */
static quern_status read_table(const struct settings *s, const struct store *store,
                               const struct target *target, struct tuning **out)
{
    char *text, name[TABLE_NAME_MAX];
    size_t size;

    TRY(read_text(s, store, target, name, &text, &size));
    const quern_status status = text ? parse(text, size, name, target, out) : QUERN_OK;
    os.free(text);
    return status;
}

/* The table of the first bundle that has one for the target; false when none has. */
static bool from_bundles(const struct bundles *bundles, const struct target *target,
                         struct log *log, struct tuning **out)
{
    for (size_t i = 0; i < bundles->count; i++) {
        struct bundle_info info;
        size_t bytes;
        bundle_info(bundles->files[i], &info);
        const char *const text = tuning_find(info.tuning, info.tuning_bytes, target, &bytes);
        if (!text)
            continue;
        if (parse(text, bytes, "of a bundle", target, out) != QUERN_OK)
            log_line(log, QUERN_LOG_WARN, "%s; the model chooses", quern_last_error()->message);
        return true;
    }
    return false;
}

quern_status tuning_load(const struct settings *s, const struct bundles *bundles,
                         const struct store *store, const struct target *target, struct log *log,
                         struct tuning **out)
{
    *out = NULL;
    if (s->tuning)
        return read_table(s, NULL, target, out);
    if (!from_bundles(bundles, target, log, out) && read_table(s, store, target, out) != QUERN_OK)
        log_line(log, QUERN_LOG_WARN, "%s; the model chooses", quern_last_error()->message);
    return QUERN_OK;
}

/* ---- For a bundle ---------------------------------------------------------------------------- */

/* Appends the target's table that is in force. */
static quern_status collect_one(const struct settings *s, const struct store *store,
                                const struct target *target, struct str *out)
{
    char *text, name[TABLE_NAME_MAX];
    struct tuning *table = NULL;
    size_t size, bytes;

    TRY(read_text(s, store, target, name, &text, &size));
    const char *const found = text ? tuning_find(text, size, target, &bytes) : NULL;
    const quern_status status = found ? parse(text, size, name, target, &table) : QUERN_OK;
    if (status == QUERN_OK && found) {
        str_add_bytes(out, text, size);
        str_add(out, size && text[size - 1] == '\n' ? "" : "\n");
    }
    tuning_free(table);
    os.free(text);
    return status;
}

quern_status tuning_collect(const struct settings *s, const struct store *store,
                            const char *processor, struct str *out)
{
    quern_status status = QUERN_OK;

    for (size_t i = 0; status == QUERN_OK && i < target_count(); i++)
        if (!processor || !strcmp(processor, target_at(i)->name))
            status = collect_one(s, store, target_at(i), out);
    FAIL_IF(status == QUERN_OK && out->failed, QUERN_E_MEMORY, "out of memory for tuning tables");
    return status;
}

/* ---- For `quern tune` and imports ------------------------------------------------------------ */

static quern_status name_of(const char *target, char name[TABLE_NAME_MAX])
{
    struct target_id id;

    TRY(target_parse(target, &id));
    snprintf(name, TABLE_NAME_MAX, "%s.tune", id.target->name);
    return QUERN_OK;
}

quern_status quern_tuning_read(quern_ctx *ctx, const char *target, char **text, size_t *size)
{
    char name[TABLE_NAME_MAX];

    FAIL_IF(!ctx || !target || !text || !size, QUERN_E_ARGUMENT, "a null argument");
    TRY(name_of(target, name));
    return store_read_tuning(ctx->store, name, TUNING_BYTES_MAX, text, size);
}

quern_status quern_tuning_write(quern_ctx *ctx, const char *target, const char *text, size_t size)
{
    char name[TABLE_NAME_MAX];

    FAIL_IF(!ctx || !target || !text, QUERN_E_ARGUMENT, "a null argument");
    TRY(name_of(target, name));
    TRY(quern_tuning_check(target, text, size));
    return store_write_tuning(ctx->store, name, text, size);
}
