/* SPDX-License-Identifier: MIT */
/* Vector instructions with a second destination, a lane mask: carries, wide multiply-adds, and the
 * scaling step of a division. */
#include "sim/exec/tables.h"

/* Stores half h of the result r; the mask bits collected in m are written when all halves are
 * done. */
#define CARRY_BODY(NAME, R, N, LET, SET_R, SET_M)                                                  \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        ROW ta[128], tb[128], tc[128], r[128], m[32];                                              \
        const size_t stride = w->lanes;                                                            \
        uint64_t bits = 0;                                                                         \
        (void)stride, (void)ta, (void)tb, (void)tc;                                                \
        for (unsigned h = 0; h < w->halves; h++) {                                                 \
            SOURCES_##N(SLOW_SOURCE) LANES                                                         \
            {                                                                                      \
                LET PUT(R, SET_R);                                                                 \
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
/* Saturating forms (the modifier clamp); the carry is given all the same. */
CARRY_BODY(v_add_co_u32_clamp, u, 2, LET_2(u, u), a + b < a ? ~0u : a + b, a + b < a)
CARRY_BODY(v_sub_co_u32_clamp, u, 2, LET_2(u, u), b > a ? 0 : a - b, b > a)
CARRY_BODY(v_subrev_co_u32_clamp, u, 2, LET_2(u, u), a > b ? 0 : b - a, a > b)
CARRY_BODY(v_add_co_ci_u32_clamp, u, 3, LET_3(u, u, m), saturate_u32((uint64_t)a + b + (c & 1)),
           (uint64_t)a + b + (c & 1) > ~0u)
CARRY_BODY(v_sub_co_ci_u32_clamp, u, 3, LET_3(u, u, m), (uint64_t)b + (c & 1) > a ? 0 : a - b + c,
           (uint64_t)b + (c & 1) > a)
CARRY_BODY(v_subrev_co_ci_u32_clamp, u, 3, LET_3(u, u, m),
           (uint64_t)a + (c & 1) > b ? 0 : b - a + c, (uint64_t)a + (c & 1) > b)
static uint64_t mad_i64_clamp(int32_t a, int32_t b, int64_t c)
{
    int64_t sum;

    if (!__builtin_add_overflow((int64_t)a * b, c, &sum))
        return (uint64_t)sum;
    return (uint64_t)(c < 0 ? INT64_MIN : INT64_MAX);
}

/* clang-format off */
CARRY_BODY(v_mad_u64_u32, q, 3, LET_3(u, u, q), (uint64_t)a * b + c, (uint64_t)a * b + c < c)
/* signed: the mask is bit 64 of the sum, that is the sign which it has without a limit */
CARRY_BODY(v_mad_i64_i32, q, 3, LET_3(i, i, q), (uint64_t)((int64_t)a * b) + c,
           ((int64_t)a * b >> 1) + ((int64_t)c >> 1) + ((int64_t)a * b & (int64_t)c & 1) < 0)
/* What saturates is the sum of 65 bits. */
CARRY_BODY(v_mad_u64_u32_clamp, q, 3, LET_3(u, u, q),
           (uint64_t)a * b + c < c ? ~(uint64_t)0 : (uint64_t)a * b + c, (uint64_t)a * b + c < c)
CARRY_BODY(v_mad_i64_i32_clamp, q, 3, LET_3(i, i, q), mad_i64_clamp(a, b, (int64_t)c),
           ((int64_t)a * b >> 1) + ((int64_t)c >> 1) + ((int64_t)a * b & (int64_t)c & 1) < 0)
/* clang-format on */

/* ---- Division -------------------------------------------------------------------------------- */

/*
 * By how many binary places the denominator or the numerator of a quotient is moved, so that its
 * refinement neither overflows nor loses denormals; *undo says that v_div_fmas must move the result
 * back. d and n are their biased exponents, of which `top` is that of infinity.
 *
 * The manuals' conditions, a denormal reciprocal or quotient, are not what the hardware looks at:
 * it compares exponents, those of zeros too. The limits are those of AMD's emulator (ROCm/
 * rocm-systems, emulation/rocjitsu, division.h), whose authors probed gfx1100 and gfx1201.
 */
static int division_places(int d, int n, int top, bool denominator, int far, int places, int tiny,
                           bool *undo)
{
    *undo = n - d >= far || d - n >= far;
    if (n - d >= far)
        return denominator ? places : 0;
    if (d == 0)
        return places;
    if (d >= top - 2)
        return *undo && !denominator ? 0 : -places;
    if (*undo)
        return denominator ? 0 : places;
    return n <= tiny ? places : 0;
}

/* s is d or n. */
static float div_scale_f32(float s, float d, float n, bool *undo)
{
    const int places =
        division_places((int)(bits_of_f32(d) >> 23 & 255), (int)(bits_of_f32(n) >> 23 & 255), 255,
                        bits_of_f32(s) == bits_of_f32(d), 96, 64, 24, undo);

    if (d == 0 || n == 0)
        return f32_of(0xffc00000u);
    return s * f32_of((uint32_t)(127 + places) << 23);
}

static double div_scale_f64(double s, double d, double n, bool *undo)
{
    const int places =
        division_places((int)(bits_of_f64(d) >> 52 & 2047), (int)(bits_of_f64(n) >> 52 & 2047),
                        2047, bits_of_f64(s) == bits_of_f64(d), 768, 128, 53, undo);

    if (d == 0 || n == 0)
        return f64_of(0xfff8000000000000u);
    return s * f64_of((uint64_t)(1023 + places) << 52);
}

#define DIV_SCALE_BODY(NAME, R, FUNCTION)                                                          \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        ROW ta[128], tb[128], tc[128], r[128];                                                     \
        const size_t stride = w->lanes;                                                            \
        uint64_t bits = 0;                                                                         \
        (void)stride;                                                                              \
        for (unsigned h = 0; h < w->halves; h++) {                                                 \
            SOURCES_3(SLOW_SOURCE) LANES                                                           \
            {                                                                                      \
                bool undo;                                                                         \
                LET_3(R, R, R) PUT(R, FUNCTION(a, b, c, &undo));                                   \
                bits |= (uint64_t)undo << (l + 32 * h);                                            \
            }                                                                                      \
            commit(w, i, h, r, #R[0]);                                                             \
        }                                                                                          \
        set_lane_mask(w, &i->op[4], bits &exec_bits(w));                                           \
        return next(w, i);                                                                         \
    }
DIV_SCALE_BODY(v_div_scale_f32, f, div_scale_f32)
DIV_SCALE_BODY(v_div_scale_f64, d, div_scale_f64)

#define ROW_(NAME, BODY, UNDEF, OPERANDS)                                                          \
    {#NAME, QUERN_CLASS_VALU, UNDEF_##UNDEF, OPERANDS, x_##BODY},
#define ONE(NAME, ...) ROW_(NAME, NAME, __VA_ARGS__)
/* an instruction that has two names */
#define TWO(NAME, OTHER, ...) ONE(NAME, __VA_ARGS__) ROW_(OTHER, NAME, __VA_ARGS__)

/* clang-format off */
const struct sim_row rows_carry[] = {
    ONE(v_add_co_u32, CARRY, "=u0=m4u1u2")
    ONE(v_sub_co_u32, CARRY, "=u0=m4u1u2")
    ONE(v_subrev_co_u32, CARRY, "=u0=m4u1u2")
    TWO(v_add_co_ci_u32, v_addc_co_u32, ANY, "=u0=m4u1u2m3")
    TWO(v_sub_co_ci_u32, v_subb_co_u32, ANY, "=u0=m4u1u2m3")
    TWO(v_subrev_co_ci_u32, v_subbrev_co_u32, ANY, "=u0=m4u1u2m3")
    ONE(v_add_co_u32_clamp, ANY, "=u0=m4u1u2")
    ONE(v_sub_co_u32_clamp, ANY, "=u0=m4u1u2")
    ONE(v_subrev_co_u32_clamp, ANY, "=u0=m4u1u2")
    TWO(v_add_co_ci_u32_clamp, v_addc_co_u32_clamp, ANY, "=u0=m4u1u2m3")
    TWO(v_sub_co_ci_u32_clamp, v_subb_co_u32_clamp, ANY, "=u0=m4u1u2m3")
    TWO(v_subrev_co_ci_u32_clamp, v_subbrev_co_u32_clamp, ANY, "=u0=m4u1u2m3")
    TWO(v_mad_u64_u32, v_mad_co_u64_u32, CARRY, "=q0=m4u1u2q3")
    TWO(v_mad_i64_i32, v_mad_co_i64_i32, CARRY, "=q0=m4u1u2q3")
    TWO(v_mad_u64_u32_clamp, v_mad_co_u64_u32_clamp, ANY, "=q0=m4u1u2q3")
    TWO(v_mad_i64_i32_clamp, v_mad_co_i64_i32_clamp, ANY, "=q0=m4u1u2q3")
    ONE(v_div_scale_f32, ANY, "=f0=m4f1f2f3")
    ONE(v_div_scale_f64, ANY, "=d0=m4d1d2d3")
    {0}};
/* clang-format on */
