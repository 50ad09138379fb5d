/* SPDX-License-Identifier: MIT */
/*
 * Puts the experts of a mixture together: all matrices …experts.N.LEAF of a layer, or the one
 * tensor that has them all, become one layer of op=moe, as docs/formats.md says under "Experts".
 */
#include "checkpoint/checkpoint.h"
#include "files/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of the matrices of an expert. */
static const struct leaf {
    const char *name;
    const char *up; /* of a gate: the matrix that goes with it */
    bool down;
    bool both; /* gate and up are in it */
} leaves[] = {
    {"gate_proj", "up_proj", false, false},
    {"up_proj", NULL, false, false},
    {"down_proj", NULL, true, false},
    {"w1", "w3", false, false},
    {"w3", NULL, false, false},
    {"w2", NULL, true, false},
    {"gate_up_proj", NULL, false, true},
};

static const struct leaf *leaf_of(const char *name)
{
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++)
        if (!strcmp(leaves[i].name, name))
            return &leaves[i];
    return NULL;
}

/* The matrices of that name of all experts of a layer. */
struct group {
    const struct leaf *leaf;
    size_t prefix;    /* the length of what is before the expert's number, "experts." with it */
    size_t first;     /* the first of them, a place in the list of layers */
    int64_t seen;     /* how many there are */
    int64_t most;     /* the largest number of an expert */
    bool alike;       /* all have the same problem */
    bool joined;      /* it is an up that goes with a gate */
    struct group *up; /* of a gate: what is joined to it */
};

struct stacking {
    struct checkpoint_layer *layers;
    const struct model_mixture *mixture;
    json_t *places; /* of groups, by what is before and behind the number */
    struct group *groups;
    size_t group_count;
    size_t *group_of; /* 1 + the group of each layer; 0: none */
};

/* Splits "…experts.12.w1" at the number; false if a name is not of that form. */
static bool split_name(const char *name, size_t *prefix, int64_t *expert, const char **leaf)
{
    static const char mark[] = "experts.";
    const char *const at = strstr(name, mark);

    if (!at || (at > name && at[-1] != '.'))
        return false;
    const char *const number = at + strlen(mark);
    const size_t digits = strspn(number, "0123456789");
    if (!digits || digits > 5 || number[digits] != '.' || (digits > 1 && *number == '0'))
        return false;
    *prefix = (size_t)(number - name);
    *expert = strtoll(number, NULL, 10);
    *leaf = number + digits + 1;
    return leaf_of(*leaf) && !leaf_of(*leaf)->both;
}

/* The group of what is before and behind the number. Where there is none it is made if `make` says
 * so; null: it is not, or out of memory. */
static struct group *find_group(struct stacking *s, const char *name, size_t prefix,
                                const char *leaf, bool make)
{
    char key[sizeof s->layers->name + 32];

    snprintf(key, sizeof key, "%.*s#.%s", (int)prefix, name, leaf);
    const json_t *const place = json_object_get(s->places, key);
    if (place)
        return &s->groups[json_integer_value(place)];
    if (!make ||
        json_object_set_new_nocheck(s->places, key, json_integer((json_int_t)s->group_count)))
        return NULL;
    struct group *const g = &s->groups[s->group_count++];
    *g = (struct group){.leaf = leaf_of(leaf), .prefix = prefix, .alike = true};
    return g;
}

/* Counts a layer to its group. An expert whose columns are in an order of their own is unlike the
 * others: one launch has one order of A's. */
static int add_to_group(struct stacking *s, size_t index)
{
    const struct checkpoint_layer *const l = &s->layers[index];
    size_t prefix;
    int64_t expert;
    const char *leaf;

    if (!split_name(l->name, &prefix, &expert, &leaf))
        return EXIT_OK;
    struct group *const g = find_group(s, l->name, prefix, leaf, true);
    if (!g)
        return fail("out of memory");
    if (!g->seen++)
        g->first = index;
    if (expert > g->most)
        g->most = expert;
    g->alike &= l->problem[0] && !l->act_order && !strcmp(l->problem, s->layers[g->first].problem);
    s->group_of[index] = (size_t)(g - s->groups) + 1;
    return EXIT_OK;
}

/* Whether all experts of the model are in a group, and alike. */
static bool is_whole(const struct stacking *s, const struct group *g)
{
    return g->alike && g->seen == s->mixture->experts && g->most + 1 == g->seen;
}

/* Whether gate's and up's tensors, one behind the other, are those of one matrix: not where a
 * matrix has a scale or an offset of its own, nor where a block of 128 rows would be of both. */
static bool can_join(const struct quern_problem *p)
{
    return p->wq == QUERN_W_NONE || p->scale == QUERN_SCALE_F32 || p->scale == QUERN_SCALE_F16 ||
           p->scale == QUERN_SCALE_BF16 || p->scale == QUERN_SCALE_E8M0 ||
           (p->scale == QUERN_SCALE_BLOCK128 && p->n % 128 == 0);
}

static void join(struct stacking *s, struct group *gate)
{
    const struct checkpoint_layer *const l = &s->layers[gate->first];
    struct quern_problem p = QUERN_INIT(struct quern_problem);
    struct group *const up =
        gate->leaf->up ? find_group(s, l->name, gate->prefix, gate->leaf->up, false) : NULL;

    if (!up || !is_whole(s, gate) || !is_whole(s, up) ||
        strcmp(l->problem, s->layers[up->first].problem) != 0 ||
        quern_problem_parse(l->problem, &p) || !can_join(&p))
        return;
    gate->up = up;
    up->joined = true;
}

/* Makes a layer's problem, of one expert, that of all. Where gate and up were joined, the gates are
 * the first half of the rows. */
static void set_moe(struct checkpoint_layer *l, const struct model_mixture *x,
                    const struct leaf *leaf, bool joined)
{
    struct quern_problem p = QUERN_INIT(struct quern_problem), words = p;
    char text[QUERN_TEXT_MAX];
    const bool pairs = (joined || leaf->both) && x->act[0];

    snprintf(text, sizeof text, "op=moe wq=none a=bf16 n=2 k=2 experts=%lld top_k=%lld%s%s%s%s",
             (long long)x->experts, (long long)(leaf->down ? 1 : x->top_k), pairs ? " act=" : "",
             pairs ? x->act : "", pairs ? " glu=" : "",
             !pairs   ? ""
             : joined ? "halves"
                      : x->glu);
    quern_status status = quern_problem_parse(l->problem, &p);
    if (!status)
        status = quern_problem_parse(text, &words);
    p.op = words.op;
    p.experts = words.experts;
    p.top_k = words.top_k;
    p.act = words.act;
    p.glu = words.glu;
    p.n *= joined ? 2 : 1;
    if (!status)
        status = quern_problem_text(&p, text, sizeof text);
    if (!status) {
        snprintf(l->problem, sizeof l->problem, "%s", text);
        return;
    }
    l->problem[0] = 0;
    snprintf(l->reason, sizeof l->reason, "%s", quern_last_error()->message);
}

/* Makes a tensor that has all experts their layer, and leaves any other as it is. */
static void stack_tensor(struct checkpoint_layer *l, const struct model_mixture *x)
{
    const char *const dot = strrchr(l->name, '.');
    const struct leaf *const leaf = dot ? leaf_of(dot + 1) : NULL;

    if (l->experts >= 2 && l->experts == x->experts && leaf && l->problem[0])
        set_moe(l, x, leaf, false);
}

/* Makes the layer of a whole group out of that of its first expert: "…experts.w2", or with gate and
 * up joined "…experts.w1+w3". */
static void stack_group(const struct stacking *s, const struct group *g, struct checkpoint_layer *l)
{
    char name[sizeof l->name];

    snprintf(name, sizeof name, "%.*s%s%s%s", (int)g->prefix, l->name, g->leaf->name,
             g->up ? "+" : "", g->up ? g->up->leaf->name : "");
    memcpy(l->name, name, sizeof name);
    l->experts = s->mixture->experts;
    set_moe(l, s->mixture, g->leaf, g->up != NULL);
}

/* Writes the list anew, with one layer in place of a group. Each is written no further behind than
 * it was read. */
static void stack_all(const struct stacking *s, size_t *count)
{
    size_t kept = 0;

    for (size_t i = 0; i < *count; i++) {
        const struct group *const g = s->group_of[i] ? &s->groups[s->group_of[i] - 1] : NULL;
        const bool whole = g && is_whole(s, g);
        if (whole && (g->joined || g->first != i))
            continue;
        struct checkpoint_layer *const l = &s->layers[kept++];
        if (l != &s->layers[i])
            *l = s->layers[i];
        if (whole)
            stack_group(s, g, l);
        else if (!g)
            stack_tensor(l, s->mixture);
    }
    *count = kept;
}

bool checkpoint_has_experts(const struct checkpoint_layer *layers, size_t count)
{
    size_t prefix;
    int64_t expert;
    const char *leaf;

    for (size_t i = 0; i < count; i++)
        if (layers[i].experts > 1 || split_name(layers[i].name, &prefix, &expert, &leaf))
            return true;
    return false;
}

int checkpoint_stack(struct checkpoint_layer *layers, size_t *count,
                     const struct model_mixture *mixture, size_t *left)
{
    struct stacking s = {.layers = layers, .mixture = mixture};
    int status = EXIT_OK;

    *left = 0;
    s.places = json_object();
    s.groups = calloc(*count + 1, sizeof *s.groups);
    s.group_of = calloc(*count + 1, sizeof *s.group_of);
    if (!s.places || !s.groups || !s.group_of)
        status = fail("out of memory");
    for (size_t i = 0; !status && i < *count; i++)
        status = add_to_group(&s, i);
    for (size_t i = 0; !status && i < s.group_count; i++)
        join(&s, &s.groups[i]);
    for (size_t i = 0; !status && i < s.group_count; i++)
        *left += !is_whole(&s, &s.groups[i]);
    if (!status)
        stack_all(&s, count);
    json_decref(s.places);
    free(s.groups);
    free(s.group_of);
    return status;
}
