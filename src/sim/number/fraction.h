/* SPDX-License-Identifier: MIT */
/* Numbers of -1 to 1 and of 0 to 1 as integers of 16 bits. */
#ifndef QUERN_SIM_FRACTION_H
#define QUERN_SIM_FRACTION_H

#include "sim/number/number.h"

/* The product is rounded once, to an integer, as captured on gfx1201 (bjacob/goc): in f32 it would
 * be rounded before, and a number that is just below a half and an integer could become that. */
NUMBER uint32_t fraction_i16(float f)
{
    const double bounded = f != f ? 0 : f < -1 ? -1 : f > 1 ? 1 : f;
    return (uint32_t)(int32_t)rint(bounded * 32767) & 0xffff;
}
NUMBER uint32_t fraction_u16(float f)
{
    const double bounded = f > 0 ? f > 1 ? 1 : f : 0;
    return (uint32_t)(int32_t)rint(bounded * 65535);
}

#endif
