/* SPDX-License-Identifier: MIT */
/*
 * Sparse matrix instructions of gfx9 (SMFMAC): rows in exec_smfmac.def. EXEC is ignored, C is D.
 *
 * Of every four k, A stores two elements, and four bits of the index register of the lane that
 * holds them say which two. An instruction needs 8, 16 or 32 bits of that register; with cbsz:0,
 * abid says which part they are, else it is the lowest. Sums go over the stored elements in their
 * order, each step a fused multiply-add in the type of D, or by another of the candidates, as
 * nobody has published how they add; what is not stored takes no part, so that infinities and NaN
 * of B at its k do nothing.
 *
 * Sources: AMD's matrix instruction calculator (gfx942). For gfx950's forms of twice the K, what
 * others probed on MI350s: A goes on in the lane, while B comes in two rounds of 16 bytes.
 */
#include "sim/exec/wave/exec_masks.h"
#include "sim/exec/wave/mfma_form.h"
#include "sim/launch.h"

/* ---- Layouts --------------------------------------------------------------------------------- */

/* Groups of lanes that share out k; a group is the rows of A, or the columns of B and D. */
INLINE unsigned groups_of(const struct form *f)
{
    return LANES_64 / f->m;
}

/* Elements of A that a lane holds; of B it is twice as many. */
INLINE unsigned stored_of(const struct form *f)
{
    return f->k / 2 / groups_of(f);
}

/* Registers of A; of B twice as many. */
INLINE unsigned words_of_a(const struct form *f)
{
    return stored_of(f) * element_bits(f->a) / 32;
}

INLINE unsigned words_of_d(const struct form *f)
{
    return f->m * f->m / LANES_64;
}

/* Where element k of a column of B is: the group of lanes, and the place in the lane. */
INLINE struct place place_of_b(const struct form *f, unsigned k)
{
    const unsigned each = 2 * stored_of(f), most = 128 / element_bits(f->b);
    const unsigned run = each < most ? each : most, round = run * groups_of(f);

    return (struct place){.lane = k % round / run, .element = k / round * run + k % run};
}

/* The k of the two elements that group g of lanes stores at place `at` and the next, in row r. */
INLINE void places_of_a(const struct wave *w, const struct insn *i, const struct form *f,
                        unsigned r, unsigned g, unsigned at, unsigned k[2])
{
    const unsigned bits = 2 * stored_of(f), cbsz = i->extra[2], abid = i->extra[3] & 15;
    const uint32_t index = vgpr(w, &i->op[3], 0)[g * f->m + r] >> (cbsz ? 0 : abid * bits & 31);
    const unsigned first = 2 * (g * stored_of(f) + at);

    k[0] = first + (index >> 2 * at & 3);
    k[1] = first + (index >> (2 * at + 2) & 3);
}

static bool operands_fit(struct wave *w, const struct insn *i, const struct form *f)
{
    const unsigned limit = w->group->run->module->vgpr_limit, a = words_of_a(f);
    const unsigned sets = 32 / (2 * stored_of(f)), abid = i->extra[3] & 15;

    if (!i->extra[2] && abid >= sets) {
        fault(w, i, -1, "abid:%u: the index register has %u part%s for this instruction", abid,
              sets, sets > 1 ? "s" : "");
        return false;
    }
    if (w->lanes != LANES_64 || i->op[1].kind != OPERAND_VGPR || i->op[2].kind != OPERAND_VGPR ||
        i->op[3].kind != OPERAND_VGPR || i->op[0].reg + words_of_d(f) > limit ||
        i->op[1].reg + a > limit || i->op[2].reg + 2 * a > limit || i->op[3].reg >= limit) {
        fault(w, i, -1, "a matrix operand goes beyond the %u vector registers of the wave", limit);
        return false;
    }
    return true;
}

/* ---- Full check ------------------------------------------------------------------------------ */

/* An element of D is undefined if it was before, or one of its row of A, one of that row's indices
 * or one of its column of B is. */
static void through_smfmac(struct wave *w, const struct insn *i, const struct form *f)
{
    struct shadow_wave *const sw = w->shadow;
    struct wave *const s = &sw->w;
    uint32_t rows[32] = {0}, columns[32] = {0};
    bool any = false;

    for (unsigned n = 0; n < 4; n++)
        any = any || suspect(sw, &i->op[n]);
    if (!any)
        return;
    const struct origin origin = first_origin(sw, i, false);
    for (unsigned l = 0; l < LANES_64; l++) {
        rows[l % f->m] |= vgpr(s, &i->op[3], 0)[l];
        for (unsigned k = 0; k < words_of_a(f); k++)
            rows[l % f->m] |= vgpr(s, &i->op[1], 0)[k * LANES_64 + l];
        for (unsigned k = 0; k < 2 * words_of_a(f); k++)
            columns[l % f->m] |= vgpr(s, &i->op[2], 0)[k * LANES_64 + l];
    }
    for (unsigned r = 0; r < f->m; r++) {
        const struct place at = result_run(f, r, 0);
        uint32_t *const d = vgpr(s, &i->op[0], 0) + at.element * LANES_64 + at.lane;
        for (unsigned c = 0; c < f->m; c++)
            d[c] = d[c] | rows[r] | columns[c] ? 0xffffffffu : 0;
    }
    note_result(sw, &i->op[0], origin);
}

/* ---- The operation --------------------------------------------------------------------------- */

/* B as [k][column]; D may be A or B, so all of both is read before D is written. */
#define MULTIPLY(T, READ_A, READ_B, LOAD, STEP, STORE)                                             \
    do {                                                                                           \
        T b[128][32], d[32][32];                                                                   \
        for (unsigned k = 0; k < f->k; k++) {                                                      \
            const struct place p = place_of_b(f, k);                                               \
            for (unsigned c = 0; c < f->m; c++) {                                                  \
                const uint32_t bits =                                                              \
                    element_of(vgpr(w, &i->op[2], 0), p.lane * f->m + c, f->b, p.element);         \
                b[k][c] = READ_B;                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (unsigned r = 0; r < f->m; r++) {                                                      \
            const struct place to = result_run(f, r, 0);                                           \
            const uint32_t *const from = vgpr(w, &i->op[0], 0) + to.element * LANES_64 + to.lane;  \
            for (unsigned c = 0; c < f->m; c++)                                                    \
                d[r][c] = LOAD(from[c]);                                                           \
            for (unsigned g = 0; g < groups_of(f); g++)                                            \
                for (unsigned e = 0; e < stored_of(f); e++) {                                      \
                    const uint32_t bits =                                                          \
                        element_of(vgpr(w, &i->op[1], 0), g * f->m + r, f->a, e);                  \
                    const T x = READ_A;                                                            \
                    unsigned k[2];                                                                 \
                    places_of_a(w, i, f, r, g, e & ~1u, k);                                        \
                    for (unsigned c = 0; c < f->m; c++)                                            \
                        d[r][c] = STEP(x, b[k[e & 1]][c], d[r][c]);                                \
                }                                                                                  \
        }                                                                                          \
        for (unsigned r = 0; r < f->m; r++) {                                                      \
            const struct place to = result_run(f, r, 0);                                           \
            for (unsigned c = 0; c < f->m; c++)                                                    \
                vgpr(w, &i->op[0], 0)[to.element * LANES_64 + to.lane + c] = STORE(d[r][c]);       \
        }                                                                                          \
    } while (0)

#define WRAPPED(x, y, z) (int32_t)((uint32_t)(z) + (uint32_t)((x) * (y)))

/* Sums of floats as an adder makes them: of each row, what A stores and what it chooses of B. */
static void add_as_model(struct wave *w, const struct insn *i, const struct form *f,
                         struct adder_model model)
{
    const struct adder how = {model, {least_normal(w, f->a), least_normal(w, f->b)}, ADDER_F32};
    FLOATS b[128][32], d[32][32], x[64], y[64][32];

    for (unsigned k = 0; k < f->k; k++) {
        const struct place p = place_of_b(f, k);
        for (unsigned c = 0; c < f->m; c++)
            b[k][c] = to_f32(element_of(vgpr(w, &i->op[2], 0), p.lane * f->m + c, f->b, p.element),
                             f->b, w->fnuz);
    }
    for (unsigned r = 0; r < f->m; r++) {
        const struct place at = result_run(f, r, 0);
        for (unsigned n = 0; n < f->k / 2; n++) {
            const unsigned g = n / stored_of(f), e = n % stored_of(f);
            unsigned k[2];
            places_of_a(w, i, f, r, g, e & ~1u, k);
            x[n] = to_f32(element_of(vgpr(w, &i->op[1], 0), g * f->m + r, f->a, e), f->a, w->fnuz);
            memcpy(y[n], b[k[e & 1]], sizeof y[n]);
        }
        memcpy(d[r], vgpr(w, &i->op[0], 0) + at.element * LANES_64 + at.lane, f->m * sizeof(float));
        add_rows(
            &how, d[r], 32, 1, f->m,
            &(struct factors){.a = x, .b = y[0], .a_width = 1, .b_width = 32, .count = f->k / 2});
    }
    for (unsigned r = 0; r < f->m; r++) {
        const struct place at = result_run(f, r, 0);
        memcpy(vgpr(w, &i->op[0], 0) + at.element * LANES_64 + at.lane, d[r], f->m * sizeof(float));
    }
}

static const struct insn *smfmac(struct wave *w, const struct insn *i, const struct form *f)
{
    if (!operands_fit(w, i, f))
        return NULL;
    if (UNLIKELY(w->shadow != NULL))
        through_smfmac(w, i, f);
    static const struct adder_model of_sixteen[SIM_CANDIDATES] = {
        {ADDER_FUSED, 1, 1}, {ADDER_CDNA3, 8, 1}, {ADDER_CDNA3, 4, 1}};
    const bool eight = f->a == ELEMENT_FP8 || f->a == ELEMENT_BF8;
    const unsigned mode = set_denormals(false);
    if (f->d == ELEMENT_I32) {
        MULTIPLY(int32_t, (int8_t)bits, (int8_t)bits, (int32_t), WRAPPED, (uint32_t));
        restore_denormals(mode);
        return i + 1;
    }
    const struct adder_model model = open_model(w, eight ? candidates_of_small(w) : of_sixteen);
    if (model.kind != ADDER_FUSED)
        add_as_model(w, i, f, model);
    else
        MULTIPLY(float, to_f32(bits, f->a, w->fnuz), to_f32(bits, f->b, w->fnuz), f32_of, fma_f32,
                 bits_of_f32);
    restore_denormals(mode);
    return i + 1;
}

#define FORM(NAME, SIZE, K, T, D) FORM_OF(NAME, SIZE, K, T, T, D)
#define FORM_OF(NAME, SIZE, K, A, B, D)                                                            \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        static const struct form form = {SIZE,        SIZE,        K,           1,                 \
                                         ELEMENT_##A, ELEMENT_##B, ELEMENT_##D, false};            \
        return smfmac(w, i, &form);                                                                \
    }
#include "sim/exec/wave/exec_smfmac.def"
#undef FORM_OF
#define FORM_OF(NAME, ...) {#NAME, QUERN_CLASS_MATRIX, UNDEF_MATRIX, "=D0D1D2u3", x_##NAME},

const struct sim_row rows_smfmac[] = {
#include "sim/exec/wave/exec_smfmac.def"
    {0}};
