/* SPDX-License-Identifier: MIT */
/* Contexts, operands and temporary directories for tests. Everything fails the test on trouble. */
#ifndef T_CONTEXT_H
#define T_CONTEXT_H

#include <quern/tool.h>

#include <stdbool.h>

/* A new directory of mode 0700; t_remove takes it away with all it holds. The string is malloc'ed.
 */
char *t_temp_dir(void);
void t_remove(char *directory);

/* A directory for the cache of tests that do not care whether a kernel was compiled or found, and
 * cmocka's group fixtures that make and remove it. It is T_CACHE of the environment where that is
 * set, and then it stays: programs of all builds share what was compiled. */
extern char *t_cache;
int t_cache_make(void **state);
int t_cache_remove(void **state);

/* Whether QUERN_DEVICE=hip: the program was linked to run on a HIP runtime (tests/fakehip). */
bool t_on_hip(void);

/* A context on the software GPU of `target`, or (t_on_hip) on the first GPU that is one, with its
 * cache in `directory`. */
quern_ctx *t_open(const char *target, const char *directory, enum quern_jit jit);

/* The same for a target that no software GPU here need run: to compile and look at kernels. */
quern_ctx *t_open_unverified(const char *target, const char *directory);

/* A context on GPU `index` of the HIP runtime. */
quern_ctx *t_open_hip(int index, const char *directory, enum quern_jit jit);
/* The same of the CUDA driver. */
quern_ctx *t_open_cuda(int index, const char *directory, enum quern_jit jit);

/* Fails the test unless the last error's message has this part. */
void t_message_has(const char *part);

/* Parses a problem text. */
struct quern_problem t_problem(const char *text);

/* What quern_op_ready says once an op's kernels are made or have failed, half an hour at most. */
quern_status t_wait_ready(quern_op *op);

/* The op of a problem's kernel for tiles (family mma_tile) alone; its slices have *tile rows. */
quern_status t_tile_op(quern_ctx *ctx, const char *target, const char *text, quern_op **op,
                       int *tile);

/* Operands of a launch with leading dimensions, in memory of the context's device. */
struct t_layer {
    quern_ctx *ctx;
    struct quern_problem problem;
    int64_t m, lda, ldc;
    uint8_t *c; /* the result, once t_layer_error has been called */
    size_t c_bytes;
    void *memory[QUERN_OPERANDS_MAX + 3];
    quern_buffer *buffer[QUERN_OPERANDS_MAX], *c_buffer;
    size_t allocated, placed;
    struct quern_args args;
    double *reference; /* as C, packed */
};
/* lda, ldc: 0 for packed. */
void t_layer_make(struct t_layer *l, quern_ctx *ctx, const struct quern_problem *p, int64_t m,
                  int64_t lda, int64_t ldc, uint64_t seed);
/* The same, packed, with operands that `edit` has changed after they were filled. */
union operand_pointers;
typedef void (*t_edit)(void *user, const struct quern_problem *p, int64_t m,
                       const union operand_pointers *operands);
void t_layer_make_edited(struct t_layer *l, quern_ctx *ctx, const struct quern_problem *p,
                         int64_t m, t_edit edit, void *user, uint64_t seed);
/* The same, with `offset` added to every value of A. */
void t_layer_make_offset(struct t_layer *l, quern_ctx *ctx, const struct quern_problem *p,
                         int64_t m, float offset, uint64_t seed);
void t_layer_free(struct t_layer *l);
/* max |c - reference| / max |reference|, of the result as it is now on the device. */
double t_layer_error(const struct t_layer *l);
/* Launches an op with the layer's operands; fails the test unless the result is right. */
void t_launch_right(quern_op *op, struct t_layer *l);
/* Element j of row i of the result, once t_layer_error has been called. */
double t_layer_result(const struct t_layer *l, int64_t i, int64_t j);

#endif
