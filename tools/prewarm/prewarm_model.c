/* SPDX-License-Identifier: MIT */
/* The problems of a model's layers, for quern prewarm and quern bundle check. */
#include "files/files.h"
#include "prewarm/prewarm_work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const prewarm_words[PREWARM_WORDS] = {"wq",   "group",  "scale", "zero",  "a",      "c",
                                                  "bias", "layout", "round", "exact", "kernels"};
enum { WQ, A = 4, C, BIAS, LAYOUT }; /* places of some; those before A are of quantised weights */

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

/* Writes the words that make a layer's op that of all its experts. */
static int experts_text(const struct model_layer *layer, char *text, size_t size)
{
    const bool pairs = layer->act[0];

    return snprintf(text, size, "op=moe experts=%lld top_k=%lld%s%s%s%s ",
                    (long long)layer->experts, (long long)layer->top_k, pairs ? " act=" : "",
                    layer->act, pairs ? " glu=" : "", layer->glu);
}

/* Writes the words of a layer's problem: those of options, and the file's where there is no option.
 * Layers that are not quantised do not take options about quantised weights. Of experts it is the
 * problem of one, or with `moe` of all. */
static int layer_text(const struct model *m, const struct model_layer *layer,
                      const char *const options[PREWARM_WORDS], bool moe, char text[1024])
{
    const struct model_words *const own = &m->schemes[layer->scheme].words;
    const bool made_fnuz = options[WQ] && !strcmp(options[WQ], "fp8fnuz");
    const char *const a = made_fnuz && !strcmp(own->a, "fp8") ? "fp8fnuz" : own->a;
    const char *const said[PREWARM_WORDS] = {own->wq,   own->group, own->scale,
                                             own->zero, a,          options[A] ? NULL : own->c};
    int n = moe ? experts_text(layer, text, 1024) : 0;

    n += snprintf(text + n, 1024 - (size_t)n, "n=%lld k=%lld%s", (long long)layer->n,
                  (long long)layer->k, layer->bias && !options[BIAS] ? " bias=1" : "");
    for (size_t i = 0; i < PREWARM_WORDS && n < 1024; i++) {
        const bool takes = !(is_plain(m, layer) && (i < A || i == LAYOUT)) &&
                           (i != WQ || same_words(own, options[WQ]) || !own->wq[0]);
        const char *const value = options[i] && takes ? options[i] : said[i];
        if (value && value[0])
            n += snprintf(text + n, 1024 - (size_t)n, " %s=%s", prewarm_words[i], value);
    }
    return n < 1024 ? EXIT_OK : misuse("the values of --wq, --group … are too long");
}

/* Whether every layer can be made when the model is split over `tp` GPUs. Layers that no split
 * would help do not count. */
static bool can_split(const struct model *m, const char *const options[PREWARM_WORDS], int tp)
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
            (layer_text(m, &layers[i], options, false, text) ||
             quern_problem_parse(text, &problem)))
            return false;
    }
    return true;
}

/* The split nearest to `tp` that every layer allows, of two the smaller; 0: none is near. */
static int nearest_split(const struct model *m, const char *const options[PREWARM_WORDS], int tp)
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
static void advise(const struct model *m, const char *const options[PREWARM_WORDS], int tp,
                   struct prewarm_problem *p)
{
    const size_t used = strlen(p->error);

    p->nearest_split = nearest_split(m, options, tp);
    if (p->nearest_split)
        snprintf(p->error + used, sizeof p->error - used,
                 "; the nearest split that all layers allow is --tp %d", p->nearest_split);
}

/* ---- Experts --------------------------------------------------------------------------------- */

/* The layers of a model for one target that are made as GEMMs of single experts for one reason. */
struct singles {
    char reason[512], names[512];
};
#define SINGLES_MAX 8

/* Rows of A for so many tokens as in `tokens`. The least number of tokens stands for all rows up to
 * its own, which a host's op serves too. */
static struct m_set rows_for(const struct m_set *tokens, int64_t each)
{
    struct m_set rows = *tokens;

    for (size_t i = 0; i < rows.count && each > 1; i++) {
        struct m_range *const r = &rows.ranges[i];
        r->lo = r->lo == 1 ? 1 : r->lo > INT32_MAX / each ? INT32_MAX : r->lo * each;
        r->hi = r->hi > INT32_MAX / each ? INT32_MAX : r->hi * each;
    }
    return rows;
}

/* Whether the last target has kernels for so many rows of a problem; if not, `reason` is why. */
static bool has_kernels(const struct prewarm *w, const char *text, const struct m_set *rows,
                        char reason[512])
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    quern_status status = quern_problem_parse(text, &problem);
    unsigned cost;

    for (size_t i = 0; !status && i < rows->count; i++)
        status = quern_compile_estimate(w->targets[w->target_count - 1].info.name, &problem,
                                        rows->ranges[i].lo, rows->ranges[i].hi, &cost);
    if (status)
        snprintf(reason, 512, "%.511s", quern_last_error()->message);
    return !status;
}

static void keep_single(struct singles singles[SINGLES_MAX], const char *reason, const char *names)
{
    size_t i = 0;

    while (i + 1 < SINGLES_MAX && singles[i].reason[0] && strcmp(singles[i].reason, reason) != 0)
        i++;
    const size_t used = strlen(singles[i].names);
    if (ends_with(singles[i].names, used, names)) /* it is made in two formats */
        return;
    snprintf(singles[i].reason, sizeof singles[i].reason, "%s", reason);
    snprintf(singles[i].names + used, sizeof singles[i].names - used, "%s%s", used ? ", " : "",
             names);
}

static void note_singles(const struct prewarm *w, const struct model *m,
                         const struct singles singles[SINGLES_MAX])
{
    for (size_t i = 0; i < SINGLES_MAX && singles[i].reason[0]; i++)
        note("%s for %s: %s: made as a GEMM of one expert, which a host launches for each, as no "
             "launch of op=moe does all: %s",
             m->name, w->targets[w->target_count - 1].info.name, singles[i].names,
             singles[i].reason);
}

/* ---- A model's layers ------------------------------------------------------------------------ */

/* Writes the canonical text of a problem's words. */
static quern_status problem_from_words(const char *words, char text[QUERN_TEXT_MAX])
{
    struct quern_problem problem = QUERN_INIT(struct quern_problem);
    const quern_status status = quern_problem_parse(words, &problem);

    return status ? status : quern_problem_text(&problem, text, QUERN_TEXT_MAX);
}

/* Keeps a layer that cannot be made, with the reason, for the report. */
static struct prewarm_problem *keep_impossible(struct prewarm *w, const char *names,
                                               const char *text, const char *reason)
{
    struct prewarm_problem *const p = &w->problems[w->count++];

    *p = (struct prewarm_problem){.target = w->target_count - 1, .status = QUERN_E_DECLINED};
    snprintf(p->layers, sizeof p->layers, "%s", names);
    snprintf(p->error, sizeof p->error, "%s", reason);
    if (problem_from_words(text, p->text))
        snprintf(p->text, sizeof p->text, "%s", text);
    return p;
}

/* Chooses how a layer's experts are made, all in one launch or as single GEMMs, whose problems are
 * `moe` and `single`. Where it is single GEMMs because one launch does not go, `reason` is why;
 * else "". What goes neither way is left as op=moe, so that the report has that one's reason. */
static bool choose_moe(const struct prewarm *w, const struct model_layer *layer, const char *moe,
                       const char *single, char reason[512])
{
    const struct m_set rows = rows_for(&w->m_set, layer->rows);
    char other[512];

    reason[0] = 0;
    if (!layer->experts || w->experts == PREWARM_EXPERTS_GEMM)
        return false;
    if (layer->single)
        snprintf(reason, 512, "%s", layer->single);
    else if (has_kernels(w, moe, &rows, reason))
        return true;
    if (w->experts == PREWARM_EXPERTS_MOE || has_kernels(w, single, &w->m_set, other))
        return false;
    reason[0] = 0;
    return !layer->single;
}

/* Adds the problem of a layer that has a shape. */
static int add_shaped(struct prewarm *w, const struct model *m, const struct model_layer *layer,
                      const char *const options[PREWARM_WORDS], const char *names,
                      struct singles singles[SINGLES_MAX])
{
    char moe[1024], single[1024], reason[512];
    int status;

    if ((status = layer_text(m, layer, options, false, single)) ||
        (status = layer_text(m, layer, options, layer->experts != 0, moe)))
        return status;
    const bool all = choose_moe(w, layer, moe, single, reason);
    if (reason[0] && w->experts == PREWARM_EXPERTS_MOE) {
        keep_impossible(w, names, moe, reason)->plain = is_plain(m, layer);
        return EXIT_OK;
    }
    const struct m_set rows = rows_for(&w->m_set, all ? layer->rows : 1);
    const size_t before = w->count;
    struct prewarm_problem *const p = &w->problems[before];
    if (prewarm_add_problem(w, names, all ? moe : single, &rows) && layer->tp > 1)
        advise(m, options, layer->tp, p);
    if (w->count > before)
        p->plain = is_plain(m, layer);
    if (reason[0])
        keep_single(singles, reason, layer->names);
    return EXIT_OK;
}

/* Adds a layer's problem. One that cannot be made is kept for the report. */
static int add_layer(struct prewarm *w, const struct model *m, const struct model_layer *layer,
                     const char *const options[PREWARM_WORDS], struct singles singles[SINGLES_MAX])
{
    const char *const reason = layer->reason[0] ? layer->reason : m->schemes[layer->scheme].reason;
    char text[64], names[sizeof w->problems->layers];

    const int status = prewarm_make_room(w);
    if (status)
        return status;
    snprintf(names, sizeof names, "%s%s%s", w->model_count > 1 ? m->name : "",
             w->model_count > 1 ? " " : "", layer->names);
    if (!reason[0])
        return add_shaped(w, m, layer, options, names, singles);
    snprintf(text, sizeof text, "n=%lld k=%lld", (long long)layer->n, (long long)layer->k);
    struct prewarm_problem *const p = keep_impossible(w, names, text, reason);
    if (layer->reason[0])
        advise(m, options, layer->tp, p);
    return EXIT_OK;
}

int prewarm_check_models(const struct prewarm *w)
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

/* Whether a path looks as names on the Hugging Face Hub do: OWNER/NAME. */
static bool is_hub_name(const char *path)
{
    const char *const slash = strchr(path, '/');

    return slash && slash != path && slash[1] && !strchr(slash + 1, '/') && *path != '.' &&
           *path != '~';
}

int prewarm_read_model(const char *path, const char *const options[PREWARM_WORDS], struct model *m)
{
    char *file;

    if (is_hub_name(path) && access(path, F_OK))
        return fail("%s: %s; if it is a name of the Hugging Face Hub: nothing is downloaded, give "
                    "the directory that has its config.json",
                    path, strerror(errno));
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
    return EXIT_OK;
}

/* Gives a model the name of the directory that its config.json lies in, or of its own file. */
static void name_by_path(struct model *m, const char *path)
{
    char *const real = realpath(path, NULL);
    char *const slash = real ? strrchr(real, '/') : NULL;
    const char *name = slash ? slash + 1 : path;

    if (slash && slash != real && !strcmp(name, "config.json")) {
        *slash = 0;
        name = strrchr(real, '/') + 1;
    }
    const size_t length = strlen(name), end = length > 5 ? length - 5 : length;
    snprintf(m->name, sizeof m->name, "%.*s", (int)(strcmp(name + end, ".json") ? length : end),
             name);
    for (char *c = m->name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    free(real);
}

void prewarm_name_models(struct prewarm *w, struct model *models, size_t count,
                         const char *const *paths)
{
    bool alike[TEXTS_MAX] = {false};

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            alike[i] |= i != j && !strcmp(models[i].name, models[j].name);
    for (size_t i = 0; i < count; i++) {
        const size_t used = strlen(w->models);
        if (alike[i])
            name_by_path(&models[i], paths[i]);
        snprintf(w->models + used, sizeof w->models - used, "%s%s", used ? ", " : "",
                 models[i].name);
    }
}

int prewarm_add_model(struct prewarm *w, const struct model *m, const int *tp, size_t tp_count,
                      const char *const options[PREWARM_WORDS])
{
    struct model_layer *const layers = malloc(MODEL_PROBLEMS_MAX * sizeof *layers);
    struct singles singles[SINGLES_MAX] = {{{0}, {0}}};
    size_t count = 0;
    int status = EXIT_OK;

    if (!layers)
        return fail("out of memory");
    model_layers(m, tp, tp_count, layers, &count);
    for (size_t i = 0; !status && i < count; i++)
        status = add_layer(w, m, &layers[i], options, singles);
    free(layers);
    if (!status)
        note_singles(w, m, singles);
    return status;
}
