/* SPDX-License-Identifier: MIT */
/* Makes the layers of a model, split over GPUs if asked (model.h). */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

/* ---- Places ---------------------------------------------------------------------------------- */

/* Names of the layer at each place, and of the parts that it is fused of. */
static const struct {
    const char *name, *parts[3];
} places[PLACES] = {
    [PLACE_QKV] = {"qkv", {"q", "k", "v"}},
    [PLACE_Q] = {"q", {NULL}},
    [PLACE_QKV_A] = {"qkv_a", {"q_a", "kv_a"}},
    [PLACE_KV_A] = {"kv_a", {NULL}},
    [PLACE_Q_B] = {"q_b", {NULL}},
    [PLACE_KV_B] = {"kv_b", {NULL}},
    [PLACE_O] = {"o", {NULL}},
    [PLACE_GATE_UP] = {"gate_up", {"gate", "up"}},
    [PLACE_DOWN] = {"down", {NULL}},
    [PLACE_EXPERT_GATE_UP] = {"expert gate_up", {"expert gate", "expert up"}},
    [PLACE_EXPERT_DOWN] = {"expert down", {NULL}},
    [PLACE_SHARED_GATE_UP] = {"shared gate_up", {"shared gate", "shared up"}},
    [PLACE_SHARED_DOWN] = {"shared down", {NULL}},
    [PLACE_HEAD] = {"lm_head", {NULL}},
};

static bool is_gate_up(enum model_place place)
{
    return place == PLACE_GATE_UP || place == PLACE_EXPERT_GATE_UP || place == PLACE_SHARED_GATE_UP;
}

bool model_has(const struct model *m, enum model_place place)
{
    switch (place) {
    case PLACE_QKV:
        return !m->latent.kv;
    case PLACE_Q:
    case PLACE_KV_A:
        return m->latent.kv && !m->latent.q;
    case PLACE_QKV_A:
    case PLACE_Q_B:
        return m->latent.kv && m->latent.q;
    case PLACE_KV_B:
        return m->latent.kv;
    case PLACE_GATE_UP:
    case PLACE_DOWN:
        return m->intermediate;
    case PLACE_EXPERT_GATE_UP:
    case PLACE_EXPERT_DOWN:
        return m->expert_intermediate;
    case PLACE_SHARED_GATE_UP:
    case PLACE_SHARED_DOWN:
        return m->shared_intermediate;
    default:
        return true;
    }
}

int model_parts(const struct model *m, enum model_place place)
{
    int count = 0;

    if (is_gate_up(place) && m->ungated)
        return 1;
    while (count < 3 && places[place].parts[count])
        count++;
    return count ? count : 1;
}

int model_add_use(struct model *m, const char *path, struct model_use use)
{
    for (size_t i = 0; i < m->use_count; i++)
        if (m->uses[i].place == use.place && m->uses[i].part == use.part &&
            m->uses[i].scheme == use.scheme && m->uses[i].apart == use.apart)
            return EXIT_OK;
    if (m->use_count == MODEL_USES_MAX)
        return fail("%s: quantization_config: layers are quantised in more than %d ways", path,
                    MODEL_USES_MAX);
    m->uses[m->use_count++] = use;
    return EXIT_OK;
}

int model_add_scheme(struct model *m, const char *path, const struct model_scheme *scheme,
                     size_t *index)
{
    size_t i = 0;

    while (i < m->scheme_count && memcmp(&m->schemes[i], scheme, sizeof *scheme) != 0)
        i++;
    if (i == MODEL_SCHEMES_MAX)
        return fail("%s: quantization_config: more than %d ways to quantise a layer", path,
                    MODEL_SCHEMES_MAX - 1);
    if (i == m->scheme_count)
        m->schemes[m->scheme_count++] = *scheme;
    *index = i;
    return EXIT_OK;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Whether so many GPUs share `value` evenly; if not, why not. */
static bool splits(const struct model *m, const char *what, int64_t value, int tp, char reason[160])
{
    if (value % tp)
        snprintf(reason, 160, "--tp %d does not divide the %lld %s of %.63s", tp, (long long)value,
                 what, m->name);
    return value % tp == 0;
}

/* The vocabulary that is split: a multiple of 64, to which vLLM and others pad it
 * (vllm/model_executor/layers/vocab_parallel_embedding.py). */
static int64_t padded_vocabulary(const struct model *m)
{
    return (m->vocabulary + 63) / 64 * 64;
}

static bool splits_whole(const struct model *m, int tp, char reason[160])
{
    const bool repeated = m->kv_heads && tp % m->kv_heads == 0; /* each head on several GPUs */

    return splits(m, "heads", m->heads, tp, reason) &&
           splits(m, "intermediate", m->intermediate, tp, reason) &&
           splits(m, "expert intermediate", m->expert_intermediate, tp, reason) &&
           splits(m, "shared expert intermediate", m->shared_intermediate, tp, reason) &&
           splits(m, "vocabulary (padded)", padded_vocabulary(m), tp, reason) &&
           (m->latent.kv || repeated || splits(m, "kv_heads", m->kv_heads, tp, reason));
}

/* Shapes the layer gate_up, or one of its parts, gate or up, of that width. */
static void shape_gate_up(const struct model *m, int part, int64_t intermediate, bool bias,
                          struct model_layer *layer)
{
    const int parts = part < 0 && !m->ungated ? 2 : 1;

    *layer = (struct model_layer){.n = parts * intermediate, .k = m->hidden, .bias = bias};
}

static void shape_attention(const struct model *m, struct model_use use, int tp,
                            struct model_layer *layer)
{
    const int64_t heads = m->heads / tp, kv_heads = m->kv_heads >= tp ? m->kv_heads / tp : 1;
    const struct model_latent *const l = &m->latent;
    const int64_t widths[] = {heads * m->head_dim, kv_heads * m->head_dim, kv_heads * m->head_dim};

    *layer = (struct model_layer){.k = m->hidden, .bias = m->qkv_bias};
    if (use.place == PLACE_QKV)
        layer->n = use.part < 0 ? widths[0] + widths[1] + widths[2] : widths[use.part];
    else if (use.place == PLACE_QKV_A)
        layer->n = (use.part == 1 ? 0 : l->q) + (use.part == 0 ? 0 : l->kv + l->rope);
    else if (use.place == PLACE_KV_A)
        layer->n = l->kv + l->rope;
    else if (use.place == PLACE_O)
        *layer = (struct model_layer){
            .n = m->hidden, .k = heads * (l->kv ? l->value : m->head_dim), .bias = m->o_bias};
    else if (use.place == PLACE_KV_B)
        *layer = (struct model_layer){.n = heads * (l->nope + l->value), .k = l->kv};
    else /* q, whose K is the hidden size where q has no latent */
        *layer =
            (struct model_layer){.n = heads * (l->nope + l->rope), .k = l->q ? l->q : m->hidden};
}

/* Says of a layer of routed experts how op=moe does them all. What gate_up is made of a token is
 * made for each of its experts, and is a row of down's A. */
static void shape_experts(const struct model *m, struct model_use use, struct model_layer *layer)
{
    const bool down = use.place == PLACE_EXPERT_DOWN;
    const bool pairs = !down && use.part < 0 && !m->ungated;

    layer->experts = m->mixture.experts;
    layer->top_k = down ? 1 : m->mixture.top_k;
    layer->rows = down ? m->mixture.top_k : 1;
    if (pairs) {
        layer->act = m->mixture.act;
        layer->glu = m->mixture.glu;
    }
    layer->single = !m->mixture.top_k ? "the model does not say how many experts a token goes to"
                    : use.apart       ? "a layer's experts are not quantised alike"
                                      : NULL;
}

/* Shapes one GPU's share of a layer. */
static void shape_layer(const struct model *m, struct model_use use, int tp,
                        struct model_layer *layer)
{
    switch (use.place) {
    case PLACE_GATE_UP:
        shape_gate_up(m, use.part, m->intermediate / tp, m->mlp_bias, layer);
        break;
    case PLACE_EXPERT_GATE_UP:
        shape_gate_up(m, use.part, m->expert_intermediate / tp, m->expert_bias, layer);
        break;
    case PLACE_SHARED_GATE_UP:
        shape_gate_up(m, use.part, m->shared_intermediate / tp, m->mlp_bias, layer);
        break;
    case PLACE_DOWN:
        *layer =
            (struct model_layer){.n = m->hidden, .k = m->intermediate / tp, .bias = m->mlp_bias};
        break;
    case PLACE_EXPERT_DOWN:
        *layer = (struct model_layer){
            .n = m->hidden, .k = m->expert_intermediate / tp, .bias = m->expert_bias};
        break;
    case PLACE_SHARED_DOWN:
        *layer = (struct model_layer){
            .n = m->hidden, .k = m->shared_intermediate / tp, .bias = m->mlp_bias};
        break;
    case PLACE_HEAD:
        *layer = (struct model_layer){.n = tp == 1 ? m->vocabulary : padded_vocabulary(m) / tp,
                                      .k = m->hidden,
                                      .bias = m->head_bias};
        break;
    default:
        shape_attention(m, use, tp, layer);
    }
    layer->scheme = use.scheme;
    layer->tp = tp;
    layer->act = layer->glu = "";
    if (use.place == PLACE_EXPERT_GATE_UP || use.place == PLACE_EXPERT_DOWN)
        shape_experts(m, use, layer);
    const bool up = m->ungated && is_gate_up(use.place);
    const char *const *const parts = places[use.place].parts;
    const char *const name = up              ? parts[1]
                             : use.part >= 0 ? parts[use.part]
                                             : places[use.place].name;
    if (tp == 1)
        snprintf(layer->names, sizeof layer->names, "%s", name);
    else
        snprintf(layer->names, sizeof layer->names, "%s/tp%d", name, tp);
}

/* Adds a layer, or its name to a layer that is the same but for that. */
static void add_layer(const struct model_layer *added, struct model_layer *layers, size_t *count)
{
    for (size_t i = 0; i < *count; i++) {
        struct model_layer *const l = &layers[i];
        if (l->reason[0] || l->n != added->n || l->k != added->k || l->bias != added->bias ||
            l->scheme != added->scheme || l->experts != added->experts ||
            l->top_k != added->top_k || l->rows != added->rows || l->act != added->act ||
            l->single != added->single)
            continue;
        if (strlen(l->names) + strlen(added->names) + 3 < sizeof l->names) {
            strcat(l->names, ", ");
            strcat(l->names, added->names);
        }
        return;
    }
    layers[(*count)++] = *added;
}

void model_layers(const struct model *model, const int *tp, size_t tp_count,
                  struct model_layer layers[MODEL_PROBLEMS_MAX], size_t *count)
{
    struct model_use uses[MODEL_USES_MAX];
    size_t use_count = model->use_count;

    memcpy(uses, model->uses, sizeof uses);
    for (int p = 0; !model->use_count && p < PLACES; p++)
        if (model_has(model, p))
            uses[use_count++] = (struct model_use){.place = p, .part = -1};
    *count = 0;
    for (size_t i = 0; i < tp_count; i++) {
        struct model_layer none = {.tp = tp[i]};
        if (!splits_whole(model, tp[i], none.reason)) {
            snprintf(none.names, sizeof none.names, "all/tp%d", tp[i]);
            layers[(*count)++] = none;
            continue;
        }
        for (size_t u = 0; u < use_count; u++) {
            struct model_layer layer;
            shape_layer(model, uses[u], tp[i], &layer);
            add_layer(&layer, layers, count);
        }
    }
}
