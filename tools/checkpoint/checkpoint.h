/* SPDX-License-Identifier: MIT */
/*
 * The linear layers of a checkpoint, by the names and shapes of its tensors: GPTQ, AWQ,
 * compressed-tensors, bitsandbytes, MXFP4 blocks, fp8 with one scale, and plain matrices.
 */
#ifndef TOOLS_CHECKPOINT_H
#define TOOLS_CHECKPOINT_H

#include "files/safetensors.h"

#include <stdbool.h>

struct checkpoint_layer {
    char name[256];     /* without the last part: "model.layers.0.self_attn.q_proj" */
    const char *format; /* "gptq", "awq", "compressed-tensors", "bitsandbytes", "mxfp4", "fp8",
                         * "plain" */
    int64_t experts;    /* matrices of this shape in one tensor; 1 */
    bool act_order;     /* g_idx orders columns otherwise than by k/group */
    char problem[QUERN_TEXT_MAX]; /* canonical text; "" when there is none */
    char reason[512];             /* why there is none */
};

/*
 * Finds the layers, in the order of their names; *layers is malloc'ed. A tensor that belongs to a
 * layer and has a wrong type or shape is an error, with its name and what was expected; so are
 * scales that are no finite numbers. Layers that no problem describes (3 bits, groups of 16 …) have
 * a reason instead.
 */
int checkpoint_layers(const struct safetensors *s, struct checkpoint_layer **layers, size_t *count);

/* Prints them as a table, those that are alike but for numbers in their names in one row; false
 * when memory is short. */
bool checkpoint_print(const struct checkpoint_layer *layers, size_t count);

/* Whether a file is one of several, which share a checkpoint's tensors between them as it comes:
 * model-00002-of-00004.safetensors. */
bool checkpoint_is_part(const char *path);

#endif
