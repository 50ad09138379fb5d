/* SPDX-License-Identifier: MIT */
/* What a gfx1201 gave: digests of many results, and single ones. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "goc/captures.h"
#include "goc/rows.h"
#include "t_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS  16 /* of one kernel, at most */
#define ITEMS    256
#define COUNT(A) (sizeof(A) / sizeof *(A))
#define TEXT     288 /* of one column, at most, with its end */

/* Three operands of 64 bits for each lane: v[10:11], v[12:13], v[14:15]; a type of 32 bits has the
 * lower halves. Every instruction leaves its result in v[20:21]. */
struct corpus {
    uint32_t lanes, (*in)[6], (*out)[2]; /* out: by column, then lane */
};

static struct corpus corpus_of(uint32_t lanes)
{
    struct corpus c = {lanes, calloc(lanes, sizeof *c.in),
                       calloc((size_t)lanes * COLUMNS, sizeof *c.out)};

    assert_non_null(c.in);
    assert_non_null(c.out);
    return c;
}

static void corpus_free(struct corpus *c)
{
    free(c->in);
    free(c->out);
}

static void corpus_set(struct corpus *c, uint32_t lane, uint32_t operand, uint64_t value)
{
    c->in[lane][2 * operand] = (uint32_t)value;
    c->in[lane][2 * operand + 1] = (uint32_t)(value >> 32);
}

/* Runs `count` instructions on all lanes of the corpus. */
static void corpus_run(struct t_gpu *g, struct corpus *c, char (*texts)[TEXT], size_t count)
{
    static char source[COLUMNS * 1024];
    int n = snprintf(source, sizeof source,
                     "KERNEL k(const u32 *in, u32 *out)\n{\n"
                     "    const u32 l = __builtin_amdgcn_workitem_id_x() +\n"
                     "                  %d * __builtin_amdgcn_workgroup_id_x();\n"
                     "    u32 a, b;\n    in += 6 * l;\n",
                     ITEMS);

    for (size_t i = 0; i < count; i++)
        n += snprintf(source + n, sizeof source - (size_t)n,
                      "    asm volatile(\"v_mov_b32 v10, %%2\\n v_mov_b32 v11, %%3\\n \"\n"
                      "        \"v_mov_b32 v12, %%4\\n v_mov_b32 v13, %%5\\n \"\n"
                      "        \"v_mov_b32 v14, %%6\\n v_mov_b32 v15, %%7\\n \"\n"
                      "        \"v_mov_b32 v21, 0\\n %s\\n v_mov_b32 %%0, v20\\n \"\n"
                      "        \"v_mov_b32 %%1, v21\" : \"=v\"(a), \"=v\"(b)\n"
                      "        : \"v\"(in[0]), \"v\"(in[1]), \"v\"(in[2]), \"v\"(in[3]),\n"
                      "          \"v\"(in[4]), \"v\"(in[5])\n"
                      "        : \"v10\", \"v11\", \"v12\", \"v13\", \"v14\", \"v15\", \"v20\",\n"
                      "          \"v21\", \"s60\", \"s61\", \"vcc\");\n"
                      "    out[2 * (%uu + l)] = a;\n    out[2 * (%uu + l) + 1] = b;\n",
                      texts[i], (unsigned)i * c->lanes, (unsigned)i * c->lanes);
    snprintf(source + n, sizeof source - (size_t)n, "}\n");
    assert_true(count <= COLUMNS && (size_t)n + 3 < sizeof source);
    t_gpu_load(g, source);

    const struct t_buffer buffers[] = {
        {c->in, c->lanes * sizeof *c->in, QUERN_SIM_READ, "in"},
        {c->out, c->lanes * count * sizeof *c->out, QUERN_SIM_WRITE, "out"}};
    t_gpu_run(g, &(struct t_launch){.kernel = "k",
                                    .groups = {c->lanes / ITEMS},
                                    .items = {ITEMS},
                                    .buffers = buffers,
                                    .count = 2});
}

/* Of the first `bytes` bytes of every `step`th lane's result. */
static uint64_t digest(const struct corpus *c, size_t column, uint32_t step, uint32_t bytes,
                       uint64_t hash)
{
    for (uint32_t l = 0; l < c->lanes; l += step)
        for (uint32_t b = 0; b < bytes; b++) {
            const uint32_t word = c->out[column * c->lanes + l][b / 4];
            hash = (hash ^ (word >> 8 * (b % 4) & 0xff)) * 1099511628211u;
        }
    return hash;
}

#define DIGEST_OF_NOTHING 14695981039346656037u

static void expect(uint64_t got, uint64_t want, const char *text)
{
    if (got != want)
        fail_msg("%s: the digest is %016llx, not %016llx", text, (unsigned long long)got,
                 (unsigned long long)want);
}

static void expect_word(const char *text, uint32_t source, uint32_t got, uint32_t want)
{
    if (got != want)
        fail_msg("%s of %08x: %08x, not %08x", text, source, got, want);
}

static bool opened(struct t_gpu *g)
{
    if (!t_gpu_has("gfx1201"))
        return false;
    t_gpu_open(g, "gfx1201", "", QUERN_CHECK_FAST, 0, 0);
    return true;
}

/* ---- Classes and comparisons ----------------------------------------------------------------- */

/* Zeros, the least and largest denormals, the least normal, one, the largest, infinities, NaNs. */
static uint64_t edge(bool wide, uint32_t i)
{
    const uint32_t fraction = wide ? 52 : 23;
    const uint64_t unit = (uint64_t)1 << fraction, infinity = wide ? 2047 * unit : 255 * unit;
    const uint64_t pairs[] = {
        0, 1, unit - 1, unit, wide ? 1023 * unit : 127 * unit, infinity - 1, infinity};

    if (i < 14)
        return pairs[i / 2] | (uint64_t)(i % 2) << (wide ? 63 : 31);
    return infinity + 1 + (i == 15 ? unit / 2 : 0);
}

/* The mask that a comparison leaves, in a register of a lane: v_cmp's by `x` = false. */
static void mask_text(char text[TEXT], bool x, const char *name, const char *operands)
{
    if (x)
        snprintf(text, TEXT,
                 "s_mov_b32 s60, exec_lo\\n v_cmpx_%s %s\\n s_mov_b32 s61, exec_lo\\n "
                 "s_mov_b32 exec_lo, s60\\n v_mov_b32 v20, s61",
                 name, operands);
    else
        snprintf(text, TEXT, "v_cmp_%s s60, %s\\n v_mov_b32 v20, s60", name, operands);
}

static void classes(void **state)
{
    static const char *const forms[] = {"%s", "|%s|", "-%s", "-|%s|"};
    struct corpus c = corpus_of(65536);
    char texts[8][TEXT];
    struct t_gpu g;

    (void)state;
    for (uint32_t wide = 0; wide < 2 && t_gpu_has("gfx1201"); wide++) {
        for (uint32_t i = 0; i < c.lanes; i++) {
            const uint32_t random = i * 0x7395a831u ^ 0xa7925163u;
            corpus_set(&c, i, 0,
                       i < 32768 ? edge(wide, i % 16)
                       : wide    ? (uint64_t)random << 32 | (i * 0x83a1459du ^ 0x5389d241u)
                                 : random);
            corpus_set(&c, i, 1, i * 0x9e3779b9u ^ 0xa5a59669u);
        }
        for (uint32_t m = 0; m < 8; m++) {
            const char *form = forms[m % 4], *at = strstr(form, "%s");
            char operands[64];
            snprintf(operands, sizeof operands, "%.*s%s%s, v12", (int)(at - form), form,
                     wide ? "v[10:11]" : "v10", at + 2);
            mask_text(texts[m], m >= 4, wide ? "class_f64" : "class_f32", operands);
        }
        opened(&g);
        corpus_run(&g, &c, texts, 8);
        for (uint32_t m = 0; m < 8; m++)
            expect(digest(&c, m, 32, 4, DIGEST_OF_NOTHING), goc_class[wide][m % 4], texts[m]);
        t_gpu_close(&g);
    }
    corpus_free(&c);
}

static void compare_inputs(struct corpus *c, bool wide)
{
    for (uint32_t i = 0; i < c->lanes; i++) {
        uint64_t a = (uint64_t)(i * 0x7395a831u ^ 0xa7925163u) << 32;
        uint64_t b = (uint64_t)(i * 0x38459317u ^ 0x187abd31u) << 32;
        a |= i * 0x83a1459du ^ 0x5389d241u;
        b |= i * 0x9e3779b9u ^ 0xa5a59669u;
        if (i < 256) {
            a = edge(wide, i % 16);
            b = edge(wide, i / 16);
        } else if (i % 4 == 0) {
            b = a;
        } else if (wide && i % 4 == 1) {
            b = (a >> 32) << 32 | (uint32_t)b;
        }
        corpus_set(c, i, 0, a);
        corpus_set(c, i, 1, b);
    }
}

static void comparisons(void **state)
{
    struct corpus c = corpus_of(4096);
    char texts[16][TEXT];
    struct t_gpu g;

    (void)state;
    if (!opened(&g)) {
        corpus_free(&c);
        return;
    }
    for (uint32_t n = 0; n < 2 * 2 * 14; n++) {
        const uint32_t wide = n / 28, x = n / 14 % 2, predicate = n % 14;
        const char *const names[] = {wide ? "v[10:11]" : "v10", wide ? "v[12:13]" : "v12"};
        uint64_t hash = DIGEST_OF_NOTHING;
        char name[16];
        snprintf(name, sizeof name, "%s_f%d", goc_predicates[predicate], wide ? 64 : 32);
        compare_inputs(&c, wide);
        for (uint32_t m = 0; m < 16; m++) {
            const char *const bar[] = {m & 1 ? "|" : "", m & 2 ? "|" : ""};
            char operands[64];
            snprintf(operands, sizeof operands, "%s%s%s%s, %s%s%s%s", m & 4 ? "-" : "", bar[0],
                     names[0], bar[0], m & 8 ? "-" : "", bar[1], names[1], bar[1]);
            mask_text(texts[m], x, name, operands);
        }
        corpus_run(&g, &c, texts, 16);
        for (uint32_t m = 0; m < 16; m++)
            hash = digest(&c, m, 32, 4, hash);
        expect(hash, goc_compare[wide][predicate], texts[0]);
    }
    t_gpu_close(&g);
    corpus_free(&c);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(classes), cmocka_unit_test(comparisons),
                                       cmocka_unit_test(bytes),   cmocka_unit_test(halves),
                                       cmocka_unit_test(fused),   cmocka_unit_test(f64_modifiers),
                                       cmocka_unit_test(carries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
