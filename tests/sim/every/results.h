/* SPDX-License-Identifier: MIT */
/* Results of instructions as formulas give them and as the software GPU does. */
#ifndef QUERN_EVERY_RESULTS_H
#define QUERN_EVERY_RESULTS_H

#include "formulas.h"

#include <stdlib.h>

/* ---- Results ---------------------------------------------------------------------------------
 *
 * How a formula's value becomes bits, and how those are compared.
 *   F f32   T f32, one unit off at most   H f16   K f16, one unit off   D f64   E f64, one unit off
 *   U 32 bits   W 16   Q 64   P two f16   R two f32   B bf16   P2 two bf16
 *   L as U, may ask for the lane   N none
 */
#define BITS_F(x)  bits32((float)(x))
#define BITS_T(x)  bits32((float)(x))
#define BITS_H(x)  bits16((f16)(x))
#define BITS_K(x)  bits16((f16)(x))
#define BITS_D(x)  bits64((double)(x))
#define BITS_E(x)  bits64((double)(x))
#define BITS_U(x)  (uint32_t)(x)
#define BITS_L(x)  (uint32_t)(x)
#define BITS_N(x)  (uint32_t)(x)
#define BITS_W(x)  (uint16_t)(x)
#define BITS_Q(x)  (uint64_t)(x)
#define BITS_P(x)  (uint32_t)(x)
#define BITS_P2(x) (uint32_t)(x)
#define BITS_R(x)  (uint64_t)(x)
#define BITS_B(x)  to_bf16((float)(x))

enum result { F, T, H, K, D, E, U, L, N, W, Q, P, P2, R, B };

/* What a result may differ in: NaNs, and the sign of zero, which C's functions do not define. */
static inline bool same32(uint32_t want, uint32_t got, int units)
{
    return want == got || (isnan(f32(want)) && isnan(f32(got))) || (want | got) << 1 == 0 ||
           (units && llabs((long long)(int32_t)want - (int32_t)got) <= units);
}
static inline bool same16(uint16_t want, uint16_t got, int units)
{
    return want == got || (isnan((float)half(want)) && isnan((float)half(got))) ||
           ((want | got) & 0x7fff) == 0 || (units && abs((int16_t)want - (int16_t)got) <= units);
}
static inline bool same64(uint64_t want, uint64_t got, int units)
{
    return want == got || (isnan(f64(want)) && isnan(f64(got))) || (want | got) << 1 == 0 ||
           (units && llabs((long long)(want - got)) <= units);
}

static inline bool matches(enum result result, uint64_t want, uint64_t got)
{
    const uint32_t low = (uint32_t)got;

    switch (result) {
    case F:
    case T:
        return same32((uint32_t)want, low, result == T);
    case H:
    case K:
        return same16((uint16_t)want, (uint16_t)got, result == K);
    case D:
    case E:
        return same64(want, got, result == E);
    case W:
        return (uint16_t)want == (uint16_t)got;
    case Q:
        return want == got;
    case P:
        return same16((uint16_t)want, (uint16_t)low, 0) &&
               same16((uint16_t)(want >> 16), (uint16_t)(low >> 16), 0);
    case R:
        return same32((uint32_t)want, low, 0) &&
               same32((uint32_t)(want >> 32), (uint32_t)(got >> 32), 0);
    case B:
        return same32((uint32_t)want << 16, low << 16, 0);
    case P2:
        return same32((uint32_t)want << 16, low << 16, 0) &&
               same32((uint32_t)want & 0xffff0000u, low & 0xffff0000u, 0);
    case N:
        return true;
    case U:
    case L:
        break;
    }
    return (uint32_t)want == low;
}

#endif
