/* SPDX-License-Identifier: MIT */
/* What quern prewarm is to make: the layers of a model, a manifest's, or problems given as text. */
#include "manifest.h"
#include "prewarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Problem words that stand as options beside --model: --wq nf4 is wq=nf4 in every layer. */
static const char *const words[] = {"wq", "group", "scale",  "zero", "a",
                                    "c",  "bias",  "layout", "round"};
#define WORD_COUNT PREWARM_WORDS
enum { WQ, A = 4, C, BIAS }; /* places of some */
_Static_assert(WORD_COUNT == sizeof words / sizeof words[0], "a value for each");

static int add_problem(struct prewarm *w, const char *layers, const char *given)
{
    const size_t target = w->target_count - 1;
    struct prewarm_problem *p = &w->problems[w->count];

    *p = (struct prewarm_problem){
        .target = target, .problem = QUERN_INIT(struct quern_problem), .m = w->m_set};
    quern_status status = quern_problem_parse(given, &p->problem);
    if (!status)
        status = quern_problem_text(&p->problem, p->text, sizeof p->text);
    if (status) {
        char about[400];
        snprintf(about, sizeof about, "layer %s of %s", layers, w->model.name);
        return fail_status(status, layers[0] ? about : NULL);
    }
    snprintf(p->layers, sizeof p->layers, "%s", layers);
    for (size_t i = 0; i < w->count; i++)
        if (w->problems[i].target == target && !strcmp(w->problems[i].text, p->text))
            return EXIT_OK; /* given twice */
    w->count++;
    return EXIT_OK;
}

/* What the model's file says of its weights stands in for options that were not given. Another --wq
 * than the file's takes nothing of it but the type of the activations; fp8fnuz is what hosts make
 * of fp8 for processors that know only that. */
static void take_words(struct model *m, const char *values[WORD_COUNT])
{
    const struct model_words *const own = &m->words;
    const bool made_fnuz = values[WQ] && !strcmp(values[WQ], "fp8fnuz") && !strcmp(own->wq, "fp8");
    const bool same = !values[WQ] || !strcmp(values[WQ], own->wq) || made_fnuz;
    const bool eight = !strcmp(own->a, "fp8"); /* and c is the type that the model computes in */
    const char *const a = !eight ? own->a : !same ? own->c : made_fnuz ? "fp8fnuz" : "fp8";
    const char *const given[WORD_COUNT] = {own->wq,   own->group, own->scale,
                                           own->zero, a,          values[A] ? "" : own->c};

    for (size_t i = 0; i < WORD_COUNT; i++)
        if (!values[i] && given[i] && given[i][0] && (same || i == A))
            values[i] = given[i];
    if (!same)
        m->plain_head = m->only_experts = false;
    else if (m->plain_head)
        note("%s: lm_head is not quantised, and left out%s", m->name,
             m->only_experts ? ", as is everything but the experts" : "");
}

static int add_model(struct prewarm *w, const char *path, const char *tp_text,
                     const char *values[WORD_COUNT])
{
    struct model_layer layers[MODEL_LAYERS_MAX];
    int tp[MODEL_TP_MAX] = {1};
    size_t tp_count = 1, count = 0;

    int status = tp_text ? model_parse_tp(tp_text, tp, &tp_count) : EXIT_OK;
    if (status || (status = model_read(path, &w->model)))
        return status;
    take_words(&w->model, values);
    if ((status = model_layers(&w->model, tp, tp_count, layers, &count)))
        return status;
    w->problems = calloc(count, sizeof *w->problems);
    if (!w->problems)
        return fail("out of memory");
    for (size_t i = 0; !status && i < count; i++) {
        char text[1024];
        int n = snprintf(text, sizeof text, "n=%lld k=%lld%s", (long long)layers[i].n,
                         (long long)layers[i].k, layers[i].bias && !values[BIAS] ? " bias=1" : "");
        for (size_t j = 0; j < WORD_COUNT; j++)
            if (values[j] && n < (int)sizeof text)
                n += snprintf(text + n, sizeof text - (size_t)n, " %s=%s", words[j], values[j]);
        if (n >= (int)sizeof text)
            return misuse("the values of --wq, --group … are too long");
        status = add_problem(w, layers[i].names, text);
    }
    return status;
}

static int add_texts(struct prewarm *w, int argc, char **argv, int first)
{
    int status = EXIT_OK;

    w->problems = calloc((size_t)(argc - first), sizeof *w->problems);
    if (!w->problems)
        return fail("out of memory");
    for (int i = first; !status && i < argc; i++)
        status = add_problem(w, "", argv[i]);
    return status;
}

/* The target of the problems that are added from now on. */
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

/* One layer of a manifest, if it is of the target given, or whichever it is of when none is. */
static int add_line(struct prewarm *w, const char *path, const struct manifest_line *line,
                    bool m_given)
{
    const bool any = !w->common.target;
    const size_t before = w->count;
    int status = EXIT_OK;

    if (any && !line->target[0])
        return fail("%s has a layer without a target; give --target: %s", path, line->text);
    const char *target = w->target_count ? w->targets[w->target_count - 1].info.name : "";
    if (any && strcmp(line->target, target)) { /* lines are sorted by it */
        status = add_target(w, &(struct common){.target = line->target});
        target = line->target;
    }
    if (status || (line->target[0] && strcmp(line->target, target)))
        return status;
    status = add_problem(w, "", line->text);
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

/* Which problems are whose, once there are no more. */
static void divide(struct prewarm *w)
{
    for (size_t t = 0, i = 0; t < w->target_count; t++) {
        w->targets[t].first = i;
        while (i < w->count && w->problems[i].target == t)
            i++;
        w->targets[t].end = i;
    }
}

int prewarm_collect(struct prewarm *w, int argc, char **argv, int first,
                    struct prewarm_origin *from)
{
    const char *const model_path = from->model, *const tp = from->tp;
    const char **const values = from->values;
    const char *manifest = from->manifest;
    const bool m_given = w->m_set.count != 0;
    int status;

    if (!manifest && !model_path && first == argc)
        manifest = secure_getenv("QUERN_MANIFEST");
    if (manifest && !manifest[0])
        manifest = NULL;
    if (manifest && (model_path || first < argc))
        return misuse("give a manifest, a model or problems, not two of them: --manifest %s and %s",
                      manifest, model_path ? model_path : argv[first]);

    if (model_path && first < argc)
        return misuse("give a model or problems, not both: --model %s and '%s'", model_path,
                      argv[first]);
    if (!model_path && !manifest && first == argc)
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
    /* a manifest knows its own */
    if ((!manifest || w->common.target) && (status = add_target(w, &w->common)))
        return status;
    status = model_path ? add_model(w, model_path, tp, values)
             : manifest ? add_manifest(w, manifest, m_given)
                        : add_texts(w, argc, argv, first);
    if (!status && from->shard)
        status = take_shard(w, from->shard);
    divide(w);
    return status;
}
