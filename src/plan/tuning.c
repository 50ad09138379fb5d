/* SPDX-License-Identifier: MIT */
/* Reading a tuning table and looking a shape up in it: tuning.h. */
#include "plan/tuning.h"

#include "base/os.h"
#include "plan/text_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    char problem[QUERN_TEXT_MAX]; /* canonical */
    int m;                        /* the most rows of A of the kernel's slice */
    int line;
    char shape[PLAN_SHAPE_MAX];
};

struct tuning {
    struct hash128 hash;
    size_t count, room;
    struct entry *entries;
};

/* Whether a text is words as plan_shape writes them: name=number, with one space between. */
static bool is_shape(const char *text)
{
    const char *at = text;

    if (strlen(text) >= PLAN_SHAPE_MAX)
        return false;
    do {
        const size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        const size_t number = at[name] == '=' ? strspn(at + name + 1, "0123456789") : 0;
        if (!name || !number)
            return false;
        at += name + 1 + number;
    } while (*at++ == ' ');
    return !at[-1];
}

static quern_status parse_entry(char *line, int number, struct entry *e)
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem), normal;
    char *rest = line;
    const char *const text = table_field(&rest), *const m = table_field(&rest);
    const char *const shape = table_field(&rest), *const measured = table_field(&rest);

    FAIL_IF(!measured || rest, QUERN_E_ARGUMENT,
            "line %d has %s than four fields; expected PROBLEM | m=M | SHAPE | us=TIME", number,
            rest ? "more" : "fewer");
    if (quern_problem_parse(text, &problem) != QUERN_OK ||
        problem_normalise(&problem, &normal) != QUERN_OK) {
        struct error_record why;
        error_save(&why);
        FAIL(QUERN_E_ARGUMENT, "line %d: %s", number, why.message);
    }
    TRY(quern_problem_text(&normal, e->problem, sizeof e->problem));
    const long rows = !strncmp(m, "m=", 2) && table_number(m + 2) ? strtol(m + 2, NULL, 10) : 0;
    FAIL_IF(rows < 1 || rows > PLAN_M_MAX, QUERN_E_ARGUMENT, "line %d: %s; expected m=1 to m=%d",
            number, m, PLAN_M_MAX);
    FAIL_IF(!is_shape(shape), QUERN_E_ARGUMENT,
            "line %d: '%s' is no shape; expected words such as rows=4", number, shape);
    FAIL_IF(strncmp(measured, "us=", 3) != 0 || !table_number(measured + 3), QUERN_E_ARGUMENT,
            "line %d: '%s' is no time; expected us= and microseconds", number, measured);
    e->m = (int)rows;
    e->line = number;
    memcpy(e->shape, shape, strlen(shape) + 1);
    return QUERN_OK;
}

static quern_status add(struct tuning *t, const struct entry *e)
{
    if (t->count == t->room) {
        const size_t room = t->room ? 2 * t->room : 16;
        struct entry *const larger = os.realloc(t->entries, room * sizeof *larger);
        FAIL_IF(!larger, QUERN_E_MEMORY, "out of memory for a tuning table");
        t->entries = larger;
        t->room = room;
    }
    t->entries[t->count++] = *e;
    return QUERN_OK;
}

static int by_problem(const void *a, const void *b)
{
    const struct entry *const x = a, *const y = b;
    const int order = strcmp(x->problem, y->problem);

    return order ? order : x->m - y->m;
}

/* Sorts the entries for tuning_shape, which searches by halves; refuses two for the same problem
 * and rows. */
static quern_status sort(struct tuning *t)
{
    if (t->count)
        qsort(t->entries, t->count, sizeof *t->entries, by_problem);
    for (size_t i = 1; i < t->count; i++) {
        const int x = t->entries[i - 1].line, y = t->entries[i].line;
        FAIL_IF(!by_problem(&t->entries[i - 1], &t->entries[i]), QUERN_E_ARGUMENT,
                "line %d repeats the problem and rows of line %d", x > y ? x : y, x > y ? y : x);
    }
    return QUERN_OK;
}

static quern_status read_entry(void *user, char *line, int number)
{
    struct entry e;

    TRY(parse_entry(line, number, &e));
    return add(user, &e);
}

quern_status tuning_parse(const char *text, size_t size, const struct target *target,
                          struct tuning **out)
{
    struct tuning *const t = os.calloc(1, sizeof *t);

    FAIL_IF(!t, QUERN_E_MEMORY, "out of memory for a table");
    quern_status status = table_read("tuning", text, size, TUNING_BYTES_MAX, target, read_entry, t);
    if (status == QUERN_OK)
        status = sort(t);
    if (status == QUERN_OK)
        t->hash = hash128_of(text, size);
    if (status == QUERN_OK)
        *out = t;
    else
        tuning_free(t);
    return status;
}

void tuning_free(struct tuning *t)
{
    if (t)
        os.free(t->entries);
    os.free(t);
}

const char *tuning_shape(const struct tuning *t, const struct plan *p)
{
    struct entry wanted = {.m = p->m_tile};

    if (!t || !t->count ||
        quern_problem_text(&p->problem, wanted.problem, sizeof wanted.problem) != QUERN_OK)
        return NULL;
    const struct entry *const found =
        bsearch(&wanted, t->entries, t->count, sizeof *t->entries, by_problem);
    return found ? found->shape : NULL;
}

struct hash128 tuning_hash(const struct tuning *t)
{
    return t->hash;
}
