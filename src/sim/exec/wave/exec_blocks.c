/* SPDX-License-Identifier: MIT */
/*
 * Conversions of 32 elements a lane between floats and six-bit floats, with a scale (gfx950).
 *
 * A six-bit block takes six registers, element n at bit 6 n. Decoding multiplies by the power of
 * two that the scale's exponent says, encoding divides by it; what is too large becomes the
 * largest.
 * Stochastic forms take the random number of the lane for every element: its upper bits are added
 * below the mantissa that stays, then the rest is cut off. Two sources of sixteen are interleaved,
 * as AMD's Composable Kernel has it.
 */
#include "sim/exec/wave/exec_masks.h"
#include "sim/number/fp8.h"

enum { ELEMENTS = 32, WORDS_OF_SIX = 6 };

enum kind { KIND_F32, KIND_F16, KIND_BF16, KIND_FP6, KIND_BF6 };

struct form {
    enum kind from, to;
    bool pairs;  /* two sources of sixteen */
    bool random; /* a random number stands in front of the scale */
};

static unsigned bits_of_kind(enum kind k)
{
    return k == KIND_F32 ? 32 : k <= KIND_BF16 ? 16 : 6;
}

static uint32_t mask_of_kind(enum kind k)
{
    return 0xffffffffu >> (32 - bits_of_kind(k));
}

/* Element n of a lane; `row` is the first register at the lane. */
static uint32_t take(const uint32_t *row, unsigned lanes, enum kind k, unsigned n)
{
    const unsigned at = n * bits_of_kind(k), shift = at % 32;
    uint64_t x = row[at / 32 * lanes];

    if (shift + bits_of_kind(k) > 32)
        x |= (uint64_t)row[(at / 32 + 1) * lanes] << 32;
    return (uint32_t)(x >> shift) & mask_of_kind(k);
}

static void put(uint32_t *words, enum kind k, unsigned n, uint32_t x)
{
    const unsigned at = n * bits_of_kind(k), shift = at % 32;

    words[at / 32] |= x << shift;
    if (shift + bits_of_kind(k) > 32)
        words[at / 32 + 1] |= x >> (32 - shift);
}

static float to_float(uint32_t x, enum kind k)
{
    switch (k) {
    case KIND_F16:
        return f16_to_f32(x);
    case KIND_BF16:
        return bf16_to_f32(x);
    case KIND_FP6:
        return small_to_f32(x, 6, 3, 1);
    case KIND_BF6:
        return small_to_f32(x, 6, 2, 3);
    default:
        return f32_of(x);
    }
}

static uint32_t from_float(float f, enum kind k, bool truncate)
{
    switch (k) {
    case KIND_F16:
        return f32_to_f16(f);
    case KIND_BF16:
        return f32_to_bf16(f);
    case KIND_FP6:
        return f32_to_small(f, 3, 1, 31, 31, truncate) | (bits_of_f32(f) >> 26 & 32);
    case KIND_BF6:
        return f32_to_small(f, 2, 3, 31, 31, truncate) | (bits_of_f32(f) >> 26 & 32);
    default:
        return bits_of_f32(f);
    }
}

/* Operand n of a lane, which may be scalar or a constant. */
static uint32_t lane_value(const struct wave *w, const struct operand *o, unsigned lane)
{
    const uint32_t x = o->kind == OPERAND_VGPR    ? vgpr(w, o, 0)[lane]
                       : o->kind == OPERAND_CONST ? o->rows[lane]
                                                  : w->s[o->reg];
    return (x & (o->mods & MOD_ABS ? 0x7fffffffu : ~0u)) ^ (o->mods & MOD_NEG ? 0x80000000u : 0);
}

/* Undefined bits of anything that a lane reads make all of its result undefined. */
static void through_block(struct wave *w, const struct insn *i)
{
    struct shadow_wave *const sw = w->shadow;
    const struct operand *const to = &i->op[0];
    const struct origin origin = first_origin(sw, i, false);
    uint32_t bad[64] = {0};

    for (unsigned n = 1; n < 4; n++) {
        const struct operand *const o = &i->op[n];
        for (unsigned k = 0; k < o->words && o->kind == OPERAND_VGPR; k++)
            for (unsigned l = 0; l < w->lanes && sw->flags[o->reg + k]; l++)
                bad[l] |= vgpr(&sw->w, o, 0)[k * w->lanes + l];
        if (o->kind == OPERAND_SGPR && sw->w.s[o->reg])
            memset(bad, 0xff, sizeof bad);
    }
    for (unsigned k = 0; k < to->words; k++) {
        uint32_t *const row = vgpr(&sw->w, to, 0) + k * w->lanes;
        for (unsigned l = 0; l < w->lanes; l++)
            row[l] = w->mask[l] ? bad[l] ? 0xffffffffu : 0 : row[l];
    }
    note_result(sw, to, origin);
}

static const struct insn *convert(struct wave *w, const struct insn *i, const struct form *f)
{
    const bool decodes = bits_of_kind(f->from) == 6;
    const struct operand *const scale = &i->op[f->pairs || f->random ? 3 : 2];
    const unsigned mantissa = f->to == KIND_FP6 ? 3 : 2;
    const unsigned words = ELEMENTS * bits_of_kind(f->to) / 32;
    uint32_t results[64][ELEMENTS] = {{0}};

    if (i->op[1].kind != OPERAND_VGPR || (f->pairs && i->op[2].kind != OPERAND_VGPR))
        return fault(w, i, -1, "32 elements can only be read from vector registers");
    if (UNLIKELY(w->shadow != NULL))
        through_block(w, i);
    /* the result may be a source: all is read first */
    for (unsigned l = 0; l < w->lanes; l++) {
        const float factor = exponent_of(f32_of(lane_value(w, scale, l)));
        for (unsigned n = 0; n < ELEMENTS && w->mask[l]; n++) {
            const struct operand *const o = &i->op[f->pairs ? 1 + n % 2 : 1];
            float x =
                to_float(take(vgpr(w, o, 0) + l, w->lanes, f->from, f->pairs ? n / 2 : n), f->from);
            x = decodes ? x * factor : x / factor;
            if (f->random)
                x = add_random(x, lane_value(w, &i->op[2], l), mantissa);
            put(results[l], f->to, n, from_float(x, f->to, f->random));
        }
    }
    for (unsigned k = 0; k < words; k++)
        for (unsigned l = 0; l < w->lanes; l++)
            if (w->mask[l])
                vgpr(w, &i->op[0], 0)[k * w->lanes + l] = results[l][k];
    return i + 1;
}

/* FORM(name behind v_cvt_scalef32_, from, to, pairs, random, operands) */
#define FORMS                                                                                      \
    FORM(pk32_f32_fp6, FP6, F32, false, false, "=D0D1f2")                                          \
    FORM(pk32_f32_bf6, BF6, F32, false, false, "=D0D1f2")                                          \
    FORM(pk32_f16_fp6, FP6, F16, false, false, "=D0D1f2")                                          \
    FORM(pk32_f16_bf6, BF6, F16, false, false, "=D0D1f2")                                          \
    FORM(pk32_bf16_fp6, FP6, BF16, false, false, "=D0D1f2")                                        \
    FORM(pk32_bf16_bf6, BF6, BF16, false, false, "=D0D1f2")                                        \
    FORM(pk32_fp6_f16, F16, FP6, false, false, "=D0D1f2")                                          \
    FORM(pk32_bf6_f16, F16, BF6, false, false, "=D0D1f2")                                          \
    FORM(pk32_fp6_bf16, BF16, FP6, false, false, "=D0D1f2")                                        \
    FORM(pk32_bf6_bf16, BF16, BF6, false, false, "=D0D1f2")                                        \
    FORM(2xpk16_fp6_f32, F32, FP6, true, false, "=D0D1D2f3")                                       \
    FORM(2xpk16_bf6_f32, F32, BF6, true, false, "=D0D1D2f3")                                       \
    FORM(sr_pk32_fp6_f32, F32, FP6, false, true, "=D0D1u2f3")                                      \
    FORM(sr_pk32_bf6_f32, F32, BF6, false, true, "=D0D1u2f3")                                      \
    FORM(sr_pk32_fp6_f16, F16, FP6, false, true, "=D0D1u2f3")                                      \
    FORM(sr_pk32_bf6_f16, F16, BF6, false, true, "=D0D1u2f3")                                      \
    FORM(sr_pk32_fp6_bf16, BF16, FP6, false, true, "=D0D1u2f3")                                    \
    FORM(sr_pk32_bf6_bf16, BF16, BF6, false, true, "=D0D1u2f3")

#define FORM(NAME, FROM, TO, PAIRS, RANDOM, OPERANDS)                                              \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        static const struct form form = {KIND_##FROM, KIND_##TO, PAIRS, RANDOM};                   \
        return convert(w, i, &form);                                                               \
    }
FORMS
#undef FORM
#define FORM(NAME, FROM, TO, PAIRS, RANDOM, OPERANDS)                                              \
    {"v_cvt_scalef32_" #NAME, QUERN_CLASS_VALU, UNDEF_MATRIX, OPERANDS, x_##NAME},

const struct sim_row rows_blocks[] = {FORMS{0}};
