/* SPDX-License-Identifier: MIT */
/* What a matrix instruction of a target looks like; the preludes of the same names say it to the
 * kernel. All functions are pure. */
#ifndef QUERN_PLAN_MATRIX_H
#define QUERN_PLAN_MATRIX_H

#include "plan/plan.h"

#define MATRIX_TILE 16 /* rows of each operand, but for the tall forms */

struct matrix_form {
    const char *text; /* that target_matrix_cycles knows */
    int side;         /* rows of each operand */
    int k_lanes;      /* lanes with parts of a row of an operand */
    int k_of_lane;    /* along K, that a lane gives to one instruction */
    int values;       /* of the result, in a lane */
};

/* The instruction of 16-bit floats that families of matrix units use on a target; 0: none. */
enum plan_products matrix_products(const struct target *target);

/* The one with 32 rows of each operand; 0: none. */
enum plan_products matrix_products_tall(const struct target *target);

/* Of products that are one of those. */
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

#endif
