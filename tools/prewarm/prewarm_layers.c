/* SPDX-License-Identifier: MIT */
/* What quern prewarm is to make: the layers of a model, a manifest's, or problems given as text. */
#include "files/files.h"
#include "model/manifest.h"
#include "prewarm/prewarm_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Problem words that stand as options beside --model: --wq nf4 is wq=nf4 in every layer. */
static const char *const words[] = {"wq", "group", "scale",  "zero",  "a",
                                    "c",  "bias",  "layout", "round", "exact"};
#define WORD_COUNT PREWARM_WORDS
enum { WQ, A = 4, C, BIAS, LAYOUT }; /* places of some; those before A are of quantised weights */
_Static_assert(WORD_COUNT == sizeof words / sizeof words[0], "a value for each");

/* Adds a problem, or the layers' names to one that is the same. With an error it stays for the
 * report. */
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

/* Adds a layer's problem. One that cannot be made is kept for the report. */
static int add_layer(struct prewarm *w, const struct model_layer *layer,
                     const char *const options[WORD_COUNT])
{
    const char *const reason = w->model.schemes[layer->scheme].reason;
    struct prewarm_problem *const p = &w->problems[w->count];
    char text[1024];

    if (reason[0]) {
        *p = (struct prewarm_problem){.target = w->target_count - 1, .status = QUERN_E_DECLINED};
        snprintf(p->layers, sizeof p->layers, "%s", layer->names);
        snprintf(p->text, sizeof p->text, "n=%lld k=%lld", (long long)layer->n,
                 (long long)layer->k);
        snprintf(p->error, sizeof p->error, "%s", reason);
        w->count++;
        return EXIT_OK;
    }
    const int status = layer_text(&w->model, layer, options, text);
    if (status)
        return status;
    add_problem(w, layer->names, text);
    p->plain = is_plain(&w->model, layer);
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
    return misuse("layer %s of %s: %s", failed->layers, w->model.name, failed->error);
}

static int add_layers(struct prewarm *w, const char *path, const int *tp, size_t tp_count,
                      const char *options[WORD_COUNT])
{
    struct model *const m = &w->model;
    struct model_layer *layers;
    size_t count = 0;

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
    layers = malloc(MODEL_PROBLEMS_MAX * sizeof *layers);
    if (!layers)
        return fail("out of memory");
    status = model_layers(m, tp, tp_count, layers, &count);
    w->problems = calloc(count + 1, sizeof *w->problems);
    if (!status && !w->problems)
        status = fail("out of memory");
    for (size_t i = 0; !status && i < count; i++)
        status = add_layer(w, &layers[i], options);
    free(layers);
    return status ? status : check_any(w);
}

static int add_model(struct prewarm *w, const char *path, const char *tp_text,
                     const char *options[WORD_COUNT])
{
    int tp[MODEL_TP_MAX] = {1};
    size_t tp_count = 1;

    const int status = tp_text ? model_parse_tp(tp_text, tp, &tp_count) : EXIT_OK;
    return status ? status : add_layers(w, path, tp, tp_count, options);
}

/* ---- Others ---------------------------------------------------------------------------------- */

/* Adds a problem given as text, which must be right, or the request made no sense. */
static int add_text(struct prewarm *w, const char *text)
{
    const quern_status status = add_problem(w, "", text);

    return status ? fail_status(status, NULL) : EXIT_OK;
}

static int add_texts(struct prewarm *w)
{
    int status = EXIT_OK;

    w->problems = calloc((size_t)w->common.argument_count, sizeof *w->problems);
    if (!w->problems)
        return fail("out of memory");
    for (int i = 0; !status && i < w->common.argument_count; i++)
        status = add_text(w, w->common.arguments[i]);
    return status;
}

/* Adds a target, to which the problems belong that are added from now on. */
static int add_target(struct prewarm *w, const struct common *common)
{
    struct prewarm_target *const t = &w->targets[w->target_count];

    if (w->target_count == PREWARM_TARGETS_MAX)
        return fail("more than %d targets at once", PREWARM_TARGETS_MAX);
    const int status = options_target(common, &t->info);
    if (!status) {
        snprintf(t->text, sizeof t->text, "%s", common->target);
        w->target_count++;
    }
    return status;
}

/* Adds one layer of a manifest, if it is for the target that was given, or if none was. */
static int add_line(struct prewarm *w, const char *path, const struct manifest_line *line,
                    bool m_given)
{
    const bool any = !w->common.target;
    const size_t before = w->count;
    int status = EXIT_OK;

    if (any && !line->target[0])
        return fail("%s has a layer without a target; give --target: %s", path, line->text);
    const char *target = w->target_count ? w->targets[w->target_count - 1].info.name : "";
    if (any && strcmp(line->target, target)) { /* lines are sorted by target */
        status = add_target(w, &(struct common){.target = line->target});
        target = line->target;
    }
    if (status || (line->target[0] && strcmp(line->target, target)))
        return status;
    status = add_text(w, line->text);
    if (!status && w->count > before && line->m.count && !m_given)
        w->problems[before].m = line->m;
    return status;
}

/* The manifest's layers; --m, if given, stands for what the manifest says of rows. */
static int add_manifest(struct prewarm *w, const char *path, bool m_given)
{
    struct manifest manifest;
    int status = manifest_read(path, &manifest);

    if (status)
        return status;
    w->problems = calloc(manifest.count ? manifest.count : 1, sizeof *w->problems);
    if (!w->problems)
        status = fail("out of memory");
    for (size_t i = 0; !status && i < manifest.count; i++)
        status = add_line(w, path, &manifest.lines[i], m_given);
    if (!status && !w->count)
        status = w->target_count ? fail("%s has no layer for %s", path, w->targets[0].info.name)
                                 : fail("%s has no layers", path);
    manifest_free(&manifest);
    return status;
}

/* --shard I/N: every Nth problem, from the Ith. */
static int take_shard(struct prewarm *w, const char *text)
{
    unsigned long part, parts;
    int used = 0;
    size_t kept = 0;

    if (sscanf(text, "%5lu/%5lu%n", &part, &parts, &used) != 2 || text[used] || !part ||
        part > parts || strchr("+- ", text[0]))
        return misuse("--shard '%s' is not a part of a whole; give e.g. 2/8, from 1/8 to 8/8",
                      text);
    for (size_t i = part - 1; i < w->count; i += parts)
        w->problems[kept++] = w->problems[i];
    w->count = kept;
    return EXIT_OK;
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
    const char *const model_path = from->model, *const tp = from->tp;
    const char **const values = from->values;
    const char *manifest = from->manifest;
    const char *const given = w->common.argument_count ? w->common.arguments[0] : NULL;
    const bool m_given = w->m_set.count != 0;
    int status;

    if (!manifest && !model_path && !given)
        manifest = secure_getenv("QUERN_MANIFEST");
    if (manifest && !manifest[0])
        manifest = NULL;
    if (manifest && (model_path || given))
        return misuse("give a manifest, a model or problems, not two of them: --manifest %s and %s",
                      manifest, model_path ? model_path : given);

    if (model_path && given)
        return misuse("give a model or problems, not both: --model %s and '%s'", model_path, given);
    if (!model_path && !manifest && !given)
        return misuse("what to make? give --model FILE, --manifest FILE, or problems such as "
                      "\"wq=nf4 n=4096 k=4096 a=bf16\"");
    for (size_t i = 0; i < WORD_COUNT; i++)
        if (!model_path && values[i])
            return misuse("--%s goes with --model; in a problem, write %s=%s", words[i], words[i],
                          values[i]);
    if (!model_path && tp)
        return misuse("--tp goes with --model: it splits the layers of a model");
    if (!w->m_set.count)
        w->m_set = (struct m_set){.count = 1, .ranges = {{1, 16384}}};
    /* without --target, a manifest's lines say their targets */
    if ((!manifest || w->common.target) && (status = add_target(w, &w->common)))
        return status;
    status = model_path ? add_model(w, model_path, tp, values)
             : manifest ? add_manifest(w, manifest, m_given)
                        : add_texts(w);
    if (!status && from->shard)
        status = take_shard(w, from->shard);
    divide(w);
    return status;
}
