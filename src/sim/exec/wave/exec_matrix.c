/* SPDX-License-Identifier: MIT */
/*
 * Matrix instructions of gfx11 and gfx12, 16 by 16 all of them: rows in exec_matrix.def. Where an
 * element of A, B, C and D stands (lane, place in the lane's registers) is said in one place;
 * unpacking, arithmetic, packing and the full check go through it. Sums go over k upward, each step
 * a fused multiply-add in f32, or as the hardware's adder makes them, where it is known, or one of
 * the candidates, where it is not.
 *
 * This file is long because each type of element has its own unpacking, arithmetic and masks, all
 * of them written against the one statement of where elements stand.
 */
#include "sim/exec/wave/adders.h"
#include "sim/exec/wave/exec_masks.h"
#include "sim/exec/wave/host_mode.h"
#include "sim/exec/wave/matrix_rows.h"
#include "sim/launch.h"

#include <stdlib.h>

enum element {
    ELEMENT_F32,
    ELEMENT_F16,
    ELEMENT_BF16,
    ELEMENT_FP8,
    ELEMENT_BF8,
    ELEMENT_IU8,
    ELEMENT_IU4,
    ELEMENT_I32
};

struct form {
    unsigned k;
    enum element a, b, d;
    bool sparse; /* of every four k, A holds two; which, say the indices in source 3. C is D */
};

INLINE unsigned element_bits(enum element e)
{
    switch (e) {
    case ELEMENT_F16:
    case ELEMENT_BF16:
        return 16;
    case ELEMENT_FP8:
    case ELEMENT_BF8:
    case ELEMENT_IU8:
        return 8;
    case ELEMENT_IU4:
        return 4;
    default:
        return 32;
    }
}

/* ---- Layouts --------------------------------------------------------------------------------- */

struct place {
    unsigned lane, word, shift;
};

/* Whether lanes from 16 on repeat the first 16. */
INLINE bool repeats(const struct wave *w)
{
    return w->target->capabilities & CAP_WMMA_256B;
}

/* Lanes that hold A or B: a wave of 64 has 16 by 16 elements of 4 bits in the first 32. */
INLINE unsigned source_lanes(const struct wave *w, const struct form *f, enum element type)
{
    return type == ELEMENT_IU4 && f->k == 16 ? 32 : w->lanes;
}

/* Element k of row (A) or column (B) r. */
INLINE struct place source_place(const struct wave *w, const struct form *f, enum element type,
                                 unsigned r, unsigned k)
{
    const unsigned bits = element_bits(type);
    unsigned lane = r, element = k;

    if (!repeats(w)) {
        /* the lanes share out k in runs, one after the other */
        const unsigned bits_of_k = source_lanes(w, f, type) == 64 ? 2 : 1;
        const unsigned run = f->k >> bits_of_k, shift = (unsigned)__builtin_ctz(f->k) - bits_of_k;
        unsigned group = k >> shift;
        /* a wave of 64 has the runs of 8 and 4 bits in the groups 0, 2, 1, 3: of a sparse A other
         * lanes may choose from B */
        if (f->sparse && bits_of_k == 2 && bits < 16)
            group = (group & 1) << 1 | group >> 1;
        lane = r + 16 * group;
        element = k & (run - 1);
    }
    return (struct place){lane, element * bits / 32, element * bits % 32};
}

/* Element (i, j) of C and D. */
INLINE struct place result_place(const struct wave *w, const struct form *f, unsigned i, unsigned j,
                                 bool high)
{
    const unsigned log = w->lanes == 64 ? 2 : 1; /* of how many groups of lanes there are */
    const unsigned groups = 1u << log, per_lane = 16 >> log;
    /* gfx11: rows go round the groups; 16-bit results use half of each register */
    if (repeats(w))
        return (struct place){j + 16 * (i & (groups - 1)), i >> log,
                              element_bits(f->d) == 16 && high ? 16 : 0};
    /* gfx12: runs of rows; in a wave of 64, rows from 8 on go to the second and fourth group */
    const unsigned element = i & (per_lane - 1);
    const unsigned group = groups == 2 ? i / 8 : i / 8 + i / 4 % 2 * 2;
    return element_bits(f->d) == 16 ? (struct place){j + 16 * group, element / 2, element % 2 * 16}
                                    : (struct place){j + 16 * group, element, 0};
}

/* Registers of A, B, and of C and D. */
INLINE unsigned source_words(const struct wave *w, const struct form *f, enum element type)
{
    const unsigned elements = repeats(w) ? f->k : f->k * 16 / source_lanes(w, f, type);
    return (elements * element_bits(type) + 31) / 32;
}

INLINE unsigned result_words(const struct wave *w, const struct form *f)
{
    const unsigned elements = 16 * 16 / w->lanes;
    return element_bits(f->d) == 16 && !repeats(w) ? elements / 2 : elements;
}

/* How A is stored: as a matrix of half as many k if it is sparse. */
INLINE struct form stored_a(const struct form *f)
{
    struct form stored = *f;

    stored.k = f->sparse ? f->k / 2 : f->k;
    return stored;
}

/* ---- Elements -------------------------------------------------------------------------------- */

INLINE float to_f32(uint32_t bits, enum element type)
{
    switch (type) {
    case ELEMENT_F16:
        return f16_to_f32(bits & 0xffff);
    case ELEMENT_BF16:
        return f32_of(bits << 16);
    case ELEMENT_FP8:
        return fp8_to_f32(bits & 0xff);
    case ELEMENT_BF8:
        return bf8_to_f32(bits & 0xff);
    default:
        return f32_of(bits);
    }
}

/* The elements in one register of sixteen lanes: [place in the word][lane]. */
INLINE void widen(float (*to)[16], const uint32_t *from, enum element type)
{
    if (type == ELEMENT_F16)
        widen_f16(to[0], to[1], from, 16);
    else
        for (unsigned e = 0; e < 32 / element_bits(type); e++)
            for (unsigned r = 0; r < 16; r++)
                to[e][r] = to_f32(from[r] >> e * element_bits(type), type);
}

INLINE uint32_t from_f32(float f, enum element type)
{
    return type == ELEMENT_F16    ? f32_to_f16(f)
           : type == ELEMENT_BF16 ? f32_to_bf16(f)
                                  : bits_of_f32(f);
}

INLINE int32_t to_integer(uint32_t bits, enum element type, bool sign)
{
    if (type == ELEMENT_IU4)
        return sign ? (int32_t)((bits & 15) ^ 8) - 8 : (int32_t)(bits & 15);
    return sign ? (int8_t)bits : (int32_t)(bits & 0xff);
}

/* The same of integers. */
INLINE void widen_integers(int32_t (*to)[16], const uint32_t *from, enum element type, bool sign)
{
    const unsigned bits = element_bits(type);

    for (unsigned e = 0; e < 32 / bits; e++)
        for (unsigned r = 0; r < 16; r++)
            to[e][r] = to_integer(from[r] >> e * bits, type, sign);
}

INLINE uint32_t read_place(const struct wave *w, const struct operand *o, struct place p)
{
    return (vgpr(w, o, 0) + p.word * w->lanes)[p.lane] >> p.shift;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

INLINE bool operands_fit(struct wave *w, const struct insn *i, const struct form *f)
{
    const unsigned limit = w->group->run->module->vgpr_limit, d = result_words(w, f);
    const struct form stored = stored_a(f);
    const unsigned a = source_words(w, &stored, f->a), b = source_words(w, f, f->b);

    if (i->op[0].reg + d > limit || i->op[1].reg + a > limit || i->op[2].reg + b > limit ||
        (i->op[3].kind == OPERAND_VGPR && i->op[3].reg + (f->sparse ? 1 : d) > limit)) {
        fault(w, i, -1, "a matrix operand goes beyond the %u vector registers of the wave", limit);
        return false;
    }
    if (!w->full) {
        fault(w, i, -1, "WMMA needs every lane, but EXEC is 0x%llx",
              (unsigned long long)exec_bits(w));
        return false;
    }
    const unsigned low = i->extra[0] & 15, high = i->extra[0] >> 4;
    /* Of integers they say which of A and B have a sign; C has one, and its bit is not looked at
     * (Tensile sets all three, in kernels that run on gfx1100). */
    if (f->d == ELEMENT_I32 ? high : element_bits(f->a) != 16 && (low & 3 || high & 3)) {
        fault(w, i, -1, "negation of A and B is for matrices of 16-bit floats only");
        return false;
    }
    return true;
}

/* On gfx11 every group of 16 lanes must hold the same rows. */
static bool operand_repeats(struct wave *w, const struct insn *i, unsigned n, unsigned words)
{
    for (unsigned k = 0; k < words; k++) {
        const uint32_t *const row = vgpr(w, &i->op[n], 0) + k * w->lanes;
        for (unsigned l = 16; l < w->lanes; l++)
            if (row[l] != row[l & 15]) {
                fault(w, i, (int)l,
                      "operand %c of WMMA must be the same in lanes %u and %u, but "
                      "register %u of it is 0x%x and 0x%x",
                      n == 1 ? 'A' : 'B', l & 15, l, k, row[l & 15], row[l]);
                return false;
            }
    }
    return true;
}

/* An element of D is undefined if one of its row of A, of its column of B, or its C is. */
static bool through_matrix(struct wave *w, const struct insn *i, const struct form *f)
{
    struct shadow_wave *const sw = w->shadow;
    struct wave *const s = &sw->w;
    const bool high = i->extra[1] & 4;
    const struct form stored = stored_a(f);
    const struct operand *const c_operand = &i->op[f->sparse ? 0 : 3];
    bool any = false;

    for (unsigned n = 0; n < 4; n++)
        any = any || (i->op[n].kind == OPERAND_VGPR && suspect(sw, &i->op[n]));
    if (!any)
        return true;
    const struct origin origin = first_origin(sw, i, false);
    uint8_t rows[16] = {0}, columns[16] = {0};
    const uint32_t a_mask = 0xffffffffu >> (32 - element_bits(f->a));
    const uint32_t b_mask = 0xffffffffu >> (32 - element_bits(f->b));
    const uint32_t d_mask = 0xffffffffu >> (32 - element_bits(f->d));
    for (unsigned r = 0; r < 16; r++) {
        for (unsigned k = 0; k < stored.k; k++) {
            const struct place p = source_place(w, &stored, f->a, r, k);
            rows[r] |= (read_place(s, &i->op[1], p) & a_mask) != 0 ||
                       (f->sparse && vgpr(s, &i->op[3], 0)[p.lane]);
        }
        for (unsigned k = 0; k < f->k; k++)
            columns[r] |= (read_place(s, &i->op[2], source_place(w, f, f->b, r, k)) & b_mask) != 0;
    }
    for (unsigned r = 0; r < 16; r++)
        for (unsigned c = 0; c < 16; c++) {
            const struct place p = result_place(w, f, r, c, high);
            const bool bad =
                rows[r] || columns[c] ||
                (c_operand->kind == OPERAND_VGPR && read_place(s, c_operand, p) & d_mask);
            uint32_t *const to = vgpr(s, &i->op[0], 0) + p.word * w->lanes + p.lane;
            *to = (*to & ~(d_mask << p.shift)) | (bad ? d_mask << p.shift : 0);
        }
    note_result(sw, &i->op[0], origin);
    return true;
}

/* ---- The operation --------------------------------------------------------------------------- */

INLINE void put_result(struct wave *w, const struct insn *i, struct place p, unsigned bits,
                       uint32_t value)
{
    uint32_t *const to = vgpr(w, &i->op[0], 0) + p.word * w->lanes + p.lane;

    if (bits == 32)
        *to = value;
    else
        *to = (*to & ~(0xffffu << p.shift)) | (value & 0xffff) << p.shift;
}

/* Element k of A or B as a float: bits 0-3 of extra[0] negate those with an even k, 4-7 the others.
 */
INLINE float float_element(const struct wave *w, const struct insn *i, unsigned n, struct place p,
                           enum element type)
{
    const unsigned negated = i->extra[0] >> (p.shift & 16 ? 4 : 0) >> (n - 1) & 1;
    const float f = to_f32(read_place(w, &i->op[n], p), type);
    return negated ? -f : f;
}

/* What the modifiers make of an element of C. */
INLINE float float_addend(const struct insn *i, float f)
{
    f = i->extra[0] >> 6 & 1 ? fabsf(f) : f;
    return i->extra[0] >> 2 & 1 ? -f : f;
}

/*
 * Source n as to[k][row or column]: the 16 elements k of all rows or columns are a run of lanes of
 * one register. The groups of lanes that share k out come one after the other, and of a group its
 * registers. EACH gets `k`, the first of a register, and `from`.
 */
#define UNPACK(n, f, type, EACH)                                                                   \
    do {                                                                                           \
        const unsigned groups = repeats(w) ? 1 : source_lanes(w, f, type) / 16;                    \
        const unsigned words = source_words(w, f, type);                                           \
        const uint32_t *group = vgpr(w, &i->op[n], 0);                                             \
        unsigned k = 0;                                                                            \
        for (unsigned g = 0; g < groups; g++, group += 16)                                         \
            for (unsigned word = 0; word < words; word++, k += 32 / element_bits(type)) {          \
                const uint32_t *const from = group + word * w->lanes;                              \
                EACH;                                                                              \
            }                                                                                      \
    } while (0)

INLINE void unpack_floats(const struct wave *w, const struct insn *i, unsigned n,
                          const struct form *f, enum element type, float to[][16])
{
    /* bit n - 1 negates those with an even k, the one four further up the others */
    const unsigned negated = i->extra[0] >> (n - 1) & 0x11;

    UNPACK(n, f, type, widen(to + k, from, type));
    for (unsigned k = 0; k < f->k && UNLIKELY(negated); k++)
        for (unsigned r = 0; r < 16 && negated >> k % 2 * 4 & 1; r++)
            to[k][r] = -to[k][r];
}

INLINE void unpack_integers(const struct wave *w, const struct insn *i, unsigned n,
                            const struct form *f, enum element type, int32_t to[][16])
{
    UNPACK(n, f, type, widen_integers(to + k, from, type, i->extra[0] & n));
}

/* Where row r of C or D begins, from its first register on: a run of lanes of one register. */
INLINE size_t result_run(const struct wave *w, const struct form *f, unsigned r)
{
    const struct place p = result_place(w, f, r, 0, false);
    return p.word * w->lanes + p.lane;
}

/* Row r of C. */
INLINE void addends(const struct wave *w, const struct insn *i, const struct form *f, unsigned r,
                    uint32_t to[16])
{
    const struct operand *const o = &i->op[3];
    const unsigned shift = result_place(w, f, r, 0, i->extra[1] & 4).shift;
    const uint32_t same = o->kind == OPERAND_CONST  ? o->rows[0]
                          : o->kind == OPERAND_SGPR ? w->s[o->reg]
                                                    : 0;
    for (unsigned c = 0; c < 16; c++)
        to[c] = o->kind == OPERAND_VGPR ? vgpr(w, o, 0)[result_run(w, f, r) + c] >> shift : same;
}

/* Row r of D. */
INLINE void put_results(struct wave *w, const struct insn *i, const struct form *f, unsigned r,
                        const uint32_t from[16])
{
    const unsigned shift = result_place(w, f, r, 0, i->extra[1] & 4).shift;
    uint32_t *const to = vgpr(w, &i->op[0], 0) + result_run(w, f, r);
    const uint32_t stays = element_bits(f->d) == 32 ? 0 : 0xffff0000u >> shift;

    for (unsigned c = 0; c < 16; c++)
        to[c] = (to[c] & stays) | (from[c] & (stays ? 0xffff : 0xffffffffu)) << shift;
}

/* Rows of C as f32: where they are in the registers, or in `c` after a conversion. */
INLINE void float_addends(const struct wave *w, const struct insn *i, const struct form *f,
                          float c[16][16], const float *rows[16])
{
    const bool same = i->op[3].kind != OPERAND_VGPR, modified = i->extra[0] & 0x44;

    if (!same && !modified && f->d == ELEMENT_F32) {
        for (unsigned r = 0; r < 16; r++)
            rows[r] = (const float *)vgpr(w, &i->op[3], 0) + result_run(w, f, r);
        return;
    }
    for (unsigned r = 0; r < 16; r++)
        rows[r] = c[same ? 0 : r];
    for (unsigned r = 0; r < (same ? 1 : 16); r++) {
        uint32_t bits[16];
        addends(w, i, f, r, bits);
        for (unsigned n = 0; n < 16; n++)
            c[r][n] = float_addend(i, to_f32(bits[n], f->d));
    }
}

/* The smallest normal number of a type. */
INLINE float least_normal(enum element type)
{
    return type == ELEMENT_BF16  ? 0x1p-126f
           : type == ELEMENT_FP8 ? 0x1p-6f
                                 : 0x1p-14f; /* f16 and bf8 */
}

INLINE enum adder_result result_of(const struct form *f)
{
    return f->d == ELEMENT_F16 ? ADDER_F16 : f->d == ELEMENT_BF16 ? ADDER_BF16 : ADDER_F32;
}

/*
 * The adder of a form of floats. Published are those of 16 bits that are not sparse, of RDNA 3 and
 * 4; of all others there are candidates (docs/sim.md).
 */
static struct adder_model model_of(const struct wave *w, const struct form *f)
{
    static const struct adder_model of_rdna3_5[SIM_CANDIDATES] = {
        {ADDER_RDNA3, 2, 1}, {ADDER_RDNA4, 4, 2}, {ADDER_FUSED, 1, 1}};
    static const struct adder_model of_eight[SIM_CANDIDATES] = {
        {ADDER_FUSED, 1, 1}, {ADDER_RDNA4, 4, 4}, {ADDER_RDNA4, 4, 2}};
    static const struct adder_model of_sparse[SIM_CANDIDATES] = {
        {ADDER_FUSED, 1, 1}, {ADDER_RDNA4, 4, 2}, {ADDER_RDNA4, 2, 2}};

    if (w->candidate == SIM_NO_CANDIDATE)
        return (struct adder_model){ADDER_FUSED, 1, 1};
    if (element_bits(f->a) == 16 && !f->sparse && !w->open_wmma)
        return (struct adder_model){w->adder, repeats(w) ? 2 : 4, 2};
    return open_model(w, repeats(w) ? of_rdna3_5 : element_bits(f->a) == 8 ? of_eight : of_sparse);
}

/*
 * Sums of floats as the hardware's adder makes them. Of 16-bit elements gfx12 takes the first half
 * of what a lane holds of a row before the second: in waves of 32 that is not the order of k.
 */
static void add_as_hardware(const struct wave *w, const struct form *f, struct adder_model model,
                            float a[][16], float b[][16], const float *const rows[16],
                            float d[16][16])
{
    static const uint8_t halves[] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};
    const struct adder how = {model, {least_normal(f->a), least_normal(f->b)}, result_of(f)};
    const uint8_t *const order =
        repeats(w) || w->lanes == 64 || element_bits(f->a) != 16 ? NULL : halves;
    const unsigned mode = set_denormals(false);

    for (unsigned r = 0; r < 16; r++)
        memcpy(d[r], rows[r], sizeof d[r]);
    add_rows(
        &how, d[0], 16, 16, 16,
        &(struct factors){
            .a = a[0], .b = b[0], .a_width = 16, .b_width = 16, .order = order, .count = f->k});
    restore_denormals(mode);
}

INLINE void multiply_floats(struct wave *w, const struct insn *i, const struct form *f)
{
    FLOATS a[32][16], b[32][16], c[16][16], d[16][16];
    const float *rows[16];
    float *to[16];
    const int from_c = i->op[0].reg - i->op[3].reg, words = (int)result_words(w, f);
    /* results go straight to D, unless some of C that is read later is there */
    const struct adder_model model = model_of(w, f);
    const bool added = model.kind != ADDER_FUSED;
    const bool apart = !added && f->d == ELEMENT_F32 &&
                       (i->op[3].kind != OPERAND_VGPR || !from_c || abs(from_c) >= words);

    unpack_floats(w, i, 1, f, f->a, a);
    unpack_floats(w, i, 2, f, f->b, b);
    float_addends(w, i, f, c, rows);
    for (unsigned r = 0; r < 16; r++)
        to[r] = apart ? (float *)(vgpr(w, &i->op[0], 0) + result_run(w, f, r)) : d[r];
    if (added)
        add_as_hardware(w, f, model, a, b, rows, d);
    else if (f->a == ELEMENT_BF16)
        add_products(to, rows, a[0], 16, b[0], 16, f->k);
    else
        add_exact_products(to, rows, a[0], 16, b[0], 16, f->k);
    for (unsigned r = 0; r < 16 && !apart; r++) {
        uint32_t row[16];
        for (unsigned n = 0; n < 16; n++)
            row[n] = from_f32(d[r][n], f->d);
        put_results(w, i, f, r, row);
    }
}

/* With the modifier clamp a sum saturates after the products of even k / 8 and after the others, as
 * was captured on gfx1201 (bjacob/goc); on gfx11, of which nothing is known, once. */
INLINE int64_t staged(const struct wave *w, const struct insn *i, unsigned stage, int64_t sum)
{
    const bool now = i->flags & INSN_CLAMP && (stage || !repeats(w));
    return now ? saturate_i32(sum) : sum;
}

INLINE void multiply_integers(struct wave *w, const struct insn *i, const struct form *f)
{
    /* here k goes by groups of 16 lanes; of four such groups each second holds an odd k / 8 */
    const unsigned eight = source_lanes(w, f, f->a) == 64 && f->k == 16 ? 4 : 8;
    int32_t a[32][16], b[32][16];
    int64_t d[16][16];

    unpack_integers(w, i, 1, f, f->a, a);
    unpack_integers(w, i, 2, f, f->b, b);
    for (unsigned r = 0; r < 16; r++) {
        uint32_t c_row[16];
        addends(w, i, f, r, c_row);
        for (unsigned c = 0; c < 16; c++)
            d[r][c] = (int32_t)c_row[c];
        for (unsigned stage = 0; stage < 2; stage++) {
            for (unsigned k = 0; k < f->k; k++)
                for (unsigned c = 0; c < 16 && k / eight % 2 == stage; c++)
                    d[r][c] += a[k][r] * b[k][c];
            for (unsigned c = 0; c < 16; c++)
                d[r][c] = staged(w, i, stage, d[r][c]);
        }
    }
    for (unsigned r = 0; r < 16; r++) {
        uint32_t row[16];
        for (unsigned c = 0; c < 16; c++)
            row[c] = (uint32_t)d[r][c];
        put_results(w, i, f, r, row);
    }
}

INLINE const struct insn *multiply(struct wave *w, const struct insn *i, const struct form f)
{
    if (!operands_fit(w, i, &f) ||
        (repeats(w) && (!operand_repeats(w, i, 1, source_words(w, &f, f.a)) ||
                        !operand_repeats(w, i, 2, source_words(w, &f, f.b)))) ||
        (UNLIKELY(w->shadow != NULL) && !through_matrix(w, i, &f)))
        return NULL;
    if (f.d == ELEMENT_I32)
        multiply_integers(w, i, &f);
    else
        multiply_floats(w, i, &f);
    return i + 1;
}

/* ---- Sparse matrices ------------------------------------------------------------------------- */

/*
 * Which of the four k from 4 g on in row r the two stored elements are, or 4 for none. A lane's
 * index register has four bits for each of its pairs; one register has room for the indices of
 * several instructions, and index_key says whose turn it is.
 */
static void sparse_places(const struct wave *w, const struct insn *i, const struct form *stored,
                          unsigned r, unsigned g, unsigned at[2])
{
    const struct place p = source_place(w, stored, stored->a, r, 2 * g);
    const unsigned bits = element_bits(stored->a);
    const unsigned elements = stored->k * 16 / source_lanes(w, stored, stored->a);
    const unsigned pair = (p.word * 32 + p.shift) / bits / 2;
    const uint32_t lane = vgpr(w, &i->op[3], 0)[p.lane];
    const uint32_t indices = lane >> (4 * pair + 2 * elements * (i->extra[1] & 3));

    at[0] = indices & 3;
    at[1] = indices >> 2 & 3;
    /* the indices ascend; of those that do not, the hardware drops what it would have to swap */
    if (at[1] == at[0] || at[1] == 0)
        at[1] = 4;
    if (at[0] == 3)
        at[0] = 4;
}

/* Sums of floats as an adder makes them: of each row, what A stores and what it chooses of B. A
 * zero stands for what is dropped. */
static void add_sparse_floats(const struct wave *w, const struct insn *i, const struct form *f,
                              struct adder_model model, float d[16][16])
{
    const struct adder how = {model, {least_normal(f->a), least_normal(f->b)}, result_of(f)};
    const struct form stored = stored_a(f);
    const unsigned mode = set_denormals(false);
    float x[32], y[32][16];

    for (unsigned r = 0; r < 16; r++) {
        memset(y, 0, sizeof y);
        for (unsigned k = 0; k < stored.k; k++) {
            unsigned at[2];
            sparse_places(w, i, &stored, r, k / 2, at);
            x[k] = at[k & 1] < 4
                       ? float_element(w, i, 1, source_place(w, &stored, f->a, r, k), f->a)
                       : 0;
            for (unsigned c = 0; c < 16 && at[k & 1] < 4; c++)
                y[k][c] = float_element(w, i, 2, source_place(w, f, f->b, c, k / 2 * 4 + at[k & 1]),
                                        f->b);
        }
        add_rows(
            &how, d[r], 16, 1, 16,
            &(struct factors){.a = x, .b = y[0], .a_width = 1, .b_width = 16, .count = stored.k});
    }
    restore_denormals(mode);
}

static const struct insn *multiply_sparse(struct wave *w, const struct insn *i,
                                          const struct form *f)
{
    const struct form stored = stored_a(f);
    const bool integer = f->d == ELEMENT_I32;
    float d[16][16];
    int64_t di[16][16];

    if (!operands_fit(w, i, f) || (UNLIKELY(w->shadow != NULL) && !through_matrix(w, i, f)))
        return NULL;
    for (unsigned r = 0; r < 16; r++)
        for (unsigned c = 0; c < 16; c++) {
            const uint32_t bits = read_place(w, &i->op[0], result_place(w, f, r, c, false));
            di[r][c] = (int32_t)bits;
            d[r][c] = to_f32(bits, f->d);
        }
    const struct adder_model model =
        integer ? (struct adder_model){ADDER_FUSED, 1, 1} : model_of(w, f);
    if (model.kind != ADDER_FUSED)
        add_sparse_floats(w, i, f, model, d);
    for (unsigned n = 0; n < 32 * stored.k && model.kind == ADDER_FUSED; n++) {
        /* integers of a row go in two stages, floats in the order of k */
        const unsigned r = n / (2 * stored.k), stage = n / stored.k % 2, k = n % stored.k;
        if (integer ? k / 8 % 2 == stage : !stage) {
            const struct place pa = source_place(w, &stored, f->a, r, k);
            unsigned at[2];
            sparse_places(w, i, &stored, r, k / 2, at);
            for (unsigned c = 0; c < 16 && at[k & 1] < 4; c++) {
                const struct place pb = source_place(w, f, f->b, c, k / 2 * 4 + at[k & 1]);
                if (integer)
                    di[r][c] += to_integer(read_place(w, &i->op[1], pa), f->a, i->extra[0] & 1) *
                                to_integer(read_place(w, &i->op[2], pb), f->b, i->extra[0] & 2);
                else
                    d[r][c] = fma_f32(float_element(w, i, 1, pa, f->a),
                                      float_element(w, i, 2, pb, f->b), d[r][c]);
            }
        }
        for (unsigned c = 0; c < 16 && k + 1 == stored.k; c++)
            di[r][c] = staged(w, i, stage, di[r][c]);
    }
    for (unsigned r = 0; r < 16; r++)
        for (unsigned c = 0; c < 16; c++) {
            const uint32_t value = integer ? (uint32_t)di[r][c] : from_f32(d[r][c], f->d);
            put_result(w, i, result_place(w, f, r, c, false), element_bits(f->d), value);
        }
    return i + 1;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define FORM(NAME, K, T, D)   FORM_OF(NAME, K, T, T, D)
#define SPARSE(NAME, K, T, D) SPARSE_OF(NAME, K, T, T, D)
#define FORM_OF(NAME, K, A, B, D)                                                                  \
    BODY_OF(NAME, multiply(w, i, (struct form){K, ELEMENT_##A, ELEMENT_##B, ELEMENT_##D, false}))
#define SPARSE_OF(NAME, K, A, B, D)                                                                \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        static const struct form form = {K, ELEMENT_##A, ELEMENT_##B, ELEMENT_##D, true};          \
        return multiply_sparse(w, i, &form);                                                       \
    }
#include "sim/exec/wave/exec_matrix.def"
#undef FORM_OF
#undef SPARSE_OF

#define FORM_OF(NAME, ...) {#NAME, QUERN_CLASS_MATRIX, UNDEF_MATRIX, "=D0D1D2D3", x_##NAME},
#define SPARSE_OF          FORM_OF

const struct sim_row rows_matrix[] = {
#include "sim/exec/wave/exec_matrix.def"
    {0}};
