/* SPDX-License-Identifier: MIT */
/*
 * Parts of the work of quern prewarm, for the jobs of an array: each problem is in exactly one, and
 * the parts take about the same time to compile. They follow from the problems and their number
 * alone, so that every machine divides them alike, in whatever order a list has them.
 */
#include "prewarm/prewarm_work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Parts: from 1 to `of`. */
struct part {
    unsigned long number, of;
};
#define PARTS_MAX 99999

/* A decimal number without a sign, of which all of the text is, to `end`. */
static bool read_number(const char *text, char end, unsigned long *number, const char **rest)
{
    char *after;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoul(text, &after, 10);
    *rest = after;
    return !errno && *after == end && *number <= UINT32_MAX;
}

/* A number from the environment; `otherwise` where there is none. */
static int from_environment(const char *name, unsigned long otherwise, unsigned long *number)
{
    const char *const text = secure_getenv(name), *rest;

    *number = otherwise;
    if (!text || read_number(text, 0, number, &rest))
        return EXIT_OK;
    return misuse("%s is '%s'; expected a number", name, text);
}

/* The task of a Slurm array, whose numbers go up in equal steps. */
static int slurm_part(struct part *part)
{
    unsigned long id, first, last, step, count;
    int status = from_environment("SLURM_ARRAY_TASK_ID", 0, &id);

    if (!status)
        status = from_environment("SLURM_ARRAY_TASK_MIN", 0, &first);
    if (!status)
        status = from_environment("SLURM_ARRAY_TASK_MAX", 0, &last);
    if (!status)
        status = from_environment("SLURM_ARRAY_TASK_STEP", 1, &step);
    if (!status)
        status = from_environment("SLURM_ARRAY_TASK_COUNT", 0, &count);
    if (status)
        return status;
    if (!step || first > id || id > last || (id - first) % step ||
        (last - first) / step + 1 != count)
        return misuse(
            "the array's tasks do not go up in equal steps (SLURM_ARRAY_TASK_ID=%lu of %lu "
            "from %lu to %lu, step %lu), so that parts cannot be told by them; use --array 1-%lu",
            id, count, first, last, step, count ? count : 4);
    *part = (struct part){(id - first) / step + 1, count};
    return EXIT_OK;
}

/* --shard auto or auto/N: `of` is N, or 0. */
static int automatic_part(unsigned long of, struct part *part)
{
    int status = EXIT_OK;

    if (secure_getenv("SLURM_ARRAY_TASK_ID")) {
        status = slurm_part(part);
    } else if (secure_getenv("JOB_COMPLETION_INDEX")) {
        status = from_environment("JOB_COMPLETION_INDEX", 0, &part->number);
        part->number++;
        part->of = of;
        if (!status && !of)
            return misuse("--shard auto: Kubernetes does not say how many completions the Job has; "
                          "give --shard auto/N");
    } else {
        return misuse("--shard auto: there is no SLURM_ARRAY_TASK_ID and no JOB_COMPLETION_INDEX; "
                      "give --shard I/N");
    }
    if (!status && of && of != part->of)
        return misuse("--shard auto/%lu: the Slurm array has %lu tasks", of, part->of);
    return status;
}

static int read_part(const char *text, struct part *part)
{
    const char *rest = text;
    unsigned long of = 0;
    int status = EXIT_OK;

    if (!strncmp(text, "auto", 4) &&
        (!text[4] || (text[4] == '/' && read_number(text + 5, 0, &of, &rest) && of)))
        status = automatic_part(of, part);
    else if (!read_number(text, '/', &part->number, &rest) ||
             !read_number(rest + 1, 0, &part->of, &rest))
        return misuse(
            "--shard '%s' is not a part of a whole; give e.g. 2/8, from 1/8 to 8/8, or auto "
            "in a job array",
            text);
    if (!status && part->of > PARTS_MAX)
        return misuse("--shard: %lu parts are too many; at most %d are taken", part->of, PARTS_MAX);
    if (!status && (!part->number || part->number > part->of))
        return misuse("--shard: there is no part %lu of %lu", part->number, part->of);
    return status;
}

/* A problem and what it takes. */
struct share {
    const struct prewarm *w;
    size_t index;
    unsigned long cost;
};

/* The costliest first; of equals in an order that does not depend on the list's. */
static int compare(const void *one, const void *other)
{
    const struct share *const a = one, *const b = other;
    const struct prewarm_problem *const p = &a->w->problems[a->index],
                                        *const q = &b->w->problems[b->index];

    if (a->cost != b->cost)
        return a->cost < b->cost ? 1 : -1;
    const int by_target =
        strcmp(a->w->targets[p->target].info.name, b->w->targets[q->target].info.name);
    const int by_text = by_target ? by_target : strcmp(p->text, q->text);
    return by_text ? by_text : a->index < b->index ? -1 : a->index > b->index;
}

static unsigned long cost_of(const struct prewarm *w, const struct prewarm_problem *p)
{
    unsigned long sum = 1; /* a problem that cannot be made is looked at, too */
    unsigned cost;

    for (size_t i = 0; !p->status && i < p->m.count; i++)
        if (!quern_compile_estimate(w->targets[p->target].info.name, &p->problem, p->m.ranges[i].lo,
                                    p->m.ranges[i].hi, &cost))
            sum += cost;
    return sum;
}

/* The costliest problem goes to the part that has least so far, then the next. */
static void keep(struct prewarm *w, struct share *shares, unsigned long *loads, bool *mine,
                 const struct part *part)
{
    size_t kept = 0;

    qsort(shares, w->count, sizeof *shares, compare);
    for (size_t i = 0; i < w->count; i++) {
        size_t least = 0;
        for (size_t j = 1; j < part->of; j++)
            if (loads[j] < loads[least])
                least = j;
        loads[least] += shares[i].cost;
        mine[shares[i].index] = least + 1 == part->number;
    }
    for (size_t i = 0; i < w->count; i++)
        if (mine[i])
            w->problems[kept++] = w->problems[i];
    w->count = kept;
}

int prewarm_take_shard(struct prewarm *w, const char *text)
{
    struct part part = {0};
    int status = read_part(text, &part);

    if (status)
        return status;
    struct share *const shares = calloc(w->count + 1, sizeof *shares);
    unsigned long *const loads = calloc(part.of, sizeof *loads);
    bool *const mine = calloc(w->count + 1, sizeof *mine);
    for (size_t i = 0; shares && i < w->count; i++)
        shares[i] = (struct share){w, i, cost_of(w, &w->problems[i])};
    const size_t all = w->count;
    if (shares && loads && mine)
        keep(w, shares, loads, mine, &part);
    else
        status = fail("out of memory");
    if (!status && !w->count) /* else nothing would be printed, as if it had done its work */
        note("nothing to do for part %lu of %lu: there are %zu layers to divide", part.number,
             part.of, all);
    free(shares);
    free(loads);
    free(mine);
    return status;
}
