/* SPDX-License-Identifier: MIT */
/* Names as in transformers' modelling files, models/TYPE/modeling_TYPE.py, and their weights. */
#include "model/hf_modules.h"
#include "files/json_file.h"

#include <stdio.h>
#include <string.h>

/* Names behind "model.layers.N.": of the parts of a fused layer, with bars between them, then
 * behind a slash vLLM's name of the whole; # stands for the number of an expert. */
static const char *const usual[PLACES] = {
    [PLACE_QKV] = "self_attn.q_proj|self_attn.k_proj|self_attn.v_proj/self_attn.qkv_proj",
    [PLACE_Q] = "self_attn.q_proj",
    [PLACE_QKV_A] = "self_attn.q_a_proj|self_attn.kv_a_proj_with_mqa/self_attn.fused_qkv_a_proj",
    [PLACE_KV_A] = "self_attn.kv_a_proj_with_mqa",
    [PLACE_Q_B] = "self_attn.q_b_proj",
    [PLACE_KV_B] = "self_attn.kv_b_proj",
    [PLACE_O] = "self_attn.o_proj",
    [PLACE_GATE_UP] = "mlp.gate_proj|mlp.up_proj/mlp.gate_up_proj",
    [PLACE_DOWN] = "mlp.down_proj",
    [PLACE_EXPERT_GATE_UP] = "mlp.experts.#.gate_proj|mlp.experts.#.up_proj/mlp.experts",
    [PLACE_EXPERT_DOWN] = "mlp.experts.#.down_proj/mlp.experts",
    [PLACE_SHARED_GATE_UP] = "mlp.shared_experts.gate_proj|mlp.shared_experts.up_proj/"
                             "mlp.shared_experts.gate_up_proj",
    [PLACE_SHARED_DOWN] = "mlp.shared_experts.down_proj",
};

#define SPARSE_GATE_UP                                                                             \
    "block_sparse_moe.experts.#.w1|block_sparse_moe.experts.#.w3/block_sparse_moe.experts"
#define SPARSE_DOWN "block_sparse_moe.experts.#.w2/block_sparse_moe.experts"
#define ONE_GATE_UP                                                                                \
    "mlp.shared_expert.gate_proj|mlp.shared_expert.up_proj/mlp.shared_expert.gate_up_proj"
#define ONE_DOWN "mlp.shared_expert.down_proj"

/* Other names of these layers, by the type of the model. */
static const struct {
    const char *type;
    enum model_place place;
    const char *names;
} others[] = {
    {"phi3", PLACE_QKV, "self_attn.qkv_proj"},
    {"phi3", PLACE_GATE_UP, "mlp.gate_up_proj"},
    {"glm", PLACE_GATE_UP, "mlp.gate_up_proj"},
    {"glm4", PLACE_GATE_UP, "mlp.gate_up_proj"},
    {"mixtral", PLACE_EXPERT_GATE_UP, SPARSE_GATE_UP},
    {"mixtral", PLACE_EXPERT_DOWN, SPARSE_DOWN},
    {"phimoe", PLACE_EXPERT_GATE_UP, SPARSE_GATE_UP},
    {"phimoe", PLACE_EXPERT_DOWN, SPARSE_DOWN},
    {"minimax_m2", PLACE_EXPERT_GATE_UP, SPARSE_GATE_UP},
    {"minimax_m2", PLACE_EXPERT_DOWN, SPARSE_DOWN},
    {"gpt_oss", PLACE_EXPERT_GATE_UP, "mlp.experts.gate_up_proj/mlp.experts"},
    {"gpt_oss", PLACE_EXPERT_DOWN, "mlp.experts.down_proj/mlp.experts"},
    {"qwen2_moe", PLACE_SHARED_GATE_UP, ONE_GATE_UP},
    {"qwen2_moe", PLACE_SHARED_DOWN, ONE_DOWN},
    {"gpt_neox", PLACE_QKV, "attention.query_key_value"},
    {"gpt_neox", PLACE_O, "attention.dense"},
    {"gpt_neox", PLACE_GATE_UP, "mlp.dense_h_to_4h"},
    {"gpt_neox", PLACE_DOWN, "mlp.dense_4h_to_h"},
    {"starcoder2", PLACE_GATE_UP, "mlp.c_fc"},
    {"starcoder2", PLACE_DOWN, "mlp.c_proj"},
    {"phi", PLACE_O, "self_attn.dense"},
    {"phi", PLACE_GATE_UP, "mlp.fc1"},
    {"phi", PLACE_DOWN, "mlp.fc2"},
    {"nemotron", PLACE_GATE_UP, "mlp.up_proj"},
};

static const char *names_of(const struct hf_modules *h, enum model_place place)
{
    const char *const type = json_text(h->text, "model_type");

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].place == place && !strcmp(others[i].type, type))
            return others[i].names;
    return usual[place];
}

static int64_t member(const json_t *text, const char *names)
{
    char found[64];

    return json_integer_value(json_any(text, names, found));
}

/* Knows the members of DeepSeek's and ERNIE's models, Qwen's, MiMo's (moe_layer_freq, a list), and
 * those that transformers has for all models since version 5. */
bool hf_modules_find_sparse(const json_t *text, int64_t layers, bool sparse[MODEL_LAYERS_MAX])
{
    const json_t *const dense = json_object_get(text, "mlp_only_layers");
    const json_t *const frequency = json_object_get(text, "moe_layer_freq");
    const json_t *const kinds = json_object_get(text, "mlp_layer_types");
    const int64_t first = member(text, "first_k_dense_replace|moe_layer_start_index");
    const int64_t step = member(text, "decoder_sparse_step"), every = json_integer_value(frequency);
    const size_t count = (size_t)layers;
    bool any_dense = false;

    for (size_t i = 0; i < count; i++) {
        const char *const kind = json_string_value(json_array_get(kinds, i));
        sparse[i] = (int64_t)i >= first && (step < 2 || ((int64_t)i + 1) % step == 0) &&
                    (every < 2 || (int64_t)i % every == 0) && !(kind && !strcmp(kind, "dense"));
        if (i < json_array_size(frequency) && !json_integer_value(json_array_get(frequency, i)))
            sparse[i] = false;
    }
    for (size_t i = 0; i < json_array_size(dense); i++) {
        const int64_t layer = json_integer_value(json_array_get(dense, i));
        if (layer >= 0 && layer < layers && json_is_integer(json_array_get(dense, i)))
            sparse[layer] = false;
    }
    for (size_t i = 0; i < count; i++)
        any_dense |= !sparse[i];
    return any_dense;
}

bool hf_modules_are_experts(enum model_place place)
{
    return place == PLACE_EXPERT_GATE_UP || place == PLACE_EXPERT_DOWN;
}

bool hf_modules_at(const struct hf_modules *h, enum model_place place, int64_t layer)
{
    const bool shared = place == PLACE_SHARED_GATE_UP || place == PLACE_SHARED_DOWN;
    const struct model *const m = h->model;

    if (place == PLACE_HEAD)
        return layer == 0;
    if (hf_modules_are_experts(place) || shared)
        return !m->intermediate || h->sparse[layer];
    if (place == PLACE_GATE_UP || place == PLACE_DOWN)
        return !m->mixture.experts || !h->sparse[layer];
    return true;
}

int64_t hf_modules_experts(const struct hf_modules *h, enum model_place place)
{
    const bool numbered = hf_modules_are_experts(place) && strchr(names_of(h, place), '#');

    return numbered ? h->model->mixture.experts : 0;
}

/* Room for a module's name from the number of its layer on. */
#define PART_BYTES 64

/* Takes name number `part` out of names with bars between them, the last if there are fewer; #
 * becomes the number of the expert. */
static void pick(const char *names, int part, int64_t expert, char name[PART_BYTES])
{
    size_t n = 0;

    for (const char *bar; part > 0 && *(bar = names + strcspn(names, "|/")) == '|'; part--)
        names = bar + 1;
    for (; *names && *names != '|' && *names != '/'; names++)
        if (*names == '#')
            n += (size_t)snprintf(name + n, PART_BYTES - n, "%lld", (long long)expert);
        else
            name[n++] = *names;
    name[n] = 0;
}

size_t hf_modules_names(const struct hf_modules *h, const struct hf_module *module,
                        char names[HF_NAMES_MAX][HF_NAME_BYTES])
{
    /* of a multimodal model: since transformers 4.52, before, and of some models */
    static const char *const prefixes[] = {"model.language_model.", "language_model.model.",
                                           "model."};
    const bool neox = !strcmp(json_text(h->text, "model_type"), "gpt_neox");
    const size_t count = h->nested ? HF_NAMES_MAX : 1;
    char part[PART_BYTES];

    if (module->place == PLACE_HEAD) {
        snprintf(names[0], HF_NAME_BYTES, "%s", neox ? "embed_out" : "lm_head");
        snprintf(names[1], HF_NAME_BYTES, "language_model.lm_head");
        return h->nested ? 2 : 1;
    }
    const char *known = names_of(h, module->place), *const whole = strchr(known, '/');
    if (module->part < 0 && whole)
        known = whole + 1;
    pick(known, module->part, module->expert, part);
    for (size_t i = 0; i < count; i++)
        snprintf(names[i], HF_NAME_BYTES, "%slayers.%lld.%s",
                 h->nested ? prefixes[i]
                 : neox    ? "gpt_neox."
                           : "model.",
                 (long long)module->layer, part);
    return count;
}
