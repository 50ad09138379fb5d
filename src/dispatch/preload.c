/* SPDX-License-Identifier: MIT */
/* Makes the ops of a manifest of a run (docs/formats.md), as QUERN_RECORD writes it (record.c). */
#include "dispatch/dispatch.h"

#include "base/os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANIFEST_BYTES ((size_t)64 << 20) /* the most, which is more than a long run's record has */

struct line {
    const char *path;
    size_t number;
    char target[64]; /* "" : any */
    int64_t m_max;   /* 0: not said */
    char *problem;
};

/* Takes "KEY=VALUE" off the front of *text; the value, or null when it does not begin so. */
static char *take_word(char **text, const char *key)
{
    const size_t k = strlen(key);

    if (strncmp(*text, key, k) || (*text)[k] != '=')
        return NULL;
    char *const value = *text + k + 1;
    *text = value + strcspn(value, " ");
    if (**text)
        *(*text)++ = 0;
    *text += strspn(*text, " ");
    return value;
}

/* Reads rows such as "1-8" or "1,2,16-32"; only the largest is kept, as an op serves every M below
 * it. */
static quern_status parse_rows(struct line *l, const char *text)
{
    const char *at = text;
    char *end;

    for (;; at = end + 1) {
        errno = 0;
        const long long m = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : 0;
        FAIL_IF(m < 1 || errno || (*end && *end != '-' && *end != ','), QUERN_E_PROBLEM,
                "%s: line %zu: m=%s; expected numbers from 1 on, such as 1-8 or 1,2,16", l->path,
                l->number, text);
        if (m > l->m_max)
            l->m_max = m;
        if (!*end)
            return QUERN_OK;
    }
}

static quern_status parse_line(struct line *l, char *text)
{
    char *word;

    if ((word = take_word(&text, "target"))) {
        FAIL_IF(strlen(word) >= sizeof l->target, QUERN_E_TARGET,
                "%s: line %zu: target=%.80s is no target", l->path, l->number, word);
        strcpy(l->target, word);
    }
    if ((word = take_word(&text, "m")))
        TRY(parse_rows(l, word));
    l->problem = text;
    return QUERN_OK;
}

/* Puts the line's number in front of the message of its failure. */
static quern_status at_line(const struct line *l, quern_status status)
{
    char why[1024];

    snprintf(why, sizeof why, "%s", quern_last_error()->message);
    return error_set(status, __FILE__, FAIL_AT(""), "%s: line %zu: %s", l->path, l->number, why);
}

static quern_status make_line(quern_ctx *ctx, struct line *l, char *text)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct target_id id;
    quern_op *op;

    TRY(parse_line(l, text));
    if (*l->target) {
        const quern_status status = target_parse(l->target, &id);
        if (status != QUERN_OK)
            return at_line(l, status);
        if (id.target != ctx->id.target)
            return QUERN_OK;
    }
    quern_status status = quern_problem_parse(l->problem, &problem);
    if (status == QUERN_OK)
        status = quern_op_create(ctx, &problem, l->m_max ? l->m_max : PLAN_M_MAX, &op);
    if (status != QUERN_OK)
        return at_line(l, status);
    quern_op_release(op); /* it stays in the context's table */
    return QUERN_OK;
}

/* Makes the ops of all lines, also after one that fails; *failure is that of the first. */
static quern_status make_lines(quern_ctx *ctx, const char *path, char *text,
                               struct error_record *failure)
{
    quern_status first = QUERN_OK;
    size_t number = 0;
    char *next;

    for (; text; text = next) {
        struct line line = {.path = path, .number = ++number};
        next = strchr(text, '\n');
        if (next)
            *next++ = 0;
        text += strspn(text, " ");
        if (!*text || *text == '#')
            continue;
        const quern_status status = make_line(ctx, &line, text);
        if (status != QUERN_OK && first == QUERN_OK) {
            first = status;
            error_save(failure);
        }
    }
    return first == QUERN_OK ? QUERN_OK : error_restore(failure);
}

quern_status quern_preload(quern_ctx *ctx, const char *path)
{
    char *text;
    size_t size;

    FAIL_IF(!ctx || !path, QUERN_E_ARGUMENT, "%s is null", ctx ? "path" : "ctx");
    const int error = os_read_file(path, MANIFEST_BYTES, &text, &size);
    FAIL_IF(error, error == ENOMEM ? QUERN_E_MEMORY : QUERN_E_IO,
            "the manifest %s cannot be read: %s", path, strerror(error));
    struct error_record *const failure = os.malloc(sizeof *failure);
    const quern_status status =
        failure ? make_lines(ctx, path, text, failure)
                : error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("!failure"), "out of memory");
    os.free(failure);
    os.free(text);
    return status;
}
