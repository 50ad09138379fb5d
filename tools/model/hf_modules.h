/* SPDX-License-Identifier: MIT */
/*
 * The names that the transformers library gives a model's linear layers, which lists of what is and
 * is not quantised speak of: model.layers.0.self_attn.q_proj.
 */
#ifndef TOOLS_HF_MODULES_H
#define TOOLS_HF_MODULES_H

#include "model/model.h"

#include <jansson.h>

struct hf_modules {
    const struct model *model;
    const json_t *text;            /* the config, or its text_config */
    bool nested;                   /* it is a text_config: the text model is part of another */
    bool sparse[MODEL_LAYERS_MAX]; /* which layers have experts, of a model that has some */
};

/* Finds which layers have experts, by members that several types of models have. Returns whether
 * any layer has none. */
bool hf_modules_find_sparse(const json_t *text, int64_t layers, bool sparse[MODEL_LAYERS_MAX]);

bool hf_modules_are_experts(enum model_place place);

/* Whether a model has a layer at a place in one of its layers, and how many experts it has there;
 * 0: the experts' weights are one tensor, whose name has no number. The head is in "layer" 0. */
bool hf_modules_at(const struct hf_modules *h, enum model_place place, int64_t layer);
int64_t hf_modules_experts(const struct hf_modules *h, enum model_place place);

/* Lists the names of a module, one part of a fused layer; part -1: those that engines give the
 * whole. A part of a multimodal model has several names, by the version of the library that wrote
 * the file. */
#define HF_NAMES_MAX  3
#define HF_NAME_BYTES 128
struct hf_module {
    enum model_place place;
    int part;
    int64_t layer, expert;
};
size_t hf_modules_names(const struct hf_modules *h, const struct hf_module *module,
                        char names[HF_NAMES_MAX][HF_NAME_BYTES]);

#endif
