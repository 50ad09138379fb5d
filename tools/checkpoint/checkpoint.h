/* SPDX-License-Identifier: MIT */
/*
 * The linear layers of a checkpoint, by the names and shapes of its tensors: GPTQ, AWQ,
 * compressed-tensors, bitsandbytes, MXFP4 blocks, fp8 with one scale, and plain matrices.
 */
#ifndef TOOLS_CHECKPOINT_H
#define TOOLS_CHECKPOINT_H

#include "files/safetensors.h"
#include "model/model.h"

#include <stdbool.h>

struct checkpoint_layer {
    char name[256];     /* without the last part: "model.layers.0.self_attn.q_proj", or of the
                         * experts of a layer "model.layers.0.mlp.experts.gate_proj+up_proj" */
    const char *format; /* "gptq", "awq", "compressed-tensors", "bitsandbytes", "mxfp4", "fp8",
                         * "plain" */
    int64_t experts;    /* matrices of this shape; 1 unless it is of all experts of a layer */
    bool act_order;     /* g_idx puts columns into other groups than k/group does */
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

/* Whether some of the layers are of routed experts. */
bool checkpoint_has_experts(const struct checkpoint_layer *layers, size_t count);

/*
 * Makes one layer of op=moe of all experts of a layer, whose model has these, and counts layers
 * anew. *left: for so many names of matrices (experts.N.w1 of one layer is one) the experts stay
 * layers of their own, because they are not all there, or not alike, or no problem describes them.
 */
int checkpoint_stack(struct checkpoint_layer *layers, size_t *count,
                     const struct model_mixture *mixture, size_t *left);

/* Prints layers as a table, with one row for all that differ only by numbers in their names; false
 * when memory is short. */
bool checkpoint_print(const struct checkpoint_layer *layers, size_t count);

/* Whether a file is one of several that have a checkpoint's tensors between them, by its name:
 * model-00002-of-00004.safetensors. A layer's tensors may then be in two files. */
bool checkpoint_is_part(const char *path);

#endif
