/* SPDX-License-Identifier: MIT */
/*
 * The shapes of kernels: what a plan has beyond what all plans have. There is one struct for each
 * family, and one for mma_w4 and mma_int4 together. A shape's fields are named like the constants
 * of the kernel's source (templates/family/), and each has one meaning. For the families, which
 * choose them, and for tests.
 */
#ifndef QUERN_PLAN_SHAPE_H
#define QUERN_PLAN_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How a target meets fp8. NATIVE: it has instructions for these bytes. HALVED: its instructions
 * read FNUZ bytes, and OCP's are turned into those (the same bits mean half the value). SOFTWARE:
 * it has no instructions for these bytes, and shifts turn them into f16.
 */
enum plan_fp8 { FP8_NATIVE = 1, FP8_HALVED, FP8_SOFTWARE };

/*
 * The decoder of int4 makes pairs of numbers, and in words of layout k8 the pair that takes the
 * fewest instructions is nibbles p and p + 4, which are not neighbours along K. OF_A: the values of
 * A are brought into the same pairs, once for each row of A. OF_W: W's bytes are taken apart so
 * that neighbours are paired, once for each row of W. The numbers stand in tuning tables.
 */
enum plan_pairing { PAIRING_OF_A = 1, PAIRING_OF_W };

/*
 * How weights come from memory to the matrix unit. NONE: codes are decoded in the registers that
 * they are multiplied from. CODES: through LDS, as unscaled numbers of A's type. WEIGHTS: through
 * LDS, as scaled numbers of A's type ("pre-dequantised"). SCALED: decoded and scaled in registers.
 * LDS is for instructions that want the same operands in both halves of a wave: each weight is then
 * decoded once, not in both halves. The numbers stand in tuning tables.
 */
enum plan_staging { STAGING_NONE = 0, STAGING_CODES, STAGING_WEIGHTS, STAGING_SCALED };

/*
 * The decoder of int4 yields a code plus a constant, and a code has a zero point: both must come
 * off. OF_CODES: they are taken from each code as it is decoded. BY_MATRIX: they are taken from the
 * results, as a multiple of the sum of A, which matrix instructions make with a tile of ones.
 * SHARED: the same, but a workgroup makes the sums of A once for all its rows of W, in LDS. The
 * numbers stand in tuning tables.
 */
enum plan_code_offset { CODE_OFFSET_OF_CODES = 0, CODE_OFFSET_BY_MATRIX, CODE_OFFSET_SHARED };

struct simt_w4_shape {
    int rows;    /* of W that a wave works on at a time */
    int split_k; /* waves that share those rows, each with a part of K; divides waves */
    int chunk;   /* consecutive weights of a row that a lane takes in a step */
    int tail;    /* the same in a shorter last step, for what whole steps leave of K; 0: none */
    bool ahead;  /* a wave has two or three steps, and requests the weights of all at its start */
};

struct simt_int4_shape {
    int rows;      /* of W that a lane works on at a time */
    int row_lanes; /* neighbouring lanes that have rows of W of their own; 1: all share theirs */
    int split_k;   /* waves that share those rows, each with a part of K; divides waves */
    int chunk;     /* consecutive weights of a row that a lane takes in a step */
    bool ahead;    /* a wave has two steps, and requests the weights of both at its start */
    enum plan_pairing pairing;
    bool shared_sums; /* a workgroup makes sums of A once for all its rows of W, in LDS */
    bool shared_a;    /* and keeps A itself there, in the order that words of int4 have */
};

struct simt_skinny_shape {
    int rows;      /* of W that a lane works on at a time */
    int row_lanes; /* neighbouring lanes that have rows of W of their own; 1: all share theirs */
    int split_k;   /* waves that share those rows, each with a part of K; divides waves */
    int vector;    /* consecutive weights of a row that a lane takes in one load */
    int ring;      /* loads of each row that a lane has asked for at any time */
    int stage;     /* LDS holds A for so many of a wave's loads of each row at a time; 0: A is read
                      from the caches */
    enum plan_fp8 fp8; /* 0: the weights are not fp8 */
};

/* Of mma_w4 and mma_int4. */
struct matrix_shape {
    int rows;    /* of W that a wave works on at a time, a multiple of 16 */
    int split_k; /* waves that share those rows, each with a part of K; divides waves */
    int chunk;   /* consecutive weights of a row that a lane takes in one load */
    int units;   /* loads of a step, for each 16 rows of W */
    enum plan_staging staging;
    enum plan_code_offset code_offset; /* OF_CODES in mma_w4, whose table has no offset */
    enum plan_pairing pairing;         /* of mma_int4; 0 in mma_w4 */
};

/* Of ring, whose workgroups keep a ring of stages filled from memory. */
struct ring_shape {
    int k_warps;       /* waves that share rows of W, each with a part of a chunk of K */
    int row_warps;     /* such sets of waves, with 16 rows each */
    int units;         /* of a wave in a chunk: what is decoded at a time */
    int unit;          /* columns of one: 64, or 32 where blocks are not multiples of that */
    int span;          /* units in a row that share scales; divides units */
    int chunk;         /* columns of K that all waves have together: what follows from the above */
    int stages;        /* of the ring */
    int portions;      /* that a stage's weights come in, each with as many units of all waves */
    int sum_buffers;   /* places for sums on their way from those who multiply to those who add */
    int batch;         /* tiles of rows that are taken through a chunk of K before the next chunk */
    int64_t row_bytes; /* of a row of W, with its scales and zero points: the problem's */
    /* What follows from the above and the size of clusters (ring_lay_out): */
    int64_t stage_bytes; /* of a stage, with the scales that copies bring */
    int scale_rows; /* of W, whose scales a copy brings: all of a stage, or one; 0: none does */
    int producers;  /* waves that start copies */
    int seconds;    /* nested scales of the second level that a workgroup keeps of each tile */
};

/* Of slab_w4, whose warps multiply in groups of four. */
struct slab_w4_shape {
    int k_parts; /* groups that share a slab of 64 rows of W, each with a part of a chunk of K */
    int units;   /* of 64 columns of a group in a chunk */
    int stages;  /* of the ring */
};

struct lane_w4_shape {
    int rows; /* of W that a wave works on at a time */
};

struct mma_tile_shape {
    int rows;     /* of W that a wave works on */
    int m_waves;  /* waves with the same rows of W, each with rows of A of its own; divides waves */
    int step;     /* weights of a row between two barriers, by the whole workgroup */
    bool ahead;   /* a step's last operands leave LDS before its barrier and are used behind it */
    int together; /* workgroups that a compute unit holds at once */
    /* modelled cycles, of which cycles() of mma_tile.c makes a launch's time */
    int64_t wave_cycles;  /* of a SIMD, for all steps of a wave */
    int64_t lds_cycles;   /* of LDS, for all steps of a workgroup */
    int64_t edge_cycles;  /* of a wave before and after its steps, if wave_cycles lack those */
    int64_t drain_cycles; /* of a workgroup at its barriers, when a compute unit has no other */
};

struct dequant_shape {
    int chunk;         /* consecutive weights that a lane writes at a time */
    int chunks;        /* of those that a lane takes, all loaded at once */
    enum plan_fp8 fp8; /* 0: the weights are not fp8 */
};

struct probe_shape {
    unsigned fact; /* enum fact: which one it measures */
};

/* The families for AMD's GPUs (family.h). No two of the same units take the same problem. */
#define FAMILIES_AMD(X)                                                                            \
    X(dequant) X(simt_w4) X(simt_int4) X(simt_skinny) X(mma_w4) X(mma_int4) X(mma_tile) X(moe_align)
/* The families for NVIDIA's GPUs. */
#define FAMILIES_NVIDIA(X) X(lane_dequant) X(lane_w4) X(ring) X(slab_w4) X(warp_align)

/* The shapes of all families, as members of struct plan, which has that of its family alone. */
#define PLAN_SHAPES                                                                                \
    struct simt_w4_shape simt_w4;                                                                  \
    struct simt_int4_shape simt_int4;                                                              \
    struct simt_skinny_shape skinny;                                                               \
    struct matrix_shape matrix;                                                                    \
    struct mma_tile_shape tile;                                                                    \
    struct dequant_shape dequant;                                                                  \
    struct ring_shape ring;                                                                        \
    struct slab_w4_shape slab;                                                                     \
    struct lane_w4_shape lane_w4;                                                                  \
    struct probe_shape probe;

#endif
