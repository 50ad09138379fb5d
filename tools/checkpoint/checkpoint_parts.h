/* SPDX-License-Identifier: MIT */
/* How the readers of a checkpoint's layers look at tensors, and say what is wrong with them. */
#ifndef TOOLS_CHECKPOINT_PARTS_H
#define TOOLS_CHECKPOINT_PARTS_H

#include "checkpoint/checkpoint.h"

struct checkpoint_search {
    const struct safetensors *s;
    struct checkpoint_layer *layer; /* its name is known */
};

/* The layer's tensor of that suffix, or null. */
const struct tensor *checkpoint_part(const struct checkpoint_search *q, const char *suffix);
/* A layer lacks a part: an error, or a reason if that may be in another of a checkpoint's files. */
int checkpoint_missing(const struct checkpoint_search *q, const char *suffix, const char *beside);

/* "F16 [64,128]" */
void checkpoint_show(const struct tensor *t, char *text, size_t size);
/* Whether a tensor is of one of the types, each with a bar behind it ("F16|BF16|"), and of that
 * shape; d1 < 0: of one dimension. Else an error. */
int checkpoint_expect(const struct tensor *t, const char *dtypes, int64_t d0, int64_t d1);
/* A matrix of at least one row and column. */
int checkpoint_expect_matrix(const struct tensor *t);
bool checkpoint_has_bias(const struct checkpoint_search *q, int64_t n);

/* The problem word of F16, BF16 or F32. */
const char *checkpoint_type_word(const char *dtype);
/* Sets the layer's problem to the canonical text of these words, or its reason to why they are no
 * problem. */
void checkpoint_set_problem(const struct checkpoint_search *q, const char *text);

/* Layers whose weights are not packed, or are MXFP4's blocks: checkpoint_plain.c. */
int checkpoint_read_plain(const struct checkpoint_search *q, const struct tensor *weight);
int checkpoint_read_experts(const struct checkpoint_search *q, const struct tensor *weights);
int checkpoint_read_mxfp4(const struct checkpoint_search *q, const struct tensor *blocks);

#endif
