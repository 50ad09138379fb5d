/* SPDX-License-Identifier: MIT */
/*
 * Matrix instructions of gfx9 against their formula. Where lanes hold the elements is said here by
 * lane and place, for each shape, as AMD's documents do; the software GPU goes the other way. Sums
 * are those of docs/sim.md: k upward, each step rounded once.
 *
 * This file is long because it computes every form of MFMA a second time.
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

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define LANES        64
#define GFX90A       1
#define GFX942       2
#define GFX950       4
#define GFX9         7

enum shape { S32, S16, S4, S32_2B, S16_4B, S4_16B, D16, D4 };

static const struct form {
    const char *builtin;          /* what stands between __builtin_amdgcn_mfma_ and the operands */
    const char *more;             /* last operands: cbsz, abid, blgp */
    const char *operand, *result; /* C types */
    enum shape shape;
    unsigned k;
    enum t_type a, b;
    unsigned targets;
    unsigned cbsz, abid, blgp; /* as in `more`, or the negations of an f64 form */
    bool scaled;
    unsigned byte_a, byte_b; /* of the scales */
} forms[] = {
    {"f32_32x32x2f32", "0, 0, 0", "float", "f16v", S32, 2, F32, F32, GFX9},
    {"f32_16x16x4f32", "0, 0, 0", "float", "f4", S16, 4, F32, F32, GFX9},
    {"f32_32x32x1f32", "0, 0, 0", "float", "f32v", S32_2B, 1, F32, F32, GFX9},
    {"f32_16x16x1f32", "0, 0, 0", "float", "f16v", S16_4B, 1, F32, F32, GFX9},
    {"f32_4x4x1f32", "0, 0, 0", "float", "f4", S4_16B, 1, F32, F32, GFX9},
    {"f32_32x32x8f16", "0, 0, 0", "h4", "f16v", S32, 8, F16, F16, GFX9},
    {"f32_16x16x16f16", "0, 0, 0", "h4", "f4", S16, 16, F16, F16, GFX9},
    {"f32_32x32x4f16", "0, 0, 0", "h4", "f32v", S32_2B, 4, F16, F16, GFX9},
    {"f32_16x16x4f16", "0, 0, 0", "h4", "f16v", S16_4B, 4, F16, F16, GFX9},
    {"f32_4x4x4f16", "0, 0, 0", "h4", "f4", S4_16B, 4, F16, F16, GFX9},
    {"f32_32x32x8bf16_1k", "0, 0, 0", "s4", "f16v", S32, 8, BF16, BF16, GFX9},
    {"f32_16x16x16bf16_1k", "0, 0, 0", "s4", "f4", S16, 16, BF16, BF16, GFX9},
    {"f32_32x32x4bf16_1k", "0, 0, 0", "s4", "f32v", S32_2B, 4, BF16, BF16, GFX9},
    {"f32_16x16x4bf16_1k", "0, 0, 0", "s4", "f16v", S16_4B, 4, BF16, BF16, GFX9},
    {"f32_4x4x4bf16_1k", "0, 0, 0", "s4", "f4", S4_16B, 4, BF16, BF16, GFX9},
    {"f32_32x32x4bf16", "0, 0, 0", "s2", "f16v", S32, 4, BF16, BF16, GFX90A},
    {"f32_16x16x8bf16", "0, 0, 0", "s2", "f4", S16, 8, BF16, BF16, GFX90A},
    {"f32_32x32x2bf16", "0, 0, 0", "s2", "f32v", S32_2B, 2, BF16, BF16, GFX90A},
    {"f32_16x16x2bf16", "0, 0, 0", "s2", "f16v", S16_4B, 2, BF16, BF16, GFX90A},
    {"f32_4x4x2bf16", "0, 0, 0", "s2", "f4", S4_16B, 2, BF16, BF16, GFX90A},
    {"f32_16x16x8_xf32", "0, 0, 0", "f2", "f4", S16, 8, XF32, XF32, GFX942},
    {"f32_32x32x4_xf32", "0, 0, 0", "f2", "f16v", S32, 4, XF32, XF32, GFX942},
    {"f32_16x16x32_f16", "0, 0, 0", "h8", "f4", S16, 32, F16, F16, GFX950},
    {"f32_32x32x16_f16", "0, 0, 0", "h8", "f16v", S32, 16, F16, F16, GFX950},
    {"f32_16x16x32_bf16", "0, 0, 0", "b8", "f4", S16, 32, BF16, BF16, GFX950},
    {"f32_32x32x16_bf16", "0, 0, 0", "b8", "f16v", S32, 16, BF16, BF16, GFX950},
    {"f32_16x16x32_fp8_fp8", "0, 0, 0", "long", "f4", S16, 32, FP8, FP8, GFX942 | GFX950},
    {"f32_16x16x32_fp8_bf8", "0, 0, 0", "long", "f4", S16, 32, FP8, BF8, GFX942 | GFX950},
    {"f32_16x16x32_bf8_fp8", "0, 0, 0", "long", "f4", S16, 32, BF8, FP8, GFX942 | GFX950},
    {"f32_16x16x32_bf8_bf8", "0, 0, 0", "long", "f4", S16, 32, BF8, BF8, GFX942 | GFX950},
    {"f32_32x32x16_fp8_fp8", "0, 0, 0", "long", "f16v", S32, 16, FP8, FP8, GFX942 | GFX950},
    {"f32_32x32x16_fp8_bf8", "0, 0, 0", "long", "f16v", S32, 16, FP8, BF8, GFX942 | GFX950},
    {"f32_32x32x16_bf8_fp8", "0, 0, 0", "long", "f16v", S32, 16, BF8, FP8, GFX942 | GFX950},
    {"f32_32x32x16_bf8_bf8", "0, 0, 0", "long", "f16v", S32, 16, BF8, BF8, GFX942 | GFX950},
    {"i32_32x32x8i8", "0, 0, 0", "int", "i16v", S32, 8, I8, I8, GFX90A},
    {"i32_16x16x16i8", "0, 0, 0", "int", "i4", S16, 16, I8, I8, GFX90A},
    {"i32_32x32x4i8", "0, 0, 0", "int", "i32v", S32_2B, 4, I8, I8, GFX9},
    {"i32_16x16x4i8", "0, 0, 0", "int", "i16v", S16_4B, 4, I8, I8, GFX9},
    {"i32_4x4x4i8", "0, 0, 0", "int", "i4", S4_16B, 4, I8, I8, GFX9},
    {"i32_32x32x16_i8", "0, 0, 0", "long", "i16v", S32, 16, I8, I8, GFX942 | GFX950},
    {"i32_16x16x32_i8", "0, 0, 0", "long", "i4", S16, 32, I8, I8, GFX942 | GFX950},
    {"i32_16x16x64_i8", "0, 0, 0", "i4", "i4", S16, 64, I8, I8, GFX950},
    {"i32_32x32x32_i8", "0, 0, 0", "i4", "i16v", S32, 32, I8, I8, GFX950},
    {"f64_16x16x4f64", "0, 0, 0", "double", "d4", D16, 4, F64, F64, GFX9},
    {"f64_4x4x4f64", "0, 0, 0", "double", "double", D4, 4, F64, F64, GFX9},
    {"f64_16x16x4f64", "0, 0, 5", "double", "d4", D16, 4, F64, F64, GFX942 | GFX950, 0, 0, 5},
    {"f64_4x4x4f64", "0, 0, 2", "double", "double", D4, 4, F64, F64, GFX942 | GFX950, 0, 0, 2},
    /* blocks of A broadcast, lanes of B rotated or broadcast */
    {"f32_32x32x1f32", "1, 1, 1", "float", "f32v", S32_2B, 1, F32, F32, GFX9, 1, 1, 1},
    {"f32_32x32x1f32", "1, 0, 2", "float", "f32v", S32_2B, 1, F32, F32, GFX9, 1, 0, 2},
    {"f32_16x16x4f16", "2, 3, 3", "h4", "f16v", S16_4B, 4, F16, F16, GFX9, 2, 3, 3},
    {"f32_16x16x4f16", "1, 1, 4", "h4", "f16v", S16_4B, 4, F16, F16, GFX9, 1, 1, 4},
    {"f32_4x4x4bf16_1k", "3, 5, 5", "s4", "f4", S4_16B, 4, BF16, BF16, GFX9, 3, 5, 5},
    {"f32_4x4x4f16", "4, 13, 6", "h4", "f4", S4_16B, 4, F16, F16, GFX9, 4, 13, 6},
    {"i32_16x16x4i8", "2, 1, 7", "int", "i16v", S16_4B, 4, I8, I8, GFX9, 2, 1, 7},
    {"f32_16x16x4f32", "0, 0, 3", "float", "f4", S16, 4, F32, F32, GFX9, 0, 0, 3},
/* types by code, without scales and with them */
#define SCALES_OF_1 "0, 0, 0, 0"
    {"scale_f32_16x16x128_f8f6f4", "0, 0, " SCALES_OF_1, "i8v", "f4", S16, 128, FP8, FP8, GFX950},
    {"scale_f32_16x16x128_f8f6f4", "1, 2, " SCALES_OF_1, "i8v", "f4", S16, 128, BF8, FP6, GFX950},
    {"scale_f32_16x16x128_f8f6f4", "4, 4, " SCALES_OF_1, "i8v", "f4", S16, 128, FP4, FP4, GFX950},
    {"scale_f32_32x32x64_f8f6f4", "2, 3, " SCALES_OF_1, "i8v", "f16v", S32, 64, FP6, BF6, GFX950},
    {"scale_f32_32x32x64_f8f6f4", "0, 4, " SCALES_OF_1, "i8v", "f16v", S32, 64, FP8, FP4, GFX950},
    {"scale_f32_32x32x64_f8f6f4", "3, 1, " SCALES_OF_1, "i8v", "f16v", S32, 64, BF6, BF8, GFX950},
#undef SCALES_OF_1
    {"scale_f32_16x16x128_f8f6f4", "0, 0, 0, sa, 0, sb", "i8v", "f4", S16, 128, FP8, FP8, GFX950, 0,
     0, 0, true, 0, 0},
    {"scale_f32_16x16x128_f8f6f4", "4, 4, 1, sa, 2, sb", "i8v", "f4", S16, 128, FP4, FP4, GFX950, 0,
     0, 0, true, 1, 2},
    {"scale_f32_32x32x64_f8f6f4", "4, 2, 3, sa, 1, sb", "i8v", "f16v", S32, 64, FP4, FP6, GFX950, 0,
     0, 0, true, 3, 1},
    {"scale_f32_32x32x64_f8f6f4", "1, 0, 2, sa, 3, sb", "i8v", "f16v", S32, 64, BF8, FP8, GFX950, 0,
     0, 0, true, 2, 3},
};

static const struct {
    unsigned size, blocks; /* M = N */
    unsigned results;      /* elements of D in a lane */
} shapes[] = {
    [S32] = {32, 1, 16},    [S16] = {16, 1, 4},    [S4] = {4, 1, 1},   [S32_2B] = {32, 2, 32},
    [S16_4B] = {16, 4, 16}, [S4_16B] = {4, 16, 4}, [D16] = {16, 1, 4}, [D4] = {4, 4, 1}};

/* ---- Layouts: what a lane's element e is ----------------------------------------------------- */

struct element {
    unsigned row, k, block; /* of B the row is a column */
};

static unsigned elements_of(const struct form *f)
{
    return f->k * shapes[f->shape].size * shapes[f->shape].blocks / LANES;
}

static struct element source_element(const struct form *f, enum t_type type, unsigned lane,
                                     unsigned e)
{
    const unsigned each = elements_of(f);

    switch (f->shape) {
    case S32_2B:
        return (struct element){lane % 32, e, lane / 32};
    case S16_4B:
        return (struct element){lane % 16, e, lane / 16};
    case S4_16B:
        return (struct element){lane % 4, e, lane / 4};
    case D16:
        return (struct element){lane % 16, lane / 16, 0};
    case D4:
        return (struct element){lane % 4, lane / 16, lane / 4 % 4};
    default: {
        const unsigned size = shapes[f->shape].size, group = lane / size;
        if (each == 32 && t_bits_of(type) == 8) /* two runs of 16, a whole round of lanes apart */
            return (struct element){lane % size,
                                    e < 16 ? 16 * group + e : f->k / 2 + 16 * group + e - 16, 0};
        return (struct element){lane % size, each * group + e, 0};
    }
    }
}

/* Row i, column j of a block. */
static void result_element(enum shape shape, unsigned lane, unsigned e, unsigned *i, unsigned *j,
                           unsigned *block)
{
    *block = 0;
    switch (shape) {
    case S32_2B:
        *block = e / 16;
        e %= 16;
        /* fall through */
    case S32:
        *i = 8 * (e / 4) + 4 * (lane / 32) + e % 4;
        *j = lane % 32;
        break;
    case S16_4B:
        *block = e / 4;
        e %= 4;
        /* fall through */
    case S16:
        *i = 4 * (lane / 16) + e;
        *j = lane % 16;
        break;
    case D16:
        *i = 4 * e + lane / 16;
        *j = lane % 16;
        break;
    case D4:
        *i = lane / 16;
        *j = lane % 4;
        *block = lane / 4 % 4;
        break;
    default:
        *i = e;
        *j = lane % 4;
        *block = lane / 4;
        break;
    }
}

/* The quarter of the lanes that B's lanes take their values from. */
static const uint8_t patterns[8][4] = {{0, 1, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}, {1, 2, 3, 0},
                                       {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Denormals of a type become zeros. */
static double flushed(enum t_type t, double x)
{
    return fabs(x) < (t == F16 ? 0x1p-14 : 0x1p-126) ? copysign(0, x) : x;
}

/* ---- One form -------------------------------------------------------------------------------- */

#define SIDE 32

/* What the kernel reads and writes: lane by lane. */
static struct {
    uint32_t a[LANES * 8], b[LANES * 8], c[LANES * 32], d[LANES * 32], scales[LANES * 2];
} memory;

/* Bits of the elements by place in the matrix. */
static uint64_t am[16][SIDE][128], bm[16][SIDE][128];

static void fill_source(const struct form *f, enum t_type type, bool of_b, bool special,
                        uint64_t *random)
{
    const unsigned each = elements_of(f), bits = t_bits_of(type);
    const unsigned words = !strcmp(f->operand, "i8v") ? 8 : each * bits / 32;
    uint32_t *const to = of_b ? memory.b : memory.a;

    memset(to, 0, sizeof memory.a);
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned e = 0; e < each; e++) {
            const struct element at = source_element(f, type, lane, e);
            const uint64_t x = t_draw(type, special, random);
            (of_b ? bm : am)[at.block][at.row][at.k] = x;
            for (unsigned n = 0; n < bits; n++) {
                const unsigned bit = e * bits + n;
                to[lane * words + bit / 32] |= (uint32_t)(x >> n & 1) << bit % 32;
            }
        }
    if (!of_b || f->blgp == 0 || type == F64)
        return;
    /* what column j of a block really gets, after lanes have changed places */
    static uint64_t moved[16][SIDE][128];
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned e = 0; e < each; e++) {
            const struct element at = source_element(f, type, lane, e);
            const struct element from =
                source_element(f, type, 16 * patterns[f->blgp][lane / 16] + lane % 16, e);
            moved[at.block][at.row][at.k] = bm[from.block][from.row][from.k];
        }
    memcpy(bm, moved, sizeof bm);
}

/* Element (i, j) of a block of D, whose C is `c`. */
static uint64_t expected(const struct form *f, unsigned target, unsigned i, unsigned j,
                         unsigned block, uint64_t c)
{
    const bool fnuz = target == GFX942;
    const bool flush = target == GFX90A && (f->a == F16 || f->a == BF16);
    const unsigned broadcast = 1u << f->cbsz;
    const unsigned of_a = block / broadcast * broadcast + f->abid;
    float sum = t_f32((uint32_t)c);

    if (f->a == F64) {
        double d = f->blgp & 4 ? -t_f64(c) : t_f64(c);
        for (unsigned k = 0; k < f->k; k++) {
            const double x = t_f64(am[block][i][k]), y = t_f64(bm[block][j][k]);
            d = fma(f->blgp & 1 ? -x : x, f->blgp & 2 ? -y : y, d);
        }
        return t_f64_bits(d);
    }
    if (f->a == I8) {
        uint32_t u = (uint32_t)c;
        for (unsigned k = 0; k < f->k; k++)
            u += (uint32_t)((int8_t)am[of_a][i][k] * (int8_t)bm[block][j][k]);
        return u;
    }
    sum = flush ? (float)flushed(F32, (double)sum) : sum;
    for (unsigned k = 0; k < f->k; k++) {
        double x = t_value_of(f->a, (uint32_t)am[of_a][i][k], fnuz);
        double y = t_value_of(f->b, (uint32_t)bm[block][j][k], fnuz);
        if (flush) {
            x = flushed(f->a, x);
            y = flushed(f->b, y);
        }
        if (f->scaled) {
            const unsigned size = shapes[f->shape].size;
            const uint32_t sa = memory.scales[i + size * (k / 32)] >> 8 * f->byte_a & 255;
            const uint32_t sb = memory.scales[LANES + j + size * (k / 32)] >> 8 * f->byte_b & 255;
            sum = sa == 255 || sb == 255
                      ? (float)NAN
                      : (float)((double)sum + ldexp(x * y, (int)sa - 127 + (int)sb - 127));
        } else {
            sum = fmaf((float)x, (float)y, sum);
        }
        sum = flush ? (float)flushed(F32, (double)sum) : sum;
    }
    return t_f32_bits(sum);
}

static bool same(const struct form *f, uint64_t x, uint64_t y)
{
    if (x == y)
        return true;
    if (f->a == F64)
        return isnan(t_f64(x)) && isnan(t_f64(y));
    return f->a != I8 && isnan(t_f32((uint32_t)x)) && isnan(t_f32((uint32_t)y));
}

static void check_form(struct t_gpu *g, unsigned n, unsigned target, bool special, uint64_t *random)
{
    const struct form *const f = &forms[n];
    const unsigned results = shapes[f->shape].results, per = f->a == F64 ? 2 : 1;
    char kernel[16];

    fill_source(f, f->a, false, special, random);
    fill_source(f, f->b, true, special, random);
    for (unsigned k = 0; k < LANES * results; k++) {
        const uint64_t x = f->a == I8    ? t_random(random)
                           : f->a == F64 ? t_draw(F64, special, random)
                                         : t_draw(F32, special, random);
        memcpy(&memory.c[k * per], &x, 4 * per);
    }
    for (unsigned k = 0; k < 2 * LANES; k++) {
        const uint32_t x = (uint32_t)t_random(random);
        memory.scales[k] = special && x % 50 == 0 ? 0xffffffffu : 0x7b7b7b7bu + (x & 0x07070707u);
    }
    const struct t_buffer buffers[] = {{memory.a, sizeof memory.a, QUERN_SIM_READ, "a"},
                                       {memory.b, sizeof memory.b, QUERN_SIM_READ, "b"},
                                       {memory.c, sizeof memory.c, QUERN_SIM_READ, "c"},
                                       {memory.d, sizeof memory.d, QUERN_SIM_WRITE, "d"},
                                       {memory.scales, sizeof memory.scales, QUERN_SIM_READ, "s"}};
    snprintf(kernel, sizeof kernel, "k%u", n);
    const struct t_launch launch = {
        .kernel = kernel, .items = {LANES}, .buffers = buffers, .count = COUNT(buffers)};
    t_gpu_run(g, &launch);
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned e = 0; e < results; e++) {
            unsigned i, j, block;
            uint64_t c = 0, d = 0;
            result_element(f->shape, lane, e, &i, &j, &block);
            memcpy(&c, &memory.c[(lane * results + e) * per], 4 * per);
            memcpy(&d, &memory.d[(lane * results + e) * per], 4 * per);
            const uint64_t want = expected(f, target, i, j, block, c);
            if (!same(f, want, d))
                fail_msg("%s: %s(…, %s): D[%u][%u] of block %u is 0x%llx, not 0x%llx", g->target,
                         f->builtin, f->more, i, j, block, (unsigned long long)d,
                         (unsigned long long)want);
        }
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static const char types[] =
    "#define V(type, n) __attribute__((ext_vector_type(n)))\n"
    "typedef float f2 V(float, 2); typedef float f4 V(float, 4); typedef float f16v V(float, 16);\n"
    "typedef float f32v V(float, 32); typedef int i4 V(int, 4); typedef int i8v V(int, 8);\n"
    "typedef int i16v V(int, 16); typedef int i32v V(int, 32); typedef double d4 V(double, 4);\n"
    "typedef f16 h4 V(f16, 4); typedef f16 h8 V(f16, 8); typedef short s2 V(short, 2);\n"
    "typedef short s4 V(short, 4); typedef __bf16 b8 V(__bf16, 8);\n";

/* Kernels that load operands from memory as lanes hold them, and store D so. */
static void load_kernels(struct t_gpu *g, unsigned target)
{
    const size_t size = 65536;
    char *const source = malloc(size);
    size_t used;

    assert_non_null(source);
    used = (size_t)snprintf(source, size, "%s", types);
    for (unsigned n = 0; n < COUNT(forms); n++) {
        const struct form *const f = &forms[n];
        if (!(f->targets & target))
            continue;
        used +=
            (size_t)snprintf(source + used, size - used,
                             "KERNEL k%u(const %s *a, const %s *b, const %s *c, %s *d,\n"
                             "           const int *s) {\n"
                             "  const int sa = s[LANE], sb = s[LANE + 64];\n"
                             "  (void)sa; (void)sb;\n"
                             "  d[LANE] = __builtin_amdgcn_mfma_%s(a[LANE], b[LANE], c[LANE], "
                             "%s); }\n",
                             n, f->operand, f->operand, f->result, f->result, f->builtin, f->more);
        assert_true(used < size);
    }
    t_gpu_load(g, source);
    free(source);
}

static void every_form(const char *name, unsigned target, enum quern_sim_check check,
                       enum quern_sim_isa isa)
{
    uint64_t random = 11;
    struct t_gpu g;

    t_gpu_open(&g, name, "", check, isa, 0);
    load_kernels(&g, target);
    for (unsigned n = 0; n < COUNT(forms); n++)
        if (forms[n].targets & target)
            for (unsigned round = 0; round < 4; round++)
                check_form(&g, n, target, round % 2, &random);
    t_gpu_close(&g);
}

static void gfx90a(void **state)
{
    (void)state;
    every_form("gfx90a", GFX90A, QUERN_CHECK_FULL, QUERN_ISA_AUTO);
}

static void gfx942(void **state)
{
    (void)state;
    every_form("gfx942", GFX942, QUERN_CHECK_FULL, QUERN_ISA_X86_64);
}

static void gfx950(void **state)
{
    (void)state;
    every_form("gfx950", GFX950, QUERN_CHECK_FAST, QUERN_ISA_AUTO);
}

/* ---- Accumulators, checks -------------------------------------------------------------------- */

/* AGPRs: written, loaded, accumulated in, read and stored; they start behind the kernel's VGPRs. */
static void accumulators(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942", "gfx950"};
    static float c[LANES * 4], d[LANES * 8];
    const struct t_buffer buffers[] = {{c, sizeof c, QUERN_SIM_READ, "c"},
                                       {d, sizeof d, QUERN_SIM_WRITE, "d"}};
    const struct t_launch launch = {
        .kernel = "k", .items = {LANES}, .buffers = buffers, .count = COUNT(buffers)};
    char source[4096];

    (void)state;
    for (unsigned k = 0; k < LANES * 4; k++)
        c[k] = (float)k;
    snprintf(source, sizeof source,
             "%sKERNEL k(const f4 *c, f4 *d) {\n"
             "  f4 x, y; const float one = 1.0f + (float)(LANE %% 16), two = 2.0f;\n"
             "  __asm__ volatile(\"global_load_dwordx4 %%0, %%1, off\\n\\ts_waitcnt vmcnt(0)\"\n"
             "                   : \"=a\"(x) : \"v\"(c + LANE));\n"
             "  __asm__ volatile(\"s_nop 1\\n\\tv_mfma_f32_16x16x4%sf32 %%0, %%1, %%2, %%3\"\n"
             "                   : \"=a\"(y) : \"v\"(one), \"v\"(two), \"a\"(x));\n"
             "  __asm__ volatile(\"s_nop 7\\n\\ts_nop 7\\n\\tglobal_store_dwordx4 %%0, %%1, "
             "off\\n\\ts_nop 1\"\n"
             "                   :: \"v\"(d + LANE), \"a\"(y) : \"memory\");\n"
             "  float moved; __asm__ volatile(\"v_accvgpr_write_b32 %%0, %%1\" : \"=a\"(moved) : "
             "\"v\"(two));\n"
             "  __asm__ volatile(\"v_accvgpr_mov_b32 %%0, %%1\" : \"=a\"(moved) : \"a\"(moved));\n"
             "  float back; __asm__ volatile(\"v_accvgpr_read_b32 %%0, %%1\" : \"=v\"(back) : "
             "\"a\"(moved));\n"
             "  f4 z = {back, back, back, (float)LANE}; d[LANE + 64] = z; }\n",
             types, "");
    for (size_t n = 0; n < COUNT(targets); n++) {
        struct t_gpu g;
        char own[4096];
        /* gfx942 spells the name with an underscore */
        const char *const at = strstr(source, "16x16x4f32");
        assert_non_null(at);
        snprintf(own, sizeof own, "%.*s16x16x4%sf32%s", (int)(at - source), source, n ? "_" : "",
                 at + 10);
        t_gpu_open(&g, targets[n], "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
        t_gpu_load(&g, own);
        memset(d, 0, sizeof d);
        t_gpu_run(&g, &launch);
        for (unsigned lane = 0; lane < LANES; lane++)
            for (unsigned e = 0; e < 4; e++) {
                /* four k, in each of which row i of A is 1 + i and B is 2 */
                const float want = c[4 * lane + e] + 8 * (float)(1 + 4 * (lane / 16) + e);
                if (d[4 * lane + e] != want)
                    fail_msg("%s: lane %u, element %u: %g, not %g", targets[n], lane, e,
                             (double)d[4 * lane + e], (double)want);
                assert_true(d[4 * (lane + 64) + e] == (e < 3 ? 2 : (float)lane));
            }
        t_gpu_close(&g);
    }
}

/* Undefined rows of A reach their rows of D and no others. */
static void undefined_rows(void **state)
{
    static float c[LANES * 4];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {
        .kernel = "k", .items = {LANES}, .buffers = &buffer, .count = 1};
    char source[2048];
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx942", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    for (int wrong = 0; wrong < 2; wrong++) {
        /* rows 3, 7, 11 and 15 come from memory that was never written: element 3 of D */
        snprintf(source, sizeof source,
                 "%sKERNEL k(float *o) { h4 a = (f16)1, b = (f16)1; f4 c = 0; float x = o[LANE];\n"
                 "if ((LANE & 3) == 3) a[1] = (f16)(x * 0.0f);\n"
                 "const f4 d = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);\n"
                 "for (int n = 0; n < %d; n++) o[LANE + 64 * n] = d[n]; }",
                 types, 3 + wrong);
        t_gpu_load(&g, source);
        assert_int_equal(t_gpu_try(&g, &launch), wrong ? QUERN_E_FAULT : QUERN_OK);
    }
    assert_non_null(strstr(quern_last_error()->message, "buffer \"c\", which was never written"));
    t_gpu_close(&g);
}

/* Of 16 blocks, 16 receive block 9; of one block there is no second to broadcast. */
static void broadcasts_beyond_the_blocks(void **state)
{
    static float c[LANES * 4];
    const struct t_buffer buffer = {c, sizeof c, QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {
        .kernel = "k", .items = {LANES}, .buffers = &buffer, .count = 1};
    char source[2048];
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx90a", "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    for (int wrong = 0; wrong < 2; wrong++) {
        snprintf(source, sizeof source,
                 "%sKERNEL k(f4 *o) { h4 a = (f16)1, b = (f16)1; f4 c = 0;\n"
                 "o[LANE] = __builtin_amdgcn_mfma_f32_%s(a, b, c, 4, 9, 0); }",
                 types, wrong ? "16x16x16f16" : "4x4x4f16");
        t_gpu_load(&g, source);
        assert_int_equal(t_gpu_try(&g, &launch), wrong ? QUERN_E_FAULT : QUERN_OK);
    }
    assert_non_null(strstr(quern_last_error()->message, "cbsz:4 abid:9 blgp:0 is nothing for"));
    t_gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx90a),         cmocka_unit_test(gfx942),
        cmocka_unit_test(gfx950),         cmocka_unit_test(accumulators),
        cmocka_unit_test(undefined_rows), cmocka_unit_test(broadcasts_beyond_the_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
