/* SPDX-License-Identifier: MIT */
/*
 * Transcendental instructions of one source. `near`: the exact result, rounded; of f32, denormals
 * are lost. `known`: the bits that RDNA 3 and 4 give (number/transcendental.h), where the software
 * GPU is asked for silicon's arithmetic. Halves go through f32 and are rounded once more, as those
 * processors do it, but for exponentials and logarithms, which are rounded as if they were exact.
 */
#include "sim/exec/tables.h"
#include "sim/number/transcendental.h"

#define BITS(FUNCTION) f32_of(FUNCTION(bits_of_f32(a)))

/* A row: the name without its prefix, the type of operand and result, and both expressions of a. */
#define EITHER(NAME, T, NEAR, KNOWN)                                                               \
    VECTOR_BODY(near_##NAME, T, 1, LET_1(T), NEAR)                                                 \
    VECTOR_BODY(known_##NAME, T, 1, LET_1(T), KNOWN)                                               \
    static const struct insn *x_##NAME(struct wave *w, const struct insn *i)                       \
    {                                                                                              \
        const bool known = w->adder == ADDER_RDNA3 || w->adder == ADDER_RDNA4;                     \
        return known ? x_known_##NAME(w, i) : x_near_##NAME(w, i);                                 \
    }
#define ALONE(NAME, T, X) VECTOR_BODY(NAME, T, 1, LET_1(T), X)

EITHER(rcp_f32, f, flush_f32(1.0f / flush_f32(a)), BITS(rcp_bits))
EITHER(rsq_f32, f, (float)(1.0 / sqrt((double)flush_f32(a))), BITS(rsq_bits))
EITHER(sqrt_f32, f, sqrtf(flush_f32(a)), BITS(sqrt_bits))
EITHER(exp_f32, f, flush_f32(exp2f(a)), BITS(exp_bits))
EITHER(log_f32, f, log2f(flush_f32(a)), BITS(log_bits))
ALONE(sin_f32, f, sin_turns(a))
ALONE(cos_f32, f, cos_turns(a))
EITHER(rcp_f16, h, 1.0f / a, BITS(rcp_bits))
EITHER(rsq_f16, h, (float)(1.0 / sqrt((double)a)), BITS(rsq_bits))
EITHER(sqrt_f16, h, sqrtf(a), BITS(sqrt_bits))
ALONE(exp_f16, h, exp_to_odd(a))
ALONE(log_f16, h, log2f(a))
ALONE(sin_f16, h, sin_turns(a))
ALONE(cos_f16, h, cos_turns(a))
ALONE(rcp_f64, d, 1.0 / a)
ALONE(rsq_f64, d, 1.0 / sqrt(a))
ALONE(sqrt_f64, d, sqrt(a))

#define ROW_(NAME, T, BODY) {"v_" NAME, QUERN_CLASS_TRANS, UNDEF_ANY, "=" T "0" T "1", x_##BODY}

const struct sim_row rows_trans[] = {ROW_("rcp_f32", "f", rcp_f32),
                                     ROW_("rcp_iflag_f32", "f", rcp_f32),
                                     ROW_("rsq_f32", "f", rsq_f32),
                                     ROW_("sqrt_f32", "f", sqrt_f32),
                                     ROW_("exp_f32", "f", exp_f32),
                                     ROW_("log_f32", "f", log_f32),
                                     ROW_("sin_f32", "f", sin_f32),
                                     ROW_("cos_f32", "f", cos_f32),
                                     ROW_("rcp_f16", "h", rcp_f16),
                                     ROW_("rsq_f16", "h", rsq_f16),
                                     ROW_("sqrt_f16", "h", sqrt_f16),
                                     ROW_("exp_f16", "h", exp_f16),
                                     ROW_("log_f16", "h", log_f16),
                                     ROW_("sin_f16", "h", sin_f16),
                                     ROW_("cos_f16", "h", cos_f16),
                                     ROW_("rcp_f64", "d", rcp_f64),
                                     ROW_("rsq_f64", "d", rsq_f64),
                                     ROW_("sqrt_f64", "d", sqrt_f64),
                                     {0}};
