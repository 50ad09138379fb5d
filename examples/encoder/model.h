/* SPDX-License-Identifier: MIT */
/* A BERT sentence encoder as its files describe it: sizes from config.json, weights in place. */
#ifndef ENCODER_MODEL_H
#define ENCODER_MODEL_H

#include "../safetensors.h"
#include "tokenizer.h"

#include <stddef.h>

/* y = x . weight^T + bias; weight is [outputs][inputs]. */
struct linear {
    const float *weight, *bias;
    size_t outputs, inputs;
};

struct norm {
    const float *weight, *bias;
};

/* The linear layers of one encoder layer, in the order they are used. */
enum linear_role { QUERY, KEY, VALUE, ATTENTION_OUTPUT, INTERMEDIATE, OUTPUT, LINEARS_PER_LAYER };

struct model {
    size_t hidden, intermediate, layers, heads, positions, types, vocabulary;
    size_t token_limit; /* of a sentence, [CLS] and [SEP] included */
    double norm_epsilon;
    const float *words, *position, *type; /* embeddings: [vocabulary | positions | types][hidden] */
    struct norm embedding_norm;
    struct norm *attention_norm, *output_norm; /* [layers] */
    struct linear *linear;                     /* [layers · LINEARS_PER_LAYER] */
    size_t linear_count;
    struct tokenizer *tokenizer;
    struct safetensors *file;
};

/* Reads config.json, model.safetensors, vocab.txt and, if it is there, sentence_bert_config.json of
 * a directory. Fails with a message. */
struct model *model_open(const char *directory);
void model_close(struct model *model);

#endif
