/* SPDX-License-Identifier: MIT */
#include "model.h"
#include "hf_config.h"
#include "json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A manifest takes a few hundred bytes; this leaves room for notes. */
#define MANIFEST_BYTES_MAX ((size_t)1 << 20)

/* Far more than any published model has. The products of two then fit in 64 bits;
 * those that become an N or K are checked against DIMENSION_MAX. */
#define DIMENSION_MAX ((int64_t)1 << 30) /* the largest N and K that a problem may have */
#define HEADS_MAX     ((int64_t)1 << 20)
#define HEAD_DIM_MAX  ((int64_t)1 << 20)
#define LAYERS_MAX    ((int64_t)10000)
#define EXPERTS_MAX   ((int64_t)1 << 16)

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
    const int status = json_field_int(experts, where, "count", 1, EXPERTS_MAX, &m->experts);
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
        {"hidden", DIMENSION_MAX, &m->hidden}, {"heads", HEADS_MAX, &m->heads},
        {"kv_heads", HEADS_MAX, &m->kv_heads}, {"head_dim", HEAD_DIM_MAX, &m->head_dim},
        {"layers", LAYERS_MAX, &m->layers},    {"vocabulary", DIMENSION_MAX, &m->vocabulary},
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

/* Of the products that become an N or a K. */
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
    int status = json_file_load(path, MANIFEST_BYTES_MAX, &root);
    if (status)
        return status;
    const bool config = !json_object_get(root, "quern_model") && hf_config_is(root);
    status =
        config ? read_config(root, path, model, &name) : read_manifest(root, path, model, &name);
    if (!status && strlen(name) >= sizeof model->name)
        status = fail("%s: 'name' has %zu bytes; at most %zu are allowed", path, strlen(name),
                      sizeof model->name - 1);
    /* it is printed: no line feeds or escape sequences for a terminal */
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

/* The layers so far, and the way of splitting that more are added for. */
struct layer_list {
    struct model_layer *layers;
    size_t *count;
    int tp;
};

/* Adds a layer, or its name to a layer of the same shape. */
static void add_layer(const struct layer_list *list, const char *kind, int64_t n, int64_t k,
                      bool bias)
{
    char name[32];
    size_t i = 0;

    if (list->tp == 1)
        snprintf(name, sizeof name, "%s", kind);
    else
        snprintf(name, sizeof name, "%s/tp%d", kind, list->tp);
    struct model_layer *layer = list->layers;
    while (i < *list->count && (layer->n != n || layer->k != k || layer->bias != bias))
        i++, layer++;
    if (i == *list->count) {
        *layer = (struct model_layer){.n = n, .k = k, .bias = bias};
        snprintf(layer->names, sizeof layer->names, "%s", name);
        ++*list->count;
    } else if (strlen(layer->names) + strlen(name) + 3 < sizeof layer->names) {
        strcat(layer->names, ", ");
        strcat(layer->names, name);
    }
}

static int check_split(const struct model *m, const char *what, int64_t value, int tp)
{
    if (value % tp == 0)
        return EXIT_OK;
    return misuse("--tp %d does not divide the %lld %s of %s; give divisors of it", tp,
                  (long long)value, what, m->name);
}

static int add_attention(const struct model *m, const struct layer_list *list)
{
    const int64_t heads = m->heads / list->tp;
    const int64_t kv_heads = m->kv_heads >= list->tp ? m->kv_heads / list->tp : 1;
    const struct model_latent *const l = &m->latent;

    if (!l->kv) {
        if (m->kv_heads % list->tp && list->tp % m->kv_heads)
            return check_split(m, "kv_heads", m->kv_heads, list->tp);
        add_layer(list, "qkv", (heads + 2 * kv_heads) * m->head_dim, m->hidden, m->qkv_bias);
        add_layer(list, "o", m->hidden, heads * m->head_dim, m->o_bias);
        return EXIT_OK;
    }
    if (!l->q) {
        add_layer(list, "q", heads * (l->nope + l->rope), m->hidden, false);
        add_layer(list, "kv_a", l->kv + l->rope, m->hidden, m->qkv_bias);
    } else {
        add_layer(list, "qkv_a", l->q + l->kv + l->rope, m->hidden, m->qkv_bias);
        add_layer(list, "q_b", heads * (l->nope + l->rope), l->q, false);
    }
    add_layer(list, "kv_b", heads * (l->nope + l->value), l->kv, false);
    add_layer(list, "o", m->hidden, heads * l->value, m->o_bias);
    return EXIT_OK;
}

/* gate_up and down of that width. */
static void add_mlp(const struct model *m, const struct layer_list *list, const char *kind,
                    int64_t intermediate, bool bias)
{
    char name[32];

    if (!intermediate)
        return;
    snprintf(name, sizeof name, "%sgate_up", kind);
    add_layer(list, name, 2 * intermediate / list->tp, m->hidden, bias);
    snprintf(name, sizeof name, "%sdown", kind);
    add_layer(list, name, m->hidden, intermediate / list->tp, bias);
}

/* One GPU's share of each layer. */
static int add_layers(const struct model *m, int tp, struct model_layer *layers, size_t *count)
{
    const struct layer_list list = {layers, count, tp};
    int status;

    if ((status = check_split(m, "heads", m->heads, tp)) ||
        (status = check_split(m, "intermediate", m->intermediate, tp)) ||
        (status = check_split(m, "expert intermediate", m->expert_intermediate, tp)) ||
        (status = check_split(m, "shared expert intermediate", m->shared_intermediate, tp)) ||
        (status = check_split(m, "vocabulary", m->vocabulary, tp)) ||
        (!m->only_experts && (status = add_attention(m, &list))))
        return status;
    if (!m->only_experts)
        add_mlp(m, &list, "", m->intermediate, m->mlp_bias);
    add_mlp(m, &list, "expert ", m->expert_intermediate, m->expert_bias);
    if (!m->only_experts)
        add_mlp(m, &list, "shared ", m->shared_intermediate, m->mlp_bias);
    if (!m->plain_head)
        add_layer(&list, "lm_head", m->vocabulary / tp, m->hidden, false);
    return EXIT_OK;
}

int model_layers(const struct model *model, const int *tp, size_t tp_count,
                 struct model_layer layers[MODEL_LAYERS_MAX], size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < tp_count; i++) {
        const int status = add_layers(model, tp[i], layers, count);
        if (status)
            return status;
    }
    return EXIT_OK;
}
