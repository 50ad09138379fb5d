/* SPDX-License-Identifier: MIT */
/* The sixteen values of NF4, FP4 and E2M1, for quantising, dequantising and the reference. */
#include "quant/quant.h"

/* The quantiles of a normal distribution that QLoRA (arXiv:2305.14314, appendix E) lists. */
const float quant_nf4[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

/* FP4 in bitsandbytes' own order: a sign, two exponent and one mantissa bit, scaled so that the
 * largest value, 12, becomes 1. */
#define FP4(twelfths) ((float)(twelfths) / 12.0f)
const float quant_fp4[16] = {
    FP4(0.0f),  FP4(0.0625f), FP4(8.0f),  FP4(12.0f),    FP4(4.0f),  FP4(6.0f),
    FP4(2.0f),  FP4(3.0f),    FP4(0.0f),  FP4(-0.0625f), FP4(-8.0f), FP4(-12.0f),
    FP4(-4.0f), FP4(-6.0f),   FP4(-2.0f), FP4(-3.0f),
};

/* The element of MXFP4 (OCP Microscaling Formats 1.0): a sign, two exponent and one mantissa bit.
 */
const float quant_e2m1[16] = {
    0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
    -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f,
};

const float *quant_values(enum quern_weight wq)
{
    return wq == QUERN_W_FP4 ? quant_fp4 : wq == QUERN_W_MXFP4 ? quant_e2m1 : quant_nf4;
}
