/* SPDX-License-Identifier: MIT */
// The numbers of the layer. They are constants, or in a base kernel (KNOWN is 0) arguments, the
// first of all: N, K, BLOCK and BLOCKS are then macros that read them. So what is computed from
// those and may depend on arguments is a macro in families that have base kernels, and what must be
// a constant asks for KNOWN before it asks for them.

#if KNOWN
#define LAYER_OPERANDS
#define HAS_BIAS       true
#define BLOCKS         (K / BLOCK) // of a row
#else
struct layer_numbers {
    u32 n, k;
    u32 block_shift; // weights that share a scale, as a power of two
    u32 blocks;      // of a row
    u32 has_bias, truncate;
};

// Scalar loads of what no kernel writes: the compiler keeps what it needs in registers.
typedef const __attribute__((address_space(4))) layer_numbers *layer_pointer;
// Constants at the top name it where their value does not depend on it, which the compiler allows
// in functions that are the host's, too.
__attribute__((host)) DEVICE layer_pointer layer()
{
    return (layer_pointer)__builtin_amdgcn_kernarg_segment_ptr();
}
#define LAYER_OPERANDS                                                                             \
    u32 layer_n, u32 layer_k, u32 layer_block_shift, u32 layer_blocks, u32 layer_has_bias,         \
        u32 layer_truncate,
#define HAS_BIAS (layer()->has_bias != 0)
#define BLOCKS   (layer()->blocks)
#endif

// With which of `steps` a reader begins, so that neighbours begin with different ones. A base
// kernel, which would have to divide, leaves out those beyond a power of two.
DEVICE u32 first_step(u32 reader, u32 steps)
{
    return KNOWN ? reader % steps : reader & ((0x80000000 >> __builtin_clz(steps)) - 1);
}

// The bias of row n of W. Without one, a base kernel loads something of `other`, where anything may
// be read, and throws it away: a branch would have to wait for the load. With one for certain this
// is no function, as the compiler schedules some kernels otherwise when a call was inlined.
#if KNOWN
#define BIAS_OF(bias, n, other) ((float)(bias)[n])
#else
template <class T> DEVICE float bias_or_zero(const T *bias, u32 n, const void *other)
{
    const T value = (HAS_BIAS ? bias : (const T *)other)[HAS_BIAS ? n : 0];
    return HAS_BIAS ? (float)value : 0;
}
#define BIAS_OF(bias, n, other) bias_or_zero(bias, n, other)
#endif

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
