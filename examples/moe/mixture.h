/* SPDX-License-Identifier: MIT */
/* A feed-forward network as a mixture of experts, by quern: two launches for all experts. */
#ifndef MOE_MIXTURE_H
#define MOE_MIXTURE_H

#include "feed_forward.h"

#define EXPERTS 8
#define TOP_K   8 /* experts of a token */

struct mixture;

/* How choices were put into blocks. */
struct mixture_blocks {
    int rows;           /* of a block */
    int64_t slots;      /* at most */
    int32_t slots_used; /* by mixture_apply's last call */
};

/*
 * Splits a network of NF4 weights into EXPERTS along `wide`, and places them on the context's
 * device, with memory for so many tokens: may block, as kernels may be compiled. The context must
 * outlive it; the weights are copied.
 */
struct mixture *mixture_make(quern_ctx *ctx, const struct feed_forward *f, size_t tokens);
void mixture_free(struct mixture *m);

/* y, [tokens][hidden], is for each token the sum of its experts' results, each times the weight
 * that a router gave the expert: topk_ids and topk_weights are [tokens][TOP_K]. An id that is no
 * expert's adds nothing. */
void mixture_apply(struct mixture *m, const float *x, const int32_t *topk_ids,
                   const float *topk_weights, float *y);
struct mixture_blocks mixture_blocks(const struct mixture *m);

#endif
