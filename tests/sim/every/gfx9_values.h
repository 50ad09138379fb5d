/* SPDX-License-Identifier: MIT */
/* Kernels for gfx9 of a few statements, which make up to 16 words of four floats and four words for
 * each lane; shared by the tests of gfx9. */
#ifndef QUERN_GFX9_VALUES_H
#define QUERN_GFX9_VALUES_H

#include "t_gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define ITEMS        64
#define VALUES       16 /* results of an item */

static struct {
    float x[ITEMS * 4];
    uint32_t u[ITEMS * 4], r[ITEMS * VALUES];
} memory;

static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline float half_of(uint32_t u)
{
    const uint16_t low = (uint16_t)u;
    _Float16 h;
    memcpy(&h, &low, 2);
    return (float)h;
}

static inline uint32_t half_bits(double d)
{
    const _Float16 h = (_Float16)d;
    uint16_t u;
    memcpy(&u, &h, 2);
    return u;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static const char head[] =
    "typedef float f2 __attribute__((ext_vector_type(2)));\n"
    "typedef f16 h2 __attribute__((ext_vector_type(2)));\n"
    "typedef __bf16 b2 __attribute__((ext_vector_type(2)));\n"
    "typedef short s2 __attribute__((ext_vector_type(2)));\n"
    "#define B(x) ({ auto x_ = (x); u32 u_; __builtin_memcpy(&u_, &x_, 4); u_; })\n"
    "template <typename T> DEVICE T A(u32 u) { T x; __builtin_memcpy(&x, &u, 4); return x; }\n"
    "KERNEL k(const f32 *xs, const u32 *us, u32 *r) {\n"
    "  const f32 x = xs[4 * LANE], y = xs[4 * LANE + 1], s = xs[4 * LANE + 2];\n"
    "  const u32 u = us[4 * LANE], v = us[4 * LANE + 1];\n"
    "  (void)x; (void)y; (void)s; (void)u; (void)v; r += 16 * LANE;\n";

/* A kernel of statements that fill r[0] to r[15] of an item; loads it. */
static inline void load(struct t_gpu *g, const char *statements)
{
    char source[8192];

    snprintf(source, sizeof source, "%s%s}\n", head, statements);
    t_gpu_load(g, source);
}

static inline void run(struct t_gpu *g)
{
    const struct t_buffer buffers[] = {{memory.x, sizeof memory.x, QUERN_SIM_READ, "x"},
                                       {memory.u, sizeof memory.u, QUERN_SIM_READ, "u"},
                                       {memory.r, sizeof memory.r, QUERN_SIM_READ_WRITE, "r"}};
    const struct t_launch launch = {
        .kernel = "k", .items = {ITEMS}, .buffers = buffers, .count = COUNT(buffers)};

    t_gpu_run(g, &launch);
}

/* Numbers around the range of eight bits, ties, and what is no number. */
static inline float draw(uint64_t *random)
{
    static const float special[] = {0,       -0.0f,    448,      464,      465,      -480,
                                    240,     248,      247.9f,   57344,    61440,    -61439,
                                    65536,   0x1p-9f,  0x1p-10f, 0x3p-11f, 0x1p-16f, 0x1p-17f,
                                    0x1p-8f, -0x1p-7f, 0x1.1p0f, 0x1.3p0f, 1e30f,    0x1p-149f};
    const uint64_t bits = t_random(random);

    switch (bits % 8) {
    case 0:
        return special[bits / 8 % COUNT(special)];
    case 1:
        return bits & 256 ? INFINITY : bits & 512 ? -INFINITY : NAN;
    case 2: /* few bits of mantissa: exact, and ties */
        return ldexpf((float)((int)(bits >> 8 & 63) - 32), (int)(bits >> 16 & 31) - 24);
    default:
        return ldexpf((float)((int)(bits >> 8 & 0xffffff) - 0x800000), (int)(bits >> 40 & 31) - 40);
    }
}

static inline void draw_all(uint64_t *random)
{
    for (unsigned n = 0; n < COUNT(memory.x); n++)
        memory.x[n] = draw(random);
    for (unsigned n = 0; n < ITEMS; n++) { /* a scale near 1, sometimes with bits below */
        const uint64_t bits = t_random(random);
        memory.x[4 * n + 2] = float_of((uint32_t)(120 + bits % 16) << 23 | (bits >> 32 & 0x7fffff));
    }
    for (unsigned n = 0; n < COUNT(memory.u); n++)
        memory.u[n] = (uint32_t)t_random(random);
    memset(memory.r, 0, sizeof memory.r);
}

#endif
