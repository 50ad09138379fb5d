/* SPDX-License-Identifier: MIT */
/*
 * MXFP4 as the OCP Microscaling Formats specification 1.0 has it: blocks of 32 E2M1 values that
 * share a power of two. Conversion follows its section 6.3: the power is that of the largest
 * magnitude less the largest exponent of E2M1; elements are rounded to nearest even and saturate.
 */
#include "quant/quant.h"

#include <math.h>

#define GROUP        32
#define E8M0_BIAS    127
#define E8M0_NAN     255
#define E2M1_LARGEST 2 /* exponent of 4 and 6 */

float quant_f32_from_e8m0(uint8_t s)
{
    return s == E8M0_NAN ? NAN : ldexpf(1.0f, (int)s - E8M0_BIAS);
}

/* The shared exponent of a block; NaN if a weight is NaN or infinite. */
static uint8_t shared_exponent(const float *w)
{
    float most = 0;
    int exponent;

    for (size_t i = 0; i < GROUP; i++) {
        if (!isfinite(w[i]))
            return E8M0_NAN;
        most = fmaxf(most, fabsf(w[i]));
    }
    if (most == 0)
        return 0;
    frexpf(most, &exponent); /* most = [0.5,1) * 2^exponent */
    const int s = exponent - 1 - E2M1_LARGEST + E8M0_BIAS;
    return (uint8_t)(s < 0 ? 0 : s);
}

/* The code of |x|: how many midpoints between neighbours lie below it. A tie goes to the neighbour
 * of even code. */
static unsigned code_of(float x)
{
    const float m = fabsf(x);

    return (unsigned)((m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) +
                      (m >= 3.5f) + (m > 5.0f)) |
           (signbit(x) ? 8u : 0u);
}

void quant_quantise_mxfp4(const float *w, size_t count, uint8_t *packed, uint8_t *scales)
{
    for (size_t first = 0; first < count; first += GROUP) {
        const uint8_t s = shared_exponent(w + first);

        scales[first / GROUP] = s;
        for (size_t i = first; i < first + GROUP; i += 2) {
            /* in a block whose scale is NaN the codes mean nothing, and are 0 */
            const int shift = E8M0_BIAS - (int)s;
            const unsigned low = s == E8M0_NAN ? 0 : code_of(ldexpf(w[i], shift));
            const unsigned high = s == E8M0_NAN ? 0 : code_of(ldexpf(w[i + 1], shift));
            packed[i / 2] = (uint8_t)(low | high << 4);
        }
    }
}
