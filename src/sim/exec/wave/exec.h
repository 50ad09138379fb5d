/* SPDX-License-Identifier: MIT */
/*
 * How instruction bodies are written: lane loops over typed operands, with EXEC, modifiers, DPP and
 * SDWA kept out of them. For the files of exec/ only.
 *
 * A vector register is a row of 32 or 64 values. Bodies work on 32 lanes at a time, with a trip
 * count that the compiler knows; a wave of 64 takes two rounds. A body has two paths: straight from
 * and to the register rows when EXEC is full and no operand is special, and through temporary rows
 * else.
 */
#ifndef QUERN_SIM_EXEC_H
#define QUERN_SIM_EXEC_H

#include "sim/number/integer.h"
#include "sim/wave.h"

#include <math.h>
#include <string.h>

/* With AddressSanitizer's checks in it, code that is copied into every body takes minutes to
 * compile. */
#ifdef __SANITIZE_ADDRESS__
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif
#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define LANES       for (unsigned l = 0; l < 32; l++)
/* Destination and source rows are the same or do not overlap, so lanes do not depend on each other.
 */
#define IVDEP _Pragma("GCC ivdep")
#define ROW   uint32_t __attribute__((aligned(64)))

/* The head of an instruction's body (sim_body), as tables of instructions name it; and a body that
 * is one call. */
#define BODY(NAME) static const struct insn *x_##NAME(struct wave *w, const struct insn *i)
#define BODY_OF(NAME, CALL)                                                                        \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        return CALL;                                                                               \
    }

/* ---- Shared between files of exec/, in exec.c ------------------------------------------------ */

/* Fills temp (two rows of w->lanes) from an operand that is no vector register. */
const uint32_t *splat(struct wave *w, const struct operand *o, uint32_t *temp);
/* Lanes 32h…32h+31 of source n; the high word of a wide one is w->lanes further on. Inline in every
 * body, it was a fifth of the time that the bodies take to compile. */
const uint32_t *source(struct wave *w, const struct insn *i, unsigned n, unsigned h,
                       uint32_t *temp);
/* An instruction that is not INSN_COMPLEX as an INSN_SIMPLE one: sources 1 to `sources` that are no
 * vector registers become rows. Good until the next call for this wave. */
const struct insn *with_rows(struct wave *w, const struct insn *i, unsigned sources);
/* Fills temp from source n with its modifiers, DPP and SDWA applied; gives temp. */
const uint32_t *fetch(struct wave *w, const struct insn *i, unsigned n, unsigned h, uint32_t *temp);
/* Stores rows r (and r + 64 for 64-bit types) of half h to the destination: EXEC, DPP write masks,
 * clamp, omod, SDWA and op_sel. */
void commit(struct wave *w, const struct insn *i, unsigned h, uint32_t *r, char type);
/* Follows a write of EXEC. */
void exec_changed(struct wave *w);

/* ---- Operands -------------------------------------------------------------------------------- */

INLINE uint32_t *vgpr(const struct wave *w, const struct operand *o, unsigned h)
{
    return (uint32_t *)((char *)w->v + o->offset) + 32 * h;
}

/* What source() gives, for an INSN_SIMPLE instruction: its sources are vector registers and
 * constants. */
INLINE const uint32_t *fast_source(const struct wave *w, const struct insn *i, unsigned n,
                                   unsigned h)
{
    const struct operand *const o = &i->op[n];

    return (const uint32_t *)(w->base[o->kind] + o->offset) + 32 * h;
}

INLINE uint64_t exec_bits(const struct wave *w)
{
    return w->s[S_EXEC] | (uint64_t)(w->lanes == 64 ? w->s[S_EXEC + 1] : 0) << 32;
}

/* Bit l of the result is the top bit of r[l]. */
INLINE uint32_t pack_bits(const uint32_t *r)
{
    uint32_t bits = 0;
#ifdef __AVX2__
    for (unsigned l = 0; l < 32; l += 8)
        bits |= (uint32_t)_mm256_movemask_ps(_mm256_loadu_ps((const float *)(r + l))) << l;
#else
    for (unsigned l = 0; l < 32; l += 4)
        bits |= (uint32_t)_mm_movemask_ps(_mm_loadu_ps((const float *)(r + l))) << l;
#endif
    return bits;
}

/* r[l] = all ones if bit l is set, else 0. */
INLINE void spread_bits(uint32_t bits, uint32_t *r)
{
    LANES r[l] = 0u - (bits >> l & 1);
}

/* ---- Scalars --------------------------------------------------------------------------------- */

INLINE uint32_t scalar32(const struct wave *w, const struct operand *o)
{
    return o->kind == OPERAND_SGPR ? w->s[o->reg] : (uint32_t)o->value;
}

INLINE uint64_t scalar64(const struct wave *w, const struct operand *o)
{
    return o->kind == OPERAND_SGPR ? w->s[o->reg] | (uint64_t)w->s[o->reg + 1] << 32 : o->value;
}

INLINE uint64_t lane_mask(const struct wave *w, const struct operand *o)
{
    return w->lanes == 64 ? scalar64(w, o) : scalar32(w, o);
}

/* Absent and null destinations have the register number of the sink. */
INLINE void set_scalar64(struct wave *w, const struct operand *o, uint64_t value)
{
    w->s[o->reg] = (uint32_t)value;
    w->s[o->reg + 1] = (uint32_t)(value >> 32);
}

INLINE void set_lane_mask(struct wave *w, const struct operand *o, uint64_t bits)
{
    w->s[o->reg] = (uint32_t)bits;
    if (w->lanes == 64)
        w->s[o->reg + 1] = (uint32_t)(bits >> 32);
}

/* Goes on behind i, which may have written EXEC. */
INLINE const struct insn *next(struct wave *w, const struct insn *i)
{
    if (UNLIKELY(i->flags & INSN_WRITES_EXEC))
        exec_changed(w);
    return i + 1;
}

/* ---- Types of vector operands: C type, load, store ------------------------------------------- */

#define TYPE_f float
#define TYPE_u uint32_t
#define TYPE_i int32_t
#define TYPE_h float
#define TYPE_w uint32_t
#define TYPE_d double
#define TYPE_q uint64_t
#define TYPE_m uint32_t
#define TYPE_p uint32_t
#define TYPE_k uint32_t
#define TYPE_b uint32_t
#define TYPE_g float
#define TYPE_r struct f32x2

#define LOAD_f(p) f32_of(p[l])
#define LOAD_u(p) p[l]
#define LOAD_i(p) (int32_t)p[l]
#define LOAD_h(p) f16_to_f32(p[l] & 0xffff)
#define LOAD_w(p) (p[l] & 0xffff)
#define LOAD_d(p) f64_of(p[l] | (uint64_t)p[l + stride] << 32)
#define LOAD_q(p) (p[l] | (uint64_t)p[l + stride] << 32)
#define LOAD_m(p) p[l]
#define LOAD_p(p) p[l]
#define LOAD_k(p) p[l]
#define LOAD_b(p) p[l]
#define LOAD_g(p) f32_of(p[l])
#define LOAD_r(p) ((struct f32x2){f32_of(p[l]), f32_of(p[l + stride])})

/* `high` is the distance of the high word: the row stride, or that of a temporary row. `keep` are
 * the bits of a register that a 16-bit value leaves alone. */
#define STORE_u(d, high, x) d[l] = (uint32_t)(x)
#define STORE_i             STORE_u
#define STORE_p             STORE_u
#define STORE_k             STORE_u
#define STORE_b             STORE_u
#define STORE_f(d, high, x) d[l] = bits_of_f32(x)
#define STORE_h(d, high, x) d[l] = (d[l] & keep) | f32_to_f16(x)
#define STORE_w(d, high, x) d[l] = (d[l] & keep) | ((uint32_t)(x) & 0xffff)
#define STORE_q(d, high, x)                                                                        \
    do {                                                                                           \
        const uint64_t value_ = (x);                                                               \
        d[l] = (uint32_t)value_;                                                                   \
        d[l + high] = (uint32_t)(value_ >> 32);                                                    \
    } while (0)
#define STORE_d(d, high, x) STORE_q(d, high, bits_of_f64(x))
#define STORE_r(d, distance, x)                                                                    \
    do {                                                                                           \
        const struct f32x2 value_ = (x);                                                           \
        d[l] = bits_of_f32(value_.low);                                                            \
        d[l + distance] = bits_of_f32(value_.high);                                                \
    } while (0)
/* Half registers whose other half always stays: complex, so that commit stores them. */
#define STORE_j STORE_h
#define STORE_J STORE_h

/* Into the temporary rows of the slow path, where a 16-bit value stands alone: commit merges it. */
#define PUT(R, x)                                                                                  \
    do {                                                                                           \
        const uint32_t keep = 0;                                                                   \
        (void)keep;                                                                                \
        STORE_##R(r, 64, x);                                                                       \
    } while (0)

/* ---- Vector bodies --------------------------------------------------------------------------- */

/*
 * Two functions for an instruction: the fast path, and behind it one for everything special, whose
 * results wait in the temporary rows r (high words 64 lanes on) for commit. The same expression
 * stands in both; LET gives a, b, c, d their values in lane l.
 */
#define VECTOR_BODY(NAME, R, N, LET, ...)                                                          \
    static __attribute__((noinline))                                                               \
    const struct insn *slow_##NAME(struct wave *w, const struct insn *i)                           \
    {                                                                                              \
        ROW ta[128], tb[128], tc[128], td[128], r[128];                                            \
        const size_t stride = w->lanes;                                                            \
        (void)stride, (void)ta, (void)tb, (void)tc, (void)td;                                      \
        for (unsigned h = 0; h < w->halves; h++) {                                                 \
            SOURCES_##N(SLOW_SOURCE) LANES                                                         \
            {                                                                                      \
                const unsigned lane = l + 32 * h;                                                  \
                (void)lane;                                                                        \
                LET PUT(R, (__VA_ARGS__));                                                         \
            }                                                                                      \
            commit(w, i, h, r, #R[0]);                                                             \
        }                                                                                          \
        return i + 1;                                                                              \
    }                                                                                              \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        const size_t stride = w->lanes;                                                            \
        const uint32_t keep = i->keeps_half ? 0xffff0000u : 0;                                     \
        (void)stride, (void)keep;                                                                  \
        const struct insn *const next_ = i + 1;                                                    \
        if (UNLIKELY(!w->full || !(i->flags & INSN_SIMPLE))) {                                     \
            if (!w->full || i->flags & INSN_COMPLEX)                                               \
                return slow_##NAME(w, i);                                                          \
            i = with_rows(w, i, N);                                                                \
        }                                                                                          \
        for (unsigned h = 0; h < w->halves; h++) {                                                 \
            SOURCES_##N(FAST_SOURCE) uint32_t *const d_ = vgpr(w, &i->op[0], h);                   \
            IVDEP LANES                                                                            \
            {                                                                                      \
                const unsigned lane = l + 32 * h;                                                  \
                (void)lane;                                                                        \
                LET STORE_##R(d_, stride, (__VA_ARGS__));                                          \
            }                                                                                      \
        }                                                                                          \
        return next_;                                                                              \
    }

#define FAST_SOURCE(n, temp) fast_source(w, i, n, h)
#define SLOW_SOURCE(n, temp) source(w, i, n, h, temp)
#define SOURCES_1(GET)       const uint32_t *const pa = GET(1, ta);
#define SOURCES_2(GET)       SOURCES_1(GET) const uint32_t *const pb = GET(2, tb);
#define SOURCES_3(GET)       SOURCES_2(GET) const uint32_t *const pc = GET(3, tc);
#define SOURCES_4(GET)       SOURCES_3(GET) const uint32_t *const pd = GET(4, td);
#define LET_1(A)                                                                                   \
    const TYPE_##A a = LOAD_##A(pa);                                                               \
    (void)a;
#define LET_2(A, B)                                                                                \
    LET_1(A) const TYPE_##B b = LOAD_##B(pb);                                                      \
    (void)b;
#define LET_3(A, B, C)                                                                             \
    LET_2(A, B) const TYPE_##C c = LOAD_##C(pc);                                                   \
    (void)c;
#define LET_4(A, B, C, D)                                                                          \
    LET_3(A, B, C) const TYPE_##D d = LOAD_##D(pd);                                                \
    (void)d;

#endif
