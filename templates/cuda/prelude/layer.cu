/* SPDX-License-Identifier: MIT */
// The numbers of the layer. They are constants, or in a base kernel (KNOWN is 0) arguments, the
// first of all: N, K, BLOCK and BLOCKS are then macros that read them from `the_layer`, which every
// function that names one of those gets as its first parameter. So what is computed from those is a
// macro in families that have base kernels, and what must be a constant asks for KNOWN before it
// asks for them.

#if KNOWN
#define LAYER_OPERANDS
#define LAYER_PARAMETER
#define LAYER_NAME
#define ENTER_LAYER
#define HAS_BIAS true
#define BLOCKS   (K / BLOCK) // of a row
#else
struct layer_numbers {
    u32 n, k;
    u32 block_shift; // weights that share a scale, as a power of two
    u32 blocks;      // of a row
    u32 has_bias;
};
// Constants at the top name it where their value does not depend on it. There is no such variable:
// a function that forgot the parameter would not link.
extern const layer_numbers the_layer;
#define LAYER_OPERANDS                                                                             \
    u32 layer_n, u32 layer_k, u32 layer_block_shift, u32 layer_blocks, u32 layer_has_bias,         \
        u32 layer_truncate,
#define LAYER_PARAMETER const layer_numbers &the_layer,
#define LAYER_NAME      the_layer,
#define ENTER_LAYER                                                                                \
    const layer_numbers the_layer = {layer_n, layer_k, layer_block_shift, layer_blocks,            \
                                     layer_has_bias};
#define layer()  (&the_layer)
#define HAS_BIAS (the_layer.has_bias != 0)
#define BLOCKS   (the_layer.blocks)
#endif

// Where the scales of row n of W begin, and how many all of W has, where each row has its own.
#define SCALE_ROW(n)       ((n) * BLOCKS)
#define SCALE_COUNT        ((u64)N * BLOCKS)
#define NEIGHBOURS_AT_ONCE true // whether scales of neighbours are aligned for loads of several
#define A_BLOCK_SCALED     0

constexpr u32 NO_ROW = ~0u; // of C: results are not stored

// Gate and up, two rows of W, become a column of C where there is a GLU. A kernel counts rows so
// that the two are neighbours, the gate first, at 2i and 2i + 1; W_ROW is where such a row stands
// in W, and so with its scales and its bias. The sum of two rows, of which the first is even, has
// the sum of their places. C_COLUMN is where the result of row n goes, if HAS_COLUMN.
#if GLU && GLU_HALVES
#define W_ROW(n) ((u64)((n) / 2) + (n) % 2 * (u64)(N / 2))
#else
#define W_ROW(n) (n)
#endif
#if GLU
#define C_COLUMN(n)   ((n) / 2)
#define HAS_COLUMN(n) ((n) % 2 == 0)
#else
#define C_COLUMN(n)   (n)
#define HAS_COLUMN(n) true
#endif
