/* SPDX-License-Identifier: MIT */
/*
 * Forms of gfx9's matrix instructions: types of elements, where they stand in registers, and how
 * they are unpacked to arrays [k][row or column of all blocks]. For exec_mfma.c and exec_smfmac.c.
 *
 * Of an xf32 input the lower 13 bits of the mantissa do not count (docs/sim.md).
 *
 * Source of the layouts: AMD's matrix instruction calculator. The two runs of 16 k of the 8-bit
 * elements of F8F6F4 forms are from memory of what AMD wrote of CDNA 4: no document was at hand.
 */
#ifndef QUERN_SIM_MFMA_FORM_H
#define QUERN_SIM_MFMA_FORM_H

#include "sim/number/fp8.h"
#include "sim/exec/wave/adders.h"
#include "sim/exec/wave/host_mode.h"
#include "sim/exec/wave/matrix_rows.h"

enum element {
    ELEMENT_F32,
    ELEMENT_XF32,
    ELEMENT_F16,
    ELEMENT_BF16,
    ELEMENT_FP8,
    ELEMENT_BF8,
    ELEMENT_FP6,
    ELEMENT_BF6,
    ELEMENT_FP4,
    ELEMENT_I8,
    ELEMENT_F8F6F4, /* one of the five, by cbsz (A) or blgp (B) */
    ELEMENT_I32,
    ELEMENT_F64
};

struct form {
    unsigned m, n, k, blocks;
    enum element a, b, d;
    bool scaled;
};

/* Most elements of A or B of a form. */
#define ELEMENTS 2048
#define LANES_64 64u

INLINE unsigned element_bits(enum element e)
{
    switch (e) {
    case ELEMENT_F64:
        return 64;
    case ELEMENT_F16:
    case ELEMENT_BF16:
        return 16;
    case ELEMENT_FP8:
    case ELEMENT_BF8:
    case ELEMENT_I8:
        return 8;
    case ELEMENT_FP6:
    case ELEMENT_BF6:
        return 6;
    case ELEMENT_FP4:
        return 4;
    default:
        return 32;
    }
}

/* ---- Layouts --------------------------------------------------------------------------------- */

/* Registers of A (size = M) or B (size = N). */
INLINE unsigned source_words(const struct form *f, enum element type, unsigned size)
{
    return f->k * size * f->blocks / LANES_64 * element_bits(type) / 32;
}

INLINE unsigned result_words(const struct form *f)
{
    return f->m * f->n * f->blocks / LANES_64 * (element_bits(f->d) / 32);
}

/* The k of element e of the lanes of group g, when `groups` groups of lanes share k out. */
INLINE unsigned k_of(const struct form *f, enum element type, unsigned groups, unsigned g,
                     unsigned e)
{
    if (f->a == ELEMENT_F8F6F4 && element_bits(type) == 8)
        return 16 * g + e / 16 * 16 * groups + e % 16;
    return g * (f->k / groups) + e;
}

struct place {
    unsigned lane, element;
};

/* Where row i of a block of C and D begins: its n columns are on that many lanes. Rows come in
 * runs of `height`, which lie in that many registers of one group of lanes. */
INLINE struct place result_run(const struct form *f, unsigned i, unsigned block)
{
    const unsigned height = f->d == ELEMENT_F64 ? 1 : 4, groups = LANES_64 / f->n;
    const unsigned lanes = f->n * f->m / height; /* that a block needs of one register */
    const unsigned together = lanes < LANES_64 ? LANES_64 / lanes : 1;

    return (struct place){.lane = (block % together + i / height % groups * together) * f->n,
                          .element = block * (f->m * f->n / LANES_64) +
                                     i / (height * groups) * height + i % height};
}

/* ---- Elements -------------------------------------------------------------------------------- */

INLINE float xf32(float f)
{
    const uint32_t bits = bits_of_f32(f);

    return f32_of(pick((bits & 0x7f800000u) == 0x7f800000u, bits, bits & 0xffffe000u));
}

INLINE float to_f32(uint32_t x, enum element type, bool fnuz)
{
    switch (type) {
    case ELEMENT_XF32:
        return xf32(f32_of(x));
    case ELEMENT_F16:
        return f16_to_f32(x & 0xffff);
    case ELEMENT_BF16:
        return f32_of(x << 16);
    case ELEMENT_FP8:
        return fnuz ? fp8_fnuz_to_f32(x & 0xff) : fp8_to_f32(x & 0xff);
    case ELEMENT_BF8:
        return fnuz ? bf8_fnuz_to_f32(x & 0xff) : bf8_to_f32(x & 0xff);
    case ELEMENT_FP6:
        return small_to_f32(x & 63, 6, 3, 1);
    case ELEMENT_BF6:
        return small_to_f32(x & 63, 6, 2, 3);
    case ELEMENT_FP4:
        return small_to_f32(x & 15, 4, 1, 1);
    default:
        return f32_of(x);
    }
}

/* The smallest normal number of a type. */
INLINE float least_normal(const struct wave *w, enum element type)
{
    switch (type) {
    case ELEMENT_F16:
        return 0x1p-14f;
    case ELEMENT_FP8:
        return w->fnuz ? 0x1p-7f : 0x1p-6f;
    case ELEMENT_BF8:
        return w->fnuz ? 0x1p-15f : 0x1p-14f;
    case ELEMENT_BF6:
        return 0x1p-2f;
    case ELEMENT_FP6:
    case ELEMENT_FP4:
        return 1;
    default:
        return 0x1p-126f;
    }
}

/* Candidates of forms of eight bits and fewer (docs/sim.md): of CDNA 3 the two versions of a model
 * that was fitted on it, first. */
INLINE const struct adder_model *candidates_of_small(const struct wave *w)
{
    static const struct adder_model of_cdna3[SIM_CANDIDATES] = {
        {ADDER_CDNA3_APART, 16, 1}, {ADDER_CDNA3_APART_CUT, 16, 1}, {ADDER_FUSED, 1, 1}};
    static const struct adder_model of_cdna4[SIM_CANDIDATES] = {
        {ADDER_FUSED, 1, 1}, {ADDER_CDNA3_APART, 16, 1}, {ADDER_CDNA3, 16, 1}};

    return w->adder == ADDER_CDNA3 ? of_cdna3 : of_cdna4;
}

/* The lane that B comes from instead of `lane`, by blgp. */
INLINE unsigned pattern_lane(unsigned lane, unsigned blgp)
{
    switch (blgp) {
    case 0:
        return lane;
    case 1:
    case 2:
        return lane % 32 + 32 * (blgp - 1);
    case 3:
        return (lane + 16) % LANES_64;
    default:
        return lane % 16 + 16 * (blgp - 4);
    }
}

/* The bits of element e of a lane; `row` is the first register. */
INLINE uint32_t element_of(const uint32_t *row, unsigned lane, enum element type, unsigned e)
{
    const unsigned at = e * element_bits(type), shift = at % 32;
    const uint32_t *const word = row + at / 32 * LANES_64 + lane;

    if (element_bits(type) == 6 && shift > 26)
        return word[0] >> shift | word[LANES_64] << (32 - shift);
    return word[0] >> shift;
}

/* Elements that fill whole words. */
INLINE unsigned elements_together(enum element type)
{
    const unsigned bits = element_bits(type);
    return bits == 6 ? 16 : bits < 32 ? 32 / bits : 1;
}

/* Calls EACH with place = k * width + row and bits, for all elements of a source: word by word, so
 * that the compiler knows by how much each is shifted. */
#define UNPACK(TYPE, EACH)                                                                         \
    do {                                                                                           \
        const unsigned groups = LANES_64 / width, together = elements_together(TYPE);              \
        for (unsigned g = 0; g < groups; g++)                                                      \
            for (unsigned first = 0; first < f->k / groups; first += together) {                   \
                const uint32_t *const words = row + first * element_bits(TYPE) / 32 * LANES_64;    \
                for (unsigned e = 0; e < together; e++) {                                          \
                    const unsigned k = k_of(f, TYPE, groups, g, first + e);                        \
                    for (unsigned x = 0; x < width; x++) {                                         \
                        const uint32_t bits = element_of(words, g * width + x, TYPE, e);           \
                        EACH;                                                                      \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
    } while (0)

/* `width` is the number of rows of all blocks. */
INLINE void unpack_floats(const struct form *f, enum element type, unsigned width, bool fnuz,
                          const uint32_t *row, float *to)
{
    const unsigned run = f->k * width / LANES_64; /* elements of a lane */

    if (type == ELEMENT_F16)
        for (unsigned k = 0; k < f->k; k += 2)
            widen_f16(to + k * width, to + (k + 1) * width,
                      row + k % run / 2 * LANES_64 + k / run * width, width);
    else
        UNPACK(type, to[k * width + x] = to_f32(bits, type, fnuz));
}

INLINE void unpack_integers(const struct form *f, unsigned width, const uint32_t *row, int32_t *to)
{
    UNPACK(ELEMENT_I8, to[k * width + x] = (int8_t)bits);
}

/* Undefined bits of rows. */
INLINE void unpack_masks(const struct form *f, enum element type, unsigned width,
                         const uint32_t *row, uint32_t *any)
{
    const uint32_t low = 0xffffffffu >> (element_bits(type) < 32 ? 32 - element_bits(type) : 0);

    UNPACK(type, (void)k; any[x] |= bits & low;
           if (element_bits(type) == 64) any[x] |= words[LANES_64 + g * width + x]);
}

#endif
