/* SPDX-License-Identifier: MIT */
/*
 * The quantization_config of a Hugging Face config.json: how weights are quantised, and which
 * layers are not, or otherwise.
 */
#ifndef TOOLS_HF_QUANTISATION_H
#define TOOLS_HF_QUANTISATION_H

#include "model/model.h"

#include <jansson.h>

/* The problem word of a type by torch's name, in type[8]; another name leaves it as it is. */
void hf_quantisation_type(const char *name, char *type);

/*
 * Fills in the model's schemes and uses; its sizes and type are known. `text` is the root or its
 * text_config. What a list has that is not understood, or names no layer, is noted with its key.
 */
int hf_quantisation_read(const json_t *root, const json_t *text, const char *path, struct model *m);

#endif
