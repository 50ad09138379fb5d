/* SPDX-License-Identifier: MIT */
/* What quern prewarm is to make: the layers of a model, a manifest's, or problems given as text. */
#include "files/files.h"
#include "model/manifest.h"
#include "prewarm/prewarm_work.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a problem is among those of the prewarm; a node of w->known. */
struct known {
    size_t target, index;
    char text[QUERN_TEXT_MAX];
};

static int compare_known(const void *a, const void *b)
{
    const struct known *const x = a, *const y = b;

    return x->target != y->target ? (x->target > y->target) - (x->target < y->target)
                                  : strcmp(x->text, y->text);
}

void prewarm_free(struct prewarm *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->problems[i].kernels);
        free(w->problems[i].runs);
    }
    tdestroy(w->known, free);
    free(w->problems);
    w->problems = NULL;
    w->known = NULL;
    w->count = 0;
}

int prewarm_make_room(struct prewarm *w)
{
    if (w->count < w->room)
        return EXIT_OK;
    const size_t room = w->room ? 2 * w->room : 16;
    struct prewarm_problem *const grown = realloc(w->problems, room * sizeof *grown);
    if (!grown)
        return fail("out of memory");
    w->problems = grown;
    w->room = room;
    return EXIT_OK;
}

/* Adds the rows of a problem that comes again; where that makes too many ranges, all between the
 * least and the most. */
static void add_rows(struct m_set *m, const struct m_set *more)
{
    const struct m_set own = *m;

    if (!options_m_add(m, more)) {
        const int64_t lo =
            own.ranges[0].lo < more->ranges[0].lo ? own.ranges[0].lo : more->ranges[0].lo;
        const int64_t hi = m_most(&own) > m_most(more) ? m_most(&own) : m_most(more);
        *m = (struct m_set){.count = 1, .ranges = {{lo, hi}}};
    }
}

/* The problem that is the same as the one behind the last; null if there is none, and the one is
 * known from now on. Without memory for that it is made twice if it comes again. */
static struct prewarm_problem *find_same(struct prewarm *w, const struct prewarm_problem *p)
{
    struct known *const known = calloc(1, sizeof *known);

    if (!known)
        return NULL;
    known->target = p->target;
    known->index = w->count;
    snprintf(known->text, sizeof known->text, "%s", p->text);
    struct known **const found = tsearch(known, &w->known, compare_known);
    if (found && *found == known)
        return NULL;
    free(known);
    return found ? &w->problems[(*found)->index] : NULL;
}

quern_status prewarm_add_problem(struct prewarm *w, const char *layers, const char *given,
                                 const struct m_set *m)
{
    const size_t target = w->target_count - 1;
    struct prewarm_problem *p = &w->problems[w->count];

    *p = (struct prewarm_problem){
        .target = target, .problem = QUERN_INIT(struct quern_problem), .m = *m};
    snprintf(p->layers, sizeof p->layers, "%s", layers);
    quern_status status = quern_problem_parse(given, &p->problem);
    if (!status)
        status = quern_problem_text(&p->problem, p->text, sizeof p->text);
    if (status) {
        prewarm_keep_error(p, status);
        snprintf(p->text, sizeof p->text, "%s", given);
    }
    struct prewarm_problem *const same = status ? NULL : find_same(w, p);
    if (!same) {
        w->count++;
        return status;
    }
    const size_t length = strlen(same->layers);
    if (length)
        snprintf(same->layers + length, sizeof same->layers - length, ", %s", layers);
    add_rows(&same->m, m);
    return QUERN_OK;
}

/* ---- Others ---------------------------------------------------------------------------------- */

/* Adds a problem given as text, which must be right, or the request made no sense. */
static int add_text(struct prewarm *w, const char *text)
{
    const int full = prewarm_make_room(w);

    if (full)
        return full;
    const quern_status status = prewarm_add_problem(w, "", text, &w->m_set);
    return status ? fail_status(status, NULL) : EXIT_OK;
}

static int add_texts(struct prewarm *w)
{
    int status = EXIT_OK;

    for (int i = 0; !status && i < w->common.argument_count; i++)
        status = add_text(w, w->common.arguments[i]);
    return status;
}

/* Adds a target, to which the problems belong that are added from now on. */
static int add_target(struct prewarm *w, const char *text)
{
    struct prewarm_target *const t = &w->targets[w->target_count];

    if (w->target_count == PREWARM_TARGETS_MAX)
        return fail("more than %d targets at once", PREWARM_TARGETS_MAX);
    const int status = options_target(&(struct common){.target = text}, &t->info);
    if (status)
        return status;
    for (size_t i = 0; i < w->target_count; i++)
        if (!strcmp(w->targets[i].info.name, t->info.name))
            return misuse("--target names %s twice", t->info.name);
    snprintf(t->text, sizeof t->text, "%s", text);
    w->target_count++;
    return EXIT_OK;
}

/* Where the problems of the last target come from. */
struct sources {
    const struct model *models;
    size_t model_count;
    int tp[MODEL_TP_MAX];
    size_t tp_count;
    const char *const *options; /* values of prewarm_words, which models share */
    const char *manifest_path;
    const struct manifest *manifest; /* null: none */
    bool m_given;
    int base; /* as in struct prewarm_origin */
};

/* Adds one layer of a manifest, with the rows that it names unless --m does. */
static int add_line(struct prewarm *w, const struct manifest_line *line, bool m_given)
{
    const size_t before = w->count;
    const int status = add_text(w, line->text);

    if (!status && w->count > before && line->m.count && !m_given)
        w->problems[before].m = line->m;
    return status;
}

struct adding {
    struct prewarm *w;
    int status;
};
static void add_base_kind(void *user, const char *text)
{
    struct adding *const a = user;

    if (!a->status)
        a->status = add_text(a->w, text);
}

/* Adds a layer of each kind that has base kernels on the last target. */
static int add_base(struct prewarm *w, bool all)
{
    const struct prewarm_target *const t = &w->targets[w->target_count - 1];
    struct adding a = {.w = w};

    const quern_status e = quern_base_problems(t->info.name, all, add_base_kind, &a);
    return e ? fail_status(e, NULL) : a.status;
}

/* Adds what there is to make for the last target. */
static int add_all(struct prewarm *w, const struct sources *s)
{
    const char *const target = w->targets[w->target_count - 1].info.name;
    int status = s->base                         ? add_base(w, s->base > 1)
                 : s->model_count || s->manifest ? EXIT_OK
                                                 : add_texts(w);

    for (size_t i = 0; !status && i < s->model_count; i++)
        status = prewarm_add_model(w, &s->models[i], s->tp, s->tp_count, s->options);
    for (size_t i = 0; !status && s->manifest && i < s->manifest->count; i++) {
        const struct manifest_line *const line = &s->manifest->lines[i];
        if (!line->target[0] || !strcmp(line->target, target))
            status = add_line(w, line, s->m_given);
    }
    return status;
}

/* Adds the problems for each target of --target, a list. */
static int add_targets(struct prewarm *w, const struct sources *s)
{
    char *const list = strdup(w->common.target), *rest = NULL;
    int status = list ? EXIT_OK : fail("out of memory");

    for (char *name = list ? strtok_r(list, ",", &rest) : NULL; name && !status;
         name = strtok_r(NULL, ",", &rest))
        if (!(status = add_target(w, name)))
            status = add_all(w, s);
    free(list);
    return status;
}

/* Adds the problems for each target that the lines of a manifest name, by which they are sorted. */
static int add_named(struct prewarm *w, const struct sources *s)
{
    int status = EXIT_OK;

    for (size_t i = 0; !status && i < s->manifest->count; i++) {
        const struct manifest_line *const line = &s->manifest->lines[i];
        if (!line->target[0])
            return fail("%s has a layer without a target; give --target: %s", s->manifest_path,
                        line->text);
        if (i && !strcmp(line->target, line[-1].target))
            continue;
        if (!(status = add_target(w, line->target)))
            status = add_all(w, s);
    }
    return status;
}

static int add_manifest(struct prewarm *w, struct sources *s, const char *path)
{
    struct manifest manifest;
    int status = manifest_read(path, &manifest);

    if (status)
        return status;
    s->manifest_path = path;
    s->manifest = &manifest;
    status = w->common.target ? add_targets(w, s) : add_named(w, s);
    if (!status && !w->count)
        status = w->common.target ? fail("%s has no layer for %s", path, w->common.target)
                                  : fail("%s has no layers", path);
    manifest_free(&manifest);
    return status;
}

/* --model, once or more often. */
static int add_models(struct prewarm *w, struct sources *s, const struct prewarm_origin *from)
{
    struct model *const models = calloc(from->models.count, sizeof *models);
    int status = from->tp ? model_parse_tp(from->tp, s->tp, &s->tp_count) : EXIT_OK;

    if (!status && !models)
        status = fail("out of memory");
    w->model_count = from->models.count;
    for (size_t i = 0; !status && i < w->model_count; i++)
        status = prewarm_read_model(from->models.at[i], s->options, &models[i]);
    s->models = models;
    s->model_count = w->model_count;
    if (!status)
        prewarm_name_models(w, models, w->model_count, from->models.at);
    if (!status)
        status = add_targets(w, s);
    free(models);
    return status ? status : prewarm_check_models(w);
}

/* Sets which problems belong to which target, when all have been added. */
static void divide(struct prewarm *w)
{
    for (size_t t = 0, i = 0; t < w->target_count; t++) {
        w->targets[t].first = i;
        while (i < w->count && w->problems[i].target == t)
            i++;
        w->targets[t].end = i;
    }
}

int prewarm_collect(struct prewarm *w, struct prewarm_origin *from)
{
    const char *const model = from->models.count ? from->models.at[0] : NULL;
    const char *const given = w->common.argument_count ? w->common.arguments[0] : NULL;
    const char *manifest = from->manifest;
    struct sources sources = {.tp = {1},
                              .tp_count = 1,
                              .options = from->values,
                              .m_given = w->m_set.count != 0,
                              .base = from->base};
    int status;

    if (from->base && (manifest || model || given))
        return misuse("--base goes alone: it makes base kernels of all layers");
    if (!manifest && !model && !given && !from->base)
        manifest = secure_getenv("QUERN_MANIFEST");
    if (manifest && !manifest[0])
        manifest = NULL;
    if (manifest && (model || given))
        return misuse("give a manifest, a model or problems, not two of them: --manifest %s and %s",
                      manifest, model ? model : given);
    if (model && given)
        return misuse("give a model or problems, not both: --model %s and '%s'", model, given);
    if (!model && !manifest && !given && !from->base)
        return misuse(
            "what to make? give --model FILE, --manifest FILE, --base, or problems such as "
            "\"wq=nf4 n=4096 k=4096 a=bf16\"");
    for (size_t i = 0; i < PREWARM_WORDS; i++)
        if (!model && from->values[i])
            return misuse("--%s goes with --model; in a problem, write %s=%s", prewarm_words[i],
                          prewarm_words[i], from->values[i]);
    if (!model && from->experts)
        return misuse("--experts goes with --model: it says how the experts of a mixture are made");
    if (!model && from->tp)
        return misuse("--tp goes with --model: it splits the layers of a model");
    w->experts = from->experts;
    if (!w->m_set.count)
        w->m_set = (struct m_set){.count = 1, .ranges = {{1, 16384}}};
    /* without --target, a manifest's lines say their targets */
    struct quern_target_info any;
    if (!manifest && !w->common.target && (status = options_target(&w->common, &any)))
        return status;
    status = model      ? add_models(w, &sources, from)
             : manifest ? add_manifest(w, &sources, manifest)
                        : add_targets(w, &sources);
    if (!status && from->shard)
        status = prewarm_take_shard(w, from->shard);
    divide(w);
    return status;
}
