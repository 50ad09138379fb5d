/* SPDX-License-Identifier: MIT */
/*
 * Matrix instructions of gfx9 (MFMA): rows in exec_mfma.def. A wave of 64, EXEC ignored.
 *
 * A and B are first unpacked to arrays [k][row or column of all blocks]; then the rows of D, which
 * are runs of lanes of one register, are computed four at a time. Sums go over k upward from the
 * element of C, each step a fused multiply-add in the type of D, or as the hardware's adders do it,
 * where these are known, or as one of the candidates does it, where they are not.
 *
 * Denormals count whatever the float mode says, but forms of f16 and bf16 on gfx90a take denormal
 * inputs for zeros and round denormal sums to zero (AMD's notes on MI200 in the documentation of
 * MIOpen).
 *
 * This file is long because floats, integers, doubles and scaled floats are each multiplied in a
 * way of their own, all of them over the same rows.
 */
#include "sim/exec/wave/adders.h"
#include "sim/exec/wave/exec_masks.h"
#include "sim/exec/wave/mfma_form.h"
#include "sim/launch.h"

/* ---- Denormals ------------------------------------------------------------------------------- */

/* A denormal half is a normal f32, which no mode flushes. */
static void flush_f16(float *x, unsigned count)
{
    for (unsigned n = 0; n < count; n++)
        x[n] = pick_f32(fabsf(x[n]) < 0x1p-14f, copysignf(0, x[n]), x[n]);
}

/* ---- Operands -------------------------------------------------------------------------------- */

/* The type of A or B, of which an instruction may choose. */
INLINE enum element chosen(enum element type, unsigned code)
{
    static const enum element types[] = {ELEMENT_FP8, ELEMENT_BF8, ELEMENT_FP6, ELEMENT_BF6,
                                         ELEMENT_FP4};
    return type == ELEMENT_F8F6F4 ? types[code] : type;
}

static bool operands_fit(struct wave *w, const struct insn *i, const struct form *f)
{
    const unsigned limit = w->group->run->module->vgpr_limit, d = result_words(f);
    const unsigned cbsz = i->extra[2], abid = i->extra[3] & 15, blgp = i->extra[3] >> 4;

    if (f->a == ELEMENT_F8F6F4 ? cbsz > 4 || blgp > 4 : 1u << cbsz > f->blocks || abid >> cbsz) {
        fault(w, i, -1, "cbsz:%u abid:%u blgp:%u is nothing for this matrix instruction", cbsz,
              abid, blgp);
        return false;
    }
    const unsigned a = source_words(f, chosen(f->a, cbsz), f->m);
    const unsigned b = source_words(f, chosen(f->b, blgp), f->n);
    if (w->lanes != LANES_64 || i->op[0].reg + d > limit || i->op[1].kind != OPERAND_VGPR ||
        i->op[2].kind != OPERAND_VGPR || i->op[1].reg + a > limit || i->op[2].reg + b > limit ||
        (i->op[3].kind == OPERAND_VGPR && i->op[3].reg + d > limit)) {
        fault(w, i, -1, "a matrix operand goes beyond the %u vector registers of the wave", limit);
        return false;
    }
    return true;
}

/* A constant or scalar C: the same in all elements. */
INLINE uint32_t same_addend(const struct wave *w, const struct operand *o, unsigned word)
{
    return o->kind == OPERAND_CONST ? o->rows[word * LANES_64] : w->s[o->reg + word];
}

INLINE const uint32_t *addend_row(const struct wave *w, const struct operand *o, unsigned word,
                                  unsigned lane)
{
    return vgpr(w, o, 0) + word * LANES_64 + lane;
}

/* B with its lanes as blgp puts them, into `to`. */
static const uint32_t *patterned(const uint32_t *row, unsigned words, unsigned blgp, uint32_t *to)
{
    for (unsigned k = 0; k < words; k++)
        for (unsigned l = 0; l < LANES_64; l++)
            to[k * LANES_64 + l] = row[k * LANES_64 + pattern_lane(l, blgp)];
    return to;
}

/* The block of A that a block uses: one is broadcast to 2^cbsz. */
INLINE unsigned block_of_a(const struct insn *i, unsigned block)
{
    const unsigned size = 1u << i->extra[2];
    return block / size * size + (i->extra[3] & 15);
}

/* ---- Full check ------------------------------------------------------------------------------ */

/* An element of D is undefined if one of its row of A, of its column of B, or its C is. */
static void through_mfma(struct wave *w, const struct insn *i, const struct form *f)
{
    struct shadow_wave *const sw = w->shadow;
    struct wave *const s = &sw->w;
    const unsigned cbsz = i->extra[2], blgp = i->extra[3] >> 4, d_words = result_words(f);
    const bool typed = f->a == ELEMENT_F8F6F4;
    const enum element a = chosen(f->a, cbsz), b = chosen(f->b, blgp);
    const unsigned per = element_bits(f->d) / 32;
    uint32_t rows[64] = {0}, columns[64] = {0}, moved[32 * 64];
    bool any = false;

    for (unsigned n = 1; n < 6; n++)
        any = any || (i->op[n].kind == OPERAND_VGPR && suspect(sw, &i->op[n]));
    if (!any) {
        for (unsigned k = 0; k < d_words; k++)
            if (sw->flags[i->op[0].reg + k]) {
                memset(vgpr(s, &i->op[0], 0) + k * LANES_64, 0, LANES_64 * 4);
                sw->flags[i->op[0].reg + k] = 0;
            }
        return;
    }
    const struct origin origin = first_origin(sw, i, false);
    unpack_masks(f, a, f->m * f->blocks, vgpr(s, &i->op[1], 0), rows);
    unpack_masks(f, b, f->n * f->blocks,
                 typed || f->d == ELEMENT_F64
                     ? vgpr(s, &i->op[2], 0)
                     : patterned(vgpr(s, &i->op[2], 0), source_words(f, b, f->n), blgp, moved),
                 columns);
    for (unsigned l = 0; l < LANES_64 && f->scaled; l++) {
        if (i->op[4].kind == OPERAND_VGPR)
            rows[l % f->m] |= vgpr(s, &i->op[4], 0)[l];
        if (i->op[5].kind == OPERAND_VGPR)
            columns[l % f->n] |= vgpr(s, &i->op[5], 0)[l];
    }
    for (unsigned block = 0; block < f->blocks; block++)
        for (unsigned r = 0; r < f->m; r++) {
            const struct place at = result_run(f, r, block);
            const unsigned of_a = (typed ? block : block_of_a(i, block)) * f->m + r;
            for (unsigned c = 0; c < f->n; c++) {
                uint32_t bad = rows[of_a] | columns[block * f->n + c];
                for (unsigned k = 0; k < per && i->op[3].kind == OPERAND_VGPR; k++)
                    bad |= *addend_row(s, &i->op[3], at.element * per + k, at.lane + c);
                for (unsigned k = 0; k < per; k++)
                    vgpr(s, &i->op[0], 0)[(at.element * per + k) * LANES_64 + at.lane + c] =
                        bad ? 0xffffffffu : 0;
            }
        }
    note_result(sw, &i->op[0], origin);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Four rows of D, which share registers' lanes: acc[q][c] is column c of row i + q. */
#define FOUR_ROWS(T, N, LOAD, STEP, STORE)                                                         \
    for (unsigned block = 0; block < f->blocks; block++)                                           \
        for (unsigned r = 0; r < f->m; r += 4) {                                                   \
            const struct place at = result_run(f, r, block);                                       \
            const T *const ar = a + block_of_a(i, block) * f->m + r, *const bc = b + block * (N);  \
            T acc[4][32];                                                                          \
            for (unsigned q = 0; q < 4; q++) {                                                     \
                if (i->op[3].kind == OPERAND_VGPR) {                                               \
                    const uint32_t *const p = addend_row(w, &i->op[3], at.element + q, at.lane);   \
                    for (unsigned c = 0; c < (N); c++)                                             \
                        acc[q][c] = LOAD(p[c]);                                                    \
                } else {                                                                           \
                    for (unsigned c = 0; c < (N); c++)                                             \
                        acc[q][c] = LOAD(same);                                                    \
                }                                                                                  \
            }                                                                                      \
            for (unsigned k = 0; k < f->k; k++)                                                    \
                for (unsigned q = 0; q < 4; q++) {                                                 \
                    const T x = ar[k * a_width + q];                                               \
                    for (unsigned c = 0; c < (N); c++)                                             \
                        acc[q][c] = STEP(x, bc[k * b_width + c], acc[q][c]);                       \
                }                                                                                  \
            for (unsigned q = 0; q < 4; q++) {                                                     \
                uint32_t *const p = vgpr(w, &i->op[0], 0) + (at.element + q) * LANES_64 + at.lane; \
                for (unsigned c = 0; c < (N); c++)                                                 \
                    p[c] = STORE(acc[q][c]);                                                       \
            }                                                                                      \
        }

#define FUSED(x, y, z) fma_f32(x, y, z)
/* the product is exact: adding it is the same, and fast on hosts without a fused step */
#define ADDED(x, y, z)   ((x) * (y) + (z))
#define WRAPPED(x, y, z) ((z) + (x) * (y))

INLINE bool products_are_exact(const struct form *f)
{
    return f->a != ELEMENT_F32 && f->a != ELEMENT_XF32 && f->a != ELEMENT_BF16;
}

/* D in tiles of 16 rows and 16 columns. */
INLINE void multiply_tiles(struct wave *w, const struct insn *i, const struct form *f,
                           const float *a, const float *b)
{
    const unsigned a_width = f->m * f->blocks, b_width = f->n * f->blocks;
    const struct operand *const o = &i->op[3];
    const bool rows = o->kind == OPERAND_VGPR;
    const bool exact = products_are_exact(f);
    FLOATS same[16];

    for (unsigned n = 0; n < 16 && !rows; n++)
        same[n] = f32_of(same_addend(w, o, 0));
    for (unsigned block = 0; block < f->blocks; block++)
        for (unsigned r = 0; r < f->m; r += 16) {
            const float *const ar = a + block_of_a(i, block) * f->m + r;
            for (unsigned c = 0; c < f->n; c += 16) {
                const float *const bc = b + block * f->n + c, *from[16];
                float *to[16];
                for (unsigned q = 0; q < 16; q++) {
                    const struct place at = result_run(f, r + q, block);
                    const unsigned row = at.element * LANES_64 + at.lane + c;
                    from[q] = rows ? (const float *)(vgpr(w, o, 0) + row) : same;
                    to[q] = (float *)(vgpr(w, &i->op[0], 0) + row);
                }
                if (exact)
                    add_exact_products(to, from, ar, a_width, bc, b_width, f->k);
                else
                    add_products(to, from, ar, a_width, bc, b_width, f->k);
            }
        }
}

#if defined __FMA__ && defined __AVX2__
/* 16 blocks of 4 by 4, each with an A of its own: column l % 4 of block l / 4 is lane l, and row q
 * register q. Of what a block's lanes hold of A, element q goes to all four. */
INLINE void multiply_blocks(struct wave *w, const struct insn *i, const struct form *f,
                            const float *a, const float *b)
{
    const struct operand *const c = &i->op[3];
    const bool rows = c->kind == OPERAND_VGPR;
    const float same = rows ? 0 : f32_of(same_addend(w, c, 0));
    float *const d = (float *)vgpr(w, &i->op[0], 0);

    for (unsigned l = 0; l < LANES_64; l += 8) {
        __m256 sum[4];
        for (unsigned q = 0; q < 4; q++)
            sum[q] = rows ? _mm256_loadu_ps((const float *)addend_row(w, c, q, l))
                          : _mm256_set1_ps(same);
        for (unsigned k = 0; k < f->k; k++) {
            const __m256 x = _mm256_loadu_ps(a + k * LANES_64 + l);
            const __m256 y = _mm256_loadu_ps(b + k * LANES_64 + l);
            sum[0] = _mm256_fmadd_ps(_mm256_permute_ps(x, 0x00), y, sum[0]);
            sum[1] = _mm256_fmadd_ps(_mm256_permute_ps(x, 0x55), y, sum[1]);
            sum[2] = _mm256_fmadd_ps(_mm256_permute_ps(x, 0xaa), y, sum[2]);
            sum[3] = _mm256_fmadd_ps(_mm256_permute_ps(x, 0xff), y, sum[3]);
        }
        for (unsigned q = 0; q < 4; q++)
            _mm256_storeu_ps(d + q * LANES_64 + l, sum[q]);
    }
}
#endif

INLINE bool is_sixteen(const struct form *f)
{
    return f->a == ELEMENT_F16 || f->a == ELEMENT_BF16 || f->a == ELEMENT_XF32;
}

/* Whether the adders of this target are published for the type of A (docs/sim.md). */
INLINE bool published(const struct wave *w, const struct form *f)
{
    return (w->adder == ADDER_CDNA2 || w->adder == ADDER_CDNA3) && is_sixteen(f);
}

/* The adder of a form; CDNA 2 takes at once what a lane holds of a row. */
static struct adder_model model_of(const struct wave *w, const struct form *f)
{
    static const struct adder_model of_sixteen[SIM_CANDIDATES] = {
        {ADDER_FUSED, 1, 1}, {ADDER_CDNA3, 8, 8}, {ADDER_CDNA3, 16, 16}};

    if (w->adder == ADDER_CDNA2)
        return (struct adder_model){w->adder, f->k * f->m * f->blocks / LANES_64, 1};
    if (w->adder == ADDER_CDNA3 && is_sixteen(f))
        return (struct adder_model){w->adder, f->a == ELEMENT_XF32 ? 4 : 8, 1};
    return open_model(w, is_sixteen(f) ? of_sixteen : candidates_of_small(w));
}

/* Sums as those adders make them. */
static void add_as_hardware(struct wave *w, const struct insn *i, const struct form *f,
                            struct adder_model model, const float *a, const float *b)
{
    const struct operand *const o = &i->op[3];
    const struct adder how = {model,
                              {least_normal(w, chosen(f->a, i->extra[2])),
                               least_normal(w, chosen(f->b, i->extra[3] >> 4))},
                              ADDER_F32};
    float sum[32][32];

    /* all of a block's addend is read before any of its results is stored: compilers let the
     * registers of both overlap in part */
    for (unsigned block = 0; block < f->blocks; block++) {
        for (unsigned r = 0; r < f->m; r++) {
            const struct place at = result_run(f, r, block);
            for (unsigned c = 0; c < f->n; c++)
                sum[r][c] =
                    f32_of(o->kind == OPERAND_VGPR ? addend_row(w, o, at.element, at.lane)[c]
                                                   : same_addend(w, o, 0));
        }
        add_rows(&how, sum[0], 32, f->m, f->n,
                 &(struct factors){.a = a + block_of_a(i, block) * f->m,
                                   .b = b + block * f->n,
                                   .a_width = f->m * f->blocks,
                                   .b_width = f->n * f->blocks,
                                   .count = f->k});
        for (unsigned r = 0; r < f->m; r++) {
            const struct place at = result_run(f, r, block);
            memcpy(vgpr(w, &i->op[0], 0) + at.element * LANES_64 + at.lane, sum[r],
                   f->n * sizeof *sum[r]);
        }
    }
}

INLINE void multiply_floats(struct wave *w, const struct insn *i, const struct form *f,
                            const float *a, const float *b)
{
    if (f->a != ELEMENT_F32 && UNLIKELY(w->candidate != SIM_NO_CANDIDATE)) {
        const struct adder_model model = model_of(w, f);
        if (model.kind != ADDER_FUSED) {
            add_as_hardware(w, i, f, model, a, b);
            return;
        }
    }
#if defined __FMA__ && defined __AVX2__
    if (f->n == 4 && f->blocks == 16 && !i->extra[2]) {
        multiply_blocks(w, i, f, a, b);
        return;
    }
#endif
    if (f->n % 16 == 0 && f->m % 16 == 0) {
        multiply_tiles(w, i, f, a, b);
        return;
    }
    const unsigned a_width = f->m * f->blocks, b_width = f->n * f->blocks;
    const uint32_t same = i->op[3].kind == OPERAND_VGPR ? 0 : same_addend(w, &i->op[3], 0);

    if (products_are_exact(f)) {
        FOUR_ROWS(float, f->n, f32_of, ADDED, bits_of_f32)
    } else {
        FOUR_ROWS(float, f->n, f32_of, FUSED, bits_of_f32)
    }
}

INLINE void multiply_integers(struct wave *w, const struct insn *i, const struct form *f,
                              const int32_t *a, const int32_t *b)
{
    const unsigned a_width = f->m * f->blocks, b_width = f->n * f->blocks;
    const uint32_t same = i->op[3].kind == OPERAND_VGPR ? 0 : same_addend(w, &i->op[3], 0);

    FOUR_ROWS(int32_t, f->n, (int32_t), WRAPPED, (uint32_t))
}

/* neg:[…] negates A, B and C; the instruction has it in place of blgp. */
INLINE void multiply_doubles(struct wave *w, const struct insn *i, const struct form *f)
{
    const unsigned neg = i->extra[0], width = f->m * f->blocks, lanes = LANES_64;
    const uint32_t *const a = vgpr(w, &i->op[1], 0), *const b = vgpr(w, &i->op[2], 0);
    double d[16][16];

    for (unsigned block = 0; block < f->blocks; block++) {
        for (unsigned r = 0; r < f->m; r++)
            for (unsigned c = 0; c < f->n; c++) {
                const struct place at = result_run(f, r, block);
                double sum;
                if (i->op[3].kind == OPERAND_VGPR) {
                    const uint32_t *const p = addend_row(w, &i->op[3], 2 * at.element, at.lane + c);
                    sum = f64_of(p[0] | (uint64_t)p[lanes] << 32);
                } else {
                    sum = f64_of(same_addend(w, &i->op[3], 0) |
                                 (uint64_t)same_addend(w, &i->op[3], 1) << 32);
                }
                sum = neg & 4 ? -sum : sum;
                for (unsigned k = 0; k < f->k; k++) {
                    const unsigned la = k * width + block * f->m + r;
                    const unsigned lb = k * width + block * f->n + c;
                    const double x = f64_of(a[la] | (uint64_t)a[la + lanes] << 32);
                    const double y = f64_of(b[lb] | (uint64_t)b[lb + lanes] << 32);
                    sum = fma(neg & 1 ? -x : x, neg & 2 ? -y : y, sum);
                }
                d[r][c] = sum;
            }
        for (unsigned r = 0; r < f->m; r++)
            for (unsigned c = 0; c < f->n; c++) {
                const struct place at = result_run(f, r, block);
                uint32_t *const p = vgpr(w, &i->op[0], 0) + 2 * at.element * lanes + at.lane + c;
                p[0] = (uint32_t)bits_of_f64(d[r][c]);
                p[lanes] = (uint32_t)(bits_of_f64(d[r][c]) >> 32);
            }
    }
}

/* 2^(byte - 127) of a lane's scale; 255 is NaN. op_sel and op_sel_hi say which byte. */
INLINE double scale_of(const struct wave *w, const struct insn *i, unsigned n, unsigned lane)
{
    const struct operand *const o = &i->op[4 + n];
    const unsigned byte = (i->extra[1] >> n & 1) | (i->extra[1] >> (4 + n) & 1) << 1;
    const uint32_t x = o->kind == OPERAND_VGPR    ? vgpr(w, o, 0)[lane]
                       : o->kind == OPERAND_CONST ? o->rows[0]
                                                  : w->s[o->reg];
    const uint32_t exponent = x >> 8 * byte & 255;

    return exponent == 255 ? (double)NAN : f64_of((uint64_t)(exponent - 127 + 1023) << 52);
}

/* What is exact, or nearly so, as an f32: rounded, or cut off. */
INLINE float narrowed(double x, bool cut)
{
    const float f = (float)x;

    return cut && fabs((double)f) > fabs(x) ? f32_of(bits_of_f32(f) - 1) : f;
}

/* Products times their two scales. Nothing is published: each is added in f64 and the sum rounded
 * to f32; or, the other two candidates, all of them are added, and then rounded once or cut off. */
static void multiply_scaled(struct wave *w, const struct insn *i, const struct form *f,
                            const float *a, const float *b)
{
    const int candidate = open_candidate(w);
    float d[32][32];

    for (unsigned r = 0; r < f->m; r++)
        for (unsigned c = 0; c < f->n; c++) {
            const struct place at = result_run(f, r, 0);
            double sum = (double)f32_of(i->op[3].kind == OPERAND_VGPR
                                            ? *addend_row(w, &i->op[3], at.element, at.lane + c)
                                            : same_addend(w, &i->op[3], 0));
            for (unsigned k = 0; k < f->k; k++) {
                const double scale =
                    scale_of(w, i, 0, k / 32 * f->m + r) * scale_of(w, i, 1, k / 32 * f->n + c);
                const double product = (double)a[k * f->m + r] * (double)b[k * f->n + c];
                sum += product * scale;
                sum = candidate <= 0 ? (double)(float)sum : sum;
            }
            d[r][c] = narrowed(sum, candidate == 2);
        }
    for (unsigned r = 0; r < f->m; r++)
        for (unsigned c = 0; c < f->n; c++) {
            const struct place at = result_run(f, r, 0);
            vgpr(w, &i->op[0], 0)[at.element * LANES_64 + at.lane + c] = bits_of_f32(d[r][c]);
        }
}

/* ---- The operation --------------------------------------------------------------------------- */

/* The five types of an F8F6F4 operand are rare: unpacked here, not in each body. */
static __attribute__((noinline)) void unpack_chosen(const struct form *f, unsigned code,
                                                    unsigned width, const uint32_t *row, float *to)
{
    switch (chosen(ELEMENT_F8F6F4, code)) {
    case ELEMENT_FP8:
        unpack_floats(f, ELEMENT_FP8, width, false, row, to);
        break;
    case ELEMENT_BF8:
        unpack_floats(f, ELEMENT_BF8, width, false, row, to);
        break;
    case ELEMENT_FP6:
        unpack_floats(f, ELEMENT_FP6, width, false, row, to);
        break;
    case ELEMENT_BF6:
        unpack_floats(f, ELEMENT_BF6, width, false, row, to);
        break;
    default:
        unpack_floats(f, ELEMENT_FP4, width, false, row, to);
        break;
    }
}

INLINE void unpack_source(const struct wave *w, const struct form *f, enum element type,
                          unsigned code, unsigned width, const uint32_t *row, float *to)
{
    if (type == ELEMENT_F8F6F4)
        unpack_chosen(f, code, width, row, to);
    else if ((type == ELEMENT_FP8 || type == ELEMENT_BF8) && w->fnuz)
        unpack_floats(f, type, width, true, row, to);
    else
        unpack_floats(f, type, width, false, row, to);
}

INLINE void mfma(struct wave *w, const struct insn *i, const struct form f)
{
    const unsigned cbsz = i->extra[2], blgp = i->extra[3] >> 4;
    const unsigned a_width = f.m * f.blocks, b_width = f.n * f.blocks;
    const uint32_t *const a_row = vgpr(w, &i->op[1], 0), *b_row = vgpr(w, &i->op[2], 0);
    uint32_t moved[8 * LANES_64];

    if (UNLIKELY(blgp && f.a != ELEMENT_F8F6F4 && f.d != ELEMENT_F64))
        b_row = patterned(b_row, source_words(&f, f.b, f.n), blgp, moved);
    if (f.d == ELEMENT_F64) {
        multiply_doubles(w, i, &f);
    } else if (f.d == ELEMENT_I32) {
        int32_t a[ELEMENTS], b[ELEMENTS];
        unpack_integers(&f, a_width, a_row, a);
        unpack_integers(&f, b_width, b_row, b);
        multiply_integers(w, i, &f, a, b);
    } else {
        FLOATS a[ELEMENTS], b[ELEMENTS];
        unpack_source(w, &f, f.a, cbsz, a_width, a_row, a);
        unpack_source(w, &f, f.b, blgp, b_width, b_row, b);
        if (f.a == ELEMENT_F16 && UNLIKELY(w->flush_halves) && !published(w, &f)) {
            flush_f16(a, f.k * a_width);
            flush_f16(b, f.k * b_width);
        }
        if (f.scaled)
            multiply_scaled(w, i, &f, a, b);
        else
            multiply_floats(w, i, &f, a, b);
    }
}

#define MFMA(NAME, ...)                                                                            \
    BODY(NAME)                                                                                     \
    {                                                                                              \
        const struct form f = {__VA_ARGS__};                                                       \
        if (!operands_fit(w, i, &f))                                                               \
            return NULL;                                                                           \
        if (UNLIKELY(w->shadow != NULL))                                                           \
            through_mfma(w, i, &f);                                                                \
        const bool flush =                                                                         \
            w->flush_halves && (f.a == ELEMENT_F16 || f.a == ELEMENT_BF16) && !published(w, &f);   \
        const unsigned mode = set_denormals(flush);                                                \
        mfma(w, i, f);                                                                             \
        restore_denormals(mode);                                                                   \
        return i + 1;                                                                              \
    }
#define FORM(NAME, SIZE, K, BLOCKS, T, D) FORM_OF(NAME, SIZE, K, BLOCKS, T, T, D)
#define FORM_OF(NAME, SIZE, K, BLOCKS, A, B, D)                                                    \
    MFMA(NAME, SIZE, SIZE, K, BLOCKS, ELEMENT_##A, ELEMENT_##B, ELEMENT_##D, false)
#define SCALED(NAME, SIZE, K)                                                                      \
    MFMA(NAME, SIZE, SIZE, K, 1, ELEMENT_F8F6F4, ELEMENT_F8F6F4, ELEMENT_F32, true)
#define OLD(NAME, BODY)
#include "sim/exec/wave/exec_mfma.def"
#undef FORM_OF
#undef SCALED
#undef OLD

#define ROW_(NAME, BODY)   {#NAME, QUERN_CLASS_MATRIX, UNDEF_MATRIX, "=D0D1D2D3", x_##BODY},
#define FORM_OF(NAME, ...) ROW_(NAME, NAME)
#define SCALED(NAME, ...)  {#NAME, QUERN_CLASS_MATRIX, UNDEF_MATRIX, "=D0D1D2D3u4u5", x_##NAME},
#define OLD(NAME, BODY)    ROW_(NAME, BODY)

const struct sim_row rows_mfma[] = {
#include "sim/exec/wave/exec_mfma.def"
    {0}};
