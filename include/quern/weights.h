/* SPDX-License-Identifier: MIT */
/*
 * The operands of a layer, for hosts that load weights themselves: which there are and how large,
 * quantising and importing them on the CPU, and the arguments of a launch made of them.
 * quern_repack, of quern.h, belongs to them. What quern.h says of versions holds here too.
 */
#ifndef QUERN_WEIGHTS_H
#define QUERN_WEIGHTS_H

#include <quern/quern.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Operands -------------------------------------------------------------------------------- */

/* The most operands that any problem has, in this version and in every later one. */
#define QUERN_OPERANDS_MAX 16

/* An operand of a problem; strings live for ever. This struct never changes: what a later version
 * knows of operands beyond it gets a function of its own. */
struct quern_operand {
    const char *name;  /* as in struct quern_args and docs/formats.md */
    const char *dtype; /* "u8", "i32", or a type as problem text spells it */
    int rank;          /* dimensions in `shape` */
    int64_t shape[3];
    uint64_t bytes;
    int access;  /* QUERN_READ or QUERN_WRITE, as quern_buffer_create takes it */
    int weights; /* 1: one of those that quern_quantize makes */
};

/*
 * The operands of a problem at m packed rows, in the order in which kernels take them; at most
 * QUERN_OPERANDS_MAX. Does not block. QUERN_E_PROBLEM; QUERN_E_ARGUMENT for an m that no launch
 * has, and for op=moe without block_rows, on which its operands depend.
 */
QUERN_API quern_status quern_problem_operands(const struct quern_problem *problem, int64_t m,
                                              struct quern_operand *operands, size_t *count);

/*
 * Sets, or gets, the member of *args for the operand of that name. Neither blocks. For a name that
 * no operand has the one returns QUERN_E_ARGUMENT and the other null.
 */
QUERN_API quern_status quern_args_set(struct quern_args *args, const char *name,
                                      const void *address);
QUERN_API void *quern_args_get(const struct quern_args *args, const char *name);

/*
 * Makes the arguments of a launch of packed rows: addresses[i] is that of the operand that
 * quern_problem_operands gives at i, of which there are `count`. Every other member of *args is
 * null or 0, but `size`, which the caller has set. Does not block. QUERN_E_ARGUMENT: `count` is not
 * the number of the problem's operands, or one of them is null; the message names it.
 * QUERN_E_PROBLEM.
 */
QUERN_API quern_status quern_problem_args(const struct quern_problem *problem,
                                          const void *const *addresses, size_t count,
                                          struct quern_args *args);

/* ---- Mixtures of experts --------------------------------------------------------------------- */

/*
 * For op=moe, whose problem has the block_rows B that quern_op_block_rows gives for m rows of A,
 * and for op=moe_align, whose kernel writes what quern_moe_align does. quern_moe_slots: how many
 * slots `rows` has at most, V choices of m·top_k among them: ⌈min(V + E·(B−1), V·B) ÷ B⌉·B with E
 * experts. quern_moe_align puts choices into blocks on the CPU: topk_ids, i32 [m, top_k], are the
 * experts of each token; rows [slots], experts [slots / B] and rows_used [1] are written as struct
 * quern_args describes them, with the choices of an expert in ascending order, experts of unused
 * blocks -1, and ids that are no expert's in no block. Neither blocks. Thread-safe. Errors:
 * QUERN_E_PROBLEM, QUERN_E_ARGUMENT.
 */
QUERN_API quern_status quern_moe_slots(const struct quern_problem *problem, int64_t m,
                                       int64_t *slots);
QUERN_API quern_status quern_moe_align(const struct quern_problem *problem, int64_t m,
                                       const int32_t *topk_ids, int32_t *rows, int32_t *experts,
                                       int32_t *rows_used);

/* ---- Quantisation (CPU) ---------------------------------------------------------------------- */

/* One operand written by quern_quantize; `data` is malloc'ed. This struct never changes. */
struct quern_quantized {
    const char *name;
    void *data;
    size_t bytes;
};

/*
 * Quantises w, f32 [N,K], as the problem says, on all CPUs, and blocks. NaNs and infinities in w
 * are not looked for: they spoil the weights that share a scale with them, and no error tells.
 * Writes at most QUERN_OPERANDS_MAX elements of `operands`, sets *count to their number, and leaves
 * both alone if it fails; free them with quern_quantized_free. Thread-safe. Errors:
 * QUERN_E_PROBLEM, QUERN_E_DECLINED, QUERN_E_ARGUMENT, QUERN_E_MEMORY.
 */
QUERN_API quern_status quern_quantize(const struct quern_problem *problem, const float *w,
                                      struct quern_quantized *operands, size_t *count);
QUERN_API void quern_quantized_free(struct quern_quantized *operands, size_t count);

/* The exact values of quantised weights, f32 [N,K] (every format's values fit in f32). `operands`
 * are those that quern_quantize or quern_import gives, in any order. Blocks; thread-safe. Errors:
 * QUERN_E_PROBLEM, QUERN_E_DECLINED, QUERN_E_ARGUMENT (a null argument), QUERN_E_BUFFER (an operand
 * is missing, or has another size). */
QUERN_API quern_status quern_dequantize(const struct quern_problem *problem,
                                        const struct quern_quantized *operands, size_t count,
                                        float *w);

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* gptq stores zero points less one, gptq_v2 as they are. */
enum quern_checkpoint_kind {
    QUERN_CHECKPOINT_GPTQ = 1,
    QUERN_CHECKPOINT_GPTQ_V2,
    QUERN_CHECKPOINT_AWQ,
    QUERN_CHECKPOINT_COMPRESSED /* weight_packed, weight_scale, weight_zero_point, weight_g_idx */
};

/* The tensors of one int4 layer, as a checkpoint holds them (docs/formats.md). */
struct quern_checkpoint {
    size_t size;
    enum quern_checkpoint_kind kind;
    const void *qweight, *scales; /* 4-byte aligned */
    const void *qzeros;           /* may be null for zero=none */
    const void *g_idx;            /* may be null */
    size_t qweight_bytes, scales_bytes, qzeros_bytes, g_idx_bytes;
};
#define QUERN_CHECKPOINT_SIZE_MIN QUERN_SIZE_TO(struct quern_checkpoint, g_idx_bytes)

/*
 * Brings a layer into the operands of an int4 problem: b in its layout, scales, zeros, and, when
 * g_idx orders the columns otherwise than by k/group, `perm`, u32 [K]: column j of b is column
 * perm[j] of the checkpoint, and A must be permuted alike. Free with quern_quantized_free. Blocks.
 * Errors: QUERN_E_ARGUMENT names the tensor, and says what was expected;
 * QUERN_E_DECLINED when g_idx makes groups of unequal size.
 */
QUERN_API quern_status quern_import(const struct quern_problem *problem,
                                    const struct quern_checkpoint *checkpoint,
                                    struct quern_quantized *operands, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
