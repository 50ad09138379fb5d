/* SPDX-License-Identifier: MIT */
/* Reads a manifest of layers (manifest.h). */
#include "model/manifest.h"
#include "files/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANIFEST_BYTES ((size_t)64 << 20) /* a long run's record */

/* Takes "KEY=VALUE" off the front of *text, into value; false when it does not begin so. */
static bool take_word(char **text, const char *key, char *value, size_t size)
{
    const size_t k = strlen(key);

    if (strncmp(*text, key, k) || (*text)[k] != '=')
        return false;
    const size_t n = strcspn(*text + k + 1, " ");
    snprintf(value, size, "%.*s", (int)n, *text + k + 1);
    *text += k + 1 + n;
    *text += strspn(*text, " ");
    return n < size;
}

static int parse_line(const char *path, size_t number, char *text, struct manifest_line *line)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    struct quern_target_info target = QUERN_INIT(struct quern_target_info);
    char m[512] = "", about[512];

    *line = (struct manifest_line){{0}};
    snprintf(about, sizeof about, "%.400s: line %zu", path, number);
    take_word(&text, "target", line->target, sizeof line->target);
    if (take_word(&text, "m", m, sizeof m) && options_m(m, &line->m))
        return fail("%s: see above", about);
    quern_status status = line->target[0] ? quern_target_find(line->target, &target) : QUERN_OK;
    if (!status)
        status = quern_problem_parse(text, &problem);
    if (!status)
        status = quern_problem_text(&problem, line->text, sizeof line->text);
    if (!status) {
        if (target.name) /* the bare name, without features */
            snprintf(line->target, sizeof line->target, "%s", target.name);
        return EXIT_OK;
    }
    fail_status(status, about);
    return EXIT_FAILED;
}

static int by_layer(const void *a, const void *b)
{
    const struct manifest_line *const x = a, *const y = b;
    const int order = strcmp(x->target, y->target);

    return order ? order : strcmp(x->text, y->text);
}

/* Sorts the lines, and joins those of the same layer. A line that names no rows stands for all. */
static int join(const char *path, struct manifest *m)
{
    size_t kept = 0;

    if (m->count)
        qsort(m->lines, m->count, sizeof *m->lines, by_layer);
    for (size_t i = 0; i < m->count; i++) {
        struct manifest_line *const last = kept ? &m->lines[kept - 1] : NULL;
        if (!last || by_layer(last, &m->lines[i]))
            m->lines[kept++] = m->lines[i];
        else if (!last->m.count || !m->lines[i].m.count)
            last->m.count = 0;
        else if (!options_m_add(&last->m, &m->lines[i].m))
            return fail("%s: a layer has more than %d ranges of rows: %s", path, M_RANGES_MAX,
                        last->text);
    }
    m->count = kept;
    return EXIT_OK;
}

int manifest_read(const char *path, struct manifest *m)
{
    char *bytes, *next;
    size_t size, lines = 1, number = 0;
    int status = file_read(path, MANIFEST_BYTES, &bytes, &size);

    *m = (struct manifest){0};
    if (status)
        return status;
    for (const char *p = bytes; (p = strchr(p, '\n')); p++)
        lines++;
    if (strlen(bytes) != size)
        status = fail("%s has a NUL byte in it; a manifest is text", path);
    else if (!(m->lines = calloc(lines, sizeof *m->lines)))
        status = fail("out of memory");
    for (char *line = bytes; !status && line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        number++;
        line += strspn(line, " ");
        if (*line && *line != '#' &&
            !(status = parse_line(path, number, line, &m->lines[m->count])))
            m->count++;
    }
    if (!status)
        status = join(path, m);
    free(bytes);
    if (status)
        manifest_free(m);
    return status;
}

void manifest_free(struct manifest *m)
{
    free(m->lines);
    *m = (struct manifest){0};
}
