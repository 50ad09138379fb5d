/* SPDX-License-Identifier: MIT */
/* A Hugging Face config.json as a model: sizes of its layers, and how its weights are quantised. */
#ifndef TOOLS_HF_CONFIG_H
#define TOOLS_HF_CONFIG_H

#include "files/json_file.h"
#include "model/model.h"

#include <stdbool.h>

/* Whether a JSON object is such a file: it has a model_type, or a hidden_size. */
bool hf_config_is(const json_t *root);

/*
 * Fills in everything but the name. Dense models, and mixtures of experts, attention with a latent
 * (MLA) too; models some of whose layers are no attention (state spaces, linear attention) are
 * refused. quantization_config becomes schemes, and says which layers have which
 * (hf_quantisation.h).
 */
int hf_config_read(const json_t *root, const char *path, struct model *model);

/* Reads what it says of experts alone; of a model without them, that there are none. */
int hf_config_mixture(const json_t *root, const char *path, struct model_mixture *mixture);

#endif
