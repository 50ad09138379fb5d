/* SPDX-License-Identifier: MIT */
/*
 * Sparse matrix instructions of gfx9 (SMFMAC) against their formula. Where lanes hold the elements
 * is written as AMD's matrix instruction calculator has it for gfx942 and, for gfx950's forms, as
 * others found it on MI350s (fpsan, `amdgcn_smfmac.hpp`): A and its indices by the lane of each
 * group of four k, B by lane and element of each k.
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
#define GFX942       1
#define GFX950       2

static const struct form {
    const char *builtin; /* behind __builtin_amdgcn_smfmac_ */
    unsigned size, k;
    enum t_type a, b;
    unsigned targets;
} forms[] = {
    {"f32_16x16x32_f16", 16, 32, F16, F16, GFX942 | GFX950},
    {"f32_32x32x16_f16", 32, 16, F16, F16, GFX942 | GFX950},
    {"f32_16x16x32_bf16", 16, 32, BF16, BF16, GFX942 | GFX950},
    {"f32_32x32x16_bf16", 32, 16, BF16, BF16, GFX942 | GFX950},
    {"i32_16x16x64_i8", 16, 64, I8, I8, GFX942 | GFX950},
    {"i32_32x32x32_i8", 32, 32, I8, I8, GFX942 | GFX950},
    {"f32_16x16x64_fp8_fp8", 16, 64, FP8, FP8, GFX942 | GFX950},
    {"f32_16x16x64_fp8_bf8", 16, 64, FP8, BF8, GFX942 | GFX950},
    {"f32_16x16x64_bf8_fp8", 16, 64, BF8, FP8, GFX942 | GFX950},
    {"f32_16x16x64_bf8_bf8", 16, 64, BF8, BF8, GFX942 | GFX950},
    {"f32_32x32x32_fp8_fp8", 32, 32, FP8, FP8, GFX942 | GFX950},
    {"f32_32x32x32_fp8_bf8", 32, 32, FP8, BF8, GFX942 | GFX950},
    {"f32_32x32x32_bf8_fp8", 32, 32, BF8, FP8, GFX942 | GFX950},
    {"f32_32x32x32_bf8_bf8", 32, 32, BF8, BF8, GFX942 | GFX950},
    {"f32_16x16x64_f16", 16, 64, F16, F16, GFX950},
    {"f32_32x32x32_f16", 32, 32, F16, F16, GFX950},
    {"f32_16x16x64_bf16", 16, 64, BF16, BF16, GFX950},
    {"f32_32x32x32_bf16", 32, 32, BF16, BF16, GFX950},
    {"i32_16x16x128_i8", 16, 128, I8, I8, GFX950},
    {"i32_32x32x64_i8", 32, 64, I8, I8, GFX950},
    {"f32_16x16x128_fp8_fp8", 16, 128, FP8, FP8, GFX950},
    {"f32_16x16x128_fp8_bf8", 16, 128, FP8, BF8, GFX950},
    {"f32_16x16x128_bf8_fp8", 16, 128, BF8, FP8, GFX950},
    {"f32_16x16x128_bf8_bf8", 16, 128, BF8, BF8, GFX950},
    {"f32_32x32x64_fp8_fp8", 32, 64, FP8, FP8, GFX950},
    {"f32_32x32x64_fp8_bf8", 32, 64, FP8, BF8, GFX950},
    {"f32_32x32x64_bf8_fp8", 32, 64, BF8, FP8, GFX950},
    {"f32_32x32x64_bf8_bf8", 32, 64, BF8, BF8, GFX950},
};

/* ---- Layouts --------------------------------------------------------------------------------- */

struct place {
    unsigned lane, element;
};

/* Groups of four k whose two elements of A, and their four bits of index, one lane holds. */
static unsigned quads_of_a_lane(const struct form *f)
{
    return f->k * f->size / LANES / 4;
}

/* The first of the two elements of row i for the k from 4 q on. */
static struct place place_of_a(const struct form *f, unsigned i, unsigned q)
{
    const unsigned each = quads_of_a_lane(f);
    return (struct place){q / each * f->size + i, q % each * 2};
}

/* Element k of column j. The eighth or sixteenth of k that fills 16 bytes is on one lane; gfx950's
 * forms go round the lanes twice. */
static struct place place_of_b(const struct form *f, unsigned k, unsigned j)
{
    const bool bytes = t_bits_of(f->b) == 8;
    const unsigned run = bytes ? 16 : 8;

    if (f->size == 16 && f->k == 4 * run)
        return (struct place){k / run * 16 + j, k % run};
    if (f->size == 16)
        return (struct place){k % (4 * run) / run * 16 + j, k % run + (k >= 4 * run ? run : 0)};
    if (f->k == 2 * run)
        return (struct place){k / run * 32 + j, k % run};
    return (struct place){k % (2 * run) / run * 32 + j, k % run + (k >= 2 * run ? run : 0)};
}

static struct place place_of_d(const struct form *f, unsigned i, unsigned j)
{
    return f->size == 16 ? (struct place){i / 4 * 16 + j, i % 4}
                         : (struct place){i / 4 % 2 * 32 + j, i / 8 * 4 + i % 4};
}

/* ---- One product ----------------------------------------------------------------------------- */

static struct {
    uint32_t a[LANES * 4], b[LANES * 8], d[LANES * 16], index[LANES];
} memory;

static void put(uint32_t *words, unsigned per_lane, struct place p, unsigned bits, uint32_t x)
{
    const unsigned at = p.element * bits;
    words[p.lane * per_lane + at / 32] |= (x & (uint32_t)(((uint64_t)1 << bits) - 1)) << at % 32;
}

/* `part` of the index register is used; `kernel` has cbsz and abid for it. */
static void check_product(struct t_gpu *g, const char *kernel, const struct form *f, unsigned part,
                          bool special, uint64_t *random)
{
    static const uint8_t pairs[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    static double a[32][128], b[32][128];
    static bool stored[32][128];
    static uint32_t c[32][32];
    const unsigned bits = t_bits_of(f->a), quads = quads_of_a_lane(f), set = 4 * quads;
    const unsigned a_words = quads * 2 * bits / 32, d_words = f->size * f->size / LANES;
    const bool fnuz = !strcmp(g->target, "gfx942"), integer = f->a == I8;

    memset(&memory, 0, sizeof memory);
    memset(stored, 0, sizeof stored);
    for (unsigned i = 0; i < f->size; i++)
        for (unsigned q = 0; q < f->k / 4; q++) {
            const struct place p = place_of_a(f, i, q);
            const uint8_t *const two = pairs[t_random(random) % 6];
            for (unsigned n = 0; n < 2; n++) {
                const uint32_t x = (uint32_t)t_draw(f->a, special, random);
                put(memory.a, a_words, (struct place){p.lane, p.element + n}, bits, x);
                a[i][4 * q + two[n]] = t_value_of(f->a, x, fnuz);
                stored[i][4 * q + two[n]] = true;
            }
            memory.index[p.lane] |= (uint32_t)(two[0] | two[1] << 2) << 2 * p.element;
        }
    for (unsigned l = 0; l < LANES && set < 32; l++) {
        const uint32_t mask = ((1u << set) - 1) << part * set;
        memory.index[l] =
            (memory.index[l] << part * set & mask) | ((uint32_t)t_random(random) & ~mask);
    }
    for (unsigned j = 0; j < f->size; j++)
        for (unsigned k = 0; k < f->k; k++) {
            const uint32_t x = (uint32_t)t_draw(f->b, special, random);
            put(memory.b, 2 * a_words, place_of_b(f, k, j), bits, x);
            b[j][k] = t_value_of(f->b, x, fnuz);
        }
    for (unsigned i = 0; i < f->size; i++)
        for (unsigned j = 0; j < f->size; j++) {
            c[i][j] = integer ? (uint32_t)t_random(random) : (uint32_t)t_draw(F32, special, random);
            put(memory.d, d_words, place_of_d(f, i, j), 32, c[i][j]);
        }
    const struct t_buffer buffers[] = {
        {memory.a, sizeof memory.a, QUERN_SIM_READ, "a"},
        {memory.b, sizeof memory.b, QUERN_SIM_READ, "b"},
        {memory.d, sizeof memory.d, QUERN_SIM_READ_WRITE, "d"},
        {memory.index, sizeof memory.index, QUERN_SIM_READ, "index"}};
    const struct t_launch launch = {
        .kernel = kernel, .items = {LANES}, .buffers = buffers, .count = COUNT(buffers)};
    t_gpu_run(g, &launch);
    for (unsigned i = 0; i < f->size; i++)
        for (unsigned j = 0; j < f->size; j++) {
            const struct place p = place_of_d(f, i, j);
            const uint32_t got = memory.d[p.lane * d_words + p.element];
            uint32_t want = c[i][j];
            float sum = t_f32(want);
            for (unsigned k = 0; k < f->k; k++)
                if (stored[i][k] && integer)
                    want += (uint32_t)((int)a[i][k] * (int)b[j][k]);
                else if (stored[i][k])
                    sum = fmaf((float)a[i][k], (float)b[j][k], sum);
            want = integer ? want : t_f32_bits(sum);
            if (got != want && (integer || !isnan(t_f32(got)) || !isnan(t_f32(want))))
                fail_msg("%s: smfmac_%s, part %u: D[%u][%u] is 0x%x, not 0x%x", g->target,
                         f->builtin, part, i, j, got, want);
        }
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* The C type of a lane's A or B; gfx942's builtins take shorts for bf16. */
static void vector(const struct form *f, unsigned words, char to[8])
{
    const char *const element = f->a == F16           ? "vh"
                                : f->a != BF16        ? "vi"
                                : f->targets & GFX942 ? "vs"
                                                      : "vb";

    snprintf(to, 8, "%s%u", element, (t_bits_of(f->a) == 16 ? 2 * words : words) % 100);
}

/* How many parts the index register has; with cbsz:1 there is one more kernel, which uses part 0
 * though abid says otherwise. */
static unsigned parts_of(const struct form *f)
{
    return 32 / (4 * quads_of_a_lane(f));
}

static void load_kernels(struct t_gpu *g, unsigned target)
{
    static char source[65536];
    size_t used = (size_t)snprintf(
        source, sizeof source, "%s",
        "#define V(T, N) __attribute__((ext_vector_type(N))) T\n"
        "typedef V(f16, 4) vh4; typedef V(f16, 8) vh8; typedef V(f16, 16) vh16;\n"
        "typedef V(__bf16, 8) vb8; typedef V(__bf16, 16) vb16;\n"
        "typedef V(short, 4) vs4; typedef V(short, 8) vs8; typedef V(int, 2) vi2;\n"
        "typedef V(int, 4) vi4; typedef V(int, 8) vi8; typedef V(int, 16) vi16;\n"
        "typedef V(float, 4) vf4; typedef V(float, 16) vf16;\n");

    for (unsigned n = 0; n < COUNT(forms); n++) {
        const struct form *const f = &forms[n];
        const unsigned words = quads_of_a_lane(f) * 2 * t_bits_of(f->a) / 32;
        char a[8], b[8];
        if (!(f->targets & target))
            continue;
        vector(f, words, a);
        vector(f, 2 * words, b);
        for (unsigned part = 0; part <= parts_of(f); part++) {
            used += (size_t)snprintf(
                source + used, sizeof source - used,
                "KERNEL k%u_%u(const %s *a, const %s *b, v%c%u *d, const int *s) {\n"
                "  d[LANE] = __builtin_amdgcn_smfmac_%s(a[LANE], b[LANE], d[LANE], s[LANE], %u, "
                "%u); }\n",
                n, part, a, b, f->a == I8 ? 'i' : 'f', f->size == 16 ? 4 : 16, f->builtin,
                part == parts_of(f), part == parts_of(f) ? part - 1 : part);
            assert_true(used < sizeof source);
        }
    }
    t_gpu_load(g, source);
}

static void every_form(const char *name, unsigned target, enum quern_sim_check check,
                       enum quern_sim_isa isa)
{
    uint64_t random = 3;
    struct t_gpu g;

    t_gpu_open(&g, name, "", check, isa, 0);
    load_kernels(&g, target);
    for (unsigned n = 0; n < COUNT(forms); n++)
        for (unsigned round = 0; forms[n].targets & target && round < 6; round++) {
            const unsigned parts = parts_of(&forms[n]), part = round % (parts + 1);
            char kernel[16];
            snprintf(kernel, sizeof kernel, "k%u_%u", n, part);
            check_product(&g, kernel, &forms[n], part == parts ? 0 : part, round % 2, &random);
        }
    t_gpu_close(&g);
}

static void gfx942(void **state)
{
    (void)state;
    every_form("gfx942", GFX942, QUERN_CHECK_FULL, QUERN_ISA_X86_64);
}

static void gfx950(void **state)
{
    (void)state;
    every_form("gfx950", GFX950, QUERN_CHECK_FULL, QUERN_ISA_AUTO);
}

/* Infinities of B at a k that A does not store do nothing. */
static void what_is_not_stored(void **state)
{
    static float d[LANES * 4];
    const struct t_buffer buffer = {d, sizeof d, QUERN_SIM_WRITE, "d"};
    const struct t_launch launch = {
        .kernel = "k", .items = {LANES}, .buffers = &buffer, .count = 1};
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx942", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    t_gpu_load(&g, "#define V(T, N) __attribute__((ext_vector_type(N))) T\n"
                   "typedef V(f16, 4) h4; typedef V(f16, 8) h8; typedef V(float, 4) f4;\n"
                   "KERNEL k(f4 *d) { const f16 x = (f16)(1.0f / 0.0f);\n"
                   "  const h4 a = (f16)1; const h8 b = {x, 1, 2, x, x, 4, 8, x};\n"
                   "  d[LANE] = __builtin_amdgcn_smfmac_f32_16x16x32_f16(a, b, (f4)0.0f, 0x99, 0, 0"
                   "); }\n");
    t_gpu_run(&g, &launch);
    for (unsigned n = 0; n < COUNT(d); n++)
        assert_true(d[n] == 4 * 15);
    t_gpu_close(&g);
}

/* An undefined row of A, column of B, index and C each reach what they should, and no more. */
static void undefined_operands(void **state)
{
    static float d[LANES * 4], never[LANES];
    const struct t_buffer buffers[] = {{d, sizeof d, QUERN_SIM_WRITE, "d"},
                                       {never, sizeof never, QUERN_SIM_WRITE, "never"}};
    const struct t_launch launch = {
        .kernel = "k", .items = {LANES}, .buffers = buffers, .count = COUNT(buffers)};
    /* what is undefined, and the lanes and element of D that it does not reach */
    static const char *const cases[][2] = {
        {"if (LANE % 16 == 5) a[3] = x;", "LANE / 16 != 1 || e != 1"},
        {"if (LANE % 16 == 5) b[6] = x;", "LANE % 16 != 5"},
        {"if (LANE == 16 + 2) s = n;", "LANE / 16 != 0 || e != 2"},
        {"if (LANE == 33) c[3] = x;", "LANE != 33 || e != 3"}};
    char source[2048];
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx950", "", QUERN_CHECK_FULL, QUERN_ISA_AUTO, 0);
    for (unsigned n = 0; n < COUNT(cases); n++)
        for (unsigned wrong = 0; wrong < 2; wrong++) {
            snprintf(source, sizeof source,
                     "#define V(T, N) __attribute__((ext_vector_type(N))) T\n"
                     "typedef V(f16, 4) h4; typedef V(f16, 8) h8; typedef V(float, 4) f4;\n"
                     "KERNEL k(f4 *d, const u32 *never) {\n"
                     "  const int n = (int)never[LANE]; const f16 x = (f16)(float)n;\n"
                     "  h4 a = (f16)1; h8 b = (f16)2; f4 c = 0; int s = 0x44;\n"
                     "  %s\n"
                     "  c = __builtin_amdgcn_smfmac_f32_16x16x32_f16(a, b, c, s, 0, 0);\n"
                     "  for (int e = 0; e < 4; e++) if (%s) ((float *)d)[4 * LANE + e] = c[e]; }\n",
                     cases[n][0], wrong ? "1" : cases[n][1]);
            t_gpu_load(&g, source);
            if (t_gpu_try(&g, &launch) != (wrong ? QUERN_E_FAULT : QUERN_OK))
                fail_msg("case %u, %u: %s", n, wrong, quern_last_error()->message);
        }
    assert_non_null(strstr(quern_last_error()->message, "buffer \"never\""));
    t_gpu_close(&g);
}

/* A register has two parts for 8-bit forms. */
static void a_part_that_is_not(void **state)
{
    static float d[LANES * 4];
    const struct t_buffer buffer = {d, sizeof d, QUERN_SIM_WRITE, "d"};
    const struct t_launch launch = {
        .kernel = "k", .items = {LANES}, .buffers = &buffer, .count = 1};
    char source[1024];
    struct t_gpu g;

    (void)state;
    t_gpu_open(&g, "gfx942", "", QUERN_CHECK_FAST, QUERN_ISA_AUTO, 0);
    for (unsigned abid = 1; abid < 3; abid++) {
        snprintf(source, sizeof source,
                 "#define V(T, N) __attribute__((ext_vector_type(N))) T\n"
                 "typedef V(int, 2) i2; typedef V(int, 4) i4;\n"
                 "KERNEL k(i4 *d) { const i2 a = 0; const i4 b = 0, c = 0;\n"
                 "  d[LANE] = __builtin_amdgcn_smfmac_i32_16x16x64_i8(a, b, c, 0, 0, %u); }\n",
                 abid);
        t_gpu_load(&g, source);
        assert_int_equal(t_gpu_try(&g, &launch), abid == 2 ? QUERN_E_FAULT : QUERN_OK);
    }
    assert_non_null(strstr(quern_last_error()->message, "abid:2: the index register has 2 parts"));
    t_gpu_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gfx942),
        cmocka_unit_test(gfx950),
        cmocka_unit_test(what_is_not_stored),
        cmocka_unit_test(undefined_operands),
        cmocka_unit_test(a_part_that_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
