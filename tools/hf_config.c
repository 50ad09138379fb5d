/* SPDX-License-Identifier: MIT */
/*
 * Members as the transformers library writes them: hidden_size, num_attention_heads …; of a
 * multimodal model they are in text_config. Which layers have a bias is said by attention_bias,
 * mlp_bias …, or by the model's type alone. quantization_config is by quant_method: gptq and awq
 * (bits, group_size, sym or zero_point), compressed-tensors (config_groups.*.weights), bitsandbytes
 * (load_in_4bit, bnb_4bit_*), mxfp4, fp8 (activation_scheme).
 */
#include "hf_config.h"

#include <stdio.h>
#include <string.h>

#define SIZE_MAX_ANY ((int64_t)1 << 29) /* the widest layer, twice it, is still an N */

/* The object that has the text model's sizes. */
static const json_t *text_of(const json_t *root)
{
    const json_t *const text = json_object_get(root, "text_config");

    return json_is_object(text) && json_object_get(text, "hidden_size") ? text : root;
}

bool hf_config_is(const json_t *root)
{
    return json_object_get(text_of(root), "hidden_size") != NULL;
}

/* The first of the names (with bars between them) that the object has and that is not null. */
static const json_t *any_of(const json_t *object, const char *names, char found[64])
{
    for (const char *p = names; p;) {
        const char *const bar = strchr(p, '|');
        snprintf(found, 64, "%.*s", bar ? (int)(bar - p) : (int)strlen(p), p);
        const json_t *const value = json_object_get(object, found);
        if (value && !json_is_null(value))
            return value;
        p = bar ? bar + 1 : NULL;
    }
    return NULL;
}

/* A size under any of the names; `absent` when there is none, or an error if that is 0. */
static int read_size(const json_t *object, const char *path, const char *names, int64_t absent,
                     int64_t *value)
{
    char found[64], first[64];

    *value = absent;
    if (any_of(object, names, found))
        return json_field_int(object, path, found, 1, SIZE_MAX_ANY, value);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(names, "|"), names);
    return absent ? EXIT_OK : json_field_int(object, path, first, 1, SIZE_MAX_ANY, value);
}

static const char *text_member(const json_t *object, const char *names)
{
    char found[64];
    const char *const text = json_string_value(any_of(object, names, found));

    return text ? text : "";
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

#define EXPERT_NAMES "num_experts|n_routed_experts|num_local_experts|moe_num_experts"

/* Experts that every token goes through are one layer, as wide as all of them. */
static int read_shared(const json_t *text, const char *path, struct model *m)
{
    static const char widths[] = "shared_expert_intermediate_size|shared_intermediate_size";
    static const char counts[] = "n_shared_experts|moe_num_shared_experts";
    char found[64];
    int64_t count;

    if (any_of(text, widths, found))
        return json_field_int(text, path, found, 0, SIZE_MAX_ANY, &m->shared_intermediate);
    if (!any_of(text, counts, found))
        return EXIT_OK;
    const int status = json_field_int(text, path, found, 0, SIZE_MAX_ANY, &count);
    m->shared_intermediate = status ? 0 : count * m->expert_intermediate;
    return status;
}

static int read_experts(const json_t *text, const char *path, struct model *m)
{
    char found[64];
    int64_t first, step;

    if (!any_of(text, EXPERT_NAMES, found))
        return EXIT_OK;
    int status = read_size(text, path, EXPERT_NAMES, 0, &m->experts);
    if (status)
        return status;
    /* Mixtral and gpt-oss have no width of their own for experts, and no other layers besides */
    const bool own = any_of(text, "moe_intermediate_size", found) != NULL;
    if ((status = read_size(text, path, own ? "moe_intermediate_size" : "intermediate_size", 0,
                            &m->expert_intermediate)))
        return status;
    first = json_integer_value(any_of(text, "first_k_dense_replace|moe_layer_start_index", found));
    step = json_integer_value(any_of(text, "decoder_sparse_step", found));
    const json_t *const dense = json_object_get(text, "mlp_only_layers");
    if (!own || (first < 1 && step <= 1 && json_array_size(dense) == 0))
        m->intermediate = 0; /* every layer is one of experts */
    return read_shared(text, path, m);
}

/* Layers that are none of those that problems are made of. */
static int check_kinds(const json_t *text, const char *path)
{
    const json_t *const kinds = json_object_get(text, "layer_types");
    static const char others[] = "linear_num_key_heads|mamba_d_state|mamba_num_heads|lru_width|"
                                 "index_n_heads|intermediate_size_mlp";
    char found[64], shown[JSON_SHOWN_BYTES];

    if (any_of(text, others, found))
        return fail("%s: '%s' says that there are layers beside attention, feed-forward and "
                    "experts, or others than in most models; this version does not know them: give "
                    "problems instead",
                    path, found);
    for (size_t i = 0; i < json_array_size(kinds); i++) {
        const char *const kind = json_string_value(json_array_get(kinds, i));
        if (!kind || (strcmp(kind, "full_attention") && strcmp(kind, "sliding_attention") &&
                      strcmp(kind, "chunked_attention")))
            return fail("%s: 'layer_types' has %s, whose layers this version does not know; give "
                        "problems instead",
                        path, json_shown(json_array_get(kinds, i), shown));
    }
    return EXIT_OK;
}

/* Attention through a latent: DeepSeek-V2's names. */
static int read_latent(const json_t *text, const char *path, struct model *m)
{
    struct model_latent *const l = &m->latent;
    char found[64];
    int status;

    if (any_of(text, "q_lora_rank", found) &&
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

    if (any_of(text, "kv_lora_rank|q_lora_rank", found))
        return read_latent(text, path, m);
    if (!any_of(text, "head_dim", found) && m->hidden % m->heads)
        return fail("%s: 'hidden_size' %lld is not a multiple of 'num_attention_heads' %lld, and "
                    "there is no 'head_dim'",
                    path, (long long)m->hidden, (long long)m->heads);
    return read_size(text, path, "head_dim", m->hidden / m->heads, &m->head_dim);
}

static bool is_true(const json_t *object, const char *names)
{
    char found[64];

    return json_is_true(any_of(object, names, found));
}

/* As transformers' classes have them: Qwen2's projections to q, k and v always add one, and GLM's
 * attention_bias is not that of the projection back. */
static void read_biases(const json_t *text, struct model *m)
{
    const char *const type = text_member(text, "model_type");
    const bool all = is_true(text, "use_bias"), attention = is_true(text, "attention_bias");
    const bool qwen2 = !strncmp(type, "qwen2", 5);

    m->qkv_bias = all || attention ||
                  (qwen2 ? !json_is_false(json_object_get(text, "qkv_bias"))
                         : is_true(text, "qkv_bias|add_qkv_bias"));
    m->o_bias = all || (attention && strncmp(type, "glm", 3));
    m->mlp_bias = all || is_true(text, "mlp_bias");
    m->expert_bias = !strcmp(type, "gpt_oss");
}

static int read_sizes(const json_t *text, const char *path, struct model *m)
{
    char found[64];
    int status;

    if ((status = check_kinds(text, path)) ||
        (status = read_size(text, path, "hidden_size", 0, &m->hidden)) ||
        (status = read_size(text, path, "num_attention_heads", 0, &m->heads)) ||
        (status = read_size(text, path, "num_key_value_heads", m->heads, &m->kv_heads)) ||
        (status = read_size(text, path, "num_hidden_layers", 0, &m->layers)) ||
        (status = read_size(text, path, "vocab_size", 0, &m->vocabulary)) ||
        (status = read_heads(text, path, m)))
        return status;
    read_biases(text, m);
    const bool experts = any_of(text, EXPERT_NAMES, found);
    if ((status = read_size(text, path, "intermediate_size", experts ? -1 : 0, &m->intermediate)))
        return status;
    if (m->intermediate < 0)
        m->intermediate = 0;
    return read_experts(text, path, m);
}

/* ---- Quantisation ---------------------------------------------------------------------------- */

static void set_group(struct model *m, int64_t group)
{
    if (group < 0)
        snprintf(m->words.group, sizeof m->words.group, "channel");
    else
        snprintf(m->words.group, sizeof m->words.group, "%lld", (long long)group);
}

static int unknown(const char *path, const char *what, const char *value)
{
    return fail("%s: quantization_config: %s %s is none that problems describe; 4-bit gptq, awq, "
                "compressed-tensors and bitsandbytes, mxfp4, and fp8 with one scale are",
                path, what, value);
}

/* 4-bit integers in groups of group_size (-1: one group a row). */
static int read_integers(const json_t *q, const char *path, const char *bits_names,
                         const char *group_names, bool symmetric, struct model *m)
{
    char found[64], shown[JSON_SHOWN_BYTES];
    const json_t *const bits = any_of(q, bits_names, found);
    const json_t *const group = any_of(q, group_names, found);

    if (json_integer_value(bits) != 4)
        return unknown(path, "bits", bits ? json_shown(bits, shown) : "(none)");
    if (group && !json_is_integer(group))
        return fail("%s: quantization_config: '%s' is %s; it must be an integer", path, found,
                    json_shown(group, shown));
    snprintf(m->words.wq, sizeof m->words.wq, "int4");
    set_group(m, group ? json_integer_value(group) : -1);
    snprintf(m->words.zero, sizeof m->words.zero, symmetric ? "none" : "u8");
    return EXIT_OK;
}

/* 8-bit floats with one scale for all of a layer; activations too, or (`plain`) as the model has
 * them. C is of the model's type. */
static int set_fp8(bool plain, struct model *m)
{
    snprintf(m->words.wq, sizeof m->words.wq, "fp8");
    if (plain)
        return EXIT_OK;
    if (m->words.a[0])
        snprintf(m->words.c, sizeof m->words.c, "%s", m->words.a);
    snprintf(m->words.a, sizeof m->words.a, "fp8");
    return EXIT_OK;
}

/* Groups of compressed-tensors with weights of type float. */
static int read_floats(const json_t *group, const json_t *weights, const char *path,
                       struct model *m)
{
    const json_t *const inputs = json_object_get(group, "input_activations");
    const json_t *const bits = json_object_get(weights, "num_bits");
    char shown[JSON_SHOWN_BYTES];

    if (json_integer_value(bits) != 8)
        return unknown(path, "float num_bits", bits ? json_shown(bits, shown) : "(none)");
    if (strcmp(text_member(weights, "strategy"), "tensor"))
        return unknown(path, "weights of strategy", text_member(weights, "strategy"));
    if (json_is_object(inputs) && strcmp(text_member(inputs, "strategy"), "tensor"))
        return unknown(path, "input_activations of strategy", text_member(inputs, "strategy"));
    return set_fp8(!json_is_object(inputs), m);
}

static int read_fp8(const json_t *q, const char *path, struct model *m)
{
    const json_t *const block = json_object_get(q, "weight_block_size");
    const char *const scheme = text_member(q, "activation_scheme");

    if (block && !json_is_null(block))
        return unknown(path, "fp8", "with weight_block_size");
    if (scheme[0] && strcmp(scheme, "static") && strcmp(scheme, "dynamic"))
        return unknown(path, "activation_scheme", scheme);
    return set_fp8(false, m);
}

static int read_compressed(const json_t *q, const char *path, struct model *m)
{
    const json_t *const groups = json_object_get(q, "config_groups");
    const char *name;
    json_t *group;

    json_object_foreach((json_t *)groups, name, group)
    {
        const json_t *const weights = json_object_get(group, "weights");
        const char *const type = text_member(weights, "type");
        if (!json_is_object(weights))
            continue;
        if (!strcmp(type, "float"))
            return read_floats(group, weights, path, m);
        if (strcmp(type, "int"))
            return unknown(path, "type", type[0] ? type : "(none)");
        if (json_is_object(json_object_get(group, "input_activations")))
            return unknown(path, "int weights", "with input_activations");
        return read_integers(weights, path, "num_bits", "group_size",
                             !json_is_false(json_object_get(weights, "symmetric")), m);
    }
    return unknown(path, "config_groups", "without weights");
}

/* The type of A by torch's name; another name says nothing. */
static void set_type(const char *type, struct model *m)
{
    if (!strcmp(type, "float16") || !strcmp(type, "bfloat16") || !strcmp(type, "float32"))
        snprintf(m->words.a, sizeof m->words.a, "%s",
                 !strcmp(type, "float16")    ? "f16"
                 : !strcmp(type, "bfloat16") ? "bf16"
                                             : "f32");
}

static int read_bitsandbytes(const json_t *q, const char *path, struct model *m)
{
    const char *const type = text_member(q, "bnb_4bit_quant_type");
    const char *const wq = type[0] ? type : "fp4"; /* the library's default */

    if (!json_is_true(json_object_get(q, "load_in_4bit")) &&
        !json_is_true(json_object_get(q, "_load_in_4bit")))
        return unknown(path, "bitsandbytes", "without load_in_4bit");
    if (strcmp(wq, "nf4") && strcmp(wq, "fp4"))
        return unknown(path, "bnb_4bit_quant_type", wq);
    snprintf(m->words.wq, sizeof m->words.wq, "%s", wq);
    snprintf(m->words.group, sizeof m->words.group, "64");
    snprintf(m->words.scale, sizeof m->words.scale, "%s",
             json_is_true(json_object_get(q, "bnb_4bit_use_double_quant")) ? "nested" : "f32");
    /* what activations become on the way into such a layer */
    set_type(text_member(q, "bnb_4bit_compute_dtype"), m);
    return EXIT_OK;
}

static int read_quantisation(const json_t *root, const char *path, struct model *m)
{
    const json_t *const q = json_object_get(root, "quantization_config");
    const char *const method = text_member(q, "quant_method");
    char shown[JSON_SHOWN_BYTES];

    if (!q || json_is_null(q))
        return EXIT_OK;
    if (!json_is_object(q))
        return fail("%s: 'quantization_config' is %s; it must be an object", path,
                    json_shown(q, shown));
    /* the head is left as it is, unless a gptq file says otherwise */
    m->plain_head = !json_is_true(json_object_get(q, "lm_head"));
    if (!strcmp(method, "gptq"))
        return read_integers(q, path, "bits", "group_size",
                             !json_is_false(json_object_get(q, "sym")), m);
    if (!strcmp(method, "awq"))
        return read_integers(q, path, "bits|w_bit", "group_size|q_group_size",
                             json_is_false(json_object_get(q, "zero_point")), m);
    if (!strcmp(method, "compressed-tensors"))
        return read_compressed(q, path, m);
    if (!strcmp(method, "bitsandbytes"))
        return read_bitsandbytes(q, path, m);
    if (!strcmp(method, "fp8"))
        return read_fp8(q, path, m);
    if (!strcmp(method, "mxfp4")) {
        snprintf(m->words.wq, sizeof m->words.wq, "mxfp4");
        m->only_experts = true;
        return EXIT_OK;
    }
    return unknown(path, "quant_method", method[0] ? method : "(none)");
}

int hf_config_read(const json_t *root, const char *path, struct model *m)
{
    const json_t *const text = text_of(root);
    const char *type = text_member(text, "dtype|torch_dtype");

    if (!type[0])
        type = text_member(root, "dtype|torch_dtype");
    const int status = read_sizes(text, path, m);
    if (status)
        return status;
    set_type(type, m);
    return read_quantisation(root, path, m);
}
