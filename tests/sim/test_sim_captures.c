/* SPDX-License-Identifier: MIT */
/* What a gfx1201 gave: conversions, output modifiers, carries, values from lane to lane. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "goc/corpus.h"
#include "goc/norms.h"
#include "goc/rows.h"
#include "t_gpu.h"

#include <stdio.h>
#include <string.h>

/* ---- Conversions ----------------------------------------------------------------------------- */

/* Runs eight instructions on the sources of rows, and expects the rows' results with the bits
 * `kept`. The second operand is the number of the row, the third a constant. */
static void expect_rows(const struct goc_row *rows, uint32_t count, const char *const names[8],
                        uint32_t kept)
{
    struct corpus c = corpus_of(ITEMS);
    char texts[8][TEXT];
    struct t_gpu g;

    assert_true(count <= ITEMS);
    for (uint32_t i = 0; i < count; i++) {
        corpus_set(&c, i, 0, rows[i].source);
        corpus_set(&c, i, 1, i % 4);
        corpus_set(&c, i, 2, 0x12345678);
    }
    for (uint32_t n = 0; n < 8; n++)
        snprintf(texts[n], sizeof texts[n], "v_mov_b32 v20, 0xa5a5a5a5\\n %s", names[n]);
    if (opened(&g)) {
        corpus_run(&g, &c, texts, 8);
        for (uint32_t n = 0; n < 8; n++)
            for (uint32_t i = 0; i < count; i++)
                expect_word(names[n], rows[i].source, c.out[n * c.lanes + i][0],
                            rows[i].results[n] | kept);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

static void bytes(void **state)
{
    static const char *const texts[8] = {"v_cvt_pk_u8_f32 v20, v10, v12, v14",
                                         "v_cvt_pk_u8_f32 v20, v10, v12, v14 clamp",
                                         "v_cvt_pk_u8_f32 v20, -|v10|, v12, v14",
                                         "v_cvt_pk_u8_f32 v20, |v10|, v12, v14",
                                         "v_cvt_off_f32_i4 v20, v10",
                                         "v_cvt_off_f32_i4 v20, v10 mul:2",
                                         "v_cvt_off_f32_i4 v20, v10 clamp mul:4",
                                         "v_cvt_off_f32_i4 v20, v10 div:2"};

    (void)state;
    expect_rows(goc_bytes, COUNT(goc_bytes), texts, 0);
}

static void halves(void **state)
{
    static const char *const texts[8] = {"v_cvt_f16_f32 v20, v10",
                                         "v_cvt_f16_f32 v20, v10 mul:2",
                                         "v_cvt_f16_f32 v20, v10 mul:4",
                                         "v_cvt_f16_f32 v20, v10 div:2",
                                         "v_cvt_f16_f32 v20, -|v10| clamp mul:2",
                                         "v_cvt_f16_f32 v20, v10 clamp",
                                         "v_cvt_f16_u16 v20, v10 div:2",
                                         "v_cvt_f16_i16 v20, v10 mul:2"};

    (void)state;
    expect_rows(goc_halves, COUNT(goc_halves), texts, 0xa5a50000);
}

static void pairs(void **state)
{
    static const char *const texts[8] = {
        "v_cvt_pk_rtz_f16_f32 v20, v10, -v10", "v_cvt_pk_rtz_f16_f32 v20, v10, -v10 clamp",
        "v_cvt_pk_i16_f32 v20, v10, -v10",     "v_cvt_pk_i16_f32 v20, v10, -v10 clamp",
        "v_cvt_pk_u16_f32 v20, v10, -v10",     "v_cvt_pk_u16_f32 v20, v10, -v10 clamp",
        "v_cvt_pk_i16_f32 v20, -|v10|, v10",   "v_cvt_pk_u16_f32 v20, |v10|, v10"};

    (void)state;
    expect_rows(goc_pairs, COUNT(goc_pairs), texts, 0);
}

static void norms(void **state)
{
    static const char *const names[7] = {
        "v_cvt_pk_norm_i16_f32 v20, v10, -v10", "v_cvt_pk_norm_i16_f32 v20, -|v10|, v10",
        "v_cvt_pk_norm_u16_f32 v20, v10, -v10", "v_cvt_pk_norm_i16_f16 v20, v12, -v12",
        "v_cvt_pk_norm_u16_f16 v20, v12, -v12", "v_cvt_norm_i16_f16 v20, v12",
        "v_cvt_norm_u16_f16 v20, v12"};
    struct corpus c = corpus_of(ITEMS);
    char texts[14][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t i = 0; i < COUNT(goc_norms); i++) {
        corpus_set(&c, i, 0, goc_norms[i].source);
        corpus_set(&c, i, 1, goc_norms[i].half);
    }
    for (uint32_t n = 0; n < 14; n++)
        snprintf(texts[n], sizeof texts[n], "v_mov_b32 v20, 0xa5a5a5a5\\n %s%s", names[n % 7],
                 n < 7 ? "" : " clamp");
    if (opened(&g)) {
        corpus_run(&g, &c, texts, 14);
        for (uint32_t n = 0; n < 14; n++)
            for (uint32_t i = 0; i < COUNT(goc_norms); i++)
                expect_word(texts[n], goc_norms[i].source, c.out[n * c.lanes + i][0],
                            goc_norms[i].results[n % 7] | (n % 7 < 5 ? 0 : 0xa5a50000));
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

/* ---- Modifiers ------------------------------------------------------------------------------- */

/* What follows the operands of variant `v`: output modifiers count by four, `clamp` by two and the
 * sign of the first operand by one. */
static const char *const modifiers[8] = {"",       " clamp",       " mul:2", " clamp mul:2",
                                         " mul:4", " clamp mul:4", " div:2", " clamp div:2"};

static void fused(void **state)
{
    struct corpus c = corpus_of(ITEMS);
    char texts[16][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t l = 0; l < c.lanes; l++) {
        corpus_set(&c, l, 0, goc_fma_inputs[l % 32]);
        corpus_set(&c, l, 1, 0x3f800000);
        corpus_set(&c, l, 2, 0x80000000);
    }
    for (uint32_t fmac = 0; fmac < 2 && t_gpu_has("gfx1201"); fmac++) {
        for (uint32_t v = 0; v < 16; v++)
            snprintf(texts[v], sizeof texts[v], "v_mov_b32 v20, v14\\n %s v20, %sv10, v12%s%s",
                     fmac ? "v_fmac_f32" : "v_fma_f32", v & 1 ? "-" : "", fmac ? "" : ", v14",
                     modifiers[v / 2]);
        opened(&g);
        corpus_run(&g, &c, texts, 16);
        for (uint32_t v = 0; v < 16; v++)
            for (uint32_t l = 0; l < c.lanes; l++)
                expect_word(texts[v], c.in[l][0], c.out[v * c.lanes + l][0], goc_fma[v][l % 32]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

/* The digest of 32 results of 64 bits of each column, of which all NaNs count as the same. */
static uint64_t digest_f64(const struct corpus *c)
{
    uint64_t hash = DIGEST_OF_NOTHING;

    for (uint32_t n = 0; n < 16 * 32; n++) {
        const uint32_t *const words = c->out[n / 32 * c->lanes + n % 32];
        uint64_t result = words[0] | (uint64_t)words[1] << 32;
        if ((result & INT64_MAX) > 0x7ff0000000000000)
            result = 0x7ff8000000000000;
        for (uint32_t bit = 0; bit < 64; bit += 8)
            hash = (hash ^ (result >> bit & 0xff)) * 1099511628211u;
    }
    return hash;
}

static void f64_modifiers(void **state)
{
    struct corpus c = corpus_of(ITEMS);
    char texts[16][TEXT];
    struct t_gpu g;

    (void)state;
    if (!opened(&g)) {
        corpus_free(&c);
        return;
    }
    for (uint32_t n = 0; n < COUNT(goc_f64); n++) {
        const struct goc_f64 *const f = &goc_f64[n];
        for (uint32_t l = 0; l < c.lanes; l++) {
            corpus_set(&c, l, 0, goc_f64_inputs[l % 32]);
            corpus_set(&c, l, 1, f->second);
            corpus_set(&c, l, 2, (uint64_t)1 << 63);
        }
        for (uint32_t v = 0; v < 16; v++)
            snprintf(texts[v], sizeof texts[v], "%s v[20:21], %sv[10:11]%s%s", f->name,
                     v & 1 ? "-" : "", f->more, modifiers[v / 2]);
        corpus_run(&g, &c, texts, 16);
        expect(digest_f64(&c), f->digest, texts[0]);
    }
    t_gpu_close(&g);
    corpus_free(&c);
}

/* ---- Division -------------------------------------------------------------------------------- */

/* The last step of a division, of values and quotients of every kind. */
static void quotients(void **state)
{
    static const char *const names[3] = {"v20, %sv10%s, %sv12%s, %sv14",
                                         "v20, %sv10%s, %sv12%s, %sv14",
                                         "v[20:21], %sv[10:11]%s, %sv[12:13]%s, %sv[14:15]"};
    static const char *const after[5] = {"", "", " mul:2", " div:2", " clamp mul:4"};
    struct corpus c = corpus_of(4096);
    char texts[5][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t type = 0; type < 3 && t_gpu_has("gfx1201"); type++) {
        for (uint32_t l = 0; l < c.lanes; l++)
            for (uint32_t k = 0; k < 3; k++)
                corpus_set(&c, l, k, goc_fixup_values[type][l >> (8 - 4 * k) & 15]);
        for (uint32_t m = 0; m < 5; m++) {
            const bool signs = m == 1;
            char operands[128];
            snprintf(operands, sizeof operands, names[type], signs ? "-|" : "", signs ? "|" : "",
                     signs ? "|" : "", signs ? "|" : "", signs ? "-" : "");
            snprintf(texts[m], sizeof texts[m], "v_mov_b32 v20, 0x12345678\\n v_div_fixup_f%d %s%s",
                     16 << type, operands, after[m]);
        }
        opened(&g);
        corpus_run(&g, &c, texts, 5);
        for (uint32_t m = 0; m < 5; m++)
            expect(digest(&c, m, 1, type == 2 ? 8 : 4, DIGEST_OF_NOTHING), goc_fixup[type][m],
                   texts[m]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

/* The last step but one, with VCC clear and set: what 4096 triples of special values give, and what
 * as many of random bits do, a quarter of which cancel and a quarter of which are tiny. */
static void random_triple(uint32_t *state, bool wide, uint32_t lane, uint64_t v[3])
{
    const unsigned fraction = wide ? 52 : 23, bias = wide ? 1023 : 127;

    for (int i = 0; i < 3; i++) {
        v[i] = 0;
        for (int half = 0; half <= wide; half++) {
            *state ^= *state << 13;
            *state ^= *state >> 17;
            *state ^= *state << 5;
            v[i] |= (uint64_t)*state << 32 * half;
        }
    }
    if (lane % 4 == 0) {
        v[1] = (uint64_t)bias << fraction | 1;
        v[2] = v[0] ^ 1ull << (wide ? 63 : 31);
    } else if (lane % 4 == 1) {
        v[0] &= (1ull << fraction) - 1;
        v[1] = ((uint64_t)(bias + 1) << fraction) - 1;
        v[2] = 1;
    }
}

static void unscaled(void **state)
{
    static const char *const operands[2][GOC_FMAS_MODES] = {
        {"v20, v10, v12, v14", "v20, v10, v12, v14 clamp", "v20, -|v10|, |v12|, -v14",
         "v20, -v10, -v12, -v14"},
        {"v[20:21], v[10:11], v[12:13], v[14:15]", "v[20:21], v[10:11], v[12:13], v[14:15] clamp",
         "v[20:21], -|v[10:11]|, |v[12:13]|, -v[14:15]",
         "v[20:21], -v[10:11], -v[12:13], -v[14:15]"}};
    struct corpus c = corpus_of(4096);
    char texts[2 * GOC_FMAS_MODES][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t run = 0; run < 4 && t_gpu_has("gfx1201"); run++) {
        const bool wide = run & 1, random = run & 2;
        uint32_t next = 0x9174ab23;
        for (uint32_t l = 0; l < c.lanes; l++) {
            uint64_t v[3];
            for (uint32_t k = 0; k < 3; k++)
                v[k] = goc_fmas_values[wide][l >> (8 - 4 * k) & 15];
            if (random)
                random_triple(&next, wide, l, v);
            for (uint32_t k = 0; k < 3; k++)
                corpus_set(&c, l, k, v[k]);
        }
        for (uint32_t m = 0; m < 2 * GOC_FMAS_MODES; m++)
            snprintf(texts[m], sizeof texts[m], "s_mov_b32 vcc_lo, %d\\n v_div_fmas_f%d %s",
                     m < GOC_FMAS_MODES ? 0 : -1, wide ? 64 : 32,
                     operands[wide][m % GOC_FMAS_MODES]);
        opened(&g);
        corpus_run(&g, &c, texts, 2 * GOC_FMAS_MODES);
        for (uint32_t m = 0; m < 2 * GOC_FMAS_MODES; m++)
            expect(digest(&c, m, 1, wide ? 8 : 4, DIGEST_OF_NOTHING), goc_fmas[random][wide][m],
                   texts[m]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

/* The first step: `neg` has a bit for each operand. The first is the one of the others that is
 * to be scaled, with such a sign that it is the same after all signs. With `mask`, the result is
 * VCC. */
static void scale_text(char text[TEXT], bool wide, bool numerator, uint32_t neg, const char *after,
                       bool mask)
{
    static const char *const names[2][4] = {{"v20", "v10", "v12", "v14"},
                                            {"v[20:21]", "v[10:11]", "v[12:13]", "v[14:15]"}};
    const uint32_t from = numerator ? 14 : 12;
    const bool flip = (neg ^ neg >> (numerator ? 2 : 1)) & 1;

    snprintf(text, TEXT,
             "v_xor_b32 v10, %s, v%u\\n v_xor_b32 v11, %s, v%u\\n "
             "v_div_scale_f%u %s, vcc_lo, %s%s, %s%s, %s%s%s%s",
             flip && !wide ? "0x80000000" : "0", from, flip && wide ? "0x80000000" : "0", from + 1,
             wide ? 64 : 32, names[wide][0], neg & 1 ? "-" : "", names[wide][1], neg & 2 ? "-" : "",
             names[wide][2], neg & 4 ? "-" : "", names[wide][3], after,
             mask ? "\\n v_cndmask_b32 v20, 0, 1, vcc_lo" : "");
}

static uint64_t scale_digest(const struct corpus *c, uint32_t neg, bool wide)
{
    uint64_t hash = DIGEST_OF_NOTHING;

    for (uint32_t l = 0; l < 24 * 24; l++) {
        const uint32_t *const result = c->out[neg * c->lanes + l];
        for (uint32_t b = 0; b < (wide ? 8 : 4); b++)
            hash = (hash ^ (result[b / 4] >> 8 * (b % 4) & 0xff)) * 1099511628211u;
        hash = (hash ^ c->out[(8 + neg) * c->lanes + l][0]) * 1099511628211u;
    }
    return hash;
}

static void scales(void **state)
{
    struct corpus c = corpus_of(3 * ITEMS);
    char texts[16][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t n = 0; n < 2 * 2 * 8 && t_gpu_has("gfx1201"); n++) {
        const bool wide = n / 16, numerator = n / 8 % 2;
        /* of `modifiers`, clamp counts by one */
        const char *const after = modifiers[n % 4 * 2 + n % 8 / 4];
        for (uint32_t l = 0; l < 24 * 24; l++) {
            corpus_set(&c, l, 1, goc_scale_values[wide][l / 24]);
            corpus_set(&c, l, 2, goc_scale_values[wide][l % 24]);
        }
        for (uint32_t m = 0; m < 16; m++)
            scale_text(texts[m], wide, numerator, m % 8, after, m >= 8);
        opened(&g);
        corpus_run(&g, &c, texts, 16);
        for (uint32_t neg = 0; neg < 8; neg++)
            expect(scale_digest(&c, neg, wide),
                   goc_scale[wide][numerator][n % 8][neg >> (numerator ? 2 : 1) & 1], texts[neg]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

/* ---- Carries --------------------------------------------------------------------------------- */

/* Sums and what a wave carries out, by lanes that take part; the others keep what they had. */
static void carries(void **state)
{
    static const char *const names[6] = {"add_co",    "sub_co",    "subrev_co",
                                         "add_co_ci", "sub_co_ci", "subrev_co_ci"};
    static const uint32_t masks[3] = {0xffffffff, 0x33333333, 0};
    struct corpus c = corpus_of(ITEMS);
    char texts[12][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t l = 0; l < c.lanes; l++) {
        corpus_set(&c, l, 0, goc_carry_inputs[0][l % 8]);
        corpus_set(&c, l, 1, goc_carry_inputs[1][l % 8]);
    }
    for (uint32_t m = 0; m < 3 && t_gpu_has("gfx1201"); m++) {
        for (uint32_t n = 0; n < 12; n++)
            snprintf(texts[n], sizeof texts[n],
                     "v_mov_b32 v20, 0xdeadbeef\\n s_mov_b32 vcc_lo, 0xa5a5a5a5\\n "
                     "s_mov_b32 s61, 0x96969696\\n s_mov_b32 s60, exec_lo\\n "
                     "s_mov_b32 exec_lo, 0x%x\\n v_%s_u32 v20, s61, v10, v12%s%s\\n "
                     "s_mov_b32 exec_lo, s60\\n v_mov_b32 v21, s61",
                     masks[m], names[n / 2], n < 6 ? "" : ", vcc_lo", n % 2 ? " clamp" : "");
        opened(&g);
        corpus_run(&g, &c, texts, 12);
        for (uint32_t n = 0; n < 12; n++)
            for (uint32_t l = 0; l < c.lanes; l++) {
                const uint32_t *const got = c.out[n * c.lanes + l];
                expect_word(texts[n], l, got[0],
                            masks[m] >> l % 32 & 1 ? goc_carry[n / 2][n % 2][l % 8] : 0xdeadbeef);
                expect_word(texts[n], l, got[1], goc_carried[n / 2][m]);
            }
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

/* ---- From lane to lane ----------------------------------------------------------------------- */

#define SWIZZLES (2048 + 32 + 256 + 32)

/* Rotations, FFTs, permutations of four lanes and exclusive ors, in the order of the digests. */
static uint32_t swizzle_offset(uint32_t n)
{
    if (n < 2048)
        return 0xc000 + n;
    if (n < 2048 + 32)
        return 0xe000 + n - 2048;
    if (n < 2048 + 32 + 256)
        return 0x8000 + n - 2048 - 32;
    return 31 | (n - 2048 - 32 - 256) << 10;
}

/* Each swizzle among the lanes of `masks`; the others keep 0xdead0000 and their number. */
static void load_swizzles(struct t_gpu *g, uint32_t lanes)
{
    static char source[64 * 1024];
    int n = snprintf(
        source, sizeof source,
        "#define S(N) \\\n"
        "    asm volatile(\"v_mov_b32 v20, %%1\\n s_mov_b32 exec_lo, %%3\\n %s\\n \" \\\n"
        "        \"ds_swizzle_b32 v20, %%2 offset:\" #N \"\\n s_mov_b32 exec_lo, -1\\n %s\\n \" "
        "\\\n"
        "        \"s_wait_dscnt 0x0\\n v_mov_b32 %%0, v20\" : \"=v\"(r) : \\\n"
        "        \"v\"(0xdead0000 + l), \"v\"(l + 1), \"s\"(low), \"s\"(high) : \"v20\"); \\\n"
        "    *out = r; out += %u;\n"
        "KERNEL k(const u32 *masks, u32 *out)\n{\n"
        "    const u32 l = __builtin_amdgcn_workitem_id_x();\n    u32 r;\n"
        "    const u32 low = __builtin_amdgcn_readfirstlane(masks[0]);\n"
        "    const u32 high = __builtin_amdgcn_readfirstlane(masks[1]);\n"
        "    out += l;\n",
        lanes == 64 ? "s_mov_b32 exec_hi, %4" : "", lanes == 64 ? "s_mov_b32 exec_hi, -1" : "",
        lanes);

    for (uint32_t i = 0; i < SWIZZLES; i++)
        n += snprintf(source + n, sizeof source - (size_t)n, "    S(%u)\n", swizzle_offset(i));
    n += snprintf(source + n, sizeof source - (size_t)n, "}\n");
    assert_true((size_t)n < sizeof source);
    t_gpu_load(g, source);
}

static void swizzles(void **state)
{
    static const uint32_t masks[2][8][2] = {
        {{-1u}, {0}, {0xaaaaaaaa}, {0x55555555}, {1}, {0x80000000}, {0xffff}, {0xffff0000}},
        {{-1u, -1u},
         {0},
         {0xaaaaaaaa, 0xaaaaaaaa},
         {0x55555555, 0x55555555},
         {1},
         {0, 0x80000000},
         {-1u},
         {0, -1u}}};
    static uint32_t out[SWIZZLES * 64];
    struct t_gpu g;

    (void)state;
    for (uint32_t wide = 0; wide < 2 && t_gpu_has("gfx1201"); wide++) {
        const uint32_t lanes = wide ? 64 : 32;
        t_gpu_open(&g, "gfx1201", wide ? "-mwavefrontsize64" : "", QUERN_CHECK_FAST, 0, 0);
        load_swizzles(&g, lanes);
        for (uint32_t m = 0; m < 8; m++) {
            uint32_t in[2] = {masks[wide][m][0], masks[wide][m][1]};
            uint64_t hash = DIGEST_OF_NOTHING;
            char text[64];
            const struct t_buffer buffers[] = {
                {in, sizeof in, QUERN_SIM_READ, "masks"},
                {out, SWIZZLES * lanes * sizeof *out, QUERN_SIM_WRITE, "out"}};
            t_gpu_run(&g, &(struct t_launch){
                              .kernel = "k", .items = {lanes}, .buffers = buffers, .count = 2});
            for (uint32_t i = 0; i < SWIZZLES * lanes; i++)
                hash = (hash ^ out[i]) * 1099511628211u;
            snprintf(text, sizeof text, "ds_swizzle_b32, lanes %08x%08x", in[1], in[0]);
            expect(hash, goc_swizzle[wide][m], text);
        }
        t_gpu_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes),         cmocka_unit_test(halves),  cmocka_unit_test(fused),
        cmocka_unit_test(f64_modifiers), cmocka_unit_test(carries), cmocka_unit_test(swizzles),
        cmocka_unit_test(pairs),         cmocka_unit_test(norms),   cmocka_unit_test(quotients),
        cmocka_unit_test(unscaled),      cmocka_unit_test(scales)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
