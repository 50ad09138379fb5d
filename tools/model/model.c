/* SPDX-License-Identifier: MIT */
/* Reads a model's manifest (model.h). */
#include "model/model.h"
#include "command/options.h"
#include "files/files.h"
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

/* A member of a manifest that is true or false, and may be missing. */
static int read_truth(const json_t *object, const char *where, const char *name, bool *value)
{
    const json_t *const found = json_object_get(object, name);
    char shown[JSON_SHOWN_BYTES];

    *value = json_is_true(found);
    return !found || json_is_boolean(found) ? EXIT_OK
                                            : fail("%s: '%s' is %s; it must be true or false",
                                                   where, name, json_shown(found, shown));
}

/* A member that is one of a list's words, of which the first stands for a missing one. */
static int read_choice(const json_t *object, const char *where, const char *name,
                       const char *choices, char value[16])
{
    const json_t *const found = json_object_get(object, name);
    const char *const text = json_string_value(found);
    char shown[JSON_SHOWN_BYTES];

    if (found && (!text || !choice_of(text, choices)))
        return fail("%s: '%s' is %s; it must be one of %s", where, name, json_shown(found, shown),
                    choices);
    if (found)
        snprintf(value, 16, "%s", text);
    else
        snprintf(value, 16, "%.*s", (int)strcspn(choices, "|"), choices);
    return EXIT_OK;
}

/* What of experts may be missing. */
static int read_routing(const json_t *experts, const char *where, struct model *m)
{
    struct model_mixture *const x = &m->mixture;
    int status = EXIT_OK;

    if (json_object_get(experts, "top_k"))
        status = json_field_int(experts, where, "top_k", 1, x->experts, &x->top_k);
    if (!status && json_object_get(experts, "shared"))
        status =
            json_field_int(experts, where, "shared", 1, DIMENSION_MAX / 2, &m->shared_intermediate);
    if (!status)
        status = read_truth(experts, where, "bias", &m->expert_bias);
    if (!status)
        status = read_choice(experts, where, "act", "silu_mul|swiglu_oai|none", x->act);
    if (!status)
        status = read_choice(experts, where, "glu", "halves|interleaved", x->glu);
    if (!strcmp(x->act, "none"))
        x->act[0] = x->glu[0] = 0;
    return status;
}

static int read_experts(const json_t *root, const char *path, struct model *m)
{
    const json_t *experts = json_object_get(root, "experts");
    char where[512], shown[JSON_SHOWN_BYTES];
    int status;

    if (!experts)
        return EXIT_OK;
    if (!json_is_object(experts))
        return fail("%s: 'experts' is %s; it must be an object with 'count' and 'intermediate'",
                    path, json_shown(experts, shown));
    snprintf(where, sizeof where, "%s: experts", path);
    if ((status =
             json_field_int(experts, where, "count", 1, MODEL_EXPERTS_MAX, &m->mixture.experts)) ||
        (status = json_field_int(experts, where, "intermediate", 1, DIMENSION_MAX / 2,
                                 &m->expert_intermediate)))
        return status;
    return read_routing(experts, where, m);
}

/* Reads the sizes of attention through a latent, under the names of quern-prewarm(1). */
static int read_latent(const json_t *root, const char *path, struct model *m)
{
    const json_t *const latent = json_object_get(root, "latent");
    struct model_latent *const l = &m->latent;
    char where[512], shown[JSON_SHOWN_BYTES];
    int status = EXIT_OK;

    if (!latent)
        return EXIT_OK;
    if (!json_is_object(latent))
        return fail("%s: 'latent' is %s; it must be an object with 'kv', 'nope', 'rope', 'v' and, "
                    "where q has one, 'q'",
                    path, json_shown(latent, shown));
    snprintf(where, sizeof where, "%s: latent", path);
    if (json_object_get(latent, "q"))
        status = json_field_int(latent, where, "q", 1, DIMENSION_MAX, &l->q);
    if (status || (status = json_field_int(latent, where, "kv", 1, DIMENSION_MAX, &l->kv)) ||
        (status = json_field_int(latent, where, "nope", 1, HEAD_DIM_MAX, &l->nope)) ||
        (status = json_field_int(latent, where, "rope", 1, HEAD_DIM_MAX, &l->rope)))
        return status;
    return json_field_int(latent, where, "v", 1, HEAD_DIM_MAX, &l->value);
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
        if (m->latent.kv && fields[i].value == &m->head_dim)
            continue; /* the latent says how wide a head's parts are */
        const int status =
            json_field_int(root, path, fields[i].name, 1, fields[i].max, fields[i].value);
        if (status)
            return status;
    }
    if (m->mixture.experts && !json_object_get(root, "intermediate"))
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
        (status = read_experts(root, path, m)) || (status = read_latent(root, path, m)) ||
        (status = read_sizes(root, path, m)) ||
        (status = read_truth(root, path, "attention_bias", &m->qkv_bias)))
        return status;
    m->o_bias = m->qkv_bias;
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

int model_mixture_beside(const char *path, struct model_mixture *mixture)
{
    const char *const slash = strrchr(path, '/');
    char *const prefix = strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
    char *config = NULL;
    json_t *root = NULL;

    *mixture = (struct model_mixture){0};
    int status = prefix ? file_first(prefix, "config.json", &config) : fail("out of memory");
    if (!status && config && !(status = json_file_load(config, FILE_BYTES_MAX, &root)))
        status = hf_config_mixture(root, config, mixture);
    json_decref(root);
    free(config);
    free(prefix);
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
