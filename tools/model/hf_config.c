/* SPDX-License-Identifier: MIT */
/*
 * Members as the transformers library writes them: hidden_size, num_attention_heads …; of a
 * multimodal model they are in text_config. Which layers have a bias is said by attention_bias,
 * mlp_bias …, or by the model's type alone.
 */
#include "model/hf_config.h"
#include "command/options.h"
#include "model/hf_modules.h"
#include "model/hf_quantisation.h"

#include <stdio.h>
#include <string.h>

#define SIZE_MAX_ANY ((int64_t)1 << 29) /* the widest layer, twice it, is still an N */

/* Sizes that a text_config leaves out are those of its type's class, as transformers leaves them
 * out when it writes a part of a multimodal model (configuration_TYPE.py). */
static const struct text_type {
    const char *type;
    struct {
        const char *name;
        int64_t size;
    } sizes[8];
} text_types[] = {
    {"gemma3_text",
     {{"num_attention_heads", 8},
      {"num_key_value_heads", 4},
      {"head_dim", 256},
      {"vocab_size", 262208},
      {"hidden_size", 2304},
      {"intermediate_size", 9216},
      {"num_hidden_layers", 26}}},
    {"llama",
     {{"num_attention_heads", 32},
      {"vocab_size", 32000},
      {"hidden_size", 4096},
      {"intermediate_size", 11008},
      {"num_hidden_layers", 32}}},
    {"mistral",
     {{"num_attention_heads", 32},
      {"num_key_value_heads", 8},
      {"vocab_size", 32000},
      {"hidden_size", 4096},
      {"intermediate_size", 14336},
      {"num_hidden_layers", 32}}},
};

static const struct text_type *text_type_of(const json_t *text)
{
    for (size_t i = 0; i < sizeof text_types / sizeof text_types[0]; i++)
        if (!strcmp(json_text(text, "model_type"), text_types[i].type))
            return &text_types[i];
    return NULL;
}

/* Puts in the sizes of its type that a text_config lacks. Without memory they stay missing, which
 * is reported where they are read. */
static void complete(json_t *text)
{
    const struct text_type *const type = text_type_of(text);

    for (int i = 0; type && i < 8 && type->sizes[i].name; i++)
        if (!json_object_get(text, type->sizes[i].name))
            json_object_set_new(text, type->sizes[i].name, json_integer(type->sizes[i].size));
}

/* The object that has the text model's sizes. */
static json_t *text_of(const json_t *root)
{
    json_t *const text = json_object_get(root, "text_config");
    const bool sized = json_object_get(text, "hidden_size") || text_type_of(text);

    return json_is_object(text) && sized ? text : (json_t *)root;
}

bool hf_config_is(const json_t *root)
{
    return json_object_get(root, "model_type") || json_object_get(text_of(root), "hidden_size");
}

/* A size under any of the names; `absent` when there is none, or an error if that is 0. */
static int read_size(const json_t *object, const char *path, const char *names, int64_t absent,
                     int64_t *value)
{
    char found[64], first[64];

    *value = absent;
    if (json_any(object, names, found))
        return json_field_int(object, path, found, 1, SIZE_MAX_ANY, value);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(names, "|"), names);
    return absent ? EXIT_OK : json_field_int(object, path, first, 1, SIZE_MAX_ANY, value);
}

/* Types whose feed-forward is one projection up and one down, by their modelling files. */
static bool has_no_gate(const char *type)
{
    return choice_of(type, "gpt_neox|starcoder2|phi|nemotron|persimmon|arcee|apertus");
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

#define EXPERT_NAMES "num_experts|n_routed_experts|num_local_experts|moe_num_experts"

/* Experts that every token goes through are one layer, as wide as all of them. */
static int read_shared(const json_t *text, const char *path, struct model *m)
{
    static const char widths[] = "shared_expert_intermediate_size|shared_intermediate_size";
    static const char counts[] = "n_shared_experts|num_shared_experts|moe_num_shared_experts";
    char found[64];
    int64_t count;

    if (json_any(text, widths, found))
        return json_field_int(text, path, found, 0, SIZE_MAX_ANY, &m->shared_intermediate);
    if (!json_any(text, counts, found))
        return EXIT_OK;
    const int status = json_field_int(text, path, found, 0, SIZE_MAX_ANY, &count);
    m->shared_intermediate = status ? 0 : count * m->expert_intermediate;
    return status;
}

/* A list of which every entry must be of a type. */
static int check_list(const json_t *list, const char *path, const char *name, json_type type,
                      const char *what)
{
    char shown[JSON_SHOWN_BYTES];
    const json_t *entry;
    size_t i;
    bool right = json_is_array(list);

    json_array_foreach(list, i, entry) right &= json_typeof(entry) == type;
    return right ? EXIT_OK
                 : fail("%s: '%s' is %s; it must be a list of %s", path, name,
                        json_shown(list, shown), what);
}

/* Checks the members that hf_modules_find_sparse reads: it takes them to be sound. */
static int check_sparse(const json_t *text, const char *path)
{
    static const struct {
        const char *name;
        bool integer, list; /* what it may be */
        json_type type;
        const char *what;
    } members[] = {{"mlp_only_layers", false, true, JSON_INTEGER, "numbers of layers"},
                   {"moe_layer_freq", true, true, JSON_INTEGER, "0 and 1, one for each layer"},
                   {"mlp_layer_types", false, true, JSON_STRING, "kinds of layers"},
                   {"first_k_dense_replace", true, false, 0, NULL},
                   {"moe_layer_start_index", true, false, 0, NULL},
                   {"decoder_sparse_step", true, false, 0, NULL}};
    int status = EXIT_OK;

    for (size_t i = 0; !status && i < sizeof members / sizeof members[0]; i++) {
        const json_t *const value = json_object_get(text, members[i].name);
        int64_t number;
        if (!value || json_is_null(value))
            continue;
        if (members[i].integer && (json_is_integer(value) || !members[i].list))
            status = json_field_int(text, path, members[i].name, 0, MODEL_LAYERS_MAX, &number);
        else
            status = check_list(value, path, members[i].name, members[i].type, members[i].what);
    }
    return status;
}

/* Finds what follows gate and up. gpt-oss bounds both by swiglu_limit, and has their rows one after
 * the other; no kernel has another bound than its 7. */
static void find_activation(const json_t *text, struct model_mixture *x)
{
    const char *const type = json_text(text, "model_type"), *const act =
                                                                json_text(text, "hidden_act");
    char found[64];
    const json_t *const limit = json_any(text, "swiglu_limit", found);
    const bool oai = !strcmp(type, "gpt_oss");

    if (oai && (!limit || json_number_value(limit) == 7.0))
        *x = (struct model_mixture){x->experts, x->top_k, "swiglu_oai", "interleaved"};
    else if (!oai && !limit && !has_no_gate(type) && (!act[0] || !strcmp(act, "silu")))
        *x = (struct model_mixture){x->experts, x->top_k, "silu_mul", "halves"};
}

static int read_mixture(const json_t *text, const char *path, struct model_mixture *x)
{
    static const char choices[] = "num_experts_per_tok|num_experts_per_token|experts_per_token|"
                                  "top_k_experts|moe_topk|moe_k";
    char found[64];

    *x = (struct model_mixture){0};
    if (!json_any(text, EXPERT_NAMES, found))
        return EXIT_OK;
    int status = json_field_int(text, path, found, 1, MODEL_EXPERTS_MAX, &x->experts);
    const json_t *const top_k = json_any(text, choices, found);
    if (!status && top_k && !json_is_array(top_k)) /* a list is one for each layer */
        status = json_field_int(text, path, found, 1, x->experts, &x->top_k);
    find_activation(text, x);
    return status;
}

int hf_config_mixture(const json_t *root, const char *path, struct model_mixture *x)
{
    return read_mixture(text_of(root), path, x);
}

static int read_experts(const json_t *text, const char *path, struct model *m)
{
    char found[64];
    bool sparse[MODEL_LAYERS_MAX];

    int status = read_mixture(text, path, &m->mixture);
    if (status || !m->mixture.experts || (status = check_sparse(text, path)))
        return status;
    /* Mixtral and gpt-oss have experts in all layers, and no width for those alone */
    const bool own = json_any(text, "moe_intermediate_size", found) != NULL;
    if ((status = read_size(text, path, own ? "moe_intermediate_size" : "intermediate_size", 0,
                            &m->expert_intermediate)))
        return status;
    if (!own || !hf_modules_find_sparse(text, m->layers, sparse))
        m->intermediate = 0; /* every layer is one of experts */
    return read_shared(text, path, m);
}

/* Whether a layer is attention: transformers' name for its kind, or MiniMax's number. */
static bool is_attention(const json_t *kind)
{
    static const char names[] = "full_attention|sliding_attention|chunked_attention";

    return json_is_string(kind) ? choice_of(json_string_value(kind), names)
                                : json_integer_value(kind) == 1;
}

/* Refuses models with layers that are neither attention, feed-forward nor experts. */
static int check_kinds(const json_t *text, const char *path)
{
    static const char others[] = "linear_num_key_heads|linear_attn_config|mamba_d_state|"
                                 "mamba_num_heads|lru_width|index_n_heads|intermediate_size_mlp|"
                                 "hybrid_layer_pattern|swa_num_attention_heads";
    char found[64], shown[JSON_SHOWN_BYTES];
    const json_t *kind;
    size_t i;

    if (json_any(text, others, found))
        return fail("%s: '%s' says that there are layers beside attention, feed-forward and "
                    "experts, or others than in most models; this version does not know them: give "
                    "problems instead",
                    path, found);
    const json_t *const kinds = json_any(text, "layer_types|attn_type_list", found);
    json_array_foreach(kinds, i, kind)
    {
        if (!is_attention(kind))
            return fail("%s: '%s' has %s, whose layers this version does not know; give problems "
                        "instead",
                        path, found, json_shown(kind, shown));
    }
    return EXIT_OK;
}

/* Reads the sizes of attention through a latent (MLA), under DeepSeek-V2's names. */
static int read_latent(const json_t *text, const char *path, struct model *m)
{
    struct model_latent *const l = &m->latent;
    char found[64];
    int status;

    if (json_any(text, "q_lora_rank", found) &&
        (status = read_size(text, path, "q_lora_rank", 0, &l->q)))
        return status;
    if ((status = read_size(text, path, "kv_lora_rank", 0, &l->kv)) ||
        (status = read_size(text, path, "qk_nope_head_dim", 0, &l->nope)) ||
        (status = read_size(text, path, "qk_rope_head_dim", 0, &l->rope)))
        return status;
    return read_size(text, path, "v_head_dim", 0, &l->value);
}

static int read_heads(const json_t *text, const char *path, struct model *m)
{
    char found[64];

    if (json_any(text, "kv_lora_rank|q_lora_rank", found))
        return read_latent(text, path, m);
    if (!json_any(text, "head_dim", found) && m->hidden % m->heads)
        return fail("%s: 'hidden_size' %lld is not a multiple of 'num_attention_heads' %lld, and "
                    "there is no 'head_dim'",
                    path, (long long)m->hidden, (long long)m->heads);
    return read_size(text, path, "head_dim", m->hidden / m->heads, &m->head_dim);
}

static bool is_true(const json_t *object, const char *names)
{
    char found[64];

    return json_is_true(json_any(object, names, found));
}

/* Finds which layers add a bias, as transformers' classes have it: q, k and v always do in Qwen's
 * first two models, all layers in Phi; GLM's attention_bias does not hold for o; Seed-OSS has a
 * member of its own for o. */
static void read_biases(const json_t *text, struct model *m)
{
    const char *const type = json_text(text, "model_type");
    const bool phi = !strcmp(type, "phi"), neox = !strcmp(type, "gpt_neox");
    const bool all = is_true(text, "use_bias") || phi || !strcmp(type, "persimmon");
    const bool attention =
        is_true(text, "attention_bias") || (neox && !json_object_get(text, "attention_bias"));
    const bool qwen = !strcmp(type, "qwen") || !strncmp(type, "qwen2", 5);
    const json_t *const out = json_object_get(text, "attention_out_bias");

    m->qkv_bias = all || attention ||
                  (qwen ? !json_is_false(json_object_get(text, "qkv_bias"))
                        : is_true(text, "qkv_bias|add_qkv_bias|use_qkv_bias"));
    m->o_bias = all || (out ? json_is_true(out) : attention && strncmp(type, "glm", 3));
    m->mlp_bias = all || neox || is_true(text, "mlp_bias");
    m->expert_bias = !strcmp(type, "gpt_oss");
    m->head_bias = is_true(text, "lm_head_bias") || phi;
}

static int read_layers(const json_t *text, const char *path, struct model *m)
{
    char found[64];
    const bool any = json_any(text, "num_hidden_layers|num_layers", found) != NULL;

    return json_field_int(text, path, any ? found : "num_hidden_layers", 1, MODEL_LAYERS_MAX,
                          &m->layers);
}

static int read_sizes(json_t *text, bool nested, const char *path, struct model *m)
{
    char found[64];
    int status;

    if (nested)
        complete(text);
    if (!json_any(text, "hidden_size|num_attention_heads|num_hidden_layers|vocab_size", found))
        return fail("%s is a stub: it names a model (%.64s) and has none of its sizes, such as "
                    "hidden_size; give the config.json of the repository that has the weights",
                    path, json_text(text, "model_type"));
    if (!json_any(text, "num_attention_heads", found) &&
        json_any(text, "state_size|ssm_state_size|attention_hidden_size|conv_kernel", found))
        return fail("%s: model_type %.64s: its layers are no attention ('%s'); not served", path,
                    json_text(text, "model_type"), found);
    if ((status = check_kinds(text, path)) ||
        (status = read_size(text, path, "hidden_size", 0, &m->hidden)) ||
        (status = read_size(text, path, "num_attention_heads", 0, &m->heads)) ||
        (status = read_size(text, path, "num_key_value_heads", m->heads, &m->kv_heads)) ||
        (status = read_layers(text, path, m)) ||
        (status = read_size(text, path, "vocab_size", 0, &m->vocabulary)) ||
        (status = read_heads(text, path, m)))
        return status;
    read_biases(text, m);
    m->ungated = has_no_gate(json_text(text, "model_type"));
    const bool experts = json_any(text, EXPERT_NAMES, found);
    if ((status = read_size(text, path, "intermediate_size", experts ? -1 : 0, &m->intermediate)))
        return status;
    if (m->intermediate < 0)
        m->intermediate = 0;
    if (!strcmp(json_text(text, "model_type"), "qwen")) /* its size is of gate and up both */
        m->intermediate /= 2;
    return read_experts(text, path, m);
}

int hf_config_read(const json_t *root, const char *path, struct model *m)
{
    json_t *const text = text_of(root);
    const char *type = json_text(text, "dtype|torch_dtype");

    if (!type[0])
        type = json_text(root, "dtype|torch_dtype");
    const int status = read_sizes(text, text != root, path, m);
    if (status)
        return status;
    m->type_assumed = !type[0];
    hf_quantisation_type(type[0] ? type : "bfloat16", m->type);
    return hf_quantisation_read(root, text, path, m);
}
