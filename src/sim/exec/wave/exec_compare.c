/* SPDX-License-Identifier: MIT */
/* v_cmp writes a lane mask, v_cmpx writes EXEC (and on gfx9 the mask as well): rows in
 * exec_compare.def. */
#include "sim/exec/tables.h"

/* The classes of v_cmp_class: signalling and quiet NaN, then -inf, -normal, -denormal, -0, and the
 * positive ones in the opposite order. */
INLINE uint32_t class_of(uint32_t bits, unsigned mantissa_bits, unsigned exponent_bits)
{
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const uint32_t top = (1u << exponent_bits) - 1, exponent = bits >> mantissa_bits & top;
    const uint32_t negative = bits >> (mantissa_bits + exponent_bits) & 1;

    if (exponent == top && mantissa)
        return mantissa >> (mantissa_bits - 1) ? 2 : 1;
    const unsigned kind = exponent == top ? 0 : exponent ? 1 : mantissa ? 2 : 3;
    return negative ? 4u << kind : 512u >> kind;
}

INLINE uint32_t class_of_f64(uint64_t bits)
{
    /* the low word matters only for being zero */
    const uint32_t high = (uint32_t)(bits >> 32);
    return class_of(high | ((uint32_t)bits != 0), 20, 11);
}

/* What v_cmp and v_cmpx of one name do alike is compiled once. */
#define COMPARE(NAME, LET, ...)                                                                    \
    static __attribute__((noinline)) uint64_t bits_##NAME(struct wave *w, const struct insn *i)    \
    {                                                                                              \
        ROW ta[128], tb[128], r[32];                                                               \
        const size_t stride = w->lanes;                                                            \
        uint64_t bits = 0;                                                                         \
        (void)stride;                                                                              \
        for (unsigned h = 0; h < w->halves; h++) {                                                 \
            SOURCES_2(SLOW_SOURCE) LANES                                                           \
            {                                                                                      \
                LET r[l] = (__VA_ARGS__) ? 0xffffffffu : 0;                                        \
            }                                                                                      \
            bits |= (uint64_t)pack_bits(r) << 32 * h;                                              \
        }                                                                                          \
        return bits & exec_bits(w);                                                                \
    }                                                                                              \
    BODY(v_cmp_##NAME)                                                                             \
    {                                                                                              \
        set_lane_mask(w, &i->op[0], bits_##NAME(w, i));                                            \
        return next(w, i);                                                                         \
    }                                                                                              \
    BODY(v_cmpx_##NAME)                                                                            \
    {                                                                                              \
        const uint64_t bits = bits_##NAME(w, i);                                                   \
        set_lane_mask(w, &i->op[0], bits);                                                         \
        w->s[S_EXEC] = (uint32_t)bits;                                                             \
        w->s[S_EXEC + 1] = (uint32_t)(bits >> 32);                                                 \
        return next(w, i);                                                                         \
    }

#define CMP(PREDICATE, NAME, T, ...)         COMPARE(PREDICATE##_##NAME, LET_2(T, T), __VA_ARGS__)
#define CMP_CLASS(NAME, OPERANDS, T, U, ...) COMPARE(class_##NAME, LET_2(T, U), __VA_ARGS__)
#include "sim/exec/wave/exec_compare.def"
#undef CMP
#undef CMP_CLASS

#define ROW_(NAME, OPERANDS) {#NAME, QUERN_CLASS_VALU, UNDEF_ANY, OPERANDS, x_##NAME},
#define CMP(PREDICATE, NAME, T, ...)                                                               \
    ROW_(v_cmp_##PREDICATE##_##NAME, "=m0" #T "1" #T "2")                                          \
    ROW_(v_cmpx_##PREDICATE##_##NAME, "=e0" #T "1" #T "2")
#define CMP_CLASS(NAME, OPERANDS, T, U, ...)                                                       \
    ROW_(v_cmp_class_##NAME, "=m0" OPERANDS)                                                       \
    ROW_(v_cmpx_class_##NAME, "=e0" OPERANDS)

const struct sim_row rows_compare[] = {
#include "sim/exec/wave/exec_compare.def"
    {0}};
