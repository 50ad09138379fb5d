/* SPDX-License-Identifier: MIT */
#include "number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

size_t number_bytes(enum quern_dtype type)
{
    return type == QUERN_F32 ? 4 : 2;
}

static uint16_t bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t f16_of(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const float magnitude = fabsf(x);
    int exponent;

    if (isnan(x))
        return 0x7e00;
    if (magnitude >= 65520.0f) /* halfway from the largest to the next power of two */
        return sign | 0x7c00;
    frexpf(magnitude, &exponent);
    if (exponent < -13 ||
        magnitude == 0) /* denormals are spaced as the smallest normal numbers are */
        exponent = -13;
    /* in units of the last place, rounded; a carry into the next exponent is right as it is */
    const long units = lrintf(ldexpf(magnitude, 11 - exponent));
    return (uint16_t)(sign | ((long)(exponent + 13) * 1024 + units));
}

void number_store(enum quern_dtype type, void *array, size_t i, float x)
{
    if (type == QUERN_F32)
        ((float *)array)[i] = x;
    else
        ((uint16_t *)array)[i] = type == QUERN_F16 ? f16_of(x) : bf16_of(x);
}
