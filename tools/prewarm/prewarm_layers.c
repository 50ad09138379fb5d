/* SPDX-License-Identifier: MIT */
/* What quern prewarm is to make: the layers of a model, a manifest's, or problems given as text. */
#include "files/files.h"
#include "model/manifest.h"
#include "prewarm/prewarm_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Problem words that stand as options beside --model: --wq nf4 is wq=nf4 in every layer. */
static const char *const words[] = {"wq",   "group",  "scale", "zero",  "a",      "c",
                                    "bias", "layout", "round", "exact", "kernels"};
#define WORD_COUNT PREWARM_WORDS
enum { WQ, A = 4, C, BIAS, LAYOUT }; /* places of some; those before A are of quantised weights */
_Static_assert(WORD_COUNT == sizeof words / sizeof words[0], "a value for each");

/* Makes room for one more problem behind the last. */
static int make_room(struct prewarm *w)
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

/* Adds a problem, for which there is room, or the layers' names to one that is the same. With an
 * error it stays for the report. */
static quern_status add_problem(struct prewarm *w, const char *layers, const char *given)
{
    const size_t target = w->target_count - 1;
    struct prewarm_problem *p = &w->problems[w->count];

    *p = (struct prewarm_problem){
        .target = target, .problem = QUERN_INIT(struct quern_problem), .m = w->m_set};
    snprintf(p->layers, sizeof p->layers, "%s", layers);
    quern_status status = quern_problem_parse(given, &p->problem);
    if (!status)
        status = quern_problem_text(&p->problem, p->text, sizeof p->text);
    if (status) {
        prewarm_keep_error(p, status);
        snprintf(p->text, sizeof p->text, "%s", given);
    }
    for (size_t i = 0; !status && i < w->count; i++) {
        struct prewarm_problem *const same = &w->problems[i];
        if (same->target != target || strcmp(same->text, p->text))
            continue;
        const size_t length = strlen(same->layers);
        if (length)
            snprintf(same->layers + length, sizeof same->layers - length, ", %s", layers);
        return QUERN_OK;
    }
    w->count++;
    return status;
}

/* ---- A model's ------------------------------------------------------------------------------- */

/* Whether --wq asks for the format that the file has; if not, nothing of the file's but the type of
 * activations is used. fp8fnuz counts as fp8: hosts convert fp8 to it for processors that have only
 * that. */
static bool same_words(const struct model_words *own, const char *wq)
{
    return !wq || !strcmp(wq, own->wq) || (!strcmp(wq, "fp8fnuz") && !strcmp(own->wq, "fp8"));
}

/* Whether the file says how weights are quantised, and that is what is asked for. */
static bool takes_schemes(const struct model *m, const char *wq)
{
    const size_t first = m->scheme_count > 1; /* of two, the one that is not MODEL_PLAIN */

    for (size_t i = first; i < m->scheme_count; i++)
        if (same_words(&m->schemes[i].words, wq))
            return true;
    return false;
}

/* Whether a layer is one that a quantised model leaves as it is. */
static bool is_plain(const struct model *m, const struct model_layer *layer)
{
    return m->scheme_count > 1 && layer->scheme == MODEL_PLAIN;
}

/* Writes the words of a layer's problem: those of options, and the file's where there is no option.
 * Layers that are not quantised do not take options about quantised weights. */
static int layer_text(const struct model *m, const struct model_layer *layer,
                      const char *const options[WORD_COUNT], char text[1024])
{
    const struct model_words *const own = &m->schemes[layer->scheme].words;
    const bool made_fnuz = options[WQ] && !strcmp(options[WQ], "fp8fnuz");
    const char *const a = made_fnuz && !strcmp(own->a, "fp8") ? "fp8fnuz" : own->a;
    const char *const said[WORD_COUNT] = {own->wq,   own->group, own->scale,
                                          own->zero, a,          options[A] ? NULL : own->c};
    int n = snprintf(text, 1024, "n=%lld k=%lld%s", (long long)layer->n, (long long)layer->k,
                     layer->bias && !options[BIAS] ? " bias=1" : "");

    for (size_t i = 0; i < WORD_COUNT && n < 1024; i++) {
        const bool takes = !(is_plain(m, layer) && (i < A || i == LAYOUT)) &&
                           (i != WQ || same_words(own, options[WQ]) || !own->wq[0]);
        const char *const value = options[i] && takes ? options[i] : said[i];
        if (value && value[0])
            n += snprintf(text + n, 1024 - (size_t)n, " %s=%s", words[i], value);
    }
    return n < 1024 ? EXIT_OK : misuse("the values of --wq, --group … are too long");
}

/* Whether every layer can be made when the model is split over `tp` GPUs. Layers that no split
 * would help do not count. */
static bool can_split(const struct model *m, const char *const options[WORD_COUNT], int tp)
{
    static struct model_layer layers[MODEL_PROBLEMS_MAX];
    size_t count;

    model_layers(m, &tp, 1, layers, &count);
    for (size_t i = 0; i < count; i++) {
        struct quern_problem problem = QUERN_INIT(struct quern_problem);
        char text[1024];
        if (layers[i].reason[0])
            return false;
        if (!m->schemes[layers[i].scheme].reason[0] &&
            (layer_text(m, &layers[i], options, text) || quern_problem_parse(text, &problem)))
            return false;
    }
    return true;
}

/* The split nearest to `tp` that every layer allows, of two the smaller; 0: none is near. */
static int nearest_split(const struct model *m, const char *const options[WORD_COUNT], int tp)
{
    for (int by = 1; by < tp || by <= 64; by++) {
        if (by < tp && can_split(m, options, tp - by))
            return tp - by;
        if (can_split(m, options, tp + by))
            return tp + by;
    }
    return 0;
}

/* Of a layer that cannot be made as it is split: says which split could be. */
static void advise(const struct model *m, const char *const options[WORD_COUNT], int tp,
                   struct prewarm_problem *p)
{
    const size_t used = strlen(p->error);

    p->nearest_split = nearest_split(m, options, tp);
    if (p->nearest_split)
        snprintf(p->error + used, sizeof p->error - used,
                 "; the nearest split that all layers allow is --tp %d", p->nearest_split);
}

/* Adds a layer's problem. One that cannot be made is kept for the report. */
static int add_layer(struct prewarm *w, const struct model *m, const struct model_layer *layer,
                     const char *const options[WORD_COUNT])
{
    const char *const reason = layer->reason[0] ? layer->reason : m->schemes[layer->scheme].reason;
    char text[1024], names[sizeof w->problems->layers];

    int status = make_room(w);
    if (status)
        return status;
    struct prewarm_problem *const p = &w->problems[w->count];
    snprintf(names, sizeof names, "%s%s%s", w->model_count > 1 ? m->name : "",
             w->model_count > 1 ? " " : "", layer->names);
    if (reason[0]) {
        *p = (struct prewarm_problem){.target = w->target_count - 1, .status = QUERN_E_DECLINED};
        memcpy(p->layers, names, sizeof names);
        snprintf(p->text, sizeof p->text, "n=%lld k=%lld", (long long)layer->n,
                 (long long)layer->k);
        snprintf(p->error, sizeof p->error, "%s", reason);
        w->count++;
        if (layer->reason[0])
            advise(m, options, layer->tp, p);
        return EXIT_OK;
    }
    if ((status = layer_text(m, layer, options, text)))
        return status;
    const size_t before = w->count;
    if (add_problem(w, names, text) && layer->tp > 1)
        advise(m, options, layer->tp, p);
    if (w->count > before)
        p->plain = is_plain(m, layer);
    return EXIT_OK;
}

/* Fails at once, with the first reason, if no layer of a model can be made, or no quantised layer
 * of a quantised model: the request made no sense. */
static int check_any(const struct prewarm *w)
{
    const struct prewarm_problem *failed = NULL;
    bool quantised = false, any = false, any_quantised = false;

    for (size_t i = 0; i < w->count; i++) {
        const struct prewarm_problem *const p = &w->problems[i];
        failed = failed || !p->status ? failed : p;
        quantised |= !p->plain;
        any |= !p->status;
        any_quantised |= !p->status && !p->plain;
    }
    if (!failed || (quantised ? any_quantised : any))
        return EXIT_OK;
    return misuse("layer %s of %s: %s", failed->layers, w->models, failed->error);
}

/* Reads a model, and what of its words holds beside the options. */
static int read_model(struct prewarm *w, const char *path, const char *const options[WORD_COUNT],
                      struct model *m)
{
    const size_t used = strlen(w->models);
    char *file;

    int status = file_in(path, "config.json", &file);
    if (!status)
        status = model_read(file, m);
    free(file);
    if (status)
        return status;
    if (!takes_schemes(m, options[WQ])) {
        m->scheme_count = m->use_count = 0;
        m->schemes[0] = (struct model_scheme){{.wq = ""}, ""};
        snprintf(m->schemes[0].words.a, sizeof m->schemes[0].words.a, "%s", m->type);
    }
    if (!options[A] && !m->type[0])
        return misuse("%s does not say which type the activations are of; give --a, e.g. --a bf16",
                      path);
    if (!options[A] && m->type_assumed)
        note("%s names no torch_dtype, so activations are taken to be bf16; --a says otherwise",
             path);
    snprintf(w->models + used, sizeof w->models - used, "%s%s", used ? ", " : "", m->name);
    return EXIT_OK;
}

/* Adds the layers of a model for the last target, in each way to split it. */
static int add_layers(struct prewarm *w, const struct model *m, const int *tp, size_t tp_count,
                      const char *const options[WORD_COUNT])
{
    struct model_layer *const layers = malloc(MODEL_PROBLEMS_MAX * sizeof *layers);
    size_t count = 0;
    int status = EXIT_OK;

    if (!layers)
        return fail("out of memory");
    model_layers(m, tp, tp_count, layers, &count);
    for (size_t i = 0; !status && i < count; i++)
        status = add_layer(w, m, &layers[i], options);
    free(layers);
    return status;
}

/* ---- Others ---------------------------------------------------------------------------------- */

/* Adds a problem given as text, which must be right, or the request made no sense. */
static int add_text(struct prewarm *w, const char *text)
{
    const int full = make_room(w);

    if (full)
        return full;
    const quern_status status = add_problem(w, "", text);
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
    const char *const *options; /* values of the words that models share */
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
        status = add_layers(w, &s->models[i], s->tp, s->tp_count, s->options);
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
        status = read_model(w, from->models.at[i], s->options, &models[i]);
    s->models = models;
    s->model_count = w->model_count;
    if (!status)
        status = add_targets(w, s);
    free(models);
    return status ? status : check_any(w);
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
    for (size_t i = 0; i < WORD_COUNT; i++)
        if (!model && from->values[i])
            return misuse("--%s goes with --model; in a problem, write %s=%s", words[i], words[i],
                          from->values[i]);
    if (!model && from->tp)
        return misuse("--tp goes with --model: it splits the layers of a model");
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
