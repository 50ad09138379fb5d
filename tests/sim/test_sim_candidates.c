/* SPDX-License-Identifier: MIT */
/*
 * Matrix instructions of which nobody has published how they add: each candidate model
 * (docs/sim.md) gives what it says, all of them are within the error that sums of floats have, and
 * only silicon's arithmetic has them, in an order that load.h's sim_next_candidate goes through.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "sim/launch.h"
#include "sim/load.h"
#include "t_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define WORDS_MOST   8 /* registers of A or B */

enum type { F16, FP8, FNUZ };

/*
 * An instruction that multiplies A and B of so many registers, and what it gives for two sums:
 * result (0, 0), where A and B are zeros but for row 0 and column 0, of which the first lane's
 * element e of A times that of B is x[e]. The results are those of the three candidates.
 */
static const struct form {
    const char *target, *name;
    enum type type;
    unsigned lanes, a_words, b_words, results;
    bool indices; /* sparse: of every four k the first two, 0 and 1, are stored */
    struct {
        float x[16], c;
        uint32_t want[SIM_CANDIDATES];
    } sums[2];
} forms[] = {
    /* the first adder sees 1 + 1 - 2 as 2^-23; it and the second cut downwards, the third rounds */
    {"gfx1151",
     "v_wmma_f32_16x16x16_f16",
     F16,
     32,
     8,
     8,
     8,
     false,
     {{{1, 1}, -2, {0x34000000, 0, 0}}, {{1, -0x1p-26f}, 0, {0x3f7fffff, 0x3f7fffff, 0x3f800000}}}},
    /* products of a step on one grid of 24 bits: of eight, of sixteen */
    {"gfx950",
     "v_mfma_f32_16x16x32_f16",
     F16,
     64,
     4,
     4,
     4,
     false,
     {{{1, 0x1.8p-24f}, 0, {0x3f800001, 0x3f800000, 0x3f800000}},
      {{0x1.8p-24f}, 1, {0x3f800001, 0x3f800001, 0x3f800001}}}},
    /* sums of even and of odd k apart, brought together downwards or towards zero */
    {"gfx942",
     "v_mfma_f32_16x16x32_fp8_fp8",
     FNUZ,
     64,
     2,
     2,
     4,
     false,
     {{{0x1p14f, -0x1p-20f}, 0, {0x467fffff, 0x46800000, 0x46800000}},
      {{0x1p14f, 0x1p-20f}, 0, {0x46800000, 0x46800000, 0x46800000}}}},
    {"gfx950",
     "v_mfma_f32_16x16x32_fp8_fp8",
     FP8,
     64,
     2,
     2,
     4,
     false,
     {{{0x1p14f, -0x1p-18f}, 0, {0x46800000, 0x467fffff, 0x46800000}},
      {{0x1p14f, 0x1p-18f}, 0, {0x46800000, 0x46800000, 0x46800000}}}},
    {"gfx942",
     "v_smfmac_f32_16x16x32_f16",
     F16,
     64,
     2,
     4,
     4,
     true,
     {{{1, 0x1.8p-24f}, 0, {0x3f800001, 0x3f800000, 0x3f800000}},
      {{0x1.8p-24f}, 1, {0x3f800001, 0x3f800001, 0x3f800001}}}},
    /* four products on one grid downwards, or pairs */
    {"gfx1201",
     "v_wmma_f32_16x16x16_fp8_fp8",
     FP8,
     32,
     2,
     2,
     8,
     false,
     {{{0x1p14f, 0, -0x1p-18f}, 0, {0x46800000, 0x467fffff, 0x467fffff}},
      {{0x1p14f, 0, 0x1p-18f}, 0, {0x46800000, 0x46800000, 0x46800000}}}},
    {"gfx1201",
     "v_swmmac_f32_16x16x32_f16",
     F16,
     32,
     4,
     8,
     8,
     true,
     {{{1, -0x1p-26f}, 0, {0x3f800000, 0x3f7fffff, 0x3f7fffff}},
      {{1, 0x1p-26f}, 0, {0x3f800000, 0x3f800000, 0x3f800000}}}},
};

/* A number that the type has, as its bits. */
static uint32_t bits_of(enum type type, float x)
{
    const int bias = type == FNUZ ? 8 : 7;
    int e;

    if (x == 0)
        return 0;
    if (type == F16) {
        const _Float16 h = (_Float16)x;
        uint16_t bits;
        memcpy(&bits, &h, 2);
        return bits;
    }
    const float m = frexpf(fabsf(x), &e) * 16; /* 8 to 15, of 2^(e - 4) */
    const int field = e - 1 + bias;
    const uint32_t magnitude =
        field > 0 ? (uint32_t)field << 3 | ((uint32_t)m & 7) : (uint32_t)ldexpf(fabsf(x), bias + 2);
    return magnitude | (x < 0 ? 0x80 : 0);
}

static void open_form(struct t_gpu *g, const struct form *f)
{
    char source[2048];

    t_gpu_open(g, f->target, "", QUERN_CHECK_FULL, 0, 0);
    t_gpu_arithmetic(g, QUERN_ARITHMETIC_SILICON);
    snprintf(source, sizeof source,
             "typedef u32 a_words __attribute__((ext_vector_type(%u)));\n"
             "typedef u32 b_words __attribute__((ext_vector_type(%u)));\n"
             "typedef u32 d_words __attribute__((ext_vector_type(%u)));\n"
             "KERNEL k(const u32 *a, const u32 *b, const u32 *c, u32 *d)\n{\n"
             "    const u32 l = __builtin_amdgcn_workitem_id_x();\n"
             "    a_words x;\n    b_words y;\n    d_words z;\n    u32 indices = 0x44444444;\n"
             "    for (u32 n = 0; n < %u; n++)\n        x[n] = a[n * %u + l];\n"
             "    for (u32 n = 0; n < %u; n++)\n        y[n] = b[n * %u + l];\n"
             "    for (u32 n = 0; n < %u; n++)\n        z[n] = c[n * %u + l];\n"
             "    asm volatile(\"s_nop 7\\n %s %%0, %%1, %%2, %s\\n s_nop 15\\n s_nop 15\"\n"
             "                 : \"+v\"(z) : \"v\"(x), \"v\"(y), \"v\"(indices));\n"
             "    for (u32 n = 0; n < %u; n++)\n        d[n * %u + l] = z[n];\n}\n",
             f->a_words, f->b_words, f->results, f->a_words, f->lanes, f->b_words, f->lanes,
             f->results, f->lanes, f->name, f->indices ? "%3" : "%0", f->results, f->lanes);
    t_gpu_load(g, source);
}

/* Puts element `e` of row or column 0; on gfx11 the second 16 lanes repeat the first. */
static void put(const struct form *f, uint32_t *to, unsigned e, float x)
{
    const unsigned per = f->type == F16 ? 2 : 4;
    const uint32_t bits = bits_of(f->type, x) << e % per * (32 / per);

    to[e / per * f->lanes] |= bits;
    if (f->target[3] == '1' && f->target[4] == '1')
        to[e / per * f->lanes + 16] |= bits;
}

static uint32_t run_sum(struct t_gpu *g, const struct form *f, unsigned n)
{
    uint32_t a[WORDS_MOST * 64] = {0}, b[WORDS_MOST * 64] = {0}, c[8 * 64] = {0}, d[8 * 64];
    const struct t_buffer buffers[] = {{a, sizeof a, QUERN_SIM_READ, "a"},
                                       {b, sizeof b, QUERN_SIM_READ, "b"},
                                       {c, sizeof c, QUERN_SIM_READ, "c"},
                                       {d, sizeof d, QUERN_SIM_WRITE, "d"}};

    for (unsigned e = 0; e < COUNT(f->sums[n].x); e++) {
        const float x = f->sums[n].x[e];
        int exponent;
        if (x == 0)
            continue;
        const float m = 2 * frexpf(x, &exponent);
        exponent--;
        /* half of the exponent to each */
        put(f, a, e, ldexpf(m, exponent - exponent / 2));
        put(f, b, f->indices ? e / 2 * 4 + e % 2 : e, ldexpf(1, exponent / 2));
    }
    memcpy(c, &f->sums[n].c, 4);
    t_gpu_run(
        g, &(struct t_launch){.kernel = "k", .items = {f->lanes}, .buffers = buffers, .count = 4});
    return d[0];
}

static void test_what_each_gives(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(forms); k++) {
        const struct form *const f = &forms[k];
        bool differ = false;
        struct t_gpu g;
        if (!t_gpu_has(f->target))
            continue;
        open_form(&g, f);
        for (int model = 0; model < SIM_CANDIDATES; model++) {
            for (unsigned n = 0; n < COUNT(f->sums); n++) {
                const uint32_t got = run_sum(&g, f, n), want = f->sums[n].want[model];
                differ |= want != f->sums[n].want[0];
                if (got != want)
                    fail_msg("%s, %s, candidate %d, sum %u: %08x, not %08x", f->target, f->name,
                             model + 1, n, got, want);
            }
            assert_int_equal(sim_next_candidate(g.sim), model + 1 < SIM_CANDIDATES);
        }
        assert_true(differ);
        t_gpu_close(&g);
    }
}

/* Nothing is open in fast arithmetic, and of a form that is published. */
static void test_published_forms_have_one_model(void **state)
{
    static const struct form published = {
        "gfx1201", "v_wmma_f32_16x16x16_f16", F16, 32, 4, 4, 8, false, {{{1}, 0, {0}}}};
    struct t_gpu g;

    (void)state;
    if (!t_gpu_has(published.target))
        return;
    open_form(&g, &published);
    run_sum(&g, &published, 0);
    assert_false(sim_next_candidate(g.sim));
    t_gpu_close(&g);
    open_form(&g, &forms[0]);
    t_gpu_arithmetic(&g, QUERN_ARITHMETIC_FAST);
    run_sum(&g, &forms[0], 0);
    assert_false(sim_next_candidate(g.sim));
    t_gpu_close(&g);
}

/* Random sums are within what rounding after every product would give, whichever candidate adds. */
static void test_all_are_near(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(forms); k++) {
        const struct form *const f = &forms[k];
        uint32_t a[WORDS_MOST * 64], b[WORDS_MOST * 64], c[8 * 64] = {0};
        uint32_t d[SIM_CANDIDATES][8 * 64];
        uint64_t seed = k + 1;
        struct t_gpu g;
        if (!t_gpu_has(f->target))
            continue;
        open_form(&g, f);
        for (unsigned n = 0; n < COUNT(a); n++) {
            const uint64_t r = t_random(&seed);
            /* of about one, of both signs: 2^-2 to 2^2 */
            const uint32_t mask = f->type == F16 ? 0x8fff8fff : 0x9f9f9f9f;
            const uint32_t base = f->type == F16 ? 0x34003400 : 0x28282828;
            a[n] = ((uint32_t)r & mask & 0x87ff87ff) + base;
            b[n] = ((uint32_t)(r >> 32) & mask & 0x87ff87ff) + base;
            if (f->target[3] == '1' && f->target[4] == '1' && n % 32 >= 16)
                a[n] = a[n - 16], b[n] = b[n - 16];
        }
        for (int model = 0; model < SIM_CANDIDATES; model++) {
            const struct t_buffer buffers[] = {{a, sizeof a, QUERN_SIM_READ, "a"},
                                               {b, sizeof b, QUERN_SIM_READ, "b"},
                                               {c, sizeof c, QUERN_SIM_READ, "c"},
                                               {d[model], sizeof d[0], QUERN_SIM_WRITE, "d"}};
            t_gpu_run(&g, &(struct t_launch){
                              .kernel = "k", .items = {f->lanes}, .buffers = buffers, .count = 4});
            for (unsigned n = 0; n < f->results * f->lanes; n++) {
                float x, y;
                memcpy(&x, &d[0][n], 4);
                memcpy(&y, &d[model][n], 4);
                /* 64 products of up to 2^4, each of which may lose a unit of 2^-20 */
                if (!(fabsf(x - y) <= 0x1p-14f))
                    fail_msg("%s, %s, candidate %d, element %u: %a, and %a by the first", f->target,
                             f->name, model + 1, n, (double)y, (double)x);
            }
            sim_next_candidate(g.sim);
        }
        t_gpu_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_each_gives),
                                       cmocka_unit_test(test_published_forms_have_one_model),
                                       cmocka_unit_test(test_all_are_near)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
