/* SPDX-License-Identifier: MIT */
/*
 * Sums of products bit for bit as hardware makes them: every published capture, and for CDNA the
 * models of MMA-Sim, which were fitted on hardware, on a hundred thousand results of each form.
 *
 * This file is long because dots, matrices, their operands and MFMA each have kernels of their own.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "adders/captures.h"
#include "adders/mma_sim.h"
#include "adders/wmma.h"
#include "t_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void load(struct t_gpu *g, const char *target, unsigned lanes, const char *source)
{
    t_gpu_open(g, target, lanes == 64 ? "-mwavefrontsize64" : "", QUERN_CHECK_FULL, 0, 0);
    t_gpu_arithmetic(g, QUERN_ARITHMETIC_SILICON);
    t_gpu_load(g, source);
}

/* ---- Dots ------------------------------------------------------------------------------------ */

#define DOTS_MOST 128

/* An instruction on as many captures as there are, a lane each. */
static void run_dots(struct t_gpu *g, const char *text, const uint32_t (*in)[3], size_t count,
                     uint32_t *out)
{
    static const char format[] =
        "KERNEL k(const u32 *in, u32 *out)\n{\n"
        "    const u32 l = __builtin_amdgcn_workitem_id_x();\n"
        "    u32 a = in[3 * l], b = in[3 * l + 1], c = in[3 * l + 2], d = c;\n"
        "    asm volatile(\"%s\" : \"+v\"(d) : \"v\"(a), \"v\"(b), \"v\"(c));\n"
        "    out[l] = d;\n}\n";
    uint32_t padded[DOTS_MOST][3] = {{0}}, results[DOTS_MOST];
    char source[1024];
    const struct t_buffer buffers[] = {{padded, sizeof padded, QUERN_SIM_READ, "in"},
                                       {results, sizeof results, QUERN_SIM_WRITE, "out"}};

    memcpy(padded, in, count * sizeof *in);
    snprintf(source, sizeof source, format, text);
    t_gpu_load(g, source);
    t_gpu_run(
        g, &(struct t_launch){.kernel = "k", .items = {DOTS_MOST}, .buffers = buffers, .count = 2});
    memcpy(out, results, count * sizeof *out);
}

static void expect_dots(struct t_gpu *g, const char *text, const uint32_t (*in)[3],
                        const uint32_t *want, size_t count)
{
    uint32_t got[DOTS_MOST];

    run_dots(g, text, in, count, got);
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i])
            fail_msg("%s, %s of %08x %08x %08x: %08x, not %08x", g->target, text, in[i][0],
                     in[i][1], in[i][2], got[i], want[i]);
}

static void dots_on(const char *target, bool gfx12)
{
    uint32_t in[2][DOTS_MOST][3], want[2][DOTS_MOST];
    size_t count[2] = {COUNT(dots_f16), COUNT(dots_bf16)};
    struct t_gpu g;

    for (unsigned bf16 = 0; bf16 < 2; bf16++)
        for (size_t i = 0; i < count[bf16]; i++) {
            const struct dot2_capture *const d = bf16 ? &dots_bf16[i] : &dots_f16[i];
            memcpy(in[bf16][i], d, sizeof in[bf16][i]);
            want[bf16][i] = gfx12 ? d->gfx12 : d->gfx11;
        }
    for (size_t i = 0; gfx12 && i < COUNT(dots_bf16_tiny); i++, count[1]++) {
        memcpy(in[1][count[1]], dots_bf16_tiny[i], sizeof in[1][0]);
        want[1][count[1]] = dots_bf16_tiny[i][3];
    }
    if (!t_gpu_has(target))
        return;
    t_gpu_open(&g, target, "", QUERN_CHECK_FULL, 0, 0);
    t_gpu_arithmetic(&g, QUERN_ARITHMETIC_SILICON);
    expect_dots(&g, "v_dot2_f32_f16 %0, %1, %2, %3", in[0], want[0], count[0]);
    if (!gfx12)
        expect_dots(&g, "v_dot2acc_f32_f16 %0, %1, %2", in[0], want[0], count[0]);
    expect_dots(&g, "v_dot2_f32_bf16 %0, %1, %2, %3", in[1], want[1], count[1]);
    t_gpu_close(&g);
}

static void test_dots(void **state)
{
    (void)state;
    dots_on("gfx1100", false);
    dots_on("gfx1151", false);
    dots_on("gfx1201", true);
}

/* ---- WMMA ------------------------------------------------------------------------------------ */

static void expect(const struct card *card, const char *what, unsigned n, uint32_t got,
                   uint32_t want)
{
    if (got != want)
        fail_msg("%s, waves of %u, %s, element %u: %08x, not %08x", card->target, card->lanes, what,
                 n, got, want);
}

static const struct wmma wmma_f32[] = {{"v_wmma_f32_16x16x16_f16", NULL, 16, 16, false},
                                       {"v_wmma_f32_16x16x16_bf16", NULL, 16, 16, false}};

static void test_wmma(void **state)
{
    (void)state;
    for (unsigned bf16 = 0; bf16 < 2; bf16++)
        for (size_t i = 2; i < COUNT(cards); i++) {
            const struct wmma_capture *const captures = bf16 ? wmma_bf16 : wmma_f16;
            struct t_gpu g;
            if (!t_gpu_has(cards[i].target))
                continue;
            open_wmma(&g, &cards[i], &wmma_f32[bf16]);
            for (unsigned n = 0; n < (bf16 ? COUNT(wmma_bf16) : COUNT(wmma_f16)); n++) {
                struct matrices m;
                for (unsigned e = 0; e < 256; e++) {
                    m.a[e] = captures[n].a[e % 16];
                    m.b[e] = captures[n].b[e / 16];
                    m.c[e] = captures[n].c;
                }
                run_wmma(&g, &cards[i], &wmma_f32[bf16], &m);
                for (unsigned e = 0; e < 256; e++)
                    expect(&cards[i], wmma_f32[bf16].name, n, m.d[e], captures[n].result[i - 2]);
            }
            t_gpu_close(&g);
        }
}

static uint16_t small(int value, bool bf16)
{
    const float f = (float)value;
    const _Float16 h = (_Float16)value;
    uint32_t bits = 0;

    memcpy(&bits, bf16 ? (const void *)&f : (const void *)&h, bf16 ? 4 : 2);
    return (uint16_t)(bf16 ? bits >> 16 : bits);
}

static void test_wmma_integers(void **state)
{
    (void)state;
    for (unsigned bf16 = 0; bf16 < 2; bf16++)
        for (size_t i = 0; i < 2; i++) {
            struct matrices m;
            struct t_gpu g;
            if (!t_gpu_has(cards[i].target))
                continue;
            open_wmma(&g, &cards[i], &wmma_f32[bf16]);
            for (int n = 0; n < 256; n++) {
                const float c = (float)(n * 13 % 129 - 64);
                m.a[n] = small(n * 7 % 17 - 8, bf16);
                m.b[n] = small(n * 11 % 17 - 8, bf16);
                memcpy(&m.c[n], &c, 4);
            }
            run_wmma(&g, &cards[i], &wmma_f32[bf16], &m);
            for (unsigned n = 0; n < COUNT(wmma_integers); n++)
                expect(&cards[i], wmma_f32[bf16].name, n, m.d[n], wmma_integers[n]);
            t_gpu_close(&g);
        }
}

static void test_wmma_packed(void **state)
{
    static const struct wmma form = {"v_wmma_f16_16x16x16_f16", NULL, 16, 16, true};

    (void)state;
    for (size_t i = 0; i < COUNT(cards); i++) {
        struct matrices m = {{0}};
        struct t_gpu g;
        memcpy(m.a, packed_a, sizeof packed_a);
        memcpy(m.b, packed_b, sizeof packed_b);
        for (unsigned n = 0; n < COUNT(packed_c); n++)
            m.c[n] = packed_c[n];
        if (!t_gpu_has(cards[i].target))
            continue;
        open_wmma(&g, &cards[i], &form);
        run_wmma(&g, &cards[i], &form, &m);
        for (unsigned n = 0; n < COUNT(packed_c); n++)
            expect(&cards[i], form.name, n, m.d[n], packed_result[i < 2 ? 0 : i - 1][n]);
        t_gpu_close(&g);
    }
}

/* One of the 440 instructions: its two words, and what D becomes of the bits that it had. */
struct operand_case {
    uint32_t words[2], want;
};

static void add_case(struct operand_case *cases, unsigned *count, bool gfx12, uint32_t first,
                     uint32_t second, uint16_t result)
{
    const uint32_t both = (uint32_t)result << 16 | result;
    const uint32_t kept = first & 0x2000 ? 0xffffu : 0xffff0000u; /* bit 2 of op_sel */

    cases[(*count)++] =
        (struct operand_case){{first, second}, gfx12 ? both : (both & ~kept) | (0x56781234 & kept)};
}

/* Those of one type, constants apart, or constants. */
static unsigned operand_cases(struct operand_case *cases, bool gfx12, bool bf16, bool constants)
{
    const uint32_t code = 0xcc420018u | (bf16 ? 0x10000u : 0);
    unsigned count = 0;

    for (unsigned n = 0; n < COUNT(operand_constants) && constants; n++)
        for (uint32_t high = 0; high < 0x4000; high += 0x2000)
            add_case(cases, &count, gfx12, code | 0x4000 | high,
                     (uint32_t)operand_constants[n] << 16 | 0x1100,
                     operand_of_constants[bf16][gfx12][n]);
    for (uint32_t n = 0; n < 128 && !constants; n++)
        add_case(cases, &count, gfx12, code | 0x4000 | n % 2 << 13 | n / 16 << 8,
                 (n / 2 % 8) << 29 | 0x1c421100, operand_negated[bf16][n / 16][n / 2 % 8]);
    for (uint32_t n = 0; n < 64 && !constants; n++)
        add_case(cases, &count, gfx12,
                 code | n / 32 << 13 | n / 16 % 2 << 12 | n / 8 % 2 << 11 | n / 4 % 2 << 14,
                 (n % 4) << 27 | 0x04421100, operand_plain[bf16]);
    for (uint32_t n = 0; n < 2 && !constants; n++)
        add_case(cases, &count, gfx12, code | 0xc000 | n << 13, 0x1c421100, operand_plain[bf16]);
    return count;
}

static void expect_operands(const struct card *card, bool bf16, bool constants)
{
    enum { CASES_MOST = 194, SOURCE_MOST = 1 << 18 };
    struct operand_case cases[CASES_MOST];
    const unsigned count = operand_cases(cases, card->gfx12, bf16, constants);
    const unsigned results = 256 / card->lanes / (card->gfx12 ? 2 : 1);
    static uint32_t out[CASES_MOST * 8 * 64];
    const struct t_buffer buffer = {out, sizeof out, QUERN_SIM_WRITE, "out"};
    char *const source = malloc(SOURCE_MOST);
    const char *const mask = card->lanes == 32 ? "_lo" : "";
    const char *const wait = card->gfx12 ? "s_wait_alu 0\\n" : "";
    size_t used;

    assert_non_null(source);
    used = (size_t)snprintf(source, SOURCE_MOST,
                            "KERNEL k(u32 *out)\n{\n    u32 *p = out + __builtin_amdgcn_"
                            "workitem_id_x();\n    asm volatile(\"v_mov_b32 v40, %%0\\n "
                            "v_mov_b32 v41, %%1\\n \"\n");
    for (unsigned n = 0; n < 24; n++)
        used += (size_t)snprintf(source + used, SOURCE_MOST - used, "\"v_mov_b32 v%u, 0x%x\\n \"\n",
                                 n, constants && n < 16 ? 0 : operand_words[bf16][n / 8]);
    for (unsigned c = 0; c < count; c++) {
        for (unsigned n = 0; n < results; n++)
            used += (size_t)snprintf(source + used, SOURCE_MOST - used,
                                     "\"v_mov_b32 v%u, 0x56781234\\n \"\n", 24 + n);
        used += (size_t)snprintf(source + used, SOURCE_MOST - used,
                                 "\".long 0x%x, 0x%x\\n v_nop\\n \"\n", cases[c].words[0],
                                 cases[c].words[1]);
        for (unsigned n = 0; n < results; n++)
            used += (size_t)snprintf(source + used, SOURCE_MOST - used,
                                     "\"global_store_b32 v[40:41], v%u, off offset:%u\\n \"\n",
                                     24 + n, 4 * card->lanes * n);
        used += (size_t)snprintf(source + used, SOURCE_MOST - used,
                                 "\"v_add_co_u32 v40, vcc%s, 0x%x, v40\\n %s "
                                 "v_add_co_ci_u32 v41, vcc%s, 0, v41, vcc%s\\n %s \"\n",
                                 mask, 4 * card->lanes * results, wait, mask, mask, wait);
    }
    used += (size_t)snprintf(source + used, SOURCE_MOST - used,
                             ": : \"v\"((u32)(u64)p), \"v\"((u32)((u64)p >> 32)) : \"vcc\", "
                             "\"memory\"");
    for (unsigned n = 0; n < 42; n++)
        used += n < 32 || n >= 40
                    ? (size_t)snprintf(source + used, SOURCE_MOST - used, ", \"v%u\"", n)
                    : 0;
    used += (size_t)snprintf(source + used, SOURCE_MOST - used, ");\n}\n");
    assert_true(used < SOURCE_MOST);
    struct t_gpu g;
    load(&g, card->target, card->lanes, source);
    t_gpu_run(&g, &(struct t_launch){
                      .kernel = "k", .items = {card->lanes}, .buffers = &buffer, .count = 1});
    t_gpu_close(&g);
    free(source);
    for (unsigned n = 0; n < count * results * card->lanes; n++) {
        const struct operand_case *const c = &cases[n / (results * card->lanes)];
        if (out[n] != c->want)
            fail_msg("%s, waves of %u, %08x %08x, register %u, lane %u: %08x, not %08x",
                     card->target, card->lanes, c->words[0], c->words[1], n / card->lanes % results,
                     n % card->lanes, out[n], c->want);
    }
}

static void test_wmma_operands(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4 * COUNT(cards); i++)
        if (t_gpu_has(cards[i / 4].target))
            expect_operands(&cards[i / 4], i & 1, i & 2);
}

/* ---- MFMA ------------------------------------------------------------------------------------ */

static uint64_t mixed(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint32_t draw_16(uint64_t *state, bool bf16)
{
    static const uint16_t special[16] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00,
                                         0x7e00, 0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff,
                                         0x0080, 0x007f, 0x3f80, 0x7f7f};
    const uint64_t r = mixed(state);

    if (r % 64 < 2)
        return r % 64 ? special[r >> 8 & 15] : r >> 16 & 0xffff;
    return (uint32_t)(bf16 ? (r >> 16 & 0x807f) | (115 + (r >> 40) % 24) << 7
                           : (r >> 16 & 0x83ff) | (9 + (r >> 40) % 12) << 10);
}

static uint32_t draw_32(uint64_t *state)
{
    static const uint32_t special[16] = {0,          0x80000000, 0x3f800000, 0xbf800000,
                                         0x7f800000, 0xff800000, 0x7fc00000, 1,
                                         0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
                                         0x33800000, 0x3f801fff, 0x3f803000, 0x00001fff};
    const uint64_t r = mixed(state);

    if (r % 64 < 2)
        return r % 64 ? special[r >> 8 & 15] : (uint32_t)(r >> 16);
    return (uint32_t)((r >> 16 & 0x807fffff) | (110 + (r >> 56) % 30) << 23);
}

/* Lane l holds of row, or column, l % 16 the k from l / 16 * each on, and rows l / 16 * 4 and on of
 * column l % 16 of C. */
static void draw_operands(const struct mma_sim_form *f, uint64_t *state, uint32_t *a, uint32_t *b,
                          uint32_t *c)
{
    const unsigned each = f->k / 4, per = 32 / f->bits;

    for (unsigned n = 0; n < 32 * f->k; n++) {
        const bool of_b = n >= 16 * f->k;
        const unsigned m = n % (16 * f->k);
        const unsigned k = of_b ? m / 16 : m % f->k, r = of_b ? m % 16 : m / f->k;
        const uint32_t bits = f->bits == 32 ? draw_32(state) : draw_16(state, f->bf16);
        uint32_t *const to = of_b ? b : a;
        to[k % each / per * 64 + k / each * 16 + r] |= bits << k % each % per * 16;
    }
    for (unsigned n = 0; n < 256; n++)
        c[n / 16 % 4 * 64 + n / 64 * 16 + n % 16] = draw_32(state);
}

static uint64_t digest(uint64_t hash, uint32_t bits)
{
    if ((bits & 0x7fffffff) > 0x7f800000)
        bits = 0x7fc00000;
    for (unsigned n = 0; n < 32; n += 8)
        hash = (hash ^ (bits >> n & 0xff)) * 0x100000001b3u;
    return hash;
}

static void expect_model(const struct mma_sim_form *f, unsigned index)
{
    enum { MATRICES = MMA_SIM_RESULTS / 256 };
    const unsigned words = f->k / 4 * f->bits / 32;
    uint32_t *const memory = calloc(4 * MATRICES, 1024);
    uint32_t *const a = memory, *const b = a + MATRICES * 256, *const c = b + MATRICES * 256;
    uint32_t *const d = c + MATRICES * 256;
    const struct t_buffer buffers[] = {{a, MATRICES * 1024, QUERN_SIM_READ, "a"},
                                       {b, MATRICES * 1024, QUERN_SIM_READ, "b"},
                                       {c, MATRICES * 1024, QUERN_SIM_READ, "c"},
                                       {d, MATRICES * 1024, QUERN_SIM_WRITE, "d"}};
    uint64_t state = index + 1, hash = 0xcbf29ce484222325u;
    char source[2048];
    struct t_gpu g;

    assert_non_null(memory);
    for (unsigned n = 0; n < MATRICES; n++)
        draw_operands(f, &state, a + n * 256, b + n * 256, c + n * 256);
    snprintf(source, sizeof source,
             "typedef u32 source_words%s;\n"
             "typedef u32 result_words __attribute__((ext_vector_type(4)));\n"
             "KERNEL k(const u32 *a, const u32 *b, const u32 *c, u32 *d)\n{\n"
             "    const u32 l = __builtin_amdgcn_workgroup_id_x() * 256 +\n"
             "                  __builtin_amdgcn_workitem_id_x();\n"
             "    source_words x, y;\n    result_words z;\n"
             "    for (u32 n = 0; n < %u; n++)\n"
             "        ((u32 *)&x)[n] = a[n * 64 + l], ((u32 *)&y)[n] = b[n * 64 + l];\n"
             "    for (u32 n = 0; n < 4; n++)\n        z[n] = c[n * 64 + l];\n"
             "    asm volatile(\"v_mfma_%s %%0, %%1, %%2, %%0\\n s_nop 15\\n s_nop 15\"\n"
             "                 : \"+v\"(z) : \"v\"(x), \"v\"(y));\n"
             "    for (u32 n = 0; n < 4; n++)\n        d[n * 64 + l] = z[n];\n}\n",
             words == 2 ? " __attribute__((ext_vector_type(2)))" : "", words, f->name);
    if (!t_gpu_has(f->target)) {
        free(memory);
        return;
    }
    t_gpu_open(&g, f->target, "", QUERN_CHECK_FULL, 0, 0);
    t_gpu_arithmetic(&g, QUERN_ARITHMETIC_SILICON);
    t_gpu_load(&g, source);
    t_gpu_run(
        &g,
        &(struct t_launch){
            .kernel = "k", .groups = {MATRICES}, .items = {64}, .buffers = buffers, .count = 4});
    for (unsigned n = 0; n < MATRICES * 256; n++) {
        const uint32_t got = d[n / 256 * 256 + n / 16 % 4 * 64 + n / 64 % 4 * 16 + n % 16];
        hash = digest(hash, got);
        if (n < COUNT(f->first) && digest(0, got) != digest(0, f->first[n]))
            fail_msg("%s, %s, element %u: %08x, not %08x", f->target, f->name, n, got, f->first[n]);
    }
    if (hash != f->digest)
        fail_msg("%s, %s: digest %016llx, not %016llx", f->target, f->name,
                 (unsigned long long)hash, (unsigned long long)f->digest);
    t_gpu_close(&g);
    free(memory);
}

static void test_mfma(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT(mma_sim_forms); i++)
        expect_model(&mma_sim_forms[i], i);
}

/* Compilers let D overlap C in part where a form takes few registers: all of C counts as it was. */
static void test_overlap(void **state)
{
    static const char *const targets[] = {"gfx90a", "gfx942"};
    static const char source[] =
        "KERNEL k(u32 *out)\n{\n"
        "    const u32 l = __builtin_amdgcn_workitem_id_x();\n"
        "    u32 x = 0x3c003c00 + l, d[8];\n"
        "    asm volatile(\"v_mov_b32 v40, %8\\n v_mov_b32 v41, %8\\n\"\n"
        "                 \"v_cvt_f32_u32 v50, %9\\n v_add_f32 v51, 1.0, v50\\n\"\n"
        "                 \"v_add_f32 v52, 1.0, v51\\n v_add_f32 v53, 1.0, v52\\n\"\n"
        "                 \"s_nop 15\\n\"\n"
        "                 \"v_mfma_f32_16x16x16f16 v[60:63], v[40:41], v[40:41], v[50:53]\\n\"\n"
        "                 \"s_nop 15\\n s_nop 15\\n\"\n"
        "                 \"v_mfma_f32_16x16x16f16 v[52:55], v[40:41], v[40:41], v[50:53]\\n\"\n"
        "                 \"s_nop 15\\n s_nop 15\\n\"\n"
        "                 \"v_mov_b32 %0, v60\\n v_mov_b32 %1, v61\\n v_mov_b32 %2, v62\\n\"\n"
        "                 \"v_mov_b32 %3, v63\\n v_mov_b32 %4, v52\\n v_mov_b32 %5, v53\\n\"\n"
        "                 \"v_mov_b32 %6, v54\\n v_mov_b32 %7, v55\"\n"
        "                 : \"=&v\"(d[0]), \"=&v\"(d[1]), \"=&v\"(d[2]), \"=&v\"(d[3]),\n"
        "                   \"=&v\"(d[4]), \"=&v\"(d[5]), \"=&v\"(d[6]), \"=&v\"(d[7])\n"
        "                 : \"v\"(x), \"v\"(l) : \"v40\", \"v41\", \"v50\", \"v51\", \"v52\",\n"
        "                   \"v53\", \"v54\", \"v55\", \"v60\", \"v61\", \"v62\", \"v63\");\n"
        "    for (u32 n = 0; n < 8; n++)\n        out[8 * l + n] = d[n];\n}\n";
    uint32_t out[64][8];
    const struct t_buffer buffer = {out, sizeof out, QUERN_SIM_WRITE, "out"};
    const struct t_launch launch = {.kernel = "k", .items = {64}, .buffers = &buffer, .count = 1};

    (void)state;
    for (unsigned n = 0; n < 2 * COUNT(targets); n++) {
        struct t_gpu g;
        if (!t_gpu_has(targets[n / 2]))
            continue;
        t_gpu_open(&g, targets[n / 2], "", QUERN_CHECK_FULL, 0, 0);
        t_gpu_arithmetic(&g, n % 2 ? QUERN_ARITHMETIC_SILICON : QUERN_ARITHMETIC_FAST);
        t_gpu_load(&g, source);
        t_gpu_run(&g, &launch);
        for (unsigned l = 0; l < 64; l++)
            for (unsigned e = 0; e < 4; e++)
                if (out[l][e] != out[l][e + 4])
                    fail_msg("%s, lane %u, element %u: %08x, not %08x", targets[n / 2], l, e,
                             out[l][e + 4], out[l][e]);
        t_gpu_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dots),          cmocka_unit_test(test_wmma),
        cmocka_unit_test(test_wmma_integers), cmocka_unit_test(test_wmma_packed),
        cmocka_unit_test(test_wmma_operands), cmocka_unit_test(test_mfma),
        cmocka_unit_test(test_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
