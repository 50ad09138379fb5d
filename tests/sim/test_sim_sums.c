/* SPDX-License-Identifier: MIT */
/*
 * Dots and WMMA of RDNA against the rules that were published for their adders, computed here in
 * integers, independently of src/sim: types of which test_sim_adders has no captures or few, as
 * results of 16 bits and eight-bit floats. The rules are those of docs/sim.md; their sources say
 * that they give every capture of a W7900 and an R9700. On such a card the same test compares it.
 *
 * Infinities and NaNs are among the captures, and not here.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "adders/wmma.h"

#include <math.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- The rules ------------------------------------------------------------------------------- */

/* A binary format: bits of its fraction, bias of its exponent, bits of all. */
struct format {
    int fraction, bias;
    unsigned bits;
};
enum { F16, BF16, F32, FP8, BF8 };
static const struct format formats[] = {
    [F16] = {10, 15, 16}, [BF16] = {7, 127, 16}, [F32] = {23, 127, 32},
    [FP8] = {3, 7, 8},    [BF8] = {2, 15, 8},
};

/* A number, magnitude * 2^power; `exponent` is that of its format, whatever its leading bit. */
struct number {
    bool negative;
    uint64_t magnitude;
    int power, exponent;
};

static struct number read_number(int format, uint32_t bits)
{
    const struct format f = formats[format];
    const int field = (int)(bits >> f.fraction & ((1u << (f.bits - 1 - (unsigned)f.fraction)) - 1));
    const uint32_t fraction = bits & ((1u << f.fraction) - 1);
    const int exponent = (field ? field : 1) - f.bias;

    return (struct number){bits >> (f.bits - 1) & 1, fraction | (uint32_t)(field > 0) << f.fraction,
                           exponent - f.fraction, exponent};
}

static struct number times(struct number a, struct number b)
{
    return (struct number){a.negative != b.negative, a.magnitude * b.magnitude, a.power + b.power,
                           a.exponent + b.exponent};
}

/* The exponent of the leading bit; far below all others for zero. */
#define NO_EXPONENT (-100000)
static int lead(struct number x)
{
    return x.magnitude ? x.power + 63 - __builtin_clzll(x.magnitude) : NO_EXPONENT;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* The magnitude in units of 2^grid, what is below cut off; *rest says whether anything was. */
static int64_t units_of(struct number x, int grid, bool *rest)
{
    const int down = grid - x.power;

    *rest = false;
    if (down <= 0)
        return x.magnitude ? (int64_t)(x.magnitude << -down) : 0;
    *rest = down > 63 ? x.magnitude > 0 : x.magnitude & ((UINT64_C(1) << down) - 1);
    return down > 63 ? 0 : (int64_t)(x.magnitude >> down);
}

static int64_t towards_minus(struct number x, int grid)
{
    bool rest;
    const int64_t units = units_of(x, grid, &rest);

    return x.negative ? -units - rest : units;
}

/* units * 2^grid in a format of `fraction` bits, rounded once to nearest even, ties to even. The
 * least exponent is the format's, or none where `tiny` (then what is below becomes zero). The sign
 * of a zero is nobody's claim: it is positive. */
static uint32_t round_to(int format, int64_t units, int grid, bool tiny)
{
    const struct format f = formats[format];
    struct number x = {units < 0, (uint64_t)(units < 0 ? -units : units), grid, 0};
    const int least = 1 - f.bias, top = lead(x);

    if (!units)
        return 0;
    const int quantum = (tiny ? top : larger(top, least)) - f.fraction;
    bool rest;
    const struct number doubled = {false, x.magnitude, x.power + 1, 0};
    int64_t kept = units_of(x, quantum, &rest);
    const bool half = units_of(doubled, quantum, &rest) & 1; /* the first bit that is dropped */
    kept += half && (rest || kept & 1);
    const int exponent = kept >> (f.fraction + 1) ? quantum + f.fraction + 1 : quantum + f.fraction;
    kept = kept >> (f.fraction + 1) ? kept >> 1 : kept;
    if (!kept || (tiny && exponent < least))
        return 0;
    const bool normal = kept >> f.fraction;
    const uint32_t all = (1u << (f.bits - 1)) - 1, infinity = all - ((1u << f.fraction) - 1);
    uint32_t bits = normal ? (uint32_t)(exponent + f.bias) << f.fraction |
                                 ((uint32_t)kept & ((1u << f.fraction) - 1))
                           : (uint32_t)kept;
    if (bits > infinity)
        bits = infinity;
    return bits | (uint32_t)x.negative << (f.bits - 1);
}

/* The sum as bits of the result's type; a bf16 result is the upper half of an f32. */
static uint32_t finish(int result, int64_t units, int grid, bool tiny)
{
    return result == BF16 ? round_to(F32, units, grid, tiny) >> 16
                          : round_to(result, units, grid, tiny && result != F16);
}

/* gfx11: two products and the addend on one grid, magnitudes cut off; what has not the addend's
 * sign counts as the complement of its units. f32 denormals are zeros. */
static uint32_t add_gfx11(int result, const struct number p[2], uint32_t c_bits)
{
    const int type = result == F16 ? F16 : F32;
    struct number c = read_number(type, result == BF16 ? c_bits << 16 : c_bits);
    bool rest;

    if (type == F32 && lead(c) < -126)
        c.magnitude = 0;
    const int most = larger(p[0].magnitude ? p[0].exponent : NO_EXPONENT,
                            p[1].magnitude ? p[1].exponent : NO_EXPONENT);
    const int top =
        larger(larger(lead(c), type == F16 ? -14 : NO_EXPONENT), larger(lead(p[0]), lead(p[1])));
    const int grid = larger(most - 24, top - 26);
    if (top == NO_EXPONENT)
        return 0;
    int64_t units = units_of(c, grid, &rest);
    for (unsigned n = 0; n < 2; n++) {
        const int64_t own = units_of(p[n], grid, &rest);
        units += p[n].negative != c.negative ? -own - 1 : own;
    }
    return finish(result, c.negative ? -units : units, grid, true);
}

/* gfx12: groups of products, each on its own grid, and the addend, downwards; denormals count. A
 * negative addend of which nothing is left above a grid that is not the finest does not. */
static uint32_t add_gfx12(int result, const struct number *p, unsigned count, unsigned group,
                          uint32_t c_bits)
{
    const int type = result == F16 ? F16 : F32, least = type == F16 ? -14 : -126;
    const struct number c = read_number(type, result == BF16 ? c_bits << 16 : c_bits);
    int64_t sums[2] = {0};
    int tops[2] = {NO_EXPONENT, NO_EXPONENT}, most = NO_EXPONENT;
    bool rest;

    for (unsigned n = 0; n < count; n++)
        if (p[n].magnitude)
            tops[n / group] = larger(tops[n / group], p[n].exponent);
    for (unsigned n = 0; n < count; n++)
        sums[n / group] += towards_minus(p[n], tops[n / group] - 24);
    most = larger(tops[0], tops[1]);
    const int grid = larger(most - 24, larger(least, lead(c)) - 26);
    const bool lost = c.negative && grid > least && !units_of(c, grid, &rest);
    int64_t units = lost ? 0 : towards_minus(c, grid);
    for (unsigned g = 0; g < 2; g++) {
        const struct number sum = {sums[g] < 0, (uint64_t)(sums[g] < 0 ? -sums[g] : sums[g]),
                                   tops[g] - 24, 0};
        units += towards_minus(sum, grid);
    }
    return finish(result, units, grid, false);
}

/* RDNA 3 takes denormals of bf16 for zeros. */
static struct number factor(int type, bool gfx12, uint32_t bits)
{
    struct number x = read_number(type, bits);

    if (type == BF16 && !gfx12 && lead(x) < -126)
        x.magnitude = 0;
    return x;
}

/* ---- Dots ------------------------------------------------------------------------------------ */

#define DOTS 4096 /* of each instruction on each target */

struct dot {
    const char *text;
    int a, b, result; /* formats */
    bool gfx12;       /* gfx11 has none */
};
static const struct dot dots[] = {
    {"v_dot2_f32_f16", F16, F16, F32, false},    {"v_dot2_f32_bf16", BF16, BF16, F32, false},
    {"v_dot2_f16_f16", F16, F16, F16, false},    {"v_dot2_bf16_bf16", BF16, BF16, BF16, false},
    {"v_dot4_f32_fp8_fp8", FP8, FP8, F32, true}, {"v_dot4_f32_fp8_bf8", FP8, BF8, F32, true},
    {"v_dot4_f32_bf8_fp8", BF8, FP8, F32, true}, {"v_dot4_f32_bf8_bf8", BF8, BF8, F32, true},
};

/* Bits with an exponent within `spread` of the middle of what the format has: finite, and of two
 * numbers their product too. Now and then a zero or a denormal. */
static uint32_t draw(int format, unsigned spread, uint64_t *state)
{
    const struct format f = formats[format];
    const uint64_t r = t_random(state);
    const unsigned odd = r >> 40 & 31, field = (unsigned)f.bias - spread / 2 + r % (spread + 1);
    const uint32_t sign = (uint32_t)(r >> 32 & 1) << (f.bits - 1);
    const uint32_t fraction = (uint32_t)(r >> 8) & ((1u << f.fraction) - 1);

    return sign | (odd == 0 ? 0 : odd == 1 ? fraction : fraction | field << f.fraction);
}

/* How far apart exponents are: near each other, so that sums cancel and all bits meet, or far. */
static unsigned spread_of(int format, unsigned n)
{
    return n % 2 ? 3 : format == F16 || format == BF8 ? 16 : format == FP8 ? 12 : 30;
}

static uint32_t draw_addend(int result, unsigned n, uint64_t *state)
{
    /* a zero of each sign, or of the size of the products */
    if (n % 8 == 7)
        return (uint32_t)(n / 8 % 2) << (formats[result].bits - 1);
    return draw(result, n % 2 ? 5 : result == F16 ? 16 : 60, state);
}

static uint32_t model_of(const struct dot *d, bool gfx12, const uint32_t in[3])
{
    const unsigned count = formats[d->a].bits == 8 ? 4 : 2;
    struct number p[4];

    for (unsigned k = 0; k < count; k++) {
        const unsigned at = k * formats[d->a].bits;
        const uint32_t mask = (1u << formats[d->a].bits) - 1;
        p[k] =
            times(factor(d->a, gfx12, in[0] >> at & mask), factor(d->b, gfx12, in[1] >> at & mask));
    }
    const uint32_t c = d->result == F32 ? in[2] : in[2] & 0xffff;
    return gfx12 ? add_gfx12(d->result, p, count, count, c) : add_gfx11(d->result, p, c);
}

static void expect_dots(const char *target, const struct dot *d, uint64_t *state)
{
    static uint32_t in[DOTS][3], out[DOTS];
    const bool gfx12 = !strcmp(target, "gfx1201");
    const struct t_buffer buffers[] = {{in, sizeof in, QUERN_SIM_READ, "in"},
                                       {out, sizeof out, QUERN_SIM_WRITE, "out"}};
    const unsigned bits = formats[d->a].bits;
    char source[1024];
    struct t_gpu g;

    if (!t_gpu_has(target) || (d->gfx12 && !gfx12))
        return;
    for (unsigned n = 0; n < DOTS; n++) {
        in[n][0] = in[n][1] = 0;
        for (unsigned at = 0; at < 32; at += bits) {
            in[n][0] |= draw(d->a, spread_of(d->a, n), state) << at;
            in[n][1] |= draw(d->b, spread_of(d->b, n), state) << at;
        }
        in[n][2] = draw_addend(d->result, n, state);
    }
    snprintf(source, sizeof source,
             "KERNEL k(const u32 *in, u32 *out)\n{\n"
             "    const u32 l = __builtin_amdgcn_workgroup_id_x() * 256 +\n"
             "                  __builtin_amdgcn_workitem_id_x();\n"
             "    u32 a = in[3 * l], b = in[3 * l + 1], c = in[3 * l + 2], d = 0;\n"
             "    asm volatile(\"%s %%0, %%1, %%2, %%3\" : \"+v\"(d) : \"v\"(a), \"v\"(b), "
             "\"v\"(c));\n"
             "    out[l] = d;\n}\n",
             d->text);
    t_gpu_open(&g, target, "", QUERN_CHECK_FULL, 0, 0);
    t_gpu_arithmetic(&g, QUERN_ARITHMETIC_SILICON);
    t_gpu_load(&g, source);
    t_gpu_run(
        &g,
        &(struct t_launch){
            .kernel = "k", .groups = {DOTS / 256}, .items = {256}, .buffers = buffers, .count = 2});
    for (unsigned n = 0; n < DOTS; n++) {
        const uint32_t want = model_of(d, gfx12, in[n]);
        const uint32_t sign = 1u << (formats[d->result].bits - 1);
        const uint32_t got = d->result == F32 ? out[n] : out[n] & 0xffff;
        if (got != want && (got | want) != sign)
            fail_msg("%s, %s of %08x %08x %08x: %08x, not %08x", target, d->text, in[n][0],
                     in[n][1], in[n][2], got, want);
    }
    t_gpu_close(&g);
}

static void test_dots_follow_the_rules(void **state)
{
    static const char *const targets[] = {"gfx1100", "gfx1151", "gfx1201"};
    uint64_t random = 1;

    (void)state;
    for (unsigned t = 0; t < COUNT(targets); t++)
        for (unsigned d = 0; d < COUNT(dots); d++)
            expect_dots(targets[t], &dots[d], &random);
}

/* ---- WMMA of 16-bit floats ------------------------------------------------------------------- */

/* In waves of 32 gfx12 takes the first half of what a lane holds of a row before the second. */
static unsigned place_in_order(const struct card *card, unsigned k)
{
    static const unsigned halves[] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};

    return card->gfx12 && card->lanes == 32 ? halves[k] : k;
}

static uint32_t element(const struct card *card, int type, int result, const struct matrices *m,
                        unsigned i, unsigned j)
{
    const unsigned step = card->gfx12 ? 4 : 2;
    uint32_t sum = m->c[i * 16 + j];

    for (unsigned first = 0; first < 16; first += step) {
        struct number p[4];
        for (unsigned n = 0; n < step; n++) {
            const unsigned k = place_in_order(card, first + n);
            p[n] = times(factor(type, card->gfx12, m->a[i * 16 + k]),
                         factor(type, card->gfx12, m->b[k * 16 + j]));
        }
        sum = card->gfx12 ? add_gfx12(result, p, 4, 2, sum) : add_gfx11(result, p, sum);
    }
    return sum;
}

static void expect_matrices(const struct card *card, const struct wmma *f, int type, int result)
{
    enum { MATRICES = 8 };
    uint64_t state = 7;
    struct matrices m;
    struct t_gpu g;

    if (!t_gpu_has(card->target))
        return;
    open_wmma(&g, card, f);
    for (unsigned round = 0; round < MATRICES; round++) {
        for (unsigned n = 0; n < 256; n++) {
            m.a[n] = (uint16_t)draw(type, round % 2 ? 3 : 12, &state);
            m.b[n] = (uint16_t)draw(type, round % 2 ? 3 : 12, &state);
            m.c[n] = draw(result, round % 2 ? 5 : 12, &state);
        }
        run_wmma(&g, card, f, &m);
        for (unsigned n = 0; n < 256; n++) {
            const uint32_t want = element(card, type, result, &m, n / 16, n % 16);
            if (m.d[n] != want && (m.d[n] | want) != 1u << (formats[result].bits - 1))
                fail_msg("%s, waves of %u, %s, matrices %u, element %u: %08x, not %08x",
                         card->target, card->lanes, f->name, round, n, m.d[n], want);
        }
    }
    t_gpu_close(&g);
}

static void test_matrices_follow_the_rules(void **state)
{
    static const struct {
        struct wmma form;
        int type, result;
    } forms[] = {{{"v_wmma_f32_16x16x16_f16", NULL, 16, 16, false}, F16, F32},
                 {{"v_wmma_f32_16x16x16_bf16", NULL, 16, 16, false}, BF16, F32},
                 {{"v_wmma_f16_16x16x16_f16", NULL, 16, 16, true}, F16, F16},
                 {{"v_wmma_bf16_16x16x16_bf16", NULL, 16, 16, true}, BF16, BF16}};

    (void)state;
    for (unsigned c = 0; c < COUNT(cards); c++)
        for (unsigned n = 0; n < COUNT(forms); n++)
            expect_matrices(&cards[c], &forms[n].form, forms[n].type, forms[n].result);
}

/* ---- WMMA of integers that saturates --------------------------------------------------------- */

static int64_t saturated(int64_t x)
{
    return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x;
}

static int64_t as_signed(uint32_t bits, unsigned width)
{
    return (int32_t)(bits << (32 - width)) >> (32 - width);
}

/* gfx12 saturates after the products of even k / 8, and after the others; as captured on gfx1201 in
 * waves of 32. Of gfx11 nothing is known: one stage. */
static void expect_saturated(const struct card *card, const struct wmma *f)
{
    uint64_t state = 11;
    struct matrices m;
    unsigned told = 0;
    struct t_gpu g;

    if (!t_gpu_has(card->target))
        return;
    open_wmma(&g, card, f);
    for (unsigned n = 0; n < 16 * f->k; n++) {
        m.a[n] = (uint16_t)(t_random(&state) & ((1u << f->bits) - 1));
        m.b[n] = (uint16_t)(t_random(&state) & ((1u << f->bits) - 1));
    }
    for (unsigned n = 0; n < 256; n++) /* within some products of the limit */
        m.c[n] = (uint32_t)INT32_MAX - (uint32_t)(t_random(&state) % (f->bits == 8 ? 16000 : 160));
    run_wmma(&g, card, f, &m);
    for (unsigned n = 0; n < 256; n++) {
        int64_t stages[2] = {0, 0};
        for (unsigned k = 0; k < f->k; k++)
            stages[card->gfx12 ? k / 8 % 2 : 0] += as_signed(m.a[n / 16 * f->k + k], f->bits) *
                                                   as_signed(m.b[k * 16 + n % 16], f->bits);
        const int64_t c = (int32_t)m.c[n];
        const int64_t want = saturated(saturated(c + stages[0]) + stages[1]);
        told += want != saturated(c + stages[0] + stages[1]);
        if ((int32_t)m.d[n] != want)
            fail_msg("%s, %s, element %u: %08x, not %08x", card->target, f->name, n, m.d[n],
                     (uint32_t)want);
    }
    if (card->gfx12)
        assert_true(told > 8); /* elements that show in which stages they were added */
    t_gpu_close(&g);
}

static void test_integers_saturate_in_stages(void **state)
{
    static const struct wmma bytes = {"v_wmma_i32_16x16x16_iu8", " neg_lo:[1,1,0] clamp", 8, 16,
                                      false};
    static const struct wmma nibbles = {"v_wmma_i32_16x16x32_iu4", " neg_lo:[1,1,0] clamp", 4, 32,
                                        false};

    (void)state;
    expect_saturated(&cards[0], &bytes);
    expect_saturated(&cards[2], &bytes);
    expect_saturated(&cards[2], &nibbles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dots_follow_the_rules),
        cmocka_unit_test(test_matrices_follow_the_rules),
        cmocka_unit_test(test_integers_saturate_in_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
