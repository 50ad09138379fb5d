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
