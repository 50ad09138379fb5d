/* SPDX-License-Identifier: MIT */
/*
 * Arguments by type name: special values first, two of them crossed, then random ones drawn so that
 * rounding, overflow and cancellation happen often. The same for every run of a function.
 */
#ifndef DIFFERENTIAL_INPUTS_H
#define DIFFERENTIAL_INPUTS_H

#include "cpu_side.h"

#define CROSSED 2560 /* records */
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- Random numbers -------------------------------------------------------------------------- */

/* splitmix64 */
static u64 draw(u64 *state)
{
    u64 z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static u64 seed_of(const char *name)
{
    u64 hash = 0xcbf29ce484222325u;
    while (*name)
        hash = (hash ^ (u8)*name++) * 0x100000001b3u;
    return hash;
}

/* As many bits as `width`, or fewer, or nearly all ones. */
static u64 draw_integer(u64 *state, unsigned width)
{
    const u64 ones = width == 64 ? ~(u64)0 : ((u64)1 << width) - 1, how = draw(state);
    const u64 x = draw(state) & ones;

    switch (how & 7) {
    case 0:
    case 1:
    case 2:
        return x;
    case 3:
    case 4:
        return x >> (how >> 3) % width;
    case 5:
        return ones - (x >> (how >> 3) % width);
    case 6:
        return (u64)1 << (how >> 3) % width;
    default:
        return x & 63;
    }
}

/* A float of `bits` bits, `fraction` of them below the exponent. */
static u64 draw_float(u64 *state, unsigned bits, unsigned fraction)
{
    const u64 how = draw(state), x = draw(state), one = 1;
    const u64 ones = bits == 64 ? ~(u64)0 : (one << bits) - 1, sign = one << (bits - 1);
    const u64 infinity = (sign - 1) & ~((one << fraction) - 1), bias = (infinity >> fraction) / 2;
    const u64 below = (one << fraction) - 1;
    u64 scale = bias - 12 + (how >> 8) % 25; /* within 2^12 of one */

    switch (how & 15) {
    case 0:
    case 1:
    case 2: /* any bits */
        return x & ones;
    case 3: /* denormal, or close to it */
        return x & (sign | below | one << fraction);
    case 4: /* largest exponents, NaNs among them */
        return (x & ones) | (infinity & ~(one << fraction));
    case 5: { /* half-way between two integers of so many bits */
        const unsigned n = (unsigned)((how >> 8) % (fraction < 13 ? fraction - 1 : 12));
        return (x & sign) | (bias + n) << fraction |
               (x & below) >> (fraction - n) << (fraction - n) | one << (fraction - 1 - n);
    }
    case 6: /* half-way between two floats with fewer bits, of the next formats down */
        if (bits == 64)
            return (x & sign) | scale << fraction | (x & below & ~0x1fffffffu) | 0x10000000;
        if (bits == 32)
            return (x & sign) | scale << fraction |
                   (how & 32 ? (x & 0x7fe000) | 0x1000 : (x & 0x7f0000) | 0x8000);
        return (x & sign) | scale << fraction | (x & below);
    case 7: /* the same among denormal results, and close to overflow of them */
        if (bits == 64)
            scale = how & 32 ? bias - 150 + (how >> 8) % 28 : bias + 126 + (how >> 8) % 3;
        else if (bits == 32)
            scale = how & 32 ? bias - 26 + (how >> 8) % 14 : bias + 14 + (how >> 8) % 3;
        return (x & sign) | scale << fraction | (x & below & ~((one << (fraction / 2)) - 1));
    case 8: /* around the ends of the integers */
        scale = bias + (bits == 16 ? 14 : how & 32 ? 31 : 62) + (how >> 8) % 3 - 1;
        return (x & sign) | scale << fraction | (x & below);
    case 9: /* small whole numbers */
        scale = bias + (how >> 8) % 6;
        return (x & sign) | scale << fraction |
               ((x & below) >> (fraction - 3) << (fraction - 3));
    default:
        return (x & sign) | scale << fraction | (x & below);
    }
}

/* ---- Special values -------------------------------------------------------------------------- */

static const u64 special_integers[] = {
    0, 1, 2, 3, 5, 7, 10, 31, 32, 63, 64, 100, 127, 128, 255, 256, 641, 32767, 32768, 65535, 65536,
    0x7fffff, 0x800000, 0xffffff, 0x1000000, 0x7fffffff, 0x80000000, 0x80000001, 0xaaaaaaaa,
    0xdeadbeef, 0xfffeffff, 0xffff0000, 0xffffff80, 0xfffffffb, 0xfffffffe, 0xffffffff};
static const u64 special_u64[] = {
    0, 1, 2, 3, 7, 10, 63, 64, 255, 1000000007, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff,
    0x100000000, 0x100000001, 0x1fffffffffffff, 0x20000000000001, 0x7ffffffffffffbff,
    0x7fffffffffffffff, 0x8000000000000000, 0x8000000000000001, 0xfffffffeffffffff,
    0xffffffff00000000, 0xffffffff00000001, 0xfffffffffffff800, 0xfffffffffffffffe,
    0xffffffffffffffff};
static const u64 special_f16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x0401, 0x1000, 0x2e66, 0x37ff,
    0x3800, 0xb800, 0x3bff, 0x3c00, 0xbc00, 0x3c01, 0x3e00, 0xbe00, 0x4000, 0x4100, 0x4200, 0xc500,
    0x57ff, 0x6400, 0x67ff, 0x6801, 0x7800, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01};
static const u64 special_f32[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x00800001, 0x33000000, 0x33000001, 0x33800000, 0x387fc000, 0x387fe000, 0x38800000, 0x3e800000,
    0x3effffff, 0x3f000000, 0xbf000000, 0x3f7fffff, 0x3f800000, 0xbf800000, 0x3f800001, 0x3fc00000,
    0x40000000, 0x40200000, 0xc0600000, 0x42fe0000, 0x437f8000, 0x477fe000, 0x477fefff, 0x477ff000,
    0x4b000000, 0x4b7fffff, 0xcb800001, 0x4effffff, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x4f800000,
    0x5f000000, 0x5f7fffff, 0x7e800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
    0xffc00001, 0x7f800001};
static const u64 special_f64[] = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001,
    0x000fffffffffffff, 0x0010000000000000, 0x8010000000000000, 0x36a0000000000000,
    0x3690000000000001, 0x380fffffe0000000, 0x380fffffffffffff, 0x3e70000000000000,
    0x3f10000000000000, 0x3fdfffffffffffff, 0x3fe0000000000000, 0xbfe0000000000000,
    0x3fefffffffffffff, 0x3ff0000000000000, 0xbff0000000000000, 0x3ff0000000000001,
    0x3ff8000000000000, 0x4004000000000000, 0x40effc0000000000, 0x40effdffffffffff,
    0x40effe0000000000, 0x41dfffffffc00000, 0x41e0000000000000, 0xc1e0000000000000,
    0xc1e00000001fffff, 0x41efffffffe00000, 0x41f0000000000000, 0x4330000000000001,
    0x43dfffffffffffff, 0x43e0000000000000, 0xc3e0000000000000, 0x43efffffffffffff,
    0x43f0000000000000, 0x47efffffefffffff, 0x47efffffe0000000, 0x47effffff0000000,
    0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
    0x7ff8000000000000, 0xfff8000000000001, 0x7ff0000000000001};
static const u64 special_bf16[] = {
    0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x3380, 0x3eff, 0x3f00, 0x3f80, 0xbf80, 0x3f81, 0x3fc0,
    0x4000, 0xc060, 0x437f, 0x477f, 0x4f00, 0x7f00, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xff81};
static const u64 special_plain[] = {
    0x00000000, 0x3f800000, 0xbf800000, 0x3f000000, 0x40000000, 0xc0400000, 0x3dcccccd, 0x49742400};
#define I(x) (u32)(x)
static const u64 special_exponents[] = {
    I(0), I(1), I(-1), I(2), I(-2), I(10), I(-10), I(14), I(-14), I(15), I(-15), I(16), I(-24),
    I(-25), I(24), I(-126), I(-127), I(-149), I(-150), I(126), I(127), I(128), I(255), I(300),
    I(-300), I(-1022), I(-1074), I(-1075), I(1023), I(1024), I(2098), I(-2200), I(32767), I(-32768),
    I(40000), I(65536), I(0x7fffffff), I(0x80000000)};
#undef I

/* ---- Types ----------------------------------------------------------------------------------- */

enum draw_as { DRAW_INTEGER, DRAW_FLOAT, DRAW_BELOW, DRAW_PLAIN, DRAW_WHOLE, DRAW_WHOLE_BF16 };

struct domain {
    const char *type;
    unsigned bits; /* of one part */
    enum draw_as as;
    unsigned detail; /* FLOAT: bits of the fraction; BELOW: the limit; WHOLE: the largest */
    unsigned parts;  /* side by side in the value */
    const u64 *specials; /* of one part */
    unsigned special_count;
};

#define SPECIALS(table) table, COUNT(table)
static const struct domain domains[] = {
    {"u8", 8, DRAW_INTEGER, 0, 1, SPECIALS(special_integers)},
    {"i8", 8, DRAW_INTEGER, 0, 1, SPECIALS(special_integers)},
    {"u16", 16, DRAW_INTEGER, 0, 1, SPECIALS(special_integers)},
    {"i16", 16, DRAW_INTEGER, 0, 1, SPECIALS(special_integers)},
    {"u32", 32, DRAW_INTEGER, 0, 1, SPECIALS(special_integers)},
    {"i32", 32, DRAW_INTEGER, 0, 1, SPECIALS(special_integers)},
    {"nonzero", 32, DRAW_INTEGER, 0, 1, SPECIALS(special_integers)},
    {"u64", 64, DRAW_INTEGER, 0, 1, SPECIALS(special_u64)},
    {"i64", 64, DRAW_INTEGER, 0, 1, SPECIALS(special_u64)},
    {"u16x2", 16, DRAW_INTEGER, 0, 2, SPECIALS(special_integers)},
    {"i16x2", 16, DRAW_INTEGER, 0, 2, SPECIALS(special_integers)},
    {"shift5", 32, DRAW_BELOW, 32, 1, NULL, 0},
    {"shift6", 32, DRAW_BELOW, 64, 1, NULL, 0},
    {"small", 32, DRAW_BELOW, 41, 1, NULL, 0},
    {"exponent", 32, DRAW_BELOW, 80, 1, SPECIALS(special_exponents)},
    {"f16", 16, DRAW_FLOAT, 10, 1, SPECIALS(special_f16)},
    {"f16x2", 16, DRAW_FLOAT, 10, 2, SPECIALS(special_f16)},
    {"bf16", 16, DRAW_FLOAT, 7, 1, SPECIALS(special_bf16)},
    {"bf16x2", 16, DRAW_FLOAT, 7, 2, SPECIALS(special_bf16)},
    {"f32", 32, DRAW_FLOAT, 23, 1, SPECIALS(special_f32)},
    {"f64", 64, DRAW_FLOAT, 52, 1, SPECIALS(special_f64)},
    {"plain", 32, DRAW_PLAIN, 0, 1, SPECIALS(special_plain)},
    {"whole16x2", 16, DRAW_WHOLE, 32, 2, NULL, 0},
    {"tiny16x2", 16, DRAW_WHOLE, 8, 2, NULL, 0},
    {"tiny16", 16, DRAW_WHOLE, 8, 1, NULL, 0},
    {"tinybf16x2", 16, DRAW_WHOLE_BF16, 8, 2, NULL, 0},
    {"tinybf16", 16, DRAW_WHOLE_BF16, 8, 1, NULL, 0},
};

static const struct domain *domain_of(const char *type)
{
    for (unsigned i = 0; i < COUNT(domains); i++)
        if (!strcmp(domains[i].type, type))
            return &domains[i];
    return NULL;
}

static u64 draw_part(const struct domain *d, u64 *state)
{
    const u64 x = draw(state);

    switch (d->as) {
    case DRAW_INTEGER:
        return draw_integer(state, d->bits);
    case DRAW_FLOAT:
        return draw_float(state, d->bits, d->detail);
    case DRAW_PLAIN: /* within 2^8 of one */
        return (x & 0x807fffff) | (127 - 8 + (x >> 40) % 17) << 23;
    case DRAW_WHOLE: { /* a small whole number as f16 */
        const f16 h = (f16)((int)(x % (2 * d->detail + 1)) - (int)d->detail);
        u16 bits;
        memcpy(&bits, &h, sizeof bits);
        return bits;
    }
    case DRAW_WHOLE_BF16: {
        const f32 f = (f32)((int)(x % (2 * d->detail + 1)) - (int)d->detail);
        u32 bits;
        memcpy(&bits, &f, sizeof bits);
        return bits >> 16;
    }
    default:
        return (u32)(x % d->detail - (d->special_count ? d->detail / 2 : 0));
    }
}

/* The argument in place `slot` of record `index`; `state` is the function's. */
static u64 make_argument(const struct domain *d, unsigned index, unsigned slot, u64 *state)
{
    const u64 ones = d->bits == 64 ? ~(u64)0 : ((u64)1 << d->bits) - 1;
    /* the first records cross the special values of the first two arguments */
    const unsigned n = d->special_count;
    const bool crossed = n && slot < 2 && index < CROSSED;
    u64 value = 0;

    for (unsigned part = 0; part < d->parts; part++) {
        u64 x = draw_part(d, state);
        if (crossed)
            x = d->specials[(slot ? index / n + part * 7 : index + part * 5) % n];
        else if (n && draw(state) % 6 == 0)
            x = d->specials[draw(state) % n];
        value |= (x & ones) << part * d->bits;
    }
    if (!strcmp(d->type, "nonzero") && !value)
        value = 1;
    return value;
}

#endif
