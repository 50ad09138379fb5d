/* SPDX-License-Identifier: MIT */
/* Vector instructions with a second destination, a lane mask: carries, wide multiply-adds, and the
 * scaling step of a division. */
#include "sim/exec/tables.h"

/* Stores half h of the result r; the mask bits collected in m are written when all halves are
 * done. */
#define CARRY_BODY(NAME, R, N, LET, SET_R, SET_M)                                                  \
    static const struct insn *x_##NAME(struct wave *w, const struct insn *i)                       \
    {                                                                                              \
        ROW ta[128], tb[128], tc[128], r[128], m[32];                                              \
        const size_t stride = w->lanes;                                                            \
        uint64_t bits = 0;                                                                         \
        (void)stride, (void)ta, (void)tb, (void)tc;                                                \
        for (unsigned h = 0; h < w->halves; h++) {                                                 \
            SOURCES_##N(SLOW_SOURCE) LANES                                                         \
            {                                                                                      \
                LET PUT_##R(SET_R);                                                                \
                m[l] = (SET_M) ? 0xffffffffu : 0;                                                  \
            }                                                                                      \
            bits |= (uint64_t)pack_bits(m) << 32 * h;                                              \
            commit(w, i, h, r, #R[0]);                                                             \
        }                                                                                          \
        set_lane_mask(w, &i->op[4], bits &exec_bits(w));                                           \
        return next(w, i);                                                                         \
    }

CARRY_BODY(v_add_co_u32, u, 2, LET_2(u, u), a + b, a + b < a)
CARRY_BODY(v_sub_co_u32, u, 2, LET_2(u, u), a - b, b > a)
CARRY_BODY(v_subrev_co_u32, u, 2, LET_2(u, u), b - a, a > b)
CARRY_BODY(v_add_co_ci_u32, u, 3, LET_3(u, u, m), a + b - c, c ? a + b + 1 <= a : a + b < a)
CARRY_BODY(v_sub_co_ci_u32, u, 3, LET_3(u, u, m), a - b + c, c ? b >= a : b > a)
CARRY_BODY(v_subrev_co_ci_u32, u, 3, LET_3(u, u, m), b - a + c, c ? a >= b : a > b)
/* clang-format off */
CARRY_BODY(v_mad_u64_u32, q, 3, LET_3(u, u, q), (uint64_t)a * b + c, (uint64_t)a * b + c < c)
/* signed: the mask is the carry out of the 64-bit addition as well */
CARRY_BODY(v_mad_i64_i32, q, 3, LET_3(i, i, q), (uint64_t)((int64_t)a * b) + c,
           (uint64_t)((int64_t)a * b) + c < c)
/* clang-format on */

/* ---- Division -------------------------------------------------------------------------------- */

/*
 * Scales s (equal to the denominator d or the numerator n) so that the refinement of n / d neither
 * overflows nor loses denormals; *undo says that the result must be scaled back by v_div_fmas.
 */
static float div_scale_f32(float s, float d, float n, bool *undo)
{
    const int exponent_d = (int)(bits_of_f32(d) >> 23 & 255),
              exponent_n = (int)(bits_of_f32(n) >> 23 & 255);
    const float reciprocal = (float)(1.0 / (double)d), quotient = (float)((double)n / (double)d);
    const bool tiny_r = fabsf(reciprocal) < 0x1p-126f && reciprocal != 0;
    const bool tiny_q = fabsf(quotient) < 0x1p-126f;

    *undo = false;
    if (n == 0 || d == 0)
        return NAN;
    if (exponent_n - exponent_d >= 96) {
        *undo = true;
        return bits_of_f32(s) == bits_of_f32(d) ? ldexpf(s, 64) : s;
    }
    if (exponent_d == 0)
        return ldexpf(s, 64);
    if (tiny_r && tiny_q) {
        *undo = true;
        return bits_of_f32(s) == bits_of_f32(d) ? ldexpf(s, -64) : s;
    }
    if (tiny_r)
        return ldexpf(s, -64);
    if (tiny_q) {
        *undo = true;
        return bits_of_f32(s) == bits_of_f32(n) ? ldexpf(s, 64) : s;
    }
    return exponent_n <= 23 ? ldexpf(s, 64) : s;
}

static double div_scale_f64(double s, double d, double n, bool *undo)
{
    const int exponent_d = (int)(bits_of_f64(d) >> 52 & 2047);
    const int exponent_n = (int)(bits_of_f64(n) >> 52 & 2047);
    const double reciprocal = 1.0 / d, quotient = n / d;
    const bool tiny_r = fabs(reciprocal) < 0x1p-1022 && reciprocal != 0;
    const bool tiny_q = fabs(quotient) < 0x1p-1022;

    *undo = false;
    if (n == 0 || d == 0)
        return NAN;
    if (exponent_n - exponent_d >= 768) {
        *undo = true;
        return bits_of_f64(s) == bits_of_f64(d) ? ldexp(s, 128) : s;
    }
    if (exponent_d == 0)
        return ldexp(s, 128);
    if (tiny_r && tiny_q) {
        *undo = true;
        return bits_of_f64(s) == bits_of_f64(d) ? ldexp(s, -128) : s;
    }
    if (tiny_r)
        return ldexp(s, -128);
    if (tiny_q) {
        *undo = true;
        return bits_of_f64(s) == bits_of_f64(n) ? ldexp(s, 128) : s;
    }
    return exponent_n <= 53 ? ldexp(s, 128) : s;
}

#define DIV_SCALE_BODY(NAME, R, FUNCTION)                                                          \
    static const struct insn *x_##NAME(struct wave *w, const struct insn *i)                       \
    {                                                                                              \
        ROW ta[128], tb[128], tc[128], r[128];                                                     \
        const size_t stride = w->lanes;                                                            \
        uint64_t bits = 0;                                                                         \
        (void)stride;                                                                              \
        for (unsigned h = 0; h < w->halves; h++) {                                                 \
            SOURCES_3(SLOW_SOURCE) LANES                                                           \
            {                                                                                      \
                bool undo;                                                                         \
                LET_3(R, R, R) PUT_##R(FUNCTION(a, b, c, &undo));                                  \
                bits |= (uint64_t)undo << (l + 32 * h);                                            \
            }                                                                                      \
            commit(w, i, h, r, #R[0]);                                                             \
        }                                                                                          \
        set_lane_mask(w, &i->op[4], bits &exec_bits(w));                                           \
        return next(w, i);                                                                         \
    }
DIV_SCALE_BODY(v_div_scale_f32, f, div_scale_f32)
DIV_SCALE_BODY(v_div_scale_f64, d, div_scale_f64)

#define ROW_(NAME, UNDEF, OPERANDS, BODY)                                                          \
    {#NAME, QUERN_CLASS_VALU, UNDEF_##UNDEF, OPERANDS, x_##BODY},

/* clang-format off */
const struct sim_row rows_carry[] = {
    ROW_(v_add_co_u32, CARRY, "=u0=m4u1u2", v_add_co_u32)
    ROW_(v_sub_co_u32, CARRY, "=u0=m4u1u2", v_sub_co_u32)
    ROW_(v_subrev_co_u32, CARRY, "=u0=m4u1u2", v_subrev_co_u32)
    ROW_(v_add_co_ci_u32, ANY, "=u0=m4u1u2m3", v_add_co_ci_u32)
    ROW_(v_sub_co_ci_u32, ANY, "=u0=m4u1u2m3", v_sub_co_ci_u32)
    ROW_(v_subrev_co_ci_u32, ANY, "=u0=m4u1u2m3", v_subrev_co_ci_u32)
    ROW_(v_addc_co_u32, ANY, "=u0=m4u1u2m3", v_add_co_ci_u32)
    ROW_(v_subb_co_u32, ANY, "=u0=m4u1u2m3", v_sub_co_ci_u32)
    ROW_(v_subbrev_co_u32, ANY, "=u0=m4u1u2m3", v_subrev_co_ci_u32)
    ROW_(v_mad_u64_u32, CARRY, "=q0=m4u1u2q3", v_mad_u64_u32)
    ROW_(v_mad_co_u64_u32, CARRY, "=q0=m4u1u2q3", v_mad_u64_u32)
    ROW_(v_mad_i64_i32, CARRY, "=q0=m4u1u2q3", v_mad_i64_i32)
    ROW_(v_mad_co_i64_i32, CARRY, "=q0=m4u1u2q3", v_mad_i64_i32)
    ROW_(v_div_scale_f32, ANY, "=f0=m4f1f2f3", v_div_scale_f32)
    ROW_(v_div_scale_f64, ANY, "=d0=m4d1d2d3", v_div_scale_f64)
    {0}};
/* clang-format on */
