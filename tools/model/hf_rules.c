/* SPDX-License-Identifier: MIT */
/* Keeps the rules of a quantization_config and applies them to every module (hf_rules.h). */
#include "model/hf_rules.h"
#include "files/json_file.h"
#include "model/name_pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most steps of comparing names with patterns: two seconds' worth, many times what the largest
 * published models take. */
#define STEPS_MAX (UINT64_C(1) << 27)
/* The most experts in all layers together; the largest models have some twenty thousand. */
#define EXPERTS_MAX (INT64_C(1) << 18)

int hf_rules_start(struct hf_rules *r)
{
    r->steps = STEPS_MAX;
    r->names = json_object();
    return r->names ? EXIT_OK : fail("out of memory");
}

void hf_rules_free(struct hf_rules *r)
{
    for (size_t i = 0; i < r->count; i++)
        name_pattern_free(r->list[i].pattern);
    free(r->list);
    json_decref(r->names);
    json_decref(r->split);
}

/* ---- Rules ----------------------------------------------------------------------------------- */

void hf_rules_not_heeded(const struct hf_rules *r, const char *key, const json_t *value,
                         const char *why)
{
    char shown[JSON_SHOWN_BYTES];

    note("%s: quantization_config: '%s' has %s, which is not heeded: %s", r->path, key,
         json_shown(value, shown), why);
}

/* A shell's pattern as a regular expression; null if it is too long or not understood. */
static struct name_pattern *compile_glob(const char *glob, char why[NAME_PATTERN_WHY_BYTES])
{
    char text[1024];
    size_t n = 0;

    for (; *glob && n + 4 < sizeof text; glob++) {
        if (strchr(".\\+()|^$", *glob))
            text[n++] = '\\';
        if (*glob == '*' || *glob == '?')
            text[n++] = '.';
        if (*glob != '?')
            text[n++] = *glob;
    }
    text[n++] = '$';
    text[n] = 0;
    snprintf(why, NAME_PATTERN_WHY_BYTES, "too many characters");
    return *glob ? NULL : name_pattern_compile(text, why);
}

int hf_rules_add(struct hf_rules *r, const char *key, const char *text, const char *name,
                 enum hf_how how, size_t scheme)
{
    struct hf_rule rule = {.how = how, .key = key, .text = text, .name = name, .scheme = scheme};
    char why[NAME_PATTERN_WHY_BYTES];

    if (how == HF_GLOB) {
        rule.how = HF_PATTERN;
        rule.pattern = compile_glob(name, why);
    } else if (how == HF_TARGET) {
        rule.how = strncmp(name, "re:", 3) ? HF_NAME : HF_PATTERN;
        rule.name += rule.how == HF_PATTERN ? 3 : 0;
    } else if (how == HF_WORDS && strpbrk(name, "*?+[(|^$\\")) {
        rule.how = HF_PATTERN;
    }
    if (rule.how == HF_PATTERN && how != HF_GLOB)
        rule.pattern = name_pattern_compile(rule.name, why);
    if (rule.how == HF_PATTERN && !rule.pattern) {
        json_t *const value = json_string(text);
        char said[sizeof why + 16];
        snprintf(said, sizeof said, "the pattern: %s", why);
        hf_rules_not_heeded(r, key, value, said);
        json_decref(value);
        return EXIT_OK;
    }
    if (r->count == r->room) {
        const size_t room = 2 * r->room + 16;
        struct hf_rule *const grown = realloc(r->list, room * sizeof *grown);
        if (!grown) {
            name_pattern_free(rule.pattern);
            return fail("out of memory");
        }
        r->list = grown;
        r->room = room;
    }
    if (rule.how == HF_NAME && !json_object_get(r->names, name) &&
        json_object_set_new_nocheck(r->names, name, json_integer((json_int_t)r->count)))
        return fail("out of memory");
    r->list[r->count++] = rule;
    return EXIT_OK;
}

/* Adds the rules of a list of modules that are not quantised. */
int hf_rules_add_list(struct hf_rules *r, const char *key, enum hf_how how)
{
    const json_t *const list = json_object_get(r->q, key), *entry;
    size_t i;

    if (list && !json_is_null(list) && !json_is_array(list))
        hf_rules_not_heeded(r, key, list, "it is no list of modules");
    json_array_foreach(list, i, entry)
    {
        const char *const text = json_string_value(entry);
        int status = EXIT_OK;
        if (!text || !text[0])
            hf_rules_not_heeded(r, key, entry, "it is no name of a module");
        else
            status = hf_rules_add(r, key, text, text, how, MODEL_PLAIN);
        if (status)
            return status;
    }
    return EXIT_OK;
}

/* Whether `name` has those words at its beginning or end, or has that one word. */
static bool has_words(const char *name, const char *words)
{
    const size_t length = strlen(words);

    for (const char *at = name; (at = strstr(at, words)); at++) {
        const bool begins = at == name, ends = !at[length];
        if ((begins || at[-1] == '.') && (ends || at[length] == '.') &&
            (begins || ends || !strchr(words, '.')))
            return true;
    }
    return false;
}

static void take_step(struct hf_rules *r)
{
    r->steps -= r->steps > 8 ? 8 : r->steps; /* takes as long as 8 steps of a regular expression */
}

static bool fits(struct hf_rules *r, const struct hf_rule *rule, const char *name)
{
    bool found;

    if (rule->how == HF_PATTERN) {
        found = name_pattern_match(rule->pattern, name, &r->steps);
    } else {
        take_step(r);
        found =
            rule->how == HF_PART ? strstr(name, rule->name) != NULL : has_words(name, rule->name);
    }
    r->slow = r->slow || r->steps ? r->slow : rule;
    return found;
}

/* The place of the first rule that is exactly this name; `before` if there is none in front of
 * that. */
static size_t find_name(const struct hf_rules *r, const char *name, size_t before)
{
    const json_t *const at = json_object_get(r->names, name);

    return at && (size_t)json_integer_value(at) < before ? (size_t)json_integer_value(at) : before;
}

static bool is_among(struct hf_rules *r, const json_t *parts, char names[][HF_NAME_BYTES],
                     size_t count)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(parts, i, entry)
    {
        const char *const text = json_string_value(entry);
        take_step(r);
        if (is_among(r, entry, names, count)) /* an entry may be a list, of blocks done together */
            return true;
        for (size_t n = 0; text && n < count; n++)
            if (strstr(names[n], text))
                return true;
    }
    return false;
}

static size_t scheme_of(struct hf_rules *r, const struct hf_module *module)
{
    char names[HF_NAMES_MAX][HF_NAME_BYTES], whole[HF_NAMES_MAX][HF_NAME_BYTES];
    const struct hf_module all = {module->place, -1, module->layer, module->expert};
    const size_t count = hf_modules_names(&r->modules, module, names);
    const bool experts = hf_modules_are_experts(module->place);
    size_t first = r->count;

    if (module->place == PLACE_HEAD ? r->plain_head
                                    : r->only && !is_among(r, r->only, names, count))
        return MODEL_PLAIN;
    hf_modules_names(&r->modules, &all, whole);
    for (size_t n = 0; n < count; n++)
        first = find_name(r, whole[n], find_name(r, names[n], first));
    for (size_t i = 0; i < first; i++)
        for (size_t n = 0; n < count; n++)
            if (r->list[i].how != HF_NAME &&
                fits(r, &r->list[i], experts && r->list[i].how == HF_PART ? whole[n] : names[n]))
                first = i;
    if (first == r->count)
        return r->fallback;
    r->list[first].used = true;
    return r->list[first].scheme;
}

/* ---- All modules ----------------------------------------------------------------------------- */

/* Schemes of the parts of one layer, or of one of its experts. */
struct part_schemes {
    size_t of[3];
};

/* Adds the use of one layer: of the whole if its parts are quantised alike, else of each part. */
static int add_layer(struct hf_rules *r, enum model_place place, const struct part_schemes *parts,
                     bool apart)
{
    const int count = model_parts(r->m, place);
    bool alike = true;
    int status = EXIT_OK;

    for (int i = 1; i < count; i++)
        alike &= parts->of[i] == parts->of[0];
    for (int i = 0; !status && i < (alike ? 1 : count); i++)
        status = model_add_use(
            r->m, r->path, (struct model_use){place, alike ? -1 : i, parts->of[i], .apart = apart});
    return status;
}

/* Adds the uses of a layer, and so of each of its experts, for which `room` has room. */
static int use_layer(struct hf_rules *r, enum model_place place, int64_t layer, int64_t experts,
                     struct part_schemes *room)
{
    const int parts = model_parts(r->m, place);
    bool apart = false;
    int status = EXIT_OK;

    for (int64_t e = 0; r->steps && (e == 0 || e < experts); e++) {
        room[e] = (struct part_schemes){{MODEL_PLAIN}};
        for (int i = 0; i < parts; i++)
            room[e].of[i] = scheme_of(r, &(struct hf_module){place, i, layer, e});
        apart |= memcmp(&room[e], &room[0], sizeof *room) != 0;
    }
    for (int64_t e = 0; !status && r->steps && (e == 0 || e < experts); e++)
        status = add_layer(r, place, &room[e], apart);
    return status;
}

static int use_place(struct hf_rules *r, enum model_place place)
{
    const int64_t experts = hf_modules_experts(&r->modules, place);
    struct part_schemes *const room = calloc((size_t)experts + 1, sizeof *room);
    int status = room ? EXIT_OK : fail("out of memory");

    for (int64_t i = 0; !status && i < r->m->layers; i++)
        if (hf_modules_at(&r->modules, place, i))
            status = use_layer(r, place, i, experts, room);
    free(room);
    return status;
}

/* Whether an entry names something that is known to be none of our layers: a part of a multimodal
 * model beside the text model, embeddings, or the router of experts. */
static bool names_others(struct hf_rules *r, const struct hf_rule *rule)
{
    static const char *const parts[] = {"vis",     "audio",   "project", "merger", "embed",
                                        "norm",    "router",  "mtp",     "conv",   "rotary",
                                        "indexer", "eh_proj", "lm_head"};
    static const char *const routers[] = {
        "model.layers.0.mlp.gate", "model.layers.0.block_sparse_moe.gate",
        "model.layers.0.mlp.shared_expert_gate", "model.language_model.layers.0.mlp.gate"};
    const size_t length = strlen(rule->text);

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(rule->text, parts[i]))
            return true;
    for (size_t i = 0; i < sizeof routers / sizeof routers[0]; i++)
        if (rule->how != HF_NAME && fits(r, rule, routers[i]))
            return true;
    return length >= 4 && !strcmp(rule->text + length - 4, "gate");
}

static void note_unused(struct hf_rules *r)
{
    const struct hf_rule *first = NULL;
    char shown[JSON_SHOWN_BYTES], more[32] = "";
    size_t count = 0;

    for (size_t i = 0; i < r->count; i++)
        if (!r->list[i].used && !names_others(r, &r->list[i])) {
            first = first ? first : &r->list[i];
            count++;
        }
    if (!first)
        return;
    if (count > 1)
        snprintf(more, sizeof more, " and %zu more", count - 1);
    json_t *const value = json_string(first->text);
    note("%s: quantization_config: '%s' has %s%s, which name%s no layer here that is not named "
         "before",
         r->path, first->key, json_shown(value, shown), more, count > 1 ? "" : "s");
    json_decref(value);
}

/* The first reason of a scheme in use, if no quantised layer has a scheme without one; else null.
 */
static const char *reason_for_all(const struct model *m)
{
    const char *reason = NULL;

    for (size_t i = 0; i < m->use_count; i++) {
        const char *const own = m->schemes[m->uses[i].scheme].reason;
        if (m->uses[i].scheme != MODEL_PLAIN && !own[0])
            return NULL;
        reason = reason || !own[0] ? reason : own;
    }
    return reason;
}

/* Fails because comparing took too many steps, whether in one pattern or in all together; the
 * message names the rule at which they ran out. */
static int too_long(const struct hf_rules *r)
{
    static const char what[] = "its lists and regular expressions take too long to compare";
    char shown[JSON_SHOWN_BYTES];

    if (!r->slow)
        return fail("%s: quantization_config: %s", r->path, what);
    json_t *const value = json_string(r->slow->text);
    const int status = fail("%s: quantization_config: %s; '%s' has %s, where the time was up",
                            r->path, what, r->slow->key, json_shown(value, shown));
    json_decref(value);
    return status;
}

int hf_rules_apply(struct hf_rules *r)
{
    int status = EXIT_OK;

    const int64_t experts = r->m->mixture.experts;

    if (experts && r->m->layers > EXPERTS_MAX / experts)
        return fail("%s: %lld layers of %lld experts; quantization_config is read for at most %lld "
                    "in all",
                    r->path, (long long)r->m->layers, (long long)experts, (long long)EXPERTS_MAX);
    for (int place = 0; !status && place < PLACES; place++)
        if (model_has(r->m, place))
            status = use_place(r, place);
    if (status)
        return status;
    if (!r->steps)
        return too_long(r);
    const char *const reason = reason_for_all(r->m);
    if (reason)
        return fail("%s: quantization_config: %s", r->path, reason);
    note_unused(r);
    return EXIT_OK;
}
