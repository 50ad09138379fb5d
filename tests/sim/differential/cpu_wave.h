/* SPDX-License-Identifier: MIT */
/*
 * The CPU side of functions of a wave: values of all lanes are vectors, `exec` holds the active
 * lanes, and the crossings of lanes are written out from the instruction set manuals. Vectors have
 * 64 elements; of a wave of 32 the upper half stays inactive.
 */
#ifndef DIFFERENTIAL_CPU_WAVE_H
#define DIFFERENTIAL_CPU_WAVE_H

#include "twins.h"

typedef u32 wave __attribute__((vector_size(256), aligned(16)));
typedef i32 iwave __attribute__((vector_size(256), aligned(16)));
typedef f32 fwave __attribute__((vector_size(256), aligned(16)));
typedef iwave wave_bool; /* -1 or 0 */
typedef u64 mask;

/* What the target's waves are like; the harness sets them before each call. */
static unsigned wave_lanes;    /* 32 or 64 */
static unsigned bpermute_span; /* lanes that ds_bpermute reaches */
static u64 exec;

#define LANES wave_lanes
#define INLINE static inline __attribute__((always_inline, unused))

/* Of a value of each lane or of one for all. */
#define SPLAT(value)       ((wave){0} + (value))
#define as_float(x)        ((fwave)(x))
#define as_bits(x)         ((wave)(x))
#define as_signed(x)       ((iwave)(x))
#define uniform_ctz(m)     ((u32)__builtin_ctzll(m))
#define uniform_popcount(m) ((u32)__builtin_popcountll(m))

INLINE u64 bits_of(wave_bool c)
{
    u64 bits = 0;
    for (unsigned l = 0; l < wave_lanes; l++)
        bits |= (u64)(c[l] != 0) << l;
    return bits;
}

INLINE wave_bool lanes_of(u64 bits)
{
    wave_bool c;
    for (unsigned l = 0; l < 64; l++)
        c[l] = bits >> l & 1 ? -1 : 0;
    return c;
}

INLINE wave select_lanes(wave_bool c, wave a, wave b) { return ((wave)c & a) | (~(wave)c & b); }

#define SELECT(c, a, b)    select_lanes(c, SPLAT(a), SPLAT(b))
#define SET(variable, ...) (variable) = select_lanes(lanes_of(exec), SPLAT(__VA_ARGS__), variable)

/* A body that no lane enters runs here all the same, with EXEC empty, and changes nothing. */
#define WAVE_IF_BITS_(bits, outer, once)                                                           \
    for (u64 outer = exec, once = 1; once && (exec = outer & (bits), 1); exec = outer, once = 0)
#define WAVE_WHILE_(c, outer)                                                                      \
    for (const u64 outer = exec; (exec &= bits_of(c)) || (exec = outer, 0);)
#define GLUE_(a, b)        a##b
#define GLUE(a, b)         GLUE_(a, b)
#define WAVE_IF_BITS(bits) WAVE_IF_BITS_(bits, GLUE(outer, __LINE__), GLUE(once, __LINE__))
#define WAVE_IF(c)         WAVE_IF_BITS(bits_of(c))
#define WAVE_ELSE(c)       WAVE_IF_BITS(~bits_of(c))
#define WAVE_WHILE(c)      WAVE_WHILE_(c, GLUE(outer, __LINE__))

#define WAVE_FUNCTION(name, x, y)                                                                  \
    INLINE wave f_##name(wave x, wave y);                                                          \
    CALL(name)                                                                                     \
    {                                                                                              \
        wave x = {0}, y = {0}, r;                                                                  \
        (void)memory, (void)common;                                                                \
        for (unsigned l = 0; l < wave_lanes; l++)                                                  \
            x[l] = (u32)in[l * SLOTS], y[l] = (u32)in[l * SLOTS + 1];                              \
        exec = wave_lanes == 64 ? ~(u64)0 : 0xffffffffu;                                           \
        r = f_##name(x, y);                                                                        \
        for (unsigned l = 0; l < wave_lanes; l++)                                                  \
            out[l * WORDS] = r[l];                                                                 \
    }                                                                                              \
    REGISTER(name, KIND_WAVE, "u32", "u32", "u32")                                                 \
    INLINE wave f_##name(wave x, wave y)

/* ---- Lanes by number ------------------------------------------------------------------------- */

INLINE wave lane_id(void)
{
    wave r;
    for (unsigned l = 0; l < 64; l++)
        r[l] = l;
    return r;
}

INLINE u64 read_exec(void) { return exec; }
INLINE u64 ballot(wave_bool c) { return bits_of(c) & exec; }

INLINE wave mask_below(u64 m, wave base)
{
    for (unsigned l = 0; l < 64; l++)
        base[l] += (u32)__builtin_popcountll(m & (((u64)1 << l) - 1));
    return base;
}

INLINE u32 read_lane(wave x, u32 lane) { return x[lane % wave_lanes]; }
INLINE u32 read_first_lane(wave x) { return x[exec ? __builtin_ctzll(exec) : 0]; }
INLINE wave write_lane(wave x, u32 lane, u32 value)
{
    x[lane % wave_lanes] = value;
    return x;
}

/* ---- Through the LDS crossbar: a disabled source gives 0 ------------------------------------- */

INLINE wave bpermute(wave address, wave x)
{
    wave r = x;
    for (unsigned l = 0; l < wave_lanes; l++) {
        const u32 from = address[l] / 4 % bpermute_span + l / bpermute_span * bpermute_span;
        if (exec >> l & 1)
            r[l] = exec >> from & 1 ? x[from] : 0;
    }
    return r;
}

INLINE wave permute(wave address, wave x)
{
    wave r = {0};
    for (unsigned l = 0; l < wave_lanes; l++)
        if (exec >> l & 1)
            r[address[l] / 4 % bpermute_span + l / bpermute_span * bpermute_span] = x[l];
    return r;
}

/* In groups of 32. Bit 15 clear: lane = (lane & pattern[4:0] | pattern[9:5]) ^ pattern[14:10]; set:
 * two bits for each lane of four; from 0xc000 on: rotation by pattern[9:5], to higher lanes with
 * bit 10; from 0xe000 on: the order of an FFT, with pattern[4:0] the bits that stay. */
INLINE wave swizzle(wave x, u32 pattern)
{
    wave r = x;
    for (u32 l = 0; l < wave_lanes; l++) {
        const u32 n = pattern >> 5 & 31;
        u32 from;
        if (pattern >= 0xe000) {
            /* the bits of the lane in reverse order, below those that stay */
            u32 reversed = 0, stay = 0;
            for (u32 bit = 0; bit < 5; bit++) {
                reversed |= (l >> bit & 1) << (4 - bit);
                stay += pattern >> bit & 1;
            }
            from = reversed >> stay | (l & pattern & 31);
        } else if (pattern >= 0xc000)
            from = (pattern & 0x400 ? l - n : l + n) & 31;
        else if (pattern & 0x8000)
            from = (l & 28) | (pattern >> 2 * (l & 3) & 3);
        else
            from = (((l & pattern & 31) | n) ^ pattern >> 10) & 31;
        from |= l & 32;
        if (exec >> l & 1)
            r[l] = exec >> from & 1 ? x[from] : 0;
    }
    return r;
}

/* ---- DPP and its like ------------------------------------------------------------------------ */

/* The lane that lane l reads, or -1. */
INLINE int dpp_source(u32 control, int l)
{
    const int row = l & ~15, n = control & 15;

    if (control < 0x100)
        return (l & ~3) | (control >> 2 * (l & 3) & 3);
    switch (control & 0x1f0) {
    case 0x100: /* row_shl */
        return l - row + n < 16 ? l + n : -1;
    case 0x110: /* row_shr */
        return l - row >= n ? l - n : -1;
    case 0x120: /* row_ror */
        return row | ((l - n) & 15);
    case 0x150: /* row_share */
        return row | n;
    case 0x160: /* row_xmask */
        return l ^ n;
    }
    switch (control) {
    case 0x130: /* wave_shl:1 */
        return l + 1 < (int)wave_lanes ? l + 1 : -1;
    case 0x138: /* wave_shr:1 */
        return l - 1;
    case 0x140: /* row_mirror */
        return row | (15 - (l & 15));
    case 0x141: /* row_half_mirror */
        return (l & ~7) | (7 - (l & 7));
    case 0x142: /* row_bcast:15 */
        return row - 1;
    case 0x143: /* row_bcast:31 */
        return l >= 32 ? 31 : -1;
    }
    return -1;
}

INLINE wave dpp(wave old, wave x, u32 control, u32 rows, u32 banks, int bound)
{
    wave r = old;
    for (int l = 0; l < (int)wave_lanes; l++) {
        const int from = dpp_source(control, l);
        if (!(exec >> l & 1) || !(rows >> l / 16 & 1) || !(banks >> l % 16 / 4 & 1))
            continue;
        if (from >= 0 && exec >> from & 1)
            r[l] = x[from];
        else if (bound)
            r[l] = 0;
    }
    return r;
}

INLINE wave dpp8(wave x, u32 select)
{
    wave r = x;
    for (u32 l = 0; l < wave_lanes; l++) {
        const u32 from = (l & ~7u) | (select >> 3 * (l & 7) & 7);
        if (exec >> l & 1)
            r[l] = exec >> from & 1 ? x[from] : 0;
    }
    return r;
}

INLINE wave permlane(wave old, wave x, u32 low, u32 high, int fi, int bound, u32 flip)
{
    wave r = old;
    for (u32 l = 0; l < wave_lanes; l++) {
        const u32 n = (l & 8 ? high : low) >> 4 * (l & 7) & 15;
        const u32 from = ((l & ~15u) ^ flip) | n;
        if (!(exec >> l & 1))
            continue;
        if (fi || exec >> from & 1)
            r[l] = x[from];
        else if (bound)
            r[l] = 0;
    }
    return r;
}
#define permlane16(old, x, low, high, fi, bound)  permlane(old, x, low, high, fi, bound, 0)
#define permlanex16(old, x, low, high, fi, bound) permlane(old, x, low, high, fi, bound, 16)

INLINE wave permlane64(wave x)
{
    wave r = x;
    for (u32 l = 0; wave_lanes == 64 && l < 64; l++)
        r[l] = x[l ^ 32];
    return r;
}

#endif
