/* SPDX-License-Identifier: MIT */
#include "plan/matrix.h"

enum plan_products matrix_products(const struct target *t)
{
    return t->capabilities & CAP_WMMA_GFX11     ? PRODUCTS_WMMA11
           : t->capabilities & CAP_WMMA_GFX12   ? PRODUCTS_WMMA12
           : t->capabilities & CAP_MFMA_WIDE_K  ? PRODUCTS_MFMA32
           : t->capabilities & CAP_MFMA_BF16_1K ? PRODUCTS_MFMA16
                                                : 0;
}

enum plan_products matrix_products_tall(const struct target *t)
{
    return t->capabilities & CAP_MFMA_WIDE_K    ? PRODUCTS_MFMA_TALL16
           : t->capabilities & CAP_MFMA_BF16_1K ? PRODUCTS_MFMA_TALL8
                                                : 0;
}

struct matrix_form matrix_form(enum plan_products products)
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
