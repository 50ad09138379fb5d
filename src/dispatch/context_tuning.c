/* SPDX-License-Identifier: MIT */
/* The tuning table of a context: which file it is read from, and when a bad file is an error. */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <errno.h>
#include <string.h>

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

/* Reads a file; *text stays null when there is none and it is not `needed`. */
static quern_status read_text(const char *path, bool needed, char **text, size_t *size)
{
    *text = NULL;
    const int error = os_read_file(path, TUNING_BYTES_MAX, text, size);
    if (error == ENOENT && !needed)
        return QUERN_OK;
    FAIL_IF(error, QUERN_E_IO, "tuning table %s: %s", path,
            error == EFBIG    ? "larger than 1 MiB"
            : error == EINVAL ? "not a regular file"
                              : strerror(error));
    return QUERN_OK;
}

/* Reads a file's tuning table; *out stays null when there is no file and it is not `needed`. */
static quern_status read_table(const char *path, bool needed, const struct target *target,
                               struct tuning **out)
{
    char *text;
    size_t size;

    TRY(read_text(path, needed, &text, &size));
    const quern_status status = text ? parse(text, size, path, target, out) : QUERN_OK;
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

static quern_status path_of(const char *directory, const struct target *target, struct str *path)
{
    str_addf(path, "%s/tuning/%s.tune", directory, target->name);
    FAIL_IF(path->failed, QUERN_E_MEMORY, "out of memory for a path");
    return QUERN_OK;
}

quern_status tuning_load(const struct settings *s, const struct bundles *bundles,
                         const char *directory, const struct target *target, struct log *log,
                         struct tuning **out)
{
    struct str path = {0};

    *out = NULL;
    if (s->tuning)
        return read_table(s->tuning, true, target, out);
    if (from_bundles(bundles, target, log, out) || !*directory)
        return QUERN_OK;
    quern_status status = path_of(directory, target, &path);
    if (status == QUERN_OK && (status = read_table(str_text(&path), false, target, out)))
        log_line(log, QUERN_LOG_WARN, "%s; the model chooses", quern_last_error()->message);
    str_free(&path);
    return QUERN_OK;
}

/* ---- For a bundle ---------------------------------------------------------------------------- */

/* Appends the file's table if it is for the target. */
static quern_status collect_one(const char *path, bool needed, const struct target *target,
                                struct str *out)
{
    struct tuning *table = NULL;
    size_t size, bytes;
    char *text;

    TRY(read_text(path, needed, &text, &size));
    const char *const found = text ? tuning_find(text, size, target, &bytes) : NULL;
    const quern_status status = found ? parse(text, size, path, target, &table) : QUERN_OK;
    if (status == QUERN_OK && found) {
        str_add(out, text);
        str_add(out, size && text[size - 1] == '\n' ? "" : "\n");
    }
    tuning_free(table);
    os.free(text);
    return status;
}

quern_status tuning_collect(const struct settings *s, const char *directory, const char *processor,
                            struct str *out)
{
    quern_status status = QUERN_OK;

    for (size_t i = 0; status == QUERN_OK && i < target_count(); i++) {
        const struct target *const target = target_at(i);
        struct str path = {0};
        if (processor && strcmp(processor, target->name) != 0)
            continue;
        if (s->tuning)
            status = collect_one(s->tuning, true, target, out);
        else if (*directory && (status = path_of(directory, target, &path)) == QUERN_OK)
            status = collect_one(str_text(&path), false, target, out);
        str_free(&path);
    }
    FAIL_IF(status == QUERN_OK && out->failed, QUERN_E_MEMORY, "out of memory for tuning tables");
    return status;
}
