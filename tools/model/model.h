/* SPDX-License-Identifier: MIT */
/*
 * Model manifests: the few numbers of a transformer that say how big its linear layers are.
 *
 *   {"quern_model":1, "name":"qwen3-4b", "hidden":2560, "intermediate":9728, "heads":32,
 *    "kv_heads":8, "head_dim":128, "layers":36, "vocabulary":151936,
 *    "experts":{"count":128, "intermediate":768, "top_k":8}}
 *
 * With `experts` (optional) `intermediate` may be left out; when it is there too, the model has
 * layers of both kinds. quern-prewarm(1) has all members. Others are ignored.
 *
 * A Hugging Face config.json is read as well, and says how the weights are quantised (hf_config.h).
 */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include "command/command.h"

#include <stdbool.h>

/* Values of problem words that a model's file implies; "" where it says nothing. */
struct model_words {
    char wq[16], group[24], scale[16], zero[16], a[16], c[16];
};

/* How weights are quantised, or why no problem describes that ("" when one does). */
struct model_scheme {
    struct model_words words;
    char reason[256];
};

/* Attention through a latent (MLA): the widths of the latents of q, and of k and v, and of a head's
 * parts. */
struct model_latent {
    int64_t q; /* 0: q has no latent */
    int64_t kv, nope, rope, value;
};

/* The routed experts of a mixture's layer, and how a token goes through them. */
struct model_mixture {
    int64_t experts; /* of a layer; 0: the model is no mixture */
    int64_t top_k;   /* so many of them are for each token; 0: the file does not say */
    /* What follows gate and up, as problem words act and glu; "" where no kernel does it. */
    char act[16], glu[16];
};

/* Linear layers by their place in a model. */
enum model_place {
    PLACE_QKV,
    PLACE_Q, /* this one and the next three: of a latent */
    PLACE_QKV_A,
    PLACE_KV_A,
    PLACE_Q_B,
    PLACE_KV_B,
    PLACE_O,
    PLACE_GATE_UP,
    PLACE_DOWN,
    PLACE_EXPERT_GATE_UP,
    PLACE_EXPERT_DOWN,
    PLACE_SHARED_GATE_UP,
    PLACE_SHARED_DOWN,
    PLACE_HEAD,
    PLACES
};

/* A layer that the model has: all at a place, or one of the parts of a fused layer, where these are
 * not quantised alike. */
struct model_use {
    enum model_place place;
    int part;      /* -1: all */
    size_t scheme; /* index of the model's schemes */
    bool apart;    /* of experts, those of one layer are not all quantised alike */
};

#define MODEL_PLAIN       0 /* the scheme of layers that a quantised model leaves as they are */
#define MODEL_SCHEMES_MAX 32
#define MODEL_USES_MAX    64
struct model {
    char name[64];
    int64_t hidden, intermediate; /* intermediate 0: experts only */
    int64_t heads, kv_heads, head_dim, layers, vocabulary;
    struct model_mixture mixture;
    int64_t expert_intermediate; /* 0: there are no experts */
    int64_t shared_intermediate; /* of an expert beside those, for every token; 0: none */
    struct model_latent latent;  /* kv 0: none, and heads are as above */
    bool qkv_bias, o_bias, mlp_bias, expert_bias, head_bias; /* which layers add one */
    bool ungated;      /* the feed-forward has no gate: up alone stands for gate_up */
    char type[8];      /* of the activations; "" where the file does not say */
    bool type_assumed; /* a config.json that does not say means bf16, as its readers take it */
    size_t scheme_count;
    struct model_scheme schemes[MODEL_SCHEMES_MAX]; /* MODEL_PLAIN, and those of the file */
    size_t use_count;                               /* 0: all layers there are, and all alike */
    struct model_use uses[MODEL_USES_MAX];
};

#define MODEL_LAYERS_MAX  10000 /* far more than any published model has */
#define MODEL_EXPERTS_MAX ((int64_t)1 << 16)

/* Reads and checks a manifest or a config.json. */
int model_read(const char *path, struct model *model);

/* Reads what the config.json in the directory of the file `path` says of experts; *mixture says
 * that there are none where there is no such file. */
int model_mixture_beside(const char *path, struct model_mixture *mixture);

/* Whether the model has a layer at that place, and of how many parts it is fused. */
bool model_has(const struct model *model, enum model_place place);
int model_parts(const struct model *model, enum model_place place);

/* Adds a layer unless it is there, or a scheme, whose number *index becomes. */
int model_add_use(struct model *model, const char *path, struct model_use use);
int model_add_scheme(struct model *model, const char *path, const struct model_scheme *scheme,
                     size_t *index);

/* A linear layer: `names` of the layers of this shape, comma-separated, e.g. "qkv/tp2, o"; or all
 * layers of a way to split the model that there is not, and then the reason, and no shape. */
struct model_layer {
    char names[256];
    int64_t n, k;
    bool bias;
    size_t scheme;
    int tp; /* of the first name */
    char reason[160];
    /* Of the routed experts of a mixture, n and k are one expert's, and op=moe does them all: */
    int64_t experts;       /* so many; 0: the layer is none of them */
    int64_t top_k;         /* experts for each row of A */
    int64_t rows;          /* of A, for each token */
    const char *act, *glu; /* problem words, of the model; "" */
    const char *single;    /* why one launch cannot do them all; null: it can */
};

/*
 * The layers of a model for each of `tp_count` ways of splitting it over GPUs; equal ones are
 * merged. qkv, gate_up and lm_head split N; o and down split K. A key or value head that is shared
 * by more GPUs than there are such heads is repeated, as hosts do. Of a latent, what squeezes into
 * it (qkv_a) is every GPU's; what comes out of it (q_b, kv_b) splits N by heads.
 */
#define MODEL_TP_MAX       8
#define MODEL_PROBLEMS_MAX (MODEL_USES_MAX * MODEL_TP_MAX)
void model_layers(const struct model *model, const int *tp, size_t tp_count,
                  struct model_layer layers[MODEL_PROBLEMS_MAX], size_t *count);

/* Reads "1,2,4,8". */
int model_parse_tp(const char *text, int tp[MODEL_TP_MAX], size_t *count);

#endif
