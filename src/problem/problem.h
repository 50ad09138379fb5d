/* SPDX-License-Identifier: MIT */
/* The problem record: defaults, validation, words. quern.h declares the struct itself. */
#ifndef QUERN_PROBLEM_PROBLEM_H
#define QUERN_PROBLEM_PROBLEM_H

#include "base/error.h"

#include <quern/quern.h>
#include <stdbool.h>

/* Largest N and K: element offsets of [N,K] operands then fit in 62 bits. */
#define PROBLEM_MAX_DIMENSION ((int64_t)1 << 30)
/* The most weights of all experts of op=moe together, whose bytes are then 2^62 at most. */
#define PROBLEM_WEIGHTS_MAX ((int64_t)1 << 60)
/* The most experts of op=moe, choices of a row of A among them, and rows of a block. */
#define PROBLEM_EXPERTS_MAX    1024
#define PROBLEM_TOP_K_MAX      64
#define PROBLEM_BLOCK_ROWS_MAX 128
/* The most choices that a launch of op=moe_align puts into blocks. */
#define PROBLEM_ALIGNED_MAX 65536

/* Views a caller's problem as this version's struct. *view becomes `in`, or `own`, with a copy,
 * where the caller was compiled against a struct of another size. QUERN_E_ARGUMENT: that size is
 * wrong. */
quern_status problem_view(const struct quern_problem *in, struct quern_problem *own,
                          const struct quern_problem **view);

/* Reads *in like problem_view, fills in every default, and checks it. The two may be the same. */
quern_status problem_normalise(const struct quern_problem *in, struct quern_problem *out);

/* The same for element `index` of a caller's array. */
quern_status problem_normalise_at(const struct quern_problem *array, size_t index,
                                  struct quern_problem *out);

/* The canonical text of a normalised problem. */
void problem_text(const struct quern_problem *normal, char text[QUERN_TEXT_MAX]);

/* Whether a word applies to a normalised problem (a word that does not is never printed). */
bool problem_has_group(const struct quern_problem *p);
bool problem_has_scale(const struct quern_problem *p);
bool problem_has_zero(const struct quern_problem *p);
bool problem_has_activation(const struct quern_problem *p);
bool problem_has_weights(const struct quern_problem *p);
/* Whether a problem of op=moe or op=moe_align, whose rows are choices in blocks of one expert. */
bool problem_has_experts(const struct quern_problem *p);

/* Weights along K that share a scale, for a normalised problem with groups; group=channel gives K.
 */
int64_t problem_group(const struct quern_problem *p);

/* With scale=block128 so many rows of W, and columns, share a scale, and so many columns of a row
 * of A in fp8. problem_scale_blocks: how many blocks cover n rows or columns; the last may be
 * smaller. */
#define PROBLEM_BLOCK 128
static inline int64_t problem_scale_blocks(int64_t n)
{
    return (n + PROBLEM_BLOCK - 1) / PROBLEM_BLOCK;
}

/* Columns of C of a normalised problem with activations: N, or N/2 where pairs of rows of W become
 * one. */
int64_t problem_columns(const struct quern_problem *p);

/* Such a problem's row of W that counts as number `row` where gate and up of a pair are neighbours,
 * gate first: as they stand if they are interleaved. */
int64_t problem_weight_row(const struct quern_problem *p, int64_t row);

/* Whether gate and up of a pair lie less than 2 GiB apart in b, so that what lanes add to an
 * address that they share fits 32 bits. */
bool problem_pairs_near(const struct quern_problem *p);

/*
 * Of a normalised problem and m rows of A: rows of C; with experts the choices, m times top_k. And
 * the most rows of A that a launch has: so many that a row of C fits 31 bits; of op=moe_align
 * fewer.
 */
int64_t problem_results(const struct quern_problem *p, int64_t m);
int64_t problem_rows_max(const struct quern_problem *p);
/* QUERN_E_ARGUMENT: a launch of a normalised problem has no such number of rows. */
quern_status problem_check_rows(const struct quern_problem *p, int64_t m);
/* Of a problem with experts and block_rows, and m rows of A: the most slots that blocks for so many
 * choices have together, and how many blocks that is. */
int64_t problem_slots(const struct quern_problem *p, int64_t m);
int64_t problem_blocks(const struct quern_problem *p, int64_t m);
/* The layer of one expert of op=moe: its weights' bytes, operands and products are those of this
 * op=gemm. A problem of another op is returned as it is. */
struct quern_problem problem_of_expert(const struct quern_problem *p);

/* The type of the weights of layout dense: fp8, or that of A. */
enum quern_dtype problem_weight_type(const struct quern_problem *p);

/* The type of int4's scales, and of scaled zero points; f32 for the scales of other kinds, but for
 * MXFP4's, which are bytes. */
enum quern_dtype problem_scale_type(const struct quern_problem *p);

/* Equality and a hash of normalised problems. */
bool problem_equal(const struct quern_problem *p, const struct quern_problem *q);
uint64_t problem_hash(const struct quern_problem *p);

/* Size of one element in bytes; names as in problem text. */
static inline unsigned dtype_bytes(enum quern_dtype t)
{
    switch (t) {
    case QUERN_F32:
        return 4;
    case QUERN_F16:
    case QUERN_BF16:
        return 2;
    case QUERN_DT_FP8:
    case QUERN_DT_FP8FNUZ:
        return 1;
    }
    return 0;
}
const char *dtype_name(enum quern_dtype t);
const char *op_name(enum quern_op_kind op);
const char *act_name(enum quern_act act);
const char *glu_name(enum quern_glu glu);
const char *weight_name(enum quern_weight w);

/* Whether weights are codes of bitsandbytes' tables of sixteen values: NF4 and FP4, in layout bnb,
 * with plain or nested absmax over W flattened. */
bool weight_is_table(enum quern_weight w);
const char *layout_name(enum quern_layout layout);

#endif
