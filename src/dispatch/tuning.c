/* SPDX-License-Identifier: MIT */
/* The tuning table of a context: which file, and what of a bad one. */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <errno.h>
#include <string.h>

/* *out stays null when there is no such file and it is not `needed`. */
static quern_status read_table(const char *path, bool needed, const struct target *target,
                               struct tuning **out)
{
    struct error_record why;
    char *text = NULL;
    size_t size;

    const int error = os_read_file(path, TUNING_BYTES_MAX, &text, &size);
    if (error == ENOENT && !needed)
        return QUERN_OK;
    FAIL_IF(error, QUERN_E_IO, "tuning table %s: %s", path,
            error == EFBIG    ? "larger than 1 MiB"
            : error == EINVAL ? "not a regular file"
                              : strerror(error));
    const quern_status status = tuning_parse(text, size, target, out);
    os.free(text);
    if (status == QUERN_OK)
        return QUERN_OK;
    error_save(&why);
    FAIL(status, "tuning table %s: %s", path, why.message);
}

quern_status tuning_load(const struct settings *s, const char *directory,
                         const struct target *target, struct log *log, struct tuning **out)
{
    struct str path = {0};

    *out = NULL;
    if (s->tuning)
        return read_table(s->tuning, true, target, out);
    if (!*directory)
        return QUERN_OK;
    str_addf(&path, "%s/tuning/%s.tune", directory, target->name);
    quern_status status = path.failed ? QUERN_E_MEMORY : QUERN_OK;
    if (status == QUERN_OK && (status = read_table(str_text(&path), false, target, out)))
        log_line(log, QUERN_LOG_WARN, "%s; the model chooses", quern_last_error()->message);
    str_free(&path);
    return QUERN_OK;
}
