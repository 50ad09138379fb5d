/* SPDX-License-Identifier: MIT */
/* The encoder itself: token ids in, one vector of length 1 out. */
#ifndef ENCODER_BERT_H
#define ENCODER_BERT_H

#include "backend.h"
#include "model.h"

/* Embeds the sentence ids[0…count-1], 1 <= count <= token_limit, into out[hidden]: the mean of the
 * last layer's token vectors, divided by its length. */
void bert_embed(const struct model *model, struct backend *backend, const int *ids, size_t count,
                double *out);

#endif
