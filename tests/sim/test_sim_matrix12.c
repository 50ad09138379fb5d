/* SPDX-License-Identifier: MIT */
/*
 * Matrix instructions of gfx12 against the product of matrices whose elements stand where AMD's
 * RDNA 4 manual says (7.12.2): for each bit of a lane's, a register's and an element's number,
 * which bit of k, of the row or of the column it is. The software GPU has these places in another
 * form. Also sparse matrices (7.12.3) and the loads that transpose (11.6).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"
#include "t_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct form {
    const char *builtin; /* of a, b, c and, if sparse, index */
    enum t_type a, b, d;
    unsigned k;
    bool sparse;
    int a_factor, c_factor; /* negations; 2 is the absolute value, 3 and 4 stand for 1 and 4 */
} forms[] = {
#define DENSE(name) "__builtin_amdgcn_wmma_" name "_w%u_gfx12"
    {DENSE("f32_16x16x16_f16") "(a, b, c)", F16, F16, F32, 16, false, 1, 1},
    {DENSE("f32_16x16x16_bf16") "(a, b, c)", BF16, BF16, F32, 16, false, 1, 1},
    {DENSE("f16_16x16x16_f16") "(a, b, c)", F16, F16, F16, 16, false, 1, 1},
    {DENSE("bf16_16x16x16_bf16") "(a, b, c)", BF16, BF16, BF16, 16, false, 1, 1},
    {DENSE("i32_16x16x16_iu8") "(false, a, true, b, c, false)", U8, I8, I32, 16, false, 1, 1},
    {DENSE("i32_16x16x16_iu8") "(true, a, false, b, c, true)", I8, U8, I32, 16, false, 1, 1},
    {DENSE("i32_16x16x16_iu4") "(true, a, false, b, c, false)", I4, U4, I32, 16, false, 1, 1},
    {DENSE("i32_16x16x32_iu4") "(false, a, true, b, c, false)", U4, I4, I32, 32, false, 1, 1},
    {DENSE("f32_16x16x16_fp8_fp8") "(a, b, c)", FP8, FP8, F32, 16, false, 1, 1},
    {DENSE("f32_16x16x16_fp8_bf8") "(a, b, c)", FP8, BF8, F32, 16, false, 1, 1},
    {DENSE("f32_16x16x16_bf8_fp8") "(a, b, c)", BF8, FP8, F32, 16, false, 1, 1},
    {DENSE("f32_16x16x16_bf8_bf8") "(a, b, c)", BF8, BF8, F32, 16, false, 1, 1},
    {DENSE("f32_16x16x16_f16") "(-a, b, -c)", F16, F16, F32, 16, false, -1, -1},
    {DENSE("f32_16x16x16_f16") "(a, -b, __builtin_elementwise_abs(c))", F16, F16, F32, 16, false,
     -1, 2},
    {DENSE("f16_16x16x16_f16") "(-a, b, -c)", F16, F16, F16, 16, false, -1, -1},
    {DENSE("f16_16x16x16_f16") "(a, b, (__typeof__(c))(f16)1)", F16, F16, F16, 16, false, 1, 3},
    {DENSE("f32_16x16x16_f16") "(a, b, (__typeof__(c))4.0f)", F16, F16, F32, 16, false, 1, 4},
#define SPARSE(name) "__builtin_amdgcn_swmmac_" name "_w%u"
    {SPARSE("f32_16x16x32_f16") "(a, b, c, index)", F16, F16, F32, 32, true, 1, 1},
    {SPARSE("f32_16x16x32_bf16") "(a, b, c, index)", BF16, BF16, F32, 32, true, 1, 1},
    {SPARSE("f16_16x16x32_f16") "(a, b, c, index)", F16, F16, F16, 32, true, 1, 1},
    {SPARSE("bf16_16x16x32_bf16") "(a, b, c, index)", BF16, BF16, BF16, 32, true, 1, 1},
    {SPARSE("i32_16x16x32_iu8") "(true, a, false, b, c, index, false)", I8, U8, I32, 32, true, 1,
     1},
    {SPARSE("i32_16x16x32_iu4") "(false, a, true, b, c, index, false)", U4, I4, I32, 32, true, 1,
     1},
    {SPARSE("i32_16x16x64_iu4") "(true, a, true, b, c, index, true)", I4, I4, I32, 64, true, 1, 1},
    {SPARSE("f32_16x16x32_fp8_fp8") "(a, b, c, index)", FP8, FP8, F32, 32, true, 1, 1},
    {SPARSE("f32_16x16x32_fp8_bf8") "(a, b, c, index)", FP8, BF8, F32, 32, true, 1, 1},
    {SPARSE("f32_16x16x32_bf8_fp8") "(a, b, c, index)", BF8, FP8, F32, 32, true, 1, 1},
    {SPARSE("f32_16x16x32_bf8_bf8") "(a, b, c, index)", BF8, BF8, F32, 32, true, 1, 1},
};
#define FORMS (sizeof forms / sizeof *forms)

/* ---- Places ---------------------------------------------------------------------------------- */

struct place {
    unsigned lane, word, shift;
};

/* Bits of x: bit(x, n) is one, bits(x, high, low) a field. */
static unsigned bits(unsigned x, unsigned high, unsigned low)
{
    return x >> low & ((1u << (high - low + 1)) - 1);
}
static unsigned bit(unsigned x, unsigned n)
{
    return x >> n & 1;
}

/* Of row r of A, or column r of B, by k; `depth` is the number of k. */
static struct place dense_place(unsigned size, unsigned lanes, unsigned depth, unsigned r,
                                unsigned k)
{
    if (size == 16 && lanes == 32)
        return (struct place){bit(k, 2) << 4 | r, bit(k, 3) << 1 | bit(k, 1), 16 * bit(k, 0)};
    if (size == 16)
        return (struct place){bits(k, 3, 2) << 4 | r, bit(k, 1), 16 * bit(k, 0)};
    if (size == 8 && lanes == 32)
        return (struct place){bit(k, 3) << 4 | r, bit(k, 2), 8 * bits(k, 1, 0)};
    if (size == 8)
        return (struct place){bit(k, 2) << 5 | bit(k, 3) << 4 | r, 0, 8 * bits(k, 1, 0)};
    if (depth == 16)
        return (struct place){bit(k, 3) << 4 | r, 0, 4 * bits(k, 2, 0)};
    if (lanes == 32)
        return (struct place){bit(k, 4) << 4 | r, bit(k, 3), 4 * bits(k, 2, 0)};
    return (struct place){bit(k, 3) << 5 | bit(k, 4) << 4 | r, 0, 4 * bits(k, 2, 0)};
}

/*
 * Of column r of the B of a sparse product. The manual says that it takes twice the registers, and
 * that a lane's indices choose for the elements of A that the lane holds: its four candidates of
 * each pair are then in the lane itself, so k has the lane bits of A one place further up. Where a
 * wave of 64 has A in half of its lanes and B in all, B is laid out as ever. Both as AMD's matrix
 * instruction calculator has it.
 */
static struct place sparse_b_place(unsigned size, unsigned lanes, unsigned depth, unsigned r,
                                   unsigned k)
{
    if (size == 4 && lanes == 64 && depth == 32)
        return dense_place(size, lanes, depth, r, k);
    const struct place a = dense_place(size, lanes, depth / 2, r, k / 4 * 2);
    const unsigned first = (a.word * 32 + a.shift) * 2 + k % 4 * size;
    return (struct place){a.lane, first / 32, first % 32};
}

static struct place result_place(unsigned size, unsigned lanes, unsigned row, unsigned column)
{
    const unsigned lane = (lanes == 64 ? bit(row, 2) << 5 : 0) | bit(row, 3) << 4 | column;
    const unsigned n = lanes == 64 ? bits(row, 1, 0) : bits(row, 2, 0);
    return size == 16 ? (struct place){lane, n / 2, 16 * (n & 1)} : (struct place){lane, n, 0};
}

/* ---- One product ----------------------------------------------------------------------------- */

static uint32_t a_words[64 * 8], b_words[64 * 8], c_words[64 * 8], d_words[64 * 8];
static uint32_t indices[64];

static void put(uint32_t *words, unsigned per_lane, struct place p, uint32_t bits)
{
    assert_true(p.word < per_lane);
    words[p.lane * per_lane + p.word] |= bits << p.shift;
}

static void check_result(const struct form *f, unsigned n, unsigned lanes, unsigned i, unsigned j,
                         uint32_t got, double want, double size)
{
    const double is = t_value_of(f->d, got, false);
    const double most = (f->d == I32 ? 0 : size * 0x1p-20) + (f->d == F16    ? fabs(want) * 0x1p-11
                                                              : f->d == BF16 ? fabs(want) * 0x1p-8
                                                                             : 0);

    if (isnan(want) ? isnan(is) : isinf(want) ? is == want : fabs(is - want) <= most)
        return;
    fail_msg("form %u, %s of %u lanes: D[%u][%u] is %g, not %g", n, f->builtin, lanes, i, j, is,
             want);
}

/* Draws C, 16 by 16, into c_words; c is what the instruction makes of it before it adds. */
static void draw_c(const struct form *f, unsigned lanes, uint64_t *random, double c[16][16])
{
    const unsigned size = t_bits_of(f->d), words = 16 * 16 * size / lanes / 32;

    for (unsigned i = 0; i < 16; i++)
        for (unsigned j = 0; j < 16; j++) {
            const int whole = (int)(t_random(random) % 65) - 32;
            const _Float16 h = (_Float16)whole;
            uint16_t u;
            uint32_t x = f->d == I32 ? (uint32_t)whole : t_f32_bits((float)whole);
            memcpy(&u, &h, 2);
            if (f->d == I32 && strstr(f->builtin, ", true)"))
                x = 0x7fffff00 + (uint32_t)(whole & 0xff);
            x = f->d == F16 ? u : f->d == BF16 ? x >> 16 : x;
            put(c_words, words, result_place(size, lanes, i, j), x);
            c[i][j] = t_value_of(f->d, x, false);
            c[i][j] = f->c_factor > 2    ? f->c_factor == 3 ? 1 : 4
                      : f->c_factor == 2 ? fabs(c[i][j])
                                         : f->c_factor * c[i][j];
        }
}

/* c and the products of a row of A and a column of B; what is added is added to *size as well.
 * Integers saturate after the eights of stored k with even numbers, and at the end. */
static double sum_of(const struct form *f, const bool *used, const double *a, const double *b,
                     double c, double *size)
{
    const unsigned eight = f->sparse ? 16 : 8;

    for (unsigned stage = 0; stage < 2; stage++) {
        for (unsigned k = 0; k < f->k; k++)
            if (used[k] && k / eight % 2 == stage) {
                c += f->a_factor * a[k] * b[k];
                *size += fabs(a[k] * b[k]);
            }
        if (f->d == I32)
            c = fmax(fmin(c, INT32_MAX), INT32_MIN);
    }
    return c;
}

static void check_form(struct t_gpu *g, unsigned n, unsigned lanes, unsigned key, bool special,
                       uint64_t *random)
{
    const struct form *const f = &forms[n];
    const unsigned stored = f->sparse ? f->k / 2 : f->k;
    const unsigned a_size = t_bits_of(f->a), d_size = t_bits_of(f->d);
    const unsigned a_lanes = a_size == 4 && stored == 16 ? 32 : lanes;
    const unsigned b_lanes = a_size == 4 && f->k == 16 ? 32 : lanes;
    const unsigned aw = (16 * stored * a_size / a_lanes + 31) / 32;
    const unsigned bw = (16 * f->k * a_size / b_lanes + 31) / 32;
    const unsigned dw = 16 * 16 * d_size / lanes / 32;
    double a[16][64] = {{0}}, b[16][64];
    bool used[16][64];
    char name[16];

    memset(a_words, 0, sizeof a_words);
    memset(b_words, 0, sizeof b_words);
    memset(c_words, 0, sizeof c_words);
    memset(indices, 0, sizeof indices);
    memset(used, !f->sparse, sizeof used);
    for (unsigned r = 0; r < 16; r++) {
        for (unsigned k = 0; k < stored; k++) {
            const struct place p = dense_place(a_size, lanes, stored, r, k);
            const uint32_t x = t_draw_small(f->a, special, random);
            put(a_words, aw, p, x);
            if (!f->sparse) {
                a[r][k] = t_value_of(f->a, x, false);
                continue;
            }
            /* two of four: 0 1, 0 2, 0 3, 1 2, 1 3, 2 3 */
            static const uint8_t pairs[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
            const uint8_t *const two = pairs[(r * 7 + k / 2 * 5 + n) % 6];
            const unsigned at = k / 2 * 4 + two[k & 1];
            const unsigned pair = (p.word * 32 + p.shift) / a_size / 2;
            a[r][at] = t_value_of(f->a, x, false);
            used[r][at] = true;
            if (k & 1)
                indices[p.lane] |= (uint32_t)(two[0] | two[1] << 2) << 4 * pair;
        }
        for (unsigned k = 0; k < f->k; k++) {
            const uint32_t x = t_draw_small(f->b, special, random);
            put(b_words, bw,
                f->sparse ? sparse_b_place(a_size, lanes, f->k, r, k)
                          : dense_place(a_size, lanes, f->k, r, k),
                x);
            b[r][k] = t_value_of(f->b, x, false);
        }
    }
    /* the indices of one of several products in a register; the others are noise */
    const unsigned set = 2 * 16 * stored / a_lanes;
    for (unsigned l = 0; l < 64 && f->sparse && set < 32; l++) {
        const uint32_t mask = ((1u << set) - 1) << key * set;
        indices[l] = (indices[l] << key * set & mask) | ((uint32_t)t_random(random) & ~mask);
    }
    double c[16][16];
    draw_c(f, lanes, random, c);
    const struct t_buffer buffers[] = {{a_words, lanes * aw * 4, QUERN_SIM_READ, "a"},
                                       {b_words, lanes * bw * 4, QUERN_SIM_READ, "b"},
                                       {c_words, lanes * dw * 4, QUERN_SIM_READ, "c"},
                                       {indices, lanes * 4, QUERN_SIM_READ, "index"},
                                       {d_words, lanes * dw * 4, QUERN_SIM_WRITE, "d"}};
    snprintf(name, sizeof name, "k%u_%u", n, key);
    const struct t_launch launch = {
        .kernel = name, .items = {lanes}, .buffers = buffers, .count = 5};
    t_gpu_run(g, &launch);
    for (unsigned i = 0; i < 16; i++)
        for (unsigned j = 0; j < 16; j++) {
            const struct place p = result_place(d_size, lanes, i, j);
            const uint32_t got = d_words[p.lane * dw + p.word] >> p.shift;
            double want = c[i][j], size = fabs(want);
            want = sum_of(f, used[i], a[i], b[j], want, &size);
            check_result(f, n, lanes, i, j, d_size == 32 ? got : got & 0xffff, want, size);
        }
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static const char start[] =
    "#define V(T, N) __attribute__((ext_vector_type(N))) T\n"
    "typedef int i32x1; typedef V(int, 2) i32x2_; typedef V(int, 4) i32x4_; typedef V(int, 8) "
    "i32x8_;\n"
    "typedef V(f16, 4) f16x4_; typedef V(f16, 8) f16x8_; typedef V(f16, 16) f16x16_;\n"
    "typedef V(short, 4) bf16x4_; typedef V(short, 8) bf16x8_; typedef V(short, 16) bf16x16_;\n"
    "typedef V(float, 4) f32x4_; typedef V(float, 8) f32x8_;\n"
    "#define MATRIX(NAME, A, B, D, INDEX, SHIFT, CALL) KERNEL NAME(const A *ap, const B *bp,\\\n"
    "  const D *cp, const u32 *ip, D *dp) { const A a = ap[LANE]; const B b = bp[LANE];\\\n"
    "  const D c = cp[LANE]; const INDEX index = (INDEX)(ip[LANE] >> SHIFT); (void)index;\\\n"
    "  dp[LANE] = CALL; }\n";

static const char *type_name(enum t_type t, unsigned words, char *to)
{
    const unsigned n = words * (t <= BF16 && t != F32 ? 2 : 1);

    if (t >= FP8 && words == 1)
        return "i32x1";
    sprintf(to, "%sx%u_", t == F32 ? "f32" : t == F16 ? "f16" : t == BF16 ? "bf16" : "i32", n);
    return to;
}

/* How many products' indices a register holds. */
static unsigned sets(const struct form *f, unsigned lanes)
{
    const unsigned a_lanes = t_bits_of(f->a) == 4 && f->k == 32 ? 32 : lanes;
    return f->sparse ? 16 / (f->k / 2 * 16 / a_lanes) : 1;
}

static void load_kernels(struct t_gpu *g, unsigned lanes)
{
    char source[32768], call[200], at[16], bt[16], dt[16];
    size_t used = (size_t)snprintf(source, sizeof source, "%s", start);

    for (unsigned n = 0; n < FORMS; n++) {
        const struct form *const f = &forms[n];
        const unsigned size = t_bits_of(f->a), stored = f->sparse ? f->k / 2 : f->k;
        const unsigned aw = (16 * stored * size / (size == 4 && stored == 16 ? 32 : lanes)) / 32;
        const unsigned bw = (16 * f->k * size / (size == 4 && f->k == 16 ? 32 : lanes)) / 32;
        for (unsigned key = 0; key < sets(f, lanes); key++) {
            snprintf(call, sizeof call, f->builtin, lanes);
            used += (size_t)snprintf(
                source + used, sizeof source - used, "MATRIX(k%u_%u, %s, %s, %s, %s, %u, (%s))\n",
                n, key, type_name(f->a, aw, at), type_name(f->b, bw, bt),
                type_name(f->d, 8 * t_bits_of(f->d) / 32 * 32 / lanes, dt),
                sets(f, lanes) == 1 ? "int" : "short", key * (32 / sets(f, lanes)), call);
            assert_true(used < sizeof source);
        }
    }
    t_gpu_load(g, source);
}

static void every_form(const char *target, unsigned lanes, enum quern_sim_check check,
                       enum quern_sim_isa isa)
{
    uint64_t random = 5;
    struct t_gpu g;

    t_gpu_open(&g, target, lanes == 64 ? "-mwavefrontsize64" : "", check, isa, 0);
    load_kernels(&g, lanes);
    for (unsigned n = 0; n < FORMS; n++)
        for (unsigned round = 0; round < 12; round++)
            check_form(&g, n, lanes, round % sets(&forms[n], lanes), round % 3 == 2, &random);
    t_gpu_close(&g);
}

static void wave32(void **state)
{
    (void)state;
    every_form("gfx1201", 32, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
    every_form("gfx1200", 32, QUERN_CHECK_FULL, QUERN_ISA_X86_64);
}

static void wave64(void **state)
{
    (void)state;
    every_form("gfx1201", 64, QUERN_CHECK_FULL, QUERN_ISA_AUTO);
}

/* Undefined bits of one row of A, of its indices and of C reach their rows of D and no others. */
static void undefined_rows(void **state)
{
    static uint32_t c[32 * 8];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {.kernel = "k", .items = {32}, .buffers = &buffer, .count = 1};
    static const char *const spoilt[] = {"a[1] = (f16)u", "index = (short)u", "c[7] = u"};
    char source[4096];
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx1201", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    for (unsigned n = 0; n < 6; n++) {
        /* row 15 is element 7 of D in lanes from 16 on */
        snprintf(source, sizeof source,
                 "%sKERNEL k(f32 *o) { f16x8_ a = (f16)1; f16x16_ b = (f16)1; f32x8_ c = 0;\n"
                 "short index = 0x4444; const f32 u = o[LANE];\n"
                 "if ((LANE & 15) == 15) { %s; }\n"
                 "const f32x8_ d = __builtin_amdgcn_swmmac_f32_16x16x32_f16_w32(a, b, c, index);\n"
                 "for (int n = 0; n < %d; n++) o[LANE + 32 * n] = d[n]; }",
                 start, spoilt[n / 2], 7 + n % 2);
        t_gpu_load(&g, source);
        if (t_gpu_try(&g, &launch) != (n % 2 ? QUERN_E_FAULT : QUERN_OK))
            fail_msg("%s, %u rows stored: %s", spoilt[n / 2], 7 + n % 2,
                     quern_last_error()->message);
    }
    t_gpu_close(&g);
}

/* ---- Loads that transpose -------------------------------------------------------------------- */

/*
 * A matrix is in memory with k running slowest. Which lane reads which eight elements was measured
 * on gfx1201 by others for 16-bit elements in waves of 32; the rest follows from the places above.
 */
static void check_transpose(struct t_gpu *g, unsigned lanes, unsigned size)
{
    static uint8_t memory[64 * 64];
    static uint32_t got[64 * 4], offsets[64];
    const unsigned words = 16 * 16 * size / 32 / lanes, pitch = 40; /* bytes of one k */

    for (unsigned n = 0; n < sizeof memory; n++)
        memory[n] = (uint8_t)(n * 29 + n / 256);
    for (unsigned l = 0; l < 64; l++) {
        const unsigned half = l / 16 & 1;
        /* 16 bits: l = k2 m3 k3 k1 k0, 8 bits: l = k3 k2 m3 k1 k0 */
        const unsigned k = size == 16 ? half << 2 | bit(l, 2) << 3 | (l & 3)
                                      : half << 3 | bit(l, 3) << 2 | (l & 3);
        const unsigned m = 8 * (size == 16 ? bit(l, 3) : bit(l, 2));
        offsets[l] = l < 32 ? k * pitch + m * size / 8 : 0xdead0000; /* the upper half: not read */
    }
    const struct t_buffer buffers[] = {{memory, sizeof memory, QUERN_SIM_READ_WRITE, "matrix"},
                                       {offsets, sizeof offsets, QUERN_SIM_READ, "offsets"},
                                       {got, lanes * words * 4, QUERN_SIM_WRITE, "registers"}};
    const struct t_launch launch = {
        .kernel = size == 16 ? "tr16" : "tr8", .items = {lanes}, .buffers = buffers, .count = 3};
    t_gpu_run(g, &launch);
    for (unsigned m = 0; m < 16; m++)
        for (unsigned k = 0; k < 16; k++) {
            const struct place p = dense_place(size, lanes, 16, m, k);
            const uint32_t is = got[p.lane * words + p.word] >> p.shift;
            for (unsigned byte = 0; byte < size / 8; byte++)
                if ((is >> 8 * byte & 0xff) != memory[k * pitch + m * size / 8 + byte])
                    fail_msg("%u bits, %u lanes: element m %u, k %u is wrong", size, lanes, m, k);
        }
}

static const char transposes[] =
    "#define GLOBAL __attribute__((address_space(1)))\n"
    "#if WAVE == 32\n"
    "#define T16 V(short, 8)\n#define T8 V(int, 2)\n#define TR16 v8i16\n#define TR8 v2i32\n"
    "#else\n"
    "#define T16 V(short, 4)\n#define T8 int\n#define TR16 v4i16\n#define TR8 i32\n"
    "#endif\n"
    "#define CALL(NAME, TYPE) CALL_(NAME, TYPE)\n"
    "#define CALL_(NAME, TYPE) __builtin_amdgcn_global_load_tr_##NAME##_##TYPE\n"
    "typedef T16 t16; typedef T8 t8;\n"
    "KERNEL tr16(const char *p, const u32 *at, t16 *out) {\n"
    "  out[LANE] = CALL(b128, TR16)((t16 GLOBAL *)(p + at[LANE])); }\n"
    "KERNEL tr8(const char *p, const u32 *at, t8 *out) {\n"
    "  out[LANE] = CALL(b64, TR8)((t8 GLOBAL *)(p + at[LANE])); }\n";

static void transposing_loads(void **state)
{
    (void)state;
    for (unsigned lanes = 32; lanes <= 64; lanes += 32) {
        char source[4096];
        struct t_gpu g;
        t_gpu_open(&g, "gfx1201", lanes == 64 ? "-mwavefrontsize64" : "",
                   lanes == 32 ? QUERN_CHECK_FULL : QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
        snprintf(source, sizeof source, "#define WAVE %u\n%s%s", lanes, start, transposes);
        t_gpu_load(&g, source);
        check_transpose(&g, lanes, 16);
        check_transpose(&g, lanes, 8);
        t_gpu_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wave32),
        cmocka_unit_test(wave64),
        cmocka_unit_test(undefined_rows),
        cmocka_unit_test(transposing_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
