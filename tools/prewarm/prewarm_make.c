/* SPDX-License-Identifier: MIT */
/* Has the library find or make the kernels of a prewarm's problems (prewarm_work.h). */
#include "command/progress.h"
#include "prewarm/prewarm_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Layers of one target, as the library is asked for them: a problem for each of its ranges of rows.
 */
struct line {
    struct prewarm *w;
    const char *doing;
    struct quern_layer *layers;
    size_t *problems; /* of each layer: its index among the prewarm's */
    size_t count;
};

void prewarm_keep_error(struct prewarm_problem *p, quern_status status)
{
    const struct quern_error *e = quern_last_error();

    p->status = status;
    snprintf(p->error, sizeof p->error, "%s%s%s",
             e->message[0] ? e->message : quern_status_name(status), e->log[0] ? ": " : "", e->log);
}

void prewarm_out_of_memory(struct prewarm_problem *p)
{
    p->status = QUERN_E_MEMORY;
    snprintf(p->error, sizeof p->error, "out of memory");
}

/* Adds a kernel to a problem's. One that several ranges of rows need is told of once for each, in
 * any order: it counts as compiled if it was for one of them. */
static void keep_kernel(struct prewarm_problem *p, const struct quern_kernel_info *info)
{
    size_t i = 0;

    while (i < p->kernel_count && strcmp(p->kernels[i].entry_key, info->entry_key) != 0)
        i++;
    if (i < p->kernel_count) {
        struct prewarm_kernel *const known = &p->kernels[i];
        known->and_more = known->and_more || info->and_more;
        known->cached = known->cached && info->cached;
        known->compile_ms += info->compile_ms;
        return;
    }
    struct prewarm_kernel *const grown = realloc(p->kernels, (i + 1) * sizeof *grown);
    if (!grown) {
        prewarm_out_of_memory(p);
        return;
    }
    p->kernels = grown;
    p->kernel_count++;
    struct prewarm_kernel *const k = &grown[i];
    *k = (struct prewarm_kernel){.m_lo = info->m_lo,
                                 .and_more = info->and_more,
                                 .m_hi = info->m_hi,
                                 .cached = info->cached,
                                 .compile_ms = info->compile_ms,
                                 .object_bytes = info->object_bytes,
                                 .resources = info->resources};
    snprintf(k->symbol, sizeof k->symbol, "%s", info->symbol);
    memcpy(k->source_key, info->source_key, sizeof k->source_key);
    memcpy(k->entry_key, info->entry_key, sizeof k->entry_key);
}

/* The library's quern_made_fn: keeps a kernel, or the first failure of its problem. */
static int take_made(void *user, size_t layer, const struct quern_progress *progress,
                     const struct quern_kernel_info *info)
{
    const struct line *const line = user;
    struct prewarm_problem *const p = &line->w->problems[line->problems[layer]];

    if (info)
        keep_kernel(p, info);
    else if (!p->status)
        prewarm_keep_error(p, progress->status);
    if (progress->total) /* else it is of a layer that has no kernels */
        progress_draw(line->doing, progress->done, progress->total, p->layers);
    return 0;
}

static int by_rows(const void *a, const void *b)
{
    const struct prewarm_kernel *const x = a, *const y = b;

    return x->m_lo != y->m_lo ? (x->m_lo > y->m_lo) - (x->m_lo < y->m_lo)
                              : (x->m_hi > y->m_hi) - (x->m_hi < y->m_hi);
}

/* Fills in a target's layers, for which there is room. */
static void add_layers(struct line *line, const struct prewarm_target *t)
{
    for (size_t i = t->first; i < t->end; i++) {
        const struct prewarm_problem *const p = &line->w->problems[i];
        for (size_t j = 0; !p->status && j < p->m.count; j++) {
            line->problems[line->count] = i;
            line->layers[line->count++] = (struct quern_layer){
                .problem = p->problem, .m_lo = p->m.ranges[j].lo, .m_hi = p->m.ranges[j].hi};
        }
    }
}

static int make_all(struct prewarm *w, const struct prewarm_target *t, quern_ctx *ctx,
                    const char *doing)
{
    struct line line = {.w = w, .doing = doing};
    size_t room = 1; /* so that an allocation of nothing is none that failed */

    for (size_t i = t->first; i < t->end; i++)
        room += w->problems[i].m.count;
    line.layers = calloc(room, sizeof *line.layers);
    line.problems = calloc(room, sizeof *line.problems);
    int status = EXIT_OK;
    if (line.layers && line.problems) {
        add_layers(&line, t);
        progress_draw(doing, 0, line.count, t->text);
        const quern_status made = quern_make(ctx, line.layers, line.count, take_made, &line);
        progress_clear();
        status = made ? fail_status(made, NULL) : EXIT_OK;
    } else {
        status = fail("out of memory");
    }
    free(line.layers);
    free(line.problems);
    for (size_t i = t->first; i < t->end; i++)
        if (w->problems[i].kernel_count) /* else there is no array, which qsort may not be given */
            qsort(w->problems[i].kernels, w->problems[i].kernel_count,
                  sizeof *w->problems[i].kernels, by_rows);
    return status;
}

/* Takes the library's log. A full disk makes every put fail for the same reason: so warnings are
 * kept for one line at the end, and shown as they come only when more than warnings were asked for.
 */
static void keep_warning(void *user, enum quern_log_level level, const char *text)
{
    struct prewarm *w = user;

    if (level == QUERN_LOG_WARN && w->warning_count++ < WARNINGS_MAX)
        snprintf(w->warnings[w->warning_count - 1], sizeof w->warnings[0], "%s", text);
    if (level != QUERN_LOG_WARN || w->common.library.log_level > QUERN_LOG_WARN)
        note("%s", text);
}

static int make_target(struct prewarm *w, const struct prewarm_target *t, const char *doing)
{
    uint64_t counters[QUERN_STAT_COUNT];
    quern_ctx *ctx;

    int status = open_storing_context(&w->common, t->text, &ctx);
    if (status)
        return status;
    status = make_all(w, t, ctx, doing);
    quern_remote_settle(ctx);
    if (!quern_stats(ctx, counters, QUERN_STAT_COUNT))
        for (size_t i = 0; i < QUERN_STAT_COUNT; i++)
            w->counters[i] += counters[i];
    quern_close(ctx);
    return status;
}

int prewarm_make(struct prewarm *w, const char *doing)
{
    int status = EXIT_OK;

    w->common.library.log = keep_warning;
    w->common.library.log_user = w;
    for (size_t t = 0; !status && t < w->target_count; t++)
        status = make_target(w, &w->targets[t], doing);
    return status;
}
