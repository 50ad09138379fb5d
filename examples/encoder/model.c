/* SPDX-License-Identifier: MIT */
#include "model.h"

#include "../fail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void join(char path[4096], const char *directory, const char *file)
{
    if (snprintf(path, 4096, "%s/%s", directory, file) >= 4096)
        fail("the path %s/%s is too long", directory, file);
}

/* ---- config.json ----------------------------------------------------------------------------- */

static json_t *read_json(const char *path)
{
    json_error_t error;
    json_t *const json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);

    if (!json)
        fail(error.line > 0 ? "cannot read %s: %s (line %d)" : "cannot read %s: %s", path,
             error.text, error.line);
    if (!json_is_object(json))
        fail("%s is not a JSON object", path);
    return json;
}

/* A member that is a whole number from 1 to `most`. Products of two sizes then fit in 62 bits. */
static size_t size_of(const json_t *json, const char *path, const char *name, size_t most)
{
    const json_t *const value = json_object_get(json, name);

    if (!json_is_integer(value))
        fail("%s: %s is missing or not a whole number", path, name);
    if (json_integer_value(value) < 1 || (size_t)json_integer_value(value) > most)
        fail("%s: %s is %lld; expected 1 to %zu", path, name, (long long)json_integer_value(value),
             most);
    return (size_t)json_integer_value(value);
}

/* A member that, where it is given, can only be this. */
static void expect(const json_t *json, const char *path, const char *name, const char *expected)
{
    const json_t *const value = json_object_get(json, name);

    if (value && (!json_is_string(value) || strcmp(json_string_value(value), expected)))
        fail("%s: %s is %s; this program knows \"%s\" only", path, name,
             json_is_string(value) ? json_string_value(value) : "no string", expected);
}

static void read_config(struct model *m, const char *directory)
{
    char path[4096];

    join(path, directory, "config.json");
    json_t *const json = read_json(path);
    expect(json, path, "model_type", "bert");
    expect(json, path, "hidden_act", "gelu");
    expect(json, path, "position_embedding_type", "absolute");
    m->hidden = size_of(json, path, "hidden_size", 1 << 16);
    m->intermediate = size_of(json, path, "intermediate_size", 1 << 18);
    m->layers = size_of(json, path, "num_hidden_layers", 1000);
    m->heads = size_of(json, path, "num_attention_heads", m->hidden);
    m->positions = size_of(json, path, "max_position_embeddings", 1 << 20);
    m->types = size_of(json, path, "type_vocab_size", 1 << 10);
    m->vocabulary = size_of(json, path, "vocab_size", 1 << 24);
    if (m->hidden % m->heads)
        fail("%s: hidden_size %zu is not a multiple of num_attention_heads %zu", path, m->hidden,
             m->heads);
    if (m->positions < 2)
        fail("%s: max_position_embeddings is 1; [CLS] and [SEP] alone need 2", path);
    const json_t *const epsilon = json_object_get(json, "layer_norm_eps");
    m->norm_epsilon = epsilon ? json_number_value(epsilon) : 1e-12;
    if (!(m->norm_epsilon > 0 && m->norm_epsilon < 1))
        fail("%s: layer_norm_eps is not a number between 0 and 1", path);
    json_decref(json);

    /* what the model was trained for can be shorter than what its position table allows */
    m->token_limit = m->positions;
    join(path, directory, "sentence_bert_config.json");
    if (access(path, F_OK) == 0) {
        json_t *const sentence = read_json(path);
        const size_t limit = size_of(sentence, path, "max_seq_length", 1 << 20);
        if (limit >= 2 && limit < m->token_limit)
            m->token_limit = limit;
        json_decref(sentence);
    }
}

/* ---- model.safetensors ----------------------------------------------------------------------- */

static const float *vector(const struct model *m, const char *name, size_t size)
{
    return safetensors_f32(m->file, name, 1, &size);
}

static const float *matrix(const struct model *m, const char *name, size_t rows, size_t columns)
{
    return safetensors_f32(m->file, name, 2, (const size_t[]){rows, columns});
}

static struct norm norm_of(const struct model *m, const char *prefix)
{
    char name[256];
    struct norm norm;

    snprintf(name, sizeof name, "%s.LayerNorm.weight", prefix);
    norm.weight = vector(m, name, m->hidden);
    snprintf(name, sizeof name, "%s.LayerNorm.bias", prefix);
    norm.bias = vector(m, name, m->hidden);
    return norm;
}

static struct linear linear_of(const struct model *m, const char *prefix, size_t outputs,
                               size_t inputs)
{
    struct linear linear = {.outputs = outputs, .inputs = inputs};
    char name[256];

    snprintf(name, sizeof name, "%s.weight", prefix);
    linear.weight = matrix(m, name, outputs, inputs);
    snprintf(name, sizeof name, "%s.bias", prefix);
    linear.bias = vector(m, name, outputs);
    return linear;
}

static void find_layer(struct model *m, size_t layer)
{
    static const char *const names[LINEARS_PER_LAYER] = {
        [QUERY] = "attention.self.query",      [KEY] = "attention.self.key",
        [VALUE] = "attention.self.value",      [ATTENTION_OUTPUT] = "attention.output.dense",
        [INTERMEDIATE] = "intermediate.dense", [OUTPUT] = "output.dense",
    };
    char prefix[128];

    for (int role = 0; role < LINEARS_PER_LAYER; role++) {
        snprintf(prefix, sizeof prefix, "encoder.layer.%zu.%s", layer, names[role]);
        m->linear[layer * LINEARS_PER_LAYER + (size_t)role] =
            linear_of(m, prefix, role == INTERMEDIATE ? m->intermediate : m->hidden,
                      role == OUTPUT ? m->intermediate : m->hidden);
    }
    snprintf(prefix, sizeof prefix, "encoder.layer.%zu.attention.output", layer);
    m->attention_norm[layer] = norm_of(m, prefix);
    snprintf(prefix, sizeof prefix, "encoder.layer.%zu.output", layer);
    m->output_norm[layer] = norm_of(m, prefix);
}

struct model *model_open(const char *directory)
{
    struct model *const m = allocate(1, sizeof *m);
    char path[4096];

    read_config(m, directory);
    join(path, directory, "vocab.txt");
    m->tokenizer = tokenizer_open(path);
    if (tokenizer_size(m->tokenizer) > m->vocabulary)
        fail("%s: %zu lines, but config.json has vocab_size %zu", path,
             tokenizer_size(m->tokenizer), m->vocabulary);
    join(path, directory, "model.safetensors");
    m->file = safetensors_open(path);
    m->words = matrix(m, "embeddings.word_embeddings.weight", m->vocabulary, m->hidden);
    m->position = matrix(m, "embeddings.position_embeddings.weight", m->positions, m->hidden);
    m->type = matrix(m, "embeddings.token_type_embeddings.weight", m->types, m->hidden);
    m->embedding_norm = norm_of(m, "embeddings");
    m->linear_count = m->layers * LINEARS_PER_LAYER;
    m->linear = allocate(m->linear_count, sizeof *m->linear);
    m->attention_norm = allocate(m->layers, sizeof *m->attention_norm);
    m->output_norm = allocate(m->layers, sizeof *m->output_norm);
    for (size_t layer = 0; layer < m->layers; layer++)
        find_layer(m, layer);
    return m;
}

void model_close(struct model *m)
{
    safetensors_close(m->file);
    tokenizer_close(m->tokenizer);
    free(m->linear);
    free(m->attention_norm);
    free(m->output_norm);
    free(m);
}
