/* SPDX-License-Identifier: MIT */
/* The host's float mode, where an instruction's arithmetic does not follow the wave's. */
#ifndef QUERN_SIM_HOST_MODE_H
#define QUERN_SIM_HOST_MODE_H

#include "sim/exec/wave/exec.h"

#define MXCSR_DAZ_FTZ 0x8040u

/* Whether the host's arithmetic takes denormals for zeros; gives the mode that was set before. */
INLINE unsigned set_denormals(bool flush)
{
    const unsigned old = _mm_getcsr(), mode = flush ? old | MXCSR_DAZ_FTZ : old & ~MXCSR_DAZ_FTZ;

    if (mode != old)
        _mm_setcsr(mode);
    return old;
}

INLINE void restore_denormals(unsigned mode)
{
    if (mode != _mm_getcsr())
        _mm_setcsr(mode);
}

#endif
