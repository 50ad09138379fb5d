/* SPDX-License-Identifier: MIT */
/* Reads a model's manifest, and makes its layers, split over GPUs if asked (model.h). */
#include "model/model.h"
#include "files/json_file.h"
#include "model/hf_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A manifest takes a few hundred bytes, a config.json that lists the experts which are not
 * quantised by their names some megabytes. */
#define FILE_BYTES_MAX ((size_t)16 << 20)

/* Far more than any published model has. The products of two then fit in 64 bits;
 * those that become an N or K are checked against DIMENSION_MAX. */
#define DIMENSION_MAX ((int64_t)1 << 30) /* the largest N and K that a problem may have */
#define HEADS_MAX     ((int64_t)1 << 20)
#define HEAD_DIM_MAX  ((int64_t)1 << 20)

static int read_experts(const json_t *root, const char *path, struct model *m)
{
    const json_t *experts = json_object_get(root, "experts");
    char where[512], shown[JSON_SHOWN_BYTES];

    if (!experts)
        return EXIT_OK;
    if (!json_is_object(experts))
        return fail("%s: 'experts' is %s; it must be an object with 'count' and 'intermediate'",
                    path, json_shown(experts, shown));
    snprintf(where, sizeof where, "%s: experts", path);
    const int status = json_field_int(experts, where, "count", 1, MODEL_EXPERTS_MAX, &m->experts);
    if (status)
        return status;
    return json_field_int(experts, where, "intermediate", 1, DIMENSION_MAX / 2,
                          &m->expert_intermediate);
}

static int read_sizes(const json_t *root, const char *path, struct model *m)
{
    const struct {
        const char *name;
        int64_t max, *value;
    } fields[] = {
        {"hidden", DIMENSION_MAX, &m->hidden},    {"heads", HEADS_MAX, &m->heads},
        {"kv_heads", HEADS_MAX, &m->kv_heads},    {"head_dim", HEAD_DIM_MAX, &m->head_dim},
        {"layers", MODEL_LAYERS_MAX, &m->layers}, {"vocabulary", DIMENSION_MAX, &m->vocabulary},
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const int status =
            json_field_int(root, path, fields[i].name, 1, fields[i].max, fields[i].value);
        if (status)
            return status;
    }
    if (m->experts && !json_object_get(root, "intermediate"))
        return EXIT_OK;
    return json_field_int(root, path, "intermediate", 1, DIMENSION_MAX / 2, &m->intermediate);
}

static int check_size(const char *path, const char *what, int64_t size, int64_t most)
{
    if (size <= most)
        return EXIT_OK;
    return fail("%s: %s is %lld; it must be at most %lld", path, what, (long long)size,
                (long long)most);
}

/* Checks that the products of sizes that become an N or a K are not too large. */
static int check_products(const char *path, const struct model *m)
{
    const struct model_latent *const l = &m->latent;
    int status;

    if ((status = check_size(path, "the intermediate size of shared experts",
                             m->shared_intermediate, DIMENSION_MAX / 2)))
        return status;
    if (l->kv && ((status = check_size(path, "heads (qk_nope_head_dim + qk_rope_head_dim)",
                                       m->heads * (l->nope + l->rope), DIMENSION_MAX)) ||
                  (status = check_size(path, "heads (qk_nope_head_dim + v_head_dim)",
                                       m->heads * (l->nope + l->value), DIMENSION_MAX)) ||
                  (status = check_size(path, "q_lora_rank + kv_lora_rank + qk_rope_head_dim",
                                       l->q + l->kv + l->rope, DIMENSION_MAX))))
        return status;
    if (m->kv_heads > m->heads)
        return fail("%s: 'kv_heads' is %lld; it must be at most 'heads', %lld", path,
                    (long long)m->kv_heads, (long long)m->heads);
    return check_size(path, "(heads + 2 kv_heads) head_dim",
                      (m->heads + 2 * m->kv_heads) * m->head_dim, DIMENSION_MAX);
}

static int read_manifest(const json_t *root, const char *path, struct model *m, const char **name)
{
    int64_t version;
    int status;

    if ((status = json_field_int(root, path, "quern_model", 1, 1, &version)) ||
        (status = json_field_text(root, path, "name", name)) ||
        (status = read_experts(root, path, m)) || (status = read_sizes(root, path, m)))
        return status;
    return check_products(path, m);
}

static int read_config(const json_t *root, const char *path, struct model *m, const char **name)
{
    const char *const type = json_string_value(json_object_get(root, "model_type"));
    const int status = hf_config_read(root, path, m);

    *name = type ? type : "model";
    return status ? status : check_products(path, m);
}

int model_read(const char *path, struct model *model)
{
    const char *name = "";
    json_t *root;

    *model = (struct model){0};
    int status = json_file_load(path, FILE_BYTES_MAX, &root);
    if (status)
        return status;
    if (json_object_get(root, "quern_model"))
        status = read_manifest(root, path, model, &name);
    else if (hf_config_is(root))
        status = read_config(root, path, model, &name);
    else
        status = fail("%s: 'quern_model' is missing, which a manifest has, and so is 'model_type', "
                      "which a model's config.json has",
                      path);
    if (!status && strlen(name) >= sizeof model->name)
        status = fail("%s: 'name' has %zu bytes; at most %zu are allowed", path, strlen(name),
                      sizeof model->name - 1);
    /* the name is printed, so it must have no line feeds or escape sequences */
    for (const char *c = name; !status && *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            status = fail("%s: 'name' has the control character 0x%02x; it must be printable text",
                          path, (unsigned char)*c);
    if (!status)
        strcpy(model->name, name);
    json_decref(root);
    return status;
}

int model_parse_tp(const char *text, int tp[MODEL_TP_MAX], size_t *count)
{
    const char *p = text;

    *count = 0;
    for (;;) {
        char *end;
        const long value = strtol(p, &end, 10);
        if (end == p || value < 1 || value > 1024 || (*end && *end != ','))
            return misuse("--tp '%s' is not a list of numbers of GPUs from 1 to 1024, e.g. 1,2,4,8",
                          text);
        size_t i = 0;
        while (i < *count && tp[i] != value)
            i++;
        if (i == MODEL_TP_MAX)
            return misuse("--tp '%s' has more than %d numbers", text, MODEL_TP_MAX);
        tp[i] = (int)value;
        if (i == *count)
            ++*count;
        if (!*end)
            return EXIT_OK;
        p = end + 1;
    }
}

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
            m->uses[i].scheme == use.scheme)
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
            l->scheme != added->scheme)
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
