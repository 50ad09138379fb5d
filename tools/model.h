/* SPDX-License-Identifier: MIT */
/*
 * Model manifests: the few numbers of a transformer that say how big its linear layers are.
 *
 *   {"quern_model":1, "name":"qwen3-4b", "hidden":2560, "intermediate":9728, "heads":32,
 *    "kv_heads":8, "head_dim":128, "layers":36, "vocabulary":151936,
 *    "experts":{"count":128, "intermediate":768}}
 *
 * With `experts` (optional) the layers gate_up and down are those of one expert, and `intermediate`
 * may be left out; when it is there too, the model has both kinds. Other members are ignored.
 *
 * A Hugging Face config.json is read as well, and says how the weights are quantised (hf_config.h).
 */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include "command.h"

#include <stdbool.h>

/* Values of problem words that a model's file implies; "" where it says nothing. */
struct model_words {
    char wq[16], group[24], scale[16], zero[16], a[16], c[16];
};

/* Attention through a latent (MLA): widths of what q, and k and v, are squeezed into, and of a
 * head's parts. */
struct model_latent {
    int64_t q; /* 0: q is not squeezed */
    int64_t kv, nope, rope, value;
};

struct model {
    char name[64];
    int64_t hidden, intermediate; /* intermediate 0: experts only */
    int64_t heads, kv_heads, head_dim, layers, vocabulary;
    int64_t experts, expert_intermediate; /* 0: none */
    int64_t shared_intermediate;          /* of an expert beside those, for every token; 0: none */
    struct model_latent latent;           /* kv 0: none, and heads are as above */
    bool qkv_bias, o_bias, mlp_bias, expert_bias; /* which layers add one */
    struct model_words words;
    bool plain_head;   /* lm_head is not quantised, and no layer here */
    bool only_experts; /* nor is anything else but experts */
};

/* Reads and checks a manifest or a config.json. */
int model_read(const char *path, struct model *model);

/* A linear layer: `names` of the layers of this shape, comma-separated, e.g. "qkv/tp2, o". */
struct model_layer {
    char names[256];
    int64_t n, k;
    bool bias;
};
#define MODEL_LAYERS_MAX 88 /* 11 kinds for each of at most 8 ways to split */

/*
 * The layers of a model for each of `tp_count` ways of splitting it over GPUs; equal shapes are
 * merged. qkv, gate_up and lm_head split N; o and down split K. A key or value head that is shared
 * by more GPUs than there are such heads is repeated, as hosts do. Of a latent, what squeezes into
 * it (qkv_a) is every GPU's; what comes out of it (q_b, kv_b) splits N by heads.
 */
#define MODEL_TP_MAX 8
int model_layers(const struct model *model, const int *tp, size_t tp_count,
                 struct model_layer layers[MODEL_LAYERS_MAX], size_t *count);

/* Reads "1,2,4,8". */
int model_parse_tp(const char *text, int tp[MODEL_TP_MAX], size_t *count);

#endif
