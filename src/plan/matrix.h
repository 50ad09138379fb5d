/* SPDX-License-Identifier: MIT */
/*
 * What the families mma_w4 and mma_int4 share, whose waves multiply tiles of 16 rows on matrix
 * units: which lane holds what of an instruction's operands (templates/prelude/wmma11.hip and its
 * siblings tell the kernel the same), the steps along K, the instructions and registers they take,
 * and which numbers of waves are tried. All functions but matrix_try_waves are pure.
 */
#ifndef QUERN_PLAN_MATRIX_H
#define QUERN_PLAN_MATRIX_H

#include "plan/field.h"
#include "plan/cost_model.h"

#define MATRIX_TILE      16   /* rows of each operand; the tall forms have 32 */
#define MATRIX_VGPRS_MAX 240  /* estimated, so that nothing is spilled */
#define MATRIX_SUM_BYTES 1024 /* of LDS that a wave needs at the end, for sums of a tile */

struct matrix_form {
    const char *text; /* its mnemonic, for target_matrix_cycles */
    int side;         /* rows of each operand */
    int k_lanes;      /* so many lanes hold one row of an operand, split along K */
    int k_of_lane;    /* values along K that each of them gives to one instruction */
    int values;       /* values of the result that a lane gets */
};

/* The instruction of 16-bit floats that families of matrix units use on a target; 0: none. */
enum plan_products matrix_products(const struct target *target);

/* The one with 32 rows of each operand; 0: none. */
enum plan_products matrix_products_tall(const struct target *target);

/* What the instruction that such products name looks like. */
static inline struct matrix_form matrix_form(enum plan_products products)
{
    switch (products) {
    case PRODUCTS_WMMA11:
        return (struct matrix_form){"v_wmma_f32_16x16x16_f16", MATRIX_TILE, 1, 16, 8};
    case PRODUCTS_WMMA12:
        return (struct matrix_form){"v_wmma_f32_16x16x16_f16", MATRIX_TILE, 2, 8, 8};
    case PRODUCTS_MFMA32:
        return (struct matrix_form){"v_mfma_f32_16x16x32_f16", MATRIX_TILE, 4, 8, 4};
    case PRODUCTS_MFMA_TALL8:
        return (struct matrix_form){"v_mfma_f32_32x32x8_f16", 32, 2, 4, 16};
    case PRODUCTS_MFMA_TALL16:
        return (struct matrix_form){"v_mfma_f32_32x32x16_f16", 32, 2, 8, 16};
    default:
        return (struct matrix_form){"v_mfma_f32_16x16x16_f16", MATRIX_TILE, 4, 4, 4};
    }
}

/* Cycles of the plan's matrix instruction. */
int matrix_cycles(const struct plan *p);

/* Whether the instruction wants the same operands in both halves of a wave. Weights go through LDS
 * then, so that no two lanes decode the same ones. */
bool matrix_doubled(const struct plan *p);
/* Whether weights go through LDS; and whether weights are scaled before they are multiplied, not
 * the sums of unscaled products after. */
bool matrix_staged(const struct plan *p);
bool matrix_scaled(const struct plan *p);

/* Tiles of 16 rows that a wave has, of W and of A. */
int matrix_tiles_of_w(const struct plan *p);
int matrix_tiles_of_a(const struct plan *p);
/* A plan for 8 rows of A fills a tile of 16 by putting each row in twice, each time with another
 * part of K. This is how often a tile has each row: 1, or 2 in such a plan. */
int matrix_abreast(const struct plan *p);

/* Along K, in weights of one row of W. A unit is what the lanes of a wave bring with one load; a
 * part is all the units of a step, for one of the times that a tile has a row of A; a step is all
 * parts. */
int matrix_unit(const struct plan *p);
int matrix_part(const struct plan *p);
int matrix_step(const struct plan *p);
/* Whether a part is whole groups (weights that share a scale), or a group is whole parts. Only then
 * can products be summed unscaled over a span, and the sum be scaled. */
bool matrix_whole_spans(const struct plan *p);
/* A span is the weights of a row in a part that share a scale; and the spans of a part. */
int matrix_span(const struct plan *p);
int matrix_spans(const struct plan *p);
/* Weights of a row that a lane gives to instructions in a step. */
int matrix_lane_weights(const struct plan *p);

/* Matrix instructions of a wave in a step, those that sum A included. */
int matrix_products_of_step(const struct plan *p);
/* Instructions that scale the sums of a tile. */
int matrix_scaling_slots(const struct plan *p);
/* Registers of operands, sums and totals. */
int matrix_operand_vgprs(const struct plan *p);
/* Bytes of LDS that hold a wave's weights between decoding and multiplying; 0: they stay in
 * registers. */
int64_t matrix_staged_bytes(const struct plan *p);

/* What a family counts of a shape, whatever its number of waves. */
struct matrix_counts {
    int body; /* instructions of a step, without those of the loop */
    uint32_t vgprs;
    int cycles; /* of a matrix instruction */
    int loads;  /* of scales and zero points in a step, for each tile of W; 0: what loads cost the
                             path to the cache is left out */
    int64_t weight_bytes; /* codes, scales and zero points */
};
/* Sets a plan's bytes of LDS, and the counts of what a workgroup makes once for all its waves;
 * false if the LDS is too much. */
typedef bool (*matrix_share_fn)(struct plan *p, struct model_counts *counts);
/* Rows of a family's table of fields, for the members of struct matrix_shape that both families
 * have. */
extern const struct plan_field matrix_fields[];
/* The template of the plan's matrix instruction. */
const char *matrix_template(const struct plan *p);
/* `fewest_rows` of a family whose smallest kernel is for one whole tile: MATRIX_TILE. */
int matrix_one_tile(const struct plan *p);

/* Puts a plan into the ranking with every number of waves in a workgroup, and every number of them
 * that share a row. */
void matrix_try_waves(struct plan *p, const struct matrix_counts *shape, matrix_share_fn share,
                      struct model_ranking *ranking);

#endif
